"""Prints how far layers with rounded products are from float64, by the number of steps.

In the last columns the recurrent matrix is rounded to the nearest numbers of bfloat16, as torch's
layers round it under autocast, and not split.

Run with ``python -m benchmarks.rounding_of_products``. On a processor without AMX, plain code
computes the same tiles.
"""

import copy
from statistics import median

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from eigenrnn import GRU, LSTM, RNN, ScoRNN
from eigenrnn.constraints import Exponential
from eigenrnn.ops import precision
from eigenrnn.ops.compiled import unavailable

__all__ = ["errors", "main"]

UNITS = 170
INPUTS = 10
SEQUENCES = 16
STEPS = (10, 100, 1000)
SEEDS = (0, 1, 2)
LAYERS = {
    "ScoRNN": lambda: ScoRNN(INPUTS, UNITS),
    "RNN, tanh, orthogonal": lambda: RNN(
        INPUTS, UNITS, nonlinearity="tanh", constraint=Exponential
    ),
    "GRU": lambda: GRU(INPUTS, UNITS),
    "LSTM": lambda: LSTM(INPUTS, UNITS),
}
SWITCHES = {"bfloat16": "medium", "split": "high", "float32": "highest"}
ROUNDED = "W rounded once"


def last_state_and_gradient(layer: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the last state, and its gradient by the first input."""
    x = x.clone().requires_grad_()
    output, _ = layer(x)
    last = output[-1]
    weights = torch.linspace(-1, 1, last.numel(), dtype=last.dtype).view_as(last)
    (gradient,) = torch.autograd.grad(last, x, weights)
    return last.detach(), gradient[0]


def with_rounded_matrices(layer: nn.Module) -> nn.Module:
    """Return a frozen copy whose recurrent matrices are numbers of bfloat16."""
    frozen = copy.deepcopy(layer).freeze()
    for direction in frozen.all_directions():
        direction.frozen = direction.frozen.bfloat16().float()
    return frozen


def errors(name: str, T: int, seed: int) -> dict[str, tuple[float, float]]:
    """Return the relative errors of the last state and of the gradient, by products."""
    torch.manual_seed(seed)
    layer = LAYERS[name]()
    x = torch.randn(T, SEQUENCES, INPUTS)
    found: dict[str, tuple[Tensor, Tensor]] = {}
    for products, switch in SWITCHES.items():
        torch.set_float32_matmul_precision(switch)
        found[products] = last_state_and_gradient(layer, x)
    torch.set_float32_matmul_precision("medium")
    found[ROUNDED] = last_state_and_gradient(with_rounded_matrices(layer), x)
    torch.set_float32_matmul_precision("highest")
    exact = last_state_and_gradient(layer.double(), x.double())
    return {
        products: (distance(state, exact[0]), distance(gradient, exact[1]))
        for products, (state, gradient) in found.items()
    }


def distance(found: Tensor, exact: Tensor) -> float:
    """Return the 2-norm of the difference over that of the exact numbers; NaN if it is zero."""
    return float((found - exact).norm() / exact.norm())


def main() -> None:
    """Print the table.

    Raises:
        SystemExit: If the compiled kernels were not built.
    """
    if reason := unavailable():
        raise SystemExit(f"the rounding is that of the compiled kernels: {reason}")
    precision.has_tiles = True
    table = Table("layer", "T")
    for products in (*SWITCHES, ROUNDED):
        table.add_column(f"{products}: state")
        table.add_column(f"{products}: gradient")
    for name in LAYERS:
        for T in STEPS:
            runs = [errors(name, T, seed) for seed in SEEDS]
            middle: list[float] = []
            for products in (*SWITCHES, ROUNDED):
                middle.append(median(run[products][0] for run in runs))
                middle.append(median(run[products][1] for run in runs))
            table.add_row(name, str(T), *(f"{number:.1e}" for number in middle))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
