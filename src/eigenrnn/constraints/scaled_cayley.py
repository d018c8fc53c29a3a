"""Orthogonal and unitary matrices by the scaled Cayley transform."""

import math
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint, real_type
from eigenrnn.errors import NotInSetError
from eigenrnn.linalg import (
    cayley,
    check_finite,
    double_precision,
    lower,
    orthogonality_error,
    planar_skew,
    scaled_cayley,
    skew,
    strictly_lower,
    symmetric,
    tol,
)

__all__ = ["ScaledCayley"]


class ScaledCayley(Constraint):
    r"""Orthogonal or unitary matrices as the scaled Cayley transform of a skew matrix.

    .. math:: W = (I + A)^{-1} (I - A) D, \qquad A = -A^*, \qquad
        D = \operatorname{diag}(1, \dots, 1, \underbrace{-1, \dots, -1}_{\rho})
        \quad \text{or} \quad \operatorname{diag}(e^{i \theta_1}, \dots, e^{i \theta_N})

    W is orthogonal for every real A (scoRNN), where D is fixed, and unitary for every complex A
    (scuRNN), where the phases :math:`\theta` are trained. A fixed D reaches all matrices except
    those for which :math:`W D^*` has the eigenvalue -1; trained phases reach every unitary matrix.
    The larger :math:`\rho`, the more eigenvalues of a real W are initialised in the left half of
    the unit circle.

    Args:
        size: The number N of rows and columns.
        negative: The number :math:`\rho` of entries -1 at the end of a real D; half of N by
            default.
        init: ``"unit_circle"`` places the eigenvalues of the Cayley transform at angles
            :math:`\pm t, t \sim U(0, \pi / 2)`; ``"zero"`` gives :math:`W = D`. Both draw the
            phases from :math:`U(0, 2 \pi)`.
        dtype: The type of W, such as `torch.complex64`; torch's default real type by default.
    Shape:
        raw: :math:`(N (N - 1) / 2,)`, the strict lower triangle of the real part of A, row by row.
        imaginary: :math:`(N (N + 1) / 2,)`, the lower triangle of the symmetric imaginary part of
        A, with the diagonal; only if W is complex.
        theta: :math:`(N,)`; only if W is complex.
    Units:
        Eigenvalue angles and phases in radians; all else dimensionless.
    Raises:
        ValueError: If `negative` is outside :math:`[0, N]` or set for a complex D, `init` is
            unknown, or `dtype` is not a real or complex type of float32 precision or better.
    Source:
        Helfrich, Willmott and Ye, ICML 2018, Theorem 3.1 and section 4.2.
        https://arxiv.org/abs/1707.09520; Maduranga, Helfrich and Ye, AAAI 2019.
        https://arxiv.org/abs/1811.04142 (departures: none from the papers; the complex code for
        the adding problem draws t from :math:`U(0, 2 \pi)`, where A is unbounded).
    Example:
        >>> W = ScaledCayley(8, negative=3)()
        >>> torch.allclose(W @ W.T, torch.eye(8), atol=1e-6)
        True
        >>> ScaledCayley(8, dtype=torch.complex64)().dtype
        torch.complex64
    """

    imaginary: Parameter
    theta: Parameter
    signs: Tensor

    def __init__(
        self,
        size: int,
        *,
        negative: int | None = None,
        init: Literal["unit_circle", "zero"] = "unit_circle",
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(size)
        if init not in ("unit_circle", "zero"):
            raise ValueError(f"expected init to be 'unit_circle' or 'zero', got {init!r}")
        real = real_type(dtype)
        self.init = init
        self.is_complex = dtype is not None and dtype.is_complex
        self.raw = Parameter(torch.empty(size * (size - 1) // 2, dtype=real))
        if self.is_complex:
            if negative is not None:
                raise ValueError(
                    f"expected no negative where D is complex and trained, got {negative}"
                )
            self.imaginary = Parameter(torch.empty(size * (size + 1) // 2, dtype=real))
            self.theta = Parameter(torch.empty(size, dtype=real))
        else:
            if negative is None:
                negative = size // 2
            self.negative = negative
            if self.negative not in range(size + 1):
                raise ValueError(
                    f"expected 0 <= negative <= {size}, got {negative}; it counts entries of D"
                )
            # not saved, so that loading other ones raises an error instead
            signs = torch.ones(size, device="cpu")
            signs[size - negative :] = -1
            self.register_constant("signs", signs, self.raw)
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        if self.init == "zero":
            self.raw.zero_()
        else:
            angles = self.raw.new_empty(self.size // 2)
            angles.uniform_(0, math.pi / 2, generator=generator)
            # tan(t / 2) places the Cayley eigenvalues at exp(+-it)
            self.raw.copy_(planar_skew(torch.tan(angles / 2), self.size))
        if self.is_complex:
            self.imaginary.zero_()
            self.theta.uniform_(0, 2 * math.pi, generator=generator)

    def get_extra_state(self) -> Tensor:
        return torch.tensor(-1 if self.is_complex else self.negative, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Check that the loaded weights belong to this set.

        Raises:
            ValueError: If they were saved with another number of entries -1.
        """
        own = int(self.get_extra_state())
        if int(state) != own:
            raise ValueError(f"expected the weights of negative={own}, got those of {int(state)}")

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        return orthogonality_error(W)

    def _matrix(self) -> Tensor:
        if self.is_complex:
            return cayley(self._skew()) * self._scaling()
        return scaled_cayley(self.raw, self.signs)

    def _skew(self) -> Tensor:  # (N, N)
        real = skew(self.raw, self.size)
        if not self.is_complex:
            return real
        return torch.complex(real, symmetric(self.imaginary, self.size))

    def _scaling(self) -> Tensor:  # (N,), the diagonal of D
        return torch.exp(1j * self.theta) if self.is_complex else self.signs

    def _assign(self, W: Tensor) -> None:
        tolerance = tol(self.dtype, self.size)
        A, deviation = _preimage(W, self._scaling())
        if deviation <= tolerance:  # false if it is NaN: W D* has the eigenvalue -1
            self._set_skew(A)
        elif self.is_complex:
            # other phases move the widest gap between the eigenvalues of W D* to -1
            Z = W * self._scaling().conj()
            check_finite(Z)
            angles = torch.linalg.eigvals(Z.to(torch.complex128)).angle().sort().values
            gaps = angles.diff(append=angles[:1] + 2 * math.pi)  # the last one across -1
            widest = gaps.argmax()
            self.theta.add_(angles[widest] + gaps[widest] / 2 - math.pi)
            shifted, _ = _preimage(W, self._scaling())
            self._set_skew(shifted)
        else:
            hint = f"W D has an eigenvalue near -1 for negative={self.negative}"
            # det of a Cayley transform is 1, so det W = det D
            if torch.linalg.det(W).sign() != (-1) ** self.negative:
                parity = "odd" if self.negative % 2 == 0 else "even"
                hint += f", as det W must be (-1)^negative: choose an {parity} number"
            raise NotInSetError(type(self).__name__, deviation, tolerance, hint)

    def _set_skew(self, A: Tensor) -> None:
        self.raw.copy_(strictly_lower(A.real))
        if self.is_complex:
            self.imaginary.copy_(lower(A.imag))

    def extra_repr(self) -> str:
        if self.is_complex:
            return f"{self.size}, dtype={self.dtype}"
        return f"{self.size}, negative={self.negative}"


def _preimage(
    W: Tensor,  # (N, N)
    D: Tensor,  # (N,)
) -> tuple[Tensor, float]:  # (N, N)
    """Return the A of W, and the distance from W that remains after A is rounded."""
    wide = double_precision(W.dtype)
    I = torch.eye(len(D), dtype=wide, device=W.device)
    Z = W.to(wide) * D.conj()
    solved, _ = torch.linalg.solve_ex(I + Z, I - Z)  # the Cayley transform is its own inverse
    # near matrices out of reach A is huge, and its rounding error moves W
    A = ((solved - solved.mH) / 2).to(W.dtype)
    return A, float(torch.linalg.matrix_norm(cayley(A) * D - W))
