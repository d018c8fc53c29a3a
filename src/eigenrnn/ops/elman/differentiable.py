"""The backward pass of the Elman recurrence in operations that autograd and `vmap` follow."""

from collections.abc import Sequence

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.paired import as_complex, as_pairs
from eigenrnn.ops.steps import first_steps, weight_gradient

__all__ = ["bias_gradient", "deltas", "gradients"]


def deltas(  # noqa: PLR0913, every backend's
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    h: Tensor,  # (T, B, N); it leads back to the inputs
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Return the gradients of all pre-activations."""
    T, B, _ = h.shape
    sizes = batch_sizes or [B] * T
    found: list[Tensor] = []
    after = torch.zeros_like(h0)
    running = torch.zeros(B, 1, dtype=torch.bool, device=h.device)
    for t in range(T) if reverse else reversed(range(T)):
        went_on, running = running, (torch.arange(B, device=h.device) < sizes[t]).unsqueeze(1)
        above = after @ W.conj()
        if g_last is not None:
            above = above + torch.where(running & ~went_on, g_last, 0)
        if g is not None:
            above = above + g[t]
        after = torch.where(running, _pull(nonlinearity, above, h[t], bias), 0)
        found.append(after)
    return torch.stack(found if reverse else found[::-1])


def gradients(  # noqa: PLR0913, every backend's
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    g_y: Tensor | None,  # (T, B, K), with V
    x: Tensor | None,  # (T, B, M), with U
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (N, M)
    V: Tensor | None,  # (K, N)
    h: Tensor,  # (T, B, N)
    wanted: Sequence[bool],
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> list[Tensor]:
    """Return the wanted ones of the gradients of x, W, h0, bias, U, c, V and d."""
    if g_y is not None and V is not None:
        g = g_y @ V if g is None else g + g_y @ V
    delta = deltas(g, g_last, h, W, h0, bias, nonlinearity, batch_sizes, reverse)
    first = first_steps(delta, batch_sizes, reverse)
    made = (
        lambda: delta if U is None else delta @ U,
        lambda: weight_gradient(delta, first, h, h0, reverse),
        lambda: first @ W.conj(),
        lambda: (delta * _phases(nonlinearity, h)).sum((0, 1)),
        lambda: _outer(delta, _given(x)),
        lambda: delta.sum((0, 1)),
        lambda: _outer(_given(g_y), h),
        lambda: _given(g_y).sum((0, 1)),
    )
    return [make() for make, wants in zip(made, wanted, strict=True) if wants]


def bias_gradient(
    delta: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    nonlinearity: str,
) -> Tensor:  # (N,)
    """Sum the gradients along the phases, a stretch of time that the cache holds by another."""
    steps = max(1, 2**17 // max(1, h[0].numel()))
    stretches = zip(delta.split(steps), h.split(steps), strict=True)
    parts = ((d * _phases(nonlinearity, s).conj()).sum((0, 1)).real for d, s in stretches)
    return sum(parts)  # type: ignore[return-value]


def _pull(nonlinearity: str, g: Tensor, h: Tensor, bias: Tensor | None) -> Tensor:
    if nonlinearity != "modrelu_paired":
        return NONLINEARITIES[nonlinearity].pull(g, h, bias)
    one = None if bias is None else bias.unflatten(0, (-1, 2))[:, 0]
    return as_pairs(NONLINEARITIES["modrelu"].pull(as_complex(g), as_complex(h), one))


def _phases(nonlinearity: str, h: Tensor) -> Tensor:  # (T, B, N)
    """Return the signs or phases of the states, along which the bias of modReLU moves them."""
    if nonlinearity != "modrelu_paired":
        return h.sgn()
    return as_pairs(as_complex(h).sgn())


def _outer(
    a: Tensor,  # (T, B, K)
    b: Tensor,  # (T, B, M)
) -> Tensor:  # (K, M)
    # older batching rules know no `flatten`
    return a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])


def _given(tensor: Tensor | None) -> Tensor:
    assert tensor is not None  # noqa: S101, there is x where there is U, g_y where there is V
    return tensor
