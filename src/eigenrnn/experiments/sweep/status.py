"""What has become of a trial: written in its folder, and read again."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from eigenrnn.experiments.sweep.files import read_columns, read_json
from eigenrnn.experiments.sweep.source import Trial
from eigenrnn.experiments.training.result import Result, are_metrics, is_count
from eigenrnn.experiments.training.run_directory import RunDirectory, write_json

__all__ = ["FILE", "State", "Status"]

FILE = "trial.json"
"""The file of a run in which a worker writes what has become of it."""

State = Literal["waiting", "running", "stopped", "ended", "diverged", "failed", "lost"]

_AGAIN = "the trial goes again from its checkpoint"
_WRITTEN = ("running", "ended", "diverged", "failed")
_OF_RESULT = tuple(
    f.name for f in fields(Result) if f.name != "directory" and f.default is MISSING
)


@dataclass(frozen=True)
class Status:
    """How far a trial has come.

    Args:
        trial: Which it is.
        state: `waiting`, `running`, `stopped` (was running when the sweep was), `ended`,
            `diverged` (its loss was not finite), `failed` (an error ended it) or `lost` (its
            machines died too often).
        message: What ended it, or why it has to go again.
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
        """Read what is in the folder of a trial; one of which that is damaged has to go again."""
        status, path = cls(trial), out / trial.place / FILE
        if not path.exists():
            return status
        try:
            status = replace(status, **_written(path))
        except ValueError as error:
            return replace(status, message=f"{error}; {_AGAIN}")
        return status.with_result(out) if status.state == "ended" else status

    def with_result(self, out: Path) -> Self:
        """Read what came out of a trial that has ended; without a result it has not."""
        file = RunDirectory(out / self.trial.place).result
        if not file.exists():
            return replace(self, state="waiting")
        try:
            return replace(self, result=_result(file))
        except ValueError as error:
            return replace(self, state="waiting", message=f"{error}; {_AGAIN}")

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

    @cached_property
    def evaluations(self) -> Mapping[str, Mapping[int, float]]:
        """Each figure of a trial that has ended, such as `test_loss`, at each step it was taken.

        Raises:
            ValueError: If the journal is damaged.
        """
        if self.result is None:
            return {}
        last = self.result.last
        names = [f"{split}_{name}" for split, figures in last.items() for name in figures]
        return read_columns(RunDirectory(self.result.directory).metrics, names)


def _written(path: Path) -> dict[str, Any]:
    """Read what a worker has written of a trial.

    Raises:
        ValueError: If the file is damaged.
    """
    names = ("state", "message", "attempts", "node", "owner")
    known = read_json(path, names)
    texts = (known["state"], known["message"], known["node"], known["owner"])
    is_right = all(isinstance(text, str) for text in texts) and known["state"] in _WRITTEN
    if not is_right or not is_count(known["attempts"]) or not are_metrics(known.get("scores", {})):
        raise ValueError(f"{path} is damaged: a value has the wrong type")
    return {name: known[name] for name in (*names, "scores") if name in known}


def _result(file: Path) -> Result:
    """Read what came out of a run.

    Raises:
        ValueError: If the file is damaged.
    """
    content = read_json(file, _OF_RESULT)
    return Result.from_json(content, file.parent)
