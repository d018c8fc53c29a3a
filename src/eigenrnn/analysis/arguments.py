"""Checks and conversions of the arguments of an analysis: matrices and sequences."""

from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis.state_map import StateMap, recurrent_matrices, single_layer, state_maps
from eigenrnn.linalg import as_numpy, check_finite, double_precision
from eigenrnn.tracing import check_dense

__all__ = [
    "Matrix",
    "NumberArray",
    "as_array",
    "as_matrix",
    "as_real_tensor",
    "as_step_matrix",
    "as_vector",
    "check_layer_input",
    "check_sequence_shape",
    "leaky_matrix",
]

NumberArray = NDArray[np.float64] | NDArray[np.complex128]
"""Real or complex numbers in double precision."""

Matrix = Tensor | ArrayLike | nn.Module | StateMap
"""A matrix, or a layer, cell or state map that has one recurrent matrix."""


def as_matrix(W: Matrix, name: str = "W") -> NumberArray:  # (N, N)
    """Return a square matrix, or the recurrent matrix of a layer, in double precision.

    Raises:
        ValueError: If it is not square or not finite, or the layer has several or none.
    """
    if isinstance(W, nn.Module | StateMap):
        matrices = recurrent_matrices(W)
        if len(matrices) > 1:
            raise ValueError(
                f"expected a layer with one recurrent matrix, got {type(W).__name__} with "
                f"{', '.join(matrices)}; choose one, such as "
                f"recurrent_matrices(layer)[{next(iter(matrices))!r}]"
            )
        (matrix,) = matrices.values()
    else:
        matrix = as_array(cast("ArrayLike", W), name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"expected a square matrix {name} (N, N), got shape {matrix.shape}")
    check_finite(matrix, name)
    return matrix


def as_step_matrix(W: Matrix) -> NumberArray:  # (N, N)
    """Return the matrix of a step of the linear network, which W is unless a layer leaks.

    Raises the errors of `as_matrix`.
    """
    matrix = as_matrix(W)
    if isinstance(W, nn.Module | StateMap):
        # the layer itself: a residual stack is one map without a leak
        layer = single_layer(W) if isinstance(W, nn.Module) else W
        (state_map,) = state_maps(layer)
        return leaky_matrix(matrix, state_map.leak)
    return matrix


def leaky_matrix(
    W: NumberArray,  # (N, N)
    leak: Tensor | None,  # (N,)
) -> NumberArray:  # (N, N)
    r"""Return :math:`I - \operatorname{diag} \alpha + \operatorname{diag}(\alpha) W`."""
    if leak is None:
        return W
    alpha = leak.double().cpu().numpy()
    return np.diag(1 - alpha) + alpha[:, None] * W


def as_vector(v: Tensor | ArrayLike, size: int, name: str) -> NumberArray:  # (N,)
    """Return a vector in double precision; a matrix of one column counts as a vector.

    Raises:
        ValueError: If its size differs, or a number is not finite.
    """
    vector = as_array(v, name)
    if vector.shape == (size, 1):
        vector = vector[:, 0]
    if vector.shape != (size,):
        raise ValueError(f"expected {name} ({size},), as W has {size} rows, got {vector.shape}")
    check_finite(vector, name)
    return vector


def as_array(values: Tensor | ArrayLike, name: str) -> NumberArray:
    """Return numbers in double precision.

    Raises:
        ValueError: If an entry is not a number, rows differ in length, or a tensor has no memory.
        TypeError: If a tensor is not dense, or there are times.
    """
    if isinstance(values, Tensor):
        check_dense({name: values})
        wide = values.detach().to("cpu", double_precision(values.dtype))
        # torch conjugates and negates lazily, by flags that numpy() rejects
        return wide.resolve_conj().resolve_neg().numpy()
    array = as_numpy(values, name)
    if np.iscomplexobj(array):
        return array.astype(np.complex128)
    return array.astype(np.float64)


def as_real_tensor(x: Tensor | ArrayLike, name: str = "x") -> Tensor:
    """Return real numbers in double precision, on the CPU.

    Raises:
        ValueError: If the values are complex, or a tensor has no memory.
        TypeError: If a tensor is not dense, or there are times.
    """
    if isinstance(x, Tensor):
        check_dense({name: x})
    tensor = torch.as_tensor(x if isinstance(x, Tensor) else as_numpy(x, name)).detach().cpu()
    if tensor.is_complex():
        raise ValueError(f"expected real numbers in {name}, got complex ones")
    return tensor.to(torch.float64)


def check_sequence_shape(x: Tensor, input_size: int, *, batch_first: bool) -> None:
    """Check that a tensor is a sequence or a batch of sequences.

    Raises:
        ValueError: If the shape is wrong or the tensor is empty.
    """
    if x.dim() not in (2, 3) or x.shape[-1] != input_size or not x.numel():
        shape = "(B, T, M)" if batch_first else "(T, B, M)"
        raise ValueError(
            f"expected x of shape {shape} or (T, M) with M = {input_size} and at least one step, "
            f"got {tuple(x.shape)}"
        )


def check_layer_input(layer: nn.Module, x: Any) -> None:
    """Check that a layer in double precision accepts an input.

    Raises:
        ValueError: If the shape is wrong.
    """
    recurrent: Any = layer
    check_sequence_shape(x, recurrent.input_size, batch_first=recurrent.batch_first)
