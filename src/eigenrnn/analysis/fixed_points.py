"""Fixed and slow points of the states, and the line attractors that they form."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import as_real_tensor
from eigenrnn.analysis.base import Analysis, Figure, Table
from eigenrnn.analysis.state_map import Network, StateMap, select_state_map, state_maps
from eigenrnn.analysis.trajectory import InitialState, as_state
from eigenrnn.errors import check_positive, check_positive_integer
from eigenrnn.linalg import check_finite, on_cpu

__all__ = [
    "FixedPoints",
    "LineAttractor",
    "drawn_states",
    "fixed_points",
    "line_attractor",
    "settled_states",
]

_TOLERANCE = 1e-9  # of |F(h) - h| at a fixed point, relative to 1 + |h|
_SLOW_DISTANCE = 1e-3  # of slow points that are merged, relative to 1 + |h|
_HIGHEST_POWER = 5  # with which a residual grows near a degenerate point
_MAX_DISTANCE = 0.05  # of fixed points that are merged: further apart, they lie along a line
_SETTLING_STEPS = 200
_MIN_DAMPING = 1e-12  # from here a few failed steps lead back to a damping that matters
_MAX_DAMPING = 1e6  # a search whose steps are this short has stalled, and ends
_NOT_SMOOTH = "not smooth"
_KINDS = ("stable", "marginal", "saddle", "unstable", _NOT_SMOOTH)
_SHIFT = 1e-6  # of a point, relative to 1 + |h|, to see whether its Jacobian predicts the step
# A modulus this close to one counts as one. Where it is one, a search ends with a residual of
# 1e-12, so up to 1e-6 from the point, and the modulus is off by as much.
_MODULUS_TOLERANCE = 1e-5


@dataclass(frozen=True)
class FixedPoints(Analysis):
    r"""States that stay, or hardly move, under a constant input, for one or several inputs.

    Args:
        points: The points, those of each input in order of rising spectral radius.
        speeds: The speed :math:`q = \tfrac12 \|F(h) - h\|^2` of each.
        conditions: The number of the input of each point.
        inputs: The inputs.
        jacobians: The derivatives of a step by the state, at each point.
        input_jacobians: The derivatives of a step by the input.
        eigenvalues: The eigenvalues of the Jacobian at each point, by falling modulus.
        smooth: Whether the Jacobian of each point predicts a step from beside it. It does not on
            a kink, such as the state zero of modReLU with a positive bias.
        searches: The number of searches, over all inputs.
        failed: The number of searches that did not end at a point.
    Shape:
        points, eigenvalues: :math:`(P, S)`; speeds, conditions, smooth: :math:`(P,)`; inputs:
        :math:`(C, M)`; jacobians: :math:`(P, S, S)`; input_jacobians: :math:`(P, S, M)`.
    """

    points: NDArray[np.float64]
    speeds: NDArray[np.float64]
    conditions: NDArray[np.int64]
    inputs: NDArray[np.float64]
    jacobians: NDArray[np.float64]
    input_jacobians: NDArray[np.float64]
    eigenvalues: NDArray[np.complex128]
    smooth: NDArray[np.bool_]
    searches: int
    failed: int

    @property
    def kinds(self) -> list[str]:
        """The kind of each point: stable, marginal, saddle, unstable or not smooth.

        In this order: all moduli of its eigenvalues are below one; the largest is one; only some
        are above one; all are above one; the eigenvalues say nothing, as the point is on a kink.
        A modulus within 1e-5 of one counts as one.
        """
        moduli = np.abs(self.eigenvalues)
        pairs = zip(moduli, self.smooth, strict=True)
        return [_kind(some) if smooth else _NOT_SMOOTH for some, smooth in pairs]

    @property
    def time_constants(self) -> NDArray[np.float64]:  # (P, S)
        r"""The time constant :math:`-1 / \ln |\lambda|` of each mode, in steps.

        A mode that grows has a negative one, and a mode that stays has an infinite one.
        """
        moduli = np.abs(self.eigenvalues)
        with np.errstate(divide="ignore"):
            constants = -1 / np.log(moduli)
        return np.where(moduli == 1, np.inf, constants)  # and not minus infinity

    def plot(
        self,
        states: Tensor | ArrayLike | None = None,  # (T, B, S) or (T, S)
    ) -> Figure:
        """Draw the points in a plane of states, and the eigenvalues of their Jacobians.

        Args:
            states: States of trajectories, such as ``trajectory(layer, x).states``, to draw beside
                the points. The plane is that of their first two principal components; without
                states, that of the points.
        Raises:
            ValueError: If the states have another size than the points.
        """
        S = self.eigenvalues.shape[1]
        paths = np.empty((0, 0, S))
        if states is not None:
            paths = as_real_tensor(states, "states").numpy()
            paths = paths.reshape(len(paths), -1, paths.shape[-1])  # one sequence has no batch
        if paths.shape[2] != S:
            raise ValueError(f"expected states of {S} numbers, got {paths.shape[2]}")
        figure, (plane, axes) = plot.canvas(2)
        shown = self.points
        if paths.size:
            shown = paths.reshape(-1, S)
        centre, components = _principal_plane(shown)
        for path in np.moveaxis(paths, 1, 0):
            x, y = components @ (path - centre).T
            plane.plot(x, y, color="0.7", linewidth=0.8, zorder=1)
        kinds = np.array(self.kinds, dtype=str)
        eigenvalues: dict[str, NDArray[np.complex128]] = {}
        for kind in _KINDS:
            of_kind = kinds == kind
            if not of_kind.any():
                continue
            name = f"{of_kind.sum()} {kind}"
            eigenvalues[name] = self.eigenvalues[of_kind].ravel()
            x, y = components @ (self.points[of_kind] - centre).T
            plane.plot(x, y, linestyle="", marker="o", markersize=5, label=name)
        plot.label(plane, "first principal component", "second", "states")
        plot.plane(axes, eigenvalues)
        title = f"eigenvalues at {', '.join(eigenvalues) or 'no'} points"
        plot.label(axes, "real part", "imaginary part", title)
        return figure

    def table(self) -> Table:
        P, S = self.eigenvalues.shape
        return {
            "point": np.repeat(np.arange(P), S),
            "condition": np.repeat(self.conditions, S),
            "kind": np.repeat(np.array(self.kinds, dtype=str), S),
            "speed": np.repeat(self.speeds, S),
            "unit": np.tile(np.arange(S), P),
            "state": self.points.ravel(),
            "eigenvalue_real": self.eigenvalues.real.ravel(),
            "eigenvalue_imaginary": self.eigenvalues.imag.ravel(),
        }

    def headline(self) -> dict[str, float]:
        counts = {kind: float(self.kinds.count(kind)) for kind in _KINDS}
        return {"points": float(len(self.points)), **counts, "failed": float(self.failed)}


def _principal_plane(
    states: NDArray[np.float64],  # (n, S)
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # (S,), (2, S)
    """Return the mean of states and their first two principal components.

    A component that they do not have is zero.
    """
    S = states.shape[1]
    components = np.zeros((2, S))
    if not len(states):
        return np.zeros(S), components
    centre = states.mean(0)
    _, _, axes = np.linalg.svd(states - centre, full_matrices=False)
    components[: len(axes)] = axes[:2]
    return centre, components


def _kind(moduli: NDArray[np.float64]) -> str:
    if moduli.max() < 1 - _MODULUS_TOLERANCE:
        return "stable"
    if moduli.max() <= 1 + _MODULUS_TOLERANCE:
        return "marginal"
    if moduli.min() > 1 + _MODULUS_TOLERANCE:
        return "unstable"
    return "saddle"


@on_cpu
@torch.no_grad()
def fixed_points(
    network: Network,
    inputs: Tensor | ArrayLike | None = None,  # (C, M) or (M,)
    *,
    threshold: float | None = None,
    initial_states: int | Tensor | tuple[Tensor, ...] = 64,  # (P, S)
    steps: int = 200,
    generator: Generator | None = None,
    which: str = "l0",
) -> FixedPoints:
    r"""Find fixed or slow points of a network under constant inputs, and their stability.

    .. math:: F(h^*) = h^*, \qquad q(h) = \tfrac12 \|F(h) - h\|^2, \qquad
        \lambda_i\!\left(\frac{\partial F}{\partial h}(h^*)\right)

    The Levenberg-Marquardt method minimises q from all initial states at once. Its damping shrinks
    after a step that reduces q, and grows after any other. A state with :math:`\|F(h) - h\|` up to
    1e-9 of :math:`1 + \|h\|` is a fixed point. Of points that the search cannot tell apart, only
    the best is kept. They are closer than the root of that, or than 1e-8 over the smallest
    singular value of :math:`\partial F / \partial h - I`, at most 0.05 of :math:`1 + \|h\|`.

    The search may miss fixed points, so their number is a lower bound: states of trajectories
    find more attractors than random ones. Of a line of fixed points, it returns only some. Entries
    that the layer keeps between -1 and 1, such as those of a tanh network, a GRU and the h of an
    LSTM, stay there during the search.

    With a threshold, each search ends as soon as its speed q is below it. It therefore stays near
    its initial state, and initial states on trajectories give points all along a line attractor. A
    point that is slow need not be near a fixed point. Slow points closer than 1e-3 of
    :math:`1 + \|h\|` are merged.

    Args:
        network: A recurrent layer or cell, a model with one, or a `StateMap`.
        inputs: The inputs that are held at every step, one for each condition; zero by default.
        threshold: The largest speed q of a slow point, such as 1e-8; fixed points by default.
        initial_states: The initial states of the search under each input, or how many to draw
            from the normal distribution. The first of these is zero, and the second half has run
            for 200 steps under the input, which leads to attractors. A tuple holds the parts of
            states, as (h, c). `Trajectory.sample` draws states that the network visits.
        steps: The largest number of iterations of the search.
        generator: Torch's generator of initial states; its global generator by default.
        which: The layer and direction.
    Shape:
        inputs: :math:`(C, M)` or :math:`(M,)`; initial_states: :math:`(P, S)` or
        :math:`(T, B, S)`.
    Units:
        Time constants in steps.
    Raises:
        ValueError: If the layer or direction does not exist, a shape is wrong, a number is not
            finite, or `initial_states`, `steps` or `threshold` is not positive.
        TypeError: If the network is not one, or `threshold` is not a number.
    Source:
        Sussillo and Barak, Neural Computation 25, 2013. https://doi.org/10.1162/NECO_a_00409
        (departures: the Levenberg-Marquardt method in place of Newton's with a trust region).
    Example:
        >>> fixed_points(torch.nn.RNN(1, 1, bias=False), initial_states=5).kinds
        ['stable']
    """
    state_map = select_state_map(state_maps(network), which)
    check_positive_integer("steps", steps)
    M = state_map.input_size
    S = state_map.state_size
    x = torch.zeros(1, M, dtype=torch.float64)
    if inputs is not None:
        x = torch.atleast_2d(as_real_tensor(inputs, "inputs"))
    if x.dim() != 2 or x.shape[1] != M or not len(x) or not bool(x.isfinite().all()):
        raise ValueError(f"expected finite inputs of shape (C, {M}), got {tuple(x.shape)}")
    first = drawn_states(initial_states, S, generator)
    # of a fixed point beyond the tolerance: the last steps are cheap and separate nearby points
    goal = 1e-3 * _TOLERANCE
    if threshold is not None:
        check_positive("threshold", threshold)
        goal = (2 * threshold) ** 0.5  # the search measures |F(h) - h| = sqrt(2 q)
    points: list[Tensor] = []
    residuals: list[Tensor] = []
    conditions: list[int] = []
    failed = 0
    for c, held in enumerate(x):
        h = first
        if isinstance(initial_states, int | np.integer):
            half = (len(h) + 1) // 2
            h = torch.cat([h[:half], settled_states(state_map, held, h[half:])])
        searches = [
            _minimise_speed(state_map, held.expand(len(some), M), some, steps, goal)
            for some in h.split(state_map.jacobians_at_once)
        ]
        h, residual = (torch.cat(parts) for parts in zip(*searches, strict=True))
        arrived = residual <= goal
        if threshold is None:
            # numbers beyond the range are infinite on both sides
            arrived = (residual <= _TOLERANCE * (1 + h.norm(dim=1))) & residual.isfinite()
        failed += len(h) - int(arrived.sum())
        h = h[arrived]
        residual = residual[arrived]
        if threshold is None:
            errors = _errors_of_fixed_points(state_map, held, h)
        else:
            errors = torch.full_like(residual, _SLOW_DISTANCE / 2)
        kept = _best_of_each(h, residual, errors)
        points.append(h[kept])
        residuals.append(residual[kept])
        conditions += [c] * len(kept)
    h = torch.cat(points)
    number = torch.tensor(conditions, dtype=torch.int64)
    by_state = h.new_zeros(0, S, S)
    by_input = h.new_zeros(0, S, M)
    smooth = torch.zeros(0, dtype=torch.bool)
    if len(h):  # a step of the user need not accept an empty batch
        by_state, by_input = state_map.jacobians(x[number], h)
        smooth = _are_smooth(state_map, x[number], h, by_state)
    check_finite(by_state, "the Jacobians of points")
    # torch's solver does not converge for some matrices of rank one
    eigenvalues = np.linalg.eigvals(by_state.numpy()).astype(np.complex128)
    falling = np.abs(eigenvalues).argsort(axis=1)[:, ::-1]
    eigenvalues = np.take_along_axis(eigenvalues, falling, axis=1)
    order = np.lexsort((np.abs(eigenvalues[:, 0]), number.numpy()))
    return FixedPoints(
        points=h.numpy()[order],
        speeds=torch.cat(residuals).square().numpy()[order] / 2,
        conditions=number.numpy()[order],
        inputs=x.clone().numpy(),  # not the caller's memory
        jacobians=by_state.numpy()[order],
        input_jacobians=by_input.numpy()[order],
        eigenvalues=eigenvalues[order],
        smooth=smooth.numpy()[order],
        searches=len(first) * len(x),
        failed=failed,
    )


def _errors_of_fixed_points(
    state_map: StateMap,
    held: Tensor,  # (M,)
    h: Tensor,  # (P, S)
) -> Tensor:  # (P,)
    r"""Return how far each point may be from a fixed point, relative to :math:`1 + \|h\|`.

    The residual grows with the distance from a fixed point by at least the smallest singular value
    of J - I. Near a degenerate point the residual is c d^p at a distance d. Where it is the
    tolerance, that singular value is p c d^(p - 1), so d is p times the tolerance over it.
    """
    least = [h.new_empty(0)]
    for some in h.split(state_map.jacobians_at_once):
        if len(some):
            J, _ = state_map.jacobians(held.expand(len(some), -1), some)
            least.append(torch.linalg.svdvals(J - torch.eye(h.shape[1], dtype=J.dtype))[:, -1])
    errors = _HIGHEST_POWER * _TOLERANCE / torch.cat(least)
    return errors.clamp(_TOLERANCE**0.5 / 2, _MAX_DISTANCE / 2)


def _best_of_each(
    h: Tensor,  # (P, S)
    residual: Tensor,  # (P,)
    errors: Tensor,  # (P,)
) -> list[int]:
    """Return the places of the points; of those that may be the same, only the best."""
    kept: list[int] = []
    # room for all: to gather those that are kept for each point takes longer than to compare
    kept_h = torch.empty_like(h)
    kept_errors = torch.empty_like(errors)
    for i in residual.argsort(stable=True).tolist():
        n = len(kept)
        reach = (kept_errors[:n] + errors[i]) * (1 + h[i].norm())
        near = (kept_h[:n] - h[i]).norm(dim=1) <= reach
        if not bool(near.any()):
            kept_h[n] = h[i]
            kept_errors[n] = errors[i]
            kept.append(i)
    return kept


def _are_smooth(
    state_map: StateMap,
    x: Tensor,  # (P, M)
    h: Tensor,  # (P, S)
    J: Tensor,  # (P, S, S)
) -> Tensor:  # (P,)
    """Whether Jacobians predict the steps from both sides of states."""
    generator = torch.Generator().manual_seed(0)
    shift = torch.randn(h.shape[1], generator=generator, dtype=h.dtype)
    shift = _SHIFT * (1 + h.norm(dim=1, keepdim=True)) * shift / shift.norm()
    predicted = (J @ shift.unsqueeze(2)).squeeze(2)
    after = state_map.step(x, h)
    errors = torch.stack(
        [
            (state_map.step(x, h + sign * shift) - after - sign * predicted).norm(dim=1)
            for sign in (1, -1)
        ]
    )
    # where a step is smooth the error is in proportion to the square of the shift
    scale = torch.maximum(shift.norm(dim=1), predicted.norm(dim=1))
    return (errors <= 0.1 * scale).all(0)


def settled_states(
    state_map: StateMap,
    x: Tensor,  # (M,)
    h: Tensor,  # (P, S)
) -> Tensor:  # (P, S)
    """Return states after some steps under a constant input; one that overflows stays."""
    if not len(h):  # a step of the user need not accept an empty batch
        return h
    held = x.expand(_SETTLING_STEPS, len(h), -1)
    last = state_map.states(held, h, discard=_SETTLING_STEPS)[-1]
    return torch.where(last.isfinite().all(1, keepdim=True), last, h)


def _minimise_speed(
    state_map: StateMap,
    x: Tensor,  # (P, M)
    h: Tensor,  # (P, S)
    steps: int,
    goal: float,
) -> tuple[Tensor, Tensor]:  # (P, S), (P,)
    """Minimise q from every state, down to a residual; return the final states and residuals."""
    I = torch.eye(h.shape[1], dtype=h.dtype)
    damping = h.new_ones(len(h))
    # Beyond the range of its states a GRU has points where q vanishes with its update gate.
    bounds = state_map.bounds
    if bounds is None:
        bounds = h.new_full((h.shape[1],), torch.inf)
    h = h.clamp(-bounds, bounds)
    r = state_map.step(x, h) - h
    for _ in range(steps):
        # searches that have arrived or stalled cost no more Jacobians
        active = (r.norm(dim=1) > goal) & (damping < _MAX_DAMPING)
        if not bool(active.any()):
            break
        # a step of Levenberg and Marquardt: (G^T G + damping I) step = -G^T r, where G is the
        # Jacobian of the residual r(h) = F(h) - h
        J, _ = state_map.jacobians(x[active], h[active])
        # `lstsq` takes finite numbers only; elsewhere the step is zero, and the search stalls
        finite = J.isfinite().all(2).all(1) & r[active].isfinite().all(1)
        G = torch.where(finite[:, None, None], J - I, 0)
        residual = torch.where(finite[:, None], r[active], 0)
        normal = G.mT @ G + damping[active, None, None] * I
        # not `solve`, which raises an error for the whole batch if rounding makes one singular
        step = torch.linalg.lstsq(normal, -(G.mT @ residual[:, :, None])).solution.squeeze(2)
        proposal = (h[active] + step).clamp(-bounds, bounds)
        proposal_residual = state_map.step(x[active], proposal) - proposal
        # false also where the proposal is NaN, so the search goes on from where it was
        better = proposal_residual.norm(dim=1) < r[active].norm(dim=1)
        h[active] = torch.where(better[:, None], proposal, h[active])
        r[active] = torch.where(better[:, None], proposal_residual, r[active])
        damping[active] *= torch.where(better, 0.1, 8.0)
        damping = damping.clamp(min=_MIN_DAMPING)
    return h, r.norm(dim=1)


def drawn_states(
    initial_states: int | InitialState, size: int, generator: Generator | None
) -> Tensor:  # (P, S)
    """Return the initial states, or draw the requested number of them.

    Raises:
        ValueError: If the argument is neither states nor a number, or there is no state.
    """
    if isinstance(initial_states, int | np.integer):
        count = max(int(initial_states), 0)
        h = torch.randn(count, size, generator=generator, dtype=torch.float64)
        h[:1] = 0
    else:
        h = as_state(initial_states, "initial_states")
        if h.dim() == 3:  # of a trajectory
            h = h.flatten(0, 1)
    if h.dim() != 2 or h.shape[1] != size or not len(h):
        raise ValueError(
            f"expected initial_states to contain at least one state, (P, {size}), "
            f"got {tuple(h.shape)}"
        )
    return h


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
            product with a change of the state is how far the state ends up along the line. It is
            very large or NaN where the slowest eigenvalue is defective, as that of two integrators
            in a row, because the state then moves on without end.
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

    def plot(self) -> Figure:
        figure, (left, right) = plot.canvas(2)
        for c in self.conditions:
            along = self.coordinates[self.point_conditions == c]
            left.plot(along, np.full(len(along), c), marker=".", linestyle="")
        plot.label(left, "coordinate along the line", "condition")
        places = np.arange(len(self.conditions))
        for mode, name in enumerate(("slowest mode", "next mode")):
            constants = self.time_constants[:, mode]
            grows = constants < 0
            decaying = np.where(grows, np.nan, constants)
            (dots,) = right.plot(places, decaying, marker="o", linestyle="", label=name)
            if grows.any():
                (rings,) = right.plot(places[grows], -constants[grows], marker="o", linestyle="")
                rings.set(color=dots.get_color(), fillstyle="none", label=f"{name}, growing")
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


def _slowest_mode(
    J: NDArray[np.float64],  # (S, S)
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:  # (S,) each
    """Return a right and a left eigenvector of the slowest mode, whose product is one."""
    import scipy.linalg

    eig: Any = scipy.linalg.eig
    # the inverse of the right eigenvectors has the left ones only if J is not defective
    values, left, right = eig(J, left=True)
    # along the line a step moves nothing; a mode of -1 alternates
    slowest = np.abs(values - 1).argmin()
    of_left = left[:, slowest].conj()
    of_right = right[:, slowest]
    with np.errstate(divide="ignore", invalid="ignore"):
        return of_right, of_left / (of_left @ of_right)


def line_attractor(points: FixedPoints) -> LineAttractor:
    r"""Fit a line to the slow points of each condition, and find what it selects.

    .. math:: J = \sum_i \lambda_i\, r_i l_i^\top, \qquad l_i^\top r_j = \delta_{ij}, \qquad
        \Delta s = l_1^\top \Delta h

    The direction is the first principal component of the points. Along a line attractor it
    coincides with the right eigenvector :math:`r_1` of the slowest mode. A perturbation
    :math:`\Delta h` ends up :math:`l_1^\top \Delta h` further along it once all other modes have
    decayed. Conditions with fewer than three points have no line.

    Args:
        points: The slow points, from `fixed_points` with a threshold.
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
        >>> line_attractor(fixed_points(integrator, threshold=1e-8)).directions.round(3).tolist()
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
        modes = [_slowest_mode(J) for J in points.jacobians[chosen]]
        right = np.stack([mode for mode, _ in modes])
        left = np.stack([selecting for _, selecting in modes])
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
