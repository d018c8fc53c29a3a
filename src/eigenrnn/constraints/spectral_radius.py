"""Matrices whose eigenvalues lie in the unit disc."""

import math
from collections.abc import Callable, Iterator
from typing import Self

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint
from eigenrnn.constraints.dominant import dominant
from eigenrnn.errors import check_not_negative
from eigenrnn.linalg import check_finite, planar_rotation

__all__ = ["SpectralRadius"]


class SpectralRadius(Constraint):
    r"""Matrices whose spectral radius is at most one, by division by the spectral radius.

    .. math:: W = T \text{ while } \rho(T) \le 1, \qquad W = \frac{T}{\rho(T) + \epsilon}
        \text{ for ever, once an optimiser step has made } \rho(T) > 1

    Whatever enters a state with this matrix fades, each eigenvector's part at a speed of its own;
    W need not be normal, so that it may grow first. The gradient takes the division into account.
    Where the largest eigenvalue is a multiple one, or nearly, it has no derivative, and
    :math:`\rho(T)` counts as a constant until the eigenvalues part. `assign` sets T and starts
    anew without the division.

    Args:
        size: The number N of rows and columns.
        epsilon: :math:`\epsilon \ge 0`; above zero, W cannot reach the unit circle.
    Shape:
        raw: :math:`(N, N)`, T.
        divided: 1 once the division is there for ever, else 0.
        seen: :math:`(N, N)`, the T of which the next three speak, found after each step.
        rho: :math:`()`, its spectral radius.
        right: :math:`(N, 2)`, real and imaginary part of its right eigenvector.
        left: :math:`(N, 2)`, of its left eigenvector, scaled as in `dominant`.
    Raises:
        ValueError: If `epsilon` is negative or not finite.
    Source:
        Helfrich and Ye, AAAI 2020, section 3.1 and Proposition 3.2.
        https://arxiv.org/abs/1911.07964 (departures: with :math:`\epsilon > 0` the gradient is the
        derivative of W, by finite differences too, where Proposition 3.2 as printed is not: its
        inner :math:`1 / \tilde\rho` must be :math:`1 / \rho`, as in equation 7 of the paper,
        for :math:`\tilde\rho = \rho(T) + \epsilon`; near multiple eigenvalues the paper suggests
        to leave out the normalisation for a few steps, and here it stays and its gradient is left
        out; the start has moduli uniform on [0, 1], as in the code, which the paper calls uniform
        on the disc; where N is odd, the eigenvalue without a partner is the last, not the first
        as in the code, where the pairs then fall apart).
    Example:
        >>> W = SpectralRadius(8)()
        >>> bool((torch.linalg.eigvals(W).abs() <= 1).all())
        True
    """

    moves = True
    unregistered = ("own_seen",)

    divided: Tensor
    seen: Tensor
    rho: Tensor
    right: Tensor
    left: Tensor

    def __init__(self, size: int, *, epsilon: float = 0.0) -> None:
        super().__init__(size)
        check_not_negative("epsilon", epsilon)
        self.epsilon = epsilon
        self.raw = Parameter(torch.empty(size, size))
        self.register_buffer("divided", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(size, size))
        # an average of models makes T and `seen` equal, but rho that of neither
        self.own_seen = torch.zeros(size, size)
        self.register_load_state_dict_post_hook(_trust)
        self.register_buffer("rho", torch.zeros(()))
        self.register_buffer("right", torch.zeros(size, 2))
        self.register_buffer("left", torch.zeros(size, 2))
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        theta = self.raw.new_empty(self.size // 2)
        theta.uniform_(0, math.pi / 2, generator=generator)
        gamma = self.raw.new_empty((self.size + 1) // 2).uniform_(-1, 1, generator=generator)
        T = torch.zeros_like(self.raw)
        T[: 2 * len(theta), : 2 * len(theta)] = planar_rotation(gamma[: len(theta)], theta)
        if self.size % 2 == 1:
            T[-1, -1] = gamma[-1]
        self._assign(T)

    @torch.no_grad()
    def advance(self) -> None:
        self._look()
        self.divided.logical_or_(self.rho > 1)

    def recurrent_parameters(self) -> Iterator[Parameter]:
        return iter(())  # the paper trains T with all the other weights

    def residual(self, W: Tensor) -> float:
        check_finite(W)
        return max(0.0, float(torch.linalg.eigvals(W.detach().double()).abs().max()) - 1)

    def _matrix(self) -> Tensor:
        T, fixed = self.raw, self.raw.detach()
        rho, right, left = dominant(fixed, self.own_seen, self.rho, self.right, self.left)
        rho = rho + (left * ((T - fixed) @ right)).sum()  # the value, and its gradient
        divided = ((self.divided > 0) & (rho > 0)) | (rho > 1)
        return T / torch.where(divided, rho + self.epsilon, 1)

    def _assign(self, W: Tensor) -> None:
        self.raw.copy_(W)
        self.divided.zero_()
        for seen in (self.own_seen, self.rho, self.right, self.left):
            seen.zero_()
        self._look()

    def _look(self) -> None:
        rho, right, left = dominant(
            self.raw.detach(), self.own_seen, self.rho, self.right, self.left
        )
        self.seen.copy_(self.raw)
        self.own_seen.copy_(self.raw)
        self.rho.copy_(rho)
        self.right.copy_(right)
        self.left.copy_(left)

    def _hint(self) -> str:
        return "divide it by its spectral radius first"

    def extra_repr(self) -> str:
        return f"{self.size}, epsilon={self.epsilon}"

    @torch.no_grad()
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = self.raw.dtype
        super()._apply(fn, recurse)
        if self.raw.dtype != before:  # what was seen is rounded to another type
            self.own_seen.zero_()
            self._look()
        return self


def _trust(constraint: SpectralRadius, _keys: object) -> None:
    constraint.own_seen = constraint.seen.clone()
