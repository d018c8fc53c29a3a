"""The paper, and what its networks have in common in all experiments."""

from functools import partial
from typing import Any, Literal

import torch
from torch import Generator, Tensor

from eigenrnn.constraints import Exponential

__all__ = ["EURNN_UNSTATED", "LSTM_BIASES", "LSTM_START", "SOURCE", "cayley_", "nnrnn_options"]

SOURCE = "Kerg et al., NeurIPS 2019. https://arxiv.org/abs/1905.12080"
LSTM_START = {"start": "glorot_normal"}
LSTM_BIASES = "torch's LSTM has two bias vectors a gate where the released code has one"
EURNN_UNSTATED = (
    "the paper does not state how many layers of rotations EURNN has, and its code was not "
    "released: complex units, and as many layers as give the stated number of parameters"
)


def nnrnn_options(
    start: Literal["henaff", "cayley", "haar"], gamma_penalty: float, **more: Any
) -> dict[str, Any]:
    """Choose nnRNN's start, and the pull of its moduli towards one; T decays in the optimiser."""
    basis = partial(Exponential, start=start)
    return {"orthogonal": basis, "gamma_penalty": gamma_penalty, **more}


@torch.no_grad()
def cayley_(weight: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Fill with the orthogonal matrix from which expRNN's "Cayley" start begins."""
    start = Exponential(len(weight), start="cayley")
    start.reset(generator)
    return weight.copy_(start())
