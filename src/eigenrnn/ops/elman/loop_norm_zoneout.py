"""The loop with LayerNorm and zoneout: `loop.py` holds the one without.

The derivation stands in the README beside this file.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.elman.norm_zoneout_backward import (
    OPTIONS,
    backward_reference,
    elman_norm_zoneout_backward,
)
from eigenrnn.ops.inplace import apply_in_place, cut_moduli, moduli_like
from eigenrnn.ops.norm_zoneout import EPSILON, Norm, Zoneout
from eigenrnn.ops.steps import before, cut, first_steps, weight_gradient
from eigenrnn.tracing import under_transform

__all__ = ["elman_norm_zoneout", "run_norm_zoneout"]

_norm = torch.ops.aten.native_layer_norm.out


@torch.library.custom_op(
    "eigenrnn::elman_norm_zoneout",
    mutates_args=(),
    schema=f"(Tensor x, Tensor W, Tensor h0, Tensor? bias, {OPTIONS}, bool keep) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def elman_norm_zoneout(  # noqa: PLR0913, every backend's
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
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # (T, B, N) all but (2, T, B, 1), the third
    """Evaluate the states, and keep what a backward pass needs.

    That is z and its moments, the candidates, and the moduli of complex modReLU's arguments.
    """
    T, B, N = x.shape
    sizes = batch_sizes or [B] * T
    ragged = sizes[-1] < B
    h = x.new_zeros(x.shape) if ragged else x.new_empty(x.shape)
    kept = _make_kept(x, gain, rate, keep, zeros=ragged)
    f_ = apply_in_place(nonlinearity, bias, h0)
    Wt = W.T.contiguous()
    xs, hs, masks = cut(x, sizes), cut(h, sizes), None if mask is None else cut(mask, sizes)
    z, moments, c = kept
    moduli = moduli_like(x if keep else x[:0], nonlinearity, bias, zeros=ragged)
    zs, means, scales, cs = (_cut(each, sizes) for each in (z, *moments, c))
    ms = cut_moduli(moduli, sizes)
    for t in reversed(range(T)) if reverse else range(T):
        h_before = before(t, hs, h0, sizes, reverse)
        moved = cs[t] if rate else hs[t]
        argument = moved if gain is None else zs[t]
        torch.addmm(xs[t], h_before, Wt, out=argument)
        if gain is not None:
            _norm(argument, (N,), gain, shift, EPSILON, out0=moved, out1=means[t], out2=scales[t])
        f_(moved, ms[t])
        if masks is not None:
            torch.where(masks[t], h_before, moved, out=hs[t])
        elif rate:
            torch.lerp(moved, h_before, rate, out=hs[t])
    return h, *kept, moduli


def _cut(
    kept: Tensor,  # (T or 1 or 0, B, N)
    sizes: Sequence[int],
) -> list[Tensor]:  # T of (sizes[t], N), or none
    return cut(kept.expand(len(sizes), -1, -1), sizes) if len(kept) else []


def _make_kept(
    x: Tensor,  # (T, B, N)
    gain: Tensor | None,
    rate: float,
    keep: bool,
    *,
    zeros: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # (T, B, N), (2, T, B, 1), (T, B, N)
    """Return memory for what is kept: that of one step if nothing asks for it, none if unused."""
    T, B, N = x.shape
    make = x.new_zeros if zeros else x.new_empty
    steps = T if keep else 1
    normed, mixed = steps if gain is not None else 0, steps if rate else 0
    return make(normed, B, N), make(2, normed, B, 1), make(mixed, B, N)


@elman_norm_zoneout.register_fake
def _(x: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    bias, gain, rate, nonlinearity, keep = *others[2:4], *others[6:8], others[-1]
    moduli = moduli_like(x if keep else x[:0], nonlinearity, bias)
    return x.new_empty(x.shape), *_make_kept(x, gain, rate, keep), moduli


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, W, h0, bias, gain, shift, mask, *ctx.options, _ = inputs
    ctx.save_for_backward(W, h0, bias, gain, shift, mask, *output)
    ctx.mark_non_differentiable(output[2])  # the differentiable backward takes them off z
    ctx.set_materialize_grads(False)  # those of what is kept are there in second derivatives alone


def _pull_back(
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
    kept = g_z, g_c, g_m
    g_z, g_c, g_m = (None if each is None or not len(each) else each for each in kept)
    given = (W, h0, bias, gain, shift, mask, *ctx.options)
    plain = g_z is None and g_c is None and g_m is None
    if plain and not torch.is_grad_enabled() and not under_transform():
        dx, dh0, *sums = elman_norm_zoneout_backward(g, h, z, moments, c, moduli, *given)
    else:
        dx, dh0, *sums = backward_reference(g, g_z, g_c, g_m, h, z, c, moduli, *given)
    dW: Tensor | None = None
    if ctx.needs_input_grad[1]:
        dW = weight_gradient(dx, first_steps(dx, batch_sizes, reverse), h, h0, reverse)
    sums = [
        total if needed else None
        for total, needed in zip(sums, ctx.needs_input_grad[3:6], strict=True)
    ]
    return dx, dW, dh0, *sums, *(None,) * 6


elman_norm_zoneout.register_autograd(_pull_back, setup_context=_remember)


def run_norm_zoneout(  # noqa: PLR0913, every backend's
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
    """Evaluate the states."""
    gain, shift = (None, None) if layer_norm is None else layer_norm
    mask, rate = (zoneout, 0.0) if isinstance(zoneout, Tensor) else (None, zoneout or 0.0)
    tensors = (x, W, h0, bias, gain, shift)
    keep = torch.is_grad_enabled() and any(v is not None and v.requires_grad for v in tensors)
    options = (mask, rate, nonlinearity, batch_sizes, reverse, keep)
    return elman_norm_zoneout(*tensors, *options)[0]
