"""All analyses that apply to a network, one after the other."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from eigenrnn.analysis.arguments import NumberArray, leaky_matrix
from eigenrnn.analysis.base import Analysis
from eigenrnn.analysis.dynamics import effective_rank, lyapunov, participation_ratio
from eigenrnn.analysis.fixed_points import FixedPoints, drawn_states, fixed_points, settled_states
from eigenrnn.analysis.forward_pass import bare_initial_states, is_cell, layer_inputs, model_inputs
from eigenrnn.analysis.gradients import gradient_map, gradient_norms, jacobian_bound
from eigenrnn.analysis.memory import is_ungated, network_memory
from eigenrnn.analysis.nonnormality import henrici, pseudospectrum, transient_growth
from eigenrnn.analysis.spectrum import schur_structure, spectrum
from eigenrnn.analysis.state_map import (
    Network,
    RecurrentWeights,
    StateMap,
    bare_state_map,
    has_batch_first,
    named_matrices,
    recurrent_layers,
    select_state_map,
    state_maps,
    weights_in_order,
)
from eigenrnn.analysis.trajectory import InitialState, trajectory
from eigenrnn.analysis.transition_spectra import transition_spectra
from eigenrnn.constraints import Schur
from eigenrnn.layers.sequences import Lengths, as_lengths, sorted_lengths
from eigenrnn.linalg import on_cpu

__all__ = ["AnalysisResults", "analyse"]

# The budget of each analysis, so that all together take seconds (see `analyse`)
_POWERS = 200  # of a matrix
# time steps of a sequence
_MAP_STEPS = 48  # of maps, whose time grows with the square of the steps
_STEPS = 200
_GRADIENT_STEPS = 10_000  # of a sequence that is differentiated as a whole
# initial states of the search for fixed points; that from a settled state is short
_RANDOM_STATES = 32  # a search begins where each of them settles
_VISITED_STATES = 32  # likewise
_UNSETTLED_STATES = 10  # so many of either kind begin a search themselves
_VISITED_SEQUENCES = 16
_EXPONENTS = 20
# steps and sequences of the states whose dimension is measured
_DIMENSION_STEPS = 1_000
_DIMENSION_SEQUENCES = 4

# NumPy's LinAlgError is a ValueError; torch's is a RuntimeError, which would hide our mistakes
_ERRORS = (ValueError, ArithmeticError, torch.linalg.LinAlgError)  # pyright: ignore[reportPrivateImportUsage]

Job = Callable[[], Analysis]
Jobs = Iterator[tuple[str, Job | str]]
"""Names of analyses, each with the call that does it or the reason to skip it."""


@dataclass(frozen=True, repr=False)
class AnalysisResults:
    """The results of all analyses of a network.

    Args:
        results: The analyses by name, such as ``"henrici_hh_l0"``.
        skipped: The analyses that were not done, each with the reason.
    """

    results: dict[str, Analysis]
    skipped: dict[str, str]

    def __repr__(self) -> str:
        """Return a line for each analysis with its headline, instead of all its numbers."""
        lines = [f"{type(self).__name__}: {len(self.results)} done, {len(self.skipped)} skipped"]
        for name, analysis in self.results.items():
            numbers = [f"{what} {number:.4g}" for what, number in analysis.headline().items()]
            lines.append(f"  {name}: {', '.join(numbers)}")
        lines += [f"  {name} skipped: {reason}" for name, reason in self.skipped.items()]
        return "\n".join(lines)

    def save(self, folder: str | Path) -> dict[str, str]:
        """Write the figure and the table of each analysis; existing files are replaced.

        Returns:
            The figures that could not be drawn, each with the reason. Their tables are written.
        """
        failed: dict[str, str] = {}
        for name, analysis in self.results.items():
            stem = Path(folder) / name
            try:
                analysis.save(stem)
            except _ERRORS as error:  # numbers beyond the range of an axis
                # a picture of an earlier call would not belong to the new table
                Path(f"{stem}.png").unlink(missing_ok=True)
                failed[f"{name}.png"] = f"it cannot be drawn: {error}"
        return failed


@on_cpu
def analyse(
    model: Network,
    inputs: Any = None,
    loss: Callable[[Tensor], Tensor] | None = None,
    *,
    lengths: Lengths = None,
    h0: InitialState = None,
    progress: Callable[[str], None] = lambda _: None,
) -> AnalysisResults:
    """Run every analysis that applies to a network and takes a few seconds.

    Each analysis has a fixed budget: powers up to 200, gradient maps of the first 48 steps of one
    sequence, Lyapunov exponents over 200 steps of it, dimensions over 1,000 steps of four. Fixed
    points are those at zero input. Ten searches begin at random states, ten at states that the
    network visits, and up to 64 where such states are after 200 more steps. An analysis that
    would take much longer is skipped; the reason names the call to run it. The state of an LSTM is
    (h, c). The analyses of a matrix are those of W, also of a network with a leak. Its transient
    growth and its Fisher memory are those of a step with the leak, see `network_memory`.

    Args:
        model: A recurrent layer or cell, a model with at least one, or a `StateMap`. It is not
            changed. A state map without recurrent matrices has no analyses of a matrix.
        inputs: A batch, in the form that the model takes, for the analyses that need inputs.
        loss: A function of the model's output for these inputs, for the gradients of a loss.
        lengths: The number of time steps of each sequence of a padded batch; by default all. No
            analysis then sees padding. A model gets them as its argument `lengths`; of a layer
            that it gives other lengths, the analyses that need inputs are skipped.
        h0: The initial states of a bare layer, cell or state map; by default its own. With
            `h0`, Lyapunov exponents have no burn-in.
        progress: Called with the name of each analysis before it runs.
    Returns:
        The results, and the reason for each analysis that was skipped.
    Raises:
        ValueError: If the model has no recurrent layer, `h0` does not fit or comes with a model
            around a layer, or a length is below 1 or above T.
        TypeError: If the lengths are not integers.
    Example:
        >>> results = analyse(torch.nn.RNN(2, 8), torch.zeros(20, 1, 2)).results
        >>> "henrici_hh_l0" in results, "lyapunov_l0" in results
        (True, True)
    """
    lengths = as_lengths(lengths)
    bare = bare_state_map(model)
    layers: dict[str, Network] = {"": model}
    if bare is None:
        layers = dict(recurrent_layers(model))
        maps = {path: state_maps(layer) for path, layer in layers.items()}
    else:
        maps = {"": [bare]}
    first: Tensor | None = None
    inputs_by_layer: dict[str, Tensor | str] = {}
    if inputs is not None:
        if h0 is not None:
            first = bare_initial_states(model, model_inputs(inputs), h0)
        inputs_by_layer = layer_inputs(model, inputs, lengths=lengths)
    known = named_matrices(maps)
    weights: dict[str, RecurrentWeights] = {}
    if bare is None or is_cell(model):
        found = weights_in_order(cast("nn.Module", model))
        weights = dict(zip(known, found, strict=True))
    results: dict[str, Analysis] = {}
    skipped: dict[str, str] = {}
    jobs: list[tuple[str, Job | str]] = []
    if not known:
        reason = "a state map has no matrix: StateMap.from_step(..., matrices={'hh': W})"
        jobs.append(("spectrum", reason))
    leaks = [each.leak for those in maps.values() for each in those for _ in each.matrices]
    for (name, W), leak in zip(known.items(), leaks, strict=True):
        jobs += _matrix_jobs(name, W, weights.get(name), leak)
    steps = 0  # of the longest sequence that a layer gets
    for path, layer in layers.items():
        prefix = f"{path}." if len(layers) > 1 else ""
        x = inputs_by_layer.get(path, "it needs inputs: analyse(model, inputs)")
        if isinstance(x, Tensor):
            if has_batch_first(layer):
                x = x.transpose(0, 1)
            steps = max(steps, len(x))
        for each in maps[path]:
            jobs += _trajectory_jobs(prefix, layer, maps[path], each.name, x, lengths, first)
    last: Job | str = "it needs inputs and a loss: analyse(model, inputs, loss)"
    if inputs is not None and loss is not None:
        job = partial(gradient_norms, model, inputs, loss, h0=first, lengths=lengths)
        last = _job_unless_slow("gradient_norms", steps, _GRADIENT_STEPS, job)
    jobs.append(("gradient_norms", last))
    for name, job in jobs:
        if isinstance(job, str):
            skipped[name] = job
            continue
        progress(name)
        try:
            results[name] = job()
        except _ERRORS as error:  # the analysis does not apply; the message says why
            skipped[name] = str(error)
    return AnalysisResults(results, skipped)


def _matrix_jobs(
    name: str, W: NumberArray, weights: RecurrentWeights | None, leak: Tensor | None
) -> Jobs:
    """Yield the analyses of a matrix, and the Fisher memory if it defines a linear network."""
    N = len(W)
    # a Schur constraint has the form that training has learned; any other is decomposed
    form: Any = W
    if weights is not None and isinstance(weights.constraint, Schur):
        form = weights.constraint
    # each with the largest size at which it still takes seconds
    jobs: list[tuple[str, int, Job]] = [
        ("spectrum", 2_000, partial(spectrum, W)),
        ("henrici", 2_000, partial(henrici, W)),
        ("pseudospectrum", 300, partial(pseudospectrum, W)),
        ("transient_growth", 300, partial(transient_growth, leaky_matrix(W, leak), _POWERS)),
        ("schur_structure", 1_200, partial(schur_structure, form)),
    ]
    memory: Job | str
    if weights is None:
        memory = "a state map has no input weights"
    elif is_ungated(name):
        job = partial(network_memory, W, weights)
        memory = _job_unless_slow("fisher_memory", N, 600, job)
    elif name.split(".")[-1].startswith("decay_"):
        memory = "these are the decays at the input zero; each step has its own"
    else:
        memory = "the matrix of one gate is no linear network by itself"
    for function, max_size, job in jobs:
        yield f"{function}_{name}", _job_unless_slow(function, N, max_size, job)
    yield f"fisher_memory_{name}", memory


def _fixed_points_job(
    state_map: StateMap,
    visited: Callable[[], Tensor | None],  # (P, S)
) -> Job | str:
    """Return the search at zero input, from random states and from some that a network visits."""

    def search() -> FixedPoints:
        # a seed of its own: two analyses of one network must agree
        generator = torch.Generator().manual_seed(0)
        random = drawn_states(_RANDOM_STATES, state_map.state_size, generator)
        states = visited()
        chosen = random[:0] if states is None else _evenly(states, _VISITED_STATES)
        everywhere = torch.cat([random, chosen])
        settled = settled_states(state_map, random.new_zeros(state_map.input_size), everywhere)
        few = torch.cat([random[:_UNSETTLED_STATES], _evenly(chosen, _UNSETTLED_STATES)])
        initial = torch.cat([few, settled])
        return fixed_points([state_map], initial_states=initial, steps=30, which=state_map.name)

    return _job_unless_slow("fixed_points", state_map.state_size, 200, search)


def _evenly(states: Tensor, count: int) -> Tensor:
    """Return at most so many states, from the first to the last."""
    places = torch.linspace(0, len(states) - 1, min(len(states), count))
    return states[places.long()]


def _trajectory_jobs(
    prefix: str,
    layer: Network,
    directions: list[StateMap],
    which: str,
    x: Tensor | str,  # (T, B, M)
    lengths: Tensor | None,  # (B,)
    h0: Tensor | None,  # (D, B, S)
) -> Jobs:
    """Yield the analyses of a layer under its inputs; `x` may be the reason why it has none."""
    state_map = select_state_map(directions, which)
    S = state_map.state_size
    name = f"{prefix}{which}"
    # a state map of the user may call a matrix "reset" without being a GRU
    is_gru = "reset" in state_map.matrices and isinstance(layer, nn.Module)
    is_delta = state_map.transitions is not None and not cast("Any", layer).bidirectional
    if isinstance(x, str):
        yield f"fixed_points_{name}", _fixed_points_job(state_map, lambda: None)
        functions = ["gradient_map", "lyapunov", "participation_ratio", "effective_rank"]
        if is_delta:
            functions.append("transition_spectra")
        if is_gru:
            functions.append("jacobian_bound")
        for function in functions:
            yield f"{function}_{name}", x
        return
    T, B = x.shape[:2]
    sorted_lengths(lengths, T, B)  # checks them
    ends = [T] * B
    if lengths is not None:
        ends = lengths.tolist()

    def begin(sequences: slice, max_steps: int) -> Tensor:
        """Return the first steps of some sequences, at most those that the first of them has."""
        return x[: min(max_steps, ends[sequences.start]), sequences]

    def states_of(sequences: slice, max_steps: int) -> Tensor:  # (T, B, S)
        initial = None if h0 is None else h0[:, sequences]
        return trajectory(directions, begin(sequences, max_steps), which, initial).states[1:]

    def states() -> Tensor:  # (T, B, S), or (n, S) with lengths
        if lengths is None:
            return states_of(slice(0, _DIMENSION_SEQUENCES), _DIMENSION_STEPS)
        count = min(B, _DIMENSION_SEQUENCES)
        found = [states_of(slice(b, b + 1), _DIMENSION_STEPS) for b in range(count)]
        return torch.cat(found).squeeze(1)

    def visited() -> Tensor:  # (P, S)
        if lengths is None:
            return states_of(slice(0, _VISITED_SEQUENCES), _STEPS).flatten(0, 1)
        return states()

    yield f"fixed_points_{name}", _fixed_points_job(state_map, visited)
    first = slice(0, 1)
    short = begin(first, _MAP_STEPS)
    long = begin(first, _STEPS)
    options = {"which": which, "h0": None if h0 is None else h0[:, first]}
    exponents = min(S, _EXPONENTS)
    # of a delta rule, the matrices of a step are as small as a head
    size_of_jacobians = S if state_map.transitions is None else state_map.hidden_size
    jobs: list[tuple[str, int, Job]] = [
        ("gradient_map", 200, partial(gradient_map, directions, short, **options)),
        ("lyapunov", 400, partial(lyapunov, directions, long, exponents=exponents, **options)),
        ("participation_ratio", 2_000, lambda: participation_ratio(states())),
        ("effective_rank", 2_000, lambda: effective_rank(states())),
    ]
    # of one sequence: (T, M) has no batch to be first
    if is_delta:
        spectra = partial(transition_spectra, cast("nn.Module", layer), long[:, 0], which=which)
        jobs.append(("transition_spectra", 20_000, spectra))
    if is_gru:
        bound = partial(jacobian_bound, layer, short[:, 0], **options)
        jobs.append(("jacobian_bound", 400, bound))
    for function, max_size, job in jobs:
        size = size_of_jacobians if function == "lyapunov" else S
        yield f"{function}_{name}", _job_unless_slow(function, size, max_size, job)


def _job_unless_slow(function: str, size: int, max_size: int, job: Job) -> Job | str:
    if size <= max_size:
        return job
    return f"it is slow at this size ({size} > {max_size}); call eigenrnn.analysis.{function}"
