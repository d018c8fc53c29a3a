"""The Elman recurrence in the compiled kernels of csrc/, as torch operators."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.linalg import pairs_to_complex
from eigenrnn.ops.arguments import Options, needs_gradient
from eigenrnn.ops.autograd import Gradients, from_operator, register_gradients
from eigenrnn.ops.compiled import (
    CompiledBackend,
    activation,
    empty_like_steps,
    gradient_buffers,
    kernels,
    number_type,
    pointer,
    row_pointer,
    rows,
    saved_buffer,
)
from eigenrnn.ops.dispatch import COMPLEX, REAL
from eigenrnn.ops.elman.operands import SCHEMA, ElmanOperands, as_pairs, records
from eigenrnn.ops.elman.reference import elman_results
from eigenrnn.ops.inplace_nonlinearities import moduli_like

__all__ = ["ElmanCPU", "elman_cpu", "elman_stepper", "forward_arguments"]


@torch.library.custom_op(
    "eigenrnn::elman_cpu",
    mutates_args=(),
    schema=f"({SCHEMA}, bool save) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def elman_cpu(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return all states, the last states and the outputs, and with `save` what gradients need.

    That are the moduli of the pre-activations, and per unit and sequence what LayerNorm and
    zoneout need. Complex states are pairs of real numbers, and N counts the real numbers. With
    `last_only`, which excludes gradients, no other states are stored. Unused results have no
    elements: the outputs without V, and the moduli without modReLU of pairs.
    """
    (operands, options), save = records(arguments), arguments[-1]
    x, W, h0, bias, U, c, V, *others = operands
    firsts = rows(x), W, rows(h0), rows(bias), U, rows(c), V
    operands = ElmanOperands(*firsts, *map(rows, others))
    h, last, y, moduli, saved = results = _results(operands, options, save)
    buffers = (
        None if options.last_only else h,
        last,
        None if V is None else y,
        moduli if len(moduli) else None,
        saved if saved.numel() else None,
    )
    kernels.elman_forward(*forward_arguments(operands, options, *buffers))
    return results


@torch.library.custom_op(
    "eigenrnn::elman_cpu_backward",
    mutates_args=(),
    schema="(Tensor? g, Tensor? g_last, Tensor? g_y, Tensor h, Tensor moduli, Tensor saved, "
    f"{SCHEMA}, bool[] needed) -> Tensor[]",
)
def _elman_cpu_backward(
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    g_y: Tensor | None,  # (T, B, K), with V
    h: Tensor,  # (T, B, N)
    moduli: Tensor,  # (T, B, N / 2) or (0, B, N / 2)
    saved: Tensor,  # (T, B, numbers)
    *arguments: Any,
) -> list[Tensor]:
    """Return the needed gradients in the order of the operands."""
    (operands, options), needed = records(arguments), arguments[-1]
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
            *_kernel_views(operands, h, used_moduli, saved if saved.numel() else None),
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
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Allocate the results with the layout of the inputs; unused ones have no elements.

    With LayerNorm the normalised argument of f is saved, and with a zoneout rate the value of f.
    """
    x, W, h0, bias, V = operands.x, operands.W, operands.h0, operands.bias, operands.V
    B, N = h0.shape
    h = W.new_empty(0, B, N) if options.last_only else empty_like_steps(x, N, W)
    y = W.new_empty(0, B, 0) if V is None else empty_like_steps(x, len(V), W)
    moduli = moduli_like(h if save else h[:0], options.nonlinearity, bias)
    norms = operands.gain is not None
    saved = saved_buffer(x, W, norms + bool(options.rate) if save else 0, norms if save else 0)
    return h, W.new_empty(h0.shape), y, moduli, saved


@elman_cpu.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _results(*records(arguments), arguments[-1])


@_elman_cpu_backward.register_fake
def _(*arguments: Any) -> list[Tensor]:
    operands, _ = records(arguments[6:])
    gradients = gradient_buffers(operands, arguments[3], arguments[-1])
    return [gradient for gradient in gradients if gradient is not None]


_run_backward = from_operator(_elman_cpu_backward)


def _backward(
    grads: Gradients,
    saved: Sequence[Tensor],
    operands: ElmanOperands,
    options: Options,
    needed: Sequence[bool],
) -> Gradients:
    g, g_last, g_y = grads
    if operands.V is None or g_y is None:  # without V the outputs are an empty tensor
        operands, g_y = operands._replace(V=None, d=None), None
        needed = [*needed[:6], False, False, *needed[8:]]
    return _run_backward((g, g_last, g_y), saved, operands, options, needed)


register_gradients(elman_cpu, records, elman_results, 3, _backward)


class ElmanCPU(CompiledBackend):
    """All steps of each sequence in one kernel, which also maps inputs and outputs."""

    dtypes = (REAL | COMPLEX) - {torch.float16}
    features = frozenset({"layer_norm", "zoneout"})

    def fuses_head(self, V: Tensor) -> bool:
        # more outputs than units get a separate product
        return V.device.type == "cpu" and not V.is_complex() and V.shape[0] <= V.shape[1]

    def run_kernels(self, operands: ElmanOperands, options: Options) -> tuple[Tensor, Tensor]:
        save = needs_gradient(operands)
        if not operands.W.is_complex():
            h, last, y, *_ = elman_cpu(*operands, *options, save)
            return h if operands.V is None else y, last
        operands, options = as_pairs(operands, options)
        h, last, *_ = elman_cpu(*operands, *options, save)
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
    number, threads = number_type(*operands[:-1]), torch.get_num_threads()
    return number, threads, shape, outputs, sizes, options.reverse, f, slope, options.rate


def _kernel_views(
    operands: ElmanOperands, h: Tensor | None, moduli: Tensor | None, saved: Tensor | None
) -> list[tuple[int, int, int]]:
    """Return the addresses and strides that both kernels share."""
    x, W, h0, bias, U, c, _, _, *norm_zoneout = operands
    maps = pointer(x), pointer(U), pointer(c), pointer(W)
    vectors = bias, *norm_zoneout, h, moduli, saved
    return [*maps, row_pointer(h0), *map(pointer, vectors)]
