"""The autoencoder of World Models: the network, its training task, and the encoding."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from rich.progress import track
from torch import Generator, Tensor, nn

from eigenrnn_experiments.console import plain_console
from eigenrnn_experiments.data.car_racing import FRAME, Z_SIZE, Encoded, Floats, split_slices
from eigenrnn_experiments.files import write_atomically
from eigenrnn_experiments.tasks.base import Batch, Task, batch_indices, generator_for
from eigenrnn_experiments.training import RunFolder, Settings, fit
from eigenrnn_experiments.world.collection import Collection

__all__ = ["VAE", "Frames", "autoencoder_settings", "encode"]


class VAE(nn.Module):
    r"""The convolutional variational autoencoder of frames, with 32 latent dimensions.

    .. math:: z = \mu + e^{\ell / 2} \epsilon, \qquad \epsilon \sim \mathcal{N}(0, I)

    In training, z is sampled from torch's global generator; in evaluation it is :math:`\mu`. The
    encoder has four convolutions of width 4 and stride 2 with 32, 64, 128 and 256 channels, the
    decoder four transposed convolutions of widths 5, 5, 6 and 6.

    Args:
        generator: The generator of the initialisation; torch's global generator by default.

    Shape:
        frames: :math:`(1, B, 12288)`, bytes, as in the batches of `Frames`.
        outputs: :math:`(B, 12352)`: the decoded pixels in [0, 1], :math:`\mu` and :math:`\ell`.

    Source:
        Ha and Schmidhuber, NeurIPS 2018, appendix A.1. https://arxiv.org/abs/1803.10122
        (departures: none).

    Example:
        >>> VAE()(torch.zeros(1, 5, 12_288, dtype=torch.uint8)).shape
        torch.Size([5, 12352])
    """

    def __init__(self, *, generator: Generator | None = None) -> None:
        super().__init__()
        # without values: torch's constructors would draw them from its global generator
        with torch.device("meta"):
            self.encoder = nn.Sequential(
                nn.Conv2d(3, 32, 4, 2),
                nn.ReLU(),
                nn.Conv2d(32, 64, 4, 2),
                nn.ReLU(),
                nn.Conv2d(64, 128, 4, 2),
                nn.ReLU(),
                nn.Conv2d(128, 256, 4, 2),
                nn.ReLU(),
                nn.Flatten(),
            )
            self.mu = nn.Linear(1024, Z_SIZE)
            self.logvar = nn.Linear(1024, Z_SIZE)
            self.decoder = nn.Sequential(
                nn.Linear(Z_SIZE, 1024),
                nn.Unflatten(1, (1024, 1, 1)),
                nn.ConvTranspose2d(1024, 128, 5, 2),
                nn.ReLU(),
                nn.ConvTranspose2d(128, 64, 5, 2),
                nn.ReLU(),
                nn.ConvTranspose2d(64, 32, 6, 2),
                nn.ReLU(),
                nn.ConvTranspose2d(32, 3, 6, 2),
                nn.Sigmoid(),
            )
        self.to_empty(device=torch.get_default_device())
        # TensorFlow's defaults, as used by the authors
        for name, parameter in self.named_parameters():
            if name.endswith("weight"):
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                nn.init.zeros_(parameter)

    def forward(self, frames: Tensor) -> Tensor:
        mu, logvar = self.encode(frames)
        z = mu
        if self.training:
            z = mu + (logvar / 2).exp() * torch.randn_like(mu)
        pixels = self.decoder(z).permute(0, 2, 3, 1).flatten(1)  # channels last, as in a frame
        return torch.cat([pixels, mu, logvar], -1)

    def encode(
        self,
        frames: Tensor,  # (1, B, 12288)
    ) -> tuple[Tensor, Tensor]:  # (B, 32), (B, 32)
        """Return the mean and the log variance of each latent dimension."""
        pixels = frames.squeeze(0).unflatten(-1, FRAME).permute(0, 3, 1, 2)
        features = self.encoder(pixels.to(self.mu.weight) / 255)
        return self.mu(features), self.logvar(features)


_PIXELS = math.prod(FRAME)


@dataclass(frozen=True)
class Frames(Task):
    r"""Reconstruct a frame from its 32 latent numbers.

    .. math:: \sum_p (x_p - y_p)^2 + \max\left(\tfrac{1}{2} \sum_d
        (\mu_d^2 + e^{\ell_d} - 1 - \ell_d), \; 32 \tau\right)

    is the loss of a frame x with the reconstruction y. The frames are those of the training drives
    of `CarRacing`; those of its validation drives are evaluated, and the test drives are unused.

    Args:
        collection: The drives.
        kl_tolerance: The lower bound :math:`\tau` of the divergence, in nats per latent dimension.

    Shape:
        inputs: :math:`(1, B, 12288)`, bytes.
        targets: :math:`(B, 12288)`, the same.

    Units:
        Loss: squared errors of pixels in [0, 1], summed over a frame, plus nats.

    Source:
        Ha and Schmidhuber, NeurIPS 2018, in their code (departures: they train on all drives).
    """

    readout: ClassVar[Literal["all", "last"]] = "last"
    metric_name: ClassVar[str] = "reconstruction"
    higher_is_better: ClassVar[bool] = False

    collection: Collection
    kl_tolerance: float = 0.5

    @property
    def input_size(self) -> int:
        return _PIXELS

    @property
    def output_size(self) -> int:
        return _PIXELS + 2 * Z_SIZE

    @property
    def splits(self) -> tuple[str, ...]:
        return "train", "validation"

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        return self._collate(torch.randint(self._count, (size,), generator=generator))

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_split(split)
        drives = split_slices(self.collection.rollouts)[split]
        first = drives.start * self.collection.steps
        count = drives.stop * self.collection.steps - first
        chosen = batch_indices(split, count, size, seed=seed, start=start, shuffle=True)
        return (self._collate(first + rows) for rows in chosen)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        squares, divergence = self._terms(outputs, targets)
        return (squares + divergence).mean()

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._terms(outputs, targets)[0].mean()

    def baseline(self) -> float:
        """The loss of the mean frame: the variance of the pixels plus the KL tolerance."""
        total = np.zeros(_PIXELS)
        squares = np.zeros(_PIXELS)
        for drive in self._drives[split_slices(self.collection.rollouts)["train"]]:
            pixels = drive["frame"].reshape(-1, _PIXELS) / 255
            total += pixels.sum(0)
            squares += np.square(pixels).sum(0)
        variance = squares / self._count - np.square(total / self._count)
        return float(variance.sum()) + self.kl_tolerance * Z_SIZE

    def steps_per_epoch(self, size: int) -> int | None:
        return math.ceil(self._count / size)

    @property
    def _count(self) -> int:
        return split_slices(self.collection.rollouts)["train"].stop * self.collection.steps

    @cached_property
    def _drives(self) -> list[Any]:
        """All drives, memory-mapped; the system caches as many as fit."""
        return [self.collection.read(number) for number in range(self.collection.rollouts)]

    def _terms(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:  # (B,), (B,)
        """Return the squared errors and the divergence from the standard normal, clamped."""
        pixels, mu, logvar = outputs.split((_PIXELS, Z_SIZE, Z_SIZE), -1)
        squares = (pixels - targets / 255).square().sum(-1)
        divergence = 0.5 * (mu.square() + logvar.exp() - 1 - logvar).sum(-1)
        return squares, divergence.clamp(min=self.kl_tolerance * Z_SIZE)

    def _collate(self, numbers: Tensor) -> Batch:
        """Gather frames by their index over all drives."""
        pixels: list[Any] = []
        for number in numbers.tolist():
            drive, step = divmod(number, self.collection.steps)
            pixels.append(self._drives[drive]["frame"][step])
        frames = torch.from_numpy(np.stack(pixels)).flatten(1)
        return Batch(frames.unsqueeze(0), frames, targets_batch_dim=0)


def autoencoder_settings(epochs: int = 10, **options: Any) -> Settings:
    """Return the authors' settings: 10 epochs, batches of 100, Adam with a learning rate of 1e-4.

    Args:
        epochs: The number of epochs.
        options: Further settings.
    """
    return Settings(epochs=epochs, batch_size=100, optimiser="adam", lr=1e-4, **options)


def encode(collection: Collection, settings: Settings) -> bool:
    """Train an autoencoder on the training drives, and encode all drives with it.

    Training resumes after an interruption. The encoded drives are written atomically at the end.

    Args:
        collection: The drives; all must be recorded.
        settings: The training settings, such as those of the authors.

    Returns:
        Whether the file was written; False if Ctrl-C ended the training.

    Raises:
        ValueError: If a drive is damaged, or the folder holds another autoencoder.
    """
    model = VAE(generator=generator_for(collection.seed, "vae"))
    task = Frames(collection)
    run = fit(model, task, settings, collection.vae, resume=True)
    if run.interrupted:
        return False
    files = RunFolder(collection.vae)
    weights, _ = files.read_weights(files.last)
    # `fit` on a finished run returns its result and leaves the model unchanged
    model.load_state_dict(weights)
    write_atomically(collection.encoded, _encode_all(model.cpu(), collection).to_bytes())
    return True


@torch.no_grad()
def _encode_all(model: VAE, collection: Collection) -> Encoded:
    model.eval()
    mu: list[Floats] = []
    logvar: list[Floats] = []
    actions: list[Floats] = []
    numbers = range(collection.rollouts)
    for number in track(numbers, "encoding drives", console=plain_console(stderr=True)):
        drive = collection.read(number)
        frames = torch.from_numpy(np.array(drive["frame"])).flatten(1)
        means, log_variances = model.encode(frames.unsqueeze(0))
        mu.append(means.numpy())
        logvar.append(log_variances.numpy())
        actions.append(np.array(drive["action"]))
    return Encoded(np.stack(mu), np.stack(logvar), np.stack(actions))
