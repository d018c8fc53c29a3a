"""Counts how dense the Python code is: what a reader meets per 1,000 lines of code.

``python -m benchmarks.density [FOLDER ...]`` prints one row for each folder; by default the whole
package, its experiments and `reproduction`.
"""

import argparse
import ast
import io
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

__all__ = ["Density", "main", "measure"]

ROOT = Path(__file__).parents[1]
FOLDERS = ["src/eigenrnn", "src/eigenrnn/experiments", "reproduction"]
PER_THOUSAND = ["parallel assignments", "ternaries", "comprehensions"]
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Density:
    """What was counted in the Python files of a folder.

    Args:
        code_lines: Lines with code, without docstrings, comments and blank lines.
        comment_lines: Lines that hold a comment alone.
        counts: How often each construct occurs, by its name.
        private: The number of private functions and methods.
        called_once: The number of these whose name is used at one place only.
    """

    code_lines: int
    comment_lines: int
    counts: Counter[str]
    private: int
    called_once: int

    def per_thousand(self, name: str) -> float:
        """Return how often a construct occurs in 1,000 lines of code."""
        return 1000 * self.counts[name] / self.code_lines

    @property
    def comment_share(self) -> float:
        """The share of lines with a comment alone among these and the lines of code."""
        return self.comment_lines / (self.comment_lines + self.code_lines)


def measure(files: list[Path]) -> Density:
    """Count the constructs of Python files."""
    code_lines = 0
    comment_lines = 0
    counts: Counter[str] = Counter()
    private: list[str] = []
    used: Counter[str] = Counter()
    for file in files:
        text = file.read_text("utf-8")
        tree = ast.parse(text)
        docstrings = _docstring_lines(tree)
        code, comments = _lines(text)
        code_lines += len(code - docstrings)
        comment_lines += len(comments - code)
        for node in ast.walk(tree):
            counts.update(_constructs(node))
            if isinstance(node, DEFINITIONS) and _is_private(node.name):
                private.append(node.name)
            if isinstance(node, ast.Name):
                used[node.id] += 1
            if isinstance(node, ast.Attribute):
                used[node.attr] += 1
    called_once = sum(used[name] == 1 for name in private)
    return Density(code_lines, comment_lines, counts, len(private), called_once)


def _constructs(node: ast.AST) -> list[str]:
    """Return the names of the constructs that a node is."""
    found: list[str] = []
    if isinstance(node, ast.Assign):
        # `N, M = weight.shape` takes one thing apart; `a, b = 1, 2` assigns two
        several = isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)
        if several:
            found.append("parallel assignments")
    if isinstance(node, ast.IfExp):
        found.append("ternaries")
    if isinstance(node, COMPREHENSIONS):
        found.append("comprehensions")
    if isinstance(node, ast.Call):
        splatted = [part.value for part in node.args if isinstance(part, ast.Starred)]
        splatted += [part.value for part in node.keywords if part.arg is None]
        literals = (ast.List, ast.Tuple, ast.Dict, *COMPREHENSIONS)
        found += ["splatted literals"] * sum(isinstance(value, literals) for value in splatted)
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text and isinstance(node.value.value, str):
            lines.update(range(node.lineno, node.end_lineno + 1))
    return lines


def _lines(text: str) -> tuple[set[int], set[int]]:
    """Return the numbers of the lines with code or text, and of those with a comment."""
    code: set[int] = set()
    comments: set[int] = set()
    layout = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in layout:
            code.update(range(token.start[0], token.end[0] + 1))
    return code, comments


def main() -> None:
    """Print one row for each folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", default=[str(ROOT / folder) for folder in FOLDERS])
    options = parser.parse_args()
    shown = Table("folder", "files", "lines of code", title="per 1,000 lines of code")
    for name in [*PER_THOUSAND, "splatted literals", "comment lines", "private, used once"]:
        shown.add_column(name, justify="right")
    for folder in options.folders:
        files = sorted(Path(folder).rglob("*.py"))
        found = measure(files)
        if not found.code_lines:  # the rates would divide by zero
            parser.error(f"expected a folder with Python code, got {folder}")
        rates = [f"{found.per_thousand(name):.1f}" for name in PER_THOUSAND]
        shown.add_row(
            folder,
            str(len(files)),
            f"{found.code_lines:,}",
            *rates,
            str(found.counts["splatted literals"]),
            f"{found.comment_share:.1%}",
            f"{found.called_once} of {found.private}",
        )
    Console().print(shown)


if __name__ == "__main__":
    main()
