"""What the page says in words: counts, times, what is compared."""

from collections.abc import Collection, Iterable

from eigenrnn.experiments.recipes import Entry, Row

__all__ = ["compared", "counted", "duration", "grouped", "two_figures"]

_UNITS = ((86_400, "days", 48 * 3_600), (3_600, "h", 90 * 60), (60, "min", 90))
_QUANTITIES = {
    "bits": "bits a symbol",
    "henrici": "departure from normality",
    "padded_mse": "squared error with padded frames",
}
_SPLITS = {
    "validation": "on the validation set",
    "test": "on the test set",
}
_RULES = {
    "best": "the best of the run",
    "last": "at the end of training",
    "validation": "of the model that the validation set selects",
}


def compared(row: Entry) -> str:
    """Say what is compared of a row, and which number of a run counts."""
    reported = row.reported
    what = _QUANTITIES.get(reported.quantity, reported.quantity.replace("_", " "))
    if not isinstance(row, Row):
        return what
    if reported.quantity == "success":
        share = f"{reported.success:g} of a guess's"
        return f"share of the runs whose best loss {_SPLITS[reported.split]} is below {share}"
    if reported.quantity == "epoch_seconds":
        return "seconds that an epoch takes"
    if reported.quantity == "loss_mean":
        return f"mean training loss of {row.settings.log_every} updates, {_RULES[reported.rule]}"
    if reported.split == "train":
        return f"training {what}, {_RULES[reported.rule]}"
    if reported.file is not None:  # of the network itself
        return f"{what}, {_RULES[reported.rule]}"
    return f"{what} {_SPLITS[reported.split]}, {_RULES[reported.rule]}"


def counted(number: int, thing: str) -> str:
    """Write a number of things."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def two_figures(number: float) -> str:
    """Round to two figures, which is all that a time is worth."""
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def duration(seconds: float) -> str:
    """Write a time to two figures, in the unit that suits it."""
    for size, unit, least in _UNITS:
        if seconds >= least:
            return f"{two_figures(seconds / size)} {unit}"
    return f"{two_figures(seconds)} s"


def grouped(items: Iterable[str], everyone: Collection[str] = ()) -> list[str]:
    """Say what is said of several rows once, and of every one without their labels.

    An item is a label, a colon and a text.
    """
    about: dict[str, list[str]] = {}
    for item in items:
        label, colon, text = item.partition(": ")
        about.setdefault(text if colon else item, []).extend([label] if colon else [])
    return [
        text
        if not labels or (len(everyone) > 1 and set(everyone) <= set(labels))
        else f"{', '.join(labels)}: {text}"
        for text, labels in about.items()
    ]
