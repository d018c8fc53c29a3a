"""What a run was asked: the record that it begins with, and the fingerprint for resuming."""

import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn

import eigenrnn
from eigenrnn import __version__
from eigenrnn.layers import Layer
from eigenrnn.models import count_parameters
from eigenrnn.ops import products_now
from eigenrnn_experiments.tasks.base import Task
from eigenrnn_experiments.training.description import (
    current_network,
    describe,
    describe_defaults,
    describe_options,
    differences,
)
from eigenrnn_experiments.training.run import Description, Run, RunKey
from eigenrnn_experiments.training.selection import selection_metric
from eigenrnn_experiments.training.settings import Settings

__all__ = [
    "begun_run",
    "check_fingerprint",
    "revision",
    "run_fingerprint",
    "versions",
]

_CPU_INFO = Path("/proc/cpuinfo")  # Linux, where `platform.processor` returns nothing


def begun_run(
    model: nn.Module,
    task: Task,
    settings: Settings,
    *,
    name: str,
    network: Mapping[str, Any] | None,
    key: RunKey | None,
) -> Run:
    """Return the record of a run that begins.

    Args:
        model: The network.
        task: The task.
        settings: The training settings.
        name: The name of the run on the console.
        network: The call that makes the network, if it is known.
        key: What names the run; None for a run of no recipe.
    Raises:
        TypeError: If the task has an option that cannot be stored as data.
    """
    preprocessing: Description | None = None
    if task.preprocessing is not None:
        kind = type(task.preprocessing).__name__
        preprocessing = Description(kind, msgspec.to_builtins(task.preprocessing))
    files: dict[str, str] = {}  # the user's own text that a task reads
    path = getattr(task, "path", None)
    if isinstance(path, str | Path):
        files["path"] = str(path)
    return Run(
        key=key or RunKey(seed=settings.seed),
        name=name,
        task=Description(describe(task)["class"], describe_options(task)),
        files=files,
        network=network,
        layer=_layer_class(model),
        modules=str(model),
        parameters=count_parameters(model),
        settings=describe_options(settings),
        best_by=selection_metric(task, settings.best_by),
        revision=revision(),
        versions=versions() | _products(settings),
        preprocessing=preprocessing,
    )


def _layer_class(model: nn.Module) -> str:
    """Return the class of the first recurrent layer, or else that of the model."""
    for module in model.modules():
        if isinstance(module, Layer | nn.RNNBase):
            return type(module).__name__
    return type(model).__name__


@cache
def revision() -> dict[str, Any] | None:
    """Return the commit of the source tree that both packages run from; None without one.

    `modified` says whether a package differs from the commit.
    """
    packages = Path(eigenrnn.__file__).parent, Path(__file__).parents[1]
    commits: set[str] = set()
    modified = False
    try:
        for package in packages:
            _git(package, "ls-files", "--error-unmatch", "__init__.py")  # not someone else's tree
            commits.add(_git(package, "rev-parse", "HEAD"))
            modified = modified or bool(_git(package, "status", "--porcelain", "--", "."))
    except (OSError, subprocess.CalledProcessError):
        return None
    if len(commits) > 1:
        return None
    return {"commit": commits.pop(), "modified": modified}


def _git(package: Path, *arguments: str) -> str:
    command = ["git", "-C", str(package), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def versions() -> dict[str, str]:
    """Return the versions of the software, the processor and, if there is one, the GPU."""
    cores = _count(os.cpu_count() or 1, "core")
    threads = _count(torch.get_num_threads(), "thread")
    found = {
        "eigenrnn": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": f"{_processor()}, {cores}, {threads}",
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def _products(settings: Settings) -> dict[str, str]:
    """Return what the kernels multiply where they can, unless it is float32."""
    dtypes = {
        "32-true": torch.float32,
        "bf16-mixed": torch.bfloat16,
        "bf16-true": torch.bfloat16,
    }
    products = products_now(dtypes.get(settings.precision, torch.float64))
    if products == "float32":
        return {}
    return {"products": products}


def _count(number: int, unit: str) -> str:
    if number == 1:
        return f"1 {unit}"
    return f"{number} {unit}s"


def _processor() -> str:
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def run_fingerprint(
    model: nn.Module, task: Task, settings: Settings, network: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Describe everything that determines the numbers of a run, as data.

    A network is the call that makes it, or else its modules as torch prints them. Fields of the
    task with `compare=False`, such as its data folder, are left out.

    Raises:
        TypeError: If the task has an option that cannot be stored as data.
    """
    return {
        "settings": describe(settings.fingerprint_options()),
        "task": describe(task),
        "network": network or str(model),
    }


def check_fingerprint(stored: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """Check that a run to resume has the model, task and settings of its checkpoint.

    Settings that did not exist when the checkpoint was written must have their default.

    Raises:
        ValueError: If anything differs; the message lists what.
    """
    known = current["settings"]
    defaults = {n: value for n, value in describe_defaults(Settings).items() if n in known}
    if isinstance(stored.get("settings"), dict):
        stored = {**stored, "settings": defaults | stored["settings"]}
    if isinstance(stored.get("network"), dict):
        stored = {**stored, "network": current_network(stored["network"])}
    changed = differences(stored, current)
    if changed:
        raise ValueError(
            f"expected the model, task and settings of the run to resume, got {'; '.join(changed)}"
        )
