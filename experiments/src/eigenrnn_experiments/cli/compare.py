"""The command `compare`, which prints the results of several runs as one table."""

import sys
from pathlib import Path

from jsonargparse import Namespace
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as TerminalTable
from rich.text import Text

from eigenrnn_experiments.atomic import write_atomically
from eigenrnn_experiments.report.learning_curves import averaged_over, group
from eigenrnn_experiments.report.records import read_records
from eigenrnn_experiments.report.table_formats import FORMATS
from eigenrnn_experiments.report.tables import Table, chosen_by, further_metrics, runs_of_all_tasks
from eigenrnn_experiments.training.progress import plain_console, printable

__all__ = ["compare"]


def compare(options: Namespace, console: Console) -> int:
    """Print the results of runs, or write them to a file; return the exit status.

    Raises:
        ValueError: If a folder holds no run, or the output cannot be written.
    """
    out: Path | None = None
    if options.out is not None:
        out = Path(options.out)
        if out.is_dir() or not out.absolute().parent.is_dir():
            raise ValueError(f"expected a file in a folder that exists as --out, got {out}")
    write = FORMATS[options.format or "markdown"]
    records = read_records(options.runs)
    groups = group(records)
    if not groups:
        raise ValueError(f"expected runs in {', '.join(options.runs)}, got results of recipes")
    table = runs_of_all_tasks(groups)
    # the table alone is on standard output, so that another program can read it
    notes = plain_console(stderr=True)
    best_by = chosen_by(groups)
    selected = f" by {best_by}" if best_by else ""
    over = averaged_over(groups)
    means = f"; mean ± standard error over {over}" if over else ""
    notes.print(
        f"The best model of each run{selected}{means}.",
        soft_wrap=True,
        highlight=False,
    )
    for reason in records.unreadable.values():
        notes.print(f"not shown: {reason}", soft_wrap=True, highlight=False, markup=False)
    if out is not None:
        write_atomically(out, write(table).encode())
        notes.print(f"in {out}", soft_wrap=True, highlight=False, markup=False)
    elif options.format is None and console.is_terminal:
        fitting, left_out = _fit(table, console.width, further_metrics(groups))
        _show(fitting, console)
        if left_out:
            notes.print(
                f"left out, because the terminal is narrow: {', '.join(left_out)}; "
                "--format markdown shows all",
                soft_wrap=True,
                highlight=False,
            )
    else:
        written = write(table)
        if sys.stdout.isatty():
            written = printable(written)
        sys.stdout.write(written)
    return 0


def _fit(table: Table, width: int, further: set[str]) -> tuple[Table, list[str]]:
    """Leave out further columns if a table is wider than the terminal; return their headings."""
    columns = zip(table.headings, *table.rows, strict=True)
    # one blank on either side of a cell, as rich prints it
    needed = sum(max(map(len, column)) + 2 for column in columns)
    if needed <= width:
        return table, []
    left_out = [heading for heading in table.headings if heading in further]
    return table.without(further), left_out


def _show(table: Table, console: Console) -> None:
    shown = TerminalTable(box=SIMPLE_HEAD)
    for heading in table.headings:
        shown.add_column(Text(heading), justify="left" if heading in table.text else "right")
    for row in table.rows:
        shown.add_row(*(Text(printable(cell)) for cell in row))
    console.print(shown)
