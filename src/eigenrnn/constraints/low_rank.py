"""Matrices of low rank, alone or added to a fixed matrix."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint
from eigenrnn.errors import check_positive, check_positive_integer
from eigenrnn.linalg import check_finite

__all__ = ["LowRank"]


class LowRank(Constraint):
    r"""Matrices of a rank of at most R, plus a fixed matrix P.

    .. math:: W = \frac1N m n^\top + P, \qquad m, n \in \mathbb R^{N \times R}

    Without P, what the units tell each other, W h, stays in the R directions of m, so R numbers
    describe the dynamics (`eigenrnn.analysis.reduced_model`). The states of a `LeakyRNN` with
    ``state="current"`` stay in those of m, of the input and of the bias. The nonzero eigenvalues
    of :math:`m n^\top / N` are those of the overlap :math:`n^\top m / N`. `assign` takes the
    leading singular vectors of :math:`N (W - P)`, each with the root of its singular value. The
    residual is relative to the norm of :math:`W - P` where that exceeds one.

    Args:
        size: The number N of rows and columns.
        rank: The number R of columns of m and n.
        plus: The fixed matrix P, or a function of N that returns it. It is saved but not trained;
            zero by default.
        std: The standard deviation of the entries of m and n in the initialisation.
    Shape:
        m, n: :math:`(N, R)`; plus: :math:`(N, N)`.
    Raises:
        ValueError: If a size is not a positive integer, the rank exceeds N, `std` is not positive,
            or P has another shape or is complex.
        TypeError: If `std` is not a number.
    Source:
        Mastrogiuseppe and Ostojic, Neuron 99, 2018, equations 2 and 11.
        https://doi.org/10.1016/j.neuron.2018.07.003 (departures: m and n are trained).
    Example:
        >>> constraint = LowRank(64, rank=2)
        >>> int(torch.linalg.matrix_rank(constraint()))
        2
        >>> constraint.overlap.shape
        torch.Size([2, 2])
    """

    plus: Tensor | None

    def __init__(
        self,
        size: int,
        *,
        rank: int = 1,
        plus: Tensor | Callable[[int], Tensor] | None = None,
        std: float = 1.0,
    ) -> None:
        super().__init__(size)
        check_positive_integer("rank", rank)
        if rank > size:
            raise ValueError(f"expected rank <= {size}, the size, got {rank}")
        check_positive("std", std)
        self.rank = int(rank)
        self.std = float(std)
        self.m = Parameter(torch.empty(size, rank))
        self.n = Parameter(torch.empty(size, rank))
        with torch.device("cpu"):  # on the meta device the fixed matrix would have no values
            fixed = plus(self.size) if callable(plus) else plus
        if fixed is not None and (fixed.shape != (size, size) or fixed.is_complex()):
            raise ValueError(f"expected a real plus of shape {(size, size)}, got {fixed}")
        self.register_buffer("plus", None)
        if fixed is not None:
            self.register_constant("plus", fixed, self.m, persistent=True)
        self.reset()

    @property
    def overlap(self) -> Tensor:  # (R, R)
        r"""The overlap :math:`n^\top m / N` of the two sets of vectors."""
        return self.n.T @ self.m / self.size

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        self.m.normal_(0, self.std, generator=generator)
        self.n.normal_(0, self.std, generator=generator)

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        check_finite(W)
        # the nearest matrix of rank R keeps the R largest singular values (Eckart and Young)
        sigma = torch.linalg.svdvals(self._without_plus(W.detach().to(self.device).double()))
        scale = sigma[0].clamp(min=1)
        return float(torch.linalg.vector_norm(sigma[self.rank :]) / scale)

    def _matrix(self) -> Tensor:
        W = self.m @ self.n.T / self.size
        if self.plus is None:
            return W
        return W + self.plus

    def _assign(self, W: Tensor) -> None:
        left, sigma, right = torch.linalg.svd(self._without_plus(W.double()) * self.size)
        roots = sigma[: self.rank].sqrt()
        self.m.copy_(left[:, : self.rank] * roots)
        self.n.copy_(right[: self.rank].T * roots)

    def _without_plus(self, W: Tensor) -> Tensor:  # (N, N)
        if self.plus is None:
            return W
        return W - self.plus.to(W)

    def extra_repr(self) -> str:
        options = f"{self.size}, rank={self.rank}"
        if self.plus is not None:
            options += f", plus={self.size} x {self.size}"
        return options
