"""Times training steps with and without `keep_freed_memory`, and measures their memory.

Run with ``python -m benchmarks.freed_memory``, on one thread. The call cannot be undone, so each
turn is two processes, one without it and one with it. A ratio is the time of the first over that
of the second, the median of all turns with its quartiles.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

import eigenrnn

__all__ = ["main", "training_step"]

LAYERS = ("ScoRNN", "GRU", "LSTM", "MinGRU", "FullCapacityURNN", "torch.nn.LSTM")
T, B, N = 1_000, 80, 128  # states of 41 MB


def training_step(name: str, steps: int = 9) -> dict[str, float]:
    """Return the median time of a training step of a layer and its head, and the most memory."""
    from resource import RUSAGE_SELF, getrusage  # not on Windows

    torch.set_num_threads(1)
    torch.manual_seed(0)
    package: Any = nn if name.startswith("torch.") else eigenrnn
    layer = getattr(package, name.split(".")[-1])(2, N)
    x = torch.randn(T, B, 2)
    head = nn.Linear(layer(x[:1])[0].shape[-1], 10)
    times: list[float] = []
    for _ in range(steps):
        start = time.perf_counter()
        head(layer(x)[0]).square().mean().backward()
        times.append(time.perf_counter() - start)
    most = getrusage(RUSAGE_SELF).ru_maxrss / 1e3
    return {"ms": 1e3 * statistics.median(times[2:]), "MB": most}


def _in_a_process(name: str, keeps: bool) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.freed_memory", "--one", name]
    if keeps:
        command.append("--keep")
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(ended.stdout)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each layer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--layers", nargs="*", choices=LAYERS, default=LAYERS)
    parser.add_argument("--one", choices=LAYERS, help="time this layer in this process")
    parser.add_argument("--keep", action="store_true", help="with --one: keep freed memory")
    options = parser.parse_args(arguments)
    if options.one is not None:
        if options.keep:
            eigenrnn.keep_freed_memory()
        print(json.dumps(training_step(options.one)))
        return
    for name in options.layers:
        turns = [
            (_in_a_process(name, False), _in_a_process(name, True)) for _ in range(options.turns)
        ]
        without = [first for first, _ in turns]
        with_it = [second for _, second in turns]
        ratios = [first["ms"] / second["ms"] for first, second in turns]
        low, median, high = np.percentile(ratios, (25, 50, 75))
        parts = [
            f"{statistics.median(each['ms'] for each in some):7.0f} ms "
            f"{statistics.median(each['MB'] for each in some):6.0f} MB"
            for some in (without, with_it)
        ]
        spread = f"{median:.2f} [{low:.2f}, {high:.2f}]"
        print(f"{name:<18} {'  kept '.join(parts)}  {spread}", flush=True)


if __name__ == "__main__":
    main()
