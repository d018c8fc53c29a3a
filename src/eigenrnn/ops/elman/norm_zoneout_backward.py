"""The backward pass through LayerNorm and zoneout: in place, and once more differentiably."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.inplace import cut_moduli, pull_in_place
from eigenrnn.ops.norm_zoneout import EPSILON
from eigenrnn.ops.steps import cut

__all__ = ["OPTIONS", "backward_reference", "elman_norm_zoneout_backward"]

OPTIONS = (
    "Tensor? gain, Tensor? shift, Tensor? mask, float rate, "
    "str nonlinearity, SymInt[]? batch_sizes, bool reverse"
)
"""What both operators take, in the language of schemas."""

_norm_backward = torch.ops.aten.native_layer_norm_backward


@torch.library.custom_op(
    "eigenrnn::elman_norm_zoneout_backward",
    mutates_args=(),
    schema="(Tensor g, Tensor h, Tensor z, Tensor moments, Tensor c, Tensor moduli, Tensor W, "
    f"Tensor h0, Tensor? bias, {OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def elman_norm_zoneout_backward(  # noqa: PLR0913, every backend's
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
    """Return the gradients of x, of h0, and of the bias, the gain and the shift."""
    T, B, N = h.shape
    sizes = batch_sizes or [B] * T
    dx = h.new_zeros(h.shape) if sizes[-1] < B else h.new_empty(h.shape)
    dh = h.new_zeros(B, N)  # of the state between two steps; ends as that of the first
    dbias, dgain, dshift = _make_sums(h, bias, gain)
    pull_ = pull_in_place(nonlinearity, bias, h0)
    conjugate = W.conj_physical().contiguous()
    moved = cut(c if rate else h, sizes)
    gs, dxs, dhs = cut(g, sizes), cut(dx, sizes), cut(dh.expand(T, B, N), sizes)
    masks, ms = None if mask is None else cut(mask, sizes), cut_moduli(moduli, sizes)
    for t in range(T) if reverse else reversed(range(T)):
        dh_t, delta, n = dhs[t], dxs[t], sizes[t]
        dh_t.add_(gs[t])
        torch.mul(dh_t, 1 - rate, out=delta)
        if bias is not None:  # before the pull, as in `bias_gradient`
            moving = delta if masks is None else delta.masked_fill(masks[t], 0)
            dbias += _along_phases(moving, moved[t])
        pull_(delta, moved[t], ms[t])
        if masks is not None:
            delta.masked_fill_(masks[t], 0)  # what f gave these went nowhere
            dh_t.mul_(masks[t])
        if gain is not None:
            mean, scale = moments[:, t, :n]
            of_z, of_gain, of_shift = _norm_backward(
                delta, z[t, :n], (N,), mean, scale, gain, shift, (True, True, True)
            )
            delta.copy_(of_z)
            dgain += of_gain
            dshift += of_shift
        dh_t.addmm_(delta, conjugate, beta=rate if masks is None else 1)
    return dx, dh, dbias, dgain, dshift


def _make_sums(
    h: Tensor,  # (T, B, N)
    bias: Tensor | None,  # (N,)
    gain: Tensor | None,  # (N,)
) -> tuple[Tensor, Tensor, Tensor]:  # (N,) or (0,) each
    """Return zeros for the gradients of the bias, the gain and the shift; nothing if unused."""
    N = h.shape[2]
    of_bias, of_norm = N if bias is not None else 0, N if gain is not None else 0
    make = h.real.new_zeros
    return make(of_bias), make(of_norm), make(of_norm)


@elman_norm_zoneout_backward.register_fake
def _(g: Tensor, h: Tensor, *others: Any) -> tuple[Tensor, ...]:  # noqa: ARG001, the operator's signature
    bias, gain = others[6:8]
    return h.new_empty(h.shape), h.new_empty(h.shape[1:]), *_make_sums(h, bias, gain)


def _along_phases(
    delta: Tensor,  # (B, N)
    h: Tensor,  # (B, N)
) -> Tensor:  # (N,)
    return (delta * h.sgn().conj()).real.sum(0)


def backward_reference(  # noqa: PLR0913, the same
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
    """Do the same in operations that autograd and `vmap` follow; h, z, c and moduli lead back."""
    pull = NONLINEARITIES[nonlinearity].pull
    T, B, _ = h.shape
    sizes = batch_sizes or [B] * T
    dh, dxs = torch.zeros_like(h0), []
    dbias, dgain, dshift = _make_sums(h, bias, gain)
    for t in range(T) if reverse else reversed(range(T)):
        running = (torch.arange(B, device=h.device) < sizes[t]).unsqueeze(1)
        moving = running if mask is None else running & ~mask[t]
        total = dh + g[t]
        stays = total * rate if mask is None else torch.where(mask[t], total, 0)
        share = total * (1 - rate) if g_c is None else total * (1 - rate) + g_c[t]
        moved = torch.where(moving, c[t] if rate else h[t], 0)
        pulled = pull(share, moved, bias, moduli[t] if len(moduli) else None)
        if g_m is not None:
            pulled = pulled + g_m[t] * moved.sgn()
        delta = torch.where(moving, pulled, 0)
        if bias is not None:
            dbias = dbias + _along_phases(torch.where(moving, share, 0), moved)
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
        dh = torch.where(running, delta @ W.conj() + stays, dh)
        dxs.append(delta)
    return torch.stack(dxs if reverse else dxs[::-1]), dh, dbias, dgain, dshift
