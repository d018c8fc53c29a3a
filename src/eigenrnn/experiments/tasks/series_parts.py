"""The parts of the user's series: what is held out, and the scaling fitted on the rest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from eigenrnn.experiments.data.sequences import Sequences
from eigenrnn.experiments.data.series import read_series
from eigenrnn.experiments.tasks.ragged import Ragged
from eigenrnn.experiments.tasks.streams import stream

__all__ = ["Part", "Parts", "read_parts"]


@dataclass(frozen=True)
class Part:
    """The sequences of a split with their answers, class numbers or (count, 1) numbers."""

    sequences: Ragged
    answers: Tensor


@dataclass(frozen=True)
class Parts:
    """All splits, the names of the classes, and what answers were divided by."""

    parts: dict[str, Part]
    class_names: tuple[str, ...]
    answer_scale: Tensor


def read_parts(
    train: Path, test: Path | None, *, answer: str, validation: float, seed: int, scaled: bool
) -> Parts:
    """Read the files, hold out the validation part and scale all by what is left.

    Args:
        train: The file to train on.
        test: The file to test on, if any.
        answer: What is asked: `class`, `number` or `next`.
        validation: The share to hold out.
        seed: That of the choice.
        scaled: Whether to scale.

    Raises:
        ValueError: If the files do not go together, lack what is asked, or a class would be
            missing in a split.
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
        kept, held_out = _draw(parts["train"], names, validation, seed, train)
        whole = parts["train"]
        chosen = {"train": kept, "validation": held_out}
        parts |= {
            split: Part(whole.sequences.of(rows), whole.answers[rows])
            for split, rows in chosen.items()
        }
    return _scaled(parts, names, answer) if scaled else Parts(parts, names, _ones(parts, answer))


def _check_channels(files: dict[str, Sequences]) -> None:
    train, test = files["train"], files["test"]
    if train.channels != test.channels:
        raise ValueError(
            f"expected the {len(train.channels)} channels of {train.path} in {test.path}, "
            f"{', '.join(train.channels)}, got {', '.join(test.channels)}"
        )


def _check_answers(file: Sequences, answer: str) -> None:
    found = "label" if file.labels is not None else "target" if file.numbers is not None else ""
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
            f"step in {file.place(int(short[0]))}"
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
                f"{label!r} in {test.place(number)}"
            )
    if lost := sorted(set(names) - set(labels)):
        raise ValueError(
            f"expected each class of {train.path} in {test.path}, got none of {', '.join(lost)}; "
            "divide the sequences so that each class is in both files"
        )
    return names


def _part(file: Sequences, names: Sequence[str]) -> Part:
    lengths = torch.from_numpy(file.lengths)
    sequences = Ragged.joined([torch.from_numpy(file.values)], lengths)
    if names:
        numbers = {name: number for number, name in enumerate(names)}
        return Part(sequences, torch.tensor([numbers[label] for label in file.labels or ()]))
    if file.numbers is None:
        return Part(sequences, torch.empty(len(file), 0))
    return Part(sequences, torch.from_numpy(file.numbers).unsqueeze(1))


def _draw(
    part: Part, names: Sequence[str], share: float, seed: int, path: Path
) -> tuple[Tensor, Tensor]:
    """Choose what is kept and what is held out, the same share of each class.

    Raises:
        ValueError: If nothing is left on one of the sides.
    """
    generator = stream(seed, "validation")
    groups = [torch.arange(len(part.sequences))]
    if names:
        groups = [(part.answers == number).nonzero().flatten() for number in range(len(names))]
    kept: list[Tensor] = []
    held_out: list[Tensor] = []
    for number, rows in enumerate(groups):
        count = math.floor(share * len(rows) + 0.5)
        if not 0 < count < len(rows):
            of = f"of the class {names[number]!r} " if names else ""
            raise ValueError(
                f"expected validation={share} to leave some of the {len(rows)} sequences {of}in "
                f"{path} on either side, got {count} held out; choose another share, or 0 to hold "
                "out none"
            )
        shuffled = rows[torch.randperm(len(rows), generator=generator)]
        held_out.append(shuffled[:count])
        kept.append(shuffled[count:])
    return torch.cat(kept).sort().values, torch.cat(held_out).sort().values


def _moments(values: Tensor) -> tuple[Tensor, Tensor]:  # (S, M) -> (M,), (M,)
    """Return mean and standard deviation, the latter 1 for what never changes."""
    exact = values.double()
    mean, deviation = exact.mean(0), exact.std(0, correction=0)
    # what is constant up to rounding is only shifted
    constant = deviation <= 1e-6 * mean.abs()
    return mean, deviation.masked_fill(constant, 1.0)


def _scaled(parts: dict[str, Part], names: tuple[str, ...], answer: str) -> Parts:
    mean, deviation = _moments(parts["train"].sequences.steps)
    centre, width = torch.zeros(1), torch.ones(1)
    if answer == "number":
        centre, width = _moments(parts["train"].answers)
    scaled: dict[str, Part] = {}
    for split, part in parts.items():
        steps = ((part.sequences.steps - mean) / deviation).float()
        answers = part.answers
        if answer == "number":
            answers = ((answers - centre) / width).float()
        scaled[split] = Part(Ragged.joined([steps], part.sequences.lengths), answers)
    return Parts(scaled, names, deviation.float() if answer == "next" else width.float())


def _ones(parts: dict[str, Part], answer: str) -> Tensor:
    return torch.ones(parts["train"].sequences.steps.shape[1] if answer == "next" else 1)
