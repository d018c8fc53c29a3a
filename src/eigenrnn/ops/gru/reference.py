"""The definition of the gated recurrence: plain torch operations, differentiable any way."""

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.backend import Backend

__all__ = ["BACKEND", "gru_reference"]


def gru_reference(  # noqa: PLR0913, every backend's
    x: Tensor,  # (T, B, 3 N)
    W: Tensor,  # (3 N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    recurrent_bias: Tensor | None,  # (N,)
    nonlinearity: str,
    reset_after: bool,
    update_keeps: bool,
    batch_sizes: list[int] | None,
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Evaluate the four lines of the recurrence one step at a time.

    Memory and time of its backward pass are those of a chain of T small operations.
    """
    f = NONLINEARITIES[nonlinearity].forward
    W_r, W_u, W_c = W.chunk(3)
    T, B, _ = x.shape
    sizes = batch_sizes or [B] * T
    h = h0
    states: list[Tensor] = []
    for t in reversed(range(T)) if reverse else range(T):
        n = sizes[t]
        x_r, x_u, x_c = x[t, :n].chunk(3, dim=1)
        r = torch.sigmoid(x_r + h[:n] @ W_r.T)
        u = torch.sigmoid(x_u + h[:n] @ W_u.T)
        if reset_after:
            moved = h[:n] @ W_c.T
            q = r * (moved if recurrent_bias is None else moved + recurrent_bias)
        else:
            q = (r * h[:n]) @ W_c.T
        c = f(x_c + q, bias)
        moved = u * h[:n] + (1 - u) * c if update_keeps else (1 - u) * h[:n] + u * c
        # a sequence that has ended keeps its state, one that has not begun keeps h0
        h = torch.cat([moved, h[n:]]) if n < B else moved
        states.append(torch.cat([moved, torch.zeros_like(h[n:])]) if n < B else moved)
    return torch.stack(states[::-1] if reverse else states)


BACKEND = Backend(
    name="reference",
    run=gru_reference,
    about="naive loop, differentiable any number of times",
    missing=lambda: None,
    refuses=lambda _: None,
)
