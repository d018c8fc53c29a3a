"""What a run has written of its task and settings, beside what its recipe says today."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

from eigenrnn.experiments.recipes import Row
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Settings

__all__ = ["departs", "task_text"]

# where a run was made, and how often it was saved: the same numbers up to rounding
_OF_THE_PLACE = ("accelerator", "devices", "num_nodes", "strategy", "checkpoint_every")


def task_text(task: Task) -> str:
    """Write a task with its options, without the folder of its files."""
    return f"{type(task).__name__}({', '.join(f'{k}={v}' for k, v in _options(task).items())})"


def departs(row: Row, task: str, settings: Mapping[str, Any]) -> list[str]:
    """List where a run departs from its row, as that is today.

    What the version that made the run did not know must have its default today.

    Args:
        row: Of one point of its grid, and of a seed.
        task: The task that the run has written down.
        settings: Likewise.
    """
    name, _, written = task.partition("(")
    expected = _options(row.task)
    if name != type(row.task).__name__:
        return [f"the task was {name}, now {type(row.task).__name__}"]
    defaults = {
        f.name: repr(f.default)
        for f in fields(row.task)  # pyright: ignore[reportArgumentType]  tasks are dataclasses
        if f.default is not MISSING
    }
    changed = [
        f"{option} was {_written(option, written) or 'absent'}, now {value}"
        for option, value in expected.items()
        if not re.search(rf"(?<!\w){re.escape(f'{option}={value}')}(?=[,)])", written)
        and (_written(option, written) is not None or value != defaults.get(option))
    ]
    now = asdict(row.settings)
    usual = {f.name: f.default for f in fields(Settings)}
    for setting in sorted({*now} - {*_OF_THE_PLACE}):
        was = settings.get(setting, usual[setting])
        if _plain(was) != _plain(now[setting]):
            changed.append(f"{setting} was {was}, now {now[setting]}")
    return changed


def _options(task: Task) -> dict[str, str]:
    known = fields(task)  # pyright: ignore[reportArgumentType]  tasks are dataclasses
    return {f.name: repr(getattr(task, f.name)) for f in known if f.compare}


def _written(option: str, text: str) -> str | None:
    found = re.search(rf"(?<!\w){option}=(.*?)(?:, \w+=|\)$)", text)
    return found[1] if found is not None else None


def _plain(value: Any) -> Any:
    # JSON knows lists only
    return list(value) if isinstance(value, tuple | list) else value
