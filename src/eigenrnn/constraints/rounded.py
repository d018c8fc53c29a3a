"""Matrices of another set, rounded to whole numbers with one scale a row."""

from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint, make_constraint
from eigenrnn.constraints.scaled_cayley import ScaledCayley
from eigenrnn.errors import NoInverseError

__all__ = ["LARGEST_APART", "SCALE_BITS", "Rounded"]

LARGEST_APART = 2**15 - 1
"""The entry of a row that is kept apart has 16 bits, also if the others have fewer."""

SCALE_BITS = 16
"""The significant bits of a scale, so that an export stores it exactly."""


class Rounded(Constraint):
    r"""Matrices of another set S, rounded to whole numbers with one scale a row.

    .. math:: W_{ij} = s_i \operatorname{round}(V_{ij} / s_i), \qquad V \in \mathcal S, \qquad
        s_i = \max\left(\frac{\max_{j \neq k_i} |V_{ij}|}{2^{\text{bits} - 1} - 1},
        \frac{|V_{i k_i}|}{2^{15} - 1}\right)

    The largest entry :math:`V_{i k_i}` of a row is kept apart, in 16 bits on the same grid. The
    scale is rounded up to 16 significant bits. A complex row has its real and imaginary parts side
    by side. The gradient passes the rounding as if it were not there (straight through), so a
    network learns to do with rounded weights. An export to C in at least as many bits writes the
    matrix as it was trained.

    W is not in S: its residual is what the rounding makes of it. To set V, call
    ``constraint.inner.assign(V)``. A set S that moves after each optimiser step goes on doing so.

    Args:
        size: The number N of rows and columns.
        inner: A function of the size that returns the constraint S.
        bits: The bits of an entry with its sign, 2 to 16.
    Raises:
        ValueError: If `bits` is outside the range, or S is one of diagonals, whose few numbers
            need their precision.
        TypeError: If `inner` does not return a `Constraint`.
    Source:
        Foucault, Mamalet and Malgouyres, 2024. https://arxiv.org/abs/2402.04012 (departures: any
        set; the largest entry of a row apart; no scale of the whole matrix).
    Example:
        >>> layer = RNN(3, 64, constraint=partial(Rounded, bits=4))
        >>> all(len(row.unique()) <= 16 for row in layer.weight_hh_l0)
        True
    """

    def __init__(
        self,
        size: int,
        *,
        inner: Callable[[int], Constraint] = ScaledCayley,
        bits: int = 8,
    ) -> None:
        super().__init__(size)
        if bits not in range(2, 17):
            raise ValueError(f"expected 2 <= bits <= 16, got {bits!r}")
        self.inner = make_constraint(inner, self.size)
        if self.inner.is_diagonal:
            raise ValueError(f"expected inner to return a set of full matrices, got {self.inner}")
        self.is_complex = self.inner.is_complex
        self.bits = bits

    @property
    def tolerance(self) -> float:
        """That of S, and half a step of the grid for each entry of a matrix of norm one."""
        return self.inner.tolerance + self.size / (2 ** (self.bits - 1) - 1)

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        self.inner.reset(generator)

    def recurrent_parameters(self) -> Iterator[Parameter]:
        yield from self.inner.recurrent_parameters()

    def penalty(self) -> Tensor:
        return self.inner.penalty()

    def residual(self, W: Tensor) -> float:
        return self.inner.residual(W)

    def _matrix(self) -> Tensor:
        V = self.inner()
        return V + (self._nearest(V) - V).detach()

    def _nearest(self, V: Tensor) -> Tensor:  # (N, N)
        parts = torch.cat([V.real, V.imag], dim=1) if self.is_complex else V
        magnitudes = parts.abs()
        largest, apart = magnitudes.max(dim=1, keepdim=True)
        others = magnitudes.scatter(1, apart, 0.0).amax(dim=1, keepdim=True)
        scales = torch.maximum(others / (2 ** (self.bits - 1) - 1), largest / LARGEST_APART)
        scales = scales.clamp_min(torch.finfo(parts.dtype).tiny)  # of a row of zeros
        mantissas, exponents = torch.frexp(scales)
        scales = torch.ldexp((mantissas * 2**SCALE_BITS).ceil() / 2**SCALE_BITS, exponents)
        on_grid = scales * (parts / scales).round()
        if not self.is_complex:
            return on_grid
        return torch.complex(*on_grid.chunk(2, dim=1))

    def _assign(self, W: Tensor) -> None:  # noqa: ARG002
        raise NoInverseError(
            "expected raw parameters, got a matrix: Rounded cannot compute the raw parameters of "
            "one; assign it to constraint.inner, or load a state_dict"
        )

    def extra_repr(self) -> str:
        return f"{self.size}, bits={self.bits}"
