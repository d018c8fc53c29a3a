"""The documentation is true: its code runs, and it names what the packages export."""

import doctest
import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest
import torch

import eigenrnn
from eigenrnn import registry

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "eigenrnn"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if path.name != "__main__.py"
]
# a block of Python that must run, unless a comment right above it says why it does not
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+?) -->\s*)?^```python\n(?P<code>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
PACKAGES = {
    "CONSTRAINTS": "eigenrnn.constraints",
    "LAYERS": "eigenrnn.layers",
    "TASKS": "eigenrnn.tasks",
    "RECIPES": "eigenrnn.recipes",
    "BACKENDS": "eigenrnn.ops",
}
ENTRIES = [
    pytest.param(mapping, name, id=f"{mapping.lower()}-{name}")
    for mapping in PACKAGES
    for name in getattr(registry, mapping)
]


def code_blocks(page):
    text = page.read_text()
    for match in BLOCK.finditer(text):
        if match["reason"] is None:
            # blank lines in front, so that a traceback gives the line of the page
            yield "\n" * text.count("\n", 0, match.start("code")) + match["code"]


@pytest.fixture
def reproducible():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.mark.usefixtures("reproducible")
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(code_blocks(page))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_code_of_the_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    for code in code_blocks(page):
        exec(compile(code, str(page), "exec"), namespace)


def names_that_examples_may_use():
    names = {"eigenrnn": eigenrnn, "torch": torch, "partial": functools.partial}
    for package in [eigenrnn, *map(importlib.import_module, PACKAGES.values())]:
        names.update({name: getattr(package, name) for name in package.__all__})
    return names


@pytest.mark.usefixtures("reproducible")
@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_give_what_they_show(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    names = {**names_that_examples_may_use(), **vars(module)}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, globs=names):
        runner.run(example)
    assert runner.failures == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def has_reference(mapping):
    """Whether some page lists the whole mapping and documents every export of its package."""
    pages = [page.read_text() for page in (ROOT / "docs" / "api").glob("*.md")]
    table, module = f"{{registry-table}} {mapping}\n", f".. automodule:: {PACKAGES[mapping]}\n"
    return any(table in page and module in page for page in pages)


@pytest.mark.parametrize(("mapping", "name"), ENTRIES)
def test_export_is_documented(mapping, name):
    entry = getattr(registry, mapping)[name]
    own = entry if inspect.isclass(entry) or inspect.isroutine(entry) else type(entry)
    assert has_reference(mapping)
    assert (own.__doc__ or "").strip()


@pytest.mark.parametrize(
    ("mapping", "name"), [entry for entry in ENTRIES if entry.values[0] != "BACKENDS"]
)
def test_export_names_its_source(mapping, name):
    entry = getattr(registry, mapping)[name]
    source = getattr(entry, "source", None)
    assert source or "Source:" in (inspect.getdoc(entry) or ""), (
        f"expected a Source: in the docstring of {name}"
    )
