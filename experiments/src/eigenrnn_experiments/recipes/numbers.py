"""The number of a run beside that of the paper, by the paper's rule."""

from dataclasses import replace

from eigenrnn_experiments.recipes.row import Reported, Row
from eigenrnn_experiments.training.run import Run, RunFolder, RunNumber

__all__ = ["check_reported", "numbers_of"]


def numbers_of(row: Row, run: Run, files: RunFolder) -> dict[str, RunNumber | None]:
    """Return the numbers of a run that has ended beside those of its row, by their `measure`.

    A number that does not count by the paper's rule is None.

    Raises:
        ValueError: If the row compares the time of an epoch, and its task has none.
    """
    numbers: dict[str, RunNumber | None] = {}
    for reported in row.reported:
        if reported.measure in numbers:
            continue
        value = _value(row, reported, run, files)
        if value is None:
            numbers[reported.measure] = None
            continue
        selected: float | None = None
        if "validation" in run.best:
            metric = reported.quantity.removesuffix("_mean")  # a mean is of training losses only
            selected = run.best.get("test", {}).get(metric)
        numbers[reported.measure] = RunNumber(value, selected)
    return numbers


def check_reported(row: Row) -> None:
    """Check that the runs of a row will have the numbers that it reports.

    Raises:
        ValueError: If one will be missing.
    """
    for reported in row.reported:
        split = reported.split
        known = {"loss", "loss_mean"}
        if split != "train":
            known = set(row.task.metric_names)
        if split not in row.task.splits or (split == "train" and reported.rule == "validation"):
            raise ValueError(
                f"expected a number of {row.label} that a run has, got {reported.measure}"
            )
        if reported.quantity == "epoch_seconds":
            _steps_per_epoch(row)
        elif reported.column is None and reported.quantity not in known | {"success"}:
            raise ValueError(
                f"expected a number of {row.label} among {', '.join(sorted(known))}, got "
                f"{reported.quantity!r} on {split}"
            )


def _steps_per_epoch(row: Row) -> int:
    """Return the number of steps in an epoch.

    Raises:
        ValueError: If the task has no epochs.
    """
    steps = row.task.steps_per_epoch(row.settings.batch_size)
    if steps is None:
        raise ValueError(f"expected a task with epochs in {row.label}, got endless data")
    return steps


def _value(row: Row, reported: Reported, run: Run, files: RunFolder) -> float | None:
    """Return the number of a run by the paper's rule; None if the run does not count.

    Raises:
        ValueError: If the row compares the time of an epoch, and its task has none.
    """
    if reported.quantity == "epoch_seconds":
        seconds = run.processor_seconds  # which other programs on the machine change little
        if seconds is None:
            seconds = run.seconds
        return seconds / run.steps * _steps_per_epoch(row)
    if reported.quantity == "success":
        return float(_is_success(row, reported, run, files))
    if reported.only_successes and not _is_success(row, reported, run, files):
        return None
    return _by_rule(reported, run, files)


def _is_success(row: Row, reported: Reported, run: Run, files: RunFolder) -> bool:
    loss = replace(reported, quantity="loss", rule="best", column=None)
    return _by_rule(loss, run, files) < reported.success * row.task.baseline()


def _by_rule(reported: Reported, run: Run, files: RunFolder) -> float:
    if reported.rule == "validation":
        return run.best[reported.split][reported.quantity]
    column = reported.column or f"{reported.split}_{reported.quantity}"
    _, values = files.read_column(column)
    if reported.rule == "last":
        return values[-1]
    if reported.better == "higher":
        return max(values)
    return min(values)
