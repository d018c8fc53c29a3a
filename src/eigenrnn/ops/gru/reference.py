"""The reference implementation of the gated recurrence, in plain differentiable operations."""

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.arguments import map_inputs
from eigenrnn.ops.dispatch import REAL, Backend
from eigenrnn.ops.norm_zoneout import Norm, Zoneout, apply_layer_norm, apply_zoneout
from eigenrnn.ops.time_steps import states_and_last

__all__ = ["BACKEND", "gru_reference"]


def gru_reference(  # noqa: PLR0913, the signature of all backends
    x: Tensor,  # (T, B, 3 N) or (T, B, M)
    W: Tensor,  # (3 N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    recurrent_bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (3 N, M)
    c: Tensor | None,  # (3 N,)
    nonlinearity: str,
    reset_after: bool,
    update_keeps: bool,
    batch_sizes: list[int] | None,
    reverse: bool,
    *,
    layer_norm: Norm | None = None,  # (3 N,), (3 N,)
    zoneout: Zoneout | None = None,  # (T, B, N)
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Evaluate the four equations of the recurrence one step at a time.

    LayerNorm is applied to the argument of each nonlinearity, so it follows the reset. Zoneout is
    applied to the new state. Autograd records T steps of small operations, so the backward pass is
    slow and needs much memory.
    """
    f = NONLINEARITIES[nonlinearity].forward
    W_r, W_u, W_c = W.chunk(3)
    norm_r, norm_u, norm_c = _norms(layer_norm)
    T, B, _ = x.shape
    sizes = batch_sizes or [B] * T
    # indexing would allocate a gradient of the size of x at every step
    xs = map_inputs(x, U, c).unbind()
    h = h0
    states: list[Tensor] = []
    for t in reversed(range(T)) if reverse else range(T):
        n = sizes[t]
        x_r, x_u, x_c = xs[t][:n].chunk(3, dim=1)
        r = torch.sigmoid(apply_layer_norm(x_r + h[:n] @ W_r.T, norm_r))
        u = torch.sigmoid(apply_layer_norm(x_u + h[:n] @ W_u.T, norm_u))
        if reset_after:
            recurrent = h[:n] @ W_c.T
            q = r * (recurrent if recurrent_bias is None else recurrent + recurrent_bias)
        else:
            q = (r * h[:n]) @ W_c.T
        c_t = f(apply_layer_norm(x_c + q, norm_c), bias)
        h_new = u * h[:n] + (1 - u) * c_t if update_keeps else (1 - u) * h[:n] + u * c_t
        h_new = apply_zoneout(h_new, h[:n], zoneout, t)
        # a finished sequence keeps its state; one that has not begun keeps h0
        h = torch.cat([h_new, h[n:]]) if n < B else h_new
        states.append(torch.cat([h_new, torch.zeros_like(h[n:])]) if n < B else h_new)
    return states_and_last(torch.stack(states[::-1] if reverse else states), batch_sizes, reverse)


def _norms(layer_norm: Norm | None) -> list[Norm | None]:
    """Return the gain and shift of each gate."""
    if layer_norm is None:
        return [None] * 3
    gain, shift = layer_norm
    return list(zip(gain.chunk(3), shift.chunk(3), strict=True))


BACKEND = Backend(
    name="reference",
    run=gru_reference,
    description="naive loop, differentiable any number of times",
    dtypes=REAL,
    unavailable=lambda: None,
    unsupported=lambda _: None,
    features=frozenset({"layer_norm", "zoneout"}),
)
