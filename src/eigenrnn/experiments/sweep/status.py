"""The status of a trial, stored in its folder."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from eigenrnn.experiments.sweep.folder import STATUS_FILE, read_columns, read_json
from eigenrnn.experiments.sweep.trials import Trial
from eigenrnn.experiments.training.files import write_json
from eigenrnn.experiments.training.result import Result, are_metrics, is_count
from eigenrnn.experiments.training.run_folder import RunFolder

__all__ = ["State", "Status"]

State = Literal["waiting", "running", "stopped", "ended", "diverged", "failed", "lost"]

_RETRY = "the trial is trained again from its checkpoint"
_STATES_IN_FILE = ("running", "ended", "diverged", "failed")
_RESULT_KEYS = tuple(
    f.name for f in fields(Result) if f.name != "directory" and f.default is MISSING
)


@dataclass(frozen=True)
class Status:
    """The status of a trial.

    Args:
        trial: The trial.
        state: `waiting`, `running`, `stopped` (with the sweep, while running), `ended`,
            `diverged` (a loss was not finite), `failed` (with an error) or `lost` (its worker or
            machine died too often).
        message: The error that ended it, or the reason why it must be trained again.
        attempts: The number of times a worker started or resumed it.
        node: The machine of the last attempt.
        owner: The attempt that may write to its folder.
        result: The result of a trial that has ended.
        scores: Further numbers of its best model.
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
        """Read the status of a trial from its folder; if a file is damaged it is `waiting`."""
        status, path = cls(trial), out / trial.path / STATUS_FILE
        if not path.exists():
            return status
        try:
            status = replace(status, **_read_status(path))
        except ValueError as error:
            return replace(status, message=f"{error}; {_RETRY}")
        return status.with_result(out) if status.state == "ended" else status

    def with_result(self, out: Path) -> Self:
        """Read the result of a trial that has ended; without one it is `waiting`."""
        file = RunFolder(out / self.trial.path).result
        if not file.exists():
            return replace(self, state="waiting")
        try:
            return replace(self, result=_read_result(file))
        except ValueError as error:
            return replace(self, state="waiting", message=f"{error}; {_RETRY}")

    @property
    def is_final(self) -> bool:
        """Whether training again would give the same outcome."""
        return self.state in ("ended", "diverged")

    def write(self, out: Path) -> None:
        """Write the status into the folder of the trial."""
        folder = out / self.trial.path
        folder.mkdir(parents=True, exist_ok=True)
        content = {
            "parameters": dict(self.trial.parameters),
            "seed": self.trial.seed,
            **{name: getattr(self, name) for name in ("state", "message", "attempts", "node")},
            "owner": self.owner,
        }
        if self.scores is not None:
            content["scores"] = dict(self.scores)
        write_json(folder / STATUS_FILE, content)

    @cached_property
    def evaluations(self) -> Mapping[str, Mapping[int, float]]:
        """The evaluations of a trial that has ended, by metric (such as `test_loss`) and step.

        Raises:
            ValueError: If its `metrics.csv` is damaged.
        """
        if self.result is None:
            return {}
        last = self.result.last
        names = [f"{split}_{name}" for split, metrics in last.items() for name in metrics]
        return read_columns(RunFolder(self.result.directory).metrics, names)


def _read_status(path: Path) -> dict[str, Any]:
    """Read the file that a worker has written.

    Raises:
        ValueError: If the file is damaged.
    """
    names = ("state", "message", "attempts", "node", "owner")
    content = read_json(path, names)
    texts = (content["state"], content["message"], content["node"], content["owner"])
    is_valid = (
        all(isinstance(text, str) for text in texts)
        and content["state"] in _STATES_IN_FILE
        and is_count(content["attempts"])
        and are_metrics(content.get("scores", {}))
    )
    if not is_valid:
        raise ValueError(f"{path} is damaged: a value has the wrong type")
    return {name: content[name] for name in (*names, "scores") if name in content}


def _read_result(file: Path) -> Result:
    """Read the result of a run.

    Raises:
        ValueError: If the file is damaged.
    """
    content = read_json(file, _RESULT_KEYS)
    return Result.from_json(content, file.parent)
