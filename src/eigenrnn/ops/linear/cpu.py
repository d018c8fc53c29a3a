"""The linear recurrence in the compiled kernels of csrc/, as torch operators."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import to_float32
from eigenrnn.ops.compiled import (
    CompiledBackend,
    empty_like_steps,
    kernel_options,
    kernels,
    number_type,
    rows,
    views,
)
from eigenrnn.ops.linear.operands import DTYPES, LinearOperands, LinearOptions
from eigenrnn.ops.linear.reference import LINEAR
from eigenrnn.ops.operators import Named, Operator

__all__ = ["LinearCPU", "linear_cpu"]


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


def _allocate_gradients(
    operands: LinearOperands,
    needed: Collection[str],
    h: Tensor,  # (T, B, N)
) -> dict[str, Tensor]:
    """Allocate the needed gradients; those with time have the layout of the states."""
    gradients: dict[str, Tensor] = {}
    for name in needed:
        tensor: Tensor = getattr(operands, name)
        if tensor.dim() == 3:
            gradients[name] = empty_like_steps(h, h.shape[2])
        else:
            gradients[name] = tensor.new_empty(tensor.shape)
    return gradients


def _forward(operands: LinearOperands, options: LinearOptions, save: bool) -> dict[str, Tensor]:
    tensors = _allocate(operands, options, save)
    forward_into(tensors["h"], tensors["last"], operands, options)
    return tensors


def _backward(
    operands: LinearOperands,
    options: LinearOptions,
    needed: Collection[str],
    grads: Named,
    kept: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    # only for its check: all gradients must have the dtype of the operands
    number_type(operands.x, *grads.values(), *kept.values(), takes_complex=True)
    gradients = _allocate_gradients(operands, needed, kept["h"])
    backward_into(gradients, grads, kept["h"], operands, options)
    return gradients


def forward_into(
    h: Tensor,  # (T, B, N) or (0, B, N)
    last: Tensor,  # (B, N)
    operands: LinearOperands,
    options: LinearOptions,
) -> None:
    """Compute into existing tensors; a `h` of no steps is not stored."""
    tensors: dict[str, Tensor | None] = {**operands._asdict(), "last": last, "resets": None}
    if not options.last_only:  # without a place for all states, the kernel writes the last alone
        tensors["h"] = h
    read = _as_real(tensors)
    kernels.linear_forward(*_kernel_arguments(operands, options, read))


def backward_into(
    gradients: Named,
    grads: Named,
    h: Tensor,  # (T, B, N)
    operands: LinearOperands,
    options: LinearOptions,
) -> None:
    """Compute the gradients of the operands into existing tensors, from those of the results."""
    read = _as_real({"decay": operands.decay, "h0": operands.h0, "h": h})
    of_results = _as_real(grads)  # possibly copies, which have to outlive the call
    of_operands = _as_real(gradients)
    passed = views(of_results) | views(of_operands)
    kernels.linear_backward(*_kernel_arguments(operands, options, read), passed)


def _kernel_arguments(
    operands: LinearOperands, options: LinearOptions, read: Named
) -> tuple[str, int, dict[str, Any]]:
    """Return the arguments that both kernels share; complex numbers are pairs of real ones."""
    T, B, N = operands.x.shape
    is_complex = operands.x.is_complex()
    numbers = N
    if is_complex:  # real and imaginary parts, in pairs
        numbers = 2 * N
    call: dict[str, Any] = {
        "T": T,
        "B": B,
        "N": numbers,
        "paired": is_complex,
        "gated": operands.decay.dim() == 3,
    }
    call |= kernel_options(options) | views(read) | views({"resets": operands.resets})
    number = number_type(operands.x, operands.decay, operands.h0, takes_complex=True)
    return number, torch.get_num_threads(), call


def _as_real(tensors: Named) -> dict[str, Tensor]:  # (..., N) or (..., 2 N)
    """Return the tensors with contiguous rows, complex numbers as neighbouring real ones."""
    real: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        real[name] = rows(tensor.resolve_conj())
        if tensor.is_complex():
            real[name] = torch.view_as_real(real[name]).flatten(-2)
    return real


linear_cpu = Operator(
    "linear_cpu",
    LINEAR,
    forward=_forward,
    allocate=_allocate,
    backward=_backward,
    allocate_gradients=_allocate_gradients,
)


class LinearCPU(CompiledBackend):
    """All steps of each unit in one kernel."""

    dtypes = DTYPES - {torch.float16}
    features = LINEAR.features
    operator = linear_cpu

    def run(self, operands: LinearOperands, options: LinearOptions) -> tuple[Tensor, ...]:
        if operands.x.dtype == torch.bfloat16:
            h, last = self.run_kernels(to_float32(operands), options)
            return h.bfloat16(), last.bfloat16()
        return self.run_kernels(operands, options)
