"""The splits of the user's series, scaled by the moments of the training split."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from eigenrnn.experiments.data.sequences import Sequences
from eigenrnn.experiments.data.series import read_series
from eigenrnn.experiments.tasks.ragged_sequences import RaggedSequences
from eigenrnn.experiments.tasks.sampling import generator_for

__all__ = ["SeriesSplit", "SeriesSplits", "read_splits"]


@dataclass(frozen=True)
class SeriesSplit:
    """The sequences of a split and their targets: class indices or (count, 1) numbers."""

    sequences: RaggedSequences
    targets: Tensor


@dataclass(frozen=True)
class SeriesSplits:
    """All splits, the names of the classes, and the number by which targets were divided."""

    splits: dict[str, SeriesSplit]
    class_names: tuple[str, ...]
    target_scale: Tensor


def read_splits(
    train: Path, test: Path | None, *, answer: str, validation: float, seed: int, scaled: bool
) -> SeriesSplits:
    """Read the files, hold out the validation split, and scale all splits.

    Args:
        train: The training file.
        test: The test file, if any.
        answer: The kind of targets: `class`, `number` or `next`.
        validation: The fraction to hold out.
        seed: The seed of the held-out sequences.
        scaled: Whether to scale the splits.

    Raises:
        ValueError: If the files do not match or lack the targets, or a split lacks a class.
    """
    files = {"train": read_series(train)}
    if test is not None:
        files["test"] = read_series(test)
        _check_channels(files)
    names: tuple[str, ...] = ()
    for file in files.values():
        _check_answers(file, answer)
    if answer == "class":
        names = _class_names(files)
    parts = {split: _part(file, names) for split, file in files.items()}
    if validation:
        kept, held_out = _hold_out(parts["train"], names, validation, seed, train)
        whole = parts["train"]
        chosen = {"train": kept, "validation": held_out}
        parts |= {
            split: SeriesSplit(whole.sequences.select(rows), whole.targets[rows])
            for split, rows in chosen.items()
        }
    return (
        _scaled(parts, names, answer)
        if scaled
        else SeriesSplits(parts, names, _ones(parts, answer))
    )


def _check_channels(files: dict[str, Sequences]) -> None:
    train, test = files["train"], files["test"]
    if train.channels != test.channels:
        raise ValueError(
            f"expected the {len(train.channels)} channels of {train.path} in {test.path}, "
            f"{', '.join(train.channels)}, got {', '.join(test.channels)}"
        )


def _check_answers(file: Sequences, answer: str) -> None:
    found = "label" if file.labels is not None else "target" if file.targets is not None else ""
    needed = {"class": "label", "number": "target", "next": found}[answer]
    if found != needed:
        got = f"a {found}" if found else "neither label nor target"
        raise ValueError(
            f"expected a {needed} of each sequence in {file.path} for answer={answer!r}, got {got}"
        )
    short = (file.lengths < 2).nonzero()[0]
    if answer == "next" and len(short):
        raise ValueError(
            f"expected sequences of at least two steps in {file.path} for answer='next', got one "
            f"step in {file.location(int(short[0]))}"
        )


def _class_names(files: dict[str, Sequences]) -> tuple[str, ...]:
    train = files["train"]
    names = tuple(sorted(set(train.labels or ())))
    if len(names) < 2:
        raise ValueError(
            f"expected at least two classes in {train.path}, got only {', '.join(names)}"
        )
    if "test" not in files:
        return names
    test, labels = files["test"], files["test"].labels or ()
    for number, label in enumerate(labels):
        if label not in names:
            raise ValueError(
                f"expected the classes of {train.path}, {', '.join(names)}, in {test.path}, got "
                f"{label!r} in {test.location(number)}"
            )
    if lost := sorted(set(names) - set(labels)):
        raise ValueError(
            f"expected each class of {train.path} in {test.path}, got none of {', '.join(lost)}; "
            "divide the sequences so that each class is in both files"
        )
    return names


def _part(file: Sequences, names: Sequence[str]) -> SeriesSplit:
    lengths = torch.from_numpy(file.lengths)
    sequences = RaggedSequences.concatenate([torch.from_numpy(file.values)], lengths)
    if names:
        numbers = {name: number for number, name in enumerate(names)}
        return SeriesSplit(
            sequences, torch.tensor([numbers[label] for label in file.labels or ()])
        )
    if file.targets is None:
        return SeriesSplit(sequences, torch.empty(len(file), 0))
    return SeriesSplit(sequences, torch.from_numpy(file.targets).unsqueeze(1))


def _hold_out(
    part: SeriesSplit, names: Sequence[str], fraction: float, seed: int, path: Path
) -> tuple[Tensor, Tensor]:
    """Divide a split into kept and held-out sequences, with the same fraction of each class.

    Raises:
        ValueError: If one of the two would be empty.
    """
    generator = generator_for(seed, "validation")
    groups = [torch.arange(len(part.sequences))]
    if names:
        groups = [(part.targets == number).nonzero().flatten() for number in range(len(names))]
    kept: list[Tensor] = []
    held_out: list[Tensor] = []
    for number, rows in enumerate(groups):
        count = math.floor(fraction * len(rows) + 0.5)
        if not 0 < count < len(rows):
            of = f"of the class {names[number]!r} " if names else ""
            raise ValueError(
                f"expected validation={fraction} to leave some of the {len(rows)} sequences {of}"
                f"in {path} on either side, got {count} held out; choose another fraction, "
                "or 0 to hold out none"
            )
        shuffled = rows[torch.randperm(len(rows), generator=generator)]
        held_out.append(shuffled[:count])
        kept.append(shuffled[count:])
    return torch.cat(kept).sort().values, torch.cat(held_out).sort().values


def _moments(values: Tensor) -> tuple[Tensor, Tensor]:  # (S, M) -> (M,), (M,)
    """Return the mean and the standard deviation; the latter is 1 for constant channels."""
    exact = values.double()
    mean, deviation = exact.mean(0), exact.std(0, correction=0)
    # channels that are constant up to rounding are only shifted
    constant = deviation <= 1e-6 * mean.abs()
    return mean, deviation.masked_fill(constant, 1.0)


def _scaled(parts: dict[str, SeriesSplit], names: tuple[str, ...], answer: str) -> SeriesSplits:
    mean, deviation = _moments(parts["train"].sequences.values)
    centre, width = torch.zeros(1), torch.ones(1)
    if answer == "number":
        centre, width = _moments(parts["train"].targets)
    scaled: dict[str, SeriesSplit] = {}
    for split, part in parts.items():
        steps = ((part.sequences.values - mean) / deviation).float()
        answers = part.targets
        if answer == "number":
            answers = ((answers - centre) / width).float()
        scaled[split] = SeriesSplit(
            RaggedSequences.concatenate([steps], part.sequences.lengths), answers
        )
    return SeriesSplits(scaled, names, deviation.float() if answer == "next" else width.float())


def _ones(parts: dict[str, SeriesSplit], answer: str) -> Tensor:
    return torch.ones(parts["train"].sequences.values.shape[1] if answer == "next" else 1)
