"""The linear recurrence in the compiled kernels of csrc/, as torch operators."""

from collections.abc import Sequence
from typing import Any, overload

import torch
from torch import Tensor

from eigenrnn.ops.arguments import to_float32
from eigenrnn.ops.autograd import from_operator, register_gradients
from eigenrnn.ops.compiled import (
    CompiledBackend,
    address,
    empty_like_steps,
    kernels,
    number_type,
    pointer,
    rows,
)
from eigenrnn.ops.linear.operands import DTYPES, SCHEMA, LinearOperands, LinearOptions, records
from eigenrnn.ops.linear.reference import linear_reference

__all__ = ["LinearCPU", "linear_cpu"]


@torch.library.custom_op(
    "eigenrnn::linear_cpu", mutates_args=(), schema=f"({SCHEMA}) -> (Tensor, Tensor)"
)
def linear_cpu(*arguments: Any) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Return all states and the last ones; with `last_only` no others are stored."""
    operands, options = records(arguments)
    h, last = _results(operands, options)
    forward_into(h, last, operands, options)
    return h, last


def forward_into(
    h: Tensor, last: Tensor, operands: LinearOperands, options: LinearOptions
) -> None:
    """Compute into existing tensors; a `h` of no steps is not stored."""
    x, decay, h0 = (_as_real(tensor) for tensor in operands)
    states = None if options.last_only else _as_real(h)
    kernels.linear_forward(
        *_kernel_options(operands, options),
        [
            *(pointer(x), pointer(decay), _row_pointer(h0)),
            *(pointer(states), _row_pointer(_as_real(last))),
        ],
    )


@torch.library.custom_op(
    "eigenrnn::linear_cpu_backward",
    mutates_args=(),
    schema=f"(Tensor? g, Tensor? g_last, Tensor h, {SCHEMA}, bool[] needed) -> Tensor[]",
)
def _linear_cpu_backward(
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    h: Tensor,  # (T, B, N)
    *arguments: Any,
) -> list[Tensor]:
    """Return the needed gradients in the order of the operands."""
    (operands, options), needed = records(arguments), arguments[-1]
    number_type(operands.x, g, g_last, h, takes_complex=True)
    gradients = _gradients(operands, h, needed)
    backward_into(gradients, g, g_last, h, operands, options)
    return [gradient for gradient in gradients if gradient is not None]


def backward_into(
    gradients: Sequence[Tensor | None],
    g: Tensor | None,
    g_last: Tensor | None,
    h: Tensor,
    operands: LinearOperands,
    options: LinearOptions,
) -> None:
    """Compute the gradients of the operands into existing tensors; None: not needed."""
    _, decay, h0 = (_as_real(tensor) for tensor in operands)
    g, g_last, states = (_as_real(tensor) for tensor in (g, g_last, h))
    dx, ddecay, dh0 = (_as_real(gradient) for gradient in gradients)
    kernels.linear_backward(
        *_kernel_options(operands, options),
        [(0, 0, 0), pointer(decay), _row_pointer(h0), pointer(states), (0, 0, 0)],
        [pointer(g), _row_pointer(g_last), pointer(dx), pointer(ddecay), _row_pointer(dh0)],
    )


def _results(operands: LinearOperands, options: LinearOptions) -> tuple[Tensor, Tensor]:
    """Allocate all states, with the layout of the inputs, and the last states."""
    x, (B, N) = operands.x, operands.h0.shape
    h = x.new_empty(0, B, N) if options.last_only else empty_like_steps(x, N)
    return h, x.new_empty(B, N)


def _gradients(
    operands: LinearOperands,
    h: Tensor,  # (T, B, N)
    needed: list[bool],
) -> list[Tensor | None]:
    """Allocate the needed gradients; the others are None."""

    def buffer(tensor: Tensor) -> Tensor:
        return (
            empty_like_steps(h, h.shape[2])
            if tensor.dim() == 3
            else tensor.new_empty(tensor.shape)
        )

    return [
        buffer(tensor) if is_needed else None
        for tensor, is_needed in zip(operands, needed, strict=True)
    ]


@overload
def _as_real(tensor: Tensor) -> Tensor: ...
@overload
def _as_real(tensor: Tensor | None) -> Tensor | None: ...
def _as_real(tensor: Tensor | None) -> Tensor | None:  # (..., N) or (..., 2 N)
    """Return a tensor with contiguous rows, its complex numbers as neighbouring real ones."""
    if tensor is None or not tensor.is_complex():
        return rows(tensor)
    return torch.view_as_real(rows(tensor.resolve_conj())).flatten(-2)


def _kernel_options(operands: LinearOperands, options: LinearOptions) -> tuple[Any, ...]:
    x, decay, _ = operands
    T, B, N = x.shape
    shape, sizes = (T, B, 2 * N if x.is_complex() else N), options.batch_sizes
    return (
        number_type(*operands, takes_complex=True),
        torch.get_num_threads(),
        shape,
        None if sizes is None else list(sizes),
        options.reverse,
        x.is_complex(),
        decay.dim() == 3,
    )


def _row_pointer(tensor: Tensor | None) -> tuple[int, int, int]:  # (B, N)
    """Return the address and the strides of one step of states."""
    return (0, 0, 0) if tensor is None else (address(tensor), 0, tensor.stride(0))


@linear_cpu.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor]:
    return _results(*records(arguments))


@_linear_cpu_backward.register_fake
def _(*arguments: Any) -> list[Tensor]:
    operands, _ = records(arguments[3:])
    gradients = _gradients(operands, arguments[2], arguments[-1])
    return [gradient for gradient in gradients if gradient is not None]


register_gradients(linear_cpu, records, linear_reference, 2, from_operator(_linear_cpu_backward))


class LinearCPU(CompiledBackend):
    """All steps of each unit in one kernel."""

    dtypes = DTYPES - {torch.float16}

    def run(self, operands: LinearOperands, options: LinearOptions) -> tuple[Tensor, Tensor]:
        if operands.x.dtype == torch.bfloat16:
            h, last = self.run_kernels(to_float32(operands), options)
            return h.bfloat16(), last.bfloat16()
        return self.run_kernels(operands, options)

    def run_kernels(
        self, operands: LinearOperands, options: LinearOptions
    ) -> tuple[Tensor, Tensor]:
        return linear_cpu(*operands, *options)
