"""The archive of runs: one small JSON file per run, kept in the repository."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, cast

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.recipes.runs import run_path
from eigenrnn.experiments.training.files import read_json
from eigenrnn.experiments.training.result import Metrics

__all__ = ["FORMAT", "Archive", "ArchivedRun", "Curve", "archive_path"]

FORMAT = 2

Curve = dict[str, list[float | None]]
"""Columns of numbers by name, `step` first; None for a missing value."""


@dataclass(frozen=True)
class ArchivedRun:
    """The archived record of one run, or of one number without training.

    Args:
        recipe: The name of the recipe.
        row: The label of the row.
        point: The point of the row's grid; empty without a grid.
        seed: The seed of the run; None for a number without training.
        state: `ended`, `diverged`, `unfinished`, or `computed` for a number without training.
        trained_for: The recipe and row that trained the run, if it is shared; else None.
        parameters: The number of trained parameters.
        task: The task with its options.
        baseline: The chance-level loss; None if unknown.
        settings: The training settings.
        versions: The versions of the software, and the machine.
        steps: The number of optimiser steps taken.
        all_steps: The number of optimiser steps of the full run; None if unknown.
        seconds: The wall-clock time.
        processor_seconds: The processor time of all threads; None if unknown.
        last: Loss and metric of each split at the last evaluation.
        best: The same at the best evaluation.
        best_step: The step of the best evaluation.
        best_by: The quantity that selects the best evaluation.
        value: Our number by the paper's rule; None if the run does not count.
        selected: The test number of the model selected on the validation set.
        deciding: The loss that selects the best point of a search.
        scores: Further scores of the best model.
        training: The curve of the training loss.
        evaluated: The curves of the evaluations.
    Units:
        Times in seconds; losses and metrics in the units of the task.
    """

    recipe: str
    row: str
    point: str
    seed: int | None
    state: Literal["ended", "diverged", "unfinished", "computed"]
    trained_for: str | None = None
    parameters: int | None = None
    task: str | None = None
    baseline: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    steps: int = 0
    all_steps: int | None = None
    seconds: float = 0.0
    processor_seconds: float | None = None
    last: Metrics = field(default_factory=dict[str, dict[str, float]])
    best: Metrics = field(default_factory=dict[str, dict[str, float]])
    best_step: int | None = None
    best_by: str | None = None
    value: float | None = None
    selected: float | None = None
    deciding: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    training: Curve = field(default_factory=dict[str, list[float | None]])
    evaluated: Curve = field(default_factory=dict[str, list[float | None]])

    @property
    def relative_path(self) -> Path:
        """The file of the run, relative to the archive."""
        return archive_path(self.recipe, self.row, self.point, self.seed)

    def to_text(self) -> str:
        """Return the record as strict JSON, one key per line."""
        content = {"format": FORMAT, **vars(self)}
        lines = (f"{json.dumps(k)}: {_json(v)}" for k, v in content.items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read an archived run.

        Raises:
            ValueError: If it is another kind of file, or has another format; it is not changed.
        """
        names = [f.name for f in fields(cls)]
        content = read_json(path, ())
        found_format = content.pop("format", None)
        if not isinstance(found_format, int):
            raise ValueError(
                f"expected a run archived by `eigenrnn results collect` in {path}, got another "
                "file: move it out of the archive"
            )
        if found_format != FORMAT or set(content) != set(names):
            version = (content.get("versions") or {}).get("eigenrnn", "of unknown version")
            keys = ", ".join(sorted(set(content) ^ set(names)))
            got = str(found_format) if found_format != FORMAT else f"different keys ({keys})"
            raise ValueError(
                f"expected format {FORMAT} in {path}, got {got}, written by eigenrnn {version}; "
                "it is not changed: collect its run again into another folder (--archive)"
            )
        return cls(**content)


def archive_path(recipe: str, row: str, point: str, seed: int | None) -> Path:
    """Return the file of a run, relative to the archive."""
    place = run_path(row, point, seed or 0)
    return Path(recipe.replace("/", "-"), place.with_name(_name(seed)))


def _name(seed: int | None) -> str:
    return "computed.json" if seed is None else f"seed-{seed}.json"


class Archive:
    """A folder of archived runs.

    Args:
        folder: The folder; it need not exist yet.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def runs(self) -> list[ArchivedRun]:
        """Read all runs, sorted by name.

        Raises:
            ValueError: If a file is not an archived run, has another format, or has been moved.
        """
        found: list[ArchivedRun] = []
        for path in sorted(self.paths()):
            run = ArchivedRun.read(self.folder / path)
            if run.relative_path != path:
                raise ValueError(
                    f"expected the file {run.relative_path} in {self.folder}, got it as {path}"
                )
            found.append(run)
        return sorted(found, key=lambda run: (str(run.relative_path.parent), run.seed or 0))

    def paths(self) -> set[Path]:
        """Return the files of all runs relative to the folder, without reading them."""
        return {path.relative_to(self.folder) for path in self.folder.glob("*/**/*.json")}

    def add(
        self, run: ArchivedRun, *, overwrite: bool = False
    ) -> Literal["archived", "unchanged", "kept"]:
        """Write a run, unless the archive holds a different one under its name.

        A run of the row itself replaces a shared run of another recipe. An unfinished run is
        replaced by a later state of the same run.

        Returns:
            `archived` if it was written, `unchanged` if the archive has it already, `kept` if the
            archive keeps a different run.
        Raises:
            ValueError: If the existing file has another format, or is not a run.
        """
        path = self.folder / run.relative_path
        if path.exists():
            existing = ArchivedRun.read(path)
            if existing.to_text() == run.to_text():
                return "unchanged"
            if not (overwrite or _is_replaced(existing, run)):
                return "unchanged" if run.trained_for and existing.trained_for is None else "kept"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, run.to_text().encode())
        return "archived"


def _is_replaced(existing: ArchivedRun, new: ArchivedRun) -> bool:
    if existing.trained_for is not None and new.trained_for is None:
        return True
    continues = existing.settings == new.settings and new.steps >= existing.steps
    return existing.state == "unfinished" and continues


def _json(value: Any) -> str:
    return json.dumps(_finite(value), allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    """Replace numbers that are not finite by None, because JSON cannot hold them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in cast("Iterable[Any]", value)]
    return value
