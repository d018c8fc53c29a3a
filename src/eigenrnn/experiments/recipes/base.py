"""What a recipe is: a published experiment as data."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from eigenrnn.experiments.recipes.panel import Panel
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Callback, Settings
from eigenrnn.init import Initializer
from eigenrnn.models import SequenceModel, count_parameters

__all__ = ["Axis", "Computed", "Entry", "Quoted", "Recipe", "Reported", "Row"]


_QUICK_BATCH = 20


@dataclass(frozen=True)
class Reported:
    """A number that a paper gives.

    Args:
        value: The number; None where the paper shows a curve and prints none.
        place: Where it stands, such as "table 1".
        split: The part of the data that it was measured on.
        quantity: One of the figures of the task, such as ``"accuracy"`` or ``"loss"``; of the
            split ``train``, ``"loss"`` or ``"loss_mean"``, the mean over `log_every` steps.
            ``"success"`` is whether the best loss is below `success` of the baseline, so that the
            mean over runs is their share, and ``"epoch_seconds"`` how long an epoch takes.
        rule: Which of a run's evaluations counts: the ``"best"`` on that split, the ``"last"``,
            or that of the ``"validation"``-selected model.
        note: How it was come by, where it was not printed: read off a figure, quoted.
        error: The standard error that it is printed with.
        success: The share of the baseline's loss that a success stays below.
        only_successes: Whether other runs do not count.
        pooled: Whether the number of a search is that of all its runs together, as a share of
            successes always is, and not that of its best point.
        file: The file of a run that has the quantity as a column, for what is not in its journal.
        at_most: What the number stays below, where the paper says so much and prints none.
        decimals: How many digits after the point are printed, where the last are zeros, which a
            float does not show.

    Raises:
        ValueError: If there is a number and a bound of it.
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
    file: str | None = None
    at_most: float | None = None
    decimals: int | None = None

    def __post_init__(self) -> None:
        if self.value is not None and self.at_most is not None:
            raise ValueError(
                f"expected value or at_most, got both, {self.value} and {self.at_most}"
            )


@dataclass(frozen=True)
class Axis:
    """What a search varies in a row, and the values that it takes.

    Args:
        name: What is varied, such as ``"lr"``.
        values: What is tried.
        vary: Gives the row with a value.
    """

    name: str
    values: tuple[float, ...]
    vary: Callable[["Row", float], "Row"]

    @classmethod
    def of_settings(cls, name: str, values: tuple[float, ...]) -> "Axis":
        """Vary one of the settings of training."""

        def vary(row: "Row", value: float) -> "Row":
            return replace(row, settings=replace(row.settings, **{name: value}))

        return cls(name, values, vary)


@dataclass(frozen=True)
class Row:
    """One network of a published comparison.

    Args:
        label: The network's name and size, as the paper writes them.
        task: What it is trained on.
        layer: The class of the recurrent layer; None where this version has none yet.
        hidden_size: The number N of units.
        settings: How it is trained.
        reported: What the paper reports.
        options: Further arguments of the layer.
        parameters: The number of trained parameters, asserted when the model is built.
        head_init: The start of the head's matrix; that of `torch.nn.Linear` by default.
        head_bias_init: The start of the head's bias, likewise.
        make: What builds the network from the row and a source of its start, where that is more
            than a layer with a linear head.
        seeds: The seeds of the paper's runs of this row, where they are not the recipe's.
        grid: What is varied: every combination is a run for each seed. The row itself is none of
            them, unless there is no grid.
        watch: Makes a callback that looks on while a run is trained, from the run's folder.
        score: Measures the best model of a run by further numbers, given its task and a folder; a
            quick run leaves it out.
        quick_task: A smaller task for `--quick`; the same one by default.
        quick_steps: The number of steps for `--quick`.
        quick_options: Options of the layer for `--quick`, in place of those of that name.
        task_of_seed: Gives each run a task of its own, from the task and the seed, where the paper
            draws the data by the seed too.
        departures: Where we do otherwise than the paper.
    """

    label: str
    task: Task
    layer: Callable[..., Any] | None
    hidden_size: int
    settings: Settings
    reported: Reported
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parameters: int | None = None
    head_init: Initializer | None = None
    head_bias_init: Initializer | None = None
    make: Callable[["Row", torch.Generator], nn.Module] | None = None
    seeds: tuple[int, ...] | None = None
    grid: tuple[Axis, ...] = ()
    watch: Callable[[Path], Callback] | None = None
    score: Callable[[nn.Module, Any, Path], Mapping[str, float]] | None = None
    quick_task: Task | None = None
    quick_steps: int = 30
    quick_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    task_of_seed: Callable[[Any, int], Task] | None = None
    departures: tuple[str, ...] = ()

    def points(self) -> dict[str, "Row"]:
        """Return the rows that are run, by the values in which they differ."""
        points: dict[str, Row] = {}
        for values in itertools.product(*(axis.values for axis in self.grid)):
            row = replace(self, grid=())
            for axis, value in zip(self.grid, values, strict=True):
                row = axis.vary(row, value)
            named = zip((axis.name for axis in self.grid), values, strict=True)
            points[" ".join(f"{name}={value:g}" for name, value in named)] = row
        return points

    def build(self, seed: int) -> nn.Module:
        """Make the network, its start drawn from the seed.

        Raises:
            ValueError: If this version has no such layer, or the number of parameters is not the
                one that is stated.
        """
        if self.layer is None:
            raise ValueError(
                f"expected a row whose layer exists in this version, got {self.label!r}"
            )
        generator = torch.Generator().manual_seed(seed)
        model = (self.make or _with_head)(self, generator)
        counted = count_parameters(model)
        if self.parameters not in (None, counted):
            raise ValueError(
                f"expected {self.parameters} parameters in {self.label}, got {counted}"
            )
        return model

    def with_seed(self, seed: int) -> "Row":
        """Return the same row with another seed for batches and dropout, and the task's of it."""
        task = self.task if self.task_of_seed is None else self.task_of_seed(self.task, seed)
        return replace(self, task=task, settings=replace(self.settings, seed=seed))

    def quick(self, steps: int | None = None) -> "Row":
        """Return the same row at a size that shows that it runs, not what it reaches.

        Of a grid the point in its middle is left.
        """
        grid = tuple(replace(a, values=(a.values[len(a.values) // 2],)) for a in self.grid)
        steps = steps or self.quick_steps
        settings = replace(
            self.settings,
            epochs=None,
            steps=steps,
            batch_size=min(self.settings.batch_size, _QUICK_BATCH),
            eval_every=steps,
            eval_batch_size=100,
        )
        return replace(
            self,
            task=self.quick_task or self.task,
            options={**self.options, **self.quick_options},
            parameters=None if self.quick_options else self.parameters,
            settings=settings,
            grid=grid,
            score=None,
        )


def _with_head(row: Row, generator: torch.Generator) -> nn.Module:
    """Build what most rows are: a layer with a linear head."""
    make: Any = row.layer
    layer = make(row.task.input_size, row.hidden_size, **row.options, generator=generator)
    return SequenceModel(
        layer,
        row.task.output_size,
        row.task.readout,
        head_init=row.head_init,
        head_bias_init=row.head_bias_init,
        generator=generator,
    )


@dataclass(frozen=True)
class Computed:
    """A number of a paper that takes no training.

    Args:
        label: What it is of, as the paper writes it.
        compute: Works it out.
        reported: What the paper reports.
        departures: Where we do otherwise than the paper.
    """

    label: str
    compute: Callable[[], float]
    reported: Reported
    departures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quoted:
    """A number that a paper took from another one, whose settings are there.

    Args:
        label: The network's name and size, as the paper writes them.
        reported: What the paper quotes, with the place that it is from as the note.
    """

    label: str
    reported: Reported
    departures: tuple[str, ...] = ()


Entry = Row | Computed | Quoted
"""What a comparison consists of."""


@dataclass(frozen=True)
class Recipe:
    """A published comparison: a table, or a figure with its curves.

    Args:
        name: The paper and the place in it, such as "scornn/table1".
        summary: What is compared, in a sentence.
        rows: The networks, what is computed and what is quoted.
        source: The paper.
        seeds: The seeds of the paper's runs, or as many as it made.
        departures: Where we do otherwise than the paper, in all rows.
        panels: The pictures, beside the curves of training.
    """

    name: str
    summary: str
    rows: tuple[Entry, ...]
    source: str
    seeds: tuple[int, ...] = (0,)
    departures: tuple[str, ...] = ()
    panels: tuple[Panel, ...] = ()

    def select(self, patterns: list[str] | None) -> tuple[Entry, ...]:
        """Choose the rows of these labels or, of a pattern that is none, those that contain it.

        Raises:
            ValueError: If a pattern is in no label.
        """
        if not patterns:
            return self.rows
        chosen: set[str] = set()
        for pattern in patterns:
            labels = [row.label for row in self.rows]
            exact = [label for label in labels if pattern.lower() == label.lower()]
            found = exact or [label for label in labels if pattern.lower() in label.lower()]
            if not found:
                raise ValueError(
                    f"expected a part of a row's label ({', '.join(labels)}), got {pattern!r}"
                )
            chosen.update(found)
        return tuple(row for row in self.rows if row.label in chosen)
