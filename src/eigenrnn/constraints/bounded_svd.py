"""Matrices with singular values near one, by their singular value decomposition."""

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint
from eigenrnn.constraints.householder import checked_reflections
from eigenrnn.init import uniform_
from eigenrnn.linalg import (
    check_finite,
    normalise_,
    reflection_count,
    reflection_product,
    upper_rows,
)

__all__ = ["BoundedSVD"]


class BoundedSVD(Constraint):
    r"""Matrices whose singular values lie within a margin of one.

    .. math:: W = U \Sigma V^\top, \qquad U = H_1(u_1) \cdots H_m(u_m), \quad
        V = H_1(v_1) \cdots H_m(v_m), \qquad \Sigma = I + 2 r (\sigma(p) - \tfrac12)

    U and V are products of m Householder reflections. The k-th reflection acts on the coordinates
    from k on, and :math:`\sigma` is the logistic function. The singular values lie in
    :math:`(1 - r, 1 + r)` for all u, v and p; with m = N every such W of positive determinant can
    be reached. `assign` raises an error.

    Args:
        size: The number N of rows and columns.
        reflections: The number m of reflections on each side; N by default.
        margin: The largest distance r of a singular value from one.
    Shape:
        left: :math:`(m N - m (m - 1) / 2,)`, the free entries of one :math:`u` after the other;
        one number fewer if m = N, without the last reflection, of one coordinate.
        right: as left, for v.
        stretch: :math:`(N,)`, p.
    Raises:
        ValueError: If `reflections` is not a positive integer or exceeds `size`, or `margin` is
            not in (0, 1].
    Source:
        Zhang, Lei and Dhillon, ICML 2018. https://arxiv.org/abs/1803.09327. The paper
        multiplies row vectors by :math:`V \Sigma U^\top`, which is our :math:`W^\top`. The
        reflection vectors are the rows of upper triangular matrices in both (departures: with
        m = N the last reflections of U and V, which are signs, are left out).
    Example:
        >>> sigma = torch.linalg.svdvals(BoundedSVD(8, reflections=2, margin=0.1)())
        >>> bool((sigma - 1).abs().max() < 0.1)
        True
    """

    needs_advance = True

    def __init__(self, size: int, *, reflections: int | None = None, margin: float = 0.01) -> None:
        super().__init__(size)
        self.reflections = checked_reflections(reflections, size)
        if not 0 < margin <= 1:
            raise ValueError(
                f"expected 0 < margin <= 1, got {margin} (use Householder for "
                "singular values of one)"
            )
        self.margin = margin
        self.vectors = min(self.reflections, size - 1)  # the N-th reflection would be a sign
        self.left = Parameter(torch.empty(reflection_count(self.vectors, size)))
        self.right = Parameter(torch.empty_like(self.left))
        self.stretch = Parameter(torch.empty(size))
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        glorot = (6 / (self.reflections + self.size)) ** 0.5  # of all m x N entries
        for raw in (self.left, self.right):
            uniform_(raw, glorot, generator=generator)
        self.stretch.zero_()

    @torch.no_grad()
    def advance(self) -> None:
        for raw in (self.left, self.right):  # W does not change, and no vector approaches zero
            normalise_(raw, self.vectors, self.size)

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        check_finite(W)
        distance = (torch.linalg.svdvals(W.detach().double()) - 1).abs()
        return float((distance - self.margin).relu().norm())

    def _matrix(self) -> Tensor:
        U = reflection_product(upper_rows(self.left, self.vectors, self.size))
        V = reflection_product(upper_rows(self.right, self.vectors, self.size))
        sigma = 1 + 2 * self.margin * (torch.sigmoid(self.stretch) - 0.5)
        return U * sigma @ V.T

    def extra_repr(self) -> str:
        return f"{self.size}, reflections={self.reflections}, margin={self.margin}"
