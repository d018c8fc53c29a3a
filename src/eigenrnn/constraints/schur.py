"""Matrices given by their Schur form: rotations in planes, and what leads between them."""

import copy
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint, make_constraint, real_type
from eigenrnn.constraints.exponential import Exponential
from eigenrnn.constraints.scaled_cayley import ScaledCayley
from eigenrnn.constraints.schur_basis import complex_schur_basis, level, real_schur_basis
from eigenrnn.errors import NotInSetError, check_not_negative
from eigenrnn.linalg import orthogonality_error, planar_rotation, polar_step

__all__ = ["Schur"]


class Schur(Constraint):
    r"""Matrices by their Schur form, whose eigenvalues have moduli that are held near one.

    .. math:: W = P \Theta P^*, \qquad P^* P = I, \qquad
        \Theta = \begin{bmatrix} \gamma_1 R(\theta_1) & & \\ & \gamma_2 R(\theta_2) & \\
        & & \ddots \end{bmatrix} + T, \qquad
        R(\theta) = \begin{bmatrix} \cos \theta & -\sin \theta \\
        \sin \theta & \cos \theta \end{bmatrix} \quad \text{or} \quad e^{i \theta}

    with T strictly lower triangular. The moduli are trained and drawn to one by the penalty
    :math:`\delta \sum_i (1 - \gamma_i)^2`, or clamped. At T = 0 and moduli of one W is orthogonal
    (of determinant 1) or unitary; T makes it non-normal, so that states may grow for a while,
    polynomially, though no eigenvalue does.

    T of a real W reaches into the blocks, as in the paper, whose eigenvalues then have the modulus
    :math:`|\gamma^2 + \gamma t \sin \theta|^{1/2}` or are real: :math:`\gamma` does not pin the
    spectrum, and W may be any matrix if :math:`\gamma` is trained. Without that entry, and in the
    complex form, which the paper leaves to future work, :math:`|\gamma_i|` are the moduli.

    Args:
        size: The number N of rows and columns; even, unless W is complex.
        gamma_penalty: :math:`\delta`; the paper tunes it to 1e-4 (copying; Penn Treebank with 300
            steps), 0.1 (permuted MNIST) and 1 (Penn Treebank with 150 steps).
        decay: Times :math:`\|T\|_F^2 / 2` this is added to the penalty. The paper's code has its
            optimiser decay T instead, which is not the same where gradients are rescaled, as by
            RMSprop: for that give `triangle` a parameter group of its own, with `weight_decay`.
        gamma: ``"trained"``, or ``"clamped"`` at `gamma_value`.
        gamma_value: Where every :math:`\gamma_i` starts or stays; positive.
        in_block: Whether T of a real W has entries inside of the 2 x 2 blocks; it has by default.
        orthogonal: A function of the size that makes the constraint of P: `Exponential` by
            default, or the complex `ScaledCayley`.
        dtype: The type of W, such as `torch.complex64`; torch's default real type by default.
    Shape:
        P: a constraint, with raw parameters of its own.
        theta: :math:`(N / 2,)`; :math:`(N,)` where W is complex.
        gamma: as theta; a parameter only if trained.
        triangle: the entries of T, row by row, their real parts where W is complex:
        :math:`(N (N - 1) / 2,)`, less :math:`N / 2` if none are inside of the blocks.
        imaginary: as triangle, their imaginary parts; only where W is complex.
    Units:
        Angles in radians; all else dimensionless.
    Raises:
        ValueError: If `size` is odd or `in_block` given where it cannot be, `gamma` is unknown,
            `gamma_value` not positive and finite, a weight negative, `dtype` of less than float32
            precision, or P neither orthogonal nor unitary, or of another type than W.
        TypeError: If `orthogonal` does not make a `Constraint`.
    Source:
        Kerg et al., NeurIPS 2019, equation 5. https://arxiv.org/abs/1905.12080 (departures: none.
        The code multiplies rows by W with T strictly upper triangular, which is the transpose of
        this with the signs of all :math:`\theta_i` changed, and so the same network).
    Example:
        >>> W = Schur(8, gamma="clamped", in_block=False)()
        >>> torch.allclose(torch.linalg.eigvals(W).abs(), torch.ones(8), atol=1e-5)
        True
    """

    gamma: Tensor
    imaginary: Parameter

    unregistered = ("places",)

    def __init__(  # noqa: PLR0913, every part of the formula
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
        self.constrained = not self.trained or not (self.is_complex or self.in_block)
        default = partial(ScaledCayley, dtype=dtype) if self.is_complex else Exponential
        self.P = make_constraint(orthogonal or default, size).to(real)
        if self.P.is_complex != self.is_complex or not _is_unitary(self.P):
            kind = "unitary" if self.is_complex else "orthogonal"
            raise ValueError(
                f"expected P from a set of {kind} matrices, got {self.P}; leave `orthogonal` out"
            )
        moduli = torch.empty(size if self.is_complex else size // 2, dtype=real)
        self.places = _places(size, self.is_complex or self.in_block)
        self.theta = Parameter(moduli.clone())
        if self.trained:
            self.gamma = Parameter(moduli)
        else:
            self.register_buffer("gamma", moduli)
        self.triangle = Parameter(torch.empty(len(self.places), dtype=real))
        if self.is_complex:
            self.imaginary = Parameter(torch.empty(len(self.places), dtype=real))
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        self.P.reset(generator)
        self.theta.uniform_(0, 2 * math.pi, generator=generator)
        self.gamma.fill_(self.gamma_value)
        self.triangle.zero_()
        if self.is_complex:
            self.imaginary.zero_()

    def recurrent_parameters(self) -> Iterator[Parameter]:
        return self.P.recurrent_parameters()  # the paper trains the rest with all other weights

    def penalty(self) -> Tensor:
        moduli = self.gamma_penalty * (1 - self.gamma).square().sum() if self.trained else 0
        return self.P.penalty() + moduli + self.decay * self._entries().abs().square().sum() / 2

    def residual(self, W: Tensor) -> float:
        r"""Measure how far W is from the set, in double precision.

        .. math:: \min_P \min_\Theta \; \|P^* W P - \Theta\|_F \;/\; \max(1, \|W\|_F / \sqrt N)

        P runs over a few bases: that of the raw parameters, the axes, and the one of the Schur
        form of W whose blocks suit best. The distance from the set is no larger. No eigenvalues
        are compared, which move much further than W does where W is far from normal. Of such a W
        the basis is blurred too, so that one of the set may be refused, though not one's own.
        """
        if not self.constrained:
            return 0.0
        exact, least = self._exact(W), math.inf
        for P in self._bases(exact):
            Theta = P.mH @ exact @ P
            least = min(least, self._norm(Theta - self._form(*self._read(Theta)), exact))
            if least <= self.tolerance:
                break
        return least

    def _matrix(self) -> Tensor:
        P = self.P()
        return P @ self._form(self.gamma, self.theta, self._entries()) @ P.mH

    def _entries(self) -> Tensor:
        return torch.complex(self.triangle, self.imaginary) if self.is_complex else self.triangle

    def _form(self, gamma: Tensor, theta: Tensor, entries: Tensor) -> Tensor:  # (N, N)
        T = entries.new_zeros(self.size**2).index_put((self.places.to(entries.device),), entries)
        return self._diagonal(gamma, theta) + T.view(self.size, self.size)

    def _diagonal(self, gamma: Tensor, theta: Tensor) -> Tensor:  # (N, N)
        if self.is_complex:
            return torch.diag(gamma * torch.exp(1j * theta))
        return planar_rotation(gamma, theta)

    def _read(self, Theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gamma, theta and entries of T of a form that is as near as any, or nearly."""
        diagonal, above, below = (Theta.diagonal(k) for k in (0, 1, -1))
        if self.is_complex:
            x, y = diagonal.real, diagonal.imag
        else:
            x = (diagonal[::2] + diagonal[1::2]) / 2
            y = -above[::2] if self.in_block else (below[::2] - above[::2]) / 2
        gamma = torch.hypot(x, y) if self.trained else self.gamma.to(x)
        theta = torch.atan2(y, x)
        T = Theta - self._diagonal(gamma, theta)
        return gamma, theta, T.flatten()[self.places.to(T.device)]

    def _bases(self, W: Tensor) -> Iterator[Tensor]:
        """Yield unitary matrices that may bring W to its lower Schur form, the present P first."""
        with torch.no_grad():
            own = polar_step(self._exact(self.P()))
        yield own
        I = torch.eye(self.size, dtype=W.dtype, device=W.device)
        for P in (I, I.flip(1), self._schur_basis(W)):
            gamma = None if self.trained else self.gamma.to(W)
            basis = level(P, W, gamma) if self.in_block else P
            # the phases of its columns are free, and those of the present P are within reach
            products = (basis.conj() * own).sum(0)
            basis = basis * torch.where(products == 0, 1, products.sgn())
            for j in products.abs().argsort()[:4].tolist():  # or those with a few signs changed
                yield basis
                basis[:, j] *= -1

    def _schur_basis(self, W: Tensor) -> Tensor:  # (N, N)
        if self.is_complex:
            return complex_schur_basis(W, None if self.trained else self.gamma_value)
        return real_schur_basis(W, self._defect if self.constrained else None)

    def _defect(self, a: Tensor, k: Tensor, h: Tensor) -> Tensor:
        """Say how far a 2 x 2 block is from an allowed one, as `real_schur_basis` asks."""
        if self.in_block:
            rows = torch.stack([torch.hypot(a, h - k), torch.hypot(a, h + k)])
            return (rows - self.gamma_value).abs().amin(0)
        return h if self.trained else torch.hypot(h, torch.hypot(a, k) - self.gamma_value)

    def _assign(self, W: Tensor) -> None:
        exact, least = self._exact(W), math.inf
        for k, basis in enumerate(self._bases(exact)):
            twin = copy.deepcopy(self)
            if k > 0 and not _reaches(twin.P, basis):
                continue
            least = min(least, twin._set(exact))  # noqa: SLF001, of this very class
            if least <= self.tolerance:
                self.load_state_dict(twin.state_dict())
                return
        hint = f"its eigenvectors are too close to each other, or out of reach of {self.P}"
        raise NotInSetError(type(self).__name__, least, self.tolerance, hint)

    def _set(self, W: Tensor) -> float:
        """Take from W all but P, and return how far from W that leads."""
        P = self._exact(self.P())
        gamma, theta, entries = self._read(P.mH @ W @ P)
        self.gamma.copy_(gamma)
        self.theta.copy_(theta)
        self.triangle.copy_(entries.real)
        if self.is_complex:
            self.imaginary.copy_(entries.imag)
        return self._norm(self() - W, W)

    def _exact(self, W: Tensor) -> Tensor:
        return W.detach().to(torch.complex128 if self.is_complex else torch.float64)

    def _norm(self, difference: Tensor, W: Tensor) -> float:
        size = float(torch.linalg.matrix_norm(W)) / math.sqrt(self.size)
        return float(torch.linalg.matrix_norm(difference)) / max(1.0, size)

    def extra_repr(self) -> str:
        gamma = "'trained'" if self.trained else f"'clamped', gamma_value={self.gamma_value}"
        option = f"dtype={self.dtype}" if self.is_complex else f"in_block={self.in_block}"
        return f"{self.size}, gamma={gamma}, {option}"


def _check(
    size: int, is_complex: bool, gamma: str, gamma_value: float, in_block: bool | None
) -> None:
    """Refuse options that make no sense, alone or together.

    Raises:
        ValueError: Says which.
    """
    if is_complex and in_block is not None:
        raise ValueError(f"expected no in_block where W is complex, got {in_block}")
    if size % 2 == 1 and not is_complex:
        raise ValueError(
            f"expected an even size, as rotations turn planes, got {size}: dtype=torch.complex64 "
            "takes odd ones"
        )
    if gamma not in ("trained", "clamped"):
        raise ValueError(f"expected gamma to be 'trained' or 'clamped', got {gamma!r}")
    if not 0 < gamma_value < math.inf:
        raise ValueError(
            f"expected gamma_value to be positive and finite, got {gamma_value}; use 1"
        )


def _places(n: int, in_block: bool) -> Tensor:
    """Return where the entries of T are among those of an n x n matrix."""
    rows, columns = torch.tril_indices(n, n, offset=-1, device="cpu")
    places = rows * n + columns
    return places if in_block else places[rows // 2 != columns // 2]


@torch.no_grad()
def _is_unitary(P: Constraint) -> bool:
    # on the meta device there is nothing to measure
    return P.device.type == "meta" or orthogonality_error(P()) <= P.tolerance


def _reaches(P: Constraint, basis: Tensor) -> bool:
    """Say whether the map of P reaches a basis, which is then assigned."""
    try:
        P.assign(basis)
    except NotInSetError:
        return False
    return True
