"""Orthogonal matrices by the exponential map, with a fixed or a moving base."""

import math
from typing import Any, Literal, cast

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint
from eigenrnn.init import haar_
from eigenrnn.linalg import (
    exp_skew,
    orthogonality_error,
    planar_skew,
    polar_step,
    skew,
    to_orthogonal,
)
from eigenrnn.tracing import is_traced

__all__ = ["Exponential"]


class Exponential(Constraint):
    r"""Orthogonal matrices as the exponential of a skew-symmetric matrix at a base.

    .. math:: W = B \exp(A), \qquad A = -A^\top, \qquad B^\top B = I

    W is orthogonal for every A. In expRNN the base stays at the identity. In dynamic
    trivialisation (dtriv) the base moves to W after every `period` optimiser steps, and A returns
    to zero. There the gradient is the Riemannian one. A also stays small, where the exponential is
    one-to-one. `assign(W)` moves the base to W.

    Args:
        size: The number N of rows and columns.
        init: Rotations by independent angles, ``"henaff"`` :math:`\theta \sim U(-\pi, \pi)`;
            ``"cayley"`` :math:`\theta = -\tan(t / 2), t \sim U(0, \pi / 2)`; or ``"haar"``,
            which draws the base uniformly from SO(N).
        period: The number K of optimiser steps between two moves of the base. None keeps the base
            fixed; `math.inf` also does, but puts the base at the initial W, with A = 0.
    Shape:
        raw: :math:`(N (N - 1) / 2,)`, the strict lower triangle of A, row by row.
        base: :math:`(N, N)`.
    Units:
        Rotation angles in radians; the period in optimiser steps.
    Raises:
        ValueError: If `init` is unknown or `period` is not a positive integer, infinity or None.
    Source:
        Lezcano-Casado and Martinez-Rubio, ICML 2019, section 4. https://arxiv.org/abs/1901.08428;
        Lezcano-Casado, NeurIPS 2019, algorithm 1. https://arxiv.org/abs/1909.09501 (departures:
        the gradient is the derivative of W at every step. The released ``rebase()`` overwrites
        the base between the forward and the backward pass. Its gradient is therefore wrong at
        each step that moves the base. For N from 8 to 190, the relative error at the first such
        step is 0.9 to 1.1 with ``"henaff"`` and 0.3 with ``"cayley"``. expRNN is not affected,
        because its base is fixed. Also, the base is re-orthogonalised at each move by one Newton
        step of the polar decomposition; the code uses a singular value decomposition at every
        hundredth).
    Example:
        >>> W = Exponential(8, init="haar", period=100)()
        >>> torch.allclose(W @ W.T, torch.eye(8), atol=1e-6)
        True
    """

    needs_advance = True
    has_moving_base = True

    base: Tensor

    def __init__(
        self,
        size: int,
        *,
        init: Literal["henaff", "cayley", "haar"] = "henaff",
        period: float | None = None,
    ) -> None:
        super().__init__(size)
        if init not in ("henaff", "cayley", "haar"):
            raise ValueError(f"expected init to be 'henaff', 'cayley' or 'haar', got {init!r}")
        if period is not None and not (period >= 1 and period in (math.inf, period // 1)):
            raise ValueError(
                f"expected period to be a positive integer, inf or None, got {period}"
            )
        self.init = init
        self.period = period
        moves = period is not None and period < math.inf
        self.needs_advance = moves
        self.has_moving_base = moves
        self.raw = Parameter(torch.empty(size * (size - 1) // 2))
        self.register_buffer("base", torch.eye(size))
        self._steps_here = 0  # optimiser steps since the base moved
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        if self.init == "haar":
            self._assign(haar_(self.base, generator=generator))
            return
        angles = self.raw.new_empty(self.size // 2)
        if self.init == "henaff":
            angles.uniform_(-math.pi, math.pi, generator=generator)
        else:
            angles = -torch.tan(angles.uniform_(0, math.pi / 2, generator=generator) / 2)
        self.raw.copy_(planar_skew(angles, self.size))
        self.base.copy_(torch.eye(self.size, device=self.base.device))
        if self.period is not None:
            self._assign(self())

    @torch.no_grad()
    def advance(self) -> None:
        if not self.needs_advance or self.period is None:
            return
        self._steps_here += 1
        if self._steps_here >= self.period:
            self._assign(polar_step(self()))  # keeps rounding from accumulating

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self._steps_here, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        self._steps_here = int(state)

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        return orthogonality_error(W)

    def _matrix(self) -> Tensor:
        A = skew(self.raw, self.size)
        if is_traced() or A.is_meta:  # no branch on values
            return self.base @ exp_skew(A)
        if not self.raw.any():  # true after each move of the base
            return cast("Tensor", _AtBase.apply(A, self.base))
        W = exp_skew(A)
        # comparing is much cheaper than a product with the base of expRNN, the identity
        if torch.equal(self.base, torch.eye(self.size, dtype=W.dtype, device=W.device)):
            return W
        return self.base @ W

    def _assign(self, W: Tensor) -> None:
        self.get_parameter("raw").zero_()  # fails where something replaced the parameter
        self.base.copy_(W)
        self._steps_here = 0

    def extra_repr(self) -> str:
        return f"{self.size}, init={self.init!r}, period={self.period}"

    def _adapt(self, wider: bool) -> None:
        if wider:
            self.base.copy_(to_orthogonal(self.base))


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
        W = base @ exp_skew(A)  # the second derivative depends on A, even if it is zero
        return torch.autograd.grad(W, A, gradients[0], create_graph=True)[0], None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        _A, base = ctx.saved_tensors
        return base @ tangents[0]
