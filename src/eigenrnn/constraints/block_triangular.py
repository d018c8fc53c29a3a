"""Block triangular matrices: a long memory, a short memory and their coupling."""

import copy
import math
from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint, make_constraint
from eigenrnn.constraints.scaled_cayley import ScaledCayley
from eigenrnn.constraints.spectral_radius import SpectralRadius
from eigenrnn.init import Initializer, glorot_uniform_

__all__ = ["BlockTriangular"]


class BlockTriangular(Constraint):
    r"""Matrices of two diagonal blocks from two sets and a free block above the diagonal.

    .. math:: W = \begin{bmatrix} W_L & W_C \\ 0 & W_S \end{bmatrix}, \qquad
        W_L \in \mathcal L, \quad W_S \in \mathcal S

    The eigenvalues of W are those of both blocks for every coupling :math:`W_C`. The first
    :math:`N - N_S` units are the long memory, and the last :math:`N_S` the short one. The
    coupling feeds the short memory into the long one. The blocks may be any two real sets.

    Args:
        size: The number N of rows and columns.
        long: A function of the size that returns the constraint of :math:`W_L`, such as
            ``partial(ScaledCayley, negative=29)``.
        short: A function of the size that returns the constraint of :math:`W_S`.
        short_size: The size :math:`N_S` of the short memory; half of N by default.
        coupling: Whether :math:`W_C` is trained; it is zero otherwise.
        coupling_init: The initialiser of :math:`W_C`, in place.
    Shape:
        coupling: :math:`(N - N_S, N_S)`, :math:`W_C`.
    Raises:
        ValueError: If `short_size` leaves a block without units, or `long` or `short` returns a
            constraint of another size or a complex one.
        TypeError: If `long` or `short` does not return a `Constraint`.
    Source:
        Helfrich and Ye, AAAI 2020, equation 2. https://arxiv.org/abs/1911.07964 (departures: any
        two sets; the gradient of :math:`W_S` is that of `SpectralRadius`, which corrects
        Proposition 3.2; the paper draws the coupling for Penn Treebank from a truncated orthogonal
        matrix: ``coupling_init=orthogonal_``; its code multiplies rows by the transpose of W).
    Example:
        >>> BlockTriangular(160, long=partial(ScaledCayley, negative=29), short_size=64)
        BlockTriangular(
          160, short_size=64, coupling=True
          (long): ScaledCayley(96, negative=29)
          (short): SpectralRadius(64, epsilon=0.0)
        )
    """

    coupling: Parameter | None

    def __init__(
        self,
        size: int,
        *,
        long: Callable[[int], Constraint] = ScaledCayley,
        short: Callable[[int], Constraint] = SpectralRadius,
        short_size: int | None = None,
        coupling: bool = True,
        coupling_init: Initializer = glorot_uniform_,
    ) -> None:
        super().__init__(size)
        if short_size is None:
            short_size = size // 2
        if short_size not in range(1, size):
            raise ValueError(f"expected 1 <= short_size < {size}, the size, got {short_size}")
        self.long = make_constraint(long, size - short_size)
        self.short = make_constraint(short, short_size)
        if self.long.is_complex or self.short.is_complex:
            raise ValueError(f"expected sets of real matrices, got {self.long} and {self.short}")
        self.coupling_init = coupling_init
        self.coupling = None
        if coupling:
            free = torch.empty(size - short_size, short_size, dtype=self.long.dtype)
            self.coupling = Parameter(free)
        self.reset()

    @property
    def tolerance(self) -> float:
        return max(super().tolerance, self.long.tolerance, self.short.tolerance)

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        self.long.reset(generator)
        self.short.reset(generator)
        if self.coupling is not None:
            self.coupling_init(self.coupling, generator=generator)

    def recurrent_parameters(self) -> Iterator[Parameter]:
        yield from self.long.recurrent_parameters()
        yield from self.short.recurrent_parameters()

    def penalty(self) -> Tensor:
        return self.long.penalty() + self.short.penalty()

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        q = self.long.size
        zero = W[q:, :q]
        if self.coupling is None:
            zero = torch.cat([zero, W[:q, q:].T])
        return math.hypot(
            self.long.residual(W[:q, :q]),
            self.short.residual(W[q:, q:]),
            float(torch.linalg.matrix_norm(zero.detach().double())),
        )

    def _matrix(self) -> Tensor:
        W_L = self.long()
        W_S = self.short()
        zero = W_L.new_zeros(len(W_S), len(W_L))
        above = zero.T if self.coupling is None else self.coupling
        return torch.cat([torch.cat([W_L, above], dim=1), torch.cat([zero, W_S], dim=1)])

    def _assign(self, W: Tensor) -> None:
        q = self.long.size
        # Either `assign` may raise an error, and then neither block may have changed. So the long
        # one is tried on a copy before the short one.
        long = copy.deepcopy(self.long)
        long.assign(W[:q, :q])
        self.short.assign(W[q:, q:])
        self.long.load_state_dict(long.state_dict())
        if self.coupling is not None:
            self.coupling.copy_(W[:q, q:])

    def extra_repr(self) -> str:
        coupling = self.coupling is not None
        return f"{self.size}, short_size={self.short.size}, coupling={coupling}"
