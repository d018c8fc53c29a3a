"""The Elman recurrence as a loop of in-place products, with an explicit backward pass.

README.md in this folder has the derivation and the reasons for each choice.
"""

from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import Options, mapped_copy, needs_gradient
from eigenrnn.ops.autograd import empty_gradients, from_operator, register_gradients
from eigenrnn.ops.dispatch import COMPLEX, REAL, Backend, Call
from eigenrnn.ops.elman.backward import bias_gradient, operand_gradients
from eigenrnn.ops.elman.operands import SCHEMA, ElmanOperands, records
from eigenrnn.ops.elman.reference import elman_reference
from eigenrnn.ops.inplace_nonlinearities import (
    apply_in_place,
    backward_in_place,
    moduli_like,
    split_moduli,
)
from eigenrnn.ops.norm_zoneout import EPSILON
from eigenrnn.ops.time_steps import (
    previous_rows,
    previous_state,
    split_steps,
    states_and_last,
    zero_padding,
)

__all__ = ["ElmanLoop", "elman_loop"]

_norm = torch.ops.aten.native_layer_norm.out
_norm_backward = torch.ops.aten.native_layer_norm_backward


@torch.library.custom_op(
    "eigenrnn::elman_loop",
    mutates_args=(),
    schema=f"({SCHEMA}, bool save) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def elman_loop(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Evaluate the recurrence with one product and a few in-place operations per step.

    Return the states and, with `save`, what the backward pass needs: for complex modReLU the
    moduli of the pre-activations; with LayerNorm its arguments z and their moments; with a zoneout
    rate the states before zoneout.
    """
    (operands, options), save = records(arguments), arguments[-1]
    x, W, h0, bias, U, c, _, _, gain, shift, mask = operands
    T, B, N = *x.shape[:2], len(W)
    sizes, rate = options.batch_sizes or [B] * T, options.rate
    ragged = sizes[-1] < B
    # each step adds its product to its inputs in place, and mostly f too works in place
    z = mapped_copy(x, U, c)
    if ragged:
        zero_padding(z, sizes)
    like = torch.zeros_like if ragged else torch.empty_like
    candidates = z if gain is None else like(z)
    h = like(z) if rate else candidates
    moduli, no_z, moments, no_candidates = _saved_like(h, operands, options, save, zeros=ragged)
    f_ = apply_in_place(options.nonlinearity, bias, h0)
    Wt = W.T.contiguous()
    zs, cs, hs = (split_steps(v, sizes) for v in (z, candidates, h))
    ms = split_moduli(moduli, sizes)
    means, scales = (split_steps(v, sizes) if len(v) else () for v in moments)
    masks = None if mask is None else split_steps(mask, sizes)
    for t in reversed(range(T)) if options.reverse else range(T):
        h_before = previous_state(t, hs, h0, sizes, options.reverse)
        zs[t].addmm_(h_before, Wt)
        if gain is not None:
            _norm(zs[t], (N,), gain, shift, EPSILON, out0=cs[t], out1=means[t], out2=scales[t])
        f_(cs[t], ms[t])
        if masks is not None:
            torch.where(masks[t], h_before, cs[t], out=hs[t])
        elif rate:
            torch.lerp(cs[t], h_before, rate, out=hs[t])
    if not save:
        return h, moduli, no_z, moments, no_candidates
    return (
        *(h, moduli, no_z if gain is None else z, moments),
        candidates if rate else no_candidates,
    )


def _saved_like(
    h: Tensor,  # (T, B, N)
    operands: ElmanOperands,
    options: Options,
    save: bool,
    *,
    zeros: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # (T, B, N), (T, B, N), (2, T, B, 1), (T, B, N)
    """Allocate the moduli, z, its moments and the states before zoneout, for a backward pass.

    Those that are not saved have no steps.
    """
    T, B, N = h.shape
    moduli = moduli_like(h if save else h[:0], options.nonlinearity, operands.bias, zeros=zeros)
    normed, make = operands.gain is not None, h.new_zeros if zeros else h.new_empty
    return (
        moduli,
        h.new_empty(T if save and normed else 0, B, N),
        make(2, T if normed else 0, B, 1),
        h.new_empty(T if save and options.rate else 0, B, N),
    )


@torch.library.custom_op(
    "eigenrnn::elman_loop_backward",
    mutates_args=(),
    schema="(Tensor g, Tensor h, Tensor moduli, Tensor z, Tensor moments, Tensor candidates, "
    f"{SCHEMA}, bool[] needed) -> Tensor[]",
)
def _elman_loop_backward(
    g: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    moduli: Tensor,  # (T, B, N) or (0, B, N)
    z: Tensor,  # (T, B, N) or (0, B, N)
    moments: Tensor,  # (2, T, B, 1) or (2, 0, B, 1)
    candidates: Tensor,  # (T, B, N) or (0, B, N)
    *arguments: Any,
) -> list[Tensor]:
    """Return the needed gradients in the order of the operands."""
    (operands, options), needed = records(arguments), arguments[-1]
    _, W, h0, bias, *_, gain, shift, mask = operands
    T, B, N = h.shape
    sizes = options.batch_sizes or [B] * T
    rate, candidates = options.rate, candidates if options.rate else h
    # the gradients of the states; in place, each step makes them those of the pre-activations
    delta, dh0 = g.clone(memory_format=torch.contiguous_format), h.new_zeros(B, N)
    if sizes[-1] < B:
        zero_padding(delta, sizes)
    # LayerNorm overwrites the gradient that the bias needs, and that of complex numbers loses it
    sum_bias = bias is not None and (gain is not None or bool(len(moduli)))
    dbias, dgain, dshift = (h.real.new_zeros(N) for _ in range(3))
    backward_ = backward_in_place(options.nonlinearity, bias, h0)
    conjugate = W.conj_physical().contiguous()
    deltas, cs = split_steps(delta, sizes), split_steps(candidates, sizes)
    ms, earlier = split_moduli(moduli, sizes), previous_rows(deltas, dh0, sizes, options.reverse)
    masks = None if mask is None else split_steps(mask, sizes)
    for t in range(T) if options.reverse else reversed(range(T)):
        delta_t = deltas[t]
        mask_t = None if masks is None else masks[t]
        if mask_t is not None or rate:
            _pass_through_zoneout(delta_t, earlier[t], mask_t, rate)
        if sum_bias:
            dbias += _along_phases(delta_t, cs[t])
        backward_(delta_t, cs[t], ms[t])
        if gain is not None:
            mean, scale = moments[:, t, : sizes[t]]
            dz, dgain_t, dshift_t = _norm_backward(
                delta_t, z[t, : sizes[t]], (N,), mean, scale, gain, shift, (True, True, True)
            )
            delta_t.copy_(dz)
            dgain += dgain_t
            dshift += dshift_t
        for dh, rows in earlier[t]:
            dh.addmm_(delta_t if rows is None else delta_t[rows], conjugate)
    if bias is not None and not sum_bias:
        dbias = bias_gradient(delta, candidates, options.nonlinearity)
    known = {"h0": dh0, "bias": dbias, "gain": dgain, "shift": dshift}
    return operand_gradients(delta, h, operands, options, needed, known)


def _pass_through_zoneout(
    g: Tensor,  # (B, N)
    earlier: list[tuple[Tensor, slice | None]],
    mask: Tensor | None,  # (B, N)
    rate: float,
) -> None:
    """Move the part of the gradient that belongs to the states before, in place."""
    for dh, rows in earlier:
        passed, share = (g, rate) if mask is None else (g * mask, 1)
        dh.add_(passed if rows is None else passed[rows], alpha=share)
    if mask is None:
        g.mul_(1 - rate)
    else:
        g.masked_fill_(mask, 0)


def _along_phases(
    delta: Tensor,  # (B, N)
    h: Tensor,  # (B, N)
) -> Tensor:  # (N,)
    return (delta * h.sgn().conj_physical()).real.sum(0)


@elman_loop.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    (operands, options), save = records(arguments), arguments[-1]
    h = operands.W.new_empty(*operands.x.shape[:2], len(operands.W))
    return h, *_saved_like(h, operands, options, save)


@_elman_loop_backward.register_fake
def _(*arguments: Any) -> list[Tensor]:
    operands, _ = records(arguments[6:])
    return empty_gradients(operands, arguments[-1])


register_gradients(elman_loop, records, elman_reference, 1, from_operator(_elman_loop_backward))


class ElmanLoop(Backend):
    """One product per step, in torch operations."""

    name = "loop"
    description = "in-place torch operations, any device"
    dtypes = REAL | COMPLEX
    features = frozenset({"layer_norm", "zoneout"})

    def unsupported(self, call: Call) -> str | None:
        if call.transformed:
            return "torch.func transforms and forward mode need differentiable operations"
        if "layer_norm" in call.features and call.dtype in (torch.float16, torch.bfloat16):
            return "layer_norm in 16 bits keeps its moments in dtypes that differ between devices"
        return None

    def run(self, operands: ElmanOperands, options: Options) -> tuple[Tensor, Tensor]:
        h, *_ = elman_loop(*operands, *options, needs_gradient(operands))
        return states_and_last(h, options.batch_sizes, options.reverse)
