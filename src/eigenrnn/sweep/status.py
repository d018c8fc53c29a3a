"""What has become of a trial: written in its folder, and read again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from eigenrnn.sweep.source import Trial
from eigenrnn.train.result import Result
from eigenrnn.train.run_directory import RunDirectory, write_json

__all__ = ["FILE", "State", "Status"]

FILE = "trial.json"
"""The file of a run in which a worker writes what has become of it."""

State = Literal["waiting", "running", "ended", "diverged", "failed", "lost"]


@dataclass(frozen=True)
class Status:
    """How far a trial has come.

    Args:
        trial: Which it is.
        state: `waiting`, `running`, `ended`, `diverged` (its loss was not finite), `failed` (an
            error ended it) or `lost` (its machines died too often).
        message: What ended it.
        attempts: How often a worker has begun with it or gone on.
        node: The machine that did so last.
        owner: The attempt that may write to its folder.
        result: What came out, once it has ended.
        scores: What else its best model was measured by.
    """

    trial: Trial
    state: State = "waiting"
    message: str = ""
    attempts: int = 0
    node: str = ""
    owner: str = ""
    result: Result | None = None
    scores: Mapping[str, float] | None = None

    @classmethod
    def read(cls, trial: Trial, out: Path) -> Self:
        """Read what is in the folder of a trial."""
        folder = out / trial.place
        status, path = cls(trial), folder / FILE
        if not path.exists():
            return status
        known: dict[str, Any] = json.loads(path.read_text())
        names = ("state", "message", "attempts", "node", "owner", "scores")
        status = replace(status, **{name: known[name] for name in names if name in known})
        return status.with_result(out) if status.state == "ended" else status

    def with_result(self, out: Path) -> Self:
        """Read what came out of a trial that has ended; without a result it has not."""
        folder = out / self.trial.place
        file = RunDirectory(folder).result
        if not file.exists():
            return replace(self, state="waiting")
        return replace(self, result=Result.from_json(file.read_text(), folder))

    @property
    def is_final(self) -> bool:
        """Whether the trial would come to the same again."""
        return self.state in ("ended", "diverged")

    def write(self, out: Path) -> None:
        """Write it into the folder of the trial."""
        folder = out / self.trial.place
        folder.mkdir(parents=True, exist_ok=True)
        content = {
            "parameters": dict(self.trial.parameters),
            "seed": self.trial.seed,
            **{name: getattr(self, name) for name in ("state", "message", "attempts", "node")},
            "owner": self.owner,
        }
        if self.scores is not None:
            content["scores"] = dict(self.scores)
        write_json(folder / FILE, content)

    def figure(self, metric: str) -> float | None:
        """Give a figure at the best evaluation, such as `test loss`; None if there is none."""
        split, _, name = metric.partition(" ")
        return None if self.result is None else self.result.best.get(split, {}).get(name)
