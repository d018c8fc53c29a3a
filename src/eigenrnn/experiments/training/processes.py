"""The processes of a run: starting them, sharing batches among them, speaking with one voice."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch

from eigenrnn.experiments.tasks.base import Batch
from eigenrnn.experiments.training.settings import Settings

if TYPE_CHECKING:
    from lightning.fabric import Fabric

__all__ = ["check_accelerator", "is_first", "launch", "on_first", "share"]

_RANKS = ("RANK", "LOCAL_RANK", "NODE_RANK")
"""What torchrun and Lightning tell the processes that they start."""

_ACCELERATORS = {"cuda": "CUDA device", "gpu": "GPU", "mps": "MPS device"}
_Outcome = TypeVar("_Outcome")


def is_first() -> bool:
    """Whether this is the first of the processes of a run, or the only one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank() == 0
    # before they have met, each knows what it was started as
    return all(os.environ.get(name, "0") == "0" for name in _RANKS)


def check_accelerator(settings: Settings) -> None:
    """Refuse an accelerator that this machine does not have.

    Raises:
        ValueError: If there is none, or there are fewer than the settings ask for.
    """
    name = settings.accelerator
    if name not in _ACCELERATORS:
        return
    there = torch.cuda.device_count() if name in ("cuda", "gpu") else 0
    if not there and name in ("mps", "gpu"):
        there = int(torch.backends.mps.is_available())
    if not there:
        raise ValueError(
            f"expected a machine with a {_ACCELERATORS[name]} for accelerator={name!r}, got one "
            "where torch finds none; take accelerator='cpu' or 'auto' (on the command line: "
            "--accelerator cpu)"
        )
    if settings.devices > there:
        raise ValueError(
            f"expected devices of at most {there}, which this machine has for "
            f"accelerator={name!r}, got devices={settings.devices}"
        )


def launch(settings: Settings) -> "Fabric":
    """Start the processes that the settings ask for; a single one is the present one.

    Raises:
        ValueError: If they cannot share a batch evenly, or this machine has no such devices.
    """
    check_accelerator(settings)
    # Imported here because it takes two seconds, which `import eigenrnn.experiments.training`
    # need not.
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


def share(fabric: "Fabric", batch: Batch) -> Batch:
    """Take this process's rows of a batch, onto its device.

    Raises:
        ValueError: If the processes cannot share the batch evenly.
    """
    processes, rank = fabric.world_size, fabric.global_rank
    if batch.size % processes:
        raise ValueError(
            f"expected a batch that {processes} processes can share evenly, "
            f"got one of {batch.size} sequences"
        )
    if processes > 1:
        rows = batch.size // processes
        batch = batch.rows(rank * rows, (rank + 1) * rows)
    return batch.to(fabric.device)


def on_first(fabric: "Fabric", action: Callable[[], _Outcome]) -> _Outcome:
    """Do something in the first process only, and give or raise its outcome in all of them."""
    outcome: tuple[_Outcome | None, Exception | None] = (None, None)
    if fabric.is_global_zero:
        try:
            outcome = action(), None
        except Exception as error:  # the others would wait for ever for a process that has died
            outcome = None, error
    value, error = fabric.broadcast(outcome)
    if error is not None:
        raise error
    return value  # pyright: ignore[reportReturnType]  a value or an error, never neither
