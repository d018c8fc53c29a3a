"""The experiments use the library as any user would."""

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

import eigenrnn
import eigenrnn_experiments

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "experiments" / "src" / "eigenrnn_experiments"


def documented():
    """Return the modules of the library that a page of the reference documents, and itself."""
    pages = [page.read_text() for page in (ROOT / "docs" / "api").glob("*.md")]
    return {"eigenrnn", *re.findall(r"automodule:: (eigenrnn\.\S+)", "".join(pages))}


def imported(path):
    """Return the imports of a file from the library, as pairs of a module and a name."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "__name__") for alias in node.names]
    return [(module, name) for module, name in found if module.split(".")[0] == "eigenrnn"]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.name))
def test_the_experiments_import_exported_names_of_documented_packages(path):
    for module, name in imported(path):
        assert module in documented(), f"{module} has no page in docs/api"
        exported = importlib.import_module(module).__all__
        assert name in {*exported, "__name__"}, f"{module} does not export {name}"


def test_the_test_sees_the_imports():
    assert ("eigenrnn.layers", "GRU") in imported(SOURCE / "cli" / "train.py")
    assert {"eigenrnn.layers", "eigenrnn.errors"} <= documented()


def test_both_distributions_have_the_same_version():
    project = tomllib.loads((ROOT / "experiments" / "pyproject.toml").read_text())["project"]
    assert eigenrnn_experiments.__version__ == eigenrnn.__version__
    assert f"eigenrnn[analysis]=={eigenrnn.__version__}" in project["dependencies"]
