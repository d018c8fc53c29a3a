"""The archive of finished runs: one small file a run, kept with the code."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, cast

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.recipes.runs import run_path
from eigenrnn.experiments.report.files import read_json
from eigenrnn.experiments.training.result import Metrics

__all__ = ["FORMAT", "Archive", "Archived", "Curve", "run_file"]

FORMAT = 2

Curve = dict[str, list[float | None]]
"""Columns of numbers by name, `step` first; None where there is none."""


@dataclass(frozen=True)
class Archived:
    """What is kept of one run, or of one number that takes no training.

    Args:
        recipe: The name of the recipe that it counts for.
        row: The label of the row.
        point: That of its grid; empty without one.
        seed: The seed of the run; None of a number that takes no training.
        state: Whether it has `ended`, has `diverged`, is `unfinished`, or was `computed`.
        trained_for: The recipe that trained it, where that is another one.
        parameters: How many numbers were trained.
        task: What it was trained on.
        baseline: The loss of a guess without memory; None if it was not known.
        settings: How it was trained.
        versions: Those of the software, and the machine.
        steps: The number of optimiser steps that were taken.
        all_steps: How many there are to take; None if it was not known.
        seconds: How long they took by the clock.
        processor_seconds: What all threads of the process computed; None if it is not known.
        last: Loss and metric of each split at the last evaluation.
        best: The same at the best evaluation.
        best_step: The step of the best evaluation.
        best_by: What the best was chosen by.
        value: Our number by the paper's rule; None if the run does not count.
        selected: The test number of the validation-selected model.
        deciding: The loss by which the best point of a search is chosen.
        scores: What else its best model was measured by.
        training: The curve of the training loss.
        evaluated: The curves of the evaluations.
    Units:
        Times in seconds; losses and metrics in those of the task.
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
    def place(self) -> Path:
        """Where in an archive it stands."""
        return run_file(self.recipe, self.row, self.point, self.seed)

    def to_text(self) -> str:
        """Write it as strict JSON, one key a line."""
        known = {"format": FORMAT, **vars(self)}
        lines = (f"{json.dumps(k)}: {_json(v)}" for k, v in known.items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what was archived.

        Raises:
            ValueError: If it is no such file, or of another format; it is left as it is.
        """
        names = [f.name for f in fields(cls)]
        content = read_json(path, ())
        written = content.pop("format", None)
        if not isinstance(written, int):
            raise ValueError(
                f"expected a run that `eigenrnn results collect` has archived in {path}, got "
                "another file: move it out of the archive"
            )
        if written != FORMAT or set(content) != set(names):
            wrote = (content.get("versions") or {}).get("eigenrnn", "of unknown version")
            unlike = ", ".join(sorted(set(content) ^ set(names)))
            got = str(written) if written != FORMAT else f"one that differs in {unlike}"
            raise ValueError(
                f"expected format {FORMAT} in {path}, got {got}, written by eigenrnn {wrote}; it "
                "is not changed: collect its run again into another folder (--archive)"
            )
        return cls(**content)


def run_file(recipe: str, row: str, point: str, seed: int | None) -> Path:
    """Return where in an archive a run stands."""
    place = run_path(row, point, seed or 0)
    return Path(recipe.replace("/", "-"), place.with_name(_name(seed)))


def _name(seed: int | None) -> str:
    return "computed.json" if seed is None else f"seed-{seed}.json"


class Archive:
    """A folder of archived runs.

    Args:
        folder: Need not exist yet.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def runs(self) -> list[Archived]:
        """Read all runs, in the order of their names.

        Raises:
            ValueError: If a file is none of an archive, is of another format or has been moved.
        """
        found: list[Archived] = []
        for place in sorted(self.places()):
            run = Archived.read(self.folder / place)
            if run.place != place:
                raise ValueError(
                    f"expected the file {run.place} in {self.folder}, got it as {place}"
                )
            found.append(run)
        return sorted(found, key=lambda run: (str(run.place.parent), run.seed or 0))

    def places(self) -> set[Path]:
        """Name the files of all runs, below the folder; none is read."""
        return {path.relative_to(self.folder) for path in self.folder.glob("*/**/*.json")}

    def add(
        self, run: Archived, *, overwrite: bool = False
    ) -> Literal["archived", "there", "kept"]:
        """Write a run, unless there is another one in its place.

        A run that another recipe trained gives way to the row's own, and an unfinished one to
        itself further on.

        Returns:
            Whether it was `archived`, was `there` already, or the other one was `kept`.
        Raises:
            ValueError: If what is in its place is of another format, or no run.
        """
        path = self.folder / run.place
        if path.exists():
            there = Archived.read(path)
            if there.to_text() == run.to_text():
                return "there"
            if not (overwrite or _gives_way(there, run)):
                return "there" if run.trained_for and there.trained_for is None else "kept"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, run.to_text().encode())
        return "archived"


def _gives_way(there: Archived, new: Archived) -> bool:
    if there.trained_for is not None and new.trained_for is None:
        return True
    further = there.settings == new.settings and new.steps >= there.steps
    return there.state == "unfinished" and further


def _json(value: Any) -> str:
    return json.dumps(_finite(value), allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    """Put None where JSON has no word for a number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in cast("Iterable[Any]", value)]
    return value
