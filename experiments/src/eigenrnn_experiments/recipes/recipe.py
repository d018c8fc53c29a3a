"""A recipe: a table or figure of a paper as data, with its rows and the reported numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from eigenrnn.analysis import Analysis
from eigenrnn.errors import check_positive_integer
from eigenrnn.init import Initializer
from eigenrnn.layers import Layer
from eigenrnn.models import Mixer, ResidualStack, SequenceModel, count_parameters
from eigenrnn_experiments.tasks import Task
from eigenrnn_experiments.tasks.base import HIGHER_IS_BETTER, model_for
from eigenrnn_experiments.training import Callback, Settings
from eigenrnn_experiments.training.description import (
    describe,
    describe_call,
    describe_options,
)
from eigenrnn_experiments.training.run import Length, Run, RunFolder, RunKey, RunNumber, slug

__all__ = [
    "Axis",
    "Computed",
    "Entry",
    "Panel",
    "Plan",
    "Quoted",
    "Recipe",
    "Reference",
    "Reported",
    "Row",
    "check_reported",
    "numbers_of",
    "row_of",
    "stack_model",
]

_QUICK_BATCH_SIZE = 20


_NO_BETTER_SIDE = {"henrici", "share of pairs", "sum of the shares", "total Fisher memory"}


@dataclass(frozen=True)
class Plan:
    """The runs of a row: the points of its grid, or of a sweep's, each with all seeds.

    `reproduce` trains them one after another, a sweep in parallel.

    Args:
        recipe: The name of the recipe; empty without one.
        row: The label of the row.
        grid: The values of each hyperparameter, by its name.
        seeds: The seeds.
        quick: Whether the runs are quick ones.
        reduced: The length of reduced runs; None for full runs.
        varies: Whether the hyperparameters are a sweep's, which change the row.
    Example:
        >>> plan = Plan("", "LSTM 8", {"lr": (0.1, 0.01)}, seeds=(0, 1))
        >>> [str(key) for key in plan.keys]
        ['LSTM 8, lr=0.1, seed 0', 'LSTM 8, lr=0.1, seed 1', 'LSTM 8, lr=0.01, seed 0', \
'LSTM 8, lr=0.01, seed 1']
    """

    recipe: str = ""
    row: str = ""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Any])
    seeds: Sequence[int] = (0,)
    quick: bool = False
    reduced: Length | None = None
    varies: bool = False

    @property
    def points(self) -> list[dict[str, Any]]:
        """Every combination of the values; one point without names if there is no grid."""
        return [dict(zip(self.grid, v, strict=True)) for v in product(*self.grid.values())]

    @property
    def keys(self) -> list[RunKey]:
        """The keys of all runs, point by point."""
        found: list[RunKey] = []
        for number, point in enumerate(self.points):
            found += self.keys_at(point, number)
        return found

    def keys_at(self, point: Mapping[str, Any], number: int) -> list[RunKey]:
        """Return the keys of a point, one for each seed."""
        changes: dict[str, Any] = {}
        if self.varies:
            changes = {"varied": point, "number": number}
        return [
            RunKey(
                recipe=self.recipe,
                row=self.row,
                point=self.name(point),
                seed=seed,
                quick=self.quick,
                reduced=self.reduced,
                **changes,
            )
            for seed in self.seeds
        ]

    @staticmethod
    def name(point: Mapping[str, Any]) -> str:
        """Return the name of a point, such as `lr=0.01 units=4`."""
        parts: list[str] = []
        for name, value in point.items():
            text = str(value)
            if isinstance(value, float):
                text = f"{value:g}"
            parts.append(f"{name}={text}")
        return " ".join(parts)


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


@dataclass(frozen=True)
class Reference:
    """A row of another recipe, which trains it; this recipe reads the finished runs.

    Args:
        recipe: The recipe that trains the row.
        row: The row, with the numbers that this recipe compares.
    """

    recipe: "Recipe"
    row: Row

    @property
    def label(self) -> str:
        """The label of the row."""
        return self.row.label

    @property
    def reported(self) -> tuple[Reported, ...]:
        """The numbers that this recipe compares."""
        return self.row.reported

    @property
    def departures(self) -> tuple[str, ...]:
        """The departures of the row."""
        return self.row.departures


Entry = Row | Computed | Quoted | Reference
"""What a line of the paper's table is in a recipe."""


@dataclass(frozen=True)
class Panel:
    """One picture of a recipe.

    Args:
        name: The name of its files: ``"c"`` for `c.png` and `c.csv`.
        caption: What the picture shows.
        draw: Computes the picture from the trained runs (`reproduce.TrainedRow`), by the label of
            their row.
        required_rows: The labels of the rows that must have been trained.
    """

    name: str
    caption: str
    draw: Callable[[Mapping[str, Sequence[Any]]], Analysis]
    required_rows: tuple[str, ...] = ()

    def save(self, folder: Path, trained: Mapping[str, Sequence[Any]]) -> bool:
        """Write the picture and its numbers; return False if a required row has no run."""
        if not all(trained.get(label) for label in self.required_rows):
            return False
        self.draw(trained).save(folder / self.name)
        return True


def _with_data_root(row: Entry, folder: str) -> Entry:
    if isinstance(row, Reference):
        return replace(row, row=row.row.with_data_root(folder))
    if isinstance(row, Row):
        return row.with_data_root(folder)
    return row


def _is_longer(row: Row, length: Length) -> bool:
    return (getattr(row.settings, length.unit) or 0) > length.number


@dataclass(frozen=True)
class Recipe:
    """A published comparison: a table, or a figure with its curves.

    Args:
        name: The paper and the place in it, such as "scornn/table1".
        summary: One sentence about the comparison.
        rows: The trained networks, those that another recipe trains, the computed numbers and the
            quoted numbers.
        source: The paper.
        seeds: The seeds of the runs: those of the paper, or as many as the paper has runs.
        departures: Differences from the paper that concern all rows.
        panels: The pictures that `reproduce` draws.
        reduced_to: The length of its runs, if they are reduced; else None.
    Raises:
        ValueError: If two rows have one folder, which is named after the label.
    """

    name: str
    summary: str
    rows: tuple[Entry, ...]
    source: str
    seeds: tuple[int, ...] = (0,)
    departures: tuple[str, ...] = ()
    panels: tuple[Panel, ...] = ()
    reduced_to: Length | None = None

    def __post_init__(self) -> None:
        labels = [row.label for row in self.rows]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"expected each label once in {self.name}, got {label!r} twice")
        label_of: dict[str, str] = {}
        for row in self.rows:
            if not isinstance(row, Row | Computed):
                continue
            folder = slug(row.label)
            other = label_of.setdefault(folder, row.label)
            if not folder or other != row.label:
                raise ValueError(
                    f"expected labels in {self.name} whose ASCII letters and digits differ, as "
                    f"they name folders, got {row.label!r} and {other!r}"
                )

    @property
    def trained(self) -> tuple[Row, ...]:
        """The rows that this recipe trains."""
        return tuple(row for row in self.rows if isinstance(row, Row))

    @property
    def networks(self) -> tuple[Row, ...]:
        """The rows that are trained networks, also those that another recipe trains."""
        found = [row.row if isinstance(row, Reference) else row for row in self.rows]
        return tuple(row for row in found if isinstance(row, Row))

    def row(self, label: str) -> Row:
        """Return the network with this label.

        Raises:
            ValueError: If the recipe has no such network.
        """
        rows = {row.label: row for row in self.networks}
        if label not in rows:
            raise ValueError(f"expected a row of {self.name} ({', '.join(rows)}), got {label!r}")
        return rows[label]

    def rows_at(self, *places: str) -> tuple[Reference, ...]:
        """Return the rows with numbers at these places, for the recipe of that table or figure."""
        found: list[Reference] = []
        for row in self.trained:
            there = tuple(each for each in row.reported if each.place in places)
            if there:
                found.append(Reference(self, replace(row, reported=there)))
        return tuple(found)

    def keys(
        self,
        rows: Sequence[Entry],
        points: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
        *,
        quick: bool = False,
    ) -> list[RunKey]:
        """Return the keys of all runs of some rows, row by row.

        Args:
            rows: Some of its rows; only those that it trains have runs.
            points: The points of their grids; all by default.
            seeds: The seeds; those of each row by default.
            quick: Whether the runs are quick ones.
        Raises:
            ValueError: If a point is in the grid of no row.
        """
        trained = [row for row in rows if isinstance(row, Row)]
        found: list[RunKey] = []
        for row in trained:
            found += self.plan(row, seeds, quick=quick).keys
        if points is None:
            return found
        known = {key.point for key in found}
        if len(trained) < len(rows):
            known.add("")  # the point of a row without a grid, also of one that is not trained
        for point in points:
            if point not in known:
                named = ", ".join(map(repr, sorted(known)))
                raise ValueError(f"expected points of these rows ({named}), got {point!r}")
        return [key for key in found if key.point in points]

    def plan(self, row: Row, seeds: Sequence[int] | None = None, *, quick: bool = False) -> Plan:
        """Return the runs of a row, by default with its own seeds; a quick one has one seed.

        Raises:
            ValueError: If a seed is there twice.
        """
        if seeds is not None and len(set(seeds)) < len(seeds):
            raise ValueError(f"expected each seed once, got {', '.join(map(str, seeds))}")
        if seeds is None:
            seeds = row.seeds or self.seeds
            if quick:
                seeds = seeds[:1]
        if quick:
            row = row.quick()
        grid = row.values_of_grid
        return Plan(self.name, row.label, grid, tuple(seeds), quick, self.reduced_to)

    def reduced(self, length: Length) -> "Recipe":
        """Return the recipe with shorter runs; its numbers are not the paper's.

        Rows that do not train for longer are left out.

        Raises:
            ValueError: If no row trains for longer.
        """
        unit, number = length
        check_positive_integer(unit, number)
        if not any(_is_longer(row, length) for row in self.networks):
            raise ValueError(
                f"expected a row of {self.name} of more than {number} {unit}, got none"
            )
        # the other rows already are as short, or have no length in this unit
        shorter: list[Entry] = []
        for row in self.rows:
            if isinstance(row, Row) and _is_longer(row, length):
                shorter.append(row.shortened(length))
            elif isinstance(row, Reference) and _is_longer(row.row, length):
                shorter.append(Reference(row.recipe.reduced(length), row.row.shortened(length)))
        return replace(self, rows=tuple(shorter), reduced_to=length)

    def with_data_root(self, folder: str | None) -> "Recipe":
        """Set the data folder of the tasks that read files; None leaves it as it is."""
        if folder is None:
            return self
        return replace(self, rows=tuple([_with_data_root(row, folder) for row in self.rows]))

    def select(self, patterns: list[str] | None) -> tuple[Entry, ...]:
        """Return the rows whose label equals a pattern or, if none does, contains it.

        Raises:
            ValueError: If no label contains a pattern.
        """
        if not patterns:
            return self.rows
        labels = [row.label for row in self.rows]
        chosen: set[str] = set()
        for pattern in patterns:
            # a whole label may be a part of another one
            found = [label for label in labels if pattern.lower() == label.lower()]
            if not found:
                found = [label for label in labels if pattern.lower() in label.lower()]
            if not found:
                raise ValueError(
                    f"expected a part of a row's label ({', '.join(labels)}), got {pattern!r}"
                )
            chosen.update(found)
        return tuple(row for row in self.rows if row.label in chosen)


def row_of(key: RunKey, recipe: Recipe) -> Row:
    """Return the row of a recipe with the settings of a run.

    Raises:
        ValueError: If the recipe has no such row or point.
    """
    if key.reduced is not None and recipe.reduced_to is None:
        recipe = recipe.reduced(key.reduced)
    row = recipe.row(key.row)
    if key.quick:
        row = row.quick()
    seed = key.seed or 0
    if key.varied:
        return row.with_changes(key.varied).with_seed(seed)
    points = row.points()
    if key.point not in points:
        named = ", ".join(map(repr, points))
        raise ValueError(f"expected a point of {key.row} ({named}), got {key.point!r}")
    return points[key.point].with_seed(seed)


def numbers_of(row: Row, run: Run, files: RunFolder) -> dict[str, RunNumber | None]:
    """Return the numbers of a run that has ended beside those of its row, by their `measure`.

    A number that does not count by the paper's rule is None.

    Raises:
        ValueError: If the row compares the time of an epoch, and its task has none.
    """
    numbers: dict[str, RunNumber | None] = {}
    for reported in row.reported:
        if reported.measure in numbers:
            continue
        value = _value(row, reported, run, files)
        if value is None:
            numbers[reported.measure] = None
            continue
        selected: float | None = None
        if "validation" in run.best:
            metric = reported.quantity.removesuffix("_mean")  # a mean is of training losses only
            selected = run.best.get("test", {}).get(metric)
        numbers[reported.measure] = RunNumber(value, selected)
    return numbers


def check_reported(row: Row) -> None:
    """Check that the runs of a row will have the numbers that it reports.

    Raises:
        ValueError: If one will be missing.
    """
    for reported in row.reported:
        split = reported.split
        known = {"loss", "loss_mean"}
        if split != "train":
            known = set(row.task.metric_names)
        if split not in row.task.splits or (split == "train" and reported.rule == "validation"):
            raise ValueError(
                f"expected a number of {row.label} that a run has, got {reported.measure}"
            )
        if reported.quantity == "epoch_seconds":
            _steps_per_epoch(row)
        elif reported.column is None and reported.quantity not in known | {"success"}:
            raise ValueError(
                f"expected a number of {row.label} among {', '.join(sorted(known))}, got "
                f"{reported.quantity!r} on {split}"
            )


def _steps_per_epoch(row: Row) -> int:
    """Return the number of steps in an epoch.

    Raises:
        ValueError: If the task has no epochs.
    """
    steps = row.task.steps_per_epoch(row.settings.batch_size)
    if steps is None:
        raise ValueError(f"expected a task with epochs in {row.label}, got endless data")
    return steps


def _value(row: Row, reported: Reported, run: Run, files: RunFolder) -> float | None:
    """Return the number of a run by the paper's rule; None if the run does not count.

    Raises:
        ValueError: If the row compares the time of an epoch, and its task has none.
    """
    if reported.quantity == "epoch_seconds":
        seconds = run.processor_seconds  # which other programs on the machine change little
        if seconds is None:
            seconds = run.seconds
        return seconds / run.steps * _steps_per_epoch(row)
    if reported.quantity == "success":
        return float(_is_success(row, reported, run, files))
    if reported.only_successes and not _is_success(row, reported, run, files):
        return None
    return _by_rule(reported, run, files)


def _is_success(row: Row, reported: Reported, run: Run, files: RunFolder) -> bool:
    loss = replace(reported, quantity="loss", rule="best", column=None)
    return _by_rule(loss, run, files) < reported.success * row.task.baseline()


def _by_rule(reported: Reported, run: Run, files: RunFolder) -> float:
    if reported.rule == "validation":
        return run.best[reported.split][reported.quantity]
    column = reported.column or f"{reported.split}_{reported.quantity}"
    _, values = files.read_column(column)
    if reported.rule == "last":
        return values[-1]
    if reported.better == "higher":
        return max(values)
    return min(values)
