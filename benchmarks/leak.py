"""Times training and streams with a leak and noise, relative to the layer with neither.

Run with ``python -m benchmarks.leak``. It measures processor time on one thread.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.sequences import interleave
from eigenrnn import RNN, LeakyRNN, Stream
from eigenrnn.constraints import Unconstrained

__all__ = ["main"]

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "leak": {"leak": 0.2},
    "leak, state='current'": {"leak": 0.2, "state": "current"},
    "trained leak": {"leak": 0.2, "trainable_leak": True},
    "leak and noise": {"leak": 0.2, "noise": 0.1},
}
SIZES = ((100, 64, 64), (200, 128, 128), (784, 128, 170))  # T, B, N
NOISY = {"leak": 0.2, "noise": 0.1, "noise_in_eval": True}
STEPS = 200  # of a stream, in each timed round


def training_step(layer: RNN | LeakyRNN, x: torch.Tensor) -> None:
    """Run a forward and a backward pass."""
    h, _ = layer(x)
    h.square().mean().backward()


@torch.no_grad()
def stream_steps(stream: Stream, x: torch.Tensor) -> None:
    """Run the steps of a stream."""
    for _ in range(STEPS):
        stream(x)


def layer_with(N: int, options: dict[str, Any]) -> RNN | LeakyRNN:
    """Return a tanh layer with 4 inputs."""
    make: Any = LeakyRNN if options else RNN
    return make(4, N, nonlinearity="tanh", constraint=Unconstrained, **options)


def compare(table: Table, shape: str, runs: dict[str, Callable[[], object]], unit: float) -> None:
    """Time calls in turn, and add a row for each; the unit is in milliseconds of a call."""
    for name, timing in interleave(runs, "plain", 15, time.process_time).items():
        first, third = timing.spread
        ratio = f"{timing.ratio:.2f} ({first:.2f} to {third:.2f})"
        table.add_row(shape, name, f"{timing.median_ms / unit:.1f}", ratio)


def main() -> None:
    """Print a table of training, and one of the steps of streams."""
    torch.set_num_threads(1)
    table = Table("T, B, N", "option", "ms", "relative to plain")
    for T, B, N in SIZES:
        x = torch.randn(T, B, 4)
        training: dict[str, Callable[[], object]] = {
            name: partial(training_step, layer_with(N, options), x)
            for name, options in OPTIONS.items()
        }
        compare(table, f"{T}, {B}, {N}", training, 1.0)
    Console().print(table)
    table = Table("N", "option", "microseconds of a step", "relative to plain")
    for N in (64, 256):
        x = torch.randn(4)
        streams: dict[str, Callable[[], object]] = {
            name: partial(stream_steps, Stream(layer_with(N, options).freeze()), x)
            for name, options in (OPTIONS | {"leak and noise": NOISY}).items()
        }
        compare(table, f"{N}", streams, STEPS / 1000)
    Console().print(table)


if __name__ == "__main__":
    main()
