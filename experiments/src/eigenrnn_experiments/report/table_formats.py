"""Tables as CSV, Markdown and LaTeX, with every text escaped."""

import re
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from eigenrnn_experiments.report.tables import NumberCell, Table
from eigenrnn_experiments.training.files import spreadsheet_text

__all__ = ["FORMATS", "to_csv", "to_latex", "to_markdown"]

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
_LATEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
}


def to_csv(table: Table) -> str:
    """Return a table in CSV, with unrounded numbers.

    A column of means has a second one with the standard errors. A text that a spreadsheet would
    run as a formula begins with an apostrophe.
    """
    with_errors: set[str] = set()
    for cells in table.cells:
        for heading, cell in cells.items():
            if isinstance(cell, NumberCell) and cell.error is not None:
                with_errors.add(heading)
    columns: dict[str, list[object]] = {}
    for heading in table.headings:
        cells = [each.get(heading, "") for each in table.cells]
        # numbers with all digits, unlike on the page
        columns[spreadsheet_text(heading)] = [
            cell.value if isinstance(cell, NumberCell) else spreadsheet_text(cell)
            for cell in cells
        ]
        if heading in with_errors:
            columns[spreadsheet_text(f"{heading} standard error")] = [
                cell.error if isinstance(cell, NumberCell) else None for cell in cells
            ]
    # as objects: whole numbers beside empty cells would become floats
    return pd.DataFrame(columns, dtype=object).to_csv(index=False)


def to_markdown(table: Table) -> str:
    """Return a table in GitHub's Markdown."""
    marks: list[str] = []
    for heading in table.headings:
        if heading in table.text:
            marks.append("---")
        else:  # numbers stand at the right
            marks.append("---:")
    lines = [list(map(_markdown_text, table.headings)), marks]
    lines += [list(map(_markdown_text, row)) for row in table.rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def to_latex(table: Table) -> str:
    """Return a table in LaTeX, which needs the package booktabs."""
    columns = ""
    for heading in table.headings:
        if heading in table.text:
            columns += "l"
        else:
            columns += "r"
    lines = [
        "% needs \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        _latex_row(table.headings),
        "\\midrule",
        *map(_latex_row, table.rows),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "csv": to_csv,
    "markdown": to_markdown,
    "latex": to_latex,
}
"""The formats by the names that commands accept."""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _markdown_text(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", _one_line(text))


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(_latex_text, cells)) + r" \\"


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in _one_line(text))
