"""The table `results.csv` of a sweep, read from the folders of its runs."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.sweep.trial import Criterion, Trial

__all__ = ["write_table"]


def write_table(out: Path, trials: Sequence[Trial], criterion: Criterion | None) -> None:
    """Write `results.csv` atomically, one line per trial.

    Args:
        out: The folder of the sweep.
        trials: All trials.
        criterion: The metric of a search, which has columns of its own.
    """
    rows = [_row(out, trial, criterion) for trial in trials]
    columns = dict.fromkeys(name for row in rows for name in row)
    for name in ("message", "folder"):  # which all rows have, after what only some have
        columns[name] = columns.pop(name, None)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(out / "results.csv", text.getvalue().encode())


def _row(out: Path, trial: Trial, criterion: Criterion | None) -> dict[str, Any]:
    files = trial.files(out)
    status = trial.status(out)
    result = files.read_result()
    row: dict[str, Any] = {**trial.parameters, "seed": trial.seed, "status": status["state"]}
    if result is not None:
        row |= {"steps": result.steps, "seconds": round(result.seconds, 3)}
        score = criterion and criterion.score(files)
        if criterion is not None and score is not None:
            row |= {"metric": criterion.metric, "metric_best": repr(score)}
        row |= {"best_by": result.best_by, "best_step": result.best_step}
        for title, metrics in (("best", result.best), ("last", result.last)):
            for split, numbers in metrics.items():
                for name, number in numbers.items():
                    # the shortest text that parses to the same number
                    row[f"{title}_{split}_{name}"] = repr(number)
    for name, number in status.get("scores", {}).items():
        row[f"score_{name}"] = repr(number)
    return {**row, "message": " ".join(status["message"].split()), "folder": trial.path}
