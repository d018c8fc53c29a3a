"""Orthogonal matrices by the scaled Cayley transform with a stored, approximate inverse."""

import math
from typing import Any, Literal, cast

import torch
from torch import Generator, Tensor

from eigenrnn.constraints.base import Constraint
from eigenrnn.constraints.scaled_cayley import ScaledCayley
from eigenrnn.errors import check_not_negative, check_positive_integer
from eigenrnn.linalg import (
    cayley,
    check_finite,
    exact_products,
    orthogonality_error,
    polar_step,
    skew,
    strictly_lower,
    tol,
)
from eigenrnn.tracing import is_dual, is_exporting, is_traced, under_transform

__all__ = ["NeumannCayley"]


class NeumannCayley(Constraint):
    r"""Orthogonal matrices by the scaled Cayley transform with a stored, approximate inverse.

    .. math:: W = \tilde A (I - A) D, \qquad \tilde A \approx (I + A)^{-1}, \qquad
        \tilde A \leftarrow \sum_{i=0}^{q} (\tilde A\, \delta A)^i \tilde A
        \text{ when } A \leftarrow A - \delta A

    W equals that of `ScaledCayley` up to the error of the Neumann series. A step adds an error of
    order :math:`(\tilde A\, \delta A)^{q + 1}`, and every exact inversion resets it to zero. With
    :math:`\rho = \|I - \tilde A (I + A)\|_F` the orthogonality error is at most
    :math:`2 \rho + \rho^2`, and exceeds `max_error` by rounding at most. The gradient is
    that of the paper, :math:`V^\top - V` with :math:`V = \tilde A^\top G (D + W^\top)`. Inside a
    transform of `torch.func`, and in forward mode, W is that of `ScaledCayley`.

    Args:
        size: The number N of rows and columns.
        negative: The number :math:`\rho` of entries -1 at the end of D; half of N by default.
        init: ``"unit_circle"`` or ``"zero"``, see `ScaledCayley`.
        order: The order q of the series, 1, 2 or 3, or None for an exact inverse at every step.
        reset_every: The number of optimiser steps between two exact inversions.
        max_error: The inverse is also recomputed exactly when :math:`2 \rho + \rho^2` would exceed
            this bound; `math.inf` disables the check, as published.
        gradient_rate: None sets :math:`\delta A` to the actual change of A. A number sets it to
            this number times the gradient, even if the optimiser takes a different step. The
            released code does this with the learning rate. W is then orthogonal only right after
            an exact inversion, and `max_error` is ignored.
    Shape:
        cayley.raw: :math:`(N (N - 1) / 2,)`, the strict lower triangle of A, row by row.
        inverse: :math:`(N, N)`, :math:`\tilde A`.
        matrix: :math:`(N, N)`, W.
        known: as cayley.raw, the entries of A to which `inverse` and `matrix` belong.
    Units:
        `reset_every` in optimiser steps.
    Raises:
        ValueError: If an argument is outside its range.
    Source:
        Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022, section 3.2 and algorithm 1.
        https://arxiv.org/abs/2208.06496 (departures: `max_error`; and W is computed exactly
        after A has changed in another way than by an optimiser).
    Example:
        >>> constraint = NeumannCayley(8, negative=3, order=2, reset_every=50)
        >>> constraint.residual(constraint()) < 1e-5
        True
    """

    needs_advance = True
    tensor_attributes = ("known_copy",)

    inverse: Tensor
    matrix: Tensor
    known: Tensor

    def __init__(
        self,
        size: int,
        *,
        negative: int | None = None,
        init: Literal["unit_circle", "zero"] = "unit_circle",
        order: int | None = 2,
        reset_every: int = 100,
        max_error: float = 0.01,
        gradient_rate: float | None = None,
    ) -> None:
        super().__init__(size)
        if order not in (1, 2, 3, None):
            raise ValueError(f"expected order to be 1, 2, 3 or None, got {order!r}")
        check_positive_integer("reset_every", reset_every)
        if not max_error > 0:
            raise ValueError(f"expected max_error > 0, got {max_error}")
        check_not_negative("gradient_rate", gradient_rate or 0.0)
        self.cayley = ScaledCayley(size, negative=negative, init=init)
        self.order = order
        self.reset_every = reset_every
        self.max_error = max_error
        self.gradient_rate = gradient_rate
        self.register_buffer("inverse", torch.empty(size, size))
        self.register_buffer("matrix", torch.empty(size, size))
        self.register_buffer("known", torch.empty_like(self.cayley.raw))
        # averaging models averages A and `known` alike, but not the inverse that belongs to them
        self.known_copy = self.known.clone()
        self._steps_here = 0  # optimiser steps since the last exact inversion
        self._invert()

    @property
    def tolerance(self) -> float:
        """The largest residual of a matrix that counts as orthogonal."""
        tolerance = tol(self.dtype, self.size)
        approximates = self.order is not None and self.gradient_rate is None
        if approximates and self.max_error < math.inf:
            tolerance += self.max_error
        return tolerance

    def reset(self, generator: Generator | None = None) -> None:
        self.cayley.reset(generator)
        self._invert()

    @torch.no_grad()
    def advance(self) -> None:
        self._steps_here += 1
        exact = self.order is None or self._steps_here >= self.reset_every
        # "not <=" is also true for NaN, of a series that diverged
        if exact or not self._expand(self._change()) <= self.max_error:
            self._invert()

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self._steps_here, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        self._steps_here = int(state)
        with torch.inference_mode(False):  # a later backward pass could not save it otherwise
            self.known_copy = self.known.clone()

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        return orthogonality_error(W)

    def _matrix(self) -> Tensor:
        raw = self.cayley.raw
        signs = self.cayley.signs
        # `_NeumannMatrix` has a backward pass only, which neither vmap nor forward mode can use
        if under_transform() or is_dual(raw):
            return _exact(raw, signs)[1]
        find = _traced_current if is_traced() or raw.is_meta else _current
        # a copy on the meta device gets the state of another network, but not its plain tensors
        known = self.known_copy if self.known_copy.device == raw.device else self.known
        inverse, W = find(raw.detach(), known, self.inverse, self.matrix, signs)
        if is_exporting():  # a program records no backward pass: add zero, but the gradient
            _, exact = _exact(raw, signs)
            return W + (exact - exact.detach())
        return cast("Tensor", _NeumannMatrix.apply(raw, inverse, W, signs))

    def _assign(self, W: Tensor) -> None:
        check_finite(W)
        left, _, right = torch.linalg.svd(W.double())
        self.cayley.assign(left @ right)  # the nearest orthogonal matrix
        self._invert()

    def _change(self) -> Tensor:  # (N, N)
        """Return the change of A in the last step, with a minus sign, for the series."""
        delta = self.known - self.cayley.raw
        if self.gradient_rate is not None and self.cayley.raw.grad is not None:
            delta = self.gradient_rate * self.cayley.raw.grad
        return skew(delta, self.size)

    @torch.no_grad()
    def _expand(
        self,
        delta: Tensor,  # (N, N)
    ) -> float:
        """Update the inverse by the series and return a bound on the orthogonality error."""
        # Horner's scheme for the sum of X^i times the old inverse, where X is the old inverse
        # times delta
        inverse = self.inverse
        X = self.inverse @ delta
        for _ in range(self.order or 0):
            inverse = self.inverse + X @ inverse
        self.inverse.copy_(inverse)
        I = torch.eye(self.size, dtype=inverse.dtype, device=inverse.device)
        product = inverse @ (I + skew(self.cayley.raw, self.size))
        self._rebuild(product)
        if self.gradient_rate is not None:  # which ignores `max_error`, as the released code does
            return 0.0
        rho = float(torch.linalg.matrix_norm(I - product))
        return 2 * rho + rho**2

    @torch.no_grad()
    def _invert(self) -> None:
        I = torch.eye(self.size, dtype=self.inverse.dtype, device=self.inverse.device)
        with exact_products(I.device):
            self.inverse.copy_(torch.linalg.inv(I + skew(self.cayley.raw, self.size)))
            self._rebuild(I)
            self.matrix.copy_(polar_step(self.matrix))  # rounding grows with A
        self._steps_here = 0

    def _rebuild(
        self,
        product: Tensor,  # (N, N)
    ) -> None:
        """Recompute W; `product` is the inverse times I + A."""
        # because I - A = 2 I - (I + A)
        self.matrix.copy_((2 * self.inverse - product) * self.cayley.signs)
        self.known.copy_(self.cayley.raw)
        self.known_copy.copy_(self.cayley.raw)

    def __repr__(self) -> str:
        options = f"negative={self.cayley.negative}, order={self.order}"
        return f"{type(self).__name__}({self.size}, {options}, reset_every={self.reset_every})"

    def _adapt(self, wider: bool) -> None:
        if wider:
            self._invert()


def _current(
    raw: Tensor,  # (N (N - 1) / 2,)
    known: Tensor,  # (N (N - 1) / 2,)
    inverse: Tensor,  # (N, N)
    matrix: Tensor,  # (N, N)
    signs: Tensor,  # (N,)
) -> tuple[Tensor, Tensor]:  # (N, N), (N, N)
    """Return the stored inverse and W, or exact ones if they belong to another A."""
    if torch.equal(raw, known):
        return inverse, matrix
    return _exact(raw, signs)


@torch.library.custom_op("eigenrnn::neumann_cayley", mutates_args=())
def _traced_current(
    raw: Tensor,
    known: Tensor,
    inverse: Tensor,
    matrix: Tensor,
    signs: Tensor,
) -> tuple[Tensor, Tensor]:
    """Do the same as an operator, for compiled graphs, which hide the values of A."""
    inverse, matrix = _current(raw, known, inverse, matrix, signs)
    return inverse.clone(), matrix.clone()  # an operator must not return its own inputs


@_traced_current.register_fake
def _(*tensors: Tensor) -> tuple[Tensor, Tensor]:
    _raw, _known, inverse, matrix, _signs = tensors
    return torch.empty_like(inverse), torch.empty_like(matrix)


def _exact(
    raw: Tensor,  # (N (N - 1) / 2,)
    signs: Tensor,  # (N,)
) -> tuple[Tensor, Tensor]:  # (N, N), (N, N)
    transform = cayley(skew(raw, len(signs)))
    # (I + A)^-1 (I - A) = 2 (I + A)^-1 - I, as I - A = 2 I - (I + A)
    inverse = (transform + torch.eye(len(signs), dtype=raw.dtype, device=raw.device)) / 2
    return inverse, transform * signs


class _NeumannMatrix(torch.autograd.Function):
    """The stored W, with the closed form of its gradient in the entries of A."""

    @staticmethod
    def forward(raw: Tensor, inverse: Tensor, W: Tensor, signs: Tensor) -> Tensor:  # noqa: ARG004
        return W.clone()  # with *inputs, torch.compile fails where no gradient is recorded

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (G,) = gradients
        raw, inverse, W, signs = ctx.saved_tensors
        gradient = _pull_back(G, inverse, W, signs)
        if torch.is_grad_enabled():
            # second derivatives are those of the exact map: add a term whose value is zero
            exact_inverse, exact = _exact(raw, signs)
            here = _pull_back(G, exact_inverse, exact, signs)
            fixed_inverse, fixed = _exact(raw.detach(), signs)
            gradient = gradient + (here - _pull_back(G, fixed_inverse, fixed, signs))
        return gradient, None, None, None


def _pull_back(
    G: Tensor,  # (N, N)
    inverse: Tensor,  # (N, N)
    W: Tensor,  # (N, N)
    signs: Tensor,  # (N,)
) -> Tensor:  # (N (N - 1) / 2,)
    V = inverse.T @ G @ (torch.diag(signs) + W.T)
    return strictly_lower(V.T - V)
