"""Forward and backward of one recurrent layer, against torch's own."""

import argparse
import json
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.interleave import Timing, interleave
from eigenrnn import GRU, RNN
from eigenrnn.constraints import ScaledCayley, Unconstrained

__all__ = ["main", "measure"]

SIZES = ((784, 128, 170), (1020, 20, 190), (750, 50, 170), (784, 128, 512), (150, 128, 1024))
"""T, B, N of the papers' experiments and of two larger networks."""

REFERENCE = "torch.nn.RNN(tanh)"


def layers(N: int, definition: bool = False) -> dict[str, nn.Module]:
    """Make the contestants, all with one input channel; the definition is slow by far."""
    modrelu = partial(RNN, 1, N, constraint=ScaledCayley)
    slow: dict[str, nn.Module] = {"autograd over the steps": modrelu(backend="reference")}
    return {
        REFERENCE: nn.RNN(1, N),
        "loop, tanh, unconstrained": RNN(
            1, N, nonlinearity="tanh", constraint=Unconstrained, backend="loop"
        ),
        "loop, modReLU, scaled Cayley": modrelu(backend="loop"),
        "torch.nn.LSTM": nn.LSTM(1, N),
        "torch.nn.GRU": nn.GRU(1, N),
        "GRU, loop": GRU(1, N, backend="loop"),
        **(slow if definition else {}),
    }


def step(layer: nn.Module, x: Tensor) -> None:
    """Take one training step's worth of work: all states used, all weights' gradients."""
    layer(x)[0].sum().backward()


def measure(T: int, B: int, N: int, rounds: int, definition: bool = False) -> dict[str, Timing]:
    """Time all contestants at one size."""
    x = torch.randn(T, B, 1, generator=torch.Generator().manual_seed(0))
    contestants: dict[str, Callable[[], object]] = {
        name: partial(step, layer, x) for name, layer in layers(N, definition).items()
    }
    return interleave(contestants, REFERENCE, rounds)


def main() -> None:
    """Print a table for each size, and write all rounds to a file if one is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--sizes", type=int, default=3, help="how many of the sizes, from the first"
    )
    parser.add_argument("--definition", action="store_true", help="time autograd over steps too")
    parser.add_argument("--json", type=Path, help="where to write all rounds")
    options = parser.parse_args()
    console = Console()
    threads = torch.get_num_threads()
    console.print(f"torch {torch.__version__}, {threads} threads, {platform.machine()}")
    record: dict[str, object] = {"torch": str(torch.__version__), "threads": threads}
    for T, B, N in SIZES[: options.sizes]:
        timings = measure(T, B, N, options.rounds, options.definition)
        table = Table(title=f"T={T}, B={B}, N={N}: forward + backward", title_justify="left")
        for heading in ("layer", "median ms", "/ torch.nn.RNN", "quartiles"):
            table.add_column(heading, justify="left" if heading == "layer" else "right")
        for name, timing in timings.items():
            low, high = timing.spread
            table.add_row(
                name, f"{timing.median_ms:.1f}", f"{timing.ratio:.2f}", f"{low:.2f} .. {high:.2f}"
            )
        console.print(table)
        record[f"{T},{B},{N}"] = {name: timing.times_ms for name, timing in timings.items()}
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
