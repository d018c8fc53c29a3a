"""The mutants that judge the tests: one changed line each, and kernels that still have theirs."""

import ast
import json

import pytest
from benchmarks.mutants import KERNEL_MUTANTS, ROOT, edits, mutated

TEXT = '''
def f(x: int, n=3):
    """Return x < 1."""
    if n < len(x) and not x.any():
        raise ValueError(f"expected {n + 1}")
    x.add_(n - 1)
    return g(x, n) @ x.mT
'''
EXPECTED = {
    "def f(x: int, n=4):",
    "if n <= len(x) and not x.any():",
    "if n < len(x) or not x.any():",
    "if n < len(x) and (x.any()):",
    "if not (n < len(x) and not x.any()):",
    "x.add_(n + 1)",
    "x.add_(n)",
    "x.add_(n - 2)",
    "pass",
    "return g(n, x) @ x.mT",
    "return x.mT @ g(x, n)",
    "return g(x, n) @ x",
}


def changed_lines(text, edit):
    before = text.splitlines()
    after = mutated(text, edit).splitlines()
    return [new.strip() for old, new in zip(before, after, strict=True) if old != new]


def test_each_edit_changes_one_line_and_no_message_or_annotation():
    lines = [changed_lines(TEXT, edit) for edit in edits("f.py", TEXT)]
    assert all(len(changed) == 1 for changed in lines)
    assert {line for (line,) in lines} == EXPECTED


@pytest.mark.parametrize("name", ["linalg.py", "ops/time_steps.py"])
def test_mutants_of_the_library_are_python(name):
    text = (ROOT / "src/eigenrnn" / name).read_text()
    for edit in edits(name, text)[::20]:
        assert mutated(text, edit) != text
        ast.parse(mutated(text, edit))


def test_the_kernels_have_the_line_of_each_mutant_once():
    mutants = json.loads(KERNEL_MUTANTS.read_text())
    assert len(mutants) >= 40
    for mutant in mutants:
        text = (ROOT / "csrc" / mutant["file"]).read_text()
        assert text.count(mutant["search"]) == 1, mutant["search"]
        assert mutant["replace"] != mutant["search"]
