"""How fast small differences between two states grow under the same input."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.trajectory import trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Lyapunov", "lyapunov"]


@dataclass(frozen=True)
class Lyapunov(Analysis):
    """Lyapunov exponents.

    Args:
        exponents: The largest first; averaged over the batch.
        spread: Their standard deviation over the batch; zero for one sequence.
    Shape:
        exponents, spread: :math:`(k,)`.
    Units:
        Nats per step.
    """

    exponents: NDArray[np.float64]
    spread: NDArray[np.float64]

    @property
    def dimension(self) -> float:
        """The Kaplan-Yorke dimension; of the exponents that there are."""
        sums = np.cumsum(self.exponents)
        count = int((np.cumprod(sums >= 0)).sum())  # so many first ones add up to no loss
        if count in (0, len(sums)):
            return float(count)
        return float(count + sums[count - 1] / -self.exponents[count])

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        number = np.arange(1, len(self.exponents) + 1)
        finite = np.where(np.isfinite(self.exponents), self.exponents, np.nan)
        curves = {"exponents": finite}
        plot.lines(axes, number, curves, bands={"exponents": self.spread}, marker="o")
        plot.label(axes, "number of the exponent", "Lyapunov exponent [nats per step]")
        return figure

    def table(self) -> Table:
        number = np.arange(1, len(self.exponents) + 1)
        return {"number": number, "exponent_nats": self.exponents, "spread_nats": self.spread}

    def headline(self) -> dict[str, float]:
        return {
            "largest exponent (nats a step)": float(self.exponents[0]),
            "sum of the exponents (nats a step)": float(self.exponents.sum()),
            "Kaplan-Yorke dimension": self.dimension,
        }


@torch.no_grad()
def lyapunov(
    layer: nn.Module,
    x: Tensor | ArrayLike,  # (T, B, M)
    *,
    discard: int = 0,
    exponents: int | None = None,
    which: str = "l0",
) -> Lyapunov:
    r"""Compute Lyapunov exponents of a network along the trajectories that an input drives.

    .. math:: J_t Q_{t-1} = Q_t R_t, \qquad
        \lambda_i = \frac{1}{T - d} \sum_{t=d+1}^{T} \log |(R_t)_{ii}|, \qquad
        J_t = \frac{\partial h_t}{\partial h_{t-1}}

    A step that loses a direction altogether, as ReLU's do, gives an exponent of minus infinity.
    Those of finite time still depend on the start of Q, the first unit vectors, which is forgotten
    as T grows.

    Args:
        layer: A recurrent layer, ours or torch's, or a model with one.
        x: The sequences, as the first layer takes them.
        discard: The number d of first steps that turn Q but do not count.
        exponents: How many of the largest to compute; all by default.
        which: The layer and direction; the input of a later one is what the earlier give.
    Shape:
        x: :math:`(T, B, M)`, or :math:`(T, M)`; :math:`(B, T, M)` of a layer with `batch_first`.
    Units:
        Nats per step.
    Raises:
        ValueError: If there is no such layer or direction, an input does not fit or is not finite,
            no step is left, or there are not so many exponents.
    Source:
        Benettin et al., Meccanica 15, 1980. https://doi.org/10.1007/BF02128236; Engelken, Wolf and
        Abbott, 2023. https://arxiv.org/abs/2006.02427; Vogt et al., 2022.
        https://arxiv.org/abs/2006.14123 (departures: Q is renewed at every step).
    Example:
        >>> layer = eigenrnn.layers.ScoRNN(2, 4, nonlinearity="identity")
        >>> bool(np.abs(lyapunov(layer, torch.zeros(50, 1, 2)).exponents).max() < 1e-6)
        True
    """
    path = trajectory(layer, x, which)
    T, B, S = path.x.shape[0], path.x.shape[1], path.states.shape[2]
    count = S if exponents is None else exponents
    if not 1 <= count <= S:
        raise ValueError(f"expected 1 <= exponents <= {S}, the size of the state, got {count}")
    if not 0 <= discard < T:
        raise ValueError(f"expected 0 <= discard < {T}, the number of steps, got {discard}")
    frame = torch.eye(S, count, dtype=torch.float64).expand(B, S, count)  # Q
    total = torch.zeros(B, count, dtype=torch.float64)
    for t, (J, _) in enumerate(path.jacobians()):
        frame, R = torch.linalg.qr(J @ frame)
        if t >= discard:
            total += R.diagonal(dim1=1, dim2=2).abs().log()
    found = (total / (T - discard)).sort(dim=1, descending=True).values.numpy()
    with np.errstate(invalid="ignore"):
        spread = np.nan_to_num(found.std(axis=0))  # of infinite ones there is none
    return Lyapunov(found.mean(axis=0), spread)
