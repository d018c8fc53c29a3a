"""Where the tests of Triton's kernels run, and what several of them ask for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from eigenrnn.linalg import tol
from eigenrnn.ops.gpu import INTERPRETED, missing

__all__ = [
    "DEVICE",
    "INTERPRETED",
    "missing",
    "normal",
    "python",
    "ragged_sizes",
    "registers",
    "same",
    "tol",
]

ROOT = Path(__file__).parents[1]
DEVICE = "cpu" if INTERPRETED else "cuda"


def normal(generator, shape, dtype):
    """Draw numbers that do not depend on the device."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(shape, generator=generator, dtype=wide).to(DEVICE, dtype)


def ragged_sizes(T, B):
    """A fall from B, to a single sequence at the last step."""
    return [max(1, B - t * B // T) for t in range(T)]


def same(one, other):
    """Return the names under which there are different bits."""
    return [name for name in one if not torch.equal(one[name], other[name])]


def python(*arguments, **environment):
    """Run Python in a process of its own, with other variables of the environment."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def registers(*kernels):
    """Compile kernels for GPUs that need not be here, and read off what they take.

    They are named as `tests/registers.py` wants it.
    """
    done = python("tests/registers.py", *kernels, TRITON_INTERPRET="0")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
