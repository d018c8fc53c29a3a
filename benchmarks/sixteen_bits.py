"""Times a training step under autocast in bfloat16, and its peak memory, relative to float32.

Run with ``python -m benchmarks.sixteen_bits``. It measures processor time on one thread.
"""

import time
from functools import partial

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.sequences import Size, Timing, interleave
from benchmarks.sequences.layers import benchmarked_layers, step
from benchmarks.sequences.measure import peak

__all__ = ["main", "measure"]

SIZES: tuple[Size, ...] = ((784, 128, 170), (150, 128, 512), (2000, 8, 128))  # T, B, N
LONG: Size = (2000, 64, 170)
LAYERS = ("RNN(modReLU), compiled", "GRU, compiled", "LSTM, compiled")


def measure(name: str, size: Size, rounds: int) -> Timing:
    """Return the time of a step under autocast, relative to one in float32."""
    T, B, N = size
    layer = benchmarked_layers(N)[name]
    x = torch.randn(T, B, 1)
    runs = {
        "float32": partial(step, layer, x),
        "autocast": partial(step, layer, x, autocast=True),
    }
    return interleave(runs, "float32", rounds, time.process_time)["autocast"]


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    times = [f"time, {T}, {B}, {N}" for T, B, N in SIZES]
    table = Table("layer", *times, f"memory, {LONG[0]}, {LONG[1]}, {LONG[2]}")
    for name in LAYERS:
        row: list[str] = []
        for size in SIZES:
            timing = measure(name, size, rounds=7)
            first, third = timing.spread
            row.append(f"{timing.ratio:.2f} ({first:.2f} to {third:.2f})")
        memory = peak(name, LONG, autocast=True) / peak(name, LONG)
        table.add_row(name, *row, f"{memory:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
