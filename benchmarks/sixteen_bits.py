"""Times training steps under autocast, in float32 and of torch's layers, and their peak memory.

Run with ``python -m benchmarks.sixteen_bits``. It measures processor time on one thread.
"""

import time
from functools import partial

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.sequences import Size, Timing, interleave
from benchmarks.sequences.layers import REFERENCE, benchmarked_layers, step
from benchmarks.sequences.measure import peak
from eigenrnn.ops.compiled import kernels

__all__ = ["main", "measure"]

SIZES: tuple[Size, ...] = (  # T, B, N
    (784, 128, 170),
    (784, 128, 512),
    (150, 128, 1024),
    (2000, 8, 128),
)
LONG: Size = (2000, 64, 170)
RIVALS = {
    "RNN(modReLU), compiled": REFERENCE,
    "GRU, compiled": "torch.nn.GRU",
    "LSTM, compiled": "torch.nn.LSTM",
}


def measure(name: str, size: Size, rounds: int) -> dict[str, Timing]:
    """Return the times of a step in float32 and of torch's layer, relative to ours."""
    T, B, N = size
    layers = benchmarked_layers(N)
    x = torch.randn(T, B, 1)
    runs = {
        "autocast": partial(step, layers[name], x, autocast=True),
        "float32": partial(step, layers[name], x),
        "torch": partial(step, layers[RIVALS[name]], x, autocast=True),
    }
    return interleave(runs, "autocast", rounds, time.process_time)


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    table = Table(
        f"layer ({kernels.isa})", "T, B, N", "float32 / autocast", "torch / ours", "memory"
    )
    for name in RIVALS:
        memory = peak(name, LONG, autocast=True) / peak(name, LONG)
        table.add_row(name, ", ".join(map(str, LONG)), "", "", f"{memory:.2f}")
        for size in SIZES:
            timings = measure(name, size, rounds=5)
            row = [name, ", ".join(map(str, size))]
            for other in ("float32", "torch"):
                first, third = timings[other].spread
                row.append(f"{timings[other].ratio:.2f} ({first:.2f} to {third:.2f})")
            table.add_row(*row, "")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
