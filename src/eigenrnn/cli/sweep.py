"""What `eigenrnn sweep` does."""

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eigenrnn.cli.sweep_file import read_sweep
from eigenrnn.recipes.swept import SweptRecipe
from eigenrnn.sweep import Status, Sweep
from eigenrnn.sweep.results import best_first
from eigenrnn.sweep.source import shown

__all__ = ["sweep"]

_MOST_SHOWN = 10
_INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C ended


def sweep(options: Namespace, console: Console) -> int:
    """Run the trials of a file; print the best ones and where everything is.

    Returns:
        The exit status: 0, 1 if a trial should be tried again, 130 after Ctrl-C.
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
    except KeyboardInterrupt:
        console.print(f"stopped; what there is lies in {out}: go on with --resume", soft_wrap=True)
        return _INTERRUPTED
    _show(chosen, statuses, out, console)
    unfinished = [status for status in statuses if status.state != "ended"]
    for status in unfinished:
        console.print(
            f"{status.trial.name} {status.state}: {status.message}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    results = " and results.md" if isinstance(chosen.source, SweptRecipe) else ""
    console.print(f"in {out}: results.csv{results}", soft_wrap=True, highlight=False)
    return int(any(not status.is_final for status in statuses))


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
    for name in (*names, "seed", metric, "step"):
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
