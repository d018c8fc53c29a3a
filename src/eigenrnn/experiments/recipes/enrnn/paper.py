"""The reference of the paper, and the settings that its experiments share."""

from typing import Any

from eigenrnn.experiments.training import Settings

__all__ = ["LSTM_BIASES", "SOURCE", "THEANO", "lstm_init", "tf1"]

SOURCE = "Helfrich and Ye, AAAI 2020. https://arxiv.org/abs/1911.07964"
LSTM_BIASES = "torch's LSTM has two bias vectors per gate, TensorFlow's has one"
THEANO = (
    "torch's RMSprop with alpha 0.9; Theano's has no epsilon, and its accumulator starts at 1e-3"
)


def lstm_init(forget_bias: float) -> dict[str, Any]:
    """Return the options of an LSTM with the initialisation of TensorFlow."""
    return {"init": "glorot", "forget_bias": forget_bias}


def tf1(lr: float, lr_recurrent: float | None = None, **settings: Any) -> Settings:
    """Return settings with TensorFlow's RMSProp and a separate learning rate for A."""
    return Settings(
        optimiser="rmsprop_tf1", lr=lr, lr_recurrent=lr_recurrent or lr, log_every=50, **settings
    )
