"""The table of a sweep: `results.csv`, one line a trial."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.sweep.criterion import Criterion
from eigenrnn.experiments.sweep.folder import RESULTS
from eigenrnn.experiments.sweep.status import Status

__all__ = ["is_current", "write_table"]


def write_table(out: Path, statuses: Sequence[Status], criterion: Criterion | None) -> None:
    """Write the table anew, whole or not at all."""
    write_atomically(out / RESULTS, _table(statuses, criterion))


def is_current(out: Path, statuses: Sequence[Status], criterion: Criterion | None) -> bool:
    """Whether the table that is there says what has become of the trials."""
    file = out / RESULTS
    return file.exists() and file.read_bytes() == _table(statuses, criterion)


def _table(statuses: Sequence[Status], criterion: Criterion | None) -> bytes:
    rows = [_row(status, criterion) for status in statuses]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    # what every line has stands before and behind what only some have
    last = ("message", "folder")
    columns = [*(name for name in columns if name not in last), *last]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _row(status: Status, criterion: Criterion | None) -> dict[str, Any]:
    trial, result = status.trial, status.result
    row: dict[str, Any] = {**trial.parameters, "seed": trial.seed, "status": status.state}
    if result is not None:
        row |= {"steps": result.steps, "seconds": round(result.seconds, 3)}
        row |= _named(status, criterion)
        row |= {"best_by": result.best_by, "best_step": result.best_step}
        for title, metrics in (("best", result.best), ("last", result.last)):
            for split, numbers in metrics.items():
                # the shortest text that gives the very number back
                row |= {f"{title}_{split}_{name}": repr(n) for name, n in numbers.items()}
    row |= {f"score_{name}": repr(number) for name, number in (status.scores or {}).items()}
    said = " ".join(status.message.split())
    return {**row, "attempts": status.attempts, "message": said, "folder": trial.place}


def _named(status: Status, criterion: Criterion | None) -> dict[str, Any]:
    """Say what a search was told, where that is another figure than the task decides by."""
    if criterion is None or not criterion.named:
        return {}
    score = criterion.score(status)
    found = {} if score is None else {"metric_best": repr(score.value), "metric_step": score.step}
    return {"metric": criterion.metric, **found}
