"""Matrices in Schur form: rotations of planes, and a triangular part between the planes."""

import copy
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, TypeAlias

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint, make_constraint, real_type
from eigenrnn.constraints.exponential import Exponential
from eigenrnn.constraints.scaled_cayley import ScaledCayley
from eigenrnn.errors import NotInSetError, check_not_negative
from eigenrnn.linalg import (
    check_finite,
    double_precision,
    orthogonality_error,
    planar_rotation,
    polar_step,
)

__all__ = ["Schur", "complex_schur_basis", "equalise_diagonals", "real_schur_basis"]

_Defect: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


class Schur(Constraint):
    r"""Matrices in Schur form whose eigenvalues have moduli near one.

    .. math:: W = P \Theta P^*, \qquad P^* P = I, \qquad
        \Theta = \begin{bmatrix} \gamma_1 R(\theta_1) & & \\ & \gamma_2 R(\theta_2) & \\
        & & \ddots \end{bmatrix} + T, \qquad
        R(\theta) = \begin{bmatrix} \cos \theta & -\sin \theta \\
        \sin \theta & \cos \theta \end{bmatrix} \quad \text{or} \quad e^{i \theta}

    with T strictly lower triangular. The moduli are trained, with the penalty
    :math:`\delta \sum_i (1 - \gamma_i)^2` that pulls them to one, or clamped. With T = 0 and all
    moduli one, W is orthogonal (of determinant 1) or unitary. T makes W non-normal: states may
    grow polynomially for a while, even if all moduli are at most one.

    For a real W, T has an entry t in each 2 x 2 block, as in the paper. The eigenvalues of a block
    then have the modulus :math:`|\gamma^2 + \gamma t \sin \theta|^{1/2}` or are real. So
    :math:`\gamma` does not fix the spectrum, and W may be any matrix if :math:`\gamma` is trained.
    Without that entry, and in the complex form, which the paper leaves to future work, the moduli
    are :math:`|\gamma_i|`.

    `assign` computes P from the eigenvectors of W, unless the current P fits. If eigenvectors are
    too close to each other, as those of a defective matrix, it raises `NotInSetError`. If you know
    a Schur basis of W, assign it to P first.

    Args:
        size: The number N of rows and columns; even, unless W is complex.
        gamma_penalty: :math:`\delta`; the paper tunes it to 1e-4 (copying; Penn Treebank with 300
            steps), 0.1 (permuted MNIST) and 1 (Penn Treebank with 150 steps).
        decay: The factor of :math:`\|T\|_F^2 / 2` in the penalty. The paper's code uses the weight
            decay of its optimiser instead. With RMSprop, which rescales gradients, the two differ.
            For weight decay, put `triangle` in a parameter group with `weight_decay`.
        gamma: ``"trained"``, or ``"clamped"`` at `gamma_value`.
        gamma_value: The initial or clamped value of every :math:`\gamma_i`; positive.
        in_block: Whether T of a real W has entries inside the 2 x 2 blocks; True by default.
        orthogonal: A function of the size that returns the constraint of P; by default
            `Exponential`, or the complex `ScaledCayley`.
        dtype: The type of W, such as `torch.complex64`; torch's default real type by default.
    Shape:
        P: a constraint, with raw parameters of its own.
        theta: :math:`(N / 2,)`; :math:`(N,)` if W is complex.
        gamma: as theta; a parameter only if trained.
        triangle: the entries of T, row by row, their real parts if W is complex:
        :math:`(N (N - 1) / 2,)`, less :math:`N / 2` without entries inside the blocks.
        imaginary: as triangle, their imaginary parts; only if W is complex.
    Units:
        Angles in radians; all else dimensionless.
    Raises:
        ValueError: If `size` is odd for a real W, `in_block` is set for a complex W, `gamma` is
            unknown, `gamma_value` is not positive and finite, a weight is negative, `dtype` has
            less than float32 precision, or P is not orthogonal for a real W or unitary for a
            complex one.
        TypeError: If `orthogonal` does not return a `Constraint`.
    Source:
        Kerg et al., NeurIPS 2019, equation 5. https://arxiv.org/abs/1905.12080 (departures: none.
        The code multiplies rows by a W with T strictly upper triangular: the transpose of this W
        with the signs of all :math:`\theta_i` changed, and so the same network).
    Example:
        >>> W = Schur(8, gamma="clamped", in_block=False)()
        >>> torch.allclose(torch.linalg.eigvals(W).abs(), torch.ones(8), atol=1e-5)
        True
    """

    gamma: Tensor
    imaginary: Parameter

    tensor_attributes = ("entry_indices",)

    def __init__(
        self,
        size: int,
        *,
        gamma_penalty: float = 1.0,
        decay: float = 0.0,
        gamma: Literal["trained", "clamped"] = "trained",
        gamma_value: float = 1.0,
        in_block: bool | None = None,
        orthogonal: Callable[[int], Constraint] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(size)
        real = real_type(dtype)
        self.is_complex = dtype is not None and dtype.is_complex
        _check(size, self.is_complex, gamma, gamma_value, in_block)
        check_not_negative("gamma_penalty", gamma_penalty)
        check_not_negative("decay", decay)
        self.gamma_penalty = gamma_penalty
        self.decay = decay
        self.trained = gamma == "trained"
        self.gamma_value = gamma_value
        self.in_block = not self.is_complex and in_block is not False
        # By the Schur decomposition, trained moduli and free entries reach every matrix. Without
        # entries inside the blocks a real block is normal, which remains a constraint.
        self.constrained = not self.trained or not (self.is_complex or self.in_block)
        if orthogonal is None:
            orthogonal = partial(ScaledCayley, dtype=dtype) if self.is_complex else Exponential
        self.P = make_constraint(orthogonal, size).to(real)
        if self.P.is_complex != self.is_complex or not _is_unitary(self.P):
            kind = "unitary" if self.is_complex else "orthogonal"
            raise ValueError(
                f"expected P from a set of {kind} matrices, got {self.P}; omit `orthogonal`"
            )
        moduli = torch.empty(size if self.is_complex else size // 2, dtype=real)
        self.entry_indices = _entry_indices(size, self.is_complex or self.in_block)
        self.theta = Parameter(moduli.clone())
        if self.trained:
            self.gamma = Parameter(moduli)
        else:
            self.register_buffer("gamma", moduli)
        self.triangle = Parameter(torch.empty(len(self.entry_indices), dtype=real))
        if self.is_complex:
            self.imaginary = Parameter(torch.empty(len(self.entry_indices), dtype=real))
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
        if self.is_complex:
            self.imaginary.zero_()

    def recurrent_parameters(self) -> Iterator[Parameter]:
        return self.P.recurrent_parameters()  # the paper trains the others like all other weights

    def penalty(self) -> Tensor:
        penalty = self.P.penalty()
        if self.trained:  # clamped moduli have no gradient
            penalty = penalty + self.gamma_penalty * (1 - self.gamma).square().sum()
        return penalty + self.decay * self._entries().abs().square().sum() / 2

    def residual(self, W: Tensor) -> float:
        r"""Measure how far W is from the set, in double precision.

        .. math:: \min_P \min_\Theta \; \|P^* W P - \Theta\|_F \;/\; \max(1, \|W\|_F / \sqrt N)

        The minimum over P is taken over a few candidates only: the basis of the raw parameters,
        the coordinate axes, and the Schur basis of W whose blocks fit best. The result is
        therefore an upper bound on the distance from the set. Eigenvalues are not compared,
        because those of a highly non-normal W are much more sensitive than W itself. The Schur
        basis is sensitive too, so another W of the set may get a large residual. The module's own
        W never does.
        """
        self._check_shape(W)
        if not self.constrained:
            return 0.0
        exact = self._exact(W)
        least = math.inf
        for P in self._bases(exact):
            Theta = P.mH @ exact @ P
            gamma, theta, entries = self._nearest_form(Theta)
            nearest = self._form(gamma, theta, entries)
            least = min(least, self._norm(Theta - nearest, exact))
            if least <= self.tolerance:  # W is in the set, and further bases cost more
                break
        return least

    def _matrix(self) -> Tensor:
        P = self.P()
        return P @ self._form(self.gamma, self.theta, self._entries()) @ P.mH

    def _entries(self) -> Tensor:
        if not self.is_complex:
            return self.triangle
        return torch.complex(self.triangle, self.imaginary)

    def _form(self, gamma: Tensor, theta: Tensor, entries: Tensor) -> Tensor:  # (N, N)
        indices = self.entry_indices.to(entries.device)
        T = entries.new_zeros(self.size**2).index_put((indices,), entries)
        return self._diagonal(gamma, theta) + T.view(self.size, self.size)

    def _diagonal(self, gamma: Tensor, theta: Tensor) -> Tensor:  # (N, N)
        if self.is_complex:
            return torch.diag(gamma * torch.exp(1j * theta))
        return planar_rotation(gamma, theta)

    def _nearest_form(self, Theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return gamma, theta and the entries of T of the form nearest to Theta, or nearly."""
        diagonal = Theta.diagonal()
        # x and y stand for gamma cos(theta) and gamma sin(theta) of each plane
        if self.is_complex:
            x = diagonal.real
            y = diagonal.imag
        else:
            above = Theta.diagonal(1)[::2]
            below = Theta.diagonal(-1)[::2]
            x = (diagonal[::2] + diagonal[1::2]) / 2
            # the entry of T inside a block takes the place below, so only the one above counts
            y = -above if self.in_block else (below - above) / 2
        gamma = torch.hypot(x, y) if self.trained else self.gamma.to(x)
        theta = torch.atan2(y, x)
        T = Theta - self._diagonal(gamma, theta)
        return gamma, theta, T.flatten()[self.entry_indices.to(T.device)]

    def _bases(self, W: Tensor) -> Iterator[Tensor]:
        """Yield candidates for the P of the Schur form of W, the current P first."""
        with torch.no_grad():
            own = polar_step(self._exact(self.P()))
        yield own
        I = torch.eye(self.size, dtype=W.dtype, device=W.device)
        # the axes are exact for triangular matrices, also for defective ones
        for basis in (I, I.flip(1), self._schur_basis(W)):
            if self.in_block:
                # a form has equal entries on the diagonal of each block, and T inside it is free
                gamma = None if self.trained else self.gamma.to(W)
                basis = equalise_diagonals(basis, W, gamma)  # noqa: PLW2901
            # the phases of its columns are free; choose those nearest to the current P
            products = (basis.conj() * own).sum(0)
            basis = basis * torch.where(products == 0, 1, products.sgn())  # noqa: PLW2901
            # Then with a few signs changed, as P may not reach the first choice, for instance
            # because of its determinant. The least certain signs change first.
            for j in products.abs().argsort()[:4].tolist():
                yield basis
                basis[:, j] *= -1

    def _schur_basis(self, W: Tensor) -> Tensor:  # (N, N)
        if not self.is_complex:
            return real_schur_basis(W, self._defect if self.constrained else None)
        if self.trained:
            return complex_schur_basis(W)
        return complex_schur_basis(W, self.gamma_value)

    def _defect(self, a: Tensor, k: Tensor, h: Tensor) -> Tensor:
        """Return the distance of a 2 x 2 block from an allowed one, for `real_schur_basis`."""
        if self.in_block:
            # the upper row of a form is gamma (cos, -sin); either row may become the upper one
            rows = torch.stack([torch.hypot(a, h - k), torch.hypot(a, h + k)])
            return (rows - self.gamma_value).abs().amin(0)
        if self.trained:
            return h  # a multiple of a rotation is normal
        return torch.hypot(h, torch.hypot(a, k) - self.gamma_value)

    def _assign(self, W: Tensor) -> None:
        exact = self._exact(W)
        least = math.inf
        for k, basis in enumerate(self._bases(exact)):
            # on a copy, so that a failure leaves the parameters as they are
            clone = copy.deepcopy(self)
            if k > 0 and not _reaches(clone.P, basis):  # the first basis is the current P
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
        gamma, theta, entries = self._nearest_form(P.mH @ W @ P)
        self.gamma.copy_(gamma)
        self.theta.copy_(theta)
        self.triangle.copy_(entries.real)
        if self.is_complex:
            self.imaginary.copy_(entries.imag)
        return self._norm(self() - W, W)

    def _exact(self, W: Tensor) -> Tensor:
        return W.detach().to(double_precision(self.dtype))

    def _norm(self, difference: Tensor, W: Tensor) -> float:
        # rounding grows with W; an orthogonal W has the size one
        size = float(torch.linalg.matrix_norm(W)) / math.sqrt(self.size)
        return float(torch.linalg.matrix_norm(difference)) / max(1.0, size)

    def extra_repr(self) -> str:
        options = f"{self.size}, gamma='trained'"
        if not self.trained:
            options = f"{self.size}, gamma='clamped', gamma_value={self.gamma_value}"
        if self.is_complex:
            return f"{options}, dtype={self.dtype}"
        return f"{options}, in_block={self.in_block}"


def _check(
    size: int, is_complex: bool, gamma: str, gamma_value: float, in_block: bool | None
) -> None:
    """Check the options, alone and together.

    Raises:
        ValueError: If one is out of range, or two exclude each other.
    """
    if is_complex and in_block is not None:
        raise ValueError(f"expected no in_block where W is complex, got {in_block}")
    if size % 2 == 1 and not is_complex:
        raise ValueError(
            f"expected an even size, as rotations turn planes, got {size}; use {size + 1}, or the "
            f"complex set Schur({size}, dtype=torch.complex64), in a layer RNN(..., "
            "constraint=partial(Schur, dtype=torch.complex64))"
        )
    if gamma not in ("trained", "clamped"):
        raise ValueError(f"expected gamma to be 'trained' or 'clamped', got {gamma!r}")
    if not 0 < gamma_value < math.inf:
        raise ValueError(
            f"expected gamma_value to be positive and finite, got {gamma_value}; use 1"
        )


def _entry_indices(n: int, in_block: bool) -> Tensor:
    """Return the flat indices of the entries of T in an n x n matrix."""
    rows, columns = torch.tril_indices(n, n, offset=-1, device="cpu")
    indices = rows * n + columns
    if in_block:
        return indices
    return indices[rows // 2 != columns // 2]


@torch.no_grad()
def _is_unitary(P: Constraint) -> bool:
    # tensors on the meta device have no values
    return P.device.type == "meta" or orthogonality_error(P()) <= P.tolerance


def _reaches(P: Constraint, basis: Tensor) -> bool:
    """Try to assign a basis to P, and return whether its map reaches it."""
    try:
        P.assign(basis)
    except NotInSetError:
        return False
    return True


def complex_schur_basis(
    W: Tensor,  # (N, N), complex
    modulus: float | None = None,
) -> Tensor:  # (N, N)
    """Return a unitary P for which P* W P is lower triangular; inexact for close eigenvectors.

    With a `modulus`, return the P of the nearest matrix whose eigenvalues all have that modulus:
    rounding changes eigenvalues, and thereby their basis, much more than it changes W.
    """
    check_finite(W)
    near = W
    newton_steps = 0 if modulus is None else 3
    for _ in range(newton_steps):
        eigenvalues, X = torch.linalg.eig(near)
        # G_j = V_j X_j* is the gradient of the modulus of eigenvalue j; take the least joint step
        V = torch.linalg.inv_ex(X)[0].mH * eigenvalues.sgn()
        if not bool(torch.isfinite(V).all()):
            break
        products = ((V.mH @ V) * (X.mH @ X).T).real
        excess = (eigenvalues.abs() - modulus).unsqueeze(1)
        steps = torch.linalg.lstsq(products, excess).solution
        near = near - (V * steps.T) @ X.mH  # Newton's method
        check_finite(near, "a matrix near W")
    # QR of the eigenvectors: the first k columns of Q span what the first k eigenvectors span
    _, eigenvectors = torch.linalg.eig(near)
    Q, _ = torch.linalg.qr(eigenvectors)
    return Q.flip(1)  # a lower triangular W has its invariant vector last


def real_schur_basis(
    W: Tensor,  # (N, N), real, N even
    defect: _Defect | None = None,
) -> Tensor:  # (N, N)
    r"""Return an orthogonal P for which P^T W P is lower triangular in blocks of 2 x 2.

    Up to a rotation or a reflection of its plane, a pair of eigenvalues has the block

    .. math:: a I + \begin{bmatrix} 0 & h - k \\ h + k & 0 \end{bmatrix}, \qquad h, k \ge 0

    The eigenvalues determine :math:`a` and :math:`h^2 - k^2`. The departure h from normality
    depends on the pairs in the blocks after it, so the order of the pairs matters.

    Args:
        W: The matrix.
        defect: The distance of a block from an allowed one, as a function of a, k and h. From the
            last block to the first, the pair with the least defect is chosen. By default the order
            is arbitrary.
    """
    check_finite(W)
    eigenvalues, X = torch.linalg.eig(W)
    # one of each conjugate pair: real and imaginary part of its vector span the plane of both
    upper = eigenvalues.imag > 0
    single = eigenvalues.imag == 0
    z = X[:, upper]
    r = X[:, single].real
    if defect is None:
        planes = torch.cat([torch.view_as_real(z).flatten(1), r], dim=1)
    else:
        ordered = _order_planes(eigenvalues[upper], z, eigenvalues[single].real, r, defect)
        planes = torch.cat(ordered, dim=1)
    Q, _ = torch.linalg.qr(planes)
    return Q.unflatten(1, (-1, 2)).flip(1).flatten(1)


def _order_planes(
    pairs: Tensor,  # (K,)
    z: Tensor,  # (N, K)
    reals: Tensor,  # (N - 2 K,)
    r: Tensor,  # (N, N - 2 K)
    defect: _Defect,
) -> list[Tensor]:  # (N, 2) each
    """Return the invariant planes, each with the least defect among the remaining ones."""
    planes: list[Tensor] = []
    while len(planes) < len(z) // 2:
        # for eigenvalues 2 s or 2 s i apart, h or k is s times the cotangent of an angle
        t = pairs.imag * _cotangent((z * z).sum(0).abs() / (z.abs() ** 2).sum(0))
        of_pairs = defect(pairs.real, torch.hypot(t, pairs.imag), t)
        i, j = torch.triu_indices(len(reals), len(reals), offset=1, device=r.device)
        s = (reals[i] - reals[j]).abs() / 2
        unit = r / torch.linalg.vector_norm(r, dim=0)
        t = s * _cotangent((unit.T @ unit)[i, j].abs())
        of_reals = defect((reals[i] + reals[j]) / 2, t, torch.hypot(t, s))
        best = int(torch.cat([of_pairs, of_reals]).nan_to_num(math.inf).argmin())
        if best < len(pairs):
            plane = torch.view_as_real(z[:, best])
            pairs = _drop(pairs, best)
            z = _drop(z, best)
        else:
            low = int(i[best - len(pairs)])
            high = int(j[best - len(pairs)])
            plane = r[:, [low, high]]
            # the higher index first, as dropping the lower one would shift it
            reals = _drop(_drop(reals, high), low)
            r = _drop(_drop(r, high), low)
        Q, _ = torch.linalg.qr(plane)
        planes.append(Q)
        # what remains acts on the orthogonal complement of the planes so far
        z = z - Q.to(z) @ (Q.T.to(z) @ z)
        r = r - Q @ (Q.T @ r)
    return planes


def _drop(each: Tensor, k: int) -> Tensor:
    return torch.cat([each[..., :k], each[..., k + 1 :]], dim=-1)


def _cotangent(cosine: Tensor) -> Tensor:
    return cosine / (1 - cosine**2).clamp(min=0).sqrt()


def equalise_diagonals(
    P: Tensor,  # (N, N)
    W: Tensor,  # (N, N)
    gamma: Tensor | None = None,  # (N / 2,)
) -> Tensor:  # (N, N)
    """Rotate the pairs of columns of P until the diagonal entries of each block are equal.

    Of the two solutions, return the one whose first row has a length closer to `gamma`.
    """
    first, second = P.unflatten(1, (-1, 2)).unbind(2)
    # The blocks [[a + d, e - k], [e + k, a - d]] of P^T W P. Rotating the plane by an angle leaves
    # a and k as they are, and turns (d, e), of length h, by twice the angle: here to d = 0.
    upper_left = (first * (W @ first)).sum(0)
    upper_right = (first * (W @ second)).sum(0)
    lower_left = (second * (W @ first)).sum(0)
    lower_right = (second * (W @ second)).sum(0)
    a = (upper_left + lower_right) / 2
    d = (upper_left - lower_right) / 2
    e = (lower_left + upper_right) / 2
    k = (lower_left - upper_right) / 2
    h = torch.hypot(d, e)
    up = torch.ones_like(h)
    if gamma is not None:
        # e becomes h or -h, and the first row (a, e - k)
        error_of_h = (torch.hypot(a, h - k) - gamma).abs()
        error_of_minus_h = (torch.hypot(a, -h - k) - gamma).abs()
        up = torch.where(error_of_h <= error_of_minus_h, 1.0, -1.0).to(h)
    angle = (torch.atan2(e, d) - up * math.pi / 2) / 2
    c = torch.cos(angle)
    s = torch.sin(angle)
    return torch.stack([c * first + s * second, c * second - s * first], dim=2).flatten(1)
