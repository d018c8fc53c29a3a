"""Orthogonal and unitary matrices by a Cayley transform at a moving base."""

import math
from typing import Any, Literal, cast

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint, real_type
from eigenrnn.constraints.fourier_product import FourierProduct
from eigenrnn.init import haar_
from eigenrnn.linalg import cayley, orthogonality_error, polar_step, skew, symmetric, to_orthogonal
from eigenrnn.tracing import is_dual, is_traced

__all__ = ["MovingCayley"]


class MovingCayley(Constraint):
    r"""Orthogonal or unitary matrices by a Cayley transform whose base moves at every step.

    .. math:: W = (I + A / 2)^{-1} (I - A / 2) B, \qquad A = -A^*, \qquad B^* B = I

    W is orthogonal for every real A and unitary for every complex one. After each optimiser step
    the base B moves to W and A returns to zero. A step of plain gradient descent with learning
    rate :math:`\eta` is then the multiplicative update

    .. math:: W \leftarrow \left(I + \tfrac \eta 2 C\right)^{-1}
        \left(I - \tfrac \eta 2 C\right) W, \qquad C = G W^* - W G^*

    with the gradient :math:`G = \partial L / \partial \Re W + i\, \partial L / \partial \Im W`.
    Training keeps the determinant of a real W. `assign(W)` moves the base to W.

    Args:
        size: The number N of rows and columns.
        init: ``"haar"`` draws the base uniformly from SO(N), or from U(N) if W is complex;
            ``"urnn"`` draws it from `FourierProduct`.
        dtype: The type of W, such as `torch.complex64`; torch's default real type by default.
    Shape:
        raw: :math:`(N (N - 1) / 2,)`, the strict lower triangle of the real part of A, row by row.
        imaginary: :math:`(N (N + 1) / 2,)`, the lower triangle of the symmetric imaginary part of
        A, whose diagonal is :math:`\sqrt 2` times that of `imaginary`; only if W is complex.
        base: :math:`(N, N)`; :math:`(N, N, 2)`, real and imaginary parts, if W is complex.
    Units:
        Dimensionless.
    Raises:
        ValueError: If `init` is unknown, or complex for a real W, or `dtype` is not a real or
            complex type of float32 precision or better.
    Source:
        Wisdom, Powers, Hershey, Le Roux and Atlas, NeurIPS 2016, section 4.
        https://arxiv.org/abs/1611.00035 (departures: one Newton step of the polar decomposition at
        each move removes rounding errors. The code initialises by ``"urnn"``. It takes G from only
        the upper block row of the augmented real matrix. For MNIST it divides G by its running
        magnitude; here RMSprop divides C).
    Example:
        >>> W = MovingCayley(8, dtype=torch.complex64)()
        >>> torch.allclose(W @ W.mH, torch.eye(8, dtype=W.dtype), atol=1e-6)
        True
    """

    needs_advance = True
    has_moving_base = True

    imaginary: Parameter
    base: Tensor

    def __init__(
        self,
        size: int,
        *,
        init: Literal["haar", "urnn"] = "haar",
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(size)
        self.is_complex = dtype is not None and dtype.is_complex
        if init not in ("haar", "urnn"):
            raise ValueError(f"expected init to be 'haar' or 'urnn', got {init!r}")
        if init == "urnn" and not self.is_complex:
            raise ValueError(
                "expected init='haar' for a real matrix, got 'urnn'; or use dtype=torch.complex64"
            )
        real = real_type(dtype)
        self.init = init
        self.raw = Parameter(torch.empty(size * (size - 1) // 2, dtype=real))
        if self.is_complex:
            self.imaginary = Parameter(torch.empty(size * (size + 1) // 2, dtype=real))
        shape = (size, size, 2) if self.is_complex else (size, size)
        self.register_buffer("base", torch.empty(shape, dtype=real))
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        if self.init == "haar":
            self._assign(haar_(self._base(), generator=generator))
            return
        with torch.random.fork_rng(devices=()):  # its constructor draws from the global generator
            factors = FourierProduct(self.size).to(self.base)
        self._assign(factors.sample(generator))

    @torch.no_grad()
    def advance(self) -> None:
        self._assign(polar_step(self()))  # keeps rounding from accumulating

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        return orthogonality_error(W)

    def _base(self) -> Tensor:  # (N, N)
        return torch.view_as_complex(self.base) if self.is_complex else self.base

    def _skew(self) -> Tensor:  # (N, N)
        real = skew(self.raw, self.size)
        if not self.is_complex:
            return real
        imaginary = symmetric(self.imaginary, self.size)
        # with a diagonal sqrt(2) times longer, all raw numbers contribute equally to |A|
        extra = (math.sqrt(2) - 1) * imaginary.diagonal()
        return torch.complex(real, imaginary + torch.diag(extra))

    def _matrix(self) -> Tensor:
        A = self._skew()
        if is_traced() or is_dual(A):  # no branch on the value of A
            return cayley(A / 2) @ self._base()
        return cast("Tensor", _CayleyAtBase.apply(A, self._base()))

    def _assign(self, W: Tensor) -> None:
        self.get_parameter("raw").zero_()  # fails where something replaced the parameter
        if self.is_complex:
            self.get_parameter("imaginary").zero_()
        self._base().copy_(W)

    def extra_repr(self) -> str:
        options = f"{self.size}, init={self.init!r}"
        if self.is_complex:
            options += f", dtype={self.dtype}"
        return options

    def _adapt(self, wider: bool) -> None:
        if wider:
            self._base().copy_(to_orthogonal(self._base()))


class _CayleyAtBase(torch.autograd.Function):
    r"""The Cayley transform of A / 2 times a base, almost free where A is zero.

    .. math:: \partial L / \partial A = -\tfrac 1 2 (I + A / 2)^{-*} G\, (B + W)^*
    """

    @staticmethod
    def forward(A: Tensor, base: Tensor) -> Tensor:
        if not A.is_meta and not A.any():
            return base.clone()
        return cayley(A / 2) @ base

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        A, base, W = ctx.saved_tensors
        (G,) = grads
        # the graph of a second derivative must contain A, even if it is zero
        if not torch.is_grad_enabled() and not A.is_meta and not A.any():
            return -G @ base.mH, None  # the formula, where A = 0 and W = B
        I = torch.eye(A.shape[0], dtype=A.dtype, device=A.device)
        return -0.5 * torch.linalg.solve((I + A / 2).mH, G) @ (base + W).mH, None
