"""What `eigenrnn sweep` does."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eigenrnn.cli.sweep_file import read_sweep
from eigenrnn.recipes.swept import SweptRecipe
from eigenrnn.sweep import Status, StoppedError, Sweep
from eigenrnn.sweep.results import best_first, is_current
from eigenrnn.sweep.source import shown

__all__ = ["sweep"]

_MOST_SHOWN = 10
_SIGNALLED = 128  # with its number added, what a shell reports of a program that a signal ended


def sweep(options: Namespace, console: Console) -> int:
    """Run the trials of a file; print the best ones and where everything is.

    Returns:
        The exit status: 0, 1 if a trial should be tried again or the table could not be written,
        130 after Ctrl-C and 143 after SIGTERM.
    """
    file = Path(options.file)
    chosen = read_sweep(file)
    out = Path(options.out or f"runs/{file.stem}")
    try:
        statuses = chosen.run(
            out,
            address=options.address,
            resume=options.resume,
            overwrite=options.overwrite,
            trials_at_once=options.trials_at_once,
        )
    except StoppedError as stopped:
        console.print(f"stopped; what there is lies in {out}: go on with --resume", soft_wrap=True)
        return _SIGNALLED + stopped.number
    _show(chosen, statuses, out, console)
    unfinished = Counter(status.state for status in statuses if status.state != "ended")
    again = any(not status.is_final for status in statuses)
    if unfinished:  # each was told of when it came to that
        said = ", ".join(f"{number} {state}" for state, number in unfinished.items())
        hint = "; --resume tries again those that have not diverged" if again else ""
        console.print(f"of {len(statuses)} trials {said}{hint}", soft_wrap=True, highlight=False)
    current = is_current(out, statuses)
    results = " and results.md" if isinstance(chosen.source, SweptRecipe) else ""
    written = f"results.csv{results}" if current else "results.csv is out of date"
    console.print(f"in {out}: {written}", soft_wrap=True, highlight=False)
    return int(again or not current)


def _show(chosen: Sweep, statuses: Sequence[Status], out: Path, console: Console) -> None:
    decides = chosen.decides()
    if decides is None:
        return
    metric, mode = decides
    best = best_first(statuses, metric, mode)[:_MOST_SHOWN]
    if not best:
        return
    names = list(dict.fromkeys(name for status in best for name in status.trial.parameters))
    title = f"the best of {len(statuses)} trials, by {metric}"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in (*names, "seed", metric, "step", "folder"):
        table.add_column(name, overflow="fold")
    for status in best:
        parameters = status.trial.parameters
        values = [shown(parameters[name]) if name in parameters else "" for name in names]
        figure, step = status.figure(metric), status.result and status.result.best_step
        table.add_row(
            *values, str(status.trial.seed), shown(figure), str(step), status.trial.place
        )
    console.print(table)
    console.print(f"best: {out / best[0].trial.place}", soft_wrap=True, highlight=False)
