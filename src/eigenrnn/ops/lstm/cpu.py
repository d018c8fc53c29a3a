"""The LSTM in the compiled kernels of csrc/, as torch operators."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import needs_gradient
from eigenrnn.ops.compiled import (
    CompiledBackend,
    Kernels,
    empty_like_steps,
    gradient_buffers,
    kernels,
    number_type,
    pointer,
    register_operator,
    row_pointer,
    rows,
    saved_buffer,
)
from eigenrnn.ops.dispatch import REAL
from eigenrnn.ops.lstm.operands import SCHEMA, LSTMOperands, LSTMOptions, records
from eigenrnn.ops.lstm.reference import lstm_reference

__all__ = ["LSTMCPU", "lstm_cpu", "lstm_stepper"]

_PARTS = 5  # saved per unit: the gates i, f, g and o, and the cell before the step


def _forward(
    operands: LSTMOperands, options: LSTMOptions, save: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (B, N), (T, B, numbers)
    """Return all states, the last ones, the last cells and, with `save`, the gates and old cells.

    With `last_only`, which excludes gradients, no other states are stored.
    """
    x, W, h0, c0, U, c = operands
    operands = LSTMOperands(rows(x), W, rows(h0), rows(c0), U, rows(c))
    h, last, last_cell, saved = _results(operands, options, save)
    kernels.lstm_forward(
        *_kernel_options(operands, options),
        [
            *_kernel_views(operands, None if options.last_only else h),
            row_pointer(last),
            row_pointer(last_cell),
            pointer(saved if save else None),
        ],
    )
    return h, last, last_cell, saved


def _backward(
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    g_cell: Tensor | None,  # (B, N)
    h: Tensor,  # (T, B, N)
    saved: Tensor,  # (T, B, numbers)
    operands: LSTMOperands,
    options: LSTMOptions,
    needed: Sequence[bool],
) -> list[Tensor]:
    """Return the needed gradients in the order of the operands."""
    x, W, h0, c0, U, c = operands
    operands = LSTMOperands(x if U is None else rows(x), W, rows(h0), rows(c0), U, rows(c))
    gradients = gradient_buffers(operands, h, needed)
    dx, dW, dh0, dc0, dU, dc = gradients
    g, g_last, g_cell = rows(g), rows(g_last), rows(g_cell)
    dUt, dWt = (pointer(None if d is None else d.T) for d in (dU, dW))
    number_type(W, g, g_last, g_cell, h, saved)
    kernels.lstm_backward(
        *_kernel_options(operands, options),
        [*_kernel_views(operands, h), *[(0, 0, 0)] * 2, pointer(saved)],
        [
            *(pointer(g), row_pointer(g_last), row_pointer(g_cell)),
            *(pointer(dx), dUt, pointer(dc), dWt, row_pointer(dh0), row_pointer(dc0)),
        ],
    )
    return [gradient for gradient in gradients if gradient is not None]


def _results(
    operands: LSTMOperands, options: LSTMOptions, save: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Allocate all states, with the layout of the inputs, the last states and the saved values."""
    x, W, (B, N) = operands.x, operands.W, operands.h0.shape
    saved = saved_buffer(x, W, _PARTS if save else 0)
    h = W.new_empty(0, B, N) if options.last_only else empty_like_steps(x, N)
    return h, W.new_empty(B, N), W.new_empty(B, N), saved


def lstm_stepper(
    W: Tensor,  # (4 N, N)
    U: Tensor,  # (4 N, M)
    c: Tensor | None,  # (4 N,)
) -> Any:
    """Return the recurrence with packed weights, for a `StepperStack`."""
    c, shape = rows(c), (1, 0, W.shape[1], U.shape[1])
    return kernels.lstm_stepper(number_type(W, U, c), shape, [pointer(U), pointer(c), pointer(W)])


def _kernel_options(operands: LSTMOperands, options: LSTMOptions) -> tuple[Any, ...]:
    x, M = operands.x, 0 if operands.U is None else operands.x.shape[2]
    shape = *x.shape[:2], operands.W.shape[1], M
    sizes = None if options.batch_sizes is None else list(options.batch_sizes)
    return number_type(*operands), torch.get_num_threads(), shape, sizes, options.reverse


def _kernel_views(operands: LSTMOperands, h: Tensor | None) -> list[tuple[int, int, int]]:
    x, W, h0, c0, U, c = operands
    states = row_pointer(h0), row_pointer(c0)
    return [pointer(x), pointer(U), pointer(c), pointer(W), *states, pointer(h)]


lstm_cpu = register_operator(
    "lstm_cpu",
    Kernels(_forward, _backward, _results, lstm_reference, results=3, saved=1),
    SCHEMA,
    records,
)


class LSTMCPU(CompiledBackend):
    """All steps of each sequence in one kernel, which also maps the inputs."""

    dtypes = REAL - {torch.float16}

    def run_kernels(
        self, operands: LSTMOperands, options: LSTMOptions
    ) -> tuple[Tensor, Tensor, Tensor]:
        h, last, last_cell, _ = lstm_cpu(*operands, *options, needs_gradient(operands))
        return h, last, last_cell
