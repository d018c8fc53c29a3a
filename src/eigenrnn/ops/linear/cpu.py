"""The linear recurrence in the compiled kernels of csrc/, as torch operators."""

from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.compiled import (
    CompiledBackend,
    compiled_operator,
    empty_like_steps,
    rows,
)
from eigenrnn.ops.linear.reference import DTYPES, LINEAR, LinearOperands, LinearOptions

__all__ = ["LinearCPU", "as_real", "linear_cpu", "linear_sizes"]


def _allocate(
    operands: LinearOperands,
    options: LinearOptions,
    save: bool,  # noqa: ARG001, what a backward pass needs are states and operands
) -> dict[str, Tensor]:
    """Allocate all states, with the layout of the inputs, and the last states."""
    last = operands.x.new_empty(operands.h0.shape)
    return {
        "h": empty_like_steps(operands.x, operands.h0.shape[1], is_read=not options.last_only),
        "last": last,
    }


def linear_sizes(operands: LinearOperands) -> dict[str, Any]:
    """Return the sizes of a call; complex numbers are pairs of real ones."""
    T, B, N = operands.x.shape
    is_complex = operands.x.is_complex()
    numbers = 2 * N if is_complex else N
    return {"T": T, "B": B, "N": numbers, "paired": is_complex, "gated": operands.decay.dim() == 3}


def as_real(_name: str, tensor: Tensor) -> Tensor:  # (..., N) or (..., 2 N)
    """Return a tensor with contiguous rows, complex numbers as neighbouring real ones."""
    real = rows(tensor.resolve_conj())
    if real.is_complex():
        real = torch.view_as_real(real).flatten(-2)
    return real


linear_cpu = compiled_operator(
    "linear_cpu",
    LINEAR,
    _allocate,
    sizes=linear_sizes,
    as_read=as_real,
    takes_complex=True,
)


class LinearCPU(CompiledBackend):
    """All steps of each unit in one kernel."""

    dtypes = DTYPES
    features = LINEAR.features
    operator = linear_cpu
