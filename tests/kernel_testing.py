"""What the tests of the kernels share: comparisons, the device, and Python subprocesses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from eigenrnn.linalg import tol
from eigenrnn.ops.gpu import INTERPRETED, unavailable

__all__ = [
    "DEVICE",
    "INTERPRETED",
    "assert_near",
    "each_pass",
    "fresh_memory_is_poisoned",
    "normal",
    "python",
    "ragged_sizes",
    "registers",
    "same",
    "tol",
    "unavailable",
]

ROOT = Path(__file__).parents[1]
DEVICE = "cpu" if INTERPRETED else "cuda"


# Every pair of a number of channels of the input map (None: no map), a direction and a raggedness.
PASSES = {
    "no map": (None, False, False),
    "no map, reverse, ragged": (None, True, True),
    "one channel, ragged": (1, False, True),
    "one channel, reverse": (1, True, False),
    "three channels": (3, False, False),
    "three channels, reverse, ragged": (3, True, True),
    "many channels, ragged": (37, False, True),
    "many channels, reverse": (37, True, False),
}
each_pass = pytest.mark.parametrize(("M", "reverse", "ragged"), PASSES.values(), ids=PASSES.keys())


def normal(generator, shape, dtype):
    """Draw numbers that do not depend on the device."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(shape, generator=generator, dtype=wide).to(DEVICE, dtype)


def ragged_sizes(T, B):
    """Batch sizes that descend from B to one sequence at the last step."""
    return [max(1, B - t * B // T) for t in range(T)]


def same(one, other):
    """Return the names of the tensors that differ in any bit."""
    return [name for name in one if not torch.equal(one[name], other[name])]


def python(*arguments, **environment):
    """Run Python in a subprocess with additional environment variables."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def registers(*kernels, **environment):
    """Compile kernels for GPUs that need not be present; return their registers and barriers.

    `tests/triton_registers.py` defines the names of kernels.
    """
    done = python("tests/triton_registers.py", *kernels, TRITON_INTERPRET="0", **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_near(got, expected, bound):
    """Compare tensors by name, relative to their largest element."""
    assert got.keys() == expected.keys()
    for name, one in got.items():
        other = expected[name]
        scale = max(1.0, float(other.abs().max())) if other.numel() else 1.0
        torch.testing.assert_close(
            one.to(other.dtype),
            other,
            rtol=0,
            atol=scale * bound,
            msg=lambda text, name=name: f"{name}: {text}",
        )


@pytest.fixture(autouse=True)
def fresh_memory_is_poisoned(monkeypatch):
    """Uninitialised memory is NaN."""
    new_empty = torch.Tensor.new_empty

    def poisoned(*arguments, **keywords):
        tensor = new_empty(*arguments, **keywords)
        floating = tensor.is_floating_point() or tensor.is_complex()
        return tensor.fill_(torch.nan) if floating else tensor

    monkeypatch.setattr(torch.Tensor, "new_empty", poisoned)
