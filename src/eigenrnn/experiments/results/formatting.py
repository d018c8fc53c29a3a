"""Formats quantities, counts, durations, machines and Markdown tables for RESULTS.md."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from eigenrnn.experiments.recipes import Entry, Row
from eigenrnn.experiments.results.archive import ArchivedRun

__all__ = [
    "MachineNames",
    "describe_quantity",
    "duration",
    "markdown_table",
    "merge_remarks",
    "pluralise",
    "two_digits",
    "used_one_thread",
]

_UNITS = ((86_400, "days", 48 * 3_600), (3_600, "h", 90 * 60), (60, "min", 90))
_QUANTITIES = {
    "bits": "bits per symbol",
    "henrici": "departure from normality",
    "padded_mse": "squared error with padded frames",
}
_SPLITS = {
    "validation": "on the validation set",
    "test": "on the test set",
}
_RULES = {
    "best": "best of the run",
    "last": "at the end of training",
    "validation": "of the model selected on the validation set",
}


def describe_quantity(row: Entry) -> str:
    """Describe the quantity that a row compares, and the rule that picks one number per run."""
    reported = row.reported
    name = _QUANTITIES.get(reported.quantity, reported.quantity.replace("_", " "))
    if not isinstance(row, Row):
        return name
    if reported.quantity == "success":
        bound = f"{reported.success:g} of the chance level"
        return f"share of the runs whose best loss {_SPLITS[reported.split]} is below {bound}"
    if reported.quantity == "epoch_seconds":
        return "seconds per epoch"
    if reported.quantity == "loss_mean":
        return (
            f"training loss, mean over {row.settings.log_every} updates, {_RULES[reported.rule]}"
        )
    if reported.split == "train":
        return f"training {name}, {_RULES[reported.rule]}"
    if reported.file is not None:  # a property of the network, not of a split
        return f"{name}, {_RULES[reported.rule]}"
    return f"{name} {_SPLITS[reported.split]}, {_RULES[reported.rule]}"


def pluralise(number: int, noun: str) -> str:
    """Write a count with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def two_digits(number: float) -> str:
    """Round to two significant digits."""
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def duration(seconds: float) -> str:
    """Write a duration with two significant digits, in a suitable unit."""
    for size, unit, minimum in _UNITS:
        if seconds >= minimum:
            return f"{two_digits(seconds / size)} {unit}"
    return f"{two_digits(seconds)} s"


def merge_remarks(items: Iterable[str], all_labels: Collection[str] = ()) -> list[str]:
    """Merge remarks of equal text, and drop the labels of a remark on all rows.

    An item is a label, a colon and a text.
    """
    labels_by_text: dict[str, list[str]] = {}
    for item in items:
        label, colon, text = item.partition(": ")
        labels_by_text.setdefault(text if colon else item, []).extend([label] if colon else [])
    return [
        text
        if not labels or (len(all_labels) > 1 and set(all_labels) <= set(labels))
        else f"{', '.join(labels)}: {text}"
        for text, labels in labels_by_text.items()
    ]


_TEXT_COLUMNS = {"recipe", "network", "machine"}


def markdown_table(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of a table; empty columns are dropped."""
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    return [
        _line(kept),
        _line("---" if name in _TEXT_COLUMNS else "---:" for name in kept),
        *map(_line, zip(*kept.values(), strict=True)),
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


class MachineNames:
    """Short names of the machines of the archived runs.

    Args:
        runs: All archived runs.
    """

    def __init__(self, runs: Sequence[ArchivedRun]) -> None:
        machines = sorted({_describe_machine(run) for run in runs})
        self._names = {text: f"M{number}" for number, text in enumerate(machines, start=1)}

    def lines(self) -> list[str]:
        """Return a list of the machines, each with its name and description."""
        return [f"- {name}: {text}." for text, name in self._names.items()]

    def of_runs(self, runs: Sequence[ArchivedRun]) -> str:
        """Return the names of the machines of these runs."""
        return ", ".join(sorted({self._names[_describe_machine(run)] for run in runs}))


def used_one_thread(run: ArchivedRun) -> bool:
    """Whether a run is recorded to have used one thread."""
    return re.search(r"\b1 threads?$", run.versions.get("processor", "")) is not None


def _describe_machine(run: ArchivedRun) -> str:
    versions = run.versions
    platform = versions.get("platform", "unknown system").partition("-")[0]
    machine = versions.get("processor", f"processor not recorded ({platform})")
    machine = re.sub(r"\b1 (core|thread)s", r"1 \1", machine)  # the spelling of the first runs
    parts = [machine, *([versions["gpu"]] if "gpu" in versions else [])]
    software = (
        f"{name} {versions[name]}" for name in ("eigenrnn", "torch", "python") if name in versions
    )
    return f"{', '.join(parts)}; {', '.join(software)}"
