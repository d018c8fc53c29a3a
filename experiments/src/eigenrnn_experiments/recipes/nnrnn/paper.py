"""The reference of the paper, and the settings that its experiments share."""

from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn

from eigenrnn.analysis import schur_structure
from eigenrnn.constraints import Exponential
from eigenrnn_experiments.tasks import Task

__all__ = [
    "EURNN_UNSTATED",
    "LSTM_BIASES",
    "LSTM_INIT",
    "SOURCE",
    "cayley_",
    "nnrnn_options",
    "schur_scores",
]

SOURCE = "Kerg et al., NeurIPS 2019. https://arxiv.org/abs/1905.12080"
LSTM_INIT = {"init": "glorot_normal"}
LSTM_BIASES = "torch's LSTM has two bias vectors per gate, the released code has one"
EURNN_UNSTATED = (
    "the paper does not state the number of EURNN's layers of rotations, and its code was not "
    "released; we take complex units and as many layers as give the stated number of parameters"
)


def nnrnn_options(
    init: Literal["henaff", "cayley", "haar"], gamma_penalty: float, **options: Any
) -> dict[str, Any]:
    """Return nnRNN's options: its initialisation and the penalty of moduli other than one."""
    basis = partial(Exponential, init=init)
    return {"orthogonal": basis, "gamma_penalty": gamma_penalty, **options}


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
