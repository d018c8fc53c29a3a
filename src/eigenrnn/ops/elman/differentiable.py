"""The backward pass of the Elman recurrence in operations that autograd and `vmap` follow."""

from collections.abc import Sequence

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.paired import as_complex, as_pairs
from eigenrnn.ops.steps import first_steps, weight_gradient

__all__ = ["bias_gradient", "deltas", "gradients", "totals_of"]


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
    moduli: Tensor,  # (T, B, N) or, of pairs, (T, B, N / 2); (0, ...) if unused
    g_moduli: Tensor | None,  # likewise
) -> tuple[Tensor, Tensor]:  # (T, B, N), (T, B, N)
    """Return the gradients of all pre-activations and those of all states.

    The moduli of complex modReLU lead back to the inputs too.
    """
    T, B, _ = h.shape
    sizes = batch_sizes or [B] * T
    found: list[Tensor] = []
    totals: list[Tensor] = []
    after = torch.zeros_like(h0)
    running = torch.zeros(B, 1, dtype=torch.bool, device=h.device)
    for t in range(T) if reverse else reversed(range(T)):
        went_on, running = running, (torch.arange(B, device=h.device) < sizes[t]).unsqueeze(1)
        above = after @ W.conj()
        if g_last is not None:
            above = above + torch.where(running & ~went_on, g_last, 0)
        if g is not None:
            above = above + g[t]
        modulus = moduli[t] if len(moduli) else None
        pulled = _pull(nonlinearity, above, h[t], bias, modulus)
        if g_moduli is not None:
            pulled = pulled + _along(nonlinearity, g_moduli[t], h[t])
        after = torch.where(running, pulled, 0)
        found.append(after)
        totals.append(torch.where(running, above, 0))
    order = slice(None) if reverse else slice(None, None, -1)
    return torch.stack(found[order]), torch.stack(totals[order])


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
    moduli: Tensor,  # (T, B, N / 2) or (0, B, N / 2)
    g_moduli: Tensor | None,  # likewise
    wanted: Sequence[bool],
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> list[Tensor]:
    """Return the wanted ones of the gradients of x, W, h0, bias, U, c, V and d."""
    if g_y is not None and V is not None:
        g = g_y @ V if g is None else g + g_y @ V
    options = nonlinearity, batch_sizes, reverse
    delta, total = deltas(g, g_last, h, W, h0, bias, *options, moduli, g_moduli)
    first = first_steps(delta, batch_sizes, reverse)
    made = (
        lambda: delta if U is None else delta @ U,
        lambda: weight_gradient(delta, first, h, h0, reverse),
        lambda: first @ W.conj(),
        lambda: (total * _phases(nonlinearity, h)).sum((0, 1)),
        lambda: _outer(delta, _given(x)),
        lambda: delta.sum((0, 1)),
        lambda: _outer(_given(g_y), h),
        lambda: _given(g_y).sum((0, 1)),
    )
    return [make() for make, wants in zip(made, wanted, strict=True) if wants]


def totals_of(
    g: Tensor,  # (T, B, N)
    delta: Tensor,  # (T, B, N)
    W: Tensor,  # (N, N)
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Return the gradients of all states from those of pre-activations, zero in padding."""
    later = delta @ W.conj()
    zero = torch.zeros_like(later[:1])
    return g + torch.cat([zero, later[:-1]] if reverse else [later[1:], zero])


def bias_gradient(
    total: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    nonlinearity: str,
) -> Tensor:  # (N,)
    """Sum the gradients of states along the phases, in parts that fit into the cache.

    The gradients of pre-activations have the same parts along the phases, but complex ones may be
    so large across them that these parts are lost to rounding.
    """
    steps = max(1, 2**17 // max(1, h[0].numel()))
    stretches = zip(total.split(steps), h.split(steps), strict=True)
    parts = ((d * _phases(nonlinearity, s).conj()).sum((0, 1)).real for d, s in stretches)
    return sum(parts)  # type: ignore[return-value]


def _pull(
    nonlinearity: str, g: Tensor, h: Tensor, bias: Tensor | None, modulus: Tensor | None
) -> Tensor:
    if nonlinearity != "modrelu_paired":
        return NONLINEARITIES[nonlinearity].pull(g, h, bias, modulus)
    pull = NONLINEARITIES["modrelu"].pull
    return as_pairs(pull(as_complex(g), as_complex(h), bias, modulus))


def _along(
    nonlinearity: str,
    g_modulus: Tensor,  # (B, N) or, of pairs, (B, N / 2)
    h: Tensor,  # (B, N)
) -> Tensor:  # (B, N)
    """Return the gradient of pre-activations from that of their moduli."""
    # where the unit is off, nothing reads its modulus
    if nonlinearity != "modrelu_paired":
        return g_modulus * h.sgn()
    return as_pairs(g_modulus * as_complex(h).sgn())


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
    rows = a.shape[0] * a.shape[1]
    return a.reshape(rows, a.shape[-1]).T @ b.reshape(rows, b.shape[-1])


def _given(tensor: Tensor | None) -> Tensor:
    assert tensor is not None  # noqa: S101, there is x where there is U, g_y where there is V
    return tensor
