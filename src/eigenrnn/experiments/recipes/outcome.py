"""What the runs of one network of a recipe came to."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from eigenrnn.experiments.recipes.base import Entry, Quoted, Row
from eigenrnn.experiments.recipes.numbers import deciding_loss, number_of, test_of_the_validated
from eigenrnn.experiments.training import Result

__all__ = ["Outcome"]

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
        values: Our numbers by the paper's rule, one a run.
        selected: Our test numbers of the validation-selected models, where there are any.
        points: The point of the search that each run belongs to; empty without a search.
        deciding: The loss of each run by which the best point of a search is chosen.
        pooled: Whether the runs of all points count together.
        seconds: How long each run took.
        scores: What else the best model of each run was measured by.
        failed: The runs that diverged, by point and seed.
        error: The standard error of the paper's number, if it is printed.
        at_most: What the number stays below, where the paper says so much and prints none.
        decimals: How many digits of the paper's number are printed after the point, where the
            last are zeros.
        signal: The number of the signal that asked a run to end; None if none did.
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
    points: tuple[str, ...] = ()
    deciding: tuple[float, ...] = ()
    pooled: bool = True
    seconds: tuple[float, ...] = ()
    scores: tuple[dict[str, float], ...] = ()
    failed: tuple[str, ...] = ()
    error: float | None = None
    at_most: float | None = None
    decimals: int | None = None
    signal: int | None = None

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
            error=reported.error,
            at_most=reported.at_most,
            decimals=reported.decimals,
            pooled=reported.pooled or reported.quantity == "success",
        )

    @property
    def interrupted(self) -> bool:
        """Whether a signal asked a run to end; what is left goes on with `resume=True`."""
        return self.signal is not None

    @property
    def best_point(self) -> str | None:
        """The point of a search whose runs have the lowest deciding loss; None if all count."""
        if self.pooled or not any(self.points):
            return None
        losses = {point: list[float]() for point in self.points}
        for point, loss in zip(self.points, self.deciding, strict=True):
            losses[point].append(loss)
        return min(losses, key=lambda point: statistics.fmean(losses[point]))

    @property
    def counted(self) -> tuple[float, ...]:
        """The values that count: those of the best point of a search, else all."""
        return self._of_best_point(self.values)

    @property
    def counted_selected(self) -> tuple[float, ...]:
        """The test numbers of the validation-selected models, likewise."""
        return self._of_best_point(self.selected)

    @property
    def mean(self) -> float | None:
        """Our mean over the runs that count; None if there are none."""
        return statistics.fmean(self.counted) if self.counted else None

    @property
    def standard_error(self) -> float | None:
        """The standard error of our mean; None for fewer than two runs."""
        return standard_error(self.counted)

    @property
    def difference(self) -> float | None:
        """Our mean less the paper's number; None where there is no pair."""
        both = self.mean is not None and self.reported is not None
        return self.mean - self.reported if both else None  # type: ignore[operator]

    def with_value(self, value: float, seconds: float) -> Self:
        """Hold what was computed."""
        return replace(self, values=(value,), seconds=(seconds,))

    def with_run(
        self, row: Row, seed: int, parameters: int, result: Result, point: str = ""
    ) -> Self:
        """Add the numbers of one run, if it has any that counts."""
        value, selected = number_of(row, result), test_of_the_validated(row, result)
        if value is None:
            return replace(self, parameters=parameters)
        return replace(
            self,
            parameters=parameters,
            seeds=(*self.seeds, seed),
            values=(*self.values, value),
            selected=self.selected if selected is None else (*self.selected, selected),
            points=(*self.points, point),
            deciding=(*self.deciding, deciding_loss(row, result)),
            seconds=(*self.seconds, result.seconds),
        )

    def with_failure(self, row: Row, seed: int, parameters: int, point: str = "") -> Self:
        """Add a run that diverged: it is no success, and has no other number."""
        failed = (*self.failed, f"{point} seed {seed}".strip())
        known = replace(self, parameters=parameters, failed=failed)
        if row.reported.quantity != "success":
            return known
        return replace(
            known,
            seeds=(*self.seeds, seed),
            values=(*self.values, 0.0),
            points=(*self.points, point),
            deciding=(*self.deciding, math.inf),
            seconds=(*self.seconds, 0.0),
        )

    def _of_best_point(self, values: tuple[float, ...]) -> tuple[float, ...]:
        best = self.best_point
        if best is None or len(values) != len(self.points):
            return values
        return tuple(v for v, point in zip(values, self.points, strict=True) if point == best)

    def to_json(self) -> dict[str, Any]:
        """Write all that is known, and what follows from it."""
        derived = ("mean", "standard_error", "difference", "best_point")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read what `to_json` has written."""
        names = {field.name for field in fields(cls)}
        known: dict[str, Any] = {name: value for name, value in content.items() if name in names}
        for name in (
            "seeds",
            "values",
            "selected",
            "points",
            "deciding",
            "seconds",
            "scores",
            "failed",
        ):
            known[name] = tuple(known.get(name, ()))
        return cls(**known)


def standard_error(values: tuple[float, ...]) -> float | None:
    """Estimate how far the mean of a few values is off; None for fewer than two."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
