"""The paper, and what its networks have in common in all experiments."""

__all__ = ["LSTM_BIASES", "LSTM_START", "SOURCE", "THEANO"]

SOURCE = "Helfrich, Willmott and Ye, ICML 2018. https://arxiv.org/abs/1707.09520"
LSTM_BIASES = "torch's LSTM has two bias vectors a gate where TensorFlow's has one"
LSTM_START = {"start": "glorot", "forget_bias": 1.0}
THEANO = "torch's RMSprop with alpha 0.9: Theano's has no epsilon and starts at 1e-3"
