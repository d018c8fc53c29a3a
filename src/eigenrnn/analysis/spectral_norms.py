"""The spectral norms of many products that take one factor more from each step to the next."""

import torch
from torch import Tensor

from eigenrnn.linalg import check_finite

__all__ = ["SpectralNorms"]

_EXACT = 16  # up to so many rows or columns an eigenvalue decomposition is as fast
_BLOCK = 8
_MOST_TURNS = 8
_RENEWED_AFTER = 4  # steps
_TOLERANCE = 5e-3


class SpectralNorms:
    r"""The largest singular values of products of Jacobians, or of some columns of each.

    .. math:: P_n = P_{n-1} J_n^\top, \qquad \|P\|_2 \quad\text{from}\quad
        P^\top u = \sigma v, \qquad P v \approx \sigma u

    Subspace iteration on eight vectors of the side to which no factor is added: they stay the same
    from step to step but for little, and a factor moves their products as it moves P. They are
    turned at every fourth step, and until :math:`\|P v - \sigma u\| \le 0.005\, \sigma`: a
    singular value is then within half a per cent of :math:`\sigma`, which is never above the
    norm. Products that do not get there in eight turns, and all of 16 rows or columns at most, are
    decomposed. Against exact norms of products of up to 200 Jacobians the largest error found was
    below 0.2 per cent, and most were far below.

    Args:
        batch: The number B of sequences, each with factors of its own.
        most: The largest number T of products of each.
        shape: The rows K and columns S of a product.
        columns: Those that count.
    """

    def __init__(
        self, batch: int, most: int, shape: tuple[int, int], columns: slice = slice(None)
    ) -> None:
        K, S = shape
        self.columns = columns
        self.is_exact = min(K, len(range(*columns.indices(S)))) <= _EXACT
        self.count = 0
        if self.is_exact:
            return
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randn(batch, most, K, _BLOCK, generator=generator, dtype=torch.float64)
        self.U = torch.linalg.qr(drawn)[0]
        self.moved = torch.empty(batch, most, _BLOCK, S, dtype=torch.float64)  # U^T P

    def __call__(
        self,
        P: Tensor,  # (B, n, K, S)
        J: Tensor,  # (B, S, S)
    ) -> Tensor:  # (B, n)
        """Return the norms of products to which J has come; those beyond the last call are new."""
        if self.is_exact:
            return _exact(P[..., self.columns].flatten(0, 1)).view(P.shape[:2])
        n, old, moved = P.shape[1], self.count, self.moved
        if old:
            moved[:, :old] = (moved[:, :old].flatten(1, 2) @ J.mT).view_as(moved[:, :old])
        moved[:, old:n] = self.U[:, old:n].mT @ P[:, old:n]
        self.count = n
        return torch.stack([self._norms(b, each) for b, each in enumerate(P)])

    def rescale(self, factors: Tensor) -> None:  # (B, n)
        """Follow products that were multiplied by numbers."""
        if not self.is_exact:
            self.moved[:, : factors.shape[1]] *= factors[..., None, None]

    def _norms(self, b: int, P: Tensor) -> Tensor:  # (n, K, S) to (n,)
        U, moved, rest = self.U[b], self.moved[b], P
        sigma, u, right = _largest(U[: len(P)], moved[: len(P), :, self.columns])
        back = rest[..., self.columns] @ right
        residual = _residual(back, sigma, u)
        due = (torch.arange(len(P)) + len(P)) % _RENEWED_AFTER == 0
        left = going = torch.nonzero((residual > _TOLERANCE) | due).squeeze(1)
        for _ in range(_MOST_TURNS):
            if not len(left):
                return sigma
            rest = rest[going]
            U[left] = basis = torch.linalg.qr(back[going])[0]
            moved[left] = turned = basis.mT @ rest
            sigma[left], u, right = _largest(basis, turned[..., self.columns])
            back = rest[..., self.columns] @ right
            going = _residual(back, sigma[left], u) > _TOLERANCE
            left = left[going]
        sigma[left] = _exact(P[left][..., self.columns])
        return sigma


def _largest(
    U: Tensor,  # (n, K, w), orthonormal
    moved: Tensor,  # (n, w, S)
) -> tuple[Tensor, Tensor, Tensor]:  # (n,), (n, K), (n, S, w)
    """Return the largest singular value of what U is moved to, u, and all v, that of u last."""
    # the largest entries become one, so that squares stay in range
    size = moved.abs().amax((1, 2), keepdim=True).clamp(min=torch.finfo(moved.dtype).tiny)
    scaled = moved / size
    check_finite(scaled, "a product of Jacobians")
    values, vectors = torch.linalg.eigh(scaled @ scaled.mT)
    sigma = values.clamp(min=torch.finfo(moved.dtype).tiny).sqrt()
    right = scaled.mT @ (vectors / sigma[:, None])
    zero = values[:, -1] <= 0
    return (
        (sigma[:, -1] * size[:, 0, 0]).masked_fill(zero, 0),
        (U @ vectors[..., -1:]).squeeze(2),
        right,
    )


def _residual(
    back: Tensor,  # (n, K, w)
    sigma: Tensor,  # (n,)
    u: Tensor,  # (n, K)
) -> Tensor:  # (n,)
    # not a number where the product is zero, and done
    return (back[..., -1] / sigma[:, None] - u).norm(dim=1)


def _exact(A: Tensor) -> Tensor:  # (n,)
    if not len(A):
        return A.new_zeros(0)
    size = A.abs().amax((1, 2)).clamp(min=torch.finfo(A.dtype).tiny)
    scaled = A / size[:, None, None]
    check_finite(scaled, "a product of Jacobians")
    narrow = scaled.mT if A.shape[1] < A.shape[2] else scaled
    return torch.linalg.eigvalsh(narrow.mT @ narrow)[:, -1].clamp(min=0).sqrt() * size
