"""The command `eigenrnn sweep`, which trains the trials of a grid or a search."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eigenrnn.experiments.cli.sweep_file import read_sweep
from eigenrnn.experiments.recipes.sweep import RecipeSweep
from eigenrnn.experiments.sweep.trial import Criterion, Trial, format_value

__all__ = ["sweep"]

_MAX_SHOWN = 10
_UNLIMITED_WIDTH = 10_000  # characters, more than any table needs


def sweep(options: Namespace, console: Console) -> int:
    """Train the trials of a file; print the best ones and the output folder.

    Returns:
        The exit status: 0, or 1 if a trial should be retried.
    """
    file = Path(options.file)
    chosen = read_sweep(file)
    out = Path(options.out or f"runs/{file.stem}")
    trials = chosen.run(
        out,
        address=options.address,
        resume=options.resume,
        overwrite=options.overwrite,
        trials_at_once=options.trials_at_once,
    )
    criterion = chosen.criterion()
    if criterion is not None:
        _show(criterion, trials, out, console)
    if isinstance(chosen, RecipeSweep):
        for label, text in chosen.changes(trials).items():
            console.print(f"not comparable: {label}: {text}", soft_wrap=True, highlight=False)
    states = Counter(trial.status(out).state for trial in trials)
    retry = states.total() > states["ended"] + states["diverged"]
    counts = ", ".join(f"{number} {state}" for state, number in states.items() if state != "ended")
    if counts:  # each has been reported already
        hint = "; --resume retries those that have not diverged" if retry else ""
        console.print(f"of {len(trials)} trials {counts}{hint}", soft_wrap=True, highlight=False)
    console.print(f"in {out}: results.csv", soft_wrap=True, highlight=False)
    return int(retry)


def _show(criterion: Criterion, trials: Sequence[Trial], out: Path, console: Console) -> None:
    scored = [(criterion.score(trial.files(out)), trial) for trial in trials]
    best = [pair for pair in scored if pair[0] != criterion.worst]
    best.sort(key=lambda pair: pair[0], reverse=criterion.mode == "max")
    if not best:
        return
    title = f"the best of {len(trials)} trials, by {criterion.metric}"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in ("trial", criterion.metric, "folder"):
        table.add_column(name, no_wrap=True)
    for score, trial in best[:_MAX_SHOWN]:
        table.add_row(trial.name, format_value(score), trial.path)
    # longer lines on a narrow terminal, because broken words cannot be copied
    unlimited = console.options.update(width=_UNLIMITED_WIDTH)
    table.width = console.measure(table, options=unlimited).maximum
    console.print(table, crop=False)
    console.print(f"best: {out / best[0][1].path}", soft_wrap=True, highlight=False)
