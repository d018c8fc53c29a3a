"""Pictures of the trained networks: eigenvalues, Schur forms, gradients and Fisher memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from eigenrnn.analysis import (
    gradient_map,
    is_ungated,
    network_memory,
    plot,
    recurrent_matrices,
    recurrent_weights,
    schur_structure,
    spectrum,
    state_maps,
)
from eigenrnn_experiments.report.figures import as_svg
from eigenrnn_experiments.report.learning_curves import Group
from eigenrnn_experiments.report.records import task_name
from eigenrnn_experiments.training.run import RunFolder

__all__ = ["MAX_NETWORKS", "SECTIONS", "NetworkPictures", "RebuildModel", "analyse_networks"]

MAX_NETWORKS = 16
"""So many networks are analysed at most."""

SECTIONS = ("eigenvalues", "schur", "gradients", "fisher")

# bounds on a gradient map, so that it takes a few seconds
_MAX_PRODUCTS = 1e10  # multiplications, less than a second
_MAX_MAP_STEPS = 300  # for small matrices, whose norms take longer than their products
_MAX_NUMBERS = 2**25  # derivatives held at once, in double precision

RebuildModel = Callable[[Path], tuple[nn.Module, Tensor | None] | None]
"""Rebuilds the network of a run from its folder, with inputs (T, B, M) of its first layer.

Without inputs, the analyses that need them are left out. It raises `ValueError` if it cannot.
"""


@dataclass
class NetworkPictures:
    """The pictures of the network of a run; `reasons` explains the missing ones.

    Args:
        group: The group of runs that the network represents.
        run: The analysed run of the group.
        task_label: Its task, if another network has the same label.
        pictures: For each section captions and pictures, as SVG.
        reasons: Why a section is missing, by its name.
    """

    group: Group
    run: RunFolder
    task_label: str = ""
    pictures: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, Any])
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

    def draw(self, section: str, caption: str, figure: Callable[[], Any]) -> None:
        """Draw a picture, or record why it is missing; a failure does not stop the others."""
        try:
            svg = as_svg(figure())
        except Exception as error:  # damaged files, and models that an analysis does not support
            self.reasons.setdefault(section, _reason(error))
        else:
            self.pictures.setdefault(section, []).append((caption, svg))


def analyse_networks(
    groups: Sequence[Group], rebuild: RebuildModel | None
) -> list[NetworkPictures]:
    """Analyse one run of each group: the first one with recorded dynamics, or the first one."""
    labels = [each.label for each in groups]
    shown = [each for each in groups if each.shown]
    networks: list[NetworkPictures] = []
    for each in shown[:MAX_NETWORKS]:
        run = next((run for run in each.runs if run.dynamics), each.runs[0])
        network = NetworkPictures(each, run)
        if labels.count(each.label) > 1:  # a network may have been trained on several tasks
            network.task_label = task_name(run.run.task)
        _draw_dynamics(network)
        reason = "the trained network was not rebuilt for this page"
        try:
            trained = None if rebuild is None else rebuild(run.path)
            if trained is not None:
                _draw_network(network, *trained)
        except Exception as error:  # of a damaged file, or another version
            reason = _reason(error)
        for section in SECTIONS:
            if not network.pictures.get(section):
                network.reasons.setdefault(section, reason)
        networks.append(network)
    return networks


def _reason(error: Exception) -> str:
    if isinstance(error, ValueError | OSError):  # their messages are meant for users
        return str(error)
    return f"{type(error).__name__}: {error}"


def _draw_dynamics(network: NetworkPictures) -> None:
    """Draw the first and the last recorded eigenvalues of each matrix."""
    records = [record for record in network.run.dynamics if record.get("spectrum")]
    if not records:
        return
    first, last = records[0], records[-1]
    for name in last["spectrum"]:

        def plane(name: str = name) -> Any:
            figure, (axes,) = plot.canvas()
            spectra = {
                f"step {record['step']:,}": np.array(record["spectrum"][name], float) @ [1, 1j]
                for record in (last, first)
            }
            plot.plane(axes, spectra)
            return figure

        network.draw("eigenvalues", f"{name}, during training", plane)


def _main_matrix(names: Sequence[str]) -> str:
    """Return the name of the matrix that updates the state, rather than a gate."""
    for kind in ("hh", "candidate", "cell"):  # of an RNN, of a GRU and of an LSTM
        found = [name for name in names if name.rpartition(".")[2].startswith(kind)]
        if found:
            return found[0]
    return names[0]


def _draw_network(
    network: NetworkPictures,
    model: nn.Module,
    inputs: Tensor | None,  # (T, B, M)
) -> None:
    matrices = recurrent_matrices(model)
    used = recurrent_weights(model)
    for name, W in matrices.items():
        # the constraint of the model may store the Schur form
        of: Any = model if len(matrices) == 1 else W
        network.draw("eigenvalues", name, lambda W=W: spectrum(W).plot())
        if name == _main_matrix(list(matrices)):
            network.draw("schur", name, lambda of=of: schur_structure(of).plot())
        if is_ungated(name):
            weights = used[name]
            network.draw("fisher", name, lambda W=W, w=weights: network_memory(W, w).plot())
        else:
            reason = "its matrices belong to gates, which are not networks by themselves"
            network.reasons.setdefault("fisher", reason)
    if inputs is None:
        network.reasons["gradients"] = "it needs input data, which is not on this machine"
        return
    found = state_maps(model)
    for state_map in found:
        # each of T steps multiplies up to T matrices by one Jacobian: T^2 size^3 multiplications
        size = state_map.state_size
        by_time = int((_MAX_PRODUCTS / len(found) / size**3) ** 0.5)
        steps = max(2, min(len(inputs), by_time, _MAX_NUMBERS // size**2, _MAX_MAP_STEPS))
        caption = state_map.name
        if steps < len(inputs):
            caption += f", the first {steps} of {len(inputs)} steps"
        x = inputs[:steps, :1]
        which = state_map.name
        network.draw(
            "gradients",
            caption,
            lambda x=x, which=which: gradient_map(model, x, of=("state",), which=which).plot(),
        )
