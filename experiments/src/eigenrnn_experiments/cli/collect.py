"""The command `collect`, which records a data set that cannot be downloaded."""

from signal import SIGINT
from typing import Literal

from eigenrnn_experiments.cli.main import SIGNALLED
from eigenrnn_experiments.console import say
from eigenrnn_experiments.training.settings import Accelerator
from eigenrnn_experiments.training.train_step import open_fabric
from eigenrnn_experiments.world import Collection, autoencoder_settings, encode

__all__ = ["collect"]


def collect(
    what: Literal["car_racing"],
    *,
    rollouts: int = 300,
    steps: int = 1_000,
    epochs: int = 10,
    seed: int = 0,
    processes: int | None = None,
    accelerator: Accelerator = "auto",
    out: str = "runs/car_racing",
) -> int:
    """Record random drives of CarRacing, train an autoencoder on them, and encode them.

    The task CarRacing reads them. Run the same command again to resume.

    Args:
        what: The data set to record.
        rollouts: Number of drives.
        steps: Steps per drive.
        epochs: Epochs of the autoencoder.
        seed: The seed of the recording and the training.
        processes: Processes that record; without it one per core.
        accelerator: Device that trains the autoencoder.
        out: Output folder.
    """
    del what  # the one data set
    collection = Collection(out, rollouts, steps, seed)
    settings = autoencoder_settings(epochs=epochs, seed=seed, accelerator=accelerator)
    open_fabric(settings)  # before hours of recording, not after
    collection.record(processes)
    if not encode(collection, settings):
        say(f"error: stopped; run the same command to resume the collection in {out}", stderr=True)
        return SIGNALLED + SIGINT
    say(
        f"in {collection.encoded}; train on it with: eigenrnn train --task CarRacing "
        f"--data_root {out}"
    )
    return 0
