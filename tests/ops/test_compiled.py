"""The package with and without its compiled kernels, and with torch.compile."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from crossing import few
from eigenrnn import GRU, RNN
from eigenrnn.ops import compiled
from eigenrnn.ops.arguments import Options
from eigenrnn.ops.elman import ElmanOperands
from eigenrnn.ops.elman.cpu import elman_cpu

ROOT = Path(__file__).parents[2]
SOURCES = ("csrc", "src", "pyproject.toml", "README.md", "LICENSE")

WITHOUT_KERNELS = """
import sys

class Hidden:
    def find_spec(name, path=None, target=None):
        if name == "eigenrnn._cpu":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden)
"""

LIST = """
import json
from eigenrnn.ops import BACKENDS
compiled = {name: backends["cpu"].unavailable() for name, backends in BACKENDS.items()}
print(json.dumps(compiled))
"""

FALL_BACK = """
import torch
from eigenrnn.ops import elman
x, W = torch.randn(5, 3, 4), torch.eye(4)
expected = elman(x, W, backend="loop")
assert all(map(torch.equal, elman(x, W), expected))
elman(x, W, backend="cpu")
"""


WARN = """
import warnings
import torch
from eigenrnn import GRU, RNN

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for layer in (RNN(2, 3), RNN(2, 3), GRU(2, 3)):
        layer(torch.ones(4, 1, 2))
(warning,) = caught
assert str(warning.message).startswith("layers on the CPU are several times slower"), warning
assert "were not built: there was no GCC or Clang" in str(warning.message)
"""


def run(*command, **environment):
    return subprocess.run(
        [sys.executable, *command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_the_first_layer_warns_once_without_kernels():
    done = run("-c", WITHOUT_KERNELS + WARN)
    assert done.returncode == 0, done.stderr


def test_the_list_of_backends_says_why_the_kernels_are_unavailable():
    done = run("-c", WITHOUT_KERNELS + LIST)
    assert done.returncode == 0, done.stderr
    absent = json.loads(done.stdout)
    assert set(absent) == {"delta", "elman", "gru", "linear", "lstm"}
    assert all(
        "there was no GCC or Clang when eigenrnn was installed" in why for why in absent.values()
    )


@pytest.mark.long
def test_without_kernels_another_backend_is_chosen_and_forcing_cpu_says_why_not():
    done = run("-c", WITHOUT_KERNELS + FALL_BACK)
    assert "the compiled kernels were not built" in done.stderr
    assert "ValueError: expected a call that backend 'cpu' can compute" in done.stderr


@pytest.mark.long
def test_without_a_compiler_the_same_source_installs_as_pure_python(tmp_path):
    pytest.importorskip("scikit_build_core")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    target = tmp_path / "installed"
    pip = "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--target", target, tmp_path
    done = run(*pip, CXX=str(tmp_path / "no-compiler"))
    assert done.returncode == 0, done.stderr
    installed = {path.suffix for path in (target / "eigenrnn").rglob("*.*")}
    assert ".py" in installed
    assert ".so" not in installed


LARGE = (600, 32, 64)  # 4.9 MB of states: large enough for large memory pages


@few("make", {"rnn": RNN, "gru": GRU}, ["gru"])
@pytest.mark.filterwarnings("ignore")
def test_torch_compile_does_not_change_a_layer_with_large_states(make):
    T, B, N = LARGE
    layer = make(2, N, generator=torch.Generator().manual_seed(0))
    x = torch.randn(T, B, 2, generator=torch.Generator().manual_seed(1))
    expected, _ = layer(x)
    torch._dynamo.reset()
    found, _ = torch.compile(layer, backend="aot_eager")(x)
    near = {
        "rtol": 1e-3,
        "atol": 1e-3,
    }  # compiled W rounds differently, and 600 steps amplify this
    torch.testing.assert_close(found, expected, **near)
    gradient = torch.autograd.grad(found.square().mean(), layer.directions[0].weight_ih)
    plain = torch.autograd.grad(expected.square().mean(), layer.directions[0].weight_ih)
    torch.testing.assert_close(gradient, plain, **near)


@pytest.mark.skipif(compiled.kernels is None, reason=f"needs kernels: {compiled.unavailable()}")
def test_the_operator_itself_reads_any_strides():
    tensors = ElmanOperands(torch.randn(5, 3, 8)[..., ::2], torch.eye(4), torch.zeros(3, 4))
    options = Options("tanh")
    found = elman_cpu(tensors, options)["h"]
    tensors = tensors._replace(x=tensors.x.contiguous())
    expected = elman_cpu(tensors, options)["h"]
    assert torch.equal(found, expected)
