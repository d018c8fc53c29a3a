"""The layers that are timed, and what they are asked to do."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from eigenrnn.constraints import ScaledCayley
from eigenrnn.layers import GRU, RNN
from eigenrnn.ops.compiled import missing

__all__ = ["REFERENCE", "contestants", "product_gflops", "step"]

REFERENCE = "torch.nn.RNN(tanh)"
"""What the others are divided by."""


def contestants(N: int, slow: bool = False) -> dict[str, nn.Module]:
    """Make the contestants, all with one input channel; those over steps of torch are slow."""
    modrelu = partial(RNN, 1, N, constraint=ScaledCayley)
    compiled: dict[str, nn.Module] = {
        "RNN(modReLU), compiled": modrelu(backend="cpu"),
        "GRU, compiled": GRU(1, N, backend="cpu"),
    }
    plain: dict[str, nn.Module] = {
        "a plain loop under autograd": Loop(N),
        "a loop with geotorch's orthogonal matrix": GeotorchLoop(N),
    }
    return {
        REFERENCE: nn.RNN(1, N),
        "torch.nn.LSTM": nn.LSTM(1, N),
        "torch.nn.GRU": nn.GRU(1, N),
        **({} if missing() else compiled),
        "RNN(modReLU), loop": modrelu(backend="loop"),
        "GRU, loop": GRU(1, N, backend="loop"),
        **(plain if slow else {}),
    }


def step(layer: nn.Module, x: Tensor) -> None:
    """Take one training step's worth of work: all states used, all weights' gradients."""
    layer(x)[0].sum().backward()


class Loop(nn.Module):
    """What one writes without a library: a tanh cell, called at every step."""

    def __init__(self, N: int) -> None:
        super().__init__()
        self.cell = nn.RNNCell(1, N)

    def forward(
        self,
        x: Tensor,  # (T, B, 1)
    ) -> tuple[Tensor, Tensor]:
        h = x.new_zeros(x.shape[1], self.cell.hidden_size)
        states: list[Tensor] = []
        for x_t in x.unbind():
            h = self.cell(x_t, h)
            states.append(h)
        return torch.stack(states), h


class GeotorchLoop(Loop):
    """The same with the matrix kept orthogonal by geotorch, built once a sequence."""

    def __init__(self, N: int) -> None:
        import geotorch

        super().__init__(N)
        geotorch.orthogonal(self.cell, "weight_hh")

    def forward(
        self,
        x: Tensor,  # (T, B, 1)
    ) -> tuple[Tensor, Tensor]:
        with nn.utils.parametrize.cached():
            return super().forward(x)


def product_gflops(clock: Callable[[], float], n: int = 2048, rounds: int = 5) -> float:
    """Return the best rate of an n x n x n product in float32, the machine's usual yardstick."""
    a, b, out = (torch.randn(n, n) for _ in range(3))
    best = math.inf
    for _ in range(rounds + 1):
        began = clock()
        torch.mm(a, b, out=out)
        best = min(best, clock() - began)
    return 2 * n**3 / best / 1e9
