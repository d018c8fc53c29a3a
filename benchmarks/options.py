"""Times training with LayerNorm, zoneout, a leak and noise, relative to the layer with none.

Run with ``python -m benchmarks.options``. It measures processor time on one thread.
"""

import time
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.sequences import interleave
from eigenrnn import GRU, RNN, LeakyRNN
from eigenrnn.constraints import Unconstrained
from eigenrnn.ops import use_backend

__all__ = ["main"]

BOTH: dict[str, Any] = {"layer_norm": True, "zoneout": 0.1}
NORM_ZONEOUT: dict[str, dict[str, Any]] = {
    "plain": {},
    "layer_norm": {"layer_norm": True},
    "zoneout": {"zoneout": 0.1},
    "both": BOTH,
}
LEAKS: dict[str, dict[str, Any]] = {
    "leak": {"leak": 0.2},
    "leak, state='current'": {"leak": 0.2, "state": "current"},
    "trained leak": {"leak": 0.2, "trainable_leak": True},
    "leak and noise": {"leak": 0.2, "noise": 0.1},
}
ROUNDS = 9


def training_step(layer: Any, x: torch.Tensor, backend: str | None = None) -> None:
    """Run a forward and a backward pass."""
    with use_backend(backend):
        h, _ = layer(x)
    h.square().mean().backward()


def main() -> None:
    """Print a row for each option."""
    torch.set_num_threads(1)
    table = Table("layer", "T, B, N", "option", "ms", "relative to plain")

    def compare(layer: str, size: tuple[int, int, int], runs: dict[str, Any]) -> None:
        for name, timing in interleave(runs, "plain", ROUNDS, time.process_time).items():
            first, third = timing.spread
            ratio = f"{timing.ratio:.2f} ({first:.2f} to {third:.2f})"
            table.add_row(layer, str(size), name, f"{timing.median_ms:.1f}", ratio)

    makes: tuple[Any, ...] = (RNN, GRU)
    for make in makes:
        for units in (170, 512):
            x = torch.randn(200, 32, 32)
            runs: dict[str, Any] = {}
            for name, options in NORM_ZONEOUT.items():
                runs[name] = partial(training_step, make(32, units, **options), x)
            layer = make(32, units, **BOTH)
            runs["both, reference backend"] = partial(training_step, layer, x, "reference")
            compare(make.__name__, (200, 32, units), runs)
    for steps, batch, units in ((100, 64, 64), (200, 128, 128), (784, 128, 170)):
        x = torch.randn(steps, batch, 4)
        plain = RNN(4, units, nonlinearity="tanh", constraint=Unconstrained)
        runs = {"plain": partial(training_step, plain, x)}
        for name, options in LEAKS.items():
            layer = LeakyRNN(4, units, nonlinearity="tanh", constraint=Unconstrained, **options)
            runs[name] = partial(training_step, layer, x)
        compare("LeakyRNN", (steps, batch, units), runs)
    Console().print(table)


if __name__ == "__main__":
    main()
