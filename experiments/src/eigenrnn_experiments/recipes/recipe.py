"""A recipe: a table or figure of a paper as data, with its rows and the plan of its runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eigenrnn.analysis import Analysis
from eigenrnn.errors import check_positive_integer
from eigenrnn_experiments.recipes.plan import Plan
from eigenrnn_experiments.recipes.row import Computed, Quoted, Reported, Row
from eigenrnn_experiments.training.run import Length, RunKey, slug

__all__ = ["Entry", "Panel", "Recipe", "Reference", "row_of"]


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
