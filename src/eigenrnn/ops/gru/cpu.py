"""The gated recurrence in the compiled kernels of csrc/, as torch operators."""

from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import needs_gradient
from eigenrnn.ops.autograd import from_operator, register_gradients
from eigenrnn.ops.compiled import (
    CompiledBackend,
    activation,
    empty_buffer,
    empty_like_steps,
    gradient_buffers,
    kernels,
    number_type,
    pointer,
    rows,
)
from eigenrnn.ops.dispatch import REAL
from eigenrnn.ops.gru.operands import (
    FORMS,
    SCHEMA,
    GRUOperands,
    GRUOptions,
    kernel_arguments,
    kernel_records,
)
from eigenrnn.ops.gru.reference import gru_reference

__all__ = ["GRUCPU", "gru_cpu", "gru_stepper"]


@torch.library.custom_op(
    "eigenrnn::gru_cpu",
    mutates_args=(),
    schema=f"({SCHEMA}, bool save) -> (Tensor, Tensor, Tensor)",
)
def gru_cpu(
    *arguments: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (T, B, vectors, parts, lanes)
    """Return all states, the last states and, with `save`, the gates for a backward pass.

    With `last_only`, which excludes gradients, no other states are stored.
    """
    (operands, options), save = kernel_records(arguments), arguments[-1]
    x, W, h0, bias, recurrent_bias, U, c, *_ = operands
    operands = GRUOperands(*(rows(x), W, rows(h0), rows(bias), rows(recurrent_bias), U, rows(c)))
    h, last, saved = _results(operands, options, save)
    kernels.gru_forward(
        *_kernel_options(operands, options),
        [
            *_kernel_views(operands, None if options.last_only else h),
            (last.data_ptr(), 0, last.shape[1]),
            (saved.data_ptr() if save else 0, 0, 0),
        ],
    )
    return h, last, saved


@torch.library.custom_op(
    "eigenrnn::gru_cpu_backward",
    mutates_args=(),
    schema="(Tensor? g, Tensor? g_last, Tensor h, Tensor gates, "
    f"{SCHEMA}, bool[] needed) -> Tensor[]",
)
def _gru_cpu_backward(
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    h: Tensor,  # (T, B, N)
    gates: Tensor,  # (T, B, vectors, parts, lanes)
    *arguments: Any,
) -> list[Tensor]:
    """Return the needed gradients in the order of the operands."""
    (operands, options), needed = kernel_records(arguments), arguments[-1]
    x, W, h0, bias, recurrent_bias, U, c, *_ = operands
    x = x if U is None else rows(x)
    operands = GRUOperands(x, W, rows(h0), rows(bias), recurrent_bias, U, c)
    gradients = gradient_buffers(operands, h, needed)
    dx, dW, dh0, dbias, drecurrent_bias, dU, dc, *_ = gradients
    g, g_last = rows(g), rows(g_last)
    end = (0, 0, 0) if g_last is None else (g_last.data_ptr(), 0, g_last.stride(0))
    start = (0, 0, 0) if dh0 is None else (dh0.data_ptr(), 0, dh0.stride(0))
    dUt, dWt = (pointer(None if d is None else d.T) for d in (dU, dW))
    biases = pointer(dbias), pointer(drecurrent_bias)
    number_type(W, g, g_last, h, gates)
    kernels.gru_backward(
        *_kernel_options(operands, options),
        [*_kernel_views(operands, h), (0, 0, 0), (gates.data_ptr(), 0, 0)],
        [pointer(g), end, pointer(dx), dUt, pointer(dc), dWt, start, *biases],
    )
    return [gradient for gradient in gradients if gradient is not None]


def _results(
    operands: GRUOperands, options: GRUOptions, save: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Allocate all states, with the layout of the inputs, the last states and the gates.

    The gates of one vector of units are stored side by side, each padded to a whole vector: r, u
    and c and, if the reset is after the matrix, the product that it multiplies.
    """
    x, W, (B, N) = operands.x, operands.W, operands.h0.shape
    lanes = kernels.vector_bytes // W.dtype.itemsize
    parts = (4 if options.reset_after else 3) if save else 0
    gates = empty_buffer(W, len(x), B, (N + lanes - 1) // lanes, parts, lanes)
    h = W.new_empty(0, B, N) if options.last_only else empty_like_steps(x, N)
    return h, W.new_empty(B, N), gates


def gru_stepper(  # noqa: PLR0913, the weights and the form of the recurrence
    W: Tensor,  # (3 N, N)
    bias: Tensor | None,  # (N,)
    recurrent_bias: Tensor | None,  # (N,)
    U: Tensor,  # (3 N, M)
    c: Tensor | None,  # (3 N,)
    nonlinearity: str,
    reset_after: bool,
    update_keeps: bool,
) -> Any:
    """Return the recurrence with packed weights, for a `StepperStack`."""
    bias, recurrent_bias, c = rows(bias), rows(recurrent_bias), rows(c)
    views = [pointer(U), pointer(c), pointer(W), pointer(bias), pointer(recurrent_bias)]
    number, shape = number_type(W, bias, recurrent_bias, U, c), (1, 0, W.shape[1], U.shape[1])
    f = activation(nonlinearity, bias)
    return kernels.gru_stepper(number, shape, *f, reset_after, update_keeps, views)


def _kernel_options(operands: GRUOperands, options: GRUOptions) -> tuple[Any, ...]:
    x, M = operands.x, 0 if operands.U is None else operands.x.shape[2]
    shape = *x.shape[:2], operands.W.shape[1], M
    f, slope = activation(options.nonlinearity, operands.bias)
    sizes = None if options.batch_sizes is None else list(options.batch_sizes)
    form = options.reset_after, options.update_keeps
    threads = torch.get_num_threads()
    return number_type(*operands), threads, shape, sizes, options.reverse, f, slope, *form


def _kernel_views(operands: GRUOperands, h: Tensor | None) -> list[tuple[int, int, int]]:
    x, W, h0, bias, recurrent_bias, U, c, *_ = operands
    start = h0.data_ptr(), 0, h0.stride(0)
    biases = pointer(bias), pointer(recurrent_bias)
    return [pointer(x), pointer(U), pointer(c), pointer(W), start, *biases, pointer(h)]


@gru_cpu.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _results(*kernel_records(arguments), arguments[-1])


@_gru_cpu_backward.register_fake
def _(*arguments: Any) -> list[Tensor]:
    operands, _ = kernel_records(arguments[4:])
    gradients = gradient_buffers(operands, arguments[2], arguments[-1])
    return [gradient for gradient in gradients if gradient is not None]


_backward = from_operator(_gru_cpu_backward, kernel_arguments)
register_gradients(gru_cpu, kernel_records, gru_reference, 2, _backward, operands=7)


class GRUCPU(CompiledBackend):
    """All steps of each sequence in one kernel, which also maps the inputs."""

    dtypes = REAL - {torch.float16}
    features = FORMS

    def run_kernels(self, operands: GRUOperands, options: GRUOptions) -> tuple[Tensor, Tensor]:
        h, last, _ = gru_cpu(*kernel_arguments(operands, options), needs_gradient(operands))
        return h, last
