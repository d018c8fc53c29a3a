"""What is on the diagonal of a Schur form, and what is below it."""

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.matrices import Matrix, NumberArray, given_matrix
from eigenrnn.analysis.schur_form import SchurForm, schur_form
from eigenrnn.constraints import Schur
from eigenrnn.linalg import planar_rotation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SchurStructure", "schur_structure"]


@dataclass(frozen=True)
class SchurStructure(Analysis):
    r"""A lower Schur form :math:`W = P \Theta P^*`, and how large its parts are.

    Args:
        Theta: Lower triangular, but for 2 x 2 blocks on the diagonal of a real one.
        P: Orthogonal, or unitary; its columns are the Schur modes.
        eigenvalues: In the order of the diagonal.
        by_diagonal: The mean size of the entries of the diagonal with its blocks, k = 0, and of
            those of each sub-diagonal k that are below the blocks; zero where none are.
        off_diagonal: The Frobenius norm of what is below the blocks, over that of all.
        learned: Whether it is the form that a layer is made of, not one that was computed.
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

    def plot(self) -> "Figure":
        figure, (form, angles, profile) = plot.canvas(columns=3)
        # the triangle is much smaller than the diagonal, and what is learned is there
        plot.heat_map(form, np.abs(self.Theta), "|entry|", log=True, orders=4)
        title = f"{'learned' if self.learned else 'computed'} Schur form"
        plot.label(form, "from mode", "to mode", title)
        plot.histogram(angles, self.angles, np.linspace(-np.pi, np.pi, 37))
        plot.label(angles, "angle of the eigenvalue (rad)", "eigenvalues")
        plot.lines(profile, np.arange(len(self.by_diagonal)), {"mean": self.by_diagonal}, log=True)
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
    r"""Split a recurrent matrix into what turns and scales modes and what feeds them forward.

    .. math:: W = P \Theta P^*, \qquad \Theta = \Lambda + T, \qquad h_t = W h_{t-1} + \dots

    With columns of states, as torch's weights have them, :math:`\Theta_{i j}` leads from mode j to
    mode i: what feeds forward is below the diagonal, as in the paper. Of a layer whose constraint
    is `Schur` it is the form that was learned; of all else one is computed, in which neither the
    order of the modes nor T is the only one possible.

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
        :math:`\theta_i` where T has an entry inside of the block).
    Example:
        >>> found = schur_structure([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.5]])
        >>> found.off_diagonal, sorted(found.moduli.tolist())
        (0.0, [0.5, 1.0, 1.0])
    """
    learned = _learned(W)
    form = learned or schur_form(given_matrix(W))
    return SchurStructure(
        Theta=form.Theta,
        P=form.P,
        eigenvalues=form.eigenvalues(),
        by_diagonal=form.by_diagonal(),
        off_diagonal=form.share_below(),
        learned=learned is not None,
    )


def _learned(W: Matrix) -> SchurForm | None:
    """Return the form that a constraint is made of, if there is one."""
    if isinstance(W, Schur):
        return _form(W)
    if not isinstance(W, nn.Module):
        return None
    N = len(given_matrix(W))  # refuses a layer with several
    # one of fewer rows is a part of the matrix
    own = [part for part in W.modules() if isinstance(part, Schur) and part.size == N]
    return _form(own[0]) if own else None


@torch.no_grad()
def _form(constraint: Schur) -> SchurForm:
    exact = copy.deepcopy(constraint).to("cpu", torch.float64)
    gamma, theta, below = exact.gamma, exact.theta, exact.triangle
    if exact.is_complex:
        below = torch.complex(below, exact.imaginary)
        Theta = torch.diag(torch.polar(gamma, theta))
    else:
        Theta = planar_rotation(gamma, theta)
    Theta.view(-1)[exact.places] += below
    return SchurForm(exact.P().numpy(), Theta.numpy())
