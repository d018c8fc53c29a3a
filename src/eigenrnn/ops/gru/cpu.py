"""The gated recurrence in the compiled kernels of csrc/, as torch operators."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import features_of, needs_gradient
from eigenrnn.ops.compiled import (
    CompiledBackend,
    Kernels,
    activation,
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
from eigenrnn.ops.gru.operands import (
    FORMS,
    PLAIN_SCHEMA,
    SCHEMA,
    GRUOperands,
    GRUOptions,
    plain_arguments,
    plain_records,
    records,
)
from eigenrnn.ops.gru.reference import gru_reference

__all__ = ["GRUCPU", "gru_cpu", "gru_stepper"]


def _forward(
    operands: GRUOperands, options: GRUOptions, save: bool
) -> tuple[Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (T, B, numbers)
    """Return all states, the last states and, with `save`, what a backward pass needs.

    With `last_only`, which excludes gradients, no other states are stored.
    """
    x, W, h0, bias, recurrent_bias, U, c, *others = operands
    firsts = rows(x), W, rows(h0), rows(bias), rows(recurrent_bias), U, rows(c)
    operands = GRUOperands(*firsts, *map(rows, others))
    h, last, saved = _results(operands, options, save)
    kernels.gru_forward(
        *_kernel_options(operands, options),
        [
            *_kernel_views(operands, None if options.last_only else h),
            row_pointer(last),
            pointer(saved if save else None),
        ],
    )
    return h, last, saved


def _backward(
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    h: Tensor,  # (T, B, N)
    saved: Tensor,  # (T, B, numbers)
    operands: GRUOperands,
    options: GRUOptions,
    needed: Sequence[bool],
) -> list[Tensor]:
    """Return the needed gradients in the order of the operands."""
    x, W, h0, bias, recurrent_bias, U, c, *others = operands
    x = x if U is None else rows(x)
    firsts = x, W, rows(h0), rows(bias), recurrent_bias, U, c
    operands = GRUOperands(*firsts, *map(rows, others))
    gradients = gradient_buffers(operands, h, needed)
    dx, dW, dh0, dbias, drecurrent_bias, dU, dc, dgain, dshift, _ = gradients
    g, g_last = rows(g), rows(g_last)
    dUt, dWt = (pointer(None if d is None else d.T) for d in (dU, dW))
    vectors = map(pointer, (dbias, drecurrent_bias, dgain, dshift))
    number_type(W, g, g_last, h, saved)
    kernels.gru_backward(
        *_kernel_options(operands, options),
        [*_kernel_views(operands, h), pointer(None), pointer(saved)],
        [
            *(pointer(g), row_pointer(g_last), pointer(dx), dUt, pointer(dc), dWt),
            *(row_pointer(dh0), *vectors),
        ],
    )
    return [gradient for gradient in gradients if gradient is not None]


def _results(
    operands: GRUOperands, options: GRUOptions, save: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Allocate all states, with the layout of the inputs, the last states and the saved numbers.

    Of each unit r, u and c are saved; if the reset is after the matrix, the product that it
    multiplies; and with LayerNorm the normalised arguments of the three.
    """
    x, W, (B, N) = operands.x, operands.W, operands.h0.shape
    norms = 0 if operands.gain is None else 3
    parts = (4 if options.reset_after else 3) + norms
    saved = saved_buffer(x, W, parts if save else 0, norms if save else 0)
    h = W.new_empty(0, B, N) if options.last_only else empty_like_steps(x, N)
    return h, W.new_empty(B, N), saved


def gru_stepper(
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
    form = options.reset_after, options.update_keeps, options.rate
    threads = torch.get_num_threads()
    number = number_type(*operands[:-1])  # the mask, which is last, has bytes
    return number, threads, shape, sizes, options.reverse, f, slope, *form


def _kernel_views(operands: GRUOperands, h: Tensor | None) -> list[tuple[int, int, int]]:
    x, W, h0, bias, recurrent_bias, U, c, *others = operands
    maps = pointer(x), pointer(U), pointer(c), pointer(W)
    vectors = bias, recurrent_bias, *others
    return [*maps, row_pointer(h0), *map(pointer, vectors), pointer(h)]


_KERNELS = Kernels(_forward, _backward, _results, gru_reference, results=2, saved=1)

# the plain recurrence has an operator of its own, as in elman/cpu.py
gru_cpu = register_operator(
    "gru_cpu", _KERNELS, PLAIN_SCHEMA, plain_records, plain_arguments, operands=7
)
_with_norm_zoneout = register_operator("gru_cpu_norm_zoneout", _KERNELS, SCHEMA, records)


class GRUCPU(CompiledBackend):
    """All steps of each sequence in one kernel, which also maps the inputs."""

    dtypes = REAL - {torch.float16}
    features = FORMS | {"layer_norm", "zoneout"}

    def run_kernels(self, operands: GRUOperands, options: GRUOptions) -> tuple[Tensor, Tensor]:
        save = needs_gradient(operands)
        if features_of(operands, options):
            h, last, _ = _with_norm_zoneout(*operands, *options, save)
        else:
            h, last, _ = gru_cpu(*plain_arguments(operands, options), save)
        return h, last
