"""Orthogonal matrices by the exponential map, with a fixed or a moving base."""

import math
from collections.abc import Callable
from typing import Any, Literal, Self, cast

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint
from eigenrnn.init import haar_
from eigenrnn.linalg import exp_skew, orthogonality_error, planar_skew, polar_step, skew
from eigenrnn.tracing import is_traced

__all__ = ["Exponential"]


class Exponential(Constraint):
    r"""Orthogonal matrices as the exponential of a skew-symmetric matrix at a base.

    .. math:: W = B \exp(A), \qquad A = -A^\top, \qquad B^\top B = I

    W is orthogonal for every A. The base is the identity and stays (expRNN), or moves to W after
    every `period` optimiser steps while A returns to zero (dynamic trivialisation, dtriv): the
    gradient at A = 0 is the Riemannian one, and A never wanders to where the exponential folds.
    `assign` moves the base to the given matrix.

    Args:
        size: The number N of rows and columns.
        start: Rotations by independent angles: ``"henaff"`` :math:`\theta \sim U(-\pi, \pi)`;
            ``"cayley"`` :math:`\theta = -\tan(t / 2), t \sim U(0, \pi / 2)`; or ``"haar"``, a base
            that is uniform on SO(N).
        period: The number K of optimiser steps between two moves of the base; None never moves
            it; `math.inf` starts with the base at the start and A = 0 and then never moves it.
    Shape:
        raw: :math:`(N (N - 1) / 2,)`, the strict lower triangle of A, row by row.
        base: :math:`(N, N)`.
    Units:
        Rotation angles in radians; the period in optimiser steps.
    Raises:
        ValueError: If `start` is unknown or `period` is not a positive integer, infinity or None.
    Source:
        Lezcano-Casado and Martinez-Rubio, ICML 2019, section 4. https://arxiv.org/abs/1901.08428;
        Lezcano-Casado, NeurIPS 2019, algorithm 1. https://arxiv.org/abs/1909.09501 (departures:
        the gradient is that of W at every step. The released ``rebase()`` overwrites the base
        between the forward and the backward pass, so that its gradient is wrong at each step that
        moves the base: at the first one by 0.9 to 1.1 of its norm with ``"henaff"`` and 0.3 with
        ``"cayley"``, for N of 8 to 190. expRNN, whose base stays, has no such step. Also,
        the base is re-orthogonalised by one Newton step of the polar decomposition at each move,
        not by a singular value decomposition at every hundredth).
    Example:
        >>> W = Exponential(8, start="haar", period=100)()
        >>> torch.allclose(W @ W.T, torch.eye(8), atol=1e-6)
        True
    """

    moves = True

    base: Tensor

    def __init__(
        self,
        size: int,
        *,
        start: Literal["henaff", "cayley", "haar"] = "henaff",
        period: float | None = None,
    ) -> None:
        super().__init__(size)
        if start not in ("henaff", "cayley", "haar"):
            raise ValueError(f"expected start to be 'henaff', 'cayley' or 'haar', got {start!r}")
        if period is not None and not (period >= 1 and period in (math.inf, period // 1)):
            raise ValueError(
                f"expected period to be a positive integer, inf or None, got {period}"
            )
        self.start = start
        self.period = period
        self.moves = self.moves_base = period is not None and period < math.inf
        self.raw = Parameter(torch.empty(size * (size - 1) // 2))
        self.register_buffer("base", torch.eye(size))
        self._steps_here = 0  # optimiser steps since the base moved
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        if self.start == "haar":
            self._assign(haar_(self.base, generator=generator))
            return
        angles = self.raw.new_empty(self.size // 2)
        if self.start == "henaff":
            angles.uniform_(-math.pi, math.pi, generator=generator)
        else:
            angles = -torch.tan(angles.uniform_(0, math.pi / 2, generator=generator) / 2)
        self.raw.copy_(planar_skew(angles, self.size))
        self.base.copy_(torch.eye(self.size))
        if self.period is not None:
            self._assign(self())

    @torch.no_grad()
    def advance(self) -> None:
        if not self.moves or self.period is None:
            return
        self._steps_here += 1
        if self._steps_here >= self.period:
            self._assign(polar_step(self()))  # keeps rounding from adding up

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self._steps_here)

    def set_extra_state(self, state: Tensor) -> None:
        self._steps_here = int(state)

    def residual(self, W: Tensor) -> float:
        return orthogonality_error(W)

    def _matrix(self) -> Tensor:
        A = skew(self.raw, self.size)
        if is_traced() or A.is_meta:  # where Python may not look at values
            return self.base @ exp_skew(A)
        if not self.raw.any():  # so it is after each move of the base
            return cast("Tensor", _AtBase.apply(A, self.base))
        W = exp_skew(A)
        return W if torch.equal(self.base, torch.eye(self.size).to(W)) else self.base @ W

    def _assign(self, W: Tensor) -> None:
        self.base.copy_(W)
        self.raw.zero_()
        self._steps_here = 0

    def _hint(self) -> str:
        return "make it orthogonal first, for instance with torch.linalg.qr"

    def extra_repr(self) -> str:
        return f"{self.size}, start={self.start!r}, period={self.period}"

    @torch.no_grad()
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        epsilon = torch.finfo(self.base.dtype).eps
        super()._apply(fn, recurse)
        if torch.finfo(self.base.dtype).eps < epsilon:  # still rounded to the narrower type
            self.base.copy_(polar_step(polar_step(self.base)))
        return self


class _AtBase(torch.autograd.Function):
    r"""The base times the exponential of A = 0, whose derivative is :math:`dW = B\, dA`."""

    @staticmethod
    def forward(*inputs: Tensor) -> Tensor:
        _A, base = inputs
        return base.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        A, base = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return base.T @ gradients[0], None
        W = base @ exp_skew(A)  # the second derivative must see A, be it zero
        return torch.autograd.grad(W, A, gradients[0], create_graph=True)[0], None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        _A, base = ctx.saved_tensors
        return base @ tangents[0]
