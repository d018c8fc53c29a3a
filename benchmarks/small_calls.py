"""Times calls of small layers beside torch's, and counts the Python calls of one.

Run with ``python -m benchmarks.small_calls``, on one thread. Our layer and torch's take turns in
one process; a ratio is torch's time over ours, the median of all turns with its quartiles.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import eigenrnn
from eigenrnn import GRU, LRU, LSTM, RNN, MinGRU, ScoRNN
from eigenrnn.constraints import Unconstrained

__all__ = ["main", "python_calls", "ratio"]

SIZES = ((5, 2, 16), (20, 8, 64), (50, 16, 64), (200, 1, 256))
"""T, B and N; the inputs have N channels."""

MICROSECONDS = 20_000
"""About how long one turn of a layer takes."""

Make = Callable[[int, int], nn.Module]


def frozen(make: Make, M: int, N: int) -> nn.Module:
    """Return a frozen layer."""
    layer: Any = make(M, N)
    return layer.freeze()


TANH = partial(RNN, nonlinearity="tanh", constraint=Unconstrained)
PAIRS: dict[str, tuple[Make, Make]] = {
    "RNN, tanh, free matrix": (TANH, nn.RNN),
    "GRU": (GRU, nn.GRU),
    "LSTM": (LSTM, nn.LSTM),
    "ScoRNN": (ScoRNN, nn.RNN),
    "LRU": (LRU, nn.RNN),
    "MinGRU": (MinGRU, nn.GRU),
    "ScoRNN, frozen": (partial(frozen, ScoRNN), nn.RNN),
    "GRU, frozen": (partial(frozen, GRU), nn.GRU),
    "LSTM, frozen": (partial(frozen, LSTM), nn.LSTM),
}
"""Our layer and torch's, by name."""


def infer(layer: nn.Module, x: Tensor) -> None:
    """Call a layer without gradients."""
    with torch.no_grad():
        layer(x)


def train(layer: nn.Module, x: Tensor) -> None:
    """Call a layer and run its backward pass."""
    layer(x)[0].sum().backward()


def microseconds(call: Callable[[], None], repetitions: int) -> float:
    """Return the mean time of a call."""
    start = time.perf_counter_ns()
    for _ in range(repetitions):
        call()
    return (time.perf_counter_ns() - start) / repetitions / 1e3


def ratio(
    name: str, size: tuple[int, int, int], action: Callable[..., None], turns: int
) -> dict[str, Any]:
    """Time a pair of layers in turns."""
    T, B, N = size
    torch.manual_seed(0)
    x = torch.randn(T, B, N)
    ours, theirs = (partial(action, make(N, N), x) for make in PAIRS[name])
    repetitions = max(3, round(MICROSECONDS / microseconds(theirs, 10)))
    microseconds(ours, 10)
    times = [
        (microseconds(ours, repetitions), microseconds(theirs, repetitions)) for _ in range(turns)
    ]
    of_ours, of_theirs = np.array(times).T
    quartiles = np.percentile(of_theirs / of_ours, (25, 50, 75))
    return {
        "layer": name,
        "size": size,
        "action": action.__name__,
        "ours_us": float(np.median(of_ours)),
        "torch_us": float(np.median(of_theirs)),
        "ratio_quartiles": quartiles.tolist(),
    }


def python_calls(layer: nn.Module, x: Tensor) -> tuple[int, int]:
    """Count the Python calls of a call of a layer: those of eigenrnn, and all."""
    for _ in range(3):
        layer(x)
    files: list[str] = []

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            files.append(frame.f_code.co_filename)

    sys.setprofile(record)
    layer(x)
    sys.setprofile(None)
    folder = str(Path(eigenrnn.__file__).parent)
    return sum(file.startswith(folder) for file in files), len(files)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print all ratios, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--layers", nargs="*", choices=PAIRS, default=[*PAIRS])
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found: list[dict[str, Any]] = []
    for name in options.layers:
        calls = python_calls(PAIRS[name][0](3, 8), torch.randn(5, 2, 3))
        print(f"{name}: {calls[0]} Python calls of ours, {calls[1]} in all")
        for size in SIZES:
            for action in (infer, train):
                one = ratio(name, size, action, options.turns)
                found.append(one)
                low, median, high = one["ratio_quartiles"]
                print(
                    f"  {size!s:<14} {action.__name__:<5} torch {one['torch_us']:9.1f} us, "
                    f"ours {one['ours_us']:9.1f}, ratio {median:.2f} [{low:.2f}, {high:.2f}]",
                    flush=True,
                )
    if options.json is not None:
        record = {"machine": platform.processor(), "torch": torch.__version__, "results": found}
        options.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
