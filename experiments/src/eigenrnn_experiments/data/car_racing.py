"""CarRacing: rollouts of the environment, and the file of their latent vectors."""

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenrnn_experiments.data.archives import read_arrays, wrap_parser_errors
from eigenrnn_experiments.data.files import DATA_VARIABLE
from eigenrnn_experiments.errors import MissingDataError

__all__ = [
    "ACTIONS",
    "ENCODED",
    "FRAME",
    "ROLLOUT",
    "Z_SIZE",
    "Encoded",
    "find_encoded",
    "read_encoded",
    "read_rollout",
    "split_slices",
]

FRAME = (64, 64, 3)
"""Height, width and colours of a frame."""

ACTIONS = 3
"""Steering, gas and brake."""

Z_SIZE = 32
"""The number of latent dimensions."""

ROLLOUT = np.dtype([("frame", np.uint8, FRAME), ("action", "<f4", (ACTIONS,))])
"""One step of a rollout: the frame, and the action that follows it."""

ENCODED = "car_racing.npz"
"""The name of the file of encoded rollouts."""

_WIDTHS = {"mu": Z_SIZE, "logvar": Z_SIZE, "action": ACTIONS}

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Encoded:
    """Rollouts with each frame encoded as the mean and variance of its latent vector.

    Args:
        mu: The means.
        logvar: The logarithms of the variances.
        action: The actions.

    Shape:
        mu: (rollouts, steps, 32).
        logvar: (rollouts, steps, 32).
        action: (rollouts, steps, 3).
    """

    mu: Floats
    logvar: Floats
    action: Floats

    def to_bytes(self) -> bytes:
        """Return the content of the `.npz` file, which has a checksum for each array."""
        content = io.BytesIO()
        np.savez(content, **{name: getattr(self, name) for name in _WIDTHS})
        return content.getvalue()


def split_slices(count: int) -> dict[str, slice]:
    """Return the slices of the splits; validation and test have a tenth of the rollouts each.

    The rollouts are independent, so the last ones are held out: at least one for each split.

    Raises:
        ValueError: If `count` is below 3.
    """
    if count < 3:
        raise ValueError(f"expected 3 rollouts or more, one for each split, got {count}")
    held_out = max(1, count // 10)
    validation = count - 2 * held_out
    test = count - held_out
    return {
        "train": slice(0, validation),
        "validation": slice(validation, test),
        "test": slice(test, count),
    }


def read_rollout(path: Path, steps: int) -> Any:
    """Memory-map a rollout.

    Args:
        path: The file.
        steps: The required number of steps.

    Raises:
        ValueError: If the file is truncated, or not a rollout of `steps` steps.
    """
    with wrap_parser_errors("rollout", path):
        rollout = np.lib.format.open_memmap(path, mode="r")
    if rollout.dtype != ROLLOUT or rollout.shape != (steps,):
        raise ValueError(
            f"expected {steps} steps of frames and actions in {path}, "
            f"got {rollout.dtype} of the shape {rollout.shape}"
        )
    return rollout


def find_encoded(data_root: str | Path | None = None) -> Path:
    """Find the file of encoded rollouts, in a data folder or in its subfolder `car_racing`.

    Args:
        data_root: The only folder to search; by default the value of the environment variable
            `EIGENRNN_DATA`.

    Raises:
        MissingDataError: If there is none; the message says how to create it.
    """
    named = data_root or os.environ.get(DATA_VARIABLE)
    if named:
        root = Path(named).expanduser()
        for path in (root / "car_racing" / ENCODED, root / ENCODED):
            if path.is_file():
                return path
    root = named or f"${DATA_VARIABLE}"
    raise MissingDataError(
        f"expected {root}/car_racing/{ENCODED}, got no such file; create it with: "
        f"eigenrnn collect car_racing --out {root}/car_racing"
    )


def read_encoded(path: Path) -> Encoded:
    """Read and check a file of encoded rollouts.

    Raises:
        ValueError: If the file is damaged, or holds other arrays.
    """
    arrays = read_arrays(path)
    found = {name: arrays[name] for name in _WIDTHS if name in arrays}
    shapes = {name: array.shape for name, array in found.items()}
    leading = shapes.get("mu", ())[:2]
    expected = {name: (*leading, width) for name, width in _WIDTHS.items()}
    if len(leading) != 2 or shapes != expected or leading[0] < 3 or leading[1] < 2:
        raise ValueError(
            "expected mu (R, S, 32), logvar (R, S, 32) and action (R, S, 3) of R >= 3 rollouts "
            f"of S >= 2 steps in {path}, got {shapes}"
        )
    return Encoded(**found)
