"""Eigenvalues of a matrix, and its lower Schur form."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import Matrix, NumberArray, as_matrix
from eigenrnn.analysis.base import Analysis, Figure, Table
from eigenrnn.analysis.state_map import single_layer
from eigenrnn.constraints import Schur
from eigenrnn.linalg import planar_rotation

__all__ = ["SchurForm", "SchurStructure", "Spectrum", "schur_form", "schur_structure", "spectrum"]


@dataclass(frozen=True)
class Spectrum(Analysis):
    r"""The eigenvalues of a matrix, and its distance from orthogonality or unitarity.

    Args:
        eigenvalues: Largest first.
        orthogonality_error: :math:`\|W^* W - I\|_F`.
    Shape:
        eigenvalues: :math:`(N,)`.
    """

    eigenvalues: NDArray[np.complex128]
    orthogonality_error: float

    @property
    def radius(self) -> float:
        """The largest modulus."""
        return float(np.abs(self.eigenvalues[0]))

    def plot(self) -> Figure:
        figure, (plane, distribution) = plot.canvas(2)
        plot.plane(plane, {"eigenvalues": self.eigenvalues})
        moduli = np.abs(self.eigenvalues)
        margin = max(0.05 * np.ptp(moduli), 0.05)  # an orthogonal matrix has only moduli of one
        bins = np.linspace(moduli.min() - margin, moduli.max() + margin, 32)
        distribution.hist(moduli, bins.tolist())
        plot.label(distribution, "modulus", "number of eigenvalues")
        return figure

    def table(self) -> Table:
        z = self.eigenvalues
        return {"real": z.real, "imaginary": z.imag, "modulus": np.abs(z), "angle": np.angle(z)}

    def headline(self) -> dict[str, float]:
        smallest = float(np.abs(self.eigenvalues[-1]))
        return {
            "spectral radius": self.radius,
            "smallest modulus": smallest,
            "orthogonality error": self.orthogonality_error,
        }


def spectrum(
    W: Matrix,  # (N, N)
) -> Spectrum:
    r"""Compute the eigenvalues, whose moduli are the growth rates of a linear network's modes.

    .. math:: W u_i = \lambda_i u_i, \qquad h_t = W h_{t-1}

    For a matrix far from normal, they say little about growth over the first steps: see `henrici`
    and `pseudospectrum`.

    Args:
        W: The recurrent matrix, real or complex, or a layer with one.
    Shape:
        W: :math:`(N, N)`.
    Units:
        Angles in radians.
    Raises:
        ValueError: If it is not square or not finite, or the layer has several or none.
    Source:
        Trefethen and Embree, Spectra and Pseudospectra, 2005, section 1 (departures: none).
    Example:
        >>> result = spectrum([[0.0, -2.0], [2.0, 0.0]])
        >>> round(result.radius, 6), round(result.orthogonality_error, 6)
        (2.0, 4.242641)
    """
    matrix = as_matrix(W)
    eigenvalues = np.linalg.eigvals(matrix).astype(np.complex128)
    order = np.argsort(-np.abs(eigenvalues), kind="stable")
    gram = matrix.conj().T @ matrix
    return Spectrum(eigenvalues[order], float(np.linalg.norm(gram - np.eye(len(matrix)))))


@dataclass(frozen=True)
class SchurStructure(Analysis):
    r"""A lower Schur form :math:`W = P \Theta P^*`, and the size of its parts.

    Args:
        Theta: Lower triangular; a real one may have 2 x 2 blocks on its diagonal.
        P: Orthogonal or unitary; its columns are the Schur modes.
        eigenvalues: In the order of the diagonal.
        by_diagonal: For k = 0, the mean absolute entry of the diagonal with its blocks. For
            larger k, that of sub-diagonal k outside the blocks; zero if it has no such entry.
        off_diagonal: The Frobenius norm of the entries below the blocks, over that of the matrix.
        learned: Whether a constraint of the layer defines the form, rather than a decomposition.
    Shape:
        Theta, P: (N, N); eigenvalues, by_diagonal: (N,)
    """

    Theta: NumberArray
    P: NumberArray
    eigenvalues: NDArray[np.complex128]
    by_diagonal: NDArray[np.float64]
    off_diagonal: float
    learned: bool

    @property
    def angles(self) -> NDArray[np.float64]:  # (N,)
        """The arguments of the eigenvalues in radians, above -pi and up to pi."""
        return np.angle(self.eigenvalues)

    @property
    def moduli(self) -> NDArray[np.float64]:  # (N,)
        """The moduli of the eigenvalues."""
        return np.abs(self.eigenvalues)

    def plot(self) -> Figure:
        figure, (form, angles, profile) = plot.canvas(columns=3)
        # logarithmic: the learned triangle is much smaller than the diagonal
        plot.heat_map(form, np.abs(self.Theta), "|entry|", log=True, orders=4)
        title = "learned Schur form" if self.learned else "computed Schur form"
        plot.label(form, "from mode", "to mode", title)
        angles.hist(self.angles, np.linspace(-np.pi, np.pi, 37).tolist())
        plot.label(angles, "angle of the eigenvalue (rad)", "eigenvalues")
        means = {"mean": self.by_diagonal}
        plot.lines(profile, np.arange(len(self.by_diagonal)), means, log=True)
        below = f"{self.off_diagonal:.1%} of the norm is below the blocks"
        plot.label(profile, "sub-diagonal k (0: the blocks)", "mean |entry|", below)
        return figure

    def table(self) -> Table:
        return {
            "sub_diagonal": np.arange(len(self.by_diagonal)),
            "mean_entry": self.by_diagonal,
            "eigenvalue_angle": self.angles,
            "eigenvalue_modulus": self.moduli,
        }

    def headline(self) -> dict[str, float]:
        return {
            "share of the norm below the diagonal blocks": self.off_diagonal,
            "mean modulus of the eigenvalues": float(self.moduli.mean()),
        }


def schur_structure(
    W: Matrix,  # (N, N)
) -> SchurStructure:
    r"""Split a recurrent matrix into rotation and scaling of modes, and connections between them.

    .. math:: W = P \Theta P^*, \qquad \Theta = \Lambda + T, \qquad h_t = W h_{t-1} + \dots

    :math:`\Theta_{i j}` is the weight from mode j to mode i, as in torch's weights, so
    feed-forward weights lie below the diagonal, as in the paper. If the constraint of a layer is
    `Schur`, this is its learned form. Otherwise the form is computed, and neither the order of the
    modes nor T is unique.

    Args:
        W: The matrix, real or complex, a layer or model with one, or a constraint `Schur`.
    Shape:
        W: :math:`(N, N)`.
    Units:
        Angles in radians.
    Raises:
        ValueError: If it is not square or not finite, or the layer has several or none.
    Source:
        Kerg et al., NeurIPS 2019, section 5.3, figures 3 and 5. https://arxiv.org/abs/1905.12080
        (departures: angles are those of the eigenvalues, which differ from the learned
        :math:`\theta_i` where T has an entry inside the block).
    Example:
        >>> form = schur_structure([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.5]])
        >>> form.off_diagonal, sorted(form.moduli.tolist())
        (0.0, [0.5, 1.0, 1.0])
    """
    learned = _learned_form(W)
    form = learned or schur_form(as_matrix(W))
    return SchurStructure(
        Theta=form.Theta,
        P=form.P,
        eigenvalues=form.eigenvalues(),
        by_diagonal=form.by_diagonal(),
        off_diagonal=form.share_below(),
        learned=learned is not None,
    )


def _learned_form(W: Matrix) -> "SchurForm | None":
    """Return the form that a `Schur` constraint defines, if there is one."""
    if isinstance(W, Schur):
        return _constraint_form(W)
    if not isinstance(W, nn.Module):
        return None
    N = len(as_matrix(W))  # raises for a layer with several matrices
    for part in single_layer(W).modules():
        # a smaller Schur constraint gives only a block of the matrix
        if isinstance(part, Schur) and part.size == N:
            return _constraint_form(part)
    return None


@torch.no_grad()
def _constraint_form(constraint: Schur) -> "SchurForm":
    double = copy.deepcopy(constraint).to("cpu", torch.float64)
    gamma = double.gamma
    theta = double.theta
    Theta = planar_rotation(gamma, theta)
    Theta.view(-1)[double.entry_indices] += double.triangle
    return SchurForm(double.P().numpy(), Theta.numpy())


@dataclass(frozen=True)
class SchurForm:
    r"""The factors of :math:`W = P \Theta P^*`.

    Args:
        P: Orthogonal or unitary.
        Theta: Lower triangular; a real one may have 2 x 2 blocks on its diagonal.
    Shape:
        P, Theta: (N, N)
    """

    P: NumberArray
    Theta: NumberArray

    @property
    def pairs(self) -> NDArray[np.intp]:
        """The first row of each 2 x 2 block."""
        # only blocks have entries above the diagonal of a lower form
        return np.flatnonzero(self.Theta.diagonal(1))

    def eigenvalues(self) -> NDArray[np.complex128]:  # (N,)
        """Return the eigenvalues in the order of the diagonal."""
        a, b, c, d = self.blocks()
        i = self.pairs
        eigenvalues = self.Theta.diagonal().astype(np.complex128)
        # of a block [[a, b], [c, d]]: its half trace, plus and minus the root of
        # (a + d)^2 / 4 - (a d - b c) = (a - d)^2 / 4 + b c, which cancels less
        root = np.sqrt(((a - d) / 2) ** 2 + b * c + 0j)
        eigenvalues[i] = (a + d) / 2 + root
        eigenvalues[i + 1] = (a + d) / 2 - root
        return eigenvalues

    def below(self) -> NumberArray:  # (N, N)
        """Return the entries below the diagonal and outside its blocks."""
        rest = np.tril(self.Theta, -1)
        rest[self.pairs + 1, self.pairs] = 0
        return rest

    def share_below(self) -> float:
        """Return the Frobenius norm of the entries below the blocks, over that of Theta."""
        size = np.linalg.norm(self.Theta)
        return float(np.linalg.norm(self.below()) / size) if size else 0.0

    def by_diagonal(self) -> NDArray[np.float64]:  # (N,)
        """Return the mean absolute entry of the blocks, and of each sub-diagonal below them."""
        sizes = np.abs(self.Theta)
        N = len(self.Theta)
        i = self.pairs
        blocks = np.concatenate([sizes.diagonal(), sizes[i, i + 1], sizes[i + 1, i]])
        below = np.abs(self.below())
        means = [blocks.mean()]
        for k in range(1, N):
            count = N - k  # of entries on sub-diagonal k
            if k == 1:
                # each block has one of these entries, and a single block has no other: 0 / 1 then
                count = max(count - len(i), 1)
            means.append(below.diagonal(-k).sum() / count)
        return np.array(means)

    def departure(self) -> float:
        """Return the departure from normality, of the blocks and of the entries below them."""
        a, b, c, d = self.blocks()
        is_rotation = ((a - d) / 2) ** 2 + b * c < 0
        # both are |B|^2 - |l1|^2 - |l2|^2, for complex eigenvalues and for real ones
        squared = np.where(is_rotation, (a - d) ** 2 + (b + c) ** 2, (b - c) ** 2)
        below = np.linalg.norm(self.below())
        return float(np.hypot(below, np.sqrt(squared.sum())))

    def blocks(self) -> tuple[NDArray[np.float64], ...]:
        """Return the four entries of the 2 x 2 blocks, row by row."""
        i = self.pairs
        Theta = self.Theta.real  # only a real form has blocks
        return Theta[i, i], Theta[i, i + 1], Theta[i + 1, i], Theta[i + 1, i + 1]


def schur_form(W: NumberArray) -> SchurForm:  # (N, N)
    """Compute a lower Schur form; 2 x 2 blocks of a real one hold complex eigenvalue pairs."""
    import scipy.linalg

    output = "complex" if np.iscomplexobj(W) else "real"
    schur: Any = scipy.linalg.schur
    upper, basis = schur(W, output=output, check_finite=False)
    # reversing the order of the Schur vectors turns the upper form into a lower one
    return SchurForm(basis[:, ::-1].copy(), upper[::-1, ::-1].copy())
