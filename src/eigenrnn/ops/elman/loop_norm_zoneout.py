"""The loop with LayerNorm and zoneout.

`loop.py` is the loop without them. README.md in this folder has the derivation.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.inplace_nonlinearities import (
    apply_in_place,
    backward_in_place,
    moduli_like,
    split_moduli,
)
from eigenrnn.ops.norm_zoneout import EPSILON, Norm, Zoneout
from eigenrnn.ops.time_steps import first_steps, previous_state, split_steps, weight_gradient
from eigenrnn.tracing import under_transform

__all__ = [
    "OPTIONS",
    "backward_reference",
    "elman_norm_zoneout",
    "elman_norm_zoneout_backward",
    "run_norm_zoneout",
]

OPTIONS = (
    "Tensor? gain, Tensor? shift, Tensor? mask, float rate, "
    "str nonlinearity, SymInt[]? batch_sizes, bool reverse"
)
"""The arguments that both operators share, as a schema."""

_norm_backward = torch.ops.aten.native_layer_norm_backward


@torch.library.custom_op(
    "eigenrnn::elman_norm_zoneout_backward",
    mutates_args=(),
    schema="(Tensor g, Tensor h, Tensor z, Tensor moments, Tensor c, Tensor moduli, Tensor W, "
    f"Tensor h0, Tensor? bias, {OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def elman_norm_zoneout_backward(  # noqa: PLR0913, the signature of all backends
    g: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    z: Tensor,  # (T, B, N)
    moments: Tensor,  # (2, T, B, 1)
    c: Tensor,  # (T, B, N)
    moduli: Tensor,  # (T, B, N) or (0, B, N)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    gain: Tensor | None,  # (N,)
    shift: Tensor | None,  # (N,)
    mask: Tensor | None,  # (T, B, N), bool
    rate: float,
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (N,), (N,), (N,)
    """Return the gradients of x, h0, the bias, the gain and the shift."""
    T, B, N = h.shape
    sizes = batch_sizes or [B] * T
    dx = h.new_zeros(h.shape) if sizes[-1] < B else h.new_empty(h.shape)
    dh = h.new_zeros(B, N)  # of the state between two steps; in the end that of h0
    dbias, dgain, dshift = _zero_gradients(h, bias, gain)
    backward_ = backward_in_place(nonlinearity, bias, h0)
    conjugate = W.conj_physical().contiguous()
    candidates = split_steps(c if rate else h, sizes)
    gs, dxs, dhs = (
        split_steps(g, sizes),
        split_steps(dx, sizes),
        split_steps(dh.expand(T, B, N), sizes),
    )
    masks, ms = None if mask is None else split_steps(mask, sizes), split_moduli(moduli, sizes)
    for t in range(T) if reverse else reversed(range(T)):
        dh_t, delta, n = dhs[t], dxs[t], sizes[t]
        dh_t.add_(gs[t])
        torch.mul(dh_t, 1 - rate, out=delta)
        if bias is not None:  # before the derivative of f, as in `bias_gradient`
            moving = delta if masks is None else delta.masked_fill(masks[t], 0)
            dbias += _along_phases(moving, candidates[t])
        backward_(delta, candidates[t], ms[t])
        if masks is not None:
            delta.masked_fill_(masks[t], 0)  # zoned-out units ignore the value of f
            dh_t.mul_(masks[t])
        if gain is not None:
            mean, scale = moments[:, t, :n]
            dz_t, dgain_t, dshift_t = _norm_backward(
                delta, z[t, :n], (N,), mean, scale, gain, shift, (True, True, True)
            )
            delta.copy_(dz_t)
            dgain += dgain_t
            dshift += dshift_t
        dh_t.addmm_(delta, conjugate, beta=rate if masks is None else 1)
    return dx, dh, dbias, dgain, dshift


def _zero_gradients(
    h: Tensor,  # (T, B, N)
    bias: Tensor | None,  # (N,)
    gain: Tensor | None,  # (N,)
) -> tuple[Tensor, Tensor, Tensor]:  # (N,) or (0,) each
    """Return zeros for the gradients of the bias, the gain and the shift; empty if unused."""
    N = h.shape[2]
    bias_size, norm_size = N if bias is not None else 0, N if gain is not None else 0
    make = h.real.new_zeros
    return make(bias_size), make(norm_size), make(norm_size)


@elman_norm_zoneout_backward.register_fake
def _(g: Tensor, h: Tensor, *others: Any) -> tuple[Tensor, ...]:  # noqa: ARG001, the operator's signature
    bias, gain = others[6:8]
    return h.new_empty(h.shape), h.new_empty(h.shape[1:]), *_zero_gradients(h, bias, gain)


def _along_phases(
    delta: Tensor,  # (B, N)
    h: Tensor,  # (B, N)
) -> Tensor:  # (N,)
    return (delta * h.sgn().conj()).real.sum(0)


def backward_reference(  # noqa: PLR0913, the signature of all backends
    g: Tensor,  # (T, B, N)
    g_z: Tensor | None,  # (T, B, N)
    g_c: Tensor | None,  # (T, B, N)
    g_m: Tensor | None,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    z: Tensor,  # (T, B, N)
    c: Tensor,  # (T, B, N)
    moduli: Tensor,  # (T, B, N) or (0, B, N)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    gain: Tensor | None,  # (N,)
    _shift: Tensor | None,  # (N,)
    mask: Tensor | None,  # (T, B, N), bool
    rate: float,
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # as above
    """Compute the same in operations that autograd and `vmap` support.

    h, z, c and the moduli are connected to the inputs in the autograd graph.
    """
    backward = NONLINEARITIES[nonlinearity].backward
    T, B, _ = h.shape
    sizes = batch_sizes or [B] * T
    dh, dxs = torch.zeros_like(h0), []
    dbias, dgain, dshift = _zero_gradients(h, bias, gain)
    for t in range(T) if reverse else reversed(range(T)):
        running = (torch.arange(B, device=h.device) < sizes[t]).unsqueeze(1)
        moving = running if mask is None else running & ~mask[t]
        total = dh + g[t]
        zoned_out = total * rate if mask is None else torch.where(mask[t], total, 0)
        share = total * (1 - rate) if g_c is None else total * (1 - rate) + g_c[t]
        candidate = torch.where(moving, c[t] if rate else h[t], 0)
        delta = backward(share, candidate, bias, moduli[t] if len(moduli) else None)
        if g_m is not None:
            delta = delta + g_m[t] * candidate.sgn()
        delta = torch.where(moving, delta, 0)
        if bias is not None:
            dbias = dbias + _along_phases(torch.where(moving, share, 0), candidate)
        if gain is not None:
            variance, mean = torch.var_mean(z[t], dim=1, correction=0, keepdim=True)
            scale = (variance + EPSILON).rsqrt()
            normed = (z[t] - mean) * scale
            dgain, dshift = dgain + (delta * normed).sum(0), dshift + delta.sum(0)
            y = delta * gain
            along = (y * normed).mean(1, keepdim=True)
            delta = scale * (y - y.mean(1, keepdim=True) - normed * along)
        if g_z is not None:
            delta = delta + torch.where(running, g_z[t], 0)
        dh = torch.where(running, delta @ W.conj() + zoned_out, dh)
        dxs.append(delta)
    return torch.stack(dxs if reverse else dxs[::-1]), dh, dbias, dgain, dshift


_norm = torch.ops.aten.native_layer_norm.out


@torch.library.custom_op(
    "eigenrnn::elman_norm_zoneout",
    mutates_args=(),
    schema=f"(Tensor x, Tensor W, Tensor h0, Tensor? bias, {OPTIONS}, bool save) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def elman_norm_zoneout(  # noqa: PLR0913, the signature of all backends
    x: Tensor,  # (T, B, N)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    gain: Tensor | None,  # (N,)
    shift: Tensor | None,  # (N,)
    mask: Tensor | None,  # (T, B, N), bool
    rate: float,
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # (T, B, N) all but (2, T, B, 1), the third
    """Evaluate the states and save what a backward pass needs.

    These are z and its moments, the candidates and, for complex modReLU, the moduli.
    """
    T, B, N = x.shape
    sizes = batch_sizes or [B] * T
    ragged = sizes[-1] < B
    h = x.new_zeros(x.shape) if ragged else x.new_empty(x.shape)
    saved = _allocate_saved(x, gain, rate, save, zeros=ragged)
    f_ = apply_in_place(nonlinearity, bias, h0)
    Wt = W.T.contiguous()
    xs, hs, masks = (
        split_steps(x, sizes),
        split_steps(h, sizes),
        None if mask is None else split_steps(mask, sizes),
    )
    z, moments, c = saved
    moduli = moduli_like(x if save else x[:0], nonlinearity, bias, zeros=ragged)
    zs, means, scales, cs = (_split_saved(each, sizes) for each in (z, *moments, c))
    ms = split_moduli(moduli, sizes)
    for t in reversed(range(T)) if reverse else range(T):
        h_before = previous_state(t, hs, h0, sizes, reverse)
        candidate = cs[t] if rate else hs[t]
        argument = candidate if gain is None else zs[t]
        torch.addmm(xs[t], h_before, Wt, out=argument)
        if gain is not None:
            _norm(
                argument, (N,), gain, shift, EPSILON, out0=candidate, out1=means[t], out2=scales[t]
            )
        f_(candidate, ms[t])
        if masks is not None:
            torch.where(masks[t], h_before, candidate, out=hs[t])
        elif rate:
            torch.lerp(candidate, h_before, rate, out=hs[t])
    return h, *saved, moduli


def _split_saved(
    saved: Tensor,  # (T or 1 or 0, B, N)
    sizes: Sequence[int],
) -> list[Tensor]:  # T of (sizes[t], N), or none
    return split_steps(saved.expand(len(sizes), -1, -1), sizes) if len(saved) else []


def _allocate_saved(
    x: Tensor,  # (T, B, N)
    gain: Tensor | None,
    rate: float,
    save: bool,
    *,
    zeros: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # (T, B, N), (2, T, B, 1), (T, B, N)
    """Allocate memory for z, its moments and the candidates.

    Without gradients they have one step, and unused ones have none.
    """
    T, B, N = x.shape
    make = x.new_zeros if zeros else x.new_empty
    steps = T if save else 1
    normed, mixed = steps if gain is not None else 0, steps if rate else 0
    return make(normed, B, N), make(2, normed, B, 1), make(mixed, B, N)


@elman_norm_zoneout.register_fake
def _(x: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    bias, gain, rate, nonlinearity, save = *others[2:4], *others[6:8], others[-1]
    moduli = moduli_like(x if save else x[:0], nonlinearity, bias)
    return x.new_empty(x.shape), *_allocate_saved(x, gain, rate, save), moduli


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, W, h0, bias, gain, shift, mask, *ctx.options, _ = inputs
    ctx.save_for_backward(W, h0, bias, gain, shift, mask, *output)
    ctx.mark_non_differentiable(output[2])  # the differentiable backward pass recomputes them
    ctx.set_materialize_grads(False)  # saved tensors have gradients only in second derivatives


def _backward(
    ctx: Any,
    g: Tensor | None,
    g_z: Tensor | None,
    _: Tensor | None,
    g_c: Tensor | None,
    g_m: Tensor | None,
) -> tuple[Tensor | None, ...]:
    W, h0, bias, gain, shift, mask, h, z, moments, c, moduli = ctx.saved_tensors
    _, _, batch_sizes, reverse = ctx.options
    g = torch.zeros_like(h) if g is None else g
    saved = g_z, g_c, g_m
    g_z, g_c, g_m = (None if each is None or not len(each) else each for each in saved)
    arguments = (W, h0, bias, gain, shift, mask, *ctx.options)
    first_order = g_z is None and g_c is None and g_m is None
    if first_order and not torch.is_grad_enabled() and not under_transform():
        dx, dh0, *sums = elman_norm_zoneout_backward(g, h, z, moments, c, moduli, *arguments)
    else:
        dx, dh0, *sums = backward_reference(g, g_z, g_c, g_m, h, z, c, moduli, *arguments)
    dW: Tensor | None = None
    if ctx.needs_input_grad[1]:
        dW = weight_gradient(dx, first_steps(dx, batch_sizes, reverse), h, h0, reverse)
    sums = [
        total if needed else None
        for total, needed in zip(sums, ctx.needs_input_grad[3:6], strict=True)
    ]
    return dx, dW, dh0, *sums, *(None,) * 6


elman_norm_zoneout.register_autograd(_backward, setup_context=_setup_context)


def run_norm_zoneout(  # noqa: PLR0913, the signature of all backends
    x: Tensor,  # (T, B, N)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
    *,
    layer_norm: Norm | None = None,
    zoneout: Zoneout | None = None,
) -> Tensor:  # (T, B, N)
    """Evaluate the states with LayerNorm, zoneout or both."""
    gain, shift = (None, None) if layer_norm is None else layer_norm
    mask, rate = (zoneout, 0.0) if isinstance(zoneout, Tensor) else (None, zoneout or 0.0)
    tensors = (x, W, h0, bias, gain, shift)
    save = torch.is_grad_enabled() and any(v is not None and v.requires_grad for v in tensors)
    options = (mask, rate, nonlinearity, batch_sizes, reverse, save)
    return elman_norm_zoneout(*tensors, *options)[0]
