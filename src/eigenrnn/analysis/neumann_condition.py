"""Convergence of the Neumann series that updates an inverse after a training step."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import Matrix, NumberArray, as_matrix
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.constraints import NeumannCayley
from eigenrnn.errors import check_positive_integer
from eigenrnn.linalg import check_finite, skew, tol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["NeumannCondition", "neumann_condition"]

_ORDERS = 9  # in the picture: the terms of order 0 to 8


@dataclass(frozen=True)
class NeumannCondition(Analysis):
    r"""The matrix whose powers the Neumann series sums, and its norm.

    Args:
        ratio: The matrix X of the series.
        norm: Its 2-norm.
        order: The order q of the last term in the truncated series.
    Shape:
        ratio: (N, N)
    """

    ratio: NumberArray
    norm: float
    order: int

    @property
    def converges(self) -> bool:
        """Whether convergence is guaranteed: the norm is below one."""
        return self.norm < 1

    @property
    def error_bound(self) -> float:
        """A bound on the norm of the truncated terms; infinite without guaranteed convergence."""
        return self._bound(self.order)

    @property
    def terms(self) -> NDArray[np.float64]:  # (9,)
        """The 2-norms of the terms of order 0, 1, ..., 8."""
        power = np.eye(len(self.ratio))
        norms = [1.0]
        for _ in range(_ORDERS - 1):
            power = power @ self.ratio
            norms.append(float(np.linalg.norm(power, 2)))
        return np.array(norms)

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        columns = self.table()
        series = {"norm of the term": columns["term_norm"]}
        if self.converges:
            series["bound on all later terms"] = columns["error_bound"]
        plot.lines(axes, columns["order"], series, log=bool(self.norm), marker="o")
        state = "converges" if self.converges else "need not converge"
        plot.label(axes, "order of the term", "2-norm", f"norm {self.norm:.3g}: {state}")
        return figure

    def table(self) -> Table:
        return {
            "order": np.arange(_ORDERS),
            "term_norm": self.terms,
            "error_bound": np.array([self._bound(order) for order in range(_ORDERS)]),
        }

    def headline(self) -> dict[str, float]:
        return {"norm": self.norm, "error bound": self.error_bound}

    def _bound(self, order: int) -> float:
        if not self.converges:
            return math.inf
        # the rest of a geometric series
        return self.norm ** (order + 1) / (1 - self.norm)


def neumann_condition(
    before: Matrix | NeumannCayley,  # (N, N)
    after: Matrix | NeumannCayley,  # (N, N)
    *,
    order: int | None = None,
) -> NeumannCondition:
    r"""Measure whether the Neumann series of NC-GRU converges, and its truncation error.

    .. math:: (I + A_k)^{-1} = \sum_{i \ge 0} X^i\, (I + A_{k-1})^{-1}, \qquad
        X = (I + A_{k-1})^{-1} (A_{k-1} - A_k), \qquad \|X\|_2 < 1

    The norm of all terms above order q is at most :math:`\|X\|_2^{q+1} / (1 - \|X\|_2)`. This
    also bounds the error of the inverse, because :math:`\|(I + A)^{-1}\|_2 \le 1`.

    Args:
        before: The skew-symmetric matrix before a step, or a constraint with one.
        after: The matrix after the step, or a later copy of the same constraint.
        order: The order q of the series; by default that of the constraint, or 2.
    Shape:
        before, after: :math:`(N, N)`.
    Raises:
        ValueError: If one is not square, not finite or not skew-symmetric, their sizes differ, or
            `order` is not a positive integer.
    Source:
        Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022, section 5.3 and figure 8.
        https://arxiv.org/abs/2208.06496 (departures: the inverse is exact here).
    Example:
        >>> A = np.array([[0.0, -1.0], [1.0, 0.0]])
        >>> result = neumann_condition(A, 0.5 * A)
        >>> round(result.norm, 6), result.converges
        (0.353553, True)
    """
    A = _skew(before, "before")
    B = _skew(after, "after")
    if A.shape != B.shape:
        raise ValueError(
            f"expected two matrices of one size, got {A.shape} before and {B.shape} after"
        )
    if order is None:
        order = 2
        # a constraint without an order inverts exactly
        if isinstance(before, NeumannCayley) and before.order:
            order = before.order
    check_positive_integer("order", order)
    # I + A of a real A is never singular, because the eigenvalues of A are imaginary
    ratio: Any = np.linalg.solve(np.eye(len(A)) + A, A - B)
    check_finite(ratio, "the ratio of both")
    return NeumannCondition(ratio, float(np.linalg.norm(ratio, 2)), order)


def _skew(matrix: Matrix | NeumannCayley, name: str) -> NumberArray:  # (N, N)
    """Return a skew-symmetric matrix, or that of a constraint.

    Raises:
        ValueError: If the matrix is not skew-symmetric.
    """
    if isinstance(matrix, NeumannCayley):
        matrix = skew(matrix.cayley.raw.detach(), matrix.size)
    A = as_matrix(matrix, name)
    symmetric = np.abs(A + A.T).max()
    size = np.abs(A).max()
    # the matrix may be rounded to single precision
    if symmetric > tol(torch.float32, len(A)) * size:
        raise ValueError(
            f"expected a skew-symmetric matrix {name}, got one whose symmetric part is up to "
            f"{symmetric / 2:.3g}; take (A - A.T) / 2"
        )
    return A
