"""Lyapunov exponents: how fast small differences between states grow under the same input."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.trajectory import trajectory
from eigenrnn.errors import check_positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Lyapunov", "lyapunov"]

_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Lyapunov(Analysis):
    """The Lyapunov exponents of a network.

    Args:
        exponents: Largest first; averaged over the batch.
        spread: Their standard deviation over the batch; zero for one sequence, NaN where an
            exponent is infinite.
        state_size: The size S of the state, which is the number of all exponents.
    Shape:
        exponents, spread: :math:`(k,)`.
    Units:
        Nats per step.
    """

    exponents: NDArray[np.float64]
    spread: NDArray[np.float64]
    state_size: int

    @property
    def dimension(self) -> float:
        """The Kaplan-Yorke dimension; NaN if it needs more exponents than were computed."""
        sums = np.cumsum(self.exponents)
        finite = np.abs(self.exponents[np.isfinite(self.exponents)])
        rounding = 10 * self.state_size * _EPSILON * max(1.0, finite.max(initial=0.0))
        count = int(np.cumprod(sums >= -rounding).sum())  # of leading exponents with a sum >= 0
        if count == len(sums):
            return float(count) if count == self.state_size else math.nan
        if count == 0:
            return math.nan if np.isnan(self.exponents[0]) else 0.0
        return float(count + max(sums[count - 1], 0.0) / -self.exponents[count])

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        number = np.arange(1, len(self.exponents) + 1)
        finite = np.where(np.isfinite(self.exponents), self.exponents, np.nan)
        curves = {"exponents": finite}
        plot.lines(axes, number, curves, bands={"exponents": self.spread}, marker="o")
        lost = int(np.isneginf(self.exponents).sum())
        title = f"{lost} of {len(number)} are minus infinity" if lost else ""
        plot.label(axes, "number of the exponent", "Lyapunov exponent [nats per step]", title)
        return figure

    def table(self) -> Table:
        number = np.arange(1, len(self.exponents) + 1)
        return {"number": number, "exponent_nats": self.exponents, "spread_nats": self.spread}

    def headline(self) -> dict[str, float]:
        k, dimension = len(self.exponents), self.dimension
        summed = "the exponents" if k == self.state_size else f"the first {k} exponents"
        numbers = {
            "largest exponent (nats a step)": float(self.exponents[0]),
            f"sum of {summed} (nats a step)": float(self.exponents.sum()),
        }
        return (
            numbers if math.isnan(dimension) else {**numbers, "Kaplan-Yorke dimension": dimension}
        )


@torch.no_grad()
def lyapunov(
    layer: nn.Module,
    x: Tensor | ArrayLike,  # (T, B, M)
    *,
    discard: int = 0,
    exponents: int | None = None,
    which: str = "l0",
) -> Lyapunov:
    r"""Compute the Lyapunov exponents of a network along its trajectories under an input.

    .. math:: J_t Q_{t-1} = Q_t R_t, \qquad
        \lambda_i = \frac{1}{T - d} \sum_{t=d+1}^{T} \log |(R_t)_{ii}|, \qquad
        J_t = \frac{\partial h_t}{\partial h_{t-1}}

    A step with a singular Jacobian, as with ReLU, gives an exponent of minus infinity: diagonal
    entries below :math:`S \epsilon \|J_t Q_{t-1}\|_F` count as zero. Finite-time exponents
    depend on the initial Q, which is random but the same at every call. This dependence decays
    with the number of steps; `discard` removes the first ones.

    Args:
        layer: A recurrent layer, ours or torch's, or a model with one.
        x: The sequences, in the layout that the first layer takes.
        discard: The number d of first steps that update Q but do not count.
        exponents: The number of largest exponents to compute; all by default.
        which: The layer and direction. A later layer reads the outputs of the earlier ones.
    Shape:
        x: :math:`(T, B, M)`, or :math:`(T, M)`; :math:`(B, T, M)` of a layer with `batch_first`.
    Units:
        Nats per step.
    Raises:
        ValueError: If the layer or direction does not exist, an input does not fit or is not
            finite, no step remains, or `exponents` exceeds the size of the state.
    Source:
        Benettin et al., Meccanica 15, 1980. https://doi.org/10.1007/BF02128236; Engelken, Wolf and
        Abbott, 2023. https://arxiv.org/abs/2006.02427; Vogt et al., 2022.
        https://arxiv.org/abs/2006.14123 (departures: Q is orthonormalised at every step).
    Example:
        >>> layer = eigenrnn.layers.ScoRNN(2, 4, nonlinearity="identity")
        >>> bool(np.abs(lyapunov(layer, torch.zeros(50, 1, 2)).exponents).max() < 1e-6)
        True
    """
    path = trajectory(layer, x, which)
    T, B, S = path.x.shape[0], path.x.shape[1], path.states.shape[2]
    count = S if exponents is None else exponents
    check_positive_integer("exponents", count)
    if count > S:
        raise ValueError(f"expected 1 <= exponents <= {S}, the size of the state, got {count}")
    if not 0 <= discard < T:
        raise ValueError(f"expected 0 <= discard < {T}, the number of steps, got {discard}")
    basis = _random_basis(S)[:, :count].expand(B, S, count)
    total = torch.zeros(B, count, dtype=torch.float64)
    for t, (J, _) in enumerate(path.jacobians()):
        image = J @ basis
        basis, R = torch.linalg.qr(image)
        if t >= discard:
            sizes = R.diagonal(dim1=1, dim2=2).abs()
            rounding = S * _EPSILON * torch.linalg.matrix_norm(image)
            total += sizes.where(sizes > rounding[:, None], 0).log()
    per_sequence = (total / (T - discard)).sort(dim=1, descending=True).values.numpy()
    with np.errstate(invalid="ignore"):
        spread = per_sequence.std(axis=0)  # NaN for infinite exponents
    return Lyapunov(per_sequence.mean(axis=0), spread, S)


def _random_basis(size: int) -> Tensor:  # (S, S)
    """Return a random orthonormal basis, almost surely without an invariant subspace."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return torch.linalg.qr(drawn)[0]
