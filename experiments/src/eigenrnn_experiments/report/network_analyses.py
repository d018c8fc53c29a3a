"""Analyses of the trained networks: eigenvalues, Schur forms, gradients and Fisher memory."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from eigenrnn.analysis import (
    gradient_map,
    is_ungated,
    network_memory,
    recurrent_matrices,
    recurrent_weights,
    schur_structure,
    state_maps,
)
from eigenrnn.linalg import check_finite
from eigenrnn_experiments.report.learning_curves import Group
from eigenrnn_experiments.report.records import task_name
from eigenrnn_experiments.report.rounding import block_maxima, log10_or_none, rounded_positive
from eigenrnn_experiments.statistics import rounded, spaced_indices
from eigenrnn_experiments.training.run_folder import RunFolder

__all__ = [
    "MAX_NETWORKS",
    "NetworkAnalysis",
    "RebuildModel",
    "analyse_networks",
    "gradient_charts",
    "training_dynamics",
]

MAX_NETWORKS = 16
"""The charts of matrices show at most so many networks."""

_MAX_CELLS = 128  # rows and columns of a heat map
_FLOOR = 1e-8  # relative to the largest number
# what computes the new state of an RNN, of a GRU and of an LSTM
_MAIN_MATRICES = ("hh", "candidate", "cell")


RebuildModel = Callable[[Path], tuple[nn.Module, Tensor | None] | None]
"""Rebuilds the network of a run from its folder, with inputs (T, B, M) of its first layer.

Without inputs, the analyses that need them are left out. It raises `ValueError` if it cannot.
"""


@dataclass
class NetworkAnalysis:
    """The analyses of the network of a run; `reasons` explains the missing ones.

    Args:
        group: The group of runs that the network represents.
        run: The analysed run of the group.
        spectrum: Eigenvalues and measures, over training if they were recorded.
        schur: The charts of the Schur form, by matrix.
        gradient: The charts of the gradients between time steps, by layer.
        fisher: The Fisher memory curves, by matrix.
        reasons: Why an analysis is missing, by its name.
        task_label: Its task, if another network has the same label.
    """

    group: Group
    run: RunFolder
    task_label: str = ""
    spectrum: dict[str, Any] | None = None
    schur: dict[str, Any] = field(default_factory=dict[str, Any])
    gradient: dict[str, Any] = field(default_factory=dict[str, Any])
    fisher: dict[str, Any] = field(default_factory=dict[str, Any])
    reasons: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        """The label with the task and the seed, where needed."""
        parts = [self.group.label]
        if self.task_label:
            parts.append(self.task_label)
        if len(self.group.runs) > 1:
            parts.append(f"seed {self.run.run.key.seed}")
        return ", ".join(parts)

    def explain(self, reason: str, *names: str) -> None:
        """Record why some analyses are missing."""
        for name in names:
            self.reasons.setdefault(name, reason)


def analyse_networks(
    groups: Sequence[Group], rebuild: RebuildModel | None
) -> list[NetworkAnalysis]:
    """Analyse one run of each group: the first one with recorded dynamics, or the first one.

    An analysis that fails does not stop the others.
    """
    labels = [each.label for each in groups]
    shown = [each for each in groups if each.shown]
    networks: list[NetworkAnalysis] = []
    for each in shown[:MAX_NETWORKS]:
        network = NetworkAnalysis(each, _chosen(each))
        if labels.count(each.label) > 1:  # a network may have been trained on several tasks
            network.task_label = task_name(each.runs[0].run.task)
        _analyse_network(network, rebuild)
        networks.append(network)
    return networks


def main_matrix(names: Sequence[str]) -> str:
    """Return the name of the matrix that updates the state, rather than a gate."""
    for kind in _MAIN_MATRICES:
        found = [name for name in names if name.rpartition(".")[2].startswith(kind)]
        if found:
            return found[0]
    return names[0]


def _chosen(group: Group) -> RunFolder:
    return next((run for run in group.runs if run.dynamics), group.runs[0])


def _analyse_network(network: NetworkAnalysis, rebuild: RebuildModel | None) -> None:
    with _record_failure(network, "spectrum"):
        network.spectrum = training_dynamics(network.run)
    # all others need the trained network
    missing = ["schur", "gradient", "fisher"]
    if network.spectrum is None:
        missing.append("spectrum")
    else:
        # for the note alone; the chart takes no such entry
        left_out = network.spectrum.pop("left_out")
        network.spectrum["note"] = ""
        if left_out:
            network.spectrum["note"] = f"{left_out} records in between are not shown."
    with _record_failure(network, *missing):
        trained = None
        if rebuild is not None:
            trained = rebuild(network.run.path)
        if trained is None:
            raise ValueError("the trained network was not rebuilt for this page")
        _analyse(network, *trained)


def _analyse(
    network: NetworkAnalysis,
    model: nn.Module,
    inputs: Tensor | None,  # (T, B, M)
) -> None:
    matrices = recurrent_matrices(model)
    # not where the recorded file is damaged: the page then says so
    if network.spectrum is None and "spectrum" not in network.reasons:
        with _record_failure(network, "spectrum"):
            network.spectrum = _final_spectrum(matrices)
    with _record_failure(network, "schur", "fisher"):
        _analyse_matrices(network, model, matrices)
    if inputs is None:
        network.explain("it needs input data, which is not on this machine", "gradient")
        return
    with _record_failure(network, "gradient"):
        network.gradient = gradient_charts(model, inputs)


@contextmanager
def _record_failure(network: NetworkAnalysis, *names: str) -> Generator[None]:
    """Record any failure as the reason for missing analyses."""
    try:
        yield
    except (ValueError, OSError) as error:  # their messages are meant for users
        network.explain(str(error), *names)
    except Exception as error:  # damaged files, and models that an analysis does not support
        network.explain(f"{type(error).__name__}: {error}", *names)


def _final_spectrum(matrices: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the eigenvalues of the trained network."""
    spectra: dict[str, list[dict[str, Any]]] = {}
    for name, W in matrices.items():
        check_finite(W, name)
        z = np.linalg.eigvals(W)
        spectra[name] = [{"re": rounded(z.real, 4), "im": rounded(z.imag, 4)}]
    return {
        "steps": [None],  # the step is unknown, where training dynamics have one for each record
        "spectra": spectra,
        "measures": {},
        "gradients": {},
        "note": "Of the trained network only: the training dynamics were not recorded.",
    }


def _analyse_matrices(
    network: NetworkAnalysis, model: nn.Module, matrices: Mapping[str, NDArray[Any]]
) -> None:
    used = recurrent_weights(model)
    if not any(map(is_ungated, matrices)):
        network.explain(
            "its matrices belong to gates, which are not networks by themselves", "fisher"
        )
    for name, W in matrices.items():
        try:
            if len(matrices) == 1:  # the constraint of the model may store the Schur form
                structure = schur_structure(model)
            else:
                structure = schur_structure(W)
            network.schur[name] = _schur_chart(structure)
            if is_ungated(name):
                memory = network_memory(W, used[name])
                network.fisher[name] = {
                    "values": rounded_positive(memory.curve, _FLOOR),
                    "total": memory.total,
                }
        except (ValueError, np.linalg.LinAlgError) as error:
            failed = "schur"
            if name in network.schur:  # that analysis has succeeded, so the next one failed
                failed = "fisher"
            network.explain(f"{name}: {error}", failed)


def _schur_chart(found: Any) -> dict[str, Any]:
    entries = np.abs(found.Theta)
    cells, block, _ = block_maxima(entries, _MAX_CELLS)
    origin = "A computed form"
    if found.learned:
        origin = "The learned form"
    note = (
        f"{origin}; {found.off_diagonal:.1%} of the norm is below its diagonal blocks, "
        f"and the largest modulus of an eigenvalue is {found.moduli.max():.4g}."
    )
    if block > 1:
        note += f" Each cell shows the largest of {block} x {block} entries."
    pair = ("from mode", "to mode")
    picture = _heat_map(cells, block, _FLOOR, pair, "|entry|")
    profile = _profile(found.by_diagonal, _FLOOR, "sub-diagonal", "mean |entry|")
    return {"map": picture, "profile": profile, "note": note}


def _heat_map(
    cells: NDArray[np.float64],  # (n, n)
    block: int,
    floor: float,
    pair: tuple[str, str],
    name: str,
) -> dict[str, Any]:
    """Return a heat map of blocks of entries, by the names of its two axes and of the entries."""
    positions = [1 + number * block for number in range(len(cells))]
    x_name, y_name = pair
    axes = {"x": positions, "y": positions, "x_name": x_name, "y_name": y_name}
    return {"z": log10_or_none(cells, floor), **axes, "name": name, "log": True}


def _profile(values: Any, floor: float, x_name: str, y_name: str) -> dict[str, Any]:
    """Return the chart of some numbers by their index."""
    points = {"x": list(range(len(values))), "y": rounded_positive(values, floor)}
    return {**points, "x_name": x_name, "y_name": y_name, "log": True}


_MEASURES = {
    "orthogonality_error": "orthogonality error",
    "henrici": "departure from normality",
    "gamma": "mean modulus of the Schur form",
}
# bounds on the data of one network, which the page carries as text
_MAX_EIGENVALUES = 10_000  # of one matrix, over all records
_MAX_RECORDS = 60
_MIN_RECORDS = 12  # even where these have more eigenvalues
_MAX_TIMES = 200  # points of a curve of gradient norms


def training_dynamics(run: RunFolder) -> dict[str, Any] | None:
    """Return the eigenvalues, measures and gradients recorded during a run.

    Many records are thinned evenly; the first and the last stay.

    Returns:
        Lists for the page; None if nothing was recorded.
    Raises:
        ValueError: If the file is damaged.
    """
    # a run resumed from a checkpoint may have recorded some steps twice
    by_step = {int(record["step"]): record for record in run.dynamics if record.get("spectrum")}
    if not by_step:
        return None
    try:
        return _dynamics_data([by_step[step] for step in sorted(by_step)])
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{run.path / 'dynamics.jsonl'} is damaged or of another version: {error!r}"
        ) from None


def _dynamics_data(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = list(records[0]["spectrum"])
    size = 0  # of the largest matrix
    for record in records:
        for name in names:
            size = max(size, len(record["spectrum"][name]))
    count = min(_MAX_RECORDS, max(_MIN_RECORDS, _MAX_EIGENVALUES // max(size, 1)))
    chosen = [records[index] for index in spaced_indices(len(records), count)]
    spectra: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        spectra[name] = [_plane(record["spectrum"][name]) for record in chosen]
    return {
        "steps": [int(record["step"]) for record in chosen],
        "left_out": len(records) - len(chosen),
        "spectra": spectra,
        "measures": _measures(chosen, names),
        "gradients": _gradients(chosen),
    }


def _plane(eigenvalues: Sequence[Sequence[float]]) -> dict[str, Any]:
    table = np.asarray(eigenvalues, dtype=np.float64).reshape(-1, 2)
    return {"re": rounded(table[:, 0], 4), "im": rounded(table[:, 1], 4)}


def _measures(
    records: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    radii: dict[str, Any] = {}
    for name in names:
        radii[name] = rounded([_radius(record["spectrum"][name]) for record in records], 6)
    measures: dict[str, dict[str, Any]] = {"spectral radius": radii}
    for key, label in _MEASURES.items():
        if not any(record.get(key) for record in records):
            continue
        curves: dict[str, Any] = {}
        for name in names:
            curves[name] = rounded([_number(record, key, name) for record in records], 4)
        measures[label] = curves
    return measures


def _radius(eigenvalues: Sequence[Sequence[float]]) -> float:
    return max((math.hypot(re, im) for re, im in eigenvalues), default=math.nan)


def _number(record: Mapping[str, Any], key: str, name: str) -> float:
    number = (record.get(key) or {}).get(name)
    if isinstance(number, dict):  # gamma is recorded as the mean and the range over the planes
        number = number["mean"]
    if number is None:
        return math.nan
    return float(number)


def _gradients(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the gradient norms by time step, for each layer that all records have."""
    norms_by_record = [record.get("gradient_norms") or {} for record in records]
    found: dict[str, Any] = {}
    for name in norms_by_record[0]:
        if not all(name in norms and len(norms[name]) for norms in norms_by_record):
            continue
        shortest = min(len(norms[name]) for norms in norms_by_record)
        at = spaced_indices(shortest, _MAX_TIMES)
        curves: list[list[float | None]] = []
        for norms in norms_by_record:
            curve = np.asarray(norms[name], dtype=np.float64)[at]
            curves.append(rounded(curve, 4))
        found[name] = {"time": at, "norms": curves}
    return found


_MAX_PRODUCTS = 1e10  # multiplications, less than a second
_MAX_MAP_STEPS = 300  # for small matrices, whose norms take longer than their products
_MAX_NUMBERS = 2**25  # derivatives held at once, in double precision
_GRADIENT_FLOOR = 1e-16  # relative to the largest norm


def gradient_charts(
    model: nn.Module,
    inputs: Tensor,  # (T, B, M)
) -> dict[str, Any]:
    """Return charts of how each state depends on earlier ones, by layer and part of the state.

    They use one sequence, shortened so that the computation takes a few seconds.

    Raises:
        ValueError: If the model has no recurrent layer, or the inputs do not fit it.
    """
    found = state_maps(model)
    charts: dict[str, Any] = {}
    for state_map in found:
        steps = _max_steps(len(inputs), state_map.state_size, len(found))
        x = inputs[:steps, :1]
        maps = gradient_map(model, x, of=("state",), which=state_map.name).by_state
        for block, norms in maps.items():
            name = state_map.name
            if block != "whole":
                name += f", {block}"
            charts[name] = _gradient_chart(norms, len(inputs))
    return charts


def _max_steps(steps: int, size: int, layers: int) -> int:
    # each of T steps multiplies up to T matrices by one Jacobian: T^2 size^3 multiplications
    by_time = (_MAX_PRODUCTS / layers / size**3) ** 0.5
    return max(2, min(steps, int(by_time), _MAX_NUMBERS // size**2, _MAX_MAP_STEPS))


def _gradient_chart(
    norms: NDArray[np.float64],  # (T, T)
    steps: int,
) -> dict[str, Any]:
    T = len(norms)
    cells, block, _ = block_maxima(norms, _MAX_CELLS)
    lags = np.array([_mean(norms.diagonal(-lag)) for lag in range(T)])
    note = "For one sequence; the norm from its last step to its first is "
    note += f"{norms[-1, 0]:.3g}."
    if steps > T:
        note += f" Only the first {T} of {steps} steps, to limit the time."
    if block > 1:
        note += f" Each cell shows the largest of {block} x {block} pairs of steps."
    floor = _GRADIENT_FLOOR
    picture = _heat_map(cells, block, floor, ("step t", "step τ"), "gradient norm")
    profile = _profile(lags, floor, "steps back from τ to t", "mean gradient norm")
    return {"map": picture, "profile": profile, "note": note}


def _mean(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    if not len(finite):  # numpy would warn of an empty mean
        return math.nan
    return float(finite.mean())
