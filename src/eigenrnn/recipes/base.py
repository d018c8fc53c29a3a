"""What a recipe is: a published experiment as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import nn

from eigenrnn.initializers import Initializer
from eigenrnn.models import SequenceModel, count_parameters
from eigenrnn.tasks import Task
from eigenrnn.train import Settings

__all__ = ["Recipe", "Reported", "Row"]


@dataclass(frozen=True)
class Reported:
    """A number that a paper gives.

    Args:
        value: The number; None where the paper shows a curve and prints none.
        place: Where it stands, such as "table 1".
        split: The part of the data that it was measured on.
        quantity: ``"accuracy"`` or ``"loss"``.
        rule: Which of a run's evaluations counts: the ``"best"`` on that split, the ``"last"``,
            or that of the ``"validation"``-selected model.
        note: How it was come by, where it was not printed: read off a figure, quoted.
    """

    value: float | None
    place: str
    split: Literal["train", "validation", "test"] = "test"
    quantity: Literal["accuracy", "loss"] = "accuracy"
    rule: Literal["best", "last", "validation"] = "best"
    note: str = ""


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
        quick_task: A smaller task for `--quick`; the same one by default.
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
    quick_task: Task | None = None
    departures: tuple[str, ...] = ()

    def build(self, seed: int) -> nn.Module:
        """Make the network, its start drawn from the seed.

        Raises:
            ValueError: If this version has no such layer, or the number of parameters is not the
                one that is stated.
        """
        if self.layer is None:
            raise ValueError(f"expected a row whose layer there is, got {self.label!r}")
        generator = torch.Generator().manual_seed(seed)
        options = {**self.options, "generator": generator}
        layer = self.layer(self.task.input_size, self.hidden_size, **options)
        model = SequenceModel(
            layer,
            self.task.output_size,
            self.task.readout,
            head_init=self.head_init,
            head_bias_init=self.head_bias_init,
            generator=generator,
        )
        counted = count_parameters(model)
        if self.parameters not in (None, counted):
            raise ValueError(
                f"expected {self.parameters} parameters in {self.label}, got {counted}"
            )
        return model

    def with_seed(self, seed: int) -> "Row":
        """Return the same row with another seed for batches and dropout."""
        return replace(self, settings=replace(self.settings, seed=seed))

    def quick(self, steps: int = 30) -> "Row":
        """Return the same row at a size that shows that it runs, not what it reaches."""
        settings = replace(
            self.settings, epochs=None, steps=steps, eval_every=steps, eval_batch_size=500
        )
        return replace(self, settings=settings, task=self.quick_task or self.task)


@dataclass(frozen=True)
class Recipe:
    """A published comparison: a table, or a figure with its curves.

    Args:
        name: The paper and the place in it, such as "scornn/table1".
        summary: What is compared, in a sentence.
        rows: The networks.
        source: The paper.
        seeds: The seeds of the paper's runs, or as many as it made.
        departures: Where we do otherwise than the paper, in all rows.
    """

    name: str
    summary: str
    rows: tuple[Row, ...]
    source: str
    seeds: tuple[int, ...] = (0,)
    departures: tuple[str, ...] = ()

    def select(self, patterns: list[str] | None) -> tuple[Row, ...]:
        """Choose the rows whose label contains one of the patterns, in any case.

        Raises:
            ValueError: If a pattern is in no label.
        """
        if not patterns:
            return self.rows
        for pattern in patterns:
            if not any(pattern.lower() in row.label.lower() for row in self.rows):
                labels = ", ".join(row.label for row in self.rows)
                raise ValueError(f"expected a part of a row's label ({labels}), got {pattern!r}")
        return tuple(
            row for row in self.rows if any(p.lower() in row.label.lower() for p in patterns)
        )
