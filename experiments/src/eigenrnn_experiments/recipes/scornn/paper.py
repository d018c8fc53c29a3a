"""The reference of the paper, and networks that this paper and later ones compare."""

from dataclasses import replace
from typing import Any

from eigenrnn.init import Initializer
from eigenrnn.layers import URNN, FullCapacityURNN, ScoRNN
from eigenrnn_experiments.baselines import TorchLSTM
from eigenrnn_experiments.recipes.setup import Network

__all__ = ["SOURCE", "full_urnn", "lstm", "restricted_urnn", "scornn"]

SOURCE = "Helfrich, Willmott and Ye, ICML 2018. https://arxiv.org/abs/1707.09520"
_LSTM_BIASES = "torch's LSTM has two bias vectors per gate, TensorFlow's has one"
_THEANO = (
    "torch's RMSprop with alpha 0.9; Theano's has no epsilon, and its accumulator starts at 1e-3"
)
_RMSPROP = {"optimiser": "rmsprop", "alpha": 0.9}


def scornn(size: int, *, parameters: int, negative: int, **settings: Any) -> Network:
    """Return a scoRNN with `negative` entries -1 in D, and its own training settings."""
    options = {"negative": negative}
    return Network(f"scoRNN {size}", ScoRNN, size, parameters, options, settings)


def lstm(
    size: int,
    *,
    parameters: int,
    forget_bias: float = 1.0,
    departures: tuple[str, ...] = (),
    **settings: Any,
) -> Network:
    """Return an LSTM with the initialisation of TensorFlow, and its own training settings."""
    return Network(
        f"LSTM {size}",
        TorchLSTM,
        size,
        parameters,
        {"init": "glorot", "forget_bias": forget_bias},
        settings,
        departures=(_LSTM_BIASES, *departures),
    )


def restricted_urnn(
    size: int, *, parameters: int, head_bias_init: Initializer | None = None, **settings: Any
) -> Network:
    """Return a restricted-capacity uRNN, trained by RMSprop with further settings."""
    return Network(
        f"restricted-capacity uRNN {size}",
        URNN,
        size,
        parameters,
        settings=_RMSPROP | settings,
        head_bias_init=head_bias_init,
        departures=(_THEANO,),
    )


def full_urnn(size: int, *, parameters: int, **options: Any) -> Network:
    """Return a full-capacity uRNN, trained as the restricted one."""
    like = restricted_urnn(size, parameters=parameters, **options)
    return replace(like, label=f"full-capacity uRNN {size}", layer=FullCapacityURNN)
