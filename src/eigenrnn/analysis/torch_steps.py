"""One step of torch's recurrent layers in plain operations, which torch.func can transform."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

__all__ = ["Weights", "gru_step", "lstm_step", "rnn_step"]

Step = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Weights:
    """The weights of one layer in one direction, gates one below the other.

    Shape:
        U: :math:`(G N, M)`; W: :math:`(G N, N)`; b, c: :math:`(G N,)`, zero where there is none.
    """

    U: Tensor
    W: Tensor
    b: Tensor
    c: Tensor

    @classmethod
    def of(cls, layer: Any, name: str) -> Self:
        """Read them; a constrained matrix is what its constraint gives."""
        U, W = getattr(layer, f"weight_ih_{name}"), getattr(layer, f"weight_hh_{name}")
        zero = W.new_zeros(len(W))
        b = getattr(layer, f"bias_ih_{name}") if layer.bias else zero
        c = getattr(layer, f"bias_hh_{name}") if layer.bias else zero
        return cls(*(each.detach() for each in (U, W, b, c)))


def rnn_step(weights: Weights, nonlinearity: str) -> Step:
    """Return the step of `torch.nn.RNN`."""
    f = torch.tanh if nonlinearity == "tanh" else torch.relu

    def step(x: Tensor, h: Tensor) -> Tensor:
        return f(x @ weights.U.T + weights.b + h @ weights.W.T + weights.c)

    return step


def gru_step(weights: Weights) -> Step:
    """Return the step of `torch.nn.GRU`, whose gates are reset, update and candidate."""

    def step(x: Tensor, h: Tensor) -> Tensor:
        x_r, x_z, x_n = (x @ weights.U.T + weights.b).chunk(3, dim=-1)
        h_r, h_z, h_n = (h @ weights.W.T + weights.c).chunk(3, dim=-1)
        z = torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
        return (1 - z) * n + z * h

    return step


def lstm_step(weights: Weights) -> Step:
    """Return the step of `torch.nn.LSTM` on states (h, c), one beside the other."""

    def step(x: Tensor, state: Tensor) -> Tensor:
        h, c = state.chunk(2, dim=-1)
        i, f, g, o = (x @ weights.U.T + weights.b + h @ weights.W.T + weights.c).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], dim=-1)

    return step
