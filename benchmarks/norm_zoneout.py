"""Times training with LayerNorm and zoneout, relative to the compiled layer with neither.

Run with ``python -m benchmarks.norm_zoneout``. It measures processor time on one thread.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.sequences import Timing, interleave
from eigenrnn import GRU, RNN
from eigenrnn.ops import use_backend

__all__ = ["main", "measure"]

T, B, M, RATE = 200, 32, 32, 0.1
BOTH = {"layer_norm": True, "zoneout": RATE}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "layer_norm": {"layer_norm": True},
    "zoneout": {"zoneout": RATE},
    "both": BOTH,
}
OTHERS = {RNN: "loop", GRU: "reference"}  # the fastest other backend with both options


def training_step(layer: Any, x: torch.Tensor, backend: str | None = None) -> None:
    """Run a forward and a backward pass."""
    with use_backend(backend):
        h, _ = layer(x)
    h.square().mean().backward()


def measure(make: Callable[..., Any], N: int, rounds: int) -> dict[str, Timing]:
    """Return the times of all options, relative to none, and of another backend with both."""
    x = torch.randn(T, B, M)
    runs = {
        name: partial(training_step, make(M, N, **options), x) for name, options in OPTIONS.items()
    }
    runs["both, other backend"] = partial(training_step, make(M, N, **BOTH), x, OTHERS[make])
    runs["evaluation, zoneout"] = partial(training_step, make(M, N, zoneout=RATE).eval(), x)
    return interleave(runs, "plain", rounds, time.process_time)


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    table = Table("layer", "N", "option", "ms", "relative to plain")
    for make in (RNN, GRU):
        for N in (170, 512):
            for name, timing in measure(make, N, rounds=9).items():
                first, third = timing.spread
                ratio = f"{timing.ratio:.2f} ({first:.2f} to {third:.2f})"
                table.add_row(make.__name__, str(N), name, f"{timing.median_ms:.1f}", ratio)
    Console().print(table)


if __name__ == "__main__":
    main()
