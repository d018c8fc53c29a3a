"""What the runs of one network of a recipe came to."""

import csv
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from eigenrnn.recipes.base import Entry, Quoted, Reported, Row
from eigenrnn.train import Result

__all__ = ["Outcome"]

_HIGHER_IS_BETTER = {"accuracy", "f1", "r2", "segsnr_db", "stoi", "pesq"}
_NO_LAYER = "not run: this version has no such layer"
_QUOTED = "not run: quoted from another paper"


@dataclass(frozen=True)
class Outcome:
    """What the runs of one row came to.

    Args:
        label: The row's name.
        place: Where the paper reports its number.
        quantity: What is compared, and by which rule it is chosen.
        reported: The paper's number; None where it prints none.
        note: How that number was come by, or why the row was not run.
        parameters: How many our network trains; None if the row was not run.
        seeds: The seeds of our runs.
        values: Our numbers by the paper's rule, one a seed.
        selected: Our test numbers of the validation-selected models, where there are any.
        seconds: How long each run took.
        interrupted: Whether a run was asked to end early, and can go on.
    Units:
        Losses in those of the task, accuracies as shares, time in seconds.
    """

    label: str
    place: str
    quantity: str
    reported: float | None
    note: str
    parameters: int | None = None
    seeds: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    selected: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    interrupted: bool = False

    @classmethod
    def before(cls, row: Entry) -> Self:
        """Give the outcome of a row that has not been run."""
        reported = row.reported
        why_not = _QUOTED if isinstance(row, Quoted) else ""
        if isinstance(row, Row) and row.layer is None:
            why_not = _NO_LAYER
        notes = [note for note in (reported.note, why_not) if note]
        return cls(
            label=row.label,
            place=reported.place,
            quantity=reported.quantity
            if not isinstance(row, Row)
            else f"{reported.rule} {reported.split} {reported.quantity}",
            reported=reported.value,
            note="; ".join(notes),
        )

    @property
    def mean(self) -> float | None:
        """Our mean over the seeds; None if the row was not run."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def standard_error(self) -> float | None:
        """The standard error of our mean; None for fewer than two seeds."""
        return standard_error(self.values)

    @property
    def difference(self) -> float | None:
        """Our mean less the paper's number; None where there is no pair."""
        both = self.mean is not None and self.reported is not None
        return self.mean - self.reported if both else None  # type: ignore[operator]

    def with_value(self, value: float, seconds: float) -> Self:
        """Hold what was computed."""
        return replace(self, values=(value,), seconds=(seconds,))

    def with_run(self, row: Row, seed: int, parameters: int, result: Result) -> Self:
        """Add the numbers of one run."""
        selected = self.selected
        test = result.best.get("test", {})
        if "validation" in result.best and row.reported.quantity in test:
            selected = (*selected, test[row.reported.quantity])
        return replace(
            self,
            parameters=parameters,
            seeds=(*self.seeds, seed),
            values=(*self.values, _by_the_papers_rule(row, result)),
            selected=selected,
            seconds=(*self.seconds, result.seconds),
        )

    def to_json(self) -> dict[str, Any]:
        """Write all that is known, and what follows from it."""
        derived = ("mean", "standard_error", "difference")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read what `to_json` has written."""
        names = {field.name for field in fields(cls)}
        known: dict[str, Any] = {name: value for name, value in content.items() if name in names}
        for name in ("seeds", "values", "selected", "seconds"):
            known[name] = tuple(known[name])
        return cls(**known)


def standard_error(values: tuple[float, ...]) -> float | None:
    """Estimate how far the mean of a few values is off; None for fewer than two."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None


def _by_the_papers_rule(row: Row, result: Result) -> float:
    """Read off a run what the paper would have reported."""
    reported = row.reported
    if reported.quantity == "epoch_seconds":
        per_epoch = row.task.steps_per_epoch(row.settings.batch_size)
        return result.seconds / result.steps * (per_epoch or 1)
    if reported.quantity == "success":
        best = _chosen(replace(reported, quantity="loss"), result)
        return float(best < reported.success * row.task.baseline())
    return _chosen(reported, result)


def _chosen(reported: Reported, result: Result) -> float:
    if reported.rule == "validation":
        return result.best[reported.split][reported.quantity]
    with (result.directory / "metrics.csv").open(newline="") as file:
        column = f"{reported.split}_{reported.quantity}"
        values = [float(row[column]) for row in csv.DictReader(file) if row[column]]
    if reported.rule == "last":
        return values[-1]
    return max(values) if reported.quantity in _HIGHER_IS_BETTER else min(values)
