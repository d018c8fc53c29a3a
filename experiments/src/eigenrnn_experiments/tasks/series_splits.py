"""Divides the sequences of files into splits, and scales them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from eigenrnn.errors import check_installed
from eigenrnn_experiments.data.sequences import Sequences
from eigenrnn_experiments.tasks.preprocessing import SeriesPreprocessing
from eigenrnn_experiments.tasks.ragged_sequences import RaggedSequences
from eigenrnn_experiments.tasks.sampling import generator_for

if TYPE_CHECKING:
    from eigenrnn_experiments.tasks.series import Series

__all__ = ["Data", "Split", "make_splits"]


@dataclass(frozen=True)
class Split:
    """The sequences of a split and their targets: class indices or (count, 1) numbers."""

    sequences: RaggedSequences
    targets: Tensor


@dataclass(frozen=True)
class Data:
    """All splits, scaled, and the preprocessing that was fitted on the training split."""

    splits: dict[str, Split]
    preprocessing: SeriesPreprocessing


def make_splits(files: dict[str, Sequences], task: "Series") -> Data:
    """Divide the training file into folds, hold out the validation split, and scale all splits.

    Args:
        files: The training and perhaps the test sequences.
        task: The options.

    Raises:
        ValueError: If the files do not match or lack the targets, or a split lacks a class.
    """
    if "test" in files:
        _check_channels(files)
    names: tuple[str, ...] = ()
    for file in files.values():
        _check_answers(file, task)
    if task.answer == "class":
        names = _class_names(files)
        _check_weights(task.class_weights, names)
    parts = {split: _part(file, names) for split, file in files.items()}
    train = files["train"]
    whole = parts["train"]
    chosen = {"train": torch.arange(len(whole.sequences))}
    if task.folds is not None:
        asked = f"folds={task.folds}"
        kept, of_fold = _divide(whole, train, names, task.folds, task.fold, asked, task.split_seed)
        chosen = {"train": kept, "test": of_fold}
    if task.validation:
        rows = chosen["train"]
        if train.groups is None:
            kept, held_out = _hold_out(whole, rows, names, task, train.path)
        else:
            groups = [train.groups[row] for row in rows.tolist()]
            of_rows = replace(train, groups=tuple(groups))
            # one of this many folds holds about the fraction that is held out
            count = max(2, round(1 / task.validation))
            part = _select(whole, rows)
            asked = f"validation={task.validation:g}, one of {count} parts"
            if task.folds is not None:
                asked += " beside the test fold"
            kept, held_out = _divide(part, of_rows, names, count, 0, asked, task.split_seed)
            # indices into `rows`, as those into the whole file
            kept = rows[kept]
            held_out = rows[held_out]
        chosen |= {"train": kept, "validation": held_out}
    if len(chosen) > 1:
        parts |= {split: _select(whole, rows) for split, rows in chosen.items()}
    fitted = _fit(parts["train"], train, names, task)
    return Data({split: _scale(part, fitted) for split, part in parts.items()}, fitted)


def _select(part: Split, rows: Tensor) -> Split:
    return Split(part.sequences.select(rows), part.targets[rows])


def _divide(
    part: Split,
    file: Sequences,
    names: Sequence[str],
    folds: int,
    fold: int,
    asked: str,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Divide sequences into folds; return the rows of all others and those of one.

    An error names the options that `asked` for it.

    Raises:
        ValueError: If there are fewer sequences of a class, or fewer groups, than folds, or all
            sequences of a class are in one fold.
    """
    check_installed(
        "eigenrnn-experiments[series]", "a division by groups or into folds", "sklearn"
    )
    from sklearn import model_selection

    targets = part.targets.numpy()
    sizes = {"sequences": len(part.sequences)}
    if names:
        sizes = {}
        counts = np.bincount(targets, minlength=len(names)).tolist()
        for name, count in zip(names, counts, strict=True):
            sizes[f"sequences of the class {name!r}"] = count
    if file.groups is not None:
        # scikit-learn wants as many sequences of some class, too
        sizes = {"groups": len(set(file.groups)), "sequences of one class": max(sizes.values())}
    for what, count in sizes.items():
        if count < folds:
            raise ValueError(
                f"expected at least {folds} {what} in {file.path} for {asked}, got {count}"
            )
    if file.groups is not None and names:
        kind = model_selection.StratifiedGroupKFold
    elif file.groups is not None:
        kind = model_selection.GroupKFold
    elif names:
        kind = model_selection.StratifiedKFold
    else:
        kind = model_selection.KFold
    divided = kind(folds, shuffle=True, random_state=seed).split(
        # scikit-learn only counts the rows of the features
        np.zeros(len(targets)),
        targets,
        file.groups,
    )
    kept, of_fold = list(divided)[fold]
    for number, name in enumerate(names):
        if not ((targets[kept] == number).any() and (targets[of_fold] == number).any()):
            raise ValueError(
                f"expected sequences of the class {name!r} of {file.path} on both sides of a "
                f"division into {folds} parts, got all on one: use fewer parts or other groups, "
                "or another split_seed"
            )
    return torch.from_numpy(kept), torch.from_numpy(of_fold)


def _check_channels(files: dict[str, Sequences]) -> None:
    train = files["train"]
    test = files["test"]
    if train.channels != test.channels:
        raise ValueError(
            f"expected the {len(train.channels)} channels of {train.path} in {test.path}, "
            f"{', '.join(train.channels)}, got {', '.join(test.channels)}"
        )


def _check_answers(file: Sequences, task: "Series") -> None:
    answer = task.answer
    found = {"label": file.labels, "target": file.targets}
    needed = {"class": "label", "number": "target", "next": None}[answer]
    if needed is not None and found[needed] is None:
        got = "neither label nor target"
        for name, values in found.items():
            if values is not None:
                got = f"a {name}"
        raise ValueError(
            f"expected a {needed} of each sequence in {file.path} for answer={answer!r}, got "
            f"{got}: name its column in columns.{needed} (on the command line: "
            f"--task.columns.{needed} NAME), or choose another answer"
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
    test = files["test"]
    labels = test.labels or ()
    for number, label in enumerate(labels):
        if label not in names:
            raise ValueError(
                f"expected the classes of {train.path}, {', '.join(names)}, in {test.path}, got "
                f"{label!r} in {test.location(number)}"
            )
    return names


def _check_weights(weights: str | dict[str, float], names: Sequence[str]) -> None:
    """Check that weights are those of classes that occur.

    Raises:
        ValueError: If they name another one.
    """
    if not isinstance(weights, dict):
        return
    unknown = [name for name in weights if name not in names]
    if unknown:
        raise ValueError(
            f"expected class_weights of the classes {', '.join(names)}, got {unknown[0]!r}"
        )


def _part(file: Sequences, names: Sequence[str]) -> Split:
    lengths = torch.from_numpy(file.lengths)
    sequences = RaggedSequences.concatenate([torch.from_numpy(file.values)], lengths)
    if names:
        numbers = {name: number for number, name in enumerate(names)}
        return Split(sequences, torch.tensor([numbers[label] for label in file.labels or ()]))
    if file.targets is None:
        return Split(sequences, torch.empty(len(file), 0))
    return Split(sequences, torch.from_numpy(file.targets).unsqueeze(1))


def _hold_out(
    part: Split, chosen: Tensor, names: Sequence[str], task: "Series", path: Path
) -> tuple[Tensor, Tensor]:
    """Divide some sequences into kept and held-out ones, with the same fraction of each class.

    Raises:
        ValueError: If none could be held out.
    """
    generator = generator_for(task.split_seed, "validation")
    fraction = task.validation
    groups = [chosen]
    if names:
        targets = part.targets[chosen]
        groups = [chosen[targets == number] for number in range(len(names))]
    kept: list[Tensor] = []
    held_out: list[Tensor] = []
    for rows in groups:
        # a half is rounded up, where `round` would take the even neighbour
        count = math.floor(fraction * len(rows) + 0.5)
        count = min(max(count, 1), len(rows) - 1)
        shuffled = rows[torch.randperm(len(rows), generator=generator)]
        held_out.append(shuffled[:count])
        kept.append(shuffled[count:])
    if not sum(map(len, held_out)):
        raise ValueError(
            f"expected two sequences of a class in {path}, one to train on and one to hold out, "
            "got one of each: choose validation=0 to hold out none"
        )
    # in the order of the file
    return torch.cat(kept).sort().values, torch.cat(held_out).sort().values


def _moments(
    values: Tensor,  # (S, M)
    names: Sequence[str],
    path: Path,
) -> tuple[list[float], list[float]]:
    """Return the mean and the standard deviation; the latter is 1 for constant channels.

    Raises:
        ValueError: If all values of a channel are missing.
    """
    means: list[float] = []
    deviations: list[float] = []
    for name, column in zip(names, values.unbind(1), strict=True):
        # one channel at a time, because they are in double precision
        exact = column[~column.isnan()].double()
        if not len(exact):
            raise ValueError(
                f"expected a value of the channel {name!r} in the training part of {path}, got "
                "none: ignore the channel (columns.ignored)"
            )
        mean = exact.mean().item()
        deviation = exact.std(correction=0).item()
        # constant up to the rounding of the data: the channel is only shifted
        if deviation <= 10 * torch.finfo(values.dtype).eps * abs(mean):
            deviation = 1.0
        means.append(mean)
        deviations.append(deviation)
    return means, deviations


def _fit(
    part: Split, file: Sequences, names: tuple[str, ...], task: "Series"
) -> SeriesPreprocessing:
    """Fit the preprocessing on the training split."""
    channels = file.channels
    mean = [0.0] * len(channels)
    deviation = [1.0] * len(channels)
    target_mean = 0.0
    target_deviation = 1.0
    is_scaled = task.scaling == "z_score"
    if is_scaled:
        mean, deviation = _moments(part.sequences.values, channels, file.path)
    if is_scaled and task.answer == "number":
        (target_mean,), (target_deviation,) = _moments(part.targets, ["target"], file.path)
    return SeriesPreprocessing(
        answer=task.answer,
        channels=channels,
        mean=tuple(mean),
        deviation=tuple(deviation),
        class_names=names,
        target_mean=target_mean,
        target_deviation=target_deviation,
        missing=task.missing,
        columns=task.columns,
        separator=task.separator,
        decimal=task.decimal,
    )


def _scale(part: Split, fitted: SeriesPreprocessing) -> Split:
    steps = fitted.inputs(part.sequences.values, part.sequences.lengths)
    sequences = RaggedSequences.concatenate([steps], part.sequences.lengths)
    targets = part.targets
    if fitted.answer == "number":
        targets = fitted.scale_targets(targets)
    return Split(sequences, targets)
