"""The benchmarked layers, and the training step that is timed."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from eigenrnn.constraints import ScaledCayley
from eigenrnn.errors import check_installed
from eigenrnn.layers import GRU, LSTM, RNN
from eigenrnn.ops.compiled import unavailable

__all__ = [
    "GRUS",
    "JAX",
    "LSTMS",
    "REFERENCE",
    "benchmarked_layers",
    "jax_step",
    "operations",
    "product_gflops",
    "step",
]

REFERENCE = "torch.nn.RNN(tanh)"
"""The layer to which all others are compared."""

LSTMS = ("torch.nn.LSTM", "LSTM, compiled")
GRUS = ("torch.nn.GRU", "GRU, compiled", "GRU, loop")
"""The layers with four recurrent matrices and with three; all others have one."""

JAX = "JAX, jit of a lax.scan (tanh)"


def benchmarked_layers(N: int, slow: bool = False) -> dict[str, nn.Module]:
    """Return the layers by name, each with one input channel.

    Args:
        N: The hidden size.
        slow: Whether to include Python loops over torch operations.
    """
    modrelu = partial(RNN, 1, N, constraint=ScaledCayley)
    named: dict[str, nn.Module] = {
        REFERENCE: nn.RNN(1, N),
        "torch.nn.LSTM": nn.LSTM(1, N),
        "torch.nn.GRU": nn.GRU(1, N),
    }
    if not unavailable():
        named["RNN(modReLU), compiled"] = modrelu(backend="cpu")
        named["GRU, compiled"] = GRU(1, N, backend="cpu")
        named["LSTM, compiled"] = LSTM(1, N, backend="cpu")
    named["RNN(modReLU), loop"] = modrelu(backend="loop")
    named["GRU, loop"] = GRU(1, N, backend="loop")
    if slow:
        named["a plain loop under autograd"] = Loop(N)
        named["a loop with geotorch's orthogonal matrix"] = GeotorchLoop(N)
    return named


def operations(layer: str, T: int, B: int, N: int) -> int:
    """Return the operations of forward and backward, with the recurrent matrices alone.

    Each of them takes part in three products, of two operations per weight, step and sequence.
    """
    matrices = 1
    if layer in LSTMS:
        matrices = 4
    elif layer in GRUS:
        matrices = 3
    return 6 * matrices * T * B * N**2


def step(layer: nn.Module, x: Tensor, *, autocast: bool = False) -> None:
    """Run a forward and a backward pass that use all states and give all weights a gradient."""
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        outputs = layer(x)[0]
    outputs.sum().backward()


def jax_step(
    x: Tensor,  # (T, B, M)
    N: int,
) -> Callable[[], object]:
    """Return a call of the same step of a tanh RNN in JAX, with gradients of all its weights."""
    check_installed("eigenrnn[dev]", "the comparison with JAX", "jax")
    jax: Any = import_module("jax")
    rnn = nn.RNN(x.shape[2], N)
    arrays = [parameter.detach().numpy() for parameter in rnn.parameters()]

    def loss(weights: Sequence[Any], x: Any) -> Any:
        U, W, c, b = weights

        def advance(h: Any, z: Any) -> tuple[Any, Any]:
            h = jax.numpy.tanh(z + h @ W.T)
            return h, h

        h0 = jax.numpy.zeros((x.shape[1], N), x.dtype)
        return jax.lax.scan(advance, h0, x @ U.T + (c + b))[1].sum()

    gradient = jax.jit(jax.grad(loss))
    weights = jax.device_put(arrays)
    inputs = jax.device_put(x.numpy())
    return lambda: jax.block_until_ready(gradient(weights, inputs))


class Loop(nn.Module):
    """A tanh RNN as a plain Python loop over `torch.nn.RNNCell`."""

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
    """The same loop with an orthogonal matrix from geotorch, built once per sequence."""

    def __init__(self, N: int) -> None:
        check_installed("eigenrnn[dev]", "the loop with geotorch", "geotorch")
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
    """Return the best rate of an n x n x n matrix product in float32, in Gflop/s."""
    a = torch.randn(n, n)
    b = torch.randn(n, n)
    out = torch.empty(n, n)
    best = math.inf
    for _ in range(rounds + 1):  # the first one warms up; as the slowest it never counts
        start = clock()
        torch.mm(a, b, out=out)
        best = min(best, clock() - start)
    return 2 * n**3 / best / 1e9
