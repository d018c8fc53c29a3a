"""The linear recurrence in torch operations, in chunks of steps, and its backward pass.

README.md in this folder has the derivation.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from eigenrnn.ops.dispatch import Backend, Call
from eigenrnn.ops.linear.reference import DTYPES, LINEAR, LinearOperands, LinearOptions
from eigenrnn.ops.operators import Named, Operator
from eigenrnn.ops.time_steps import (
    first_steps,
    last_of_each,
    states_and_last,
    states_before,
    steps_in_order,
    without_padding,
    zero_padding,
)

__all__ = ["LinearScan", "linear_scan"]


def add_carried(
    x: Tensor,  # (..., N)
    decay: Tensor,
    state: Tensor,
    begins: Tensor | None,  # (..., 1)
    out: Tensor | None = None,
) -> Tensor:  # (..., N)
    """Return decay * state + x, or x where a sequence begins anew, whatever the state was."""
    if begins is None:
        return torch.addcmul(x, decay, state, out=out)
    # a decay of zero would not forget a state that is infinite or NaN
    return torch.where(begins, x, torch.addcmul(x, decay, state), out=out)


def step_by_step(
    x: Tensor,  # (T, B, N)
    decay: Tensor,  # (N,) or (T, B, N)
    h0: Tensor,  # (B, N)
    begins: Tensor | None,  # (T, B, 1)
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Compute the states one after another."""
    h = x.new_empty(x.shape)
    T = len(x)
    xs = x.unbind()
    hs = h.unbind()
    decays: Sequence[Tensor] = [decay] * T
    if decay.dim() == 3:
        decays = decay.unbind()
    begins_at: Sequence[Tensor | None] = [None] * T
    if begins is not None:
        begins_at = begins.unbind()
    before = h0
    for t in steps_in_order(T, reverse):
        before = add_carried(xs[t], decays[t], before, begins_at[t], out=hs[t])
    return h


def in_chunks(
    x: Tensor,  # (T, B, N)
    decay: Tensor,  # (N,) or (T, B, N)
    h0: Tensor,  # (B, N)
    begins: Tensor | None,  # (T, B, 1)
    reverse: bool,
) -> Tensor:  # (T, B, N)
    r"""Compute the states in about :math:`2 \sqrt T` steps.

    Chunks of :math:`\sqrt T` steps first run at the same time, each from zero. The states between
    chunks follow one after another. Each then enters the states of its chunk.
    """
    T, B, N = x.shape
    gated = decay.dim() == 3
    # chunks of `length` steps, and T / length of them: the sum of both is least at the root of T
    length = max(1, math.isqrt(T))
    whole = T // length * length
    h = x.new_empty(x.shape)
    # an incomplete chunk runs last
    main = slice(0, whole)
    rest = slice(whole, T)
    if reverse:
        main = slice(T - whole, T)
        rest = slice(0, T - whole)
    count = whole // length
    xs = x.contiguous()[main].view(count, length, B, N)
    hs = h[main].view(count, length, B, N)
    if gated:
        factors = decay[main].reshape(xs.shape)
        rest_decay = decay[rest]
    else:  # the same in all chunks and sequences
        factors = decay.expand(1, length, 1, N)
        rest_decay = decay
    products = x.new_empty(factors.shape)  # of the decays since the chunk began
    begun: Tensor | None = None  # whether a sequence has begun anew since the chunk began
    rest_begins: Tensor | None = None
    if begins is not None:
        begun = begins[main].reshape(count, length, B, 1).clone()
        rest_begins = begins[rest]
    order = steps_in_order(length, reverse)
    begin = order[0]
    end = order[-1]
    hs[:, begin].copy_(xs[:, begin])
    products[:, begin].copy_(factors[:, begin])
    # all chunks at once, as if each began from zero
    for before, j in pairwise(order):
        anew = None if begun is None else begun[:, j]
        add_carried(xs[:, j], factors[:, j], hs[:, before], anew, out=hs[:, j])
        if begun is not None:
            begun[:, j] |= begun[:, before]
        torch.mul(products[:, before], factors[:, j], out=products[:, j])
    entering = x.new_empty(count, B, N)
    ends = products[:, end].expand(count, -1, N)
    state = h0
    # one chunk after another, from the state in which each truly begins
    for k in steps_in_order(count, reverse):
        entering[k] = state
        anew = None if begun is None else begun[k, end]
        state = add_carried(hs[k, end], ends[k], state, anew)
    # by linearity that state, times the decays since then, is what each state still lacks
    add_carried(hs, products, entering.unsqueeze(1), begun, out=hs)
    if whole < T:
        h[rest] = step_by_step(x[rest], rest_decay, state, rest_begins, reverse)
    return h


def _forward(operands: LinearOperands, options: LinearOptions, _save: bool) -> dict[str, Tensor]:
    x, decay, h0, _ = operands
    begins = _begins(operands)
    sizes = options.batch_sizes
    reverse = options.reverse
    if sizes is None:
        return {"h": in_chunks(x, decay, h0, begins, reverse)}
    x = without_padding(x, sizes)
    decay = _decay_without_padding(decay, sizes)
    if reverse:  # the state is zero until a sequence begins
        first = last_of_each(sizes, x)
        if begins is not None:
            first = first & ~begins
        x = torch.where(first, x + decay * h0, x)
        h0 = torch.zeros_like(h0)
    h = in_chunks(x, decay, h0, begins, reverse)
    zero_padding(h, sizes)
    return {"h": h}


def _allocate(operands: LinearOperands, _options: LinearOptions, _save: bool) -> dict[str, Tensor]:
    return {"h": operands.x.new_empty(operands.x.shape)}


def _backward(
    operands: LinearOperands,
    options: LinearOptions,
    needed: Collection[str],
    grads: Named,
    kept: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """Return the needed gradients; that of x is the same recurrence in the other direction."""
    g = grads["h"]
    decay = operands.decay
    resets = _begins(operands)
    begins = resets
    sizes = options.batch_sizes
    reverse = options.reverse
    assert g is not None  # noqa: S101, no backward pass runs without a gradient
    if sizes is not None:
        g = without_padding(g, sizes)
        decay = _decay_without_padding(decay, sizes)
    # delta_t = g_t + conj(decay_(t + 1)) delta_(t + 1), from zero after the last step
    if decay.dim() == 3:
        decay = _of_later_step(decay, reverse)
    if begins is not None:
        begins = _of_later_step(begins, reverse)
    none = torch.zeros_like(operands.h0)
    delta = in_chunks(g, decay.conj().resolve_conj(), none, begins, not reverse)
    if sizes is not None:
        zero_padding(delta, sizes)
    gradients = {"x": delta}
    if "decay" in needed:
        product = delta * states_before(kept["h"], operands.h0, sizes, reverse).conj()
        if resets is not None:  # the state before is zero
            product = product.masked_fill(resets, 0)
        if operands.decay.dim() == 1:
            product = product.sum((0, 1))
        gradients["decay"] = product
    if "h0" in needed:
        first_decay = operands.decay
        if first_decay.dim() == 3:
            first_decay = first_steps(first_decay, sizes, reverse)
        gradient = first_steps(delta, sizes, reverse) * first_decay.conj()
        if resets is not None:
            gradient = gradient.masked_fill(first_steps(resets, sizes, reverse), 0)
        gradients["h0"] = gradient
    return gradients


def _decay_without_padding(decay: Tensor, sizes: Sequence[int]) -> Tensor:
    if decay.dim() == 1:
        return decay
    return without_padding(decay, sizes, 1.0)  # one leaves the state as it is


def _begins(operands: LinearOperands) -> Tensor | None:  # (T, B, 1)
    """Return whether each sequence begins anew at each step."""
    return None if operands.resets is None else operands.resets.unsqueeze(2)


def _of_later_step(steps: Tensor, reverse: bool) -> Tensor:
    """Return what belongs to the step after each step in the recurrence; after the last, zero."""
    end = torch.zeros_like(steps[:1])
    if reverse:
        return torch.cat([end, steps[:-1]])
    return torch.cat([steps[1:], end])


linear_scan = Operator(
    "linear_scan",
    LINEAR,
    forward=_forward,
    allocate=_allocate,
    backward=_backward,
    results=("h",),
)


class LinearScan(Backend):
    """Chunks of steps at the same time, in torch operations."""

    name = "scan"
    description = "in-place torch operations on chunks of steps, any device"
    dtypes = DTYPES
    features = frozenset({"resets"})

    def experimental(self, call: Call) -> str | None:
        if "resets" in call.features:
            return "nobody has timed it with resets on a GPU: requested by name only"
        return None

    def run(self, operands: LinearOperands, options: LinearOptions) -> tuple[Tensor, Tensor]:
        h = linear_scan(operands, options)["h"]
        return states_and_last(h, options.batch_sizes, options.reverse)
