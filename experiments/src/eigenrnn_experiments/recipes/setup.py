"""The rows of a table from its networks and from the setup that they share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from eigenrnn.init import Initializer
from eigenrnn_experiments.recipes.row import Axis, Quoted, Reported, Row
from eigenrnn_experiments.tasks import Task
from eigenrnn_experiments.training import Callback, Settings

__all__ = ["Network", "Setup"]


@dataclass(frozen=True)
class Network:
    """A network of a published table, without the task that it is trained on.

    What it leaves out is that of the setup.

    Args:
        label: The network's name and size, as the paper writes them.
        layer: The class of the recurrent layer.
        hidden_size: The number N of units.
        parameters: The number of trained parameters, checked when the model is built.
        options: Further arguments of the layer.
        settings: The training settings that differ from the setup's, by name.
        head_init: The initialiser of the head's matrix.
        head_bias_init: The initialiser of the head's bias.
        model_factory: Builds the network, if it is more than a layer with a linear head.
        grid: The axes of a search.
        quick_options: Layer options that replace those of the same name for `--quick`.
        departures: Differences from the paper.
    """

    label: str
    layer: Callable[..., Any]
    hidden_size: int
    parameters: int
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    head_init: Initializer | None = None
    head_bias_init: Initializer | None = None
    model_factory: Callable[[Row, torch.Generator], nn.Module] | None = None
    grid: tuple[Axis, ...] = ()
    quick_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    departures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setup:
    """What the networks of a table share: their task, their training and what is reported.

    Args:
        task: The task.
        settings: The training settings of a network that states no others.
        reported: What the paper reports of each network, and where. A row has its own number.
        suffix: What follows the label of a network in the label of its row, such as ``"T=200"``.
        head_init: As in `Network`, for the networks that leave it out.
        head_bias_init: As in `Network`, for the networks that leave it out.
        model_factory: As in `Network`, for the networks that leave it out.
        grid: As in `Network`, for the networks that leave it out.
        seeds: The seeds of these rows, if they differ from the recipe's.
        callback_factory: Makes a training callback.
        score: Computes further scores of a run's best model, see `Row`.
        quick_task: A smaller task for `--quick`.
        quick_steps: The number of steps for `--quick`.
        task_of_seed: Returns the task of a run from the task and the seed.
        departures: Differences from the paper that concern all networks of the table.

    Example:
        >>> from eigenrnn_experiments.tasks import Adding
        >>> from eigenrnn.layers import ScoRNN
        >>> adding = Setup(
        ...     Adding(200), Settings(steps=20_000), Reported(None, "table 1", quantity="loss")
        ... )
        >>> row = adding.row(Network("scoRNN 170", ScoRNN, 170, parameters=15_046), 0.002)
        >>> row.label, row.reported[0].place, row.reported[0].value
        ('scoRNN 170', 'table 1', 0.002)
    """

    task: Task
    settings: Settings
    reported: Reported
    suffix: str = ""
    head_init: Initializer | None = None
    head_bias_init: Initializer | None = None
    model_factory: Callable[[Row, torch.Generator], nn.Module] | None = None
    grid: tuple[Axis, ...] = ()
    seeds: tuple[int, ...] | None = None
    callback_factory: Callable[[], Callback] | None = None
    score: Callable[[nn.Module, Any, Path], Mapping[str, float]] | None = None
    quick_task: Task | None = None
    quick_steps: int = 30
    task_of_seed: Callable[[Any, int], Task] | None = None
    departures: tuple[str, ...] = ()

    def row(self, network: Network, value: float | None = None, **reported: Any) -> Row:
        """Return the row of a network.

        Args:
            network: The network.
            value: The number that the paper reports; None if it prints none.
            reported: Further fields of `Reported` that differ from the setup's, by name.
        """
        stated = {name: option for name, option in vars(network).items() if option}
        options: dict[str, Any] = {**vars(self), **stated}
        del options["suffix"]
        options["label"] = self._label(network.label)
        options["settings"] = replace(self.settings, **network.settings)
        options["reported"] = (replace(self.reported, value=value, **reported),)
        options["departures"] = (*network.departures, *self.departures)
        return Row(**options)

    def reported_as(self, **changes: Any) -> "Setup":
        """Return the same setup for another table or figure.

        Args:
            changes: The fields of `Reported` that differ, by name: its place, its note.
        """
        return replace(self, reported=replace(self.reported, **changes))

    def quoted(self, label: str, value: float, source: str, **reported: Any) -> Quoted:
        """Return the row of a number that the paper quotes.

        Args:
            label: The network's name and size.
            value: The number.
            source: The other paper.
            reported: Further fields of `Reported` that differ from the setup's, by name.
        """
        note = f"quoted from {source}"
        quoted = replace(self.reported, value=value, note=note, **reported)
        return Quoted(self._label(label), (quoted,))

    def _label(self, network: str) -> str:
        return f"{network} {self.suffix}".rstrip()  # some setups have no suffix
