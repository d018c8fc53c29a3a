"""Prints the bytes that one step of a contestant adds to the peak of its process."""

import resource
import sys
from pathlib import Path

import torch

from eigenrnn.experiments.bench.contestants import contestants, step

__all__: list[str] = []


def main(name: str, T: int, B: int, N: int) -> None:
    """Take a small step, so that all code is loaded, and then the one that counts."""
    layer = contestants(N)[name]
    step(layer, torch.randn(2, 2, 1))
    x = torch.randn(T, B, 1)
    before = _peak()
    step(layer, x)
    sys.stdout.write(f"{_peak() - before}\n")


def _peak() -> int:
    # The peak that `getrusage` knows survives exec, and may be that of the parent.
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
