"""Whether a Neumann series gives the inverse after a step of training."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.matrices import Matrix, NumberArray, given_matrix
from eigenrnn.constraints import NeumannCayley
from eigenrnn.errors import check_positive_integer
from eigenrnn.linalg import check_finite, skew, tol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["NeumannCondition", "neumann_condition"]

_ORDERS = 9


@dataclass(frozen=True)
class NeumannCondition(Analysis):
    r"""What the series of an inverse has to sum.

    Args:
        ratio: The matrix X of which the series has the powers.
        norm: Its 2-norm.
        order: The order q of the last term that is summed.
    Shape:
        ratio: (N, N)
    """

    ratio: NumberArray
    norm: float
    order: int

    @property
    def converges(self) -> bool:
        """Whether the series is sure to converge: the norm is below one."""
        return self.norm < 1

    @property
    def error_bound(self) -> float:
        """A bound of what the terms that are left out add up to; infinite without one."""
        return self._bound(self.order)

    @property
    def terms(self) -> NDArray[np.float64]:  # (9,)
        """The 2-norms of the terms of order 0, 1, ..., 8."""
        power, norms = np.eye(len(self.ratio)), [1.0]
        for _ in range(_ORDERS - 1):
            power = power @ self.ratio
            norms.append(float(np.linalg.norm(power, 2)))
        return np.array(norms)

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        columns = self.table()
        series = {"norm of the term": columns["term_norm"]}
        if self.converges:
            series["bound of all later terms"] = columns["error_bound"]
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
        return self.norm ** (order + 1) / (1 - self.norm) if self.converges else math.inf


def neumann_condition(
    before: Matrix | NeumannCayley,  # (N, N)
    after: Matrix | NeumannCayley,  # (N, N)
    *,
    order: int | None = None,
) -> NeumannCondition:
    r"""Measure what decides whether the series of NC-GRU converges.

    .. math:: (I + A_k)^{-1} = \sum_{i \ge 0} X^i\, (I + A_{k-1})^{-1}, \qquad
        X = (I + A_{k-1})^{-1} (A_{k-1} - A_k), \qquad \|X\|_2 < 1

    The terms above the order q add up to at most :math:`\|X\|_2^{q+1} / (1 - \|X\|_2)`. That also
    bounds the error of the inverse, as :math:`\|(I + A)^{-1}\|_2 \le 1`.

    Args:
        before: The skew-symmetric matrix of before a step, or a constraint with one.
        after: That of after it; of the same constraint a copy made later.
        order: The order q of the series; by default that of a constraint, or 2.
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
        >>> found = neumann_condition(A, 0.5 * A)
        >>> round(found.norm, 6), found.converges
        (0.353553, True)
    """
    A, B = _skew(before, "before"), _skew(after, "after")
    if A.shape != B.shape:
        raise ValueError(
            f"expected two matrices of one size, got {A.shape} before and {B.shape} after"
        )
    if order is None:
        order = before.order or 2 if isinstance(before, NeumannCayley) else 2
    check_positive_integer("order", order)
    ratio: Any = np.linalg.solve(np.eye(len(A)) + A, A - B)
    check_finite(ratio, "the ratio of both")
    return NeumannCondition(ratio, float(np.linalg.norm(ratio, 2)), order)


def _skew(given: Matrix | NeumannCayley, name: str) -> NumberArray:  # (N, N)
    """Return a skew-symmetric matrix, that of a constraint too.

    Raises:
        ValueError: If it is none.
    """
    if isinstance(given, NeumannCayley):
        given = skew(given.cayley.raw.detach(), given.size)
    A = given_matrix(given, name)
    symmetric, size = np.abs(A + A.T).max(), np.abs(A).max()
    # it may come from single precision
    if symmetric > tol(torch.float32, len(A)) * size:
        raise ValueError(
            f"expected a skew-symmetric matrix {name}, got one whose symmetric part is up to "
            f"{symmetric / 2:.3g}; take (A - A.T) / 2"
        )
    return A
