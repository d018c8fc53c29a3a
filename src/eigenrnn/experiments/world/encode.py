"""From recorded drives to the file that the task reads."""

from typing import Any

import numpy as np
import torch
from rich.console import Console

from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.data.car_racing import Encoded, Floats
from eigenrnn.experiments.tasks.streams import stream
from eigenrnn.experiments.training import Settings, checkpoint, fit
from eigenrnn.experiments.world.collection import Collection
from eigenrnn.experiments.world.frames import Frames
from eigenrnn.experiments.world.progress import Counter
from eigenrnn.experiments.world.vae import VAE

__all__ = ["autoencoder_settings", "encode"]

_AT_ONCE = 250


def autoencoder_settings(**options: Any) -> Settings:
    """Return how the authors train: 10 epochs, batches of 100, Adam with a rate of 1e-4.

    Args:
        options: Those that shall differ.
    """
    authors: dict[str, Any] = {"batch_size": 100, "optimiser": "adam", "lr": 1e-4}
    if "steps" not in options:
        authors["epochs"] = 10
    return Settings(**{**authors, **options})


def encode(
    collection: Collection, settings: Settings | None = None, console: Console | None = None
) -> bool:
    """Train an autoencoder on the training drives, and encode all drives with it.

    Both go on from where an earlier call was stopped. The encoded drives are written whole, as
    the last thing.

    Args:
        collection: The drives, all of which must be there.
        settings: How to train; by default as the authors do.
        console: Where to show progress, by default on standard error.

    Returns:
        Whether the file is there now; not so if Ctrl-C ended the training.

    Raises:
        ValueError: If a drive is damaged, or the autoencoder in the folder is another one.
    """
    settings = settings or autoencoder_settings()
    model = VAE(generator=stream(collection.seed, "vae"))
    task = Frames(collection)
    run = fit(model, task, settings, collection.vae, resume=True, console=console)
    if run.interrupted:
        return False
    # A run that has ended before gives its result, and leaves the model as it is.
    model.load_state_dict(checkpoint.load(collection.vae / "last.pt")["learner"]["model"])
    write_atomically(collection.encoded, _encode_all(model.cpu(), collection, console).to_bytes())
    return True


@torch.no_grad()
def _encode_all(model: VAE, collection: Collection, console: Console | None) -> Encoded:
    model.eval()
    mu: list[Floats] = []
    logvar: list[Floats] = []
    actions: list[Floats] = []
    with Counter(console, "encoding drives", collection.rollouts) as counter:
        for number in range(collection.rollouts):
            drive = collection.read(number)
            frames = torch.from_numpy(np.array(drive["frame"])).flatten(1)
            means, logvars = zip(
                *(model.encode(some.unsqueeze(0)) for some in frames.split(_AT_ONCE)), strict=True
            )
            mu.append(torch.cat(means).numpy())
            logvar.append(torch.cat(logvars).numpy())
            actions.append(np.array(drive["action"]))
            counter.advance()
    return Encoded(np.stack(mu), np.stack(logvar), np.stack(actions))
