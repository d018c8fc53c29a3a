"""A script that prints the bytes that one training step adds to the peak of its process."""

import resource
import sys
from pathlib import Path

import torch

from benchmarks.sequences.layers import benchmarked_layers, step

__all__: list[str] = []


def main(name: str, T: int, B: int, N: int, autocast: bool) -> None:
    """Run a small step that loads all code, then the measured step."""
    layer = benchmarked_layers(N)[name]
    step(layer, torch.randn(2, 2, 1))
    x = torch.randn(T, B, 1)
    before = _peak()
    step(layer, x, autocast=autocast)
    sys.stdout.write(f"{_peak() - before}\n")


def _peak() -> int:
    # the peak of `getrusage` survives exec, so it may be that of the parent process
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), autocast=sys.argv[5:] == ["autocast"])
