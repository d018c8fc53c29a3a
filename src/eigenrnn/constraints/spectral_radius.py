"""Matrices with eigenvalues in the unit disc, and the eigenvalue of largest modulus."""

import math
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint
from eigenrnn.errors import check_not_negative
from eigenrnn.linalg import check_finite, planar_rotation
from eigenrnn.tracing import is_dual, is_traced, under_transform

__all__ = ["SpectralRadius", "spectral_radius_factors"]

_Eigenpair: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""An eigenvalue, its right eigenvector u of length 1, its left eigenvector v with v* u = 1."""

# From this size on, Arnoldi's iteration from the last eigenpair is faster than one solve for all
# eigenvalues. Milliseconds a step of one core (median over a run, the two in turns): 3.2 beside
# 0.8 at N = 64, 22 beside 23 at 256, 67 beside 359 at 512, and 8 beside 184 at 720 in a training
# on text. `torch.linalg.eig` takes a little longer than the solve.
# Iterating a plane of two vectors does not converge at N = 720 where the eigenvalue is real and
# the next two are close to each other.
_ITERATIVE_SIZE = 256

_SAME = 1e-10  # the relative distance of eigenvalues that rounding in double precision may split

# the numbers of products after which the iteration tests for convergence
_TESTS = (12, 18, 24, 32, 40, 50, 60, 75, 90, 110, 130, 155, 185, 220)


class SpectralRadius(Constraint):
    r"""Matrices whose spectral radius is at most one, by division by the spectral radius.

    .. math:: W = T \text{ while } \rho(T) \le 1, \qquad W = \frac{T}{\rho(T) + \epsilon}
        \text{ permanently, once an optimiser step has made } \rho(T) > 1

    A state decays under W, along each eigenvector at its own rate. W need not be normal, so a
    state may grow first. The gradient includes that of the division. If the eigenvalue of largest
    modulus is multiple, :math:`\rho(T)` has no derivative. While it is multiple, or nearly so,
    :math:`\rho(T)` is treated as a constant. `assign` sets T and switches the division off again.

    Args:
        size: The number N of rows and columns.
        epsilon: :math:`\epsilon \ge 0`; above zero, W cannot reach the unit circle.
    Shape:
        raw: :math:`(N, N)`, T.
        divided: 1 once the division is permanent, else 0.
        seen: :math:`(N, N)`, the T to which `rho`, `right` and `left` belong, as of the last step.
        rho: :math:`()`, its spectral radius.
        right: :math:`(N, 2)`, real and imaginary part of its right eigenvector.
        left: :math:`(N, 2)`, its left eigenvector; see `spectral_radius_factors` for the scale.
    Raises:
        ValueError: If `epsilon` is negative or not finite.
    Source:
        Helfrich and Ye, AAAI 2020, section 3.1 and Proposition 3.2.
        https://arxiv.org/abs/1911.07964 (departures: the gradient is the derivative of W, as
        finite differences confirm. With :math:`\epsilon > 0`, Proposition 3.2 as printed is not:
        the inner :math:`1 / \tilde\rho`, with :math:`\tilde\rho = \rho(T) + \epsilon`, must be
        :math:`1 / \rho`, as in equation 7. Near multiple eigenvalues the paper suggests omitting
        the normalisation for a few steps; here only its gradient is omitted. The moduli are
        initialised uniformly on [0, 1], as in the code; the paper calls this uniform on the disc.
        If N is odd, the unpaired eigenvalue is the last. In the code it is the first, which breaks
        up the pairs).
    Example:
        >>> W = SpectralRadius(8)()
        >>> bool((torch.linalg.eigvals(W).abs() <= 1).all())
        True
    """

    needs_advance = True
    tensor_attributes = ("seen_copy",)

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
        # averaging models averages T and `seen` alike, but not the rho that belongs to them
        self.seen_copy = torch.zeros(size, size)
        self.register_load_state_dict_post_hook(_restore_seen_copy)
        self.register_buffer("rho", torch.zeros(()))
        self.register_buffer("right", torch.zeros(size, 2))
        self.register_buffer("left", torch.zeros(size, 2))
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        theta = self.raw.new_empty(self.size // 2)
        theta.uniform_(0, math.pi / 2, generator=generator)
        # signed, so that angles in a quarter of the circle cover all of it: -R(theta) turns by
        # theta + pi, and eigenvalues come in conjugate pairs
        gamma = self.raw.new_empty((self.size + 1) // 2).uniform_(-1, 1, generator=generator)
        T = torch.zeros_like(self.raw)
        T[: 2 * len(theta), : 2 * len(theta)] = planar_rotation(gamma[: len(theta)], theta)
        if self.size % 2 == 1:
            T[-1, -1] = gamma[-1]
        self._assign(T)

    @torch.no_grad()
    def advance(self) -> None:
        self._update_factors()
        self.divided.logical_or_(self.rho > 1)

    def recurrent_parameters(self) -> Iterator[Parameter]:
        return iter(())  # the paper trains T with all the other weights

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        check_finite(W)
        return max(0.0, float(torch.linalg.eigvals(W.detach().double()).abs().max()) - 1)

    def _matrix(self) -> Tensor:
        T = self.raw
        fixed = self.raw.detach()
        # a copy on the meta device gets the state of another network, but not its plain tensors
        seen = self.seen_copy if self.seen_copy.device == fixed.device else self.seen
        rho, right, left = spectral_radius_factors(fixed, seen, self.rho, self.right, self.left)
        if under_transform() or is_dual(T) or is_traced():
            rho = rho + (left * ((T - fixed) @ right)).sum()  # adds zero, but the gradient of rho
        else:
            rho = cast("Tensor", _Radius.apply(T, rho, left, right))
        # T may have grown beyond 1 since the last step; a nilpotent T cannot be divided
        divided = ((self.divided > 0) & (rho > 0)) | (rho > 1)
        return T / torch.where(divided, rho + self.epsilon, 1)

    def _assign(self, W: Tensor) -> None:
        self.raw.copy_(W)
        self.divided.zero_()
        for stored in (self.seen_copy, self.rho, self.right, self.left):
            stored.zero_()
        self._update_factors()

    def _update_factors(self) -> None:
        rho, right, left = spectral_radius_factors(
            self.raw.detach(), self.seen_copy, self.rho, self.right, self.left
        )
        self.seen.copy_(self.raw)
        self.seen_copy.copy_(self.raw)
        self.rho.copy_(rho)
        self.right.copy_(right)
        self.left.copy_(left)

    def extra_repr(self) -> str:
        return f"{self.size}, epsilon={self.epsilon}"

    def _adapt(self, wider: bool) -> None:  # noqa: ARG002, rounding changes T too
        self.seen_copy.zero_()
        self._update_factors()


class _Radius(torch.autograd.Function):
    """The spectral radius, with the gradient that its two factors give."""

    @staticmethod
    def forward(
        ctx: Any,
        T: Tensor,  # (N, N)
        rho: Tensor,  # ()
        left: Tensor,  # (N, 2)
        right: Tensor,  # (N, 2)
    ) -> Tensor:  # ()
        ctx.save_for_backward(T, left, right)
        return rho

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (G,) = gradients
        T, left, right = ctx.saved_tensors
        gradient = left @ right.T
        if torch.is_grad_enabled() and left.any():
            # second derivatives are those of torch's eigenvalues: add a term whose value is zero
            with torch.enable_grad():
                largest = torch.linalg.eigvals(T).abs().amax()
                (here,) = torch.autograd.grad(largest, T, create_graph=True)
            gradient = gradient + (here - here.detach())
        return G * gradient, None, None, None


def _restore_seen_copy(constraint: SpectralRadius, _keys: object) -> None:
    with torch.inference_mode(False):  # a later backward pass could not save it otherwise
        constraint.seen_copy = constraint.seen.clone()


@torch.library.custom_op("eigenrnn::spectral_radius_factors", mutates_args=())
def spectral_radius_factors(
    T: Tensor,  # (N, N)
    seen: Tensor,  # (N, N)
    rho: Tensor,  # ()
    right: Tensor,  # (N, 2)
    left: Tensor,  # (N, 2)
) -> tuple[Tensor, Tensor, Tensor]:  # (), (N, 2), (N, 2)
    r"""Return the spectral radius of T and the two factors of its gradient.

    .. math:: \frac{\partial \rho}{\partial T} = L R^\top, \qquad
        R = [\Re u, \Im u], \qquad L = [\Re w, \Im w], \qquad
        w = \frac{\lambda}{|\lambda|} \frac{v}{u^* v}

    for :math:`T u = \lambda u`, :math:`v^* T = \lambda v^*` and :math:`|\lambda| = \rho(T)`. L is
    zero where there is no gradient: where T is nilpotent, or indistinguishable from a matrix with
    a multiple eigenvalue at the precision of its type.

    Args:
        T: The matrix, real.
        seen: The matrix for which this function returned `rho`, `right` and `left`. They are
            returned again if it equals T; otherwise the search begins from them.
        rho: The spectral radius of `seen`.
        right: R of `seen`.
        left: L of `seen`.
    Source:
        Helfrich and Ye, AAAI 2020, Proposition 3.2. https://arxiv.org/abs/1911.07964 (departures:
        the derivative of the modulus has the 1 / rho of equation 7, see `SpectralRadius`).
    """
    # clones, because an operator must not return its inputs, nor one tensor twice
    if torch.equal(T, seen):
        return rho.clone(), right.clone(), left.clone()
    zero = torch.zeros_like(right)
    if not bool(torch.isfinite(T).all()):
        return T.new_full((), torch.nan), zero, zero.clone()
    exact = T.cpu().double()
    epsilon = torch.finfo(T.dtype).eps
    pair: _Eigenpair | None = None
    if len(T) > _ITERATIVE_SIZE:
        pair = _iterate(exact, right.cpu().double(), left.cpu().double(), epsilon)
    if pair is None:
        pair = _solve(exact)
    eigenvalue, u, v = pair
    found = eigenvalue.abs().to(T)
    # rounding splits a double eigenvalue by about sqrt(epsilon); |v| is then 1 / sqrt(epsilon)
    if not (found > 0 and torch.linalg.vector_norm(v) * epsilon**0.5 < 0.1):  # or it is NaN
        return found, zero, zero.clone()
    w = v * eigenvalue.sgn()
    return found, torch.view_as_real(u).to(T), torch.view_as_real(w).to(T)


@spectral_radius_factors.register_fake
def _(
    T: Tensor,
    seen: Tensor,  # noqa: ARG001, the signature of the operator
    rho: Tensor,
    right: Tensor,
    left: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return T.new_empty(rho.shape), T.new_empty(right.shape), T.new_empty(left.shape)


def _solve(T: Tensor) -> _Eigenpair:
    """Compute all eigenvalues, and the eigenvectors of the largest by inverse iteration."""
    check_finite(T, "T")
    eigenvalues = torch.linalg.eigvals(T)
    eigenvalue = eigenvalues[eigenvalues.abs().argmax()]
    is_multiple = ((eigenvalues - eigenvalue).abs() <= _SAME * eigenvalue.abs()).sum() > 1
    nearby = eigenvalue * (1 + 1e-10)  # at the eigenvalue itself the matrix is singular
    I = torch.eye(len(T), dtype=eigenvalues.dtype)
    LU, pivots, _ = torch.linalg.lu_factor_ex(T - nearby * I)
    u = _generic_vector(len(T)).to(LU).unsqueeze(1)
    v = u
    # each step shrinks the other parts by 1e-10 over their relative distance to the eigenvalue
    for _ in range(2):
        u = _unit(torch.linalg.lu_solve(LU, pivots, u))
        v = _unit(torch.linalg.lu_solve(LU, pivots, v, adjoint=True))
    v = _normalised(v[:, 0], u[:, 0])
    if is_multiple:  # an infinite v tells the caller that the radius has no gradient
        v = torch.full_like(v, math.inf)
    return eigenvalue, u[:, 0], v


def _iterate(
    T: Tensor,  # (N, N)
    right: Tensor,  # (N, 2)
    left: Tensor,  # (N, 2)
    tolerance: float,
) -> _Eigenpair | None:
    """Search both Krylov spaces from the previous eigenvectors; None if it does not converge."""
    right_pair = _arnoldi(T, right, tolerance)
    if right_pair is None:
        return None
    eigenvalue, u = right_pair
    left_pair = _arnoldi(T.T, left, tolerance, eigenvalue.conj())
    if left_pair is None:
        return None
    _, unscaled = left_pair
    v = _normalised(unscaled, u)
    # v* T u instead of the eigenvalue above: its error is the product of those of u and v
    return v.conj() @ (T.to(u) @ u), u, v


def _arnoldi(
    T: Tensor,  # (N, N)
    initial: Tensor,  # (N, 2)
    tolerance: float,
    target: Tensor | None = None,
) -> tuple[Tensor, Tensor] | None:
    """Return the eigenvalue nearest to `target`, or the largest, and its right eigenvector."""
    limit = _TESTS[-1]
    basis = T.new_empty(limit + 1, len(T))
    H = T.new_zeros(limit + 1, limit)
    # the generic part detects another eigenvalue that has become the largest
    basis[0] = _unit(_unit(initial.sum(1)) + 0.05 * _generic_vector(len(T)))
    for k in range(1, limit + 1):
        y = T @ basis[k - 1]
        for _ in range(2):  # a single pass would lose orthogonality
            h = basis[:k] @ y
            y = y - h @ basis[:k]
            H[:k, k - 1] += h
        H[k, k - 1] = torch.linalg.vector_norm(y)
        if not H[k, k - 1] > 1e-12 * torch.linalg.vector_norm(H[:k, k - 1]):
            return None  # the Krylov space is exhausted
        basis[k] = y / H[k, k - 1]
        if k in _TESTS:
            check_finite(H, "the Hessenberg matrix of T")
            eigenvalues, X = torch.linalg.eig(H[:k, :k])
            # the residual of a Ritz vector: H[k, k - 1] times the last entry of its eigenvector
            i = _converged(eigenvalues, H[k, k - 1] * X[-1].abs(), tolerance, target)
            if i is not None:
                return eigenvalues[i], _unit(X[:, i] @ basis[:k].to(X))
    return None


def _converged(
    eigenvalues: Tensor,  # (k,)
    errors: Tensor,  # (k,)
    tolerance: float,
    target: Tensor | None,
) -> int | None:
    """Return the index of the eigenvalue once it is exact enough and no other may exceed it."""
    sizes = eigenvalues.abs()
    if target is None:
        i = int(sizes.argmax())
    else:
        i = int((eigenvalues - target).abs().argmin())
    if not errors[i] <= tolerance * sizes[i]:
        return None
    if target is None:
        # its conjugate is as large, and no rival
        own = (eigenvalues == eigenvalues[i]) | (eigenvalues == eigenvalues[i].conj())
        rivals = ~own & (sizes + errors > sizes[i])
        if bool(rivals.any()):
            return None
    return i


def _generic_vector(n: int) -> Tensor:  # (N,)
    """Return a fixed vector of length 1 that no eigenvector is orthogonal to."""
    return _unit(torch.randn(n, dtype=torch.float64, generator=Generator().manual_seed(0)))


def _unit(x: Tensor) -> Tensor:
    length = torch.linalg.vector_norm(x)
    return x / torch.where(length > 0, length, 1)


def _normalised(v: Tensor, u: Tensor) -> Tensor:
    """Scale v so that v* u = 1."""
    return v / (u.conj() @ v)
