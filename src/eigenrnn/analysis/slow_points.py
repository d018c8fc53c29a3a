"""Slow points of the states, and the line attractors that they form."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import as_real_tensor
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.dynamics import distinct_states, drawn_states, minimise_speed
from eigenrnn.analysis.state_map import Network, select_state_map, state_maps
from eigenrnn.errors import check_positive, check_positive_integer
from eigenrnn.linalg import check_finite

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LineAttractor", "SlowPoints", "line_attractor", "slow_points"]

_DISTANCE = 1e-3  # of points that are merged, relative to 1 + |h|


@dataclass(frozen=True)
class SlowPoints(Analysis):
    r"""States that hardly move under a constant input, for one or several inputs.

    Args:
        points: The points, those of each input in order of rising speed.
        speeds: The speed :math:`q = \tfrac12 \|F(h) - h\|^2` of each.
        conditions: The number of the input of each point.
        inputs: The inputs.
        eigenvalues: The eigenvalues of the Jacobian at each point, by falling modulus.
        right: Its right eigenvectors, of length one, as columns.
        left: Its left eigenvectors as rows; the product of left and right is the identity.
        input_jacobians: The derivatives of a step by the input.
        searches: The number of searches, over all inputs.
        failed: The number of searches that ended above the threshold.
        merged: The number of searches that ended at a point that another had found.
    Shape:
        points, eigenvalues: :math:`(P, S)`; speeds, conditions: :math:`(P,)`; inputs:
        :math:`(C, M)`; right, left: :math:`(P, S, S)`; input_jacobians: :math:`(P, S, M)`.
    """

    points: NDArray[np.float64]
    speeds: NDArray[np.float64]
    conditions: NDArray[np.int64]
    inputs: NDArray[np.float64]
    eigenvalues: NDArray[np.complex128]
    right: NDArray[np.complex128]
    left: NDArray[np.complex128]
    input_jacobians: NDArray[np.float64]
    searches: int
    failed: int
    merged: int

    @property
    def time_constants(self) -> NDArray[np.float64]:  # (P, S)
        r"""The time constant :math:`-1 / \ln |\lambda|` of each mode, in steps.

        A mode that grows has a negative one, and a mode that stays has an infinite one.
        """
        moduli = np.abs(self.eigenvalues)
        with np.errstate(divide="ignore"):
            constants = -1 / np.log(moduli)
        return np.where(moduli == 1, np.inf, constants)  # and not minus infinity

    def plot(self) -> "Figure":
        figure, (left, right) = plot.canvas(2)
        eigenvalues: dict[str, NDArray[np.complex128]] = {}
        for c in range(len(self.inputs)):
            name = f"input {c}"
            of_input = self.conditions == c
            if of_input.any():
                eigenvalues[name] = self.eigenvalues[of_input].ravel()
            speeds = self.speeds[of_input]
            rank = np.arange(1, len(speeds) + 1)
            # a logarithmic axis has no place for a speed of zero
            right.plot(rank, np.maximum(speeds, 1e-300), marker=".", label=name)
        plot.plane(left, eigenvalues)
        plot.label(
            left, "real part", "imaginary part", f"eigenvalues at {len(self.points)} points"
        )
        if len(self.points):
            right.set_yscale("log")
        plot.label(right, "point", "speed q", f"{self.failed} of {self.searches} searches failed")
        return figure

    def table(self) -> Table:
        P, S = self.eigenvalues.shape
        return {
            "point": np.repeat(np.arange(P), S),
            "condition": np.repeat(self.conditions, S),
            "speed": np.repeat(self.speeds, S),
            "unit": np.tile(np.arange(S), P),
            "state": self.points.ravel(),
            "eigenvalue_real": self.eigenvalues.real.ravel(),
            "eigenvalue_imaginary": self.eigenvalues.imag.ravel(),
        }


@torch.no_grad()
def slow_points(
    network: Network,
    inputs: Tensor | ArrayLike | None = None,  # (C, M) or (M,)
    *,
    initial_states: int | Tensor | tuple[Tensor, ...] = 64,  # (P, S)
    threshold: float = 1e-8,
    steps: int = 200,
    generator: Generator | None = None,
    which: str = "l0",
) -> SlowPoints:
    r"""Find states where a network is slow, under each of several constant inputs.

    .. math:: q(h) = \tfrac12 \|F(h) - h\|^2 \le \text{threshold}

    The search is that of `fixed_points`, but each one ends as soon as its speed is below the
    threshold. It therefore stays near its initial state, and initial states on trajectories give
    points all along a line attractor. A point that is slow need not be near a fixed point. Points
    closer than 1e-3, relative to :math:`1 + \|h\|`, are merged.

    Args:
        network: A recurrent layer or cell, a model with one, or a `StateMap`.
        inputs: The inputs that are held, one for each condition; zero by default.
        initial_states: The initial states of the search under each input, or how many to draw
            from the normal distribution. States of trajectories are better: `Trajectory.sample`
            draws some.
        threshold: The largest speed q of a slow point.
        steps: The largest number of iterations of a search.
        generator: Torch's generator of initial states; its global generator by default.
        which: The layer and direction.
    Shape:
        inputs: :math:`(C, M)` or :math:`(M,)`; initial_states: :math:`(P, S)` or
        :math:`(T, B, S)`.
    Units:
        Time constants in steps.
    Raises:
        ValueError: If the layer or direction does not exist, a shape is wrong, a number is not
            finite, there is no initial state, or `threshold` or `steps` is not positive.
        TypeError: If the network is not one, or `threshold` is not a number.
    Source:
        Sussillo and Barak, Neural Computation 25, 2013, sections 2 and 3.
        https://doi.org/10.1162/NECO_a_00409 (departures: the Levenberg-Marquardt method).
    Example:
        >>> slow_points(torch.nn.RNN(1, 1, bias=False), initial_states=5).points.round(3).tolist()
        [[0.0]]
    """
    state_map = select_state_map(state_maps(network), which)
    check_positive_integer("steps", steps)
    check_positive("threshold", threshold)
    M = state_map.input_size
    S = state_map.state_size
    x = torch.zeros(1, M, dtype=torch.float64)
    if inputs is not None:
        x = as_real_tensor(inputs, "inputs")
    if x.dim() < 2:
        x = x.view(1, -1)
    if x.dim() != 2 or x.shape[1] != M or not len(x) or not bool(x.isfinite().all()):
        raise ValueError(f"expected finite inputs of shape (C, {M}), got {tuple(x.shape)}")
    first = drawn_states(initial_states, S, generator)
    goal = (2 * threshold) ** 0.5  # the search measures |F(h) - h| = sqrt(2 q)
    points: list[Tensor] = []
    speeds: list[Tensor] = []
    conditions: list[int] = []
    failed = 0
    for c, held_input in enumerate(x):
        expanded = held_input.expand(len(first), M)
        h, residual = minimise_speed(state_map, expanded, first.clone(), steps, goal)
        slow = residual <= goal
        failed += len(h) - int(slow.sum())
        h = h[slow]
        residual = residual[slow]
        kept = distinct_states(h, residual, _DISTANCE)
        points.append(h[kept])
        speeds.append(residual[kept].square() / 2)
        conditions += [c] * len(kept)
    h = torch.cat(points)
    number = torch.tensor(conditions, dtype=torch.int64)
    by_state = h.new_zeros(0, S, S)
    by_input = h.new_zeros(0, S, M)
    if len(h):  # a step of the user need not accept an empty batch
        by_state, by_input = state_map.jacobians(x[number], h)
    check_finite(by_state, "the Jacobians of slow points")
    # torch's solver does not converge for some matrices of rank one
    values, right = np.linalg.eig(by_state.numpy().astype(np.complex128))
    order = np.abs(values).argsort(axis=1)[:, ::-1]
    values = np.take_along_axis(values, order, axis=1)
    right = np.take_along_axis(right, order[:, None, :], axis=2)
    # left eigenvectors are the rows of the inverse, which a defective Jacobian does not have
    inverse = np.linalg.pinv(right)
    searches = len(first) * len(x)
    return SlowPoints(
        points=h.numpy(),
        speeds=torch.cat(speeds).numpy(),
        conditions=number.numpy(),
        inputs=x.numpy(),
        eigenvalues=values,
        right=right,
        left=np.asarray(inverse, np.complex128),
        input_jacobians=by_input.numpy(),
        searches=searches,
        failed=failed,
        merged=searches - failed - len(h),
    )


@dataclass(frozen=True)
class LineAttractor(Analysis):
    r"""The line along which the slow points of each condition lie.

    Args:
        conditions: The number of each condition that has a line.
        directions: The direction of each line, of length one.
        shares: The share of the variance of the points along it.
        alignments: The mean :math:`|\cos|` between the direction and the slowest right
            eigenvector of each point.
        selections: The selection vector: the mean left eigenvector of the slowest mode. Its
            product with a change of the state is how far the state ends up along the line.
        input_gains: How far a unit of each input, in one step, moves the state along the line:
            the mean product of the selection vector with the derivative of a step by the input.
        time_constants: The median time constants of the two slowest modes, in steps; infinite for
            a mode that stays, and negative for one that grows.
        point_conditions: The condition of each point on a line.
        coordinates: The coordinate of each point along its line.
    Shape:
        conditions, shares, alignments: :math:`(L,)`; directions, selections: :math:`(L, S)`;
        input_gains: :math:`(L, M)`; time_constants: :math:`(L, 2)`; point_conditions, coordinates:
        (points,).
    """

    conditions: NDArray[np.int64]
    directions: NDArray[np.float64]
    shares: NDArray[np.float64]
    alignments: NDArray[np.float64]
    selections: NDArray[np.float64]
    input_gains: NDArray[np.float64]
    time_constants: NDArray[np.float64]
    point_conditions: NDArray[np.int64]
    coordinates: NDArray[np.float64]

    def plot(self) -> "Figure":
        figure, (left, right) = plot.canvas(2)
        for c in self.conditions:
            along = self.coordinates[self.point_conditions == c]
            left.plot(along, np.full(len(along), c), marker=".", linestyle="")
        plot.label(left, "coordinate along the line", "condition")
        places = np.arange(len(self.conditions))
        shown = np.abs(self.time_constants)
        for mode, name in enumerate(("slowest mode", "next mode")):
            right.plot(places, shown[:, mode], marker="o", linestyle="", label=name)
        if len(self.conditions):
            right.set_yscale("log")
            right.legend(fontsize="small", frameon=False)
        right.set_xticks(places, [str(c) for c in self.conditions])
        plot.label(right, "condition", "time constant [steps]")
        return figure

    def table(self) -> Table:
        line = np.searchsorted(self.conditions, self.point_conditions)
        return {
            "condition": self.point_conditions,
            "coordinate": self.coordinates,
            "share": self.shares[line],
            "alignment": self.alignments[line],
            "time_constant_1": self.time_constants[line, 0],
            "time_constant_2": self.time_constants[line, 1],
        }


def line_attractor(points: SlowPoints) -> LineAttractor:
    r"""Fit a line to the slow points of each condition, and find what it selects.

    .. math:: J = \sum_i \lambda_i\, r_i l_i^\top, \qquad l_i^\top r_j = \delta_{ij}, \qquad
        \Delta s = l_1^\top \Delta h

    The direction is the first principal component of the points. Along a line attractor it
    coincides with the right eigenvector :math:`r_1` of the slowest mode. A perturbation
    :math:`\Delta h` ends up :math:`l_1^\top \Delta h` further along it once all other modes have
    decayed. Conditions with fewer than three points have no line.

    Args:
        points: The slow points, from `slow_points`.
    Units:
        Time constants in steps.
    Raises:
        ValueError: If no condition has three points, or a state has one entry.
    Source:
        Mante et al., Nature 503, 2013. https://doi.org/10.1038/nature12742 (departures: discrete
        time).
    Example:
        >>> W = torch.ones(4, 4, dtype=torch.float64) / 4  # keeps the mean, forgets all else
        >>> integrator = eigenrnn.analysis.StateMap.from_step(lambda x, h: h @ W.T + 0 * x, 4, 4)
        >>> line_attractor(slow_points(integrator)).directions.round(3).tolist()
        [[0.5, 0.5, 0.5, 0.5]]
    """
    S = points.points.shape[1]
    if S < 2:
        raise ValueError("expected states with at least 2 entries, got 1: it has but one line")
    lines: list[int] = []
    directions: list[NDArray[np.float64]] = []
    selections: list[NDArray[np.float64]] = []
    gains: list[NDArray[np.float64]] = []
    shares: list[float] = []
    alignments: list[float] = []
    constants: list[NDArray[np.float64]] = []
    members: list[NDArray[np.int64]] = []
    coordinates: list[NDArray[np.float64]] = []
    for c in range(len(points.inputs)):
        chosen = points.conditions == c
        if chosen.sum() < 3:  # two points always lie on a line
            continue
        h = points.points[chosen]
        centred = h - h.mean(0)
        _, sigma, axes = np.linalg.svd(centred, full_matrices=False)
        direction = axes[0]
        if direction.sum() < 0:  # the sign of a singular vector is arbitrary
            direction = -direction
        right = points.right[chosen, :, 0]
        left = points.left[chosen, 0]
        # the phase of an eigenvector is arbitrary: turn each along the line
        along = right @ direction
        size = np.abs(along)
        phase = np.where(size > 0, along / np.where(size > 0, size, 1), 1)
        lines.append(c)
        directions.append(direction)
        shares.append(float(sigma[0] ** 2 / max((sigma**2).sum(), 1e-300)))
        alignments.append(float(size.mean()))
        # l r = 1: where r is turned by the conjugate of the phase, l is turned by the phase
        selecting = (left * phase[:, None]).real
        selections.append(selecting.mean(0))
        gains.append(np.einsum("ps,psm->pm", selecting, points.input_jacobians[chosen]).mean(0))
        constants.append(np.median(points.time_constants[chosen, :2], axis=0))
        members.append(np.full(len(h), c))
        coordinates.append(centred @ direction)
    if not lines:
        raise ValueError(
            f"expected at least 3 slow points of one condition, got {len(points.points)} in all: "
            "start from more states, or raise the threshold"
        )
    return LineAttractor(
        conditions=np.array(lines),
        directions=np.stack(directions),
        shares=np.array(shares),
        alignments=np.array(alignments),
        selections=np.stack(selections),
        input_gains=np.stack(gains),
        time_constants=np.stack(constants),
        point_conditions=np.concatenate(members),
        coordinates=np.concatenate(coordinates),
    )
