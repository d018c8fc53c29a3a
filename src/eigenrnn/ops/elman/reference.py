"""The definition of the Elman recurrence: plain torch operations, differentiable any way."""

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.backend import COMPLEX, REAL, Backend
from eigenrnn.ops.inputs import mapped
from eigenrnn.ops.norm_zoneout import Norm, Zoneout, normalised, zoned_out
from eigenrnn.ops.steps import with_last

__all__ = ["BACKEND", "elman_reference"]


def elman_reference(  # noqa: PLR0913, every backend's
    x: Tensor,  # (T, B, N) or (T, B, M)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (N, M)
    c: Tensor | None,  # (N,)
    nonlinearity: str,
    batch_sizes: list[int] | None,
    reverse: bool,
    *,
    layer_norm: Norm | None = None,  # (N,), (N,)
    zoneout: Zoneout | None = None,  # (T, B, N)
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    r"""Evaluate :math:`h_t = f(x_t + h_{t-1} W^\top)` one step at a time.

    LayerNorm is applied to the argument of f, and zoneout to what f gives.
    Memory and time of its backward pass are those of a chain of T small operations.
    """
    f = NONLINEARITIES[nonlinearity].forward
    x = mapped(x, U, c)
    T, B, _ = x.shape
    sizes = batch_sizes or [B] * T
    h = h0
    states: list[Tensor] = []
    for t in reversed(range(T)) if reverse else range(T):
        n = sizes[t]
        moved = f(normalised(x[t, :n] + h[:n] @ W.T, layer_norm), bias)
        moved = zoned_out(moved, h[:n], zoneout, t)
        # a sequence that has ended keeps its state, one that has not begun keeps h0
        h = torch.cat([moved, h[n:]]) if n < B else moved
        states.append(torch.cat([moved, torch.zeros_like(h[n:])]) if n < B else moved)
    return with_last(torch.stack(states[::-1] if reverse else states), batch_sizes, reverse)


BACKEND = Backend(
    name="reference",
    run=elman_reference,
    about="naive loop, differentiable any number of times",
    dtypes=REAL | COMPLEX,
    missing=lambda: None,
    refuses=lambda _: None,
    serves=frozenset({"layer_norm", "zoneout"}),
)
