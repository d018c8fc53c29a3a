"""What every analysis of a matrix asks of it."""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis.recurrence import recurrent_matrices
from eigenrnn.linalg import check_finite

__all__ = [
    "Matrix",
    "NumberArray",
    "given_array",
    "given_matrix",
    "given_vector",
    "power_of_two",
    "spectral_radius",
]

NumberArray = NDArray[np.float64] | NDArray[np.complex128]
"""Real or complex numbers in double precision."""

Matrix = Tensor | ArrayLike | nn.Module
"""A matrix, or a layer that has one."""


def given_matrix(W: Matrix, name: str = "W") -> NumberArray:  # (N, N)
    """Return a square matrix in double precision; that of a layer, if a layer is given.

    Raises:
        ValueError: If it is not square or not finite, or the layer has several or none.
    """
    matrix = _only_matrix(W) if isinstance(W, nn.Module) else given_array(W, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"expected a square matrix {name} (N, N), got shape {matrix.shape}")
    check_finite(matrix, name)
    return matrix


def given_vector(v: Tensor | ArrayLike, size: int, name: str) -> NumberArray:  # (N,)
    """Return a vector in double precision; a matrix of one column is one.

    Raises:
        ValueError: If it has another size, or is not finite.
    """
    vector = given_array(v, name)
    if vector.shape == (size, 1):
        vector = vector[:, 0]
    if vector.shape != (size,):
        raise ValueError(f"expected {name} ({size},), as W has {size} rows, got {vector.shape}")
    check_finite(vector, name)
    return vector


def spectral_radius(W: NumberArray) -> float:
    """Return the largest modulus of an eigenvalue."""
    check_finite(W)
    return float(np.abs(np.linalg.eigvals(W)).max())


def power_of_two(array: NumberArray) -> float:
    """Return the power of two by which the largest entry is divided to be about one.

    Nothing is rounded by it, and squares of what is left stay in range.
    """
    top = max(float(np.abs(part).max(initial=0.0)) for part in (array.real, array.imag))
    return float(np.ldexp(1.0, int(np.frexp(top)[1]) - 1)) if top else 1.0


def _only_matrix(layer: nn.Module) -> NumberArray:
    found = recurrent_matrices(layer)
    if len(found) > 1:
        raise ValueError(
            f"expected a layer with one recurrent matrix, got {type(layer).__name__} with "
            f"{', '.join(found)}; choose one, such as "
            f"recurrent_matrices(layer)[{next(iter(found))!r}]"
        )
    return next(iter(found.values()))


def given_array(given: Tensor | ArrayLike, name: str) -> NumberArray:
    """Return numbers in double precision.

    Raises:
        ValueError: If they are none, or rows differ in length.
    """
    if isinstance(given, Tensor):
        if given.is_meta or given.layout != torch.strided:
            raise ValueError(f"expected {name} to be a dense tensor with values, got {given!r}")
        wide = torch.complex128 if given.is_complex() else torch.float64
        return given.detach().to("cpu", wide).resolve_conj().numpy()
    asked = f"expected {name} to be numbers in rows of equal length"
    try:
        array = np.asarray(given)
        is_complex = np.iscomplexobj(array)
        numbers = array.astype(np.complex128) if is_complex else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{asked}, got {type(given).__name__}: {error}") from error
    if array.dtype.kind not in "biufcO":  # text that can be read as numbers
        raise ValueError(f"{asked}, got {array.dtype}")
    return numbers
