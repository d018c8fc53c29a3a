"""Dynamics of the states: Lyapunov exponents, and effective dimension."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import NumberArray, as_array
from eigenrnn.analysis.base import Analysis, Figure, Table
from eigenrnn.analysis.state_map import Network, Step
from eigenrnn.analysis.trajectory import InitialState, Trajectory, trajectory
from eigenrnn.errors import check_not_negative_integer, check_positive_integer
from eigenrnn.linalg import check_finite, on_cpu

__all__ = [
    "Dimension",
    "Lyapunov",
    "effective_rank",
    "lyapunov",
    "participation_ratio",
]


# of `lyapunov`, whose docstring gives the reason for a burn-in from a state beside the initial one
_BURN_IN = 1_000
_NUDGE = 1e-3  # the length of the vector that leaves an unstable fixed point
_BLOCKS = 10

_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Lyapunov(Analysis):
    """The Lyapunov exponents of a network.

    Args:
        exponents: Largest first; averaged over the batch.
        spread: Their standard deviation over the batch; zero for one sequence, NaN where an
            exponent is infinite.
        state_size: The size S of the state, which is the number of all exponents.
        burn_in: The number of steps before the measured ones, which led to the attractor.
        errors: The error of estimation of each exponent: the standard error of the mean over ten
            blocks of steps of every sequence. NaN with fewer than two steps in a block.
    Shape:
        exponents, spread, errors: :math:`(k,)`.
    Units:
        Nats per step.
    """

    exponents: NDArray[np.float64]
    spread: NDArray[np.float64]
    state_size: int
    burn_in: int
    errors: NDArray[np.float64]

    @property
    def dimension(self) -> float:
        """The Kaplan-Yorke dimension; NaN if it needs more exponents than were computed.

        A sum of exponents within two standard errors of zero counts as zero, as on a limit cycle.
        """
        # D = k + (lambda_1 + ... + lambda_k) / |lambda_(k + 1)|, with the largest k whose sum is
        # not negative. The sum of an orthogonal map is zero up to rounding, which must not count.
        sums = np.cumsum(self.exponents)
        finite = np.abs(self.exponents[np.isfinite(self.exponents)])
        rounding = 10 * self.state_size * _EPSILON * max(1.0, finite.max(initial=0.0))
        errors = 2 * np.sqrt(np.cumsum(np.nan_to_num(self.errors) ** 2))
        # the product ends at the first negative sum
        k = int(np.cumprod(sums >= -(rounding + errors)).sum())
        if k == len(sums):
            return float(k) if k == self.state_size else math.nan
        if k == 0:
            return math.nan if np.isnan(self.exponents[0]) else 0.0
        return float(k + max(sums[k - 1], 0.0) / -self.exponents[k])

    def plot(self) -> Figure:
        figure, (axes,) = plot.canvas()
        number = np.arange(1, len(self.exponents) + 1)
        finite = np.where(np.isfinite(self.exponents), self.exponents, np.nan)
        curves = {"exponents": finite}
        bands = self.spread
        if not self.spread.any():  # of one sequence
            bands = self.errors
        plot.lines(axes, number, curves, bands={"exponents": bands}, marker="o")
        axes.axhline(0, color="0.6", linewidth=0.8)
        lost = int(np.isneginf(self.exponents).sum())
        titles: list[str] = []
        if lost:
            titles.append(f"{lost} of {len(number)} are minus infinity")
        if self.burn_in:
            titles.append(f"after a burn-in of {self.burn_in:,} steps")
        x = "number of the exponent"
        y = "Lyapunov exponent [nats per step]"
        plot.label(axes, x, y, ", ".join(titles))
        return figure

    def table(self) -> Table:
        number = np.arange(1, len(self.exponents) + 1)
        return {
            "number": number,
            "exponent_nats": self.exponents,
            "spread_nats": self.spread,
            "error_nats": self.errors,
        }

    def headline(self) -> dict[str, float]:
        k = len(self.exponents)
        dimension = self.dimension
        numbers = {"largest exponent (nats a step)": float(self.exponents[0])}
        if np.isfinite(self.errors[0]):
            numbers["its error (nats a step)"] = float(self.errors[0])
        summed = "the exponents" if k == self.state_size else f"the first {k} exponents"
        numbers[f"sum of {summed} (nats a step)"] = float(self.exponents.sum())
        if not math.isnan(dimension):
            numbers["Kaplan-Yorke dimension"] = dimension
        numbers["burn-in (steps)"] = float(self.burn_in)
        return numbers


@on_cpu
@torch.no_grad()
def lyapunov(
    network: Network,
    x: Tensor | ArrayLike,  # (T, B, M)
    *,
    h0: InitialState = None,
    burn_in: int | None = None,
    discard: int = 0,
    exponents: int | None = None,
    which: str = "l0",
) -> Lyapunov:
    r"""Compute the Lyapunov exponents of a network along its trajectories under an input.

    .. math:: J_t Q_{t-1} = Q_t R_t, \qquad
        \lambda_i = \frac{1}{T - d} \sum_{t=d+1}^{T} \log |(R_t)_{ii}|, \qquad
        J_t = \frac{\partial h_t}{\partial h_{t-1}}

    The exponents describe the attractor that the trajectory is on. At the initial state of a
    network they often do not: without input and biases, zero is a fixed point, and its
    eigenvalues say nothing about a chaotic attractor around it. By default, each trajectory
    therefore starts from the initial state of the network, moved by a random vector of length
    0.001, and runs for 1000 steps before the exponents are measured. These steps repeat the input.
    With several attractors, the result is that of the one which this trajectory reaches.

    A step with a singular Jacobian, as with ReLU, gives an exponent of minus infinity: diagonal
    entries below :math:`S \epsilon \|J_t Q_{t-1}\|_F` count as zero. Finite-time exponents
    depend on the initial Q, which is random but the same in every call. This dependence decays
    over the steps; `discard` leaves the first ones out of the mean.

    Of a delta rule, the transitions take the place of the Jacobians, and each exponent of a head
    counts once for each of its columns. Past inputs of a convolution have minus infinity.

    Args:
        network: A recurrent layer or cell, a model with one, or a `StateMap`.
        x: The sequences, in the layout that the first layer takes.
        h0: The initial states, as the network takes them, or :math:`(S,)`. The measurement starts
            there, unless `burn_in` is set.
        burn_in: The number of steps before the measurement; by default 1000, or 0 with `h0`. Zero
            without `h0` starts at the initial state of the network.
        discard: The number d of initial steps that update Q but are left out of the mean.
        exponents: The number of largest exponents to compute; all by default.
        which: The layer and direction. A later layer reads the outputs of the earlier ones.
    Shape:
        x: :math:`(T, B, M)`, or :math:`(T, M)`; :math:`(B, T, M)` of a layer with `batch_first`.
    Units:
        Nats per step.
    Raises:
        ValueError: If the layer or direction does not exist, an input or `h0` does not fit or is
            not finite, the states grow without bound, no step remains, `burn_in` is negative, or
            `exponents` exceeds the size of the state.
    Source:
        Benettin et al., Meccanica 15, 1980. https://doi.org/10.1007/BF02128236; Engelken, Wolf and
        Abbott, 2023. https://arxiv.org/abs/2006.02427; Vogt et al., 2022.
        https://arxiv.org/abs/2006.14123 (departures: Q is orthonormalised at every step).
    Example:
        >>> layer = eigenrnn.layers.ScoRNN(2, 4, nonlinearity="identity")
        >>> bool(np.abs(lyapunov(layer, torch.zeros(50, 1, 2)).exponents).max() < 1e-6)
        True
    """
    # initial states of the caller are where the measurement starts
    nudge = _NUDGE if h0 is None else 0.0
    if burn_in is None:
        burn_in = _BURN_IN if h0 is None else 0
    check_not_negative_integer("burn_in", burn_in)
    check_not_negative_integer("discard", discard)
    path = trajectory(network, x, which, h0, burn_in, nudge=nudge)
    if not bool(path.states[0].isfinite().all()):
        raise ValueError(
            f"expected states that stay finite in the burn-in of {burn_in} steps, got NaN or "
            "infinity: the states grow without bound; set burn_in=0 to measure from h0 on"
        )
    T = path.x.shape[0]
    B = path.x.shape[1]
    S = path.states.shape[2]
    count = S if exponents is None else exponents
    check_positive_integer("exponents", count)
    if count > S:
        raise ValueError(f"expected 1 <= exponents <= {S}, the size of the state, got {count}")
    if not 0 <= discard < T:
        raise ValueError(f"expected 0 <= discard < {T}, the number of steps, got {discard}")
    if path.state_map.transitions is None:
        basis = _random_basis(S)[:, :count].expand(B, S, count)
        local = _growth((J for J, _ in path.jacobians()), basis)[discard:]
    else:
        local = _growth_of_heads(path)[discard:]  # (T - d, B, S)
    # a finite run need not order the exponents as the columns of Q
    mean, order = local.mean(0).sort(dim=1, descending=True)
    order = order[:, :count]
    per_sequence = mean[:, :count].numpy()
    with np.errstate(invalid="ignore"):
        spread = per_sequence.std(axis=0)  # NaN for infinite exponents
    return Lyapunov(
        exponents=per_sequence.mean(axis=0),
        spread=spread,
        state_size=S,
        burn_in=burn_in,
        errors=_error_of_mean(local.gather(2, order.expand(len(local), B, count))),
    )


def _growth(
    matrices: Iterable[Tensor],  # (..., n, n) of each step
    basis: Tensor,  # (..., n, k)
) -> Tensor:  # (T, ..., k)
    """Return the logarithms of what each step multiplies the axes of a moving basis by."""
    logs: list[Tensor] = []
    for J in matrices:
        # Orthonormalised at every step. Otherwise all columns would turn to the fastest direction.
        image = J @ basis
        basis, R = torch.linalg.qr(image)
        # LAPACK leaves the signs of the diagonal open
        sizes = R.diagonal(dim1=-2, dim2=-1).abs()
        rounding = J.shape[-1] * _EPSILON * torch.linalg.matrix_norm(image)
        logs.append(sizes.where(sizes > rounding.unsqueeze(-1), 0).log())
    return torch.stack(logs)


def _growth_of_heads(path: Trajectory) -> Tensor:  # (T, B, S)
    """Return the same of a delta rule, whose transitions act on all columns of a state alike.

    A head with K columns has each of its exponents K times. The past inputs in the state leave it
    after some steps, whatever they are.
    """
    transitions = cast("Step", path.state_map.transitions)(path.x, path.states[0])
    K = transitions.shape[-1]
    basis = _random_basis(K).expand(*transitions.shape[1:3], K, K)
    of_heads = _growth(transitions, basis)  # (T, B, H, K)
    of_columns = of_heads.flatten(2).repeat_interleave(K, dim=2)
    past = path.states.shape[2] - of_columns.shape[2]
    return torch.nn.functional.pad(of_columns, (0, past), value=-torch.inf)


def _error_of_mean(
    local: Tensor,  # (T, B, k)
) -> NDArray[np.float64]:  # (k,)
    """Return the standard error of the mean from blocks, as neighbouring steps are correlated."""
    length = len(local) // _BLOCKS
    if length < 2:
        return np.full(local.shape[2], np.nan)
    # The last steps, if ten does not divide T: the first ones depend most on the initial Q.
    blocks = local[-length * _BLOCKS :].unflatten(0, (_BLOCKS, length)).mean(1).flatten(0, 1)
    with np.errstate(invalid="ignore"):  # numpy warns of the NaN that infinite exponents give
        values = blocks.numpy()
        return values.std(axis=0, ddof=1) / np.sqrt(len(values))


def _random_basis(size: int) -> Tensor:  # (S, S)
    """Return a random orthonormal basis, almost surely without an invariant subspace."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return torch.linalg.qr(drawn)[0]


@dataclass(frozen=True)
class Dimension(Analysis):
    """An effective dimension, and the spectrum that it summarises.

    Args:
        name: The name of the measure.
        value: The dimension; 0 if the spectrum is zero.
        spectrum: The variances or singular values, largest first.
        kind: The quantity in the spectrum.
    Shape:
        spectrum: (dimensions,).
    """

    name: str
    value: float
    spectrum: NDArray[np.float64]
    kind: str

    def plot(self) -> Figure:
        figure, (left, right) = plot.canvas(2)
        rank = np.arange(1, len(self.spectrum) + 1)
        plot.lines(left, rank, {"spectrum": self.spectrum}, marker="o")
        plot.label(left, "rank", self.kind, f"{self.name} {self.value:.4g} of {len(rank)}")
        plot.lines(right, rank, {"share": self._cumulative()}, marker="o")
        right.set_ylim(0, 1.05)
        plot.label(right, "rank", f"share of {self.kind}s up to this rank")
        return figure

    def table(self) -> Table:
        return {
            "rank": np.arange(1, len(self.spectrum) + 1),
            self.kind.replace(" ", "_"): self.spectrum,
            "cumulative_share": self._cumulative(),
        }

    def headline(self) -> dict[str, float]:
        return {self.name: self.value}

    def _cumulative(self) -> NDArray[np.float64]:
        return np.cumsum(_shares(self.spectrum))


def participation_ratio(
    states: Tensor | ArrayLike,  # (T, B, N) or (n, N)
) -> Dimension:
    r"""Compute the participation ratio of the eigenvalues of the covariance of states.

    .. math:: \mathrm{PR} = \frac{\big(\sum_i \lambda_i\big)^2}{\sum_i \lambda_i^2}, \qquad
        1 \le \mathrm{PR} \le N

    It is N for an isotropic cloud, 1 for a line, and 0 for states that do not vary.

    Args:
        states: States; time steps and sequences are pooled.
    Shape:
        states: :math:`(T, B, N)` or :math:`(n, N)`, at least two states.
    Returns:
        The ratio, with the eigenvalues :math:`\lambda` of the covariance.
    Raises:
        ValueError: If the shape is wrong, there is only one state, or a number is not finite.
    Source:
        Gao et al., A theory of multineuronal dimensionality, dynamics and measurement, 2017.
        https://doi.org/10.1101/214262 (departures: none).
    Example:
        >>> round(participation_ratio([[1, 0], [-1, 0], [0, 1], [0, -1]]).value, 6)
        2.0
    """
    rows = _state_rows(states)
    if len(rows) < 2:
        raise ValueError("expected at least 2 states, to vary between them, got 1")
    # of states that do not vary the mean may be rounded, but the difference is exact
    rows = rows - rows[0]
    centred = rows - rows.mean(0)
    n, N = centred.shape
    if n < N:  # the products of few states have the same eigenvalues, but for zeros
        centred = centred.conj().T
    with np.errstate(over="ignore", invalid="ignore"):  # checked next
        covariance = centred.conj().T @ centred / (n - 1)
    check_finite(covariance, "the covariance of the states")
    # rounding can make a zero eigenvalue negative
    variances = np.maximum(np.linalg.eigvalsh(covariance)[::-1], 0)
    variances = np.pad(variances, (0, N - len(variances)))
    # of shares p = lambda / sum(lambda) the ratio is 1 / sum(p^2)
    shares = _shares(variances)
    squares = float(shares @ shares)
    value = 1 / squares if squares else 0.0
    return Dimension("participation ratio", value, variances, "variance")


def effective_rank(
    states_or_matrix: Tensor | ArrayLike,  # (T, B, N) or (n, N)
) -> Dimension:
    r"""Compute the effective rank, the exponential of the entropy of the singular values.

    .. math:: \mathrm{erank} = \exp\Big({-\sum_i} p_i \ln p_i\Big), \qquad
        p_i = \frac{\sigma_i}{\sum_j \sigma_j}, \qquad 1 \le \mathrm{erank} \le \mathrm{rank}

    States are not centred, as in the paper; subtract their mean first to measure only their
    variation. It is 0 for a zero matrix.

    Args:
        states_or_matrix: States, whose time steps and sequences are pooled; or any matrix.
    Shape:
        states_or_matrix: :math:`(T, B, N)` or :math:`(n, N)`.
    Returns:
        The rank, with the singular values :math:`\sigma`.
    Raises:
        ValueError: If the shape is wrong, or a number is not finite.
    Source:
        Roy and Vetterli, EUSIPCO 2007, section 2. https://infoscience.epfl.ch/record/110188
        (departures: none).
    Example:
        >>> round(effective_rank(np.diag([3.0, 3.0, 0.0])).value, 6)
        2.0
    """
    rows = _state_rows(states_or_matrix)
    sigma: NDArray[np.float64] = np.linalg.svd(rows, compute_uv=False).astype(np.float64)
    shares = _shares(sigma)
    nonzero = shares[shares > 0]  # p ln p tends to zero, but 0 ln 0 is NaN
    value = 0.0
    if len(nonzero):
        value = float(np.exp(-nonzero @ np.log(nonzero)))
    return Dimension("effective rank", value, sigma, "singular value")


def _state_rows(states: Tensor | ArrayLike) -> NumberArray:  # (n, N)
    """Return all states in double precision, one per row.

    Raises:
        ValueError: If the shape is wrong, or a number is not finite.
    """
    array = as_array(states, "states")
    if array.ndim not in (2, 3) or not array.size:
        raise ValueError(f"expected states (T, B, N) or (n, N), got shape {array.shape}")
    rows: NumberArray = array.reshape(-1, array.shape[-1])
    check_finite(rows, "the states")
    return rows


def _shares(spectrum: NDArray[np.float64]) -> NDArray[np.float64]:
    total = spectrum.sum()
    return spectrum / total if total else spectrum
