"""The paper, and what its networks have in common in all experiments."""

from typing import Any

from eigenrnn.experiments.training import Settings

__all__ = ["LSTM_BIASES", "SOURCE", "THEANO", "lstm_start", "tf1"]

SOURCE = "Helfrich and Ye, AAAI 2020. https://arxiv.org/abs/1911.07964"
LSTM_BIASES = "torch's LSTM has two bias vectors a gate where TensorFlow's has one"
THEANO = "torch's RMSprop with alpha 0.9: Theano's has no epsilon and starts at 1e-3"


def lstm_start(forget_bias: float) -> dict[str, Any]:
    """Choose TensorFlow's start of an LSTM."""
    return {"start": "glorot", "forget_bias": forget_bias}


def tf1(lr: float, lr_recurrent: float | None = None, **options: Any) -> Settings:
    """Choose TensorFlow's RMSProp, with a rate of its own for A."""
    return Settings(
        optimiser="rmsprop_tf1", lr=lr, lr_recurrent=lr_recurrent or lr, log_every=50, **options
    )
