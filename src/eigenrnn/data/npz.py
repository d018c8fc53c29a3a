"""Series in numpy's `.npz` archives."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from eigenrnn.data.memory import check_memory
from eigenrnn.data.sequences import Sequences, checked

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
    arrays = _read_arrays(path)
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
            values=x.astype(np.float32),
            lengths=lengths,
            channels=tuple(str(k) for k in range(1, x.shape[-1] + 1)),
            labels=None if labels is None else _labels(labels, path),
            numbers=None if numbers is None else numbers.astype(np.float32),
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


def _read_arrays(path: Path) -> dict[str, Any]:
    """Read all arrays, none of which may be pickled.

    Raises:
        ValueError: If the file is damaged, or an array would have to be unpickled.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            check_memory(2 * size, f"the arrays of {path}", "cut the file into smaller ones")
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ValueError(f"expected a complete .npz archive in {path}, got {error}") from None
    except ValueError as error:  # what is pickled is code, and is not run
        raise ValueError(f"expected arrays of numbers or text in {path}, got {error}") from None


def _lengths(x: Any, lengths: Any | None, path: Path) -> Any:
    if lengths is None:
        if x.ndim == 2:
            raise ValueError(
                f"expected lengths beside the two-dimensional x in {path}, got no such array"
            )
        return np.full(len(x), x.shape[1], np.int64)
    whole = lengths.ndim == 1 and lengths.dtype.kind in "iu"
    fits = whole and (
        lengths.sum() == len(x)
        if x.ndim == 2
        else len(lengths) == len(x) and lengths.max(initial=0) <= x.shape[1]
    )
    if not fits or lengths.min(initial=1) < 1:
        raise ValueError(
            f"expected lengths of whole numbers >= 1 that fit x of the shape {x.shape} in {path}, "
            f"got {lengths.dtype} of the shape {lengths.shape} with the sum {lengths.sum()}"
        )
    return lengths.astype(np.int64)


def _answers(array: Any | None, count: int, name: str, path: Path) -> Any | None:
    if array is None:
        return None
    if array.shape != (count,) or (name == "target" and array.dtype.kind not in "fiu"):
        raise ValueError(
            f"expected {count} of {name} in {path}, got {array.dtype} of the shape {array.shape}"
        )
    return array
