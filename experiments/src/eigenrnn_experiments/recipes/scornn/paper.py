"""The reference of the paper, and the settings that its experiments share."""

__all__ = ["LSTM_BIASES", "LSTM_INIT", "SOURCE", "THEANO"]

SOURCE = "Helfrich, Willmott and Ye, ICML 2018. https://arxiv.org/abs/1707.09520"
LSTM_BIASES = "torch's LSTM has two bias vectors per gate, TensorFlow's has one"
LSTM_INIT = {"init": "glorot", "forget_bias": 1.0}
THEANO = (
    "torch's RMSprop with alpha 0.9; Theano's has no epsilon, and its accumulator starts at 1e-3"
)
