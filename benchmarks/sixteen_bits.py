"""Times layers under autocast, with split products, in float32, and torch's; and peak memory.

Run with ``python -m benchmarks.sixteen_bits``. One thread is measured in processor time, several
in real time.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.sequences import Size, Timing, interleave
from benchmarks.sequences.layers import REFERENCE, benchmarked_layers, step
from benchmarks.sequences.measure import peak
from eigenrnn.ops.compiled import kernels
from eigenrnn.ops.precision import has_tiles

__all__ = ["main", "measure"]

SIZES: tuple[Size, ...] = (  # T, B, N
    (784, 128, 170),
    (2000, 8, 128),
    (150, 128, 512),
    (150, 128, 1024),
    (784, 128, 512),
)
LONG: Size = (2000, 64, 170)
RIVALS = {
    "RNN(modReLU), compiled": REFERENCE,
    "GRU, compiled": "torch.nn.GRU",
    "LSTM, compiled": "torch.nn.LSTM",
}


def infer(layer: nn.Module, x: Tensor, *, autocast: bool = False) -> None:
    """Run a forward pass without gradients."""
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        layer(x)


def with_split_products(
    run: Callable[[nn.Module, Tensor], None], layer: nn.Module, x: Tensor
) -> None:
    """Run a pass with the switch of split products, see `eigenrnn.ops.precision`."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        run(layer, x)
    finally:
        torch.set_float32_matmul_precision(before)


PASSES = {"training": step, "inference": infer}


def measure(name: str, size: Size, rounds: int, run: Callable[..., None]) -> dict[str, Timing]:
    """Return the times of a pass: ours by precision, and that of torch under autocast."""
    T, B, N = size
    layers = benchmarked_layers(N)
    x = torch.randn(T, B, 1)
    runs: dict[str, Callable[[], object]] = {
        "autocast": partial(run, layers[name], x, autocast=True),
        "float32": partial(run, layers[name], x),
        "torch, autocast": partial(run, layers[RIVALS[name]], x, autocast=True),
    }
    if has_tiles:  # without AMX they are products of float32
        runs["split"] = partial(with_split_products, run, layers[name], x)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    return interleave(runs, "autocast", rounds, clock)


def main() -> None:
    """Print the tables, a row as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="number of threads")
    parser.add_argument("--rounds", type=int, default=5, help="number of timed rounds")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error(f"expected at least two rounds, which have quartiles; got {options.rounds}")
    torch.set_num_threads(options.threads)
    print(f"products by {kernels.isa}, {options.threads} threads")
    print("ms, and in brackets the time over that of ours under autocast (quartiles):")
    for size in SIZES:
        for name in RIVALS:
            for which, run in PASSES.items():
                print(f"{name}, {size}, {which}:")
                for contestant, timing in measure(name, size, options.rounds, run).items():
                    first, third = timing.spread
                    ratio = f"{timing.ratio:.2f} ({first:.2f} to {third:.2f})"
                    print(f"    {contestant} {timing.median_ms:.1f} [{ratio}]", flush=True)
    for name in RIVALS:
        memory = peak(name, LONG, autocast=True) / peak(name, LONG)
        print(f"peak memory of training relative to float32, {name}, {LONG}: {memory:.2f}")


if __name__ == "__main__":
    main()
