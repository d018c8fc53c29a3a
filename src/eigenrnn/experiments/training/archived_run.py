"""The archived record of a run."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, cast

from eigenrnn.experiments.training.files import read_json
from eigenrnn.experiments.training.result import Metrics
from eigenrnn.experiments.training.run_key import Length, run_path

__all__ = ["FORMAT", "ArchivedRun", "CurveColumns", "archive_path"]

FORMAT = 5

CurveColumns = dict[str, list[float | None]]
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
        reduced: The length of a reduced run; None for a full run.
        trained_for: The recipe and row that trained the run, if it is shared; else None.
        parameters: The number of trained parameters.
        task: The description of the task.
        network: The description of the network: its layer, size and options.
        settings: The training settings.
        baseline: The chance-level loss; None if unknown.
        revision: The commit of the source tree, and whether it was modified; None if unknown.
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
    reduced: Length | None = None
    trained_for: str | None = None
    parameters: int | None = None
    task: Mapping[str, Any] = field(default_factory=dict[str, Any])
    network: Mapping[str, Any] = field(default_factory=dict[str, Any])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    baseline: float | None = None
    revision: Mapping[str, Any] | None = None
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
    training: CurveColumns = field(default_factory=dict[str, list[float | None]])
    evaluated: CurveColumns = field(default_factory=dict[str, list[float | None]])

    @property
    def relative_path(self) -> Path:
        """The file of the run, relative to the archive."""
        return archive_path(self.recipe, self.row, self.point, self.seed, self.reduced)

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
                f"expected a run archived by `eigenrnn archive` in {path}, got another "
                "file: move it out of the archive"
            )
        if found_format != FORMAT or set(content) != set(names):
            version = (content.get("versions") or {}).get("eigenrnn", "of unknown version")
            keys = ", ".join(sorted(set(content) ^ set(names)))
            got = str(found_format) if found_format != FORMAT else f"different keys ({keys})"
            raise ValueError(
                f"expected format {FORMAT} in {path}, got {got}, written by eigenrnn {version}; "
                "it is not changed: archive its run again in another folder (--archive)"
            )
        reduced = content.pop("reduced")
        return cls(**content, reduced=None if reduced is None else Length.from_json(reduced))


def archive_path(
    recipe: str, row: str, point: str, seed: int | None, reduced: Length | None = None
) -> Path:
    """Return the file of a run, relative to the archive."""
    name = "computed" if seed is None else f"seed-{seed}"
    kind = "" if reduced is None else f"-{reduced.unit}-{reduced.number}"
    place = run_path(row, point, seed or 0)
    return Path(recipe.replace("/", "-"), place.with_name(f"{name}{kind}.json"))


def _json(value: Any) -> str:
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    """Replace numbers that are not finite by None, because JSON cannot hold them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in cast("Iterable[Any]", value)]
    return value
