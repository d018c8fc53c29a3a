"""Series in numpy's `.npz` archives."""

from pathlib import Path
from typing import Any

import numpy as np

from eigenrnn.experiments.data.packed import read_arrays
from eigenrnn.experiments.data.sequences import Sequences, as_float32, checked

__all__ = ["read_npz"]


def read_npz(path: Path) -> Sequences:
    """Read the arrays `x`, `lengths`, and `label` or `target`.

    `x` holds the sequences either padded, (count, steps, channels), or one after the other,
    (sum of lengths, channels); `lengths` their numbers of steps, and may be left out where all are
    as long as the padded array.

    Args:
        path: The file.

    Raises:
        ValueError: If the file is cut off, or an array is missing or has another shape.
    """
    arrays = read_arrays(path, "the arrays", "cut the file into smaller ones")
    x = arrays.get("x")
    if x is None or x.ndim not in (2, 3) or x.dtype.kind not in "fiub":
        got = "no such array" if x is None else f"{x.dtype} of the shape {x.shape}"
        raise ValueError(
            f"expected numbers of the shape (count, steps, channels), or (sum of lengths, "
            f"channels), as x in {path}, got {got}"
        )
    lengths = _lengths(x, arrays.get("lengths"), path)
    if x.ndim == 3:
        x = x[np.arange(x.shape[1]) < lengths[:, None]]
    labels, numbers = (_answers(arrays.get(name), len(lengths), name, path) for name in _ANSWERS)
    return checked(
        Sequences(
            path=path,
            values=as_float32(x),
            lengths=lengths,
            channels=tuple(str(k) for k in range(1, x.shape[-1] + 1)),
            labels=None if labels is None else _labels(labels, path),
            numbers=None if numbers is None else as_float32(numbers),
            place=lambda number: f"the sequence with index {number}",
        )
    )


_ANSWERS = ("label", "target")


def _labels(labels: Any, path: Path) -> tuple[str, ...]:
    """Write the labels as text.

    Raises:
        ValueError: If one is missing.
    """
    words = tuple(map(str, labels.tolist()))
    missing = [number for number, word in enumerate(words) if word.strip() in {"", "nan", "None"}]
    if missing:
        raise ValueError(
            f"expected a label for every sequence in {path}, got none for that with index "
            f"{missing[0]}"
        )
    return words


def _lengths(x: Any, lengths: Any | None, path: Path) -> Any:
    if lengths is None:
        if x.ndim == 2:
            raise ValueError(
                f"expected lengths beside the two-dimensional x in {path}, got no such array"
            )
        return np.full(len(x), x.shape[1], np.int64)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise ValueError(
            f"expected lengths as whole numbers in one dimension in {path}, got {lengths.dtype} "
            f"of the shape {lengths.shape}"
        )
    longest, count = (len(x), len(lengths)) if x.ndim == 2 else (x.shape[1], len(x))
    # each is known to be small before they are added up: a sum of any could wrap around
    fits = len(lengths) == count and ((lengths >= 1) & (lengths <= longest)).all()
    steps: Any = lengths.astype(np.int64)
    if not fits or (x.ndim == 2 and steps.sum() != len(x)):
        raise ValueError(
            f"expected lengths of whole numbers >= 1 that fit x of the shape {x.shape} in {path}, "
            f"got {len(lengths)} of them with the sum {sum(lengths.tolist())}"
        )
    return steps


def _answers(array: Any | None, count: int, name: str, path: Path) -> Any | None:
    if array is None:
        return None
    if array.shape != (count,) or (name == "target" and array.dtype.kind not in "fiu"):
        raise ValueError(
            f"expected {count} of {name} in {path}, got {array.dtype} of the shape {array.shape}"
        )
    return array
