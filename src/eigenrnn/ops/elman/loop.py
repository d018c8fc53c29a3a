"""The Elman recurrence as a loop of in-place products, with an explicit backward pass.

README.md in this folder has the derivation and the reasons for each choice.
"""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from eigenrnn.ops.arguments import Options, mapped_copy, needs_gradient
from eigenrnn.ops.dispatch import COMPLEX, REAL, Backend, Call
from eigenrnn.ops.elman.backward import bias_gradient, operand_gradients
from eigenrnn.ops.elman.operands import ElmanOperands
from eigenrnn.ops.elman.reference import ELMAN
from eigenrnn.ops.inplace_nonlinearities import (
    apply_in_place,
    backward_in_place,
    moduli_like,
    split_moduli,
)
from eigenrnn.ops.norm_zoneout import EPSILON
from eigenrnn.ops.operators import Named, Operator
from eigenrnn.ops.time_steps import (
    previous_rows,
    previous_state,
    sizes_of_steps,
    split_steps,
    states_and_last,
    zero_padding,
)

__all__ = ["ElmanLoop", "elman_loop"]

_norm = torch.ops.aten.native_layer_norm.out
_norm_backward = torch.ops.aten.native_layer_norm_backward


def _forward(operands: ElmanOperands, options: Options, save: bool) -> dict[str, Tensor]:
    """Evaluate the recurrence with one product and a few in-place operations per step.

    With `save`, also return what the backward pass needs: for complex modReLU the moduli of the
    pre-activations; with LayerNorm its arguments z and their moments; with a zoneout rate the
    candidates, the states before zoneout.
    """
    x, W, h0, bias = operands.x, operands.W, operands.h0, operands.bias
    gain, shift, mask = operands.gain, operands.shift, operands.mask
    T, B, N = *x.shape[:2], len(W)
    sizes, rate = sizes_of_steps(options.batch_sizes, T, B), options.rate
    ragged = sizes[-1] < B
    # each step adds its product to its inputs in place, and mostly f too works in place
    z = mapped_copy(x, operands.U, operands.c)
    if ragged:
        zero_padding(z, sizes)
    like = torch.zeros_like if ragged else torch.empty_like
    candidates = z if gain is None else like(z)
    h = like(z) if rate else candidates
    saved = _saved_like(h, operands, options, save, zeros=ragged)
    f_ = apply_in_place(options.nonlinearity, bias, h0)
    Wt = W.T.contiguous()
    zs = split_steps(z, sizes)
    cs = split_steps(candidates, sizes)
    hs = split_steps(h, sizes)
    ms = split_moduli(saved["moduli"], sizes)
    means, scales = (split_steps(v, sizes) if len(v) else () for v in saved["moments"])
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
    if save and gain is not None:
        saved["z"] = z
    if save and rate:
        saved["candidates"] = candidates
    return {"h": h, **saved}


def _saved_like(
    h: Tensor,  # (T, B, N)
    operands: ElmanOperands,
    options: Options,
    save: bool,
    *,
    zeros: bool = False,
) -> dict[str, Tensor]:
    """Allocate the moduli, z, its moments and the candidates; those not saved have no steps."""
    T, B, N = h.shape
    normed = operands.gain is not None
    make = h.new_zeros if zeros else h.new_empty
    moduli = moduli_like(h if save else h[:0], options.nonlinearity, operands.bias, zeros=zeros)
    return {
        "moduli": moduli,
        "z": h.new_empty(T if save and normed else 0, B, N),
        "moments": make(2, T if normed else 0, B, 1),  # the forward pass needs a place for them
        "candidates": h.new_empty(T if save and options.rate else 0, B, N),
    }


def _allocate(operands: ElmanOperands, options: Options, save: bool) -> dict[str, Tensor]:
    h = operands.W.new_empty(*operands.x.shape[:2], len(operands.W))
    return {"h": h, **_saved_like(h, operands, options, save)}


def _backward(
    operands: ElmanOperands,
    options: Options,
    needed: Collection[str],
    grads: Named,
    kept: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    W, h0, bias = operands.W, operands.h0, operands.bias
    gain, shift, mask = operands.gain, operands.shift, operands.mask
    g, h, z, moduli, moments = grads["h"], kept["h"], kept["z"], kept["moduli"], kept["moments"]
    assert g is not None  # noqa: S101, no backward pass runs without a gradient
    T, B, N = h.shape
    sizes = sizes_of_steps(options.batch_sizes, T, B)
    rate = options.rate
    candidates = kept["candidates"] if rate else h
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
    return known | operand_gradients(delta, h, operands, options, needed)


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


elman_loop = Operator(
    "elman_loop",
    ELMAN,
    forward=_forward,
    allocate=_allocate,
    backward=_backward,
    results=("h",),
    saved=("moduli", "z", "moments", "candidates"),
)


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
        h = elman_loop(operands, options, needs_gradient(operands))["h"]
        return states_and_last(h, options.batch_sizes, options.reverse)
