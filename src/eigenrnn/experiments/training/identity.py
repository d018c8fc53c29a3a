"""What a run is made of, as text: to be read, and to be compared when it goes on."""

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from eigenrnn import __version__
from eigenrnn.experiments.tasks.base import Task
from eigenrnn.experiments.training.settings import Settings
from eigenrnn.models import count_parameters

__all__ = ["facts", "identity", "refuse_another", "versions"]

_CPU_INFO = Path("/proc/cpuinfo")  # of Linux, where Python's own answer is empty


def facts(model: nn.Module, task: Task, settings: Settings) -> dict[str, Any]:
    """Collect what somebody who finds the folder of a run wants to know."""
    return {
        "task": str(task),
        "model": str(model).splitlines(),
        "parameters": count_parameters(model),
        "settings": asdict(settings),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Name the software, the processor, and the accelerator if there is one."""
    return {
        "eigenrnn": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **_machine(),
    }


def _machine() -> dict[str, str]:
    lines = _CPU_INFO.read_text().splitlines() if _CPU_INFO.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = named[0] if named else platform.processor() or platform.machine()
    counted = ((os.cpu_count() or 1, "core"), (torch.get_num_threads(), "thread"))
    parts = [f"{number} {thing}{'' if number == 1 else 's'}" for number, thing in counted]
    found = {"processor": ", ".join((processor, *parts))}
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def identity(model: nn.Module, task: Task, settings: Settings) -> dict[str, str]:
    """Describe all that decides the numbers of a run.

    A field of the task with `compare=False`, such as the folder of its files, is none of it.
    """
    description = {k: repr(v) for k, v in settings.that_decide_the_numbers().items()}
    description["task"] = type(task).__name__
    for field in fields(task):  # pyright: ignore[reportArgumentType]  tasks are dataclasses
        if field.compare:
            description[f"task.{field.name}"] = repr(getattr(task, field.name))
    for number, line in enumerate(repr(model).splitlines(), start=1):
        # An address differs between two processes without a difference in meaning.
        description[f"model line {number}"] = re.sub(r" at 0x[0-9a-fA-F]+", "", line).strip()
    return description


def refuse_another(then: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse to go on with a run that would not have given the same numbers.

    Raises:
        ValueError: If anything differs; lists what.
    """
    changed = [
        f"{name} was {then.get(name, 'absent')}, now {now.get(name, 'absent')}"
        for name in dict.fromkeys([*then, *now])
        if then.get(name) != now.get(name)
    ]
    if changed:
        raise ValueError(
            f"expected the model, task and settings of the run to resume, got {'; '.join(changed)}"
        )
