"""The task that an autoencoder is trained on: to give the frames of the drives back."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from eigenrnn.experiments.data.car_racing import FRAME, Z_SIZE, parts
from eigenrnn.experiments.tasks.base import Batch, Task
from eigenrnn.experiments.tasks.epochs import epochs, one_pass
from eigenrnn.experiments.world.collection import Collection

__all__ = ["Frames"]

_PIXELS = math.prod(FRAME)


@dataclass(frozen=True)
class Frames(Task):
    r"""Give a frame back after passing it through 32 numbers.

    .. math:: \sum_p (x_p - y_p)^2 + \max\left(\tfrac{1}{2} \sum_d
        (\mu_d^2 + e^{\ell_d} - 1 - \ell_d), \; 32 \tau\right)

    is the loss of a frame x that is decoded as y. The frames are those of the drives that are
    trained on later too; those of the validation drives are evaluated, and no others are seen.

    Args:
        collection: The drives.
        kl_tolerance: The number :math:`\tau` of nats a latent dimension that cost no more.
        eval_every: Which frames of the validation drives are evaluated: every so many-th.

    Shape:
        inputs: :math:`(1, B, 12288)`, bytes.
        targets: :math:`(B, 12288)`, the same.

    Units:
        Loss in squared errors of pixels in [0, 1], summed over a frame, and nats.

    Source:
        Ha and Schmidhuber, NeurIPS 2018, in their code (departures: they train on all drives).
    """

    readout: ClassVar[Literal["all", "last"]] = "last"
    metric_name: ClassVar[str] = "reconstruction"
    higher_is_better: ClassVar[bool] = False

    collection: Collection
    kl_tolerance: float = 0.5
    eval_every: int = field(default=10, compare=False)

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
        self.check_request("train", size)
        return self._lay_out(torch.randint(self._count, (size,), generator=generator))

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_request(split, size, start)
        if split == "train":
            chosen = epochs(self._count, size, seed=seed, start=start, shuffle=True)
            return (self._lay_out(numbers) for numbers in chosen)
        drives, steps = parts(self.collection.rollouts)[split], self.collection.steps
        numbers = torch.arange(drives.start * steps, drives.stop * steps, self.eval_every)
        chosen = one_pass(len(numbers), size, start)
        return (self._lay_out(numbers[rows]) for rows in chosen)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        squares, divergence = self._terms(outputs, targets)
        return (squares + divergence).mean()

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._terms(outputs, targets)[0].mean()

    def tally(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (3,)
        squares, divergence = (each.double().sum() for each in self._terms(outputs, targets))
        return torch.stack([squares, divergence, squares.new_tensor(len(targets))])

    def figures(self, tally: Tensor) -> dict[str, float]:
        squares, divergence, count = tally.tolist()
        return {
            "loss": (squares + divergence) / count,
            "reconstruction": squares / count,
            "divergence": divergence / count,
        }

    @property
    def figure_names(self) -> tuple[str, ...]:
        return "loss", "reconstruction", "divergence"

    def baseline(self) -> float:
        """The loss of the mean frame: the variance of the pixels, and what costs no more."""
        total, squares = np.zeros((2, _PIXELS))
        for drive in self._drives[self._train]:
            pixels = drive["frame"].reshape(-1, _PIXELS) / 255
            total += pixels.sum(0)
            squares += np.square(pixels).sum(0)
        variance = squares / self._count - np.square(total / self._count)
        return float(variance.sum()) + self.kl_tolerance * Z_SIZE

    def steps_per_epoch(self, size: int) -> int | None:
        self.check_request("train", size)
        return math.ceil(self._count / size)

    @property
    def _train(self) -> slice:
        return parts(self.collection.rollouts)["train"]

    @property
    def _count(self) -> int:
        return self._train.stop * self.collection.steps

    @cached_property
    def _drives(self) -> list[Any]:
        """All drives, mapped into memory: the system keeps as many of them there as fit."""
        return [self.collection.read(number) for number in range(self.collection.rollouts)]

    def _terms(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:  # (B,), (B,)
        """Return the squared errors and the divergence from the standard normal, bounded below."""
        pixels, mu, logvar = outputs.split((_PIXELS, Z_SIZE, Z_SIZE), -1)
        squares = (pixels - targets / 255).square().sum(-1)
        divergence = 0.5 * (mu.square() + logvar.exp() - 1 - logvar).sum(-1)
        return squares, divergence.clamp(min=self.kl_tolerance * Z_SIZE)

    def _lay_out(self, numbers: Tensor) -> Batch:
        """Gather frames, counted through all drives; one access to each drive among them."""
        frames = torch.empty(len(numbers), _PIXELS, dtype=torch.uint8)
        drives, steps = np.divmod(numbers.numpy(), self.collection.steps)
        for drive in np.unique(drives):
            rows = np.flatnonzero(drives == drive)
            pixels = self._drives[drive]["frame"][steps[rows]]
            frames[torch.from_numpy(rows)] = torch.from_numpy(pixels).flatten(1)
        return Batch(frames.unsqueeze(0), frames, targets_batch_dim=0)
