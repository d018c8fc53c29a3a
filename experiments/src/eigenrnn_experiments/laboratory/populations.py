"""States by condition: their space, targeted projections and the overlap of subspaces."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eigenrnn.analysis import Analysis, FixedPoints, Table, plot
from eigenrnn.errors import check_positive_integer
from eigenrnn.linalg import check_finite
from eigenrnn_experiments.laboratory.arguments import (
    as_labels,
    as_real_array,
    as_trials,
    as_variables,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "ConditionSpace",
    "SubspaceOverlap",
    "TargetedProjection",
    "condition_space",
    "subspace_overlap",
    "targeted_projection",
]

_COMPONENTS = 12  # as in Mante et al.


class Projection:
    """The axes of a space of states, and the state with coordinates 0."""

    origin: NDArray[np.float64]  # (S,)
    axes: NDArray[np.float64]  # (D, S)

    def project(
        self,
        states: Tensor | ArrayLike,  # (..., S)
    ) -> NDArray[np.float64]:  # (..., D)
        """Return the coordinates of other states along the axes."""
        return (as_real_array(states, "the states") - self.origin) @ self.axes.T


@dataclass(frozen=True)
class ConditionSpace(Projection, Analysis):
    """Mean trajectories of conditions on the principal components of these means.

    Args:
        conditions: The value of each condition.
        trajectories: The coordinates of the mean state of each condition.
        points: The coordinates of fixed or slow points.
        shares: The share of the variance of the means along each axis.
        origin: The mean of all means, which has coordinates 0.
        axes: The principal components.
    Shape:
        conditions: :math:`(C,)`; trajectories: :math:`(T, C, D)`; points: :math:`(P, D)`;
        shares: :math:`(D,)`; origin: :math:`(S,)`; axes: :math:`(D, S)`.
    """

    conditions: NDArray[np.float64]
    trajectories: NDArray[np.float64]
    points: NDArray[np.float64]
    shares: NDArray[np.float64]
    origin: NDArray[np.float64]
    axes: NDArray[np.float64]

    def plot(self) -> "Figure":
        D = len(self.axes)
        figure, (axes,) = plot.canvas()
        if D == 3:
            axes.remove()
            axes = figure.add_subplot(projection="3d")
        space: Any = axes
        for c, condition in enumerate(self.conditions):
            space.plot(*self.trajectories[:, c].T, label=f"{condition:g}")
        if len(self.points):
            style = {"linestyle": "", "marker": "x", "color": "0.3"}
            space.plot(*self.points.T, label="points", **style)
        names = [f"component {k + 1} ({self.shares[k]:.0%})" for k in range(D)]
        plot.label(axes, names[0], names[1])
        if D == 3:
            space.set_zlabel(names[2])
            space.set_box_aspect(None, zoom=0.85)  # else the labels are cut off
            space.locator_params(nbins=4)
        space.legend(fontsize="small", frameon=False)
        return figure

    def table(self) -> Table:
        T, C, D = self.trajectories.shape
        P = len(self.points)
        columns: Table = {
            "kind": np.array(["trajectory"] * (T * C) + ["point"] * P, dtype=str),
            "t": np.concatenate([np.repeat(np.arange(T), C), np.full(P, -1)]),
            "condition": np.concatenate([np.tile(self.conditions, T), np.full(P, np.nan)]),
        }
        for k in range(D):
            along = self.trajectories[..., k].ravel()
            columns[f"component_{k + 1}"] = np.concatenate([along, self.points[:, k]])
        return columns


def condition_space(
    states: Tensor | ArrayLike,  # (T, B, S)
    conditions: Tensor | ArrayLike,  # (B,)
    points: FixedPoints | None = None,
    *,
    dimensions: int = 3,
) -> ConditionSpace:
    r"""Average the states of each condition, and project them on two or three components.

    .. math:: \bar h_{ct} = \frac{1}{|c|} \sum_{b \in c} h_{tb}, \qquad
        z = A (\bar h - \langle \bar h \rangle)

    The axes A are the principal components of the means, so the noise of single trials does not
    turn them. The points do not influence them.

    Args:
        states: The states of trials of equal length, aligned in time.
        conditions: The condition of each trial, such as a coherence.
        points: Fixed or slow points, which are drawn as crosses.
        dimensions: The number D of axes, 2 or 3.
    Shape:
        states: :math:`(T, B, S)`; conditions: :math:`(B,)`.
    Raises:
        ValueError: If a shape is wrong, a number is not finite, D is neither 2 nor 3, or a state
            has fewer than D entries.
    Source:
        Mante et al., Nature 503, 2013, figure 5. https://doi.org/10.1038/nature12742 (departures:
        principal components instead of targeted axes; see `targeted_projection`).
    Example:
        >>> space = condition_space(np.random.randn(9, 6, 4), [0, 0, 0, 1, 1, 1], dimensions=2)
        >>> space.trajectories.shape
        (9, 2, 2)
    """
    h = as_trials(states)
    labels = as_labels(conditions, h.shape[1], "conditions")
    if dimensions not in (2, 3):
        raise ValueError(f"expected 2 or 3 dimensions, got {dimensions}")
    if h.shape[2] < dimensions:
        raise ValueError(f"expected states of at least {dimensions} entries, got {h.shape[2]}")
    found = np.unique(labels)
    means = np.stack([h[:, labels == c].mean(1) for c in found], axis=1)
    origin, axes, shares = _principal_axes(means.reshape(-1, h.shape[2]), dimensions)
    crosses = np.empty((0, h.shape[2])) if points is None else points.points
    if crosses.shape[1] != h.shape[2]:
        raise ValueError(f"expected points of size {h.shape[2]}, got {crosses.shape[1]}")
    return ConditionSpace(
        conditions=found,
        trajectories=(means - origin) @ axes.T,
        points=(crosses - origin) @ axes.T,
        shares=shares,
        origin=origin,
        axes=axes,
    )


def _principal_axes(
    rows: NDArray[np.float64],  # (n, S)
    dimensions: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean of states, their principal components and the share of each.

    Where the states span fewer dimensions, the other components are zero.
    """
    origin = rows.mean(0)
    _, sigma, basis = np.linalg.svd(rows - origin, full_matrices=False)
    axes = np.zeros((dimensions, rows.shape[1]))
    axes[: len(basis)] = basis[:dimensions]
    axes *= np.where(axes.sum(1) < 0, -1.0, 1.0)[:, None]  # a sign that does not change by chance
    shares = np.zeros(dimensions)
    total = max((sigma**2).sum(), 1e-300)  # of equal states every share is zero
    shares[: len(sigma)] = (sigma**2 / total)[:dimensions]
    return origin, axes, shares


@dataclass(frozen=True)
class TargetedProjection(Projection, Analysis):
    r"""Axes of the states along which single variables of the task act.

    Args:
        names: The names of the variables.
        axes: The orthogonal axes, in the order of the variables.
        coefficients: The denoised regression coefficients over time.
        peaks: The time at which the coefficients of each variable are largest.
        origin: The mean state.
    Shape:
        axes: :math:`(V, S)`; coefficients: :math:`(T, V, S)`; peaks: :math:`(V,)`; origin:
        :math:`(S,)`.
    """

    names: list[str]
    axes: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    peaks: NDArray[np.int64]
    origin: NDArray[np.float64]

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        norms = np.linalg.norm(self.coefficients, axis=2)
        curves = {name: norms[:, v] for v, name in enumerate(self.names)}
        plot.lines(axes, np.arange(len(norms)), curves)
        plot.label(axes, "step", "norm of the coefficients")
        return figure

    def table(self) -> Table:
        T, V, S = self.coefficients.shape
        return {
            "t": np.repeat(np.arange(T), V * S),
            "variable": np.tile(np.repeat(np.array(self.names, dtype=str), S), T),
            "unit": np.tile(np.arange(S), T * V),
            "coefficient": self.coefficients.ravel(),
        }


def targeted_projection(
    states: Tensor | ArrayLike,  # (T, B, S)
    variables: Mapping[str, Tensor | ArrayLike],  # (B,) each
    *,
    components: int = _COMPONENTS,
) -> TargetedProjection:
    r"""Find the axes of task variables: targeted dimensionality reduction.

    .. math:: h_{tbi} = \sum_v \beta_{tvi}\, u_{bv} + \gamma_{ti} + \epsilon_{tbi}, \qquad
        \tilde\beta_{tv} = D \beta_{tv}, \qquad
        a_v = \tilde\beta_{t^*_v v}, \quad t^*_v = \operatorname{argmax}_t \|\tilde\beta_{tv}\|

    The regression runs at each time over all trials. D projects on the leading principal
    components of the means of the conditions, those trials with equal variables. The axes are the
    coefficients at the time of their largest norm, orthogonalised in the order of the variables.

    Args:
        states: The states of trials of equal length, aligned in time.
        variables: The variables of each trial by name, such as motion, colour, choice and context;
            each is divided by its largest absolute value.
        components: The number of principal components.
    Shape:
        states: :math:`(T, B, S)`; variables: :math:`(B,)` each.
    Raises:
        ValueError: If a shape is wrong, a number is not finite, the variables depend linearly on
            each other and one, there are no variables, or `components` is not a positive integer.
    Source:
        Mante et al., Nature 503, 2013, supplementary information, sections 6.5 to 6.8.
        https://doi.org/10.1038/nature12742 (departures: states are not z-scored by unit, so that
        the axes are directions of the states themselves).
    Example:
        >>> motion = np.random.choice([-1.0, -0.5, 0.5, 1.0], 50)
        >>> states = motion[:, None] * [0.0, 2.0, 0.0] + np.ones((9, 1, 1))
        >>> abs(targeted_projection(states, {"motion": motion}).axes).round(3).tolist()
        [[0.0, 1.0, 0.0]]
    """
    h = as_trials(states)
    T, B, S = h.shape
    check_positive_integer("components", components)
    # a column of zeros stays one, and fails the check of the rank below
    columns = [
        column / max(np.abs(column).max(), 1e-300)
        for column in as_variables(variables, B).values()
    ]
    U = np.stack([*columns, np.ones(B)], axis=1)
    if np.linalg.matrix_rank(U) < U.shape[1]:
        raise ValueError(
            "expected variables that do not depend linearly on each other and on a constant, got "
            f"{', '.join(variables)}"
        )
    # U is the same for all steps and units, so one least-squares problem has them as its columns
    solution, *_ = np.linalg.lstsq(U, h.transpose(1, 0, 2).reshape(B, T * S), rcond=None)
    beta = solution[:-1].reshape(len(variables), T, S).transpose(1, 0, 2)  # without the constant
    _, number = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    number = number.reshape(-1)  # NumPy 2.0 returned a column here
    means = np.concatenate([h[:, number == c].mean(1) for c in range(number.max() + 1)])
    _, _, basis = np.linalg.svd(means - means.mean(0), full_matrices=False)
    leading = basis[: min(components, len(basis))]
    denoised = np.asarray(beta @ leading.T @ leading, np.float64)
    peaks = np.linalg.norm(denoised, axis=2).argmax(0)
    targets = np.stack([denoised[peak, v] for v, peak in enumerate(peaks)], axis=1)
    # QR is Gram and Schmidt's process up to signs: an axis points where its variable grows
    Q, R = np.linalg.qr(targets)
    axes = (Q * np.where(np.diag(R) < 0, -1.0, 1.0)).T
    return TargetedProjection(
        names=list(variables),
        axes=axes,
        coefficients=denoised,
        peaks=peaks,
        origin=h.reshape(-1, S).mean(0),
    )


@dataclass(frozen=True)
class SubspaceOverlap(Analysis):
    r"""How far the subspaces of two sets of states coincide.

    Args:
        overlap: The mean squared cosine of the principal angles: one for equal subspaces, zero for
            orthogonal ones.
        angles: The principal angles, in rising order.
        alignment: The variance of the second set in the subspace of the first, relative to the
            most that a subspace of this dimension can hold.
        random: The overlap that two random subspaces have on average, :math:`k / S`.
    Shape:
        angles: :math:`(k,)`.
    Units:
        Angles in radians.
    """

    overlap: float
    angles: NDArray[np.float64]
    alignment: float
    random: float

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        number = np.arange(1, len(self.angles) + 1)
        plot.lines(axes, number, {"angle": np.degrees(self.angles)}, marker="o")
        axes.set_ylim(0, 95)
        title = f"overlap {self.overlap:.3g}, alignment {self.alignment:.3g}"
        plot.label(axes, "number", "principal angle [degrees]", title)
        return figure

    def table(self) -> Table:
        return {"number": np.arange(1, len(self.angles) + 1), "angle_radians": self.angles}


def subspace_overlap(
    first: Tensor | ArrayLike,  # (T, B, S) or (n, S)
    second: Tensor | ArrayLike,  # (T, B, S) or (n, S)
    dimensions: int = 2,
) -> SubspaceOverlap:
    r"""Compare the leading principal subspaces of two sets of states.

    .. math:: o = \frac1k \|A_1 A_2^\top\|_F^2 = \frac1k \sum_i \cos^2 \theta_i, \qquad
        a = \frac{\operatorname{tr}(A_1 C_2 A_1^\top)}{\sum_{i \le k} \lambda_i(C_2)}

    The rows of :math:`A_1` and :math:`A_2` are the k leading principal components of each set, and
    :math:`C_2` is the covariance of the second.

    Args:
        first: States, such as those of one context.
        second: States of the same network, such as those of the other.
        dimensions: The dimension k of the subspaces.
    Shape:
        :math:`(T, B, S)` or :math:`(n, S)`.
    Raises:
        ValueError: If a shape is wrong, a number is not finite, `dimensions` is not a positive
            integer, or a set spans fewer dimensions.
    Source:
        Elsayed et al., Nature Communications 7, 2016, equation 1 (the alignment).
        https://doi.org/10.1038/ncomms13239. Angles: Björck and Golub, 1973.
        https://doi.org/10.2307/2005662 (departures: none).
    Example:
        >>> plane = np.random.randn(50, 2) @ np.eye(2, 4)
        >>> round(subspace_overlap(plane, plane).overlap, 6)
        1.0
    """
    check_positive_integer("dimensions", dimensions)
    bases: list[NDArray[np.float64]] = []
    covariances: list[NDArray[np.float64]] = []
    for name, states in (("first", first), ("second", second)):
        h = as_real_array(states, name)
        if h.ndim not in (2, 3):
            raise ValueError(f"expected {name} of shape (T, B, S) or (n, S), got {h.shape}")
        check_finite(h, f"the {name} states")
        rows = h.reshape(-1, h.shape[-1])
        centred = rows - rows.mean(0)
        _, sigma, basis = np.linalg.svd(centred, full_matrices=False)
        # above rounding; of equal states nothing counts, which 1e-300 ensures
        rank = int((sigma > 1e-10 * max(sigma.max(initial=0.0), 1e-300)).sum())
        if dimensions > rank:
            raise ValueError(
                f"expected dimensions <= {rank}, which the {name} states span, got {dimensions}"
            )
        bases.append(basis[:dimensions])
        covariances.append(centred.T @ centred / len(centred))
    if bases[0].shape != bases[1].shape:
        sizes = bases[0].shape[1], bases[1].shape[1]
        raise ValueError(f"expected states of the same size, got {sizes[0]} and {sizes[1]}")
    # the singular values of A_1 A_2^T are the cosines of the principal angles, up to rounding
    cosines = np.clip(np.linalg.svd(bases[0] @ bases[1].T, compute_uv=False), 0, 1)
    C = covariances[1]
    most = np.linalg.eigvalsh(C)[::-1][:dimensions].sum()
    held = np.trace(bases[0] @ C @ bases[0].T)
    return SubspaceOverlap(
        overlap=float((cosines**2).mean()),
        angles=np.arccos(cosines),
        alignment=float(held / most),
        random=dimensions / C.shape[0],
    )
