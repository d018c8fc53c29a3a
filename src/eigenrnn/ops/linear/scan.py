"""The linear recurrence in torch operations, in chunks of steps, and its backward pass.

README.md in this folder has the derivation.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from eigenrnn.ops.dispatch import Backend, Call
from eigenrnn.ops.linear.operands import DTYPES, LinearOperands, LinearOptions
from eigenrnn.ops.linear.reference import LINEAR
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


def step_by_step(
    x: Tensor,  # (T, B, N)
    decay: Tensor,  # (N,) or (T, B, N)
    h0: Tensor,  # (B, N)
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
    before = h0
    for t in steps_in_order(T, reverse):
        before = torch.addcmul(xs[t], decays[t], before, out=hs[t])
    return h


def in_chunks(
    x: Tensor,  # (T, B, N)
    decay: Tensor,  # (N,) or (T, B, N)
    h0: Tensor,  # (B, N)
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
    order = steps_in_order(length, reverse)
    begin = order[0]
    end = order[-1]
    hs[:, begin].copy_(xs[:, begin])
    products[:, begin].copy_(factors[:, begin])
    # all chunks at once, as if each began from zero
    for before, j in pairwise(order):
        torch.addcmul(xs[:, j], factors[:, j], hs[:, before], out=hs[:, j])
        torch.mul(products[:, before], factors[:, j], out=products[:, j])
    entering = x.new_empty(count, B, N)
    ends = products[:, end].expand(count, -1, N)
    state = h0
    # one chunk after another, from the state in which each truly begins
    for k in steps_in_order(count, reverse):
        entering[k] = state
        state = torch.addcmul(hs[k, end], ends[k], state)
    # by linearity that state, times the decays since then, is what each state still lacks
    hs.addcmul_(products, entering.unsqueeze(1))
    if whole < T:
        h[rest] = step_by_step(x[rest], rest_decay, state, reverse)
    return h


def _forward(operands: LinearOperands, options: LinearOptions, _save: bool) -> dict[str, Tensor]:
    x, decay, h0, _ = operands
    sizes = options.batch_sizes
    reverse = options.reverse
    if sizes is None:
        return {"h": in_chunks(x, decay, h0, reverse)}
    x = without_padding(x, sizes)
    decay = _decay_without_padding(decay, sizes)
    if reverse:  # the state is zero until a sequence begins
        first = last_of_each(sizes, x)
        x = torch.where(first, x + decay * h0, x)
        h0 = torch.zeros_like(h0)
    h = in_chunks(x, decay, h0, reverse)
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
    sizes = options.batch_sizes
    assert g is not None  # noqa: S101, no backward pass runs without a gradient
    if sizes is not None:
        g = without_padding(g, sizes)
        decay = _decay_without_padding(decay, sizes)
    # delta_t = g_t + conj(decay_(t + 1)) delta_(t + 1), from zero after the last step
    later = _of_later_step(decay, options.reverse)
    none = torch.zeros_like(operands.h0)
    delta = in_chunks(g, later.conj().resolve_conj(), none, not options.reverse)
    if sizes is not None:
        zero_padding(delta, sizes)
    gradients = {"x": delta}
    if "decay" in needed:
        gradients["decay"] = _decay_gradient(delta, kept["h"], operands, options)
    if "h0" in needed:
        gradients["h0"] = _initial_gradient(delta, operands, options)
    return gradients


def _decay_without_padding(decay: Tensor, sizes: Sequence[int]) -> Tensor:
    if decay.dim() == 1:
        return decay
    return without_padding(decay, sizes, 1.0)  # one leaves the state as it is


def _of_later_step(decay: Tensor, reverse: bool) -> Tensor:
    """Return the decay of the step that follows each step in the recurrence; after the last, 1."""
    if decay.dim() == 1:
        return decay
    end = torch.ones_like(decay[:1])
    if reverse:
        return torch.cat([end, decay[:-1]])
    return torch.cat([decay[1:], end])


def _decay_gradient(
    delta: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    operands: LinearOperands,
    options: LinearOptions,
) -> Tensor:  # (N,) or (T, B, N)
    before = states_before(h, operands.h0, options.batch_sizes, options.reverse)
    product = delta * before.conj()
    if operands.decay.dim() == 3:
        return product
    return product.sum((0, 1))


def _initial_gradient(
    delta: Tensor,  # (T, B, N)
    operands: LinearOperands,
    options: LinearOptions,
) -> Tensor:  # (B, N)
    sizes = options.batch_sizes
    reverse = options.reverse
    decay = operands.decay
    if decay.dim() == 3:
        decay = first_steps(decay, sizes, reverse)
    return first_steps(delta, sizes, reverse) * decay.conj()


linear_scan = Operator(
    "linear_scan",
    LINEAR,
    forward=_forward,
    allocate=_allocate,
    backward=_backward,
    results=("h",),
    without=("resets",),
)


class LinearScan(Backend):
    """Chunks of steps at the same time, in torch operations."""

    name = "scan"
    description = "in-place torch operations on chunks of steps, any device"
    dtypes = DTYPES
    features = frozenset({"resets"})

    def unsupported(self, call: Call) -> str | None:
        if call.transformed:
            return "torch.func transforms and forward mode need differentiable operations"
        return None

    def experimental(self, call: Call) -> str | None:
        if "resets" in call.features:
            return "nobody has timed it with resets on a GPU: requested by name only"
        return None

    def run(self, operands: LinearOperands, options: LinearOptions) -> tuple[Tensor, Tensor]:
        if operands.resets is not None:  # a decay of zero forgets a state that is finite
            decay = operands.decay.expand(operands.x.shape)
            decay = decay.masked_fill(operands.resets.unsqueeze(2), 0)
            operands = operands._replace(decay=decay, resets=None)
        h = linear_scan(operands, options)["h"]
        return states_and_last(h, options.batch_sizes, options.reverse)
