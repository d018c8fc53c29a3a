"""Both wheels in empty environments: their dependencies, and messages about missing extras."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).parents[2]
FIRST_EXAMPLE = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
EXPERIMENTS_DEPENDENCIES = {
    "jsonargparse",
    "lightning",
    "matplotlib",
    "pooch",
    "rich",
    "scipy",
    "tensorboard",
}


def run(*command, **environment):
    return subprocess.run(
        [str(part) for part in command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def pip(python, *arguments, **environment):
    done = run(
        python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments, **environment
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Download the wheels of torch, numpy and their dependencies."""
    folder = tmp_path_factory.mktemp("wheels")
    pins = ROOT / "constraints.txt"
    pip(
        sys.executable, "download", "--dest", folder, "--constraint", pins, "torch", "numpy", "pip"
    )
    return folder


@pytest.fixture(scope="module", params=[True, False], ids=["compiler", "no compiler"])
def has_compiler(request):
    return request.param


@pytest.fixture(scope="module")
def python(has_compiler, folder, tmp_path_factory):
    """Install the wheel into an environment without a package index.

    The wheel is one of `make wheels`, in the folder EIGENRNN_WHEELS, or else built here.
    """
    root = tmp_path_factory.mktemp("environment")
    built = os.environ.get("EIGENRNN_WHEELS")
    if built:
        (wheel,) = Path(built).glob(
            "eigenrnn-*-manylinux*.whl" if has_compiler else "eigenrnn-*-any.whl"
        )
    else:
        environment = {} if has_compiler else {"CXX": str(root / "no-compiler")}
        # a folder of its own: CMake remembers the compiler that it found
        build = "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", root
        settings = "--config-settings", f"build-dir={root / 'build'}"
        pip(sys.executable, *build, *settings, ROOT, **environment)
        (wheel,) = root.glob("eigenrnn-*.whl")
    run(sys.executable, "-m", "venv", root / "empty")
    python = root / "empty" / "bin" / "python"
    pip(python, "install", "--no-index", "--find-links", folder, wheel)
    return python


def test_the_wheel_requires_torch_and_numpy_alone(python):
    code = "import importlib.metadata as m; print(*m.requires('eigenrnn'), sep='\\n')"
    lines = run(python, "-c", code).stdout.splitlines()
    required = [line for line in lines if "extra ==" not in line]
    assert {re.match(r"[\w-]+", line)[0] for line in required} == {"torch", "numpy"}
    assert len(required) == 2
    assert len(lines) > 2, "the extras are missing"


def test_the_kernels_are_present_if_and_only_if_there_is_a_compiler(python, has_compiler):
    code = "from eigenrnn.ops import compiled; print(compiled.unavailable())"
    done = run(python, "-c", code)
    assert (done.stdout == "None\n") == has_compiler, done.stdout + done.stderr
    site = Path(python).parents[1].glob("lib/python*/site-packages/eigenrnn/_cpu*.so")
    assert bool(list(site)) == has_compiler


def test_a_bare_install_has_no_dependency_of_experiments(python):
    listed = json.loads(run(python, "-m", "pip", "list", "--format", "json").stdout)
    installed = {package["name"] for package in listed}
    assert {"eigenrnn", "numpy", "torch"} <= installed
    assert not EXPERIMENTS_DEPENDENCIES & installed


def test_the_first_example_of_the_readme_runs(python, tmp_path):
    example = tmp_path / "example.py"
    example.write_text(FIRST_EXAMPLE)
    done = run(python, "-W", "error", "-W", "ignore:layers on the CPU", example)
    assert done.returncode == 0, done.stderr


def test_a_layer_warns_once_if_the_kernels_were_not_built(python):
    code = (
        "import torch, eigenrnn; layer = eigenrnn.RNN(2, 3); "
        "[layer(torch.ones(4, 1, 2)) for _ in range(2)]; "
        "print(eigenrnn.ops.compiled.kernels is not None)"
    )
    done = run(python, "-W", "always", "-c", code)
    assert done.returncode == 0, done.stderr
    built = done.stdout.strip() == "True"
    assert done.stderr.count("layers on the CPU are several times slower") == (not built)


def test_a_network_is_written_in_c(python, tmp_path):
    code = f"""
from eigenrnn import RNN
from eigenrnn.export import to_c
to_c(RNN(2, 3).eval(), {str(tmp_path / "net.c")!r})
"""
    done = run(python, "-c", code)
    assert done.returncode == 0, done.stderr
    assert "static void add_product(" in (tmp_path / "net.c").read_text()


def test_the_library_has_no_command_and_no_line_of_the_experiments(python):
    assert not python.with_name("eigenrnn").exists()
    done = run(python, "-c", "import eigenrnn_experiments")
    assert "No module named 'eigenrnn_experiments'" in done.stderr


@pytest.fixture(scope="module")
def with_experiments(tmp_path_factory):
    """Install the wheels of both distributions, with their dependencies, without extras."""
    root = tmp_path_factory.mktemp("both")
    build = "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", root
    pip(sys.executable, *build, "--config-settings", "wheel.cmake=false", ROOT)
    pip(sys.executable, *build, ROOT / "experiments")
    run(sys.executable, "-m", "venv", root / "empty")
    python = root / "empty" / "bin" / "python"
    pins = ROOT / "constraints.txt"
    pip(python, "install", "--constraint", pins, *sorted(root.glob("*.whl")))
    return python


def test_the_wheel_of_the_experiments_brings_the_command(with_experiments, tmp_path):
    command = with_experiments.with_name("eigenrnn")
    assert "Copying" in run(command, "list", "tasks").stdout
    line = ["train", "--task", "Copying", "--task.delay", "3", "--hidden_size", "8"]
    done = run(command, *line, "--steps", "2", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "run.json").exists()


def test_a_command_names_the_missing_extra(with_experiments, tmp_path):
    command = with_experiments.with_name("eigenrnn"), "collect", "car_racing"
    done = run(*command, "--out", tmp_path / "drives")
    assert done.returncode == 2
    assert "pip install 'eigenrnn-experiments[world]'" in done.stderr
    assert "Traceback" not in done.stderr
