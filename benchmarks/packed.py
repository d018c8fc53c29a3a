"""Times training on packed sequences of unequal lengths, beside torch's layers.

Run with ``python -m benchmarks.packed``: wall-clock time on one thread and on two.
"""

import time
from collections.abc import Callable
from functools import partial

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from benchmarks.sequences import interleave
from eigenrnn import GRU, LSTM

__all__ = ["main"]

SIZES = ((32, 200, 32), (64, 200, 128))  # B, T, N
ROUNDS = 9


def training_step(layer: Callable[..., tuple[PackedSequence, object]], x: PackedSequence) -> None:
    """Run a forward and a backward pass over packed sequences."""
    h, _ = layer(x)
    h.data.square().mean().backward()


def step_with_lengths(layer: LSTM, x: Tensor, lengths: Tensor) -> None:
    """Run a forward and a backward pass over padded sequences."""
    h, _ = layer(x, lengths=lengths)
    h.square().mean().backward()


def runs(B: int, T: int, N: int) -> dict[str, Callable[[], object]]:
    """Return the timed calls; the lengths are uniform between T / 4 and T."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(T // 4, T + 1, (B,), generator=generator)
    padded = torch.randn(T, B, 4, generator=generator)
    packed = pack_padded_sequence(padded, lengths, enforce_sorted=False)
    return {
        "torch.nn.LSTM": partial(training_step, nn.LSTM(4, N), packed),
        "LSTM": partial(training_step, LSTM(4, N), packed),
        "LSTM, padded with lengths=": partial(step_with_lengths, LSTM(4, N), padded, lengths),
        "torch.nn.GRU": partial(training_step, nn.GRU(4, N), packed),
        "GRU": partial(training_step, GRU(4, N), packed),
    }


def main() -> None:
    """Print a table for each number of threads."""
    clock = time.perf_counter
    table = Table("threads", "B, T, N", "layer", "ms", "relative to torch.nn.LSTM")
    for count in (1, 2):
        torch.set_num_threads(count)
        for B, T, N in SIZES:
            for name, timing in interleave(runs(B, T, N), "torch.nn.LSTM", ROUNDS, clock).items():
                first, third = timing.spread
                ratio = f"{timing.ratio:.3f} ({first:.3f} to {third:.3f})"
                size = f"{B}, {T}, {N}"
                table.add_row(str(count), size, name, f"{timing.median_ms:.1f}", ratio)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
