"""Checks and conversions of trials: their states, and one number for each."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eigenrnn.linalg import as_numpy, check_finite

__all__ = ["as_labels", "as_real_array", "as_trials", "as_variables"]


def as_real_array(values: Tensor | ArrayLike, name: str) -> NDArray[np.float64]:
    """Return real numbers in double precision.

    Raises:
        ValueError: If they are complex.
        TypeError: If they are times.
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        if not values.is_complex():
            values = values.double()  # NumPy has no bfloat16
    array = as_numpy(values, name)
    if np.iscomplexobj(array):
        raise ValueError(f"expected real numbers in {name}, got complex ones")
    return array.astype(np.float64)


def as_trials(states: Tensor | ArrayLike) -> NDArray[np.float64]:  # (T, B, S)
    """Return the states of trials of equal length in double precision.

    Raises:
        ValueError: If the shape is wrong, they are complex, or a number is not finite.
    """
    h = as_real_array(states, "the states")
    if h.ndim != 3 or not h.size:
        raise ValueError(f"expected states of shape (T, B, S), got {h.shape}")
    check_finite(h, "the states")
    return h


def as_labels(
    values: Tensor | ArrayLike,
    B: int,
    name: str,
) -> NDArray[np.float64]:  # (B,)
    """Return one number for each trial in double precision.

    Raises:
        ValueError: If there is not one for each, or it is not a finite real number.
    """
    labels = as_real_array(values, name)
    if labels.shape != (B,):
        raise ValueError(
            f"expected {name} of shape ({B},), one number for each trial, got {labels.shape}"
        )
    check_finite(labels, name)
    return labels


def as_variables(
    variables: Mapping[str, Tensor | ArrayLike],
    B: int,
) -> dict[str, NDArray[np.float64]]:  # (B,) each
    """Return the variables of trials by name, in double precision.

    Raises:
        ValueError: If there are none, or one does not have a finite real number for each trial.
    """
    if not variables:
        raise ValueError("expected at least one variable, got none")
    return {name: as_labels(values, B, name) for name, values in variables.items()}
