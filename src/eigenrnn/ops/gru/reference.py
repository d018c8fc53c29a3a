"""The definition of the gated recurrence: plain torch operations, differentiable any way."""

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.backend import REAL, Backend
from eigenrnn.ops.inputs import mapped
from eigenrnn.ops.norm_zoneout import Norm, Zoneout, normalised, zoned_out
from eigenrnn.ops.steps import with_last

__all__ = ["BACKEND", "gru_reference"]


def gru_reference(  # noqa: PLR0913, every backend's
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
    """Evaluate the four lines of the recurrence one step at a time.

    LayerNorm is applied, gate by gate, to the arguments of the three nonlinearities, so that it
    comes after the reset; zoneout to the new state.
    Memory and time of its backward pass are those of a chain of T small operations.
    """
    f = NONLINEARITIES[nonlinearity].forward
    W_r, W_u, W_c = W.chunk(3)
    norm_r, norm_u, norm_c = _norms(layer_norm)
    T, B, _ = x.shape
    sizes = batch_sizes or [B] * T
    xs = mapped(x, U, c).unbind()  # indexing would pad a gradient of the size of x at every step
    h = h0
    states: list[Tensor] = []
    for t in reversed(range(T)) if reverse else range(T):
        n = sizes[t]
        x_r, x_u, x_c = xs[t][:n].chunk(3, dim=1)
        r = torch.sigmoid(normalised(x_r + h[:n] @ W_r.T, norm_r))
        u = torch.sigmoid(normalised(x_u + h[:n] @ W_u.T, norm_u))
        if reset_after:
            moved = h[:n] @ W_c.T
            q = r * (moved if recurrent_bias is None else moved + recurrent_bias)
        else:
            q = (r * h[:n]) @ W_c.T
        new = f(normalised(x_c + q, norm_c), bias)
        moved = u * h[:n] + (1 - u) * new if update_keeps else (1 - u) * h[:n] + u * new
        moved = zoned_out(moved, h[:n], zoneout, t)
        # a sequence that has ended keeps its state, one that has not begun keeps h0
        h = torch.cat([moved, h[n:]]) if n < B else moved
        states.append(torch.cat([moved, torch.zeros_like(h[n:])]) if n < B else moved)
    return with_last(torch.stack(states[::-1] if reverse else states), batch_sizes, reverse)


def _norms(layer_norm: Norm | None) -> list[Norm | None]:
    """Return the gain and shift of each gate."""
    if layer_norm is None:
        return [None] * 3
    gain, shift = layer_norm
    return list(zip(gain.chunk(3), shift.chunk(3), strict=True))


BACKEND = Backend(
    name="reference",
    run=gru_reference,
    about="naive loop, differentiable any number of times",
    dtypes=REAL,
    missing=lambda: None,
    refuses=lambda _: None,
    serves=frozenset({"layer_norm", "zoneout"}),
)
