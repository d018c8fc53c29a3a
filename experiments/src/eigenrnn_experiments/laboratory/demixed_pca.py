"""Demixed principal components: directions of the states that depend on one task variable each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eigenrnn.analysis import Analysis, Table, plot
from eigenrnn.errors import check_not_negative, check_positive_integer
from eigenrnn_experiments.laboratory.arguments import as_real_array, as_trials, as_variables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DemixedPCA", "demixed_pca"]

_TIME = "time"
_ROUNDING = 1e-10  # a singular value this small, relative to the states, counts as zero


@dataclass(frozen=True)
class DemixedPCA(Analysis):
    r"""Components of the states that depend on time, on one variable or on an interaction.

    Args:
        names: The marginalisations: ``"time"``, each variable, and each interaction, such as
            ``"motion x context"``.
        totals: The share of each marginalisation in the variance of the mean states.
        kinds: The number of the marginalisation of each component. Components are in the order of
            falling `explained`.
        decoders: The decoders, one per row; their product with a centred state is a coordinate.
        encoders: The encoders, one per row and of length one; a coordinate times its encoder is
            its part of a state.
        explained: The share of the variance of the mean states that each component explains,
            :math:`1 - \|X - f_k d_k X\|^2 / \|X\|^2`.
        parts: The share of each marginalisation in the variance of each coordinate; the rows sum
            to one. In a demixed component one share is close to one.
        conditions: The values of the variables in each condition, by name.
        coordinates: The coordinates of the mean state of each condition.
        origin: The mean of the mean states, which has coordinates 0.
    Shape:
        totals: :math:`(P,)`; kinds, explained: :math:`(K,)`; decoders, encoders: :math:`(K, S)`;
        parts: :math:`(K, P)`; conditions: :math:`(C,)` each; coordinates: :math:`(T, C, K)`;
        origin: :math:`(S,)`.
    """

    names: list[str]
    totals: NDArray[np.float64]
    kinds: NDArray[np.int64]
    decoders: NDArray[np.float64]
    encoders: NDArray[np.float64]
    explained: NDArray[np.float64]
    parts: NDArray[np.float64]
    conditions: dict[str, NDArray[np.float64]]
    coordinates: NDArray[np.float64]
    origin: NDArray[np.float64]

    def project(
        self,
        states: Tensor | ArrayLike,  # (..., S)
    ) -> NDArray[np.float64]:  # (..., K)
        """Return the coordinates of other states."""
        return (as_real_array(states, "the states") - self.origin) @ self.decoders.T

    def plot(self) -> "Figure":
        # the components of time and of each variable by their time course, all others as bars only
        singles = [p for p, name in enumerate(self.names) if name in (_TIME, *self.conditions)]
        shown = [p for p in singles if p in self.kinds]
        figure, (first, *others) = plot.canvas(1 + len(shown))
        places = np.arange(1, len(self.kinds) + 1)
        bottom = np.zeros(len(self.kinds))
        for p, name in enumerate(self.names):
            heights = self.explained * self.parts[:, p]
            first.bar(places, heights, bottom=bottom, label=f"{name} ({self.totals[p]:.0%})")
            bottom += heights
        first.legend(fontsize="small", frameon=False)
        plot.label(first, "component", "share of the variance of the mean states")
        steps = np.arange(len(self.coordinates))
        for axes, p in zip(others, shown, strict=True):
            name = self.names[p]
            k = int(np.flatnonzero(self.kinds == p)[0])
            values = self.conditions.get(name)
            levels = np.zeros(self.coordinates.shape[1]) if values is None else values
            for colour, level in enumerate(np.unique(levels)):
                curves = self.coordinates[:, levels == level, k]
                lines = axes.plot(steps, curves, color=f"C{colour}", linewidth=1)
                lines[0].set_label("all conditions" if values is None else f"{name} {level:g}")
            axes.legend(fontsize="small", frameon=False)
            plot.label(axes, "step", f"component {k + 1}", f"{name}: {self.parts[k, p]:.0%} of it")
        return figure

    def table(self) -> Table:
        T, C, K = self.coordinates.shape
        kinds = np.array(self.names, dtype=str)[self.kinds]
        columns: Table = {
            "t": np.repeat(np.arange(T), C * K),
            "component": np.tile(np.arange(1, K + 1), T * C),
            "marginalisation": np.tile(kinds, T * C),
            "explained": np.tile(self.explained, T * C),
        }
        for p, name in enumerate(self.names):
            columns[f"part_{name}"] = np.tile(self.parts[:, p], T * C)
        for name, values in self.conditions.items():
            columns[f"condition_{name}"] = np.tile(np.repeat(values, K), T)
        columns["coordinate"] = self.coordinates.ravel()
        return columns


def demixed_pca(
    states: Tensor | ArrayLike,  # (T, B, S)
    variables: Mapping[str, Tensor | ArrayLike],  # (B,) each
    *,
    components: int = 2,
    ridge: float = 1e-6,
) -> DemixedPCA:
    r"""Find components of the states that each depend on one variable, or on one interaction.

    .. math:: X = \sum_\phi X_\phi, \qquad
        \min_{F_\phi, D_\phi} \; \|X_\phi - F_\phi D_\phi X\|^2 + \|F_\phi D_\phi E\|^2
        + \mu \|F_\phi D_\phi\|^2, \qquad F_\phi^\top F_\phi = I, \quad \mu = r \|X\|^2

    X holds the mean state of each condition at each time, minus the mean of all. A condition is a
    combination of values of the variables. Every condition counts equally, however many trials it
    has. X is divided into orthogonal marginalisations: its mean over all conditions, which depends
    on time alone; what each variable adds to it; and what several variables add together. Each
    includes its interaction with time.

    Each marginalisation is a reduced-rank regression on X. E holds the deviations of single trials
    from their means, each condition with the weight of one trial. Decoders D and encoders F
    differ, so the axes of variables need not be orthogonal to be separated.

    Args:
        states: The states of trials of equal length, aligned in time.
        variables: The variables of each trial by name, such as motion and context; each has a few
            values, and every combination of them must occur.
        components: The number of components of each marginalisation. It has fewer where it spans
            fewer dimensions, and none where it is zero.
        ridge: The ridge r, relative to the variance of X.
    Shape:
        states: :math:`(T, B, S)`; variables: :math:`(B,)` each.
    Raises:
        ValueError: If a shape is wrong, a number is not finite, there are no variables, one is
            named ``"time"`` or has a single value, a combination of values has no trial, the means
            do not vary, `components` is not a positive integer, or `ridge` is negative.
    Source:
        Kobak et al., eLife 5, 2016, e10989. https://doi.org/10.7554/eLife.10989 (departures: the
        ridge is an argument and not cross-validated, and it is relative to :math:`\|X\|^2`).
    Example:
        >>> choice = np.array([-1, 1] * 6)
        >>> context = np.repeat([0, 1], 6)
        >>> states = np.random.randn(9, 12, 4)
        >>> demixed_pca(states, {"choice": choice, "context": context}).names
        ['time', 'choice', 'context', 'choice x context']
    """
    h = as_trials(states)
    T, B, S = h.shape
    check_positive_integer("components", components)
    check_not_negative("ridge", ridge)
    labels = as_variables(variables, B)
    if _TIME in labels:
        raise ValueError(f"expected variables besides {_TIME!r}, which the states have themselves")
    levels = [np.unique(values) for values in labels.values()]
    for name, values in zip(labels, levels, strict=True):
        if len(values) < 2:
            raise ValueError(f"expected at least two values of {name}, got {values[0]:g} only")
    means, noise = _balanced(h, list(labels.values()), levels)
    origin = means.reshape(-1, S).mean(0)
    means = means - origin
    total = float((means**2).sum())
    if total <= _ROUNDING**2 * float((h**2).sum()):
        raise ValueError("expected means that vary over time or conditions, got equal ones")
    marginals = dict(_marginalisations(means, list(labels)))
    X = means.reshape(-1, S)
    zeros = np.zeros((len(noise) + S, S))
    regressors = np.concatenate([X, noise, np.sqrt(ridge * total) * np.eye(S)])
    kinds: list[int] = []
    decoders: list[NDArray[np.float64]] = []
    encoders: list[NDArray[np.float64]] = []
    for p, marginal in enumerate(marginals.values()):
        targets = np.concatenate([marginal.reshape(-1, S), zeros])
        A, *_ = np.linalg.lstsq(regressors, targets, rcond=None)
        # the best regression of low rank is the full one on its principal components
        _, sigma, basis = np.linalg.svd(regressors @ A, full_matrices=False)
        rank = int((sigma > _ROUNDING * np.sqrt(total)).sum())
        axes = basis[: min(components, rank)]
        axes = axes * np.where(axes.sum(1) < 0, -1.0, 1.0)[:, None]  # no sign by chance
        encoders.append(np.asarray(axes, np.float64))
        decoders.append(np.asarray(axes @ A.T, np.float64))
        kinds += [p] * len(axes)
    F = np.concatenate(encoders)
    D = np.concatenate(decoders)
    coordinates = means @ D.T
    y = coordinates.reshape(-1, len(D))
    captured = (y**2).sum(0)
    explained = (2 * np.einsum("ks,nk,ns->k", F, y, X) - captured) / total
    squares = [((part.reshape(-1, S) @ D.T) ** 2).sum(0) for part in marginals.values()]
    order = (-explained).argsort(kind="stable")
    combined = np.meshgrid(*levels, indexing="ij")
    return DemixedPCA(
        names=list(marginals),
        totals=np.array([(part**2).sum() / total for part in marginals.values()]),
        kinds=np.array(kinds, np.int64)[order],
        decoders=D[order],
        encoders=F[order],
        explained=explained[order],
        parts=(np.stack(squares, axis=1) / captured[:, None])[order],
        conditions={name: each.ravel() for name, each in zip(labels, combined, strict=True)},
        coordinates=coordinates.reshape(T, -1, len(D))[..., order],
        origin=origin,
    )


def _balanced(
    h: NDArray[np.float64],  # (T, B, S)
    labels: list[NDArray[np.float64]],  # (B,) each
    levels: list[NDArray[np.float64]],  # the values of each variable
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # (T, levels, ..., S), (S, S)
    """Return the mean states of all conditions, and a root of the covariance of single trials.

    Raises:
        ValueError: If a condition has no trial.
    """
    T, _, S = h.shape
    sizes = [len(values) for values in levels]
    means = np.empty((T, *sizes, S))
    root = np.zeros((S, S))
    for place in np.ndindex(*sizes):
        chosen = np.ones(h.shape[1], dtype=bool)
        for values, each, i in zip(labels, levels, place, strict=True):
            chosen &= values == each[i]
        if not chosen.any():
            values = ", ".join(f"{each[i]:g}" for each, i in zip(levels, place, strict=True))
            raise ValueError(
                f"expected a trial of every combination of the variables, got none of ({values}): "
                "leave out a variable, or pool some of its values"
            )
        trials = h[:, chosen]
        mean = trials.mean(1)
        means[(slice(None), *place)] = mean
        deviations = (trials - mean[:, None]).reshape(-1, S) / np.sqrt(trials.shape[1])
        # the triangular factor has the products of all rows so far
        rows = np.concatenate([root, deviations])
        root = np.asarray(np.linalg.qr(rows, mode="r"), np.float64)
    return means, root


def _marginalisations(
    means: NDArray[np.float64],  # (T, levels, ..., S)
    names: list[str],
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Yield the name and the part of each set of variables, the smaller sets first."""
    parts: dict[frozenset[int], NDArray[np.float64]] = {}
    for size in range(len(names) + 1):
        for chosen in combinations(range(len(names)), size):
            others = tuple(1 + v for v in range(len(names)) if v not in chosen)
            part = np.broadcast_to(means.mean(axis=others, keepdims=True), means.shape).copy()
            for smaller, known in parts.items():
                if smaller < set(chosen):
                    part -= known
            parts[frozenset(chosen)] = part
            yield " x ".join(names[v] for v in chosen) or _TIME, part
