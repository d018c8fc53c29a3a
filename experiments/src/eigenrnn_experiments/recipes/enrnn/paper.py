"""The reference of the paper, and the departures that its experiments share."""

__all__ = ["LSTM_BIASES", "SOURCE", "THEANO"]

SOURCE = "Helfrich and Ye, AAAI 2020. https://arxiv.org/abs/1911.07964"
LSTM_BIASES = "torch's LSTM has two bias vectors per gate, TensorFlow's has one"
THEANO = (
    "torch's RMSprop with alpha 0.9; Theano's has no epsilon, and its accumulator starts at 1e-3"
)
