"""A file of JSON objects, one a line, each of a step of a run."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eigenrnn.atomic import naming_the_file, write_atomically

__all__ = ["JsonLines"]


class JsonLines:
    """What a callback writes down beside the journal.

    A file that is opened again at a step forgets what came after it, a line that a crash has cut
    off included, so that a resumed run leaves the same file as one that never stopped.

    Args:
        path: The file; its folder must be there.
        step: The last step to keep; zero begins anew.
    """

    def __init__(self, path: Path, *, step: int = 0) -> None:
        self.path = path
        lines = path.read_bytes().splitlines(keepends=True) if step and path.exists() else []
        write_atomically(path, b"".join(line for line in lines if _step_of(line) <= step))

    def write(self, step: int, content: Mapping[str, Any]) -> None:
        """Add the line of a step; it is on disk before this returns.

        Raises:
            WriteError: If it cannot be written.
        """
        line = json.dumps({"step": step, **content}, allow_nan=False)
        with naming_the_file(self.path), self.path.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


def _step_of(line: bytes) -> float:
    """Return the step that a line is of; of half a line infinity, which is past any other."""
    if not line.endswith(b"\n"):
        return float("inf")
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
