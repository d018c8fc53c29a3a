"""Jacobians and their eigenvalues along trajectories."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.state_map import Network
from eigenrnn.analysis.trajectory import InitialState, trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LocalSpectra", "local_spectra"]

_SHOWN = 5  # moduli in the picture


@dataclass(frozen=True)
class LocalSpectra(Analysis):
    """The Jacobian of each step of each trajectory, and its eigenvalues.

    Args:
        jacobians: The derivatives of the state after a step by the state before it.
        eigenvalues: Their eigenvalues, by falling modulus.
    Shape:
        jacobians: :math:`(T, B, S, S)`; eigenvalues: :math:`(T, B, S)`.
    """

    jacobians: NDArray[np.float64]
    eigenvalues: NDArray[np.complex128]

    def plot(self) -> "Figure":
        figure, (left, right) = plot.canvas(2)
        moduli = np.abs(self.eigenvalues).mean(1)
        steps = np.arange(1, len(moduli) + 1)
        shown = min(_SHOWN, moduli.shape[1])
        curves = {f"modulus {k + 1}": moduli[:, k] for k in range(shown)}
        plot.lines(left, steps, curves)
        plot.label(left, "step", "modulus, mean over sequences")
        plot.plane(right, {"eigenvalues": self.eigenvalues.ravel()})
        return figure

    def table(self) -> Table:
        T, B, S = self.eigenvalues.shape
        return {
            "t": np.repeat(np.arange(1, T + 1), B * S),
            "sequence": np.tile(np.repeat(np.arange(B), S), T),
            "number": np.tile(np.arange(S), T * B),
            "eigenvalue_real": self.eigenvalues.real.ravel(),
            "eigenvalue_imaginary": self.eigenvalues.imag.ravel(),
        }


@torch.no_grad()
def local_spectra(
    network: Network,
    x: Tensor | ArrayLike,  # (T, B, M)
    *,
    h0: InitialState = None,
    which: str = "l0",
) -> LocalSpectra:
    r"""Compute the Jacobian of every step along trajectories, and its eigenvalues.

    .. math:: J_t = \frac{\partial h_t}{\partial h_{t-1}}, \qquad J_t\, r_i = \lambda_i\, r_i

    They show when a network contracts, and which modes its input opens. Products of the Jacobians,
    not their eigenvalues, decide over long times: see `lyapunov`.

    Args:
        network: A recurrent layer or cell, a model with one, or a `StateMap`.
        x: The sequences, in the layout that the first layer takes.
        h0: The initial states, as the network takes them; by default its own.
        which: The layer and direction.
    Shape:
        x: :math:`(T, B, M)`, or :math:`(T, M)`; :math:`(B, T, M)` of a layer with `batch_first`.
    Raises:
        ValueError: If the layer or direction does not exist, an input or `h0` does not fit, or a
            derivative is not finite.
    Source:
        Maheswaranathan et al., NeurIPS 2019. https://arxiv.org/abs/1906.10720 (departures: at
        every state of a trajectory, not at fixed points only).
    Example:
        >>> local_spectra(torch.nn.GRUCell(2, 4), torch.zeros(5, 3, 2)).eigenvalues.shape
        (5, 3, 4)
    """
    path = trajectory(network, x, which, h0)
    J = torch.stack([by_state for by_state, _ in path.jacobians()])
    values = torch.linalg.eigvals(J)
    order = values.abs().argsort(dim=-1, descending=True)
    return LocalSpectra(J.numpy(), values.gather(-1, order).numpy())
