"""The outcomes of a row: for each reported number those of its runs, their mean and error."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

from eigenrnn_experiments.recipes.recipe import Entry, Quoted, Reference, Reported, Row
from eigenrnn_experiments.report.tables import standard_error
from eigenrnn_experiments.training import Result
from eigenrnn_experiments.training.result import selection_split
from eigenrnn_experiments.training.run_folder import RunFolder

__all__ = ["Outcome", "compared_numbers", "not_run", "numbers_by_rule"]

_QUOTED = "not run: quoted from another paper"


@dataclass(frozen=True)
class Outcome:
    """The numbers of all runs of one row, beside one of the paper's numbers.

    Args:
        label: The row's name.
        place: Where the paper reports its number.
        quantity: The quantity that is compared, with the rule that selects an evaluation.
        reported: The paper's number; None if it prints none.
        note: How the paper's number was obtained, or why the row was not run.
        parameters: The number of parameters that our network trains; None if it was not run.
        seeds: The seeds of our runs.
        values: Our numbers by the paper's rule, one for each run.
        selected: The test numbers of the models selected on validation, if there are any.
        points: The point of the search to which each run belongs; empty without a search.
        deciding: The loss of each run, by which the best point of a search is chosen.
        pooled: Whether the runs of all points count together.
        seconds: The duration of each run.
        scores: Further scores of the best model of each run.
        failed: The runs that diverged, by point and seed.
        error: The standard error of the paper's number, if it is printed.
        at_most: An upper bound, if the paper states one and prints no number.
        decimals: The number of printed decimals, needed where the last ones are zero.
        reading: How far a number that was read off a figure may be from the true one.
        unjudged: Why no number of ours can be compared with it; empty if ours can.
        better: Whether a higher or a lower number is better; None if neither is.
        baseline: The chance-level loss, if the quantity is a loss of archived runs; else None.
        signal: The number of the signal that ended a run early; None if none came.
    Units:
        Losses in those of the task, accuracies as fractions, time in seconds.
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
    reading: float | None = None
    unjudged: str = ""
    better: Literal["higher", "lower"] | None = None
    baseline: float | None = None
    signal: int | None = None

    @classmethod
    def not_run(cls, row: Entry, reported: Reported) -> Self:
        """Return the outcome of one number of a row that has no runs yet."""
        quantity = reported.quantity
        reason = ""
        if isinstance(row, Quoted):
            reason = _QUOTED
        elif isinstance(row, Row | Reference):
            quantity = reported.measure
        if isinstance(row, Reference):
            reason = f"trained by `eigenrnn reproduce {row.recipe.name}`"
        notes = [note for note in (reported.note, reason) if note]
        return cls(
            label=row.label,
            place=reported.place,
            quantity=quantity,
            reported=reported.value,
            note="; ".join(notes),
            error=reported.error,
            at_most=reported.at_most,
            decimals=reported.decimals,
            reading=reported.reading,
            unjudged=reported.unjudged,
            better=reported.better,
            pooled=reported.pooled or reported.quantity == "success",
        )

    @property
    def best_point(self) -> str | None:
        """The point of a search with the lowest mean deciding loss; None if all points count."""
        if self.pooled or not any(self.points):
            return None
        losses = {point: list[float]() for point in self.points}
        for point, loss in zip(self.points, self.deciding, strict=True):
            losses[point].append(loss)
        return min(losses, key=lambda point: statistics.fmean(losses[point]))

    @property
    def counted_values(self) -> tuple[float, ...]:
        """The values of the best point of a search; all values without a search."""
        return self._of_best_point(self.values)

    @property
    def mean(self) -> float | None:
        """Our mean over the runs that count; None if there are none."""
        if not self.counted_values:
            return None
        return statistics.fmean(self.counted_values)

    @property
    def standard_error(self) -> float | None:
        """The standard error of our mean; None for fewer than two runs."""
        return standard_error(self.counted_values)

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's number; None if either is missing or they do not compare."""
        if self.mean is None or self.reported is None or self.unjudged:
            return None
        return self.mean - self.reported

    def with_value(self, value: float, seconds: float) -> Self:
        """Add a number that was computed without training."""
        return replace(self, values=(value,), seconds=(seconds,))

    def with_run(
        self,
        point: str,
        seed: int,
        parameters: int | None,
        seconds: float,
        scores: Mapping[str, float] | None,
        *,
        value: float | None,
        selected: float | None,
        deciding: float | None,
    ) -> Self:
        """Add a run that has ended, with its `numbers_by_rule`; None where it does not count."""
        outcome = replace(self, parameters=parameters)
        if scores:
            outcome = replace(outcome, scores=(*self.scores, dict(scores)))
        if value is None:
            return outcome
        if selected is not None:
            outcome = replace(outcome, selected=(*self.selected, selected))
        if deciding is None:  # a run that diverged: no point is chosen because of it
            deciding = math.inf
        return replace(
            outcome,
            seeds=(*self.seeds, seed),
            values=(*self.values, value),
            points=(*self.points, point),
            deciding=(*self.deciding, deciding),
            seconds=(*self.seconds, seconds),
        )

    def with_failure(
        self, reported: Reported, point: str, seed: int, parameters: int | None
    ) -> Self:
        """Add a run that diverged: it counts as no success, and has no other number."""
        outcome = replace(self, failed=(*self.failed, f"{point} seed {seed}".strip()))
        value: float | None = None
        if reported.quantity == "success":  # a share of all runs, also of those that diverged
            value = 0.0
        return outcome.with_run(
            point, seed, parameters, 0.0, None, value=value, selected=None, deciding=None
        )

    def _of_best_point(self, values: tuple[float, ...]) -> tuple[float, ...]:
        best = self.best_point
        if best is None or len(values) != len(self.points):
            return values
        return tuple(v for v, point in zip(values, self.points, strict=True) if point == best)

    def to_json(self) -> dict[str, Any]:
        """Return all fields, and the mean, error, difference and best point computed from them."""
        derived = ("mean", "standard_error", "difference", "best_point")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}


def compared_numbers(row: Entry) -> list[Reported]:
    """Return the first number of a row, and those of the others that are printed."""
    first, *others = row.reported
    return [first, *(each for each in others if each.value is not None)]


def not_run(row: Entry) -> list[Outcome]:
    """Return the outcome of each compared number of a row that has no runs yet."""
    return [Outcome.not_run(row, reported) for reported in compared_numbers(row)]


def numbers_by_rule(row: Row, reported: Reported, result: Result) -> dict[str, float | None]:
    """Return the numbers of a run that count beside a reported one.

    Returns:
        `value`, the number by the paper's rule, or None if the run does not count; `selected`, the
        test number of the model selected on validation, if there is one; and `deciding`, the best
        loss on the split by which the best point of a search is chosen.
    Raises:
        ValueError: If the row compares the time of an epoch, and its task has none.
    """
    selected = None
    split = selection_split(row.task)
    if "validation" in result.best:
        metric = reported.quantity.removesuffix("_mean")  # a mean is of training losses only
        selected = result.best.get("test", {}).get(metric)
    deciding = result.train_loss
    if split in result.best:
        deciding = result.best[split]["loss"]
    value = _value(row, reported, result)
    return {"value": value, "selected": selected, "deciding": deciding}


def _value(row: Row, reported: Reported, result: Result) -> float | None:
    """Return the number of a run by the paper's rule; None if the run does not count.

    Raises:
        ValueError: If the row compares the time of an epoch, and its task has none.
    """
    if reported.quantity == "epoch_seconds":
        per_epoch = row.task.steps_per_epoch(row.settings.batch_size)
        if per_epoch is None:
            raise ValueError(f"expected a task with epochs in {row.label}, got endless data")
        seconds = result.processor_seconds  # which other programs on the machine change little
        if seconds is None:
            seconds = result.seconds
        return seconds / result.steps * per_epoch
    if reported.quantity == "success":
        return float(_is_success(row, reported, result))
    if reported.only_successes and not _is_success(row, reported, result):
        return None
    return _by_rule(reported, result)


def _is_success(row: Row, reported: Reported, result: Result) -> bool:
    loss = replace(reported, quantity="loss", rule="best", column=None)
    return _by_rule(loss, result) < reported.success * row.task.baseline()


def _by_rule(reported: Reported, result: Result) -> float:
    if reported.rule == "validation":
        return result.best[reported.split][reported.quantity]
    column = reported.column or f"{reported.split}_{reported.quantity}"
    _, values = RunFolder(result.directory).read_column(column)
    if reported.rule == "last":
        return values[-1]
    if reported.better == "higher":
        return max(values)
    return min(values)
