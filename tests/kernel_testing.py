"""What the tests of the kernels share: comparisons, the device, and Python subprocesses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from eigenrnn.ops import compiled

ROOT = Path(__file__).parents[1]

needs_kernels = pytest.mark.skipif(
    compiled.kernels is None, reason=f"needs the compiled kernels: {compiled.unavailable()}"
)
poisoned = pytest.mark.usefixtures("fresh_memory_is_poisoned")
# torch's own forward mode uses the deprecated torch.jit.script
forward_mode = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
each_direction = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
each_raggedness = pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])

MAPS = {"no map": None, "one channel": 1, "three channels": 3, "many channels": 37}
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
each_map = pytest.mark.parametrize("M", MAPS.values(), ids=MAPS.keys())
each_pass = pytest.mark.parametrize(("M", "reverse", "ragged"), PASSES.values(), ids=PASSES.keys())


def normal(generator, shape, dtype):
    """Draw numbers that do not depend on the device."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(shape, generator=generator, dtype=wide).to(dtype)


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


class SpiedKernels:
    """Calls the compiled kernels and records the arguments of a recurrence.

    `call` holds those of the last forward call, `gradients` those of the last backward call, by
    name: addresses and strides of tensors, sizes and options.
    """

    def __init__(self, recurrence):
        self.recurrence = recurrence
        self.kernels = compiled.kernels
        self.call = self.gradients = None

    def __getattr__(self, name):
        kernel = getattr(self.kernels, name)

        def forward(number, threads, call):
            self.call = call
            kernel(number, threads, call)

        def backward(number, threads, call, gradients):
            self.gradients = gradients
            kernel(number, threads, call, gradients)

        spied = {f"{self.recurrence}_forward": forward, f"{self.recurrence}_backward": backward}
        return spied.get(name, kernel)


class Work(TorchDispatchMode):
    """Counts operations and the numbers that they write, also inside our operators.

    Args:
        inside: The implementation of each of our operators.
    """

    def __init__(self, inside):
        super().__init__()
        self.inside = inside
        self.operations = self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in self.inside:
            with self:
                return self.inside[func](*args, **(kwargs or {}))
        outputs = func(*args, **(kwargs or {}))
        self.operations += 1
        self.numbers += sum(t.numel() for t in tree_leaves(outputs) if torch.is_tensor(t))
        return outputs


def steps_apart(tensor):
    """Leave gaps between steps and between sequences, as in a slice of a larger batch."""
    return torch.nn.functional.pad(tensor, (0, 0, 0, 3, 0, 2))[:-2, :-3]
