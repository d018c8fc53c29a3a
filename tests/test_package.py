"""The package as a whole: side effects of its import, and its exports."""

import re
import subprocess
import sys
from pathlib import Path

import eigenrnn

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

IMPORT_STAYS_LIGHT = """
import sys
import eigenrnn
experiments = {"jsonargparse", "lightning", "matplotlib", "pooch", "rich", "scipy", "tensorboard"}
imported = experiments & set(sys.modules)
raise SystemExit(f"unexpected imports: {sorted(imported)}" if imported else 0)
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


def test_importing_every_module_leaves_the_global_generators_unchanged():
    done = run(IMPORT_LEAVES_GENERATORS)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_imports_no_dependency_of_experiments():
    done = run(IMPORT_STAYS_LIGHT)
    assert done.returncode == 0, done.stderr


PACKAGES = ("analysis", "constraints", "init", "layers", "linalg", "models", "ops")

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
    required = set(eigenrnn.__all__) - {"__version__", *PACKAGES}
    assert required <= set(documented) <= set(eigenrnn.__all__)
    assert len(documented) == len(set(documented))


def test_every_public_name_exists():
    missing = [name for name in eigenrnn.__all__ if not hasattr(eigenrnn, name)]
    assert missing == []
