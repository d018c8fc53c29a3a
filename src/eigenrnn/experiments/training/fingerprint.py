"""Descriptions of a run: metadata for `config.json`, and the fingerprint checked on resuming."""

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

__all__ = ["check_fingerprint", "run_fingerprint", "run_metadata", "versions"]

_CPU_INFO = Path("/proc/cpuinfo")  # Linux, where `platform.processor` returns nothing


def run_metadata(model: nn.Module, task: Task, settings: Settings) -> dict[str, Any]:
    """Return the entries of `config.json` that describe the run and the software."""
    return {
        "task": str(task),
        "model": str(model).splitlines(),
        "parameters": count_parameters(model),
        "settings": asdict(settings),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of the software, the processor and, if there is one, the GPU."""
    return {
        "eigenrnn": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **_hardware(),
    }


def _hardware() -> dict[str, str]:
    lines = _CPU_INFO.read_text().splitlines() if _CPU_INFO.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.processor() or platform.machine()
    counts = ((os.cpu_count() or 1, "core"), (torch.get_num_threads(), "thread"))
    parts = [f"{number} {unit}{'' if number == 1 else 's'}" for number, unit in counts]
    hardware = {"processor": ", ".join((processor, *parts))}
    if torch.cuda.is_available():
        hardware["gpu"] = torch.cuda.get_device_name()
    return hardware


def run_fingerprint(model: nn.Module, task: Task, settings: Settings) -> dict[str, str]:
    """Describe everything that determines the numbers of a run.

    Fields of the task with `compare=False`, such as its data folder, are left out.
    """
    description = {k: repr(v) for k, v in settings.fingerprint_options().items()}
    description["task"] = type(task).__name__
    for field in fields(task):  # pyright: ignore[reportArgumentType]  tasks are dataclasses
        if field.compare:
            description[f"task.{field.name}"] = repr(getattr(task, field.name))
    for number, line in enumerate(repr(model).splitlines(), start=1):
        # Memory addresses differ between two processes that run the same model.
        description[f"model line {number}"] = re.sub(r" at 0x[0-9a-fA-F]+", "", line).strip()
    return description


def check_fingerprint(stored: Mapping[str, str], current: Mapping[str, str]) -> None:
    """Check that a run to resume has the model, task and settings of its checkpoint.

    Raises:
        ValueError: If anything differs; the message lists what.
    """
    changed = [
        f"{name} was {stored.get(name, 'absent')}, now {current.get(name, 'absent')}"
        for name in dict.fromkeys([*stored, *current])
        if stored.get(name) != current.get(name)
    ]
    if changed:
        raise ValueError(
            f"expected the model, task and settings of the run to resume, got {'; '.join(changed)}"
        )
