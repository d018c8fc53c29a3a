"""Times training with a leak and noise, relative to the layer with neither.

Run with ``python -m benchmarks.leak``. It measures processor time on one thread.
"""

import time
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from eigenrnn import RNN
from eigenrnn.constraints import Unconstrained
from eigenrnn.experiments.bench import interleave

__all__ = ["main"]

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "leak": {"leak": 0.2},
    "leak, state='current'": {"leak": 0.2, "state": "current"},
    "trained leak": {"leak": 0.2, "trainable_leak": True},
    "leak and noise": {"leak": 0.2, "noise": 0.1},
}
SIZES = ((100, 64, 64), (200, 128, 128), (784, 128, 170))  # T, B, N


def training_step(layer: RNN, x: torch.Tensor) -> None:
    """Run a forward and a backward pass."""
    h, _ = layer(x)
    h.square().mean().backward()


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    table = Table("T, B, N", "option", "ms", "relative to plain")
    for T, B, N in SIZES:
        x = torch.randn(T, B, 4)
        runs = {
            name: partial(
                training_step,
                RNN(4, N, nonlinearity="tanh", constraint=Unconstrained, **options),
                x,
            )
            for name, options in OPTIONS.items()
        }
        for name, timing in interleave(runs, "plain", 15, time.process_time).items():
            first, third = timing.spread
            ratio = f"{timing.ratio:.2f} ({first:.2f} to {third:.2f})"
            table.add_row(f"{T}, {B}, {N}", name, f"{timing.median_ms:.1f}", ratio)
    Console().print(table)


if __name__ == "__main__":
    main()
