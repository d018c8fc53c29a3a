"""The package as a whole: what importing it does, what it exports, how large its files are."""

import re
import subprocess
import sys
from pathlib import Path

import eigenrnn

ROOT = Path(__file__).parents[1]

IMPORT_LEAVES_STREAMS = """
import importlib, pickle, pkgutil
import numpy, torch
def state():
    return pickle.dumps((numpy.random.get_state(), torch.get_rng_state().tolist()))
before = state()
import eigenrnn
for module in pkgutil.walk_packages(eigenrnn.__path__, "eigenrnn."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
raise SystemExit(0 if state() == before else "expected the global random streams as they were")
"""

IMPORT_STAYS_LIGHT = """
import sys
import eigenrnn
experiments = {"jsonargparse", "lightning", "matplotlib", "pooch", "rich", "scipy", "tensorboard"}
heavy = experiments & set(sys.modules)
raise SystemExit(f"expected a light import, got {sorted(heavy)}" if heavy else 0)
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


def test_importing_every_module_leaves_the_global_random_streams_untouched():
    done = run(IMPORT_LEAVES_STREAMS)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_imports_nothing_that_only_experiments_need():
    done = run(IMPORT_STAYS_LIGHT)
    assert done.returncode == 0, done.stderr


PACKAGES = ("analysis", "constraints", "layers", "ops", "recipes", "starts", "tasks", "train")

PACKAGES_ARE_ATTRIBUTES = f"""
import sys
import eigenrnn
assert set({PACKAGES}) <= set(dir(eigenrnn))
assert "eigenrnn.analysis" not in sys.modules
for name in {PACKAGES}:
    assert getattr(eigenrnn, name) is sys.modules[f"eigenrnn.{{name}}"], name
assert not hasattr(eigenrnn, "analyses")
"""


def test_packages_are_attributes_that_are_imported_on_first_use():
    done = run(PACKAGES_ARE_ATTRIBUTES)
    assert done.returncode == 0, done.stderr


def test_public_names_are_those_of_the_reference_page():
    page = (ROOT / "docs" / "api" / "index.md").read_text()
    documented = re.findall(r"^\| \[`(\w+)`\]", page, re.MULTILINE)
    assert sorted(documented) == sorted(set(eigenrnn.__all__) - {"__version__"})


def test_every_public_name_exists():
    missing = [name for name in eigenrnn.__all__ if not hasattr(eigenrnn, name)]
    assert missing == []
