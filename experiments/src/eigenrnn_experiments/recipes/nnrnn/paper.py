"""The reference of the paper, and the networks that its recipes compare."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn

from eigenrnn.analysis import schur_structure
from eigenrnn.constraints import Exponential
from eigenrnn.init import Initializer, weights_
from eigenrnn.layers import EURNN, ExpRNN, NnRNN, RNNGlorot
from eigenrnn_experiments.baselines import TorchLSTM
from eigenrnn_experiments.recipes.setup import Network
from eigenrnn_experiments.tasks import Task

__all__ = ["SOURCE", "cayley_", "eurnn", "exprnn", "lstm", "nnrnn", "rnn", "schur_scores"]

SOURCE = "Kerg et al., NeurIPS 2019. https://arxiv.org/abs/1905.12080"
_LSTM_BIASES = "torch's LSTM has two bias vectors per gate, the released code has one"
_EURNN_UNSTATED = (
    "the paper does not state the number of EURNN's layers of rotations, and its code was not "
    "released; we take complex units and as many layers as give the stated number of parameters"
)


def nnrnn(
    size: int,
    *,
    parameters: int,
    init: Literal["henaff", "cayley", "haar"],
    gamma_penalty: float,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Network:
    """Return an nnRNN whose triangle decays.

    Args:
        size: The number N of units.
        parameters: The number of trained parameters.
        init: The initialisation of its orthogonal basis.
        gamma_penalty: The penalty of moduli other than one.
        options: Further arguments of `NnRNN`.
        settings: The training settings.
    """
    basis = partial(Exponential, init=init)
    return Network(
        f"nnRNN {size}",
        NnRNN,
        size,
        parameters,
        {"orthogonal": basis, "gamma_penalty": gamma_penalty, **(options or {})},
        {"weight_decay_of": ("triangle",), **settings},
    )


def exprnn(
    size: int, *, parameters: int, matrix_init: str, weight_ih: Initializer, **settings: Any
) -> Network:
    """Return an expRNN with its own training settings."""
    options = {"matrix_init": matrix_init, "init": partial(weights_, weight_ih=weight_ih)}
    return Network(f"expRNN {size}", ExpRNN, size, parameters, options, settings)


def lstm(size: int, *, parameters: int, **settings: Any) -> Network:
    """Return an LSTM with its own training settings."""
    options = {"init": "glorot_normal"}
    departures = (_LSTM_BIASES,)
    return Network(
        f"LSTM {size}", TorchLSTM, size, parameters, options, settings, departures=departures
    )


def eurnn(
    size: int, *, parameters: int, capacity: int, departures: tuple[str, ...] = (), **settings: Any
) -> Network:
    """Return an EURNN with this many layers of rotations, and its own training settings."""
    return Network(
        f"EURNN {size}",
        EURNN,
        size,
        parameters,
        {"capacity": capacity},
        settings,
        quick_options={"capacity": 4},
        departures=(_EURNN_UNSTATED, *departures),
    )


def rnn(size: int, *, parameters: int, weight_ih: Initializer, **settings: Any) -> Network:
    """Return an RNN without constraints, with its own training settings."""
    options = {"init": partial(weights_, weight_ih=weight_ih)}
    return Network(f"RNN {size}", RNNGlorot, size, parameters, options, settings)


@torch.no_grad()
def cayley_(weight: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Fill with the orthogonal matrix of expRNN's "Cayley" initialisation."""
    constraint = Exponential(len(weight), init="cayley")
    constraint.reset(generator)
    return weight.copy_(constraint())


def schur_scores(model: nn.Module, task: Task, folder: Path) -> dict[str, float]:  # noqa: ARG001
    """Measure the triangle T: its share of the norm, and how much of a delay line it is."""
    structure = schur_structure(model)
    delay_line = structure.by_diagonal[1]
    below = structure.by_diagonal[2:].mean()
    return {
        "share_below_blocks": structure.off_diagonal,
        # 1 for a T of zeros, where no sub-diagonal stands out
        "delay_line_ratio": float(delay_line / below) if below else 1.0,
    }
