"""The command `compare`, which prints the results of several runs as one table."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from eigenrnn_experiments.cli.predict import check_output
from eigenrnn_experiments.console import plain_console, say, show_markdown
from eigenrnn_experiments.files import write_atomically
from eigenrnn_experiments.report.learning_curves import averaged_over, group
from eigenrnn_experiments.report.records import read_records
from eigenrnn_experiments.report.tables import chosen_by, results
from eigenrnn_experiments.tables import FORMATS

__all__ = ["compare"]


def compare(
    runs: Sequence[str],
    *,
    format: Literal["csv", "markdown"] | None = None,
    out: str | None = None,
) -> int:
    """Print the results of runs as one table.

    It has parameters, steps, time and the metrics of the best models, as mean and standard error
    over seeds.

    Args:
        runs: Folders of runs, or of several.
        format: csv (unrounded numbers) or markdown; without it a table in a terminal,
            markdown elsewhere.
        out: Output file, replaced if it exists; without it they are printed.
    Raises:
        ValueError: If a folder holds no run, or the output cannot be written.
    """
    check_output(out, "-")
    write = FORMATS[format or "markdown"]
    records = read_records(runs)
    groups = group(records)
    if not groups:
        raise ValueError(f"expected runs in {', '.join(runs)}, got results of recipes")
    table = results(groups)
    # the table alone is on standard output, so that another program can read it
    best_by = chosen_by(groups)
    selected = f" by {best_by}" if best_by else ""
    over = averaged_over(groups)
    means = f"; mean ± standard error over {over}" if over else ""
    say(f"The best model of each run{selected}{means}.", stderr=True)
    for reason in records.unreadable.values():
        say(f"not shown: {reason}", stderr=True)
    if out is not None:
        write_atomically(Path(out), write(table).encode())
        say(f"in {out}", stderr=True)
    elif format is None:
        show_markdown(write(table), plain_console())
    else:
        sys.stdout.write(write(table))
    return 0
