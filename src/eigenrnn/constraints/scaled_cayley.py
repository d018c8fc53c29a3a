"""Orthogonal matrices by the scaled Cayley transform."""

import math
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint
from eigenrnn.errors import NotInSetError
from eigenrnn.linalg import (
    cayley,
    orthogonality_error,
    planar_skew,
    skew,
    strictly_lower,
    tol,
)

__all__ = ["ScaledCayley"]


class ScaledCayley(Constraint):
    r"""Orthogonal matrices as the scaled Cayley transform of a skew-symmetric matrix.

    .. math:: W = (I + A)^{-1} (I - A) D, \qquad A = -A^\top, \qquad
        D = \operatorname{diag}(1, \dots, 1, \underbrace{-1, \dots, -1}_{\rho})

    W is orthogonal for every A. Out of reach are only the orthogonal matrices for which
    :math:`W D` has the eigenvalue -1; the larger :math:`\rho`, the more of the spectrum of W
    starts in the left half of the unit circle.

    Args:
        size: The number N of rows and columns.
        negative: The number :math:`\rho` of entries -1 at the end of D; half of N by default.
        start: ``"unit_circle"`` places the eigenvalues of the Cayley transform at angles
            :math:`\pm t, t \sim U(0, \pi / 2)`; ``"zero"`` starts at :math:`W = D`.
    Shape:
        raw: :math:`(N (N - 1) / 2,)`, the strict lower triangle of A, row by row.
    Units:
        Eigenvalue angles in radians; all else dimensionless.
    Raises:
        ValueError: If `negative` is outside :math:`[0, N]`, or `start` is unknown.
    Source:
        Helfrich, Willmott and Ye, ICML 2018, Theorem 3.1 and section 4.2.
        https://arxiv.org/abs/1707.09520 (departures: none).
    Example:
        >>> W = ScaledCayley(8, negative=3)()
        >>> torch.allclose(W @ W.T, torch.eye(8), atol=1e-6)
        True
    """

    signs: Tensor

    def __init__(
        self,
        size: int,
        *,
        negative: int | None = None,
        start: Literal["unit_circle", "zero"] = "unit_circle",
    ) -> None:
        super().__init__(size)
        self.negative = size // 2 if negative is None else negative
        if not 0 <= self.negative <= size:
            raise ValueError(f"expected 0 <= negative <= {size}, got {negative}")
        if start not in ("unit_circle", "zero"):
            raise ValueError(f"expected start to be 'unit_circle' or 'zero', got {start!r}")
        self.start = start
        self.raw = Parameter(torch.empty(size * (size - 1) // 2))
        signs = torch.ones(size)
        signs[size - self.negative :] = -1
        self.register_buffer("signs", signs)
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        if self.start == "zero":
            self.raw.zero_()
            return
        angles = self.raw.new_empty(self.size // 2).uniform_(0, math.pi / 2, generator=generator)
        # tan(t / 2) places the Cayley eigenvalues at exp(+-it)
        self.raw.copy_(planar_skew(torch.tan(angles / 2), self.size))

    def residual(self, W: Tensor) -> float:
        return orthogonality_error(W)

    def _matrix(self) -> Tensor:
        return cayley(skew(self.raw, self.size)) * self.signs

    def _assign(self, W: Tensor) -> None:
        I = torch.eye(self.size, dtype=torch.float64, device=W.device)
        Z = W.double() * self.signs
        A, _ = torch.linalg.solve_ex(I + Z, I - Z)  # the Cayley transform is its own inverse
        raw = strictly_lower((A - A.T) / 2).to(self.raw.dtype)
        # near the matrices that are out of reach A explodes, and rounding it loses W
        W_again = cayley(skew(raw, self.size)) * self.signs
        deviation = float(torch.linalg.matrix_norm(W_again - W))
        tolerance = tol(raw.dtype, self.size)
        if not deviation <= tolerance:  # NaN where I + Z is singular
            hint = (
                f"W D has an eigenvalue near -1 for negative={self.negative}: try another number"
            )
            raise NotInSetError(type(self).__name__, deviation, tolerance, hint)
        self.raw.copy_(raw)

    def _hint(self) -> str:
        return "make it orthogonal first, for instance with torch.linalg.qr"

    def extra_repr(self) -> str:
        return f"{self.size}, negative={self.negative}"
