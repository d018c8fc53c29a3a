"""The Elman recurrence in the compiled kernels of csrc/, as torch operators."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.linalg import pairs_to_complex
from eigenrnn.ops.arguments import Options, features_of, needs_gradient
from eigenrnn.ops.autograd import Gradients
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
from eigenrnn.ops.dispatch import COMPLEX, REAL
from eigenrnn.ops.elman.operands import (
    PLAIN_SCHEMA,
    SCHEMA,
    ElmanOperands,
    as_pairs,
    plain_arguments,
    plain_records,
    records,
)
from eigenrnn.ops.elman.reference import elman_results
from eigenrnn.ops.inplace_nonlinearities import moduli_like

__all__ = ["ElmanCPU", "elman_cpu", "elman_stepper", "forward_arguments"]


def _forward(
    operands: ElmanOperands, options: Options, save: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Return all states, the last states and the outputs, and with `save` what gradients need.

    These are the moduli of the pre-activations, and per unit and sequence what LayerNorm and
    zoneout need. Complex states are pairs of real numbers, and N counts the real numbers. With
    `last_only`, which excludes gradients, no other states are stored. Unused results have no
    elements: the outputs without V, and the moduli without modReLU of pairs.
    """
    x, W, h0, bias, U, c, V, *others = operands
    firsts = rows(x), W, rows(h0), rows(bias), U, rows(c), V
    operands = ElmanOperands(*firsts, *map(rows, others))
    h, last, y, moduli, saved = results = _results(operands, options, save)
    buffers = (
        None if options.last_only else h,
        last,
        None if V is None else y,
        moduli if len(moduli) else None,
        saved if save else None,
    )
    kernels.elman_forward(*forward_arguments(operands, options, *buffers))
    return results


def _backward(
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    g_y: Tensor | None,  # (T, B, K), with V
    h: Tensor,  # (T, B, N)
    moduli: Tensor,  # (T, B, N / 2) or (0, B, N / 2)
    saved: Tensor | None,  # (T, B, numbers), with LayerNorm or zoneout
    operands: ElmanOperands,
    options: Options,
    needed: Sequence[bool],
) -> list[Tensor]:
    """Return the needed gradients in the order of the operands."""
    x, W, h0, bias, U, c, V, d, *others = operands
    x = x if U is None else rows(x)
    operands = ElmanOperands(x, W, rows(h0), rows(bias), U, c, V, d, *map(rows, others))
    gradients = gradient_buffers(operands, h, needed)
    dx, dW, dh0, dbias, dU, dc, dV, dd, dgain, dshift, _ = gradients
    g, g_last = rows(g), rows(g_last)
    if g_y is not None and dd is not None:
        torch.sum(g_y, (0, 1), out=dd)
    dUt, dWt = (pointer(None if d is None else d.T) for d in (dU, dW))
    null, used_moduli = pointer(None), moduli if len(moduli) else None
    number_type(W, g, g_last, g_y, h, moduli, saved)
    kernels.elman_backward(
        *_kernel_options(operands, options, 1 if g_y is None else g_y.stride(2)),
        [
            *_kernel_views(operands, h, used_moduli, saved),
            *(null, pointer(V), null, null),
        ],
        [
            *(pointer(g), row_pointer(g_last), pointer(dx), dUt, pointer(dc), dWt),
            *(row_pointer(dh0), *map(pointer, (dbias, dgain, dshift, g_y, dV))),
        ],
    )
    return [gradient for gradient in gradients if gradient is not None]


def _results(
    operands: ElmanOperands, options: Options, save: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Allocate the results with the layout of the inputs; unused ones have no elements.

    With LayerNorm the normalised argument of f is saved, and with a zoneout rate the value of f.
    """
    x, W, h0, bias, V = operands.x, operands.W, operands.h0, operands.bias, operands.V
    B, N = h0.shape
    h = W.new_empty(0, B, N) if options.last_only else empty_like_steps(x, N, W)
    y = W.new_empty(0, B, 0) if V is None else empty_like_steps(x, len(V), W)
    moduli = moduli_like(h if save else h[:0], options.nonlinearity, bias)
    norms = operands.gain is not None
    parts, saved = norms + bool(options.rate), None
    if features_of(operands, options):  # else the operator does not return it
        saved = saved_buffer(x, W, parts if save else 0, norms if save else 0)
    return h, W.new_empty(h0.shape), y, moduli, saved


def _drop_unread_head(
    grads: Gradients, operands: ElmanOperands, needed: Sequence[bool]
) -> tuple[Gradients, ElmanOperands, Sequence[bool]]:
    """Return the arguments of a backward pass without the head, if nobody read its outputs."""
    g, g_last, g_y = grads
    if operands.V is not None and g_y is not None:
        return grads, operands, needed
    # without V the outputs are an empty tensor
    needed = [*needed[:6], False, False, *needed[8:]]
    return (g, g_last, None), operands._replace(V=None, d=None), needed


_KERNELS = Kernels(
    *(_forward, _backward, _results, elman_results),
    results=3,
    saved=2,
    prepare=_drop_unread_head,
)

# torch takes a time quadratic in the number of arguments for a call that autograd records: 42
# microseconds for 12 arguments, 78 for 18. So the plain recurrence has an operator of its own.
elman_cpu = register_operator(
    "elman_cpu", _KERNELS, PLAIN_SCHEMA, plain_records, plain_arguments, operands=8, saved=1
)
_with_norm_zoneout = register_operator("elman_cpu_norm_zoneout", _KERNELS, SCHEMA, records)


class ElmanCPU(CompiledBackend):
    """All steps of each sequence in one kernel, which also maps inputs and outputs."""

    dtypes = (REAL | COMPLEX) - {torch.float16}
    features = frozenset({"layer_norm", "zoneout"})

    def fuses_head(self, V: Tensor) -> bool:
        # more outputs than units get a separate product
        return V.device.type == "cpu" and not V.is_complex() and V.shape[0] <= V.shape[1]

    def run_kernels(self, operands: ElmanOperands, options: Options) -> tuple[Tensor, Tensor]:
        V, is_complex = operands.V, operands.W.is_complex()
        save = needs_gradient(operands)
        if is_complex:
            operands, options = as_pairs(operands, options)
        if features_of(operands, options):
            h, last, y, *_ = _with_norm_zoneout(*operands, *options, save)
        else:
            h, last, y, *_ = elman_cpu(*plain_arguments(operands, options), save)
        if not is_complex:
            return h if V is None else y, last
        return pairs_to_complex(h), pairs_to_complex(last)


def forward_arguments(
    operands: ElmanOperands,
    options: Options,
    h: Tensor | None,  # (T, B, N)
    last: Tensor,  # (B, N)
    y: Tensor | None,  # (T, B, K)
    moduli: Tensor | None = None,  # (T, B, N / 2), of modReLU of pairs
    saved: Tensor | None = None,  # (T, B, numbers), of LayerNorm and zoneout
) -> tuple[Any, ...]:
    """Return the arguments of `elman_forward`.

    They hold addresses, so the tensors must outlive the call.
    """
    head = pointer(operands.V), pointer(operands.d), pointer(y)
    views = [*_kernel_views(operands, h, moduli, saved), row_pointer(last), *head]
    return *_kernel_options(operands, options, 1), views


def elman_stepper(
    W: Tensor,  # (N, N)
    bias: Tensor | None,  # (N,)
    U: Tensor,  # (N, M)
    c: Tensor | None,  # (N,)
    nonlinearity: str,
) -> Any:
    """Return the recurrence of real states with packed weights, for a `StepperStack`."""
    bias, c = rows(bias), rows(c)
    views = [pointer(U), pointer(c), pointer(W), pointer(bias)]
    shape = 1, 0, len(W), U.shape[1]
    return kernels.elman_stepper(
        number_type(W, bias, U, c), shape, *activation(nonlinearity, bias), views
    )


def _kernel_options(
    operands: ElmanOperands, options: Options, output_stride: int
) -> tuple[Any, ...]:
    """Return the arguments of either kernel before the addresses."""
    x, W, _, bias, U, _, V, *_ = operands
    shape = *x.shape[:2], len(W), 0 if U is None else x.shape[2]
    f, slope = activation(options.nonlinearity, bias)
    sizes = None if options.batch_sizes is None else list(options.batch_sizes)
    outputs = 0 if V is None else len(V), output_stride
    threads = torch.get_num_threads()
    number = number_type(*operands[:-1])  # the mask, which is last, has bytes
    return number, threads, shape, outputs, sizes, options.reverse, f, slope, options.rate


def _kernel_views(
    operands: ElmanOperands, h: Tensor | None, moduli: Tensor | None, saved: Tensor | None
) -> list[tuple[int, int, int]]:
    """Return the addresses and strides that both kernels share."""
    x, W, h0, bias, U, c, _, _, *norm_zoneout = operands
    maps = pointer(x), pointer(U), pointer(c), pointer(W)
    vectors = bias, *norm_zoneout, h, moduli, saved
    return [*maps, row_pointer(h0), *map(pointer, vectors)]
