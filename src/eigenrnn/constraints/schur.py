"""Matrices in Schur form: rotations of planes, and a triangular part between the planes."""

import copy
import math
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint, make_constraint
from eigenrnn.constraints.exponential import Exponential
from eigenrnn.errors import NotInSetError, check_not_negative, check_positive
from eigenrnn.linalg import (
    check_finite,
    orthogonality_error,
    planar_rotation,
    polar_step,
)

__all__ = ["Schur", "equalise_diagonals", "real_schur_basis"]


class Schur(Constraint):
    r"""Matrices in Schur form whose diagonal blocks are rotations, scaled by a gamma near one.

    .. math:: W = P \Theta P^\top, \qquad P^\top P = I, \qquad
        \Theta = \begin{bmatrix} \gamma_1 R(\theta_1) & & \\ & \gamma_2 R(\theta_2) & \\
        & & \ddots \end{bmatrix} + T, \qquad
        R(\theta) = \begin{bmatrix} \cos \theta & -\sin \theta \\
        \sin \theta & \cos \theta \end{bmatrix}

    with T strictly lower triangular. The moduli are trained, with the penalty
    :math:`\delta \sum_i (1 - \gamma_i)^2` that pulls them to one, or clamped. With T = 0 and all
    moduli one, W is orthogonal of determinant 1. T makes W non-normal: states may grow
    polynomially for a while, even if all moduli are at most one.

    T has an entry t in each 2 x 2 block, as in the paper. The eigenvalues of a block then have the
    modulus :math:`|\gamma^2 + \gamma t \sin \theta|^{1/2}` or are real. So :math:`\gamma` does not
    fix the spectrum, and W may be any matrix if :math:`\gamma` is trained.

    `assign` keeps P if it fits. Otherwise it computes P from the eigenvectors of W, if W may be
    any matrix. If eigenvectors are too close to each other, as those of a defective matrix, or if
    the moduli are clamped, it raises `NotInSetError`: assign a Schur basis of W to P first.

    Args:
        size: The number N of rows and columns; even.
        gamma_penalty: :math:`\delta`; the paper tunes it to 1e-4 (copying; Penn Treebank with 300
            steps), 0.1 (permuted MNIST) and 1 (Penn Treebank with 150 steps).
        gamma: ``"trained"``, or ``"clamped"`` at `gamma_value`.
        gamma_value: The initial or clamped value of every :math:`\gamma_i`; positive.
        orthogonal: A function of the size that returns the constraint of P; `Exponential` by
            default.
    Shape:
        P: a constraint, with raw parameters of its own.
        theta: :math:`(N / 2,)`.
        gamma: as theta; a parameter only if trained.
        triangle: the entries of T, row by row:
        :math:`(N (N - 1) / 2,)`.
    Units:
        Angles in radians; all else dimensionless.
    Raises:
        ValueError: If `size` is odd, `gamma` is unknown, `gamma_value` is not positive and finite,
            `gamma_penalty` is negative, or P is not orthogonal.
        TypeError: If `orthogonal` does not return a `Constraint`.
    Source:
        Kerg et al., NeurIPS 2019, equation 5. https://arxiv.org/abs/1905.12080 (departures: none.
        The code multiplies rows by a W with T strictly upper triangular: the transpose of this W
        with the signs of all :math:`\theta_i` changed, and so the same network).
    Example:
        >>> W = Schur(8, gamma="clamped")()
        >>> torch.allclose(torch.linalg.eigvals(W).abs(), torch.ones(8), atol=1e-5)
        True
    """

    gamma: Tensor

    tensor_attributes = ("entry_indices",)

    def __init__(
        self,
        size: int,
        *,
        gamma_penalty: float = 1.0,
        gamma: Literal["trained", "clamped"] = "trained",
        gamma_value: float = 1.0,
        orthogonal: Callable[[int], Constraint] | None = None,
    ) -> None:
        super().__init__(size)
        if size % 2 == 1:
            raise ValueError(f"expected an even size, as rotations turn planes, got {size}")
        if gamma not in ("trained", "clamped"):
            raise ValueError(f"expected gamma to be 'trained' or 'clamped', got {gamma!r}")
        check_positive("gamma_value", gamma_value)
        check_not_negative("gamma_penalty", gamma_penalty)
        self.gamma_penalty = gamma_penalty
        self.trained = gamma == "trained"
        self.gamma_value = gamma_value
        # by the Schur decomposition, trained moduli and free entries reach every matrix
        self.constrained = not self.trained
        self.P = make_constraint(orthogonal or Exponential, size)
        if self.P.is_complex or not _is_orthogonal(self.P):
            raise ValueError(f"expected P from a set of orthogonal matrices, got {self.P}")
        moduli = torch.empty(size // 2)
        rows, columns = torch.tril_indices(size, size, offset=-1, device="cpu")
        self.entry_indices = rows * size + columns
        self.theta = Parameter(moduli.clone())
        if self.trained:
            self.gamma = Parameter(moduli)
        else:
            self.register_buffer("gamma", moduli)
        self.triangle = Parameter(torch.empty(len(self.entry_indices)))
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        self.P.reset(generator)
        self.theta.uniform_(0, 2 * math.pi, generator=generator)
        if self.trained:
            self.gamma.fill_(self.gamma_value)
        else:
            exact = torch.full(
                self.gamma.shape, self.gamma_value, dtype=torch.float64, device="cpu"
            )
            self.register_constant("gamma", exact, self.theta, persistent=True)
        self.triangle.zero_()

    def recurrent_parameters(self) -> Iterator[Parameter]:
        return self.P.recurrent_parameters()  # the paper trains the others like all other weights

    def penalty(self) -> Tensor:
        penalty = self.P.penalty()
        if self.trained:  # clamped moduli have no gradient
            penalty = penalty + self.gamma_penalty * (1 - self.gamma).square().sum()
        return penalty

    def residual(self, W: Tensor) -> float:
        r"""Measure how far W is from the set, in double precision.

        .. math:: \min_\Theta \; \|P^\top W P - \Theta\|_F \;/\; \max(1, \|W\|_F / \sqrt N)

        with the P of the raw parameters: an upper bound on the distance from the set. A W of the
        set with another Schur basis may get a large residual; the module's own W never does.
        """
        self._check_shape(W)
        if not self.constrained:
            return 0.0
        exact = self._exact(W)
        P = self._own_basis()
        Theta = P.mT @ exact @ P
        return self._norm(Theta - self._form(*self._nearest_form(Theta)), exact)

    def _matrix(self) -> Tensor:
        P = self.P()
        return P @ self._form(self.gamma, self.theta, self.triangle) @ P.mT

    def _form(self, gamma: Tensor, theta: Tensor, entries: Tensor) -> Tensor:  # (N, N)
        indices = self.entry_indices.to(entries.device)
        T = entries.new_zeros(self.size**2).index_put((indices,), entries)
        return planar_rotation(gamma, theta) + T.view(self.size, self.size)

    def _nearest_form(self, Theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return gamma, theta and the entries of T of the form nearest to Theta, or nearly."""
        diagonal = Theta.diagonal()
        # x and y stand for gamma cos(theta) and gamma sin(theta) of each plane
        x = (diagonal[::2] + diagonal[1::2]) / 2
        # the entry of T inside a block takes the place below, so only the one above counts
        y = -Theta.diagonal(1)[::2]
        gamma = torch.hypot(x, y) if self.trained else self.gamma.to(x)
        theta = torch.atan2(y, x)
        T = Theta - planar_rotation(gamma, theta)
        return gamma, theta, T.flatten()[self.entry_indices.to(T.device)]

    def _bases(self, W: Tensor) -> Iterator[Tensor]:
        """Yield candidates for the P of the Schur form of W, the current P first."""
        own = self._own_basis()
        yield own
        if self.constrained:
            return
        I = torch.eye(self.size, dtype=W.dtype, device=W.device)
        # the axes are exact for triangular matrices, also for defective ones
        for basis in (I, I.flip(1), real_schur_basis(W)):
            # a form has equal entries on the diagonal of each block, and T inside it is free
            basis = equalise_diagonals(basis, W)  # noqa: PLW2901
            # the signs of its columns are free; choose those nearest to the current P
            products = (basis * own).sum(0)
            basis = basis * torch.where(products == 0, 1, products.sgn())  # noqa: PLW2901
            # Then with a few signs changed, as P may not reach the first choice, for instance
            # because of its determinant. The least certain signs change first.
            for j in products.abs().argsort()[:4].tolist():
                yield basis
                basis[:, j] *= -1

    @torch.no_grad()
    def _own_basis(self) -> Tensor:  # (N, N)
        return polar_step(self._exact(self.P()))

    def _assign(self, W: Tensor) -> None:
        exact = self._exact(W)
        least = math.inf
        for k, basis in enumerate(self._bases(exact)):
            # on a copy, so that a failure leaves the parameters as they are
            clone = copy.deepcopy(self)
            if k > 0:  # the first basis is the current P
                try:
                    clone.P.assign(basis)
                except NotInSetError:  # its map does not reach the basis
                    continue
            least = min(least, clone._set(exact))  # noqa: SLF001, of the same class
            if least <= self.tolerance:
                self.load_state_dict(clone.state_dict())
                return
        hint = (
            f"its eigenvectors are too close to each other, or out of reach of {self.P}; if you "
            "know a Schur basis of it, assign that to P first"
        )
        raise NotInSetError(type(self).__name__, least, self.tolerance, hint)

    def _set(self, W: Tensor) -> float:
        """Set all parameters but P from W, and return the distance of the result from W."""
        P = self._exact(self.P())
        gamma, theta, entries = self._nearest_form(P.mT @ W @ P)
        self.gamma.copy_(gamma)
        self.theta.copy_(theta)
        self.triangle.copy_(entries)
        return self._norm(self() - W, W)

    def _exact(self, W: Tensor) -> Tensor:
        return W.detach().double()

    def _norm(self, difference: Tensor, W: Tensor) -> float:
        # rounding grows with W; an orthogonal W has the size one
        size = float(torch.linalg.matrix_norm(W)) / math.sqrt(self.size)
        return float(torch.linalg.matrix_norm(difference)) / max(1.0, size)

    def extra_repr(self) -> str:
        options = f"{self.size}, gamma='trained'"
        if not self.trained:
            options = f"{self.size}, gamma='clamped', gamma_value={self.gamma_value}"
        return options


@torch.no_grad()
def _is_orthogonal(P: Constraint) -> bool:
    # tensors on the meta device have no values
    return P.device.type == "meta" or orthogonality_error(P()) <= P.tolerance


def real_schur_basis(
    W: Tensor,  # (N, N), real, N even
) -> Tensor:  # (N, N)
    """Return an orthogonal P for which P^T W P is lower triangular in blocks of 2 x 2."""
    check_finite(W)
    eigenvalues, X = torch.linalg.eig(W)
    # one of each conjugate pair: real and imaginary part of its vector span the plane of both
    upper = eigenvalues.imag > 0
    single = eigenvalues.imag == 0
    z = X[:, upper]
    r = X[:, single].real
    planes = torch.cat([torch.view_as_real(z).flatten(1), r], dim=1)
    Q, _ = torch.linalg.qr(planes)
    return Q.unflatten(1, (-1, 2)).flip(1).flatten(1)


def equalise_diagonals(
    P: Tensor,  # (N, N)
    W: Tensor,  # (N, N)
) -> Tensor:  # (N, N)
    """Rotate the pairs of columns of P until the diagonal entries of each block are equal."""
    first, second = P.unflatten(1, (-1, 2)).unbind(2)
    # The blocks [[a + d, e - k], [e + k, a - d]] of P^T W P. Rotating the plane by an angle leaves
    # a and k as they are, and turns (d, e), of length h, by twice the angle: here to d = 0.
    upper_left = (first * (W @ first)).sum(0)
    upper_right = (first * (W @ second)).sum(0)
    lower_left = (second * (W @ first)).sum(0)
    lower_right = (second * (W @ second)).sum(0)
    d = (upper_left - lower_right) / 2
    e = (lower_left + upper_right) / 2
    angle = (torch.atan2(e, d) - math.pi / 2) / 2
    c = torch.cos(angle)
    s = torch.sin(angle)
    return torch.stack([c * first + s * second, c * second - s * first], dim=2).flatten(1)
