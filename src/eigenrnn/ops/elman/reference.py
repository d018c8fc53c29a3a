"""The reference implementation of the Elman recurrence, in plain differentiable operations."""

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.arguments import map_inputs
from eigenrnn.ops.dispatch import COMPLEX, REAL, Backend
from eigenrnn.ops.norm_zoneout import Norm, Zoneout, apply_layer_norm, apply_zoneout
from eigenrnn.ops.time_steps import states_and_last

__all__ = ["BACKEND", "elman_reference"]


def elman_reference(  # noqa: PLR0913, the signature of all backends
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

    LayerNorm is applied to the argument of f, and zoneout to its value. Autograd records
    T steps of small operations, so the backward pass is slow and needs much memory.
    """
    f = NONLINEARITIES[nonlinearity].forward
    x = map_inputs(x, U, c)
    T, B, _ = x.shape
    sizes = batch_sizes or [B] * T
    h = h0
    states: list[Tensor] = []
    for t in reversed(range(T)) if reverse else range(T):
        n = sizes[t]
        h_new = f(apply_layer_norm(x[t, :n] + h[:n] @ W.T, layer_norm), bias)
        h_new = apply_zoneout(h_new, h[:n], zoneout, t)
        # a finished sequence keeps its state; one that has not begun keeps h0
        h = torch.cat([h_new, h[n:]]) if n < B else h_new
        states.append(torch.cat([h_new, torch.zeros_like(h[n:])]) if n < B else h_new)
    return states_and_last(torch.stack(states[::-1] if reverse else states), batch_sizes, reverse)


BACKEND = Backend(
    name="reference",
    run=elman_reference,
    description="naive loop, differentiable any number of times",
    dtypes=REAL | COMPLEX,
    unavailable=lambda: None,
    unsupported=lambda _: None,
    features=frozenset({"layer_norm", "zoneout"}),
)
