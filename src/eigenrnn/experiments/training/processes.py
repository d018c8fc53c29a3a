"""The processes of a run: launching them, and splitting batches among them."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch

from eigenrnn.experiments.tasks.base import Batch
from eigenrnn.experiments.training.settings import Settings

if TYPE_CHECKING:
    from lightning.fabric import Fabric

__all__ = ["check_accelerator", "is_first_process", "launch", "local_batch", "on_first_process"]

_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "NODE_RANK")
"""The environment variables that torchrun and Lightning set in the processes they launch."""

_ACCELERATORS = {"cuda": "CUDA device", "gpu": "GPU", "mps": "MPS device"}
_Outcome = TypeVar("_Outcome")


def is_first_process() -> bool:
    """Whether this process has rank 0."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank() == 0
    # before the processes are connected, the environment tells the rank
    return all(os.environ.get(name, "0") == "0" for name in _RANK_VARIABLES)


def check_accelerator(settings: Settings) -> None:
    """Check that this machine has the accelerator of the settings.

    Raises:
        ValueError: If it has none, or fewer devices than the settings request.
    """
    name = settings.accelerator
    if name not in _ACCELERATORS:
        return
    available = 0
    if name in ("cuda", "gpu"):
        available = torch.cuda.device_count()
    if not available and name in ("mps", "gpu"):
        available = int(torch.backends.mps.is_available())
    if not available:
        raise ValueError(
            f"expected a machine with a {_ACCELERATORS[name]} for accelerator={name!r}, got one "
            "where torch finds none; use accelerator='cpu' or 'auto' (on the command line: "
            "--accelerator cpu)"
        )
    if settings.devices > available:
        raise ValueError(
            f"expected devices of at most {available}, which this machine has for "
            f"accelerator={name!r}, got devices={settings.devices}"
        )


def launch(settings: Settings) -> "Fabric":
    """Launch the processes of the settings; a single process is the current one.

    Raises:
        ValueError: If they cannot share a batch evenly, or this machine lacks the devices.
    """
    check_accelerator(settings)
    # Imported here to keep `import eigenrnn.experiments.training` two seconds faster.
    from lightning.fabric import Fabric

    processes = settings.devices * settings.num_nodes
    if settings.batch_size % processes:
        raise ValueError(
            f"expected a batch_size that {processes} processes can share evenly, "
            f"got {settings.batch_size}"
        )
    fabric = Fabric(
        accelerator=settings.accelerator,
        strategy=settings.strategy,
        devices=settings.devices,
        num_nodes=settings.num_nodes,
        precision=settings.precision,
    )
    fabric.launch()
    return fabric


def local_batch(fabric: "Fabric", batch: Batch) -> Batch:
    """Return the rows of a batch that belong to this process, on its device.

    Raises:
        ValueError: If the processes cannot share the batch evenly.
    """
    processes = fabric.world_size
    if batch.size % processes:
        raise ValueError(
            f"expected a batch that {processes} processes can share evenly, "
            f"got one of {batch.size} sequences"
        )
    if processes > 1:
        rows = batch.size // processes
        first = fabric.global_rank * rows
        batch = batch.rows(first, first + rows)
    return batch.to(fabric.device)


def on_first_process(fabric: "Fabric", action: Callable[[], _Outcome]) -> _Outcome:
    """Run a function in the first process only; return its value, or raise its error, in all."""
    outcome: tuple[_Outcome | None, Exception | None] = (None, None)
    if fabric.is_global_zero:
        try:
            outcome = action(), None
        except Exception as error:  # otherwise the other processes would wait for ever
            outcome = None, error
    value, error = fabric.broadcast(outcome)
    if error is not None:
        raise error
    return value  # pyright: ignore[reportReturnType]  a value or an error, never neither
