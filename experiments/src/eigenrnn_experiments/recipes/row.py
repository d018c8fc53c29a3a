"""A row: one network of a published comparison, and the numbers that the paper reports of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from eigenrnn.init import Initializer
from eigenrnn.layers import Layer
from eigenrnn.models import Mixer, ResidualStack, SequenceModel, count_parameters
from eigenrnn_experiments.recipes.plan import Plan
from eigenrnn_experiments.tasks import Task
from eigenrnn_experiments.tasks.base import HIGHER_IS_BETTER, model_for
from eigenrnn_experiments.training import Callback, Settings
from eigenrnn_experiments.training.description import (
    describe,
    describe_call,
    describe_options,
)
from eigenrnn_experiments.training.run import Length

__all__ = ["Axis", "Computed", "Quoted", "Reported", "Row", "stack_model"]

_QUICK_BATCH_SIZE = 20
_NO_BETTER_SIDE = {"henrici", "share of pairs", "sum of the shares", "total Fisher memory"}


@dataclass(frozen=True)
class Reported:
    """A number that a paper reports, and the rule by which a run of ours is compared with it.

    Args:
        value: The number; None if the paper shows a curve and prints no number.
        place: The place of the number in the paper, such as "table 1 and figure 3".
        split: The split of the data on which it was measured.
        quantity: A metric of the task, such as ``"accuracy"`` or ``"loss"``. On the split
            ``train`` it is ``"loss"``, or ``"loss_mean"``, the mean over `log_every` steps.
            ``"success"`` is 1 if the best loss is below `success` times the baseline, else 0.
            ``"epoch_seconds"`` is the processor time of one epoch, almost free of other load.
        rule: Which evaluation of a run counts: the ``"best"`` on that split, the ``"last"``, or
            the one of the model selected on the ``"validation"`` split.
        note: How the number was obtained if it was not printed: read off a figure, quoted.
        error: The standard error printed with the number.
        success: The fraction of the baseline's loss below which a run succeeds.
        only_successes: Whether only successful runs count.
        pooled: Whether the number of a search is the mean over the runs of all its points, as a
            share of successes always is, instead of over the runs of its best point.
        column: The column of `metrics.csv`, if it is not named after the split and the quantity.
        at_most: An upper bound, if the paper states one and prints no number.
        decimals: The number of printed decimals, needed where the last ones are zero.
        reading: How far a number that was read off a figure may be from the true one.
        unjudged: Why no number of ours can be compared with it; empty if ours can.
    """

    value: float | None
    place: str
    split: Literal["train", "validation", "test"] = "test"
    quantity: str = "accuracy"
    rule: Literal["best", "last", "validation"] = "best"
    note: str = ""
    error: float | None = None
    success: float = 0.5
    only_successes: bool = False
    pooled: bool = False
    column: str | None = None
    at_most: float | None = None
    decimals: int | None = None
    reading: float | None = None
    unjudged: str = ""

    @property
    def measure(self) -> str:
        """What is measured of a run, such as `best test accuracy`."""
        return f"{self.rule} {self.split} {self.quantity}"

    @property
    def better(self) -> Literal["higher", "lower"] | None:
        """Whether a higher or a lower number is better; None if neither is."""
        if self.quantity in _NO_BETTER_SIDE:
            return None
        if self.quantity in HIGHER_IS_BETTER:
            return "higher"
        return "lower"


@dataclass(frozen=True)
class Axis:
    """One axis of the grid of a row: a hyperparameter and the values to try.

    Args:
        name: The name of the hyperparameter, such as ``"lr"``.
        values: The values to try.
        with_value: Returns a copy of the row with one of the values.
    """

    name: str
    values: tuple[float, ...]
    with_value: Callable[["Row", float], "Row"]

    @classmethod
    def of_settings(cls, name: str, values: tuple[float, ...]) -> "Axis":
        """Return an axis over one of the training settings."""

        def with_value(row: "Row", value: float) -> "Row":
            return replace(row, settings=replace(row.settings, **{name: value}))

        return cls(name, values, with_value)


@dataclass(frozen=True)
class Row:
    """One network of a published comparison.

    Args:
        label: The network's name and size, as the paper writes them.
        task: The task that it is trained on.
        layer: The class of the recurrent layer.
        hidden_size: The number N of units.
        settings: The training settings.
        reported: The numbers that the paper reports of this training, the main one first.
        options: Further arguments of the layer.
        parameters: The number of trained parameters, checked when the model is built.
        head_init: The initialiser of the head's matrix; that of `torch.nn.Linear` by default.
        head_bias_init: The initialiser of the head's bias; that of `torch.nn.Linear` by default.
        model_factory: Builds the network from the row and a generator, if the network is more
            than a layer with a linear head.
        seeds: The seeds of this row's runs, if they differ from the recipe's.
        grid: The axes of a search. Every combination of their values is trained with every seed;
            the values of the row itself are trained only if there is no grid.
        callback_factory: Makes a training callback.
        score: Computes further scores of a run's best model from the model, its task and a folder.
            Quick runs skip it.
        quick_task: A smaller task for `--quick`; the same task by default.
        quick_steps: The number of steps for `--quick`.
        quick_options: Layer options that replace those of the same name for `--quick`.
        task_of_seed: Returns the task of a run from the row's task and the seed, if the paper also
            draws the data from the seed.
        departures: Differences from the paper.
        embedding_size: The size of the symbol embedding, for a task with symbols; N by default.
    Raises:
        ValueError: If the layer is none of ours, or if the settings count epochs of a task that
            draws its data without end.
    """

    label: str
    task: Task
    layer: Callable[..., Any]
    hidden_size: int
    settings: Settings
    reported: tuple[Reported, ...]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parameters: int | None = None
    head_init: Initializer | None = None
    head_bias_init: Initializer | None = None
    model_factory: Callable[["Row", torch.Generator], nn.Module] | None = None
    seeds: tuple[int, ...] | None = None
    grid: tuple[Axis, ...] = ()
    callback_factory: Callable[[], Callback] | None = None
    score: Callable[[nn.Module, Any, Path], Mapping[str, float]] | None = None
    quick_task: Task | None = None
    quick_steps: int = 30
    quick_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    task_of_seed: Callable[[Any, int], Task] | None = None
    departures: tuple[str, ...] = ()
    embedding_size: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.layer, type) and not issubclass(self.layer, Layer):
            raise ValueError(
                f"expected a subclass of eigenrnn.layers.Layer in {self.label}, got "
                f"{self.layer.__name__}: eigenrnn_experiments.baselines has torch's layers"
            )
        counts_epochs = self.settings.epochs is not None and not self.task.reads_files
        if counts_epochs and self.task.steps_per_epoch(self.settings.batch_size) is None:
            raise ValueError(
                f"expected Settings(steps=...) in {self.label}, got epochs: "
                f"{type(self.task).__name__} draws its data without end"
            )

    def also_reported(self, **changes: Any) -> "Row":
        """Return the row with a further number, which another table or figure reports of it.

        Args:
            changes: The fields of `Reported` that differ from the first number, by name.
        """
        return replace(self, reported=(*self.reported, replace(self.reported[0], **changes)))

    def points(self) -> dict[str, "Row"]:
        """Return one row for each point of the grid, by the name of the point."""
        points: dict[str, Row] = {}
        for values in Plan(grid=self.values_of_grid).points:
            row = replace(self, grid=())
            for axis in self.grid:
                row = axis.with_value(row, values[axis.name])
            points[Plan.name(values)] = row
        return points

    @property
    def values_of_grid(self) -> dict[str, tuple[float, ...]]:
        """The values that a search tries, by the names of the hyperparameters."""
        return {axis.name: axis.values for axis in self.grid}

    def build(self, seed: int) -> nn.Module:
        """Build the network and initialise it from the seed.

        Raises:
            ValueError: If the number of parameters differs from the stated one.
        """
        generator = torch.Generator().manual_seed(seed)
        model = (self.model_factory or _layer_with_head)(self, generator)
        counted = count_parameters(model)
        if self.parameters not in (None, counted):
            raise ValueError(
                f"expected {self.parameters} parameters in {self.label}, got {counted}"
            )
        return model

    def describe(self) -> dict[str, Any]:
        """Return task, network and settings as data: what determines the numbers of a run."""
        names = ("layer", "hidden_size", "options", "head_init", "head_bias_init")
        names += ("model_factory", "embedding_size")
        parts = {name: getattr(self, name) for name in names}
        return {
            "task": describe(self.task),
            "network": describe_call(**parts),
            "settings": describe_options(self.settings),
        }

    def with_seed(self, seed: int) -> "Row":
        """Return the row with this seed for batches, dropout and, if it draws data, the task."""
        task = self.task
        if self.task_of_seed is not None:
            task = self.task_of_seed(task, seed)
        return replace(self, task=task, settings=replace(self.settings, seed=seed))

    def with_data_root(self, folder: str) -> "Row":
        """Return the row whose tasks read their files from this folder."""
        if not self.task.reads_files:
            return self
        quick = self.quick_task
        if quick is not None:
            quick = quick.with_data_root(folder)
        return replace(self, task=self.task.with_data_root(folder), quick_task=quick)

    def with_changes(self, changes: Mapping[str, Any]) -> "Row":
        """Return the row without its grid and with other hyperparameters.

        Args:
            changes: Values by name: a training setting such as `lr`, `hidden_size`,
                `layer.OPTION` or `task.OPTION`.
        Raises:
            ValueError: If a name is unknown; the layer checks its own options when it is built.
        """
        settings_names = {f.name for f in fields(Settings)} - {"seed"}
        task_names = {f"task.{f.name}" for f in fields(self.task)}  # type: ignore[arg-type]
        layer_names = {name for name in changes if name.startswith("layer.")}
        unknown = set(changes) - settings_names - task_names - layer_names - {"hidden_size"}
        if unknown:
            raise ValueError(
                "expected a setting of training, hidden_size, layer.OPTION or "
                f"{', '.join(sorted(task_names))} for the row {self.label!r}; got "
                f"{', '.join(sorted(unknown))}"
            )
        settings = {n: value for n, value in changes.items() if n in settings_names}
        of_task = {n.removeprefix("task."): v for n, v in changes.items() if n in task_names}
        of_layer = {n.removeprefix("layer."): v for n, v in changes.items() if n in layer_names}
        # settings take one of the two, and the row's own may be the other
        if "epochs" in settings:
            settings.setdefault("steps", None)
        if "steps" in settings:
            settings.setdefault("epochs", None)
        parameters = self.parameters
        if of_layer or of_task or "hidden_size" in changes:
            parameters = None  # the stated number belongs to another network
        return replace(
            self,
            settings=replace(self.settings, **settings),
            task=replace(self.task, **of_task),  # type: ignore[type-var]
            options={**self.options, **of_layer},
            hidden_size=changes.get("hidden_size", self.hidden_size),
            parameters=parameters,
            grid=(),
        )

    def shortened(self, length: Length) -> "Row":
        """Return the row with another number of epochs or steps."""
        changes = {length.unit: length.number}
        if length.unit == "steps":
            changes["warmup_steps"] = min(self.settings.warmup_steps, length.number - 1)
        return replace(self, settings=replace(self.settings, **changes))

    def quick(self, steps: int | None = None) -> "Row":
        """Return a smaller row for a quick run, with the middle point of its grid."""
        grid: list[Axis] = []
        for axis in self.grid:
            middle = axis.values[len(axis.values) // 2]
            grid.append(replace(axis, values=(middle,)))
        steps = steps or self.quick_steps
        parameters = self.parameters
        if self.quick_options:  # they may change the size of the network
            parameters = None
        settings = replace(
            self.settings,
            epochs=None,
            steps=steps,
            warmup_steps=min(self.settings.warmup_steps, steps - 1),
            batch_size=min(self.settings.batch_size, _QUICK_BATCH_SIZE),
            eval_every=steps,
            eval_batch_size=100,
        )
        return replace(
            self,
            task=self.quick_task or self.task,
            options={**self.options, **self.quick_options},
            parameters=parameters,
            settings=settings,
            grid=tuple(grid),
            score=None,  # a score may take longer than the training
        )


def _layer_with_head(row: Row, generator: torch.Generator) -> nn.Module:
    """Build the default network: one layer with a linear head."""
    return model_for(
        row.task,
        partial(row.layer, **row.options),
        row.hidden_size,
        embedding_size=row.embedding_size,
        generator=generator,
        head_init=row.head_init,
        head_bias_init=row.head_bias_init,
    )


def stack_model(
    row: Row, generator: torch.Generator, *, width: int, depth: int, mixer: Mixer = "glu"
) -> nn.Module:
    """Build a residual stack of a row's layers, with the head that its task needs.

    Args:
        row: The row, whose `hidden_size` is that of each layer.
        generator: The generator that draws the weights.
        width: The width of the stack.
        depth: The number of blocks.
        mixer: What follows each layer.
    """
    make_layer: Callable[..., nn.Module] = row.layer
    options = {"hidden_size": row.hidden_size, "generator": generator, **row.options}
    stack = ResidualStack(
        lambda inputs: make_layer(inputs, **options),
        width,
        depth,
        input_size=row.task.input_size,
        mixer=mixer,
        generator=generator,
    )
    return SequenceModel(stack, row.task.output_size, row.task.readout, generator=generator)


@dataclass(frozen=True)
class Computed:
    """A number of a paper that needs no training.

    Args:
        label: The name of the matrix or network, as the paper writes it.
        compute: Computes the number.
        reported: The number that the paper reports, in a tuple as that of a trained row.
        departures: Differences from the paper.
    """

    label: str
    compute: Callable[[], float]
    reported: tuple[Reported, ...]
    departures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quoted:
    """A number that a paper quotes from another paper; it is listed and not run.

    Args:
        label: The network's name and size, as the paper writes them.
        reported: The quoted number, in a tuple; its note names the other paper.
        departures: Differences from the paper.
    """

    label: str
    reported: tuple[Reported, ...]
    departures: tuple[str, ...] = ()
