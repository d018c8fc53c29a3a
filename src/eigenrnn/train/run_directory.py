"""The folder of a run: which files it holds, and when it may be written to."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eigenrnn.atomic import write_atomically
from eigenrnn.errors import RunExistsError
from eigenrnn.train import checkpoint

__all__ = ["RunDirectory", "write_json"]


class RunDirectory:
    """The files of one run.

    =================  ================================================================
    `config.json`      settings, task and versions, written when the run begins
    `metrics.csv`      the journal
    `tensorboard/`     the same for TensorBoard
    `dynamics.jsonl`   spectra and gradients on the way, if they were asked for
    `last.pt`          the newest checkpoint, from which the run can go on
    `best.pt`          the model at its best evaluation
    `result.json`      what came out, written when the run has ended
    =================  ================================================================

    Args:
        path: The folder; it need not exist yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.metrics = self.path / "metrics.csv"
        self.board = self.path / "tensorboard"
        self.dynamics = self.path / "dynamics.jsonl"
        self.last = self.path / "last.pt"
        self.best = self.path / "best.pt"
        self.result = self.path / "result.json"

    def open(self, *, resume: bool, overwrite: bool) -> dict[str, Any] | None:
        """Make the folder ready for a run, and return the checkpoint to go on from, if any.

        Raises:
            ValueError: If it should be both resumed and overwritten.
            RunExistsError: If it holds a run and should be neither.
            CheckpointError: If the checkpoint to resume cannot be believed.
        """
        if resume and overwrite:
            raise ValueError("expected resume or overwrite, got both")
        if not resume and not overwrite and any(file.exists() for file in self._files()):
            raise RunExistsError(
                f"{self.path} already holds a run: go on with it with resume=True "
                "(on the command line: --resume), or delete it with overwrite=True (--overwrite)"
            )
        if resume and self.last.exists():
            return checkpoint.load(self.last)
        self.path.mkdir(parents=True, exist_ok=True)
        for file in self._files():  # only what a run writes: the folder may hold other things
            file.unlink(missing_ok=True)
        return None

    def _files(self) -> list[Path]:
        # The checkpoint goes first: whatever a crash leaves is never a new run with an old state.
        files = [self.last, self.best, self.result, self.metrics, self.dynamics, self.config]
        return [*files, *self.board.glob("events.out.tfevents.*")]


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a readable JSON file, whole or not at all; what JSON has no word for becomes text."""
    write_atomically(path, (json.dumps(content, indent=2, default=str) + "\n").encode())
