"""The Elman recurrence as a loop of in-place products, with an explicit backward pass.

README.md in this folder has the derivation and the reasons for each choice.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import Options, map_inputs, needs_gradient
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
from eigenrnn.ops.time_steps import previous_state, split_steps, states_and_last

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
    x = map_inputs(x, U, c)
    T, B, N = x.shape
    sizes = options.batch_sizes or [B] * T
    ragged, rate = sizes[-1] < B, options.rate
    h = x.new_zeros(x.shape) if ragged else x.new_empty(x.shape)
    moduli, z, moments, candidates = saved = _allocate_saved(
        h, operands, options, save, zeros=ragged
    )
    f_ = apply_in_place(options.nonlinearity, bias, h0)
    Wt = W.T.contiguous()
    xs, hs, ms = split_steps(x, sizes), split_steps(h, sizes), split_moduli(moduli, sizes)
    zs, means, scales, cs = (_split_saved(v, sizes) for v in (z, *moments, candidates))
    masks = None if mask is None else split_steps(mask, sizes)
    for t in reversed(range(T)) if options.reverse else range(T):
        h_before = previous_state(t, hs, h0, sizes, options.reverse)
        h_new = cs[t] if rate else hs[t]
        argument = h_new if gain is None else zs[t]
        torch.addmm(xs[t], h_before, Wt, out=argument)
        if gain is not None:
            _norm(argument, (N,), gain, shift, EPSILON, out0=h_new, out1=means[t], out2=scales[t])
        f_(h_new, ms[t])
        if masks is not None:
            torch.where(masks[t], h_before, h_new, out=hs[t])
        elif rate:
            torch.lerp(h_new, h_before, rate, out=hs[t])
    return h, *saved


def _allocate_saved(
    h: Tensor,  # (T, B, N)
    operands: ElmanOperands,
    options: Options,
    save: bool,
    *,
    zeros: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # (T, B, N), (T, B, N), (2, T, B, 1), (T, B, N)
    """Allocate memory for the moduli, z, its moments and the states before zoneout.

    Without gradients all steps share the memory of one; unused tensors have no steps.
    """
    T, B, N = h.shape
    make, steps = h.new_zeros if zeros else h.new_empty, T if save else 1
    moduli = moduli_like(h if save else h[:0], options.nonlinearity, operands.bias, zeros=zeros)
    normed, mixed = steps if operands.gain is not None else 0, steps if options.rate else 0
    return moduli, make(normed, B, N), make(2, normed, B, 1), make(mixed, B, N)


def _split_saved(
    saved: Tensor,  # (T or 1 or 0, B, N)
    sizes: Sequence[int],
) -> list[Tensor]:  # T of (sizes[t], N), or none
    return split_steps(saved.expand(len(sizes), -1, -1), sizes) if len(saved) else []


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
    delta = h.new_zeros(h.shape) if sizes[-1] < B else h.new_empty(h.shape)
    dh = h.new_zeros(B, N)  # of the state between two steps; in the end that of h0
    # LayerNorm overwrites the gradient that the bias needs, and that of complex numbers loses it
    sum_bias = bias is not None and (gain is not None or bool(len(moduli)))
    dbias, dgain, dshift = (h.real.new_zeros(N) for _ in range(3))
    backward_ = backward_in_place(options.nonlinearity, bias, h0)
    conjugate = W.conj_physical().contiguous()
    gs, deltas, cs = (split_steps(v, sizes) for v in (g, delta, candidates))
    dhs, ms = split_steps(dh.expand(T, B, N), sizes), split_moduli(moduli, sizes)
    masks = None if mask is None else split_steps(mask, sizes)
    # zoneout passes a part of the gradient on to the state before
    zoned_out, kept = mask is not None or bool(rate), rate if mask is None else 1
    for t in range(T) if options.reverse else reversed(range(T)):
        dh_t, delta_t, n = dhs[t], deltas[t], sizes[t]
        if zoned_out:
            torch.mul(dh_t.add_(gs[t]), 1 - rate, out=delta_t)
        else:
            torch.add(dh_t, gs[t], out=delta_t)
        if sum_bias:
            moving = delta_t if masks is None else delta_t.masked_fill(masks[t], 0)
            dbias += _along_phases(moving, cs[t])
        backward_(delta_t, cs[t], ms[t])
        if masks is not None:
            delta_t.masked_fill_(masks[t], 0)  # zoned-out units ignore the value of f
            dh_t.mul_(masks[t])
        if gain is not None:
            mean, scale = moments[:, t, :n]
            dz, dgain_t, dshift_t = _norm_backward(
                delta_t, z[t, :n], (N,), mean, scale, gain, shift, (True, True, True)
            )
            delta_t.copy_(dz)
            dgain += dgain_t
            dshift += dshift_t
        dh_t.addmm_(delta_t, conjugate, beta=kept)
    if bias is not None and not sum_bias:
        dbias = bias_gradient(delta, candidates, options.nonlinearity)
    known = {"h0": dh, "bias": dbias, "gain": dgain, "shift": dshift}
    return operand_gradients(delta, h, operands, options, needed, known)


def _along_phases(
    delta: Tensor,  # (B, N)
    h: Tensor,  # (B, N)
) -> Tensor:  # (N,)
    return (delta * h.sgn().conj_physical()).real.sum(0)


@elman_loop.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    (operands, options), save = records(arguments), arguments[-1]
    h = operands.W.new_empty(*operands.x.shape[:2], len(operands.W))
    return h, *_allocate_saved(h, operands, options, save)


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
