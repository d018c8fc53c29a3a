"""The package as a whole: side effects of its import, and its exports."""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import eigenrnn
from kernel_testing import python

ROOT = Path(__file__).parents[1]

IMPORT_LEAVES_GENERATORS = """
import importlib, pickle, pkgutil
import numpy, torch
def states():
    return pickle.dumps((numpy.random.get_state(), torch.get_rng_state().tolist()))
before = states()
import eigenrnn
for module in pkgutil.walk_packages(eigenrnn.__path__, "eigenrnn."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
raise SystemExit(0 if states() == before else "the global random generators changed")
"""

PACKAGES = ("analysis", "constraints", "export", "init", "layers", "linalg", "models", "ops")

IMPORT_STAYS_LIGHT = f"""
import sys
import eigenrnn
experiments = {{"jsonargparse", "lightning", "matplotlib", "msgspec", "pooch", "rich", "scipy"}}
imported = experiments & set(sys.modules)
assert not imported, sorted(imported)
assert set({PACKAGES}) <= set(dir(eigenrnn))
assert "eigenrnn.analysis" not in sys.modules
for name in {PACKAGES}:
    assert getattr(eigenrnn, name) is sys.modules[f"eigenrnn.{{name}}"], name
assert not hasattr(eigenrnn, "analyses")
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


@pytest.mark.long
def test_importing_every_module_leaves_the_global_generators_unchanged():
    done = run(IMPORT_LEAVES_GENERATORS)
    assert done.returncode == 0, done.stderr


def test_the_import_is_light_and_packages_are_imported_on_first_use():
    done = run(IMPORT_STAYS_LIGHT)
    assert done.returncode == 0, done.stderr


def test_public_names_are_those_of_the_reference_page():
    page = (ROOT / "docs" / "api" / "index.md").read_text()
    documented = re.findall(r"^\| \[`(\w+)`\]", page, re.MULTILINE)
    required = set(eigenrnn.__all__) - {"__version__", *PACKAGES}
    assert required <= set(documented) <= set(eigenrnn.__all__)
    assert len(documented) == len(set(documented))


def test_every_public_name_exists():
    missing = [name for name in eigenrnn.__all__ if not hasattr(eigenrnn, name)]
    assert missing == []


FROM_SOURCE = """
import importlib.metadata, sys
sys.path[:0] = ["src"]
sys.path.append(sys.argv[1])
find = importlib.metadata.distribution

def without_ours(name):
    if name == "eigenrnn":
        raise importlib.metadata.PackageNotFoundError(name)
    return find(name)

importlib.metadata.distribution = without_ours
import eigenrnn, torch
h, _ = eigenrnn.ScoRNN(2, 8)(torch.ones(3, 1, 2))
print(eigenrnn.__version__, tuple(h.shape), eigenrnn.__file__)
"""


@pytest.mark.long
def test_the_package_works_from_a_source_tree_that_was_never_installed():
    # without `site` no installed copy is found, and no metadata; torch is on the path all the same
    done = python("-S", "-c", FROM_SOURCE, sysconfig.get_path("purelib"), PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    expected = f"{eigenrnn.__version__} (3, 1, 8) {ROOT / 'src/eigenrnn/__init__.py'}"
    assert done.stdout.strip() == expected
