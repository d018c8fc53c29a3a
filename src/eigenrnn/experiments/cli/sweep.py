"""The command `eigenrnn sweep`, which trains the trials of a grid or a search."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from eigenrnn.experiments.cli.sweep_file import read_sweep
from eigenrnn.experiments.recipes.sweep import RecipeSweep
from eigenrnn.experiments.sweep import Criterion, StoppedError, Trial
from eigenrnn.experiments.sweep.progress import is_current
from eigenrnn.experiments.sweep.trial import format_value

__all__ = ["sweep"]

_MAX_SHOWN = 10
_UNLIMITED_WIDTH = 10_000  # characters, more than any table needs
_SIGNALLED = 128  # plus the signal number: the exit status of a program ended by a signal


def sweep(options: Namespace, console: Console) -> int:
    """Run the trials of a file; print the best ones and the output folder.

    Returns:
        The exit status: 0, 1 if a trial should be retried or the table could not be written,
        130 after Ctrl-C and 143 after SIGTERM.
    """
    file = Path(options.file)
    chosen = read_sweep(file)
    out = Path(options.out or f"runs/{file.stem}")
    try:
        trials = chosen.run(
            out,
            address=options.address,
            resume=options.resume,
            overwrite=options.overwrite,
            trials_at_once=options.trials_at_once,
        )
    except StoppedError as stopped:
        console.print(
            f"stopped; finished trials are in {out}: continue with --resume", soft_wrap=True
        )
        return _SIGNALLED + stopped.number
    criterion = chosen.criterion()
    if criterion is not None:
        _show(criterion, trials, out, console)
    if isinstance(chosen.source, RecipeSweep):
        for label, text in chosen.source.changes(trials).items():
            console.print(f"not comparable: {label}: {text}", soft_wrap=True, highlight=False)
    unfinished = Counter(trial.state for trial in trials if trial.state != "ended")
    retry = any(not trial.is_final for trial in trials)
    if unfinished:  # each has been reported already
        counts = ", ".join(f"{number} {state}" for state, number in unfinished.items())
        hint = ""
        if retry:
            hint = "; --resume retries those that have not diverged"
        console.print(f"of {len(trials)} trials {counts}{hint}", soft_wrap=True, highlight=False)
    current = is_current(out, trials, criterion)
    if not current:
        files = "results.csv is out of date"
    elif isinstance(chosen.source, RecipeSweep):
        files = "results.csv and results.md"
    else:
        files = "results.csv"
    console.print(f"in {out}: {files}", soft_wrap=True, highlight=False)
    return int(retry or not current)


def _show(criterion: Criterion, trials: Sequence[Trial], out: Path, console: Console) -> None:
    best = criterion.best_first(trials)[:_MAX_SHOWN]
    if not best:
        return
    shown = [trial for _, trial in best]
    columns: dict[str, list[str]] = {}
    for trial in shown:
        for name in trial.parameters:
            columns[name] = []
    for name, cells in columns.items():
        for trial in shown:
            cell = ""  # rows of a recipe may search over different parameters
            if name in trial.parameters:
                cell = format_value(trial.parameters[name])
            cells.append(cell)
    columns["seed"] = [str(trial.seed) for trial in shown]
    columns[criterion.metric] = [format_value(score.value) for score, _ in best]
    columns["step"] = [str(score.step) for score, _ in best]
    columns["folder"] = [trial.path for trial in shown]
    title = f"the best of {len(trials)} trials, by {criterion.metric}"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name, cells in columns.items():
        # rich would break a word that is longer than its column
        min_cell = max(map(len, " ".join([name, *cells]).split()), default=1)
        table.add_column(name, min_width=min_cell, no_wrap=name == "folder")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    min_width = Measurement.get(
        console, console.options.update(width=_UNLIMITED_WIDTH), table
    ).minimum
    if min_width > console.width:  # longer lines, because broken words cannot be copied
        table.width = min_width
    console.print(table, crop=False)
    console.print(f"best: {out / shown[0].path}", soft_wrap=True, highlight=False)
