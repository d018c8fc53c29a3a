"""CarRacing seen through a variational autoencoder: which latent vector comes next."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor

from eigenrnn.errors import MissingDataError
from eigenrnn.experiments.data.car_racing import (
    ACTIONS,
    ENCODED,
    Z_SIZE,
    find_encoded,
    parts,
    read_encoded,
)
from eigenrnn.experiments.tasks.base import Batch, Task
from eigenrnn.experiments.tasks.epochs import one_pass
from eigenrnn.experiments.tasks.options import check_at_least
from eigenrnn.experiments.tasks.streams import stream

__all__ = ["CarRacing"]

_LOG_SQRT_TAU = 0.5 * math.log(math.tau)


@dataclass(frozen=True)
class CarRacing(Task):
    r"""Predict the next latent vector of a drive from those before and the actions.

    A drive of four steps, each frame of which is encoded as a vector z of 32 numbers, with the
    actions a (steering, gas, brake)::

        input   z1 a1   z2 a2   z3 a3
        target  z2      z3      z4

    The prediction is a mixture of Gaussians for each latent dimension by itself. The outputs are,
    for one dimension after the other, K logits :math:`l`, K means and K logarithms of deviations:

    .. math:: -\ln \sum_k \operatorname{softmax}(l)_k \, \mathcal{N}(z; m_k, e^{2 s_k})

    is the loss, as the mean over dimensions, steps and drives. The vectors of the training drives
    are drawn anew from their Gaussians at every step; those of the other splits are drawn once.

    The file is made by `eigenrnn collect car_racing`. A tenth of the drives is held out for
    validation and a tenth for the test. The baseline is one Gaussian a dimension, fitted on what
    is trained on.

    Args:
        mixtures: The number K of Gaussians for each latent dimension.
        data_seed: The seed of the vectors of the fixed splits.
        data_root: The only folder to look for the file in; by default that which the environment
            variable `EIGENRNN_DATA` names.

    Shape:
        inputs: :math:`(T, B, 35)`, T being 999 for drives of 1000 steps.
        targets: :math:`(T, B, 32)`.
        outputs: :math:`(T, B, 32 \cdot 3 K)`.

    Units:
        Loss and baseline in nats a latent dimension.

    Raises:
        ValueError: If an option is out of its range.

    Source:
        Orhan and Pitkow, 2019. https://arxiv.org/abs/1905.13715v1, with the predictive model of
        Ha and Schmidhuber, NeurIPS 2018. https://arxiv.org/abs/1803.10122 (departures: the
        environment is gymnasium's CarRacing-v3, v0 being no longer to be had; the split is ours,
        theirs is not published; see `eigenrnn.experiments.world` for how drives are recorded and
        encoded).

    Example:
        >>> CarRacing().input_size, CarRacing().output_size
        (35, 480)
    """

    readout: ClassVar[Literal["all", "last"]] = "all"
    metric_name: ClassVar[str] = "loss"
    higher_is_better: ClassVar[bool] = False

    mixtures: int = 5
    data_seed: int = 0
    data_root: str | Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_at_least(self, 1, "mixtures")
        check_at_least(self, 0, "data_seed")

    @property
    def input_size(self) -> int:
        return Z_SIZE + ACTIONS

    @property
    def output_size(self) -> int:
        return Z_SIZE * 3 * self.mixtures

    def missing_data(self) -> str | None:
        try:
            find_encoded(self.data_root)
        except MissingDataError:
            return f"{ENCODED}, see `eigenrnn collect car_racing`"
        return None

    @property
    def splits(self) -> tuple[str, ...]:
        return "train", "validation", "test"

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        self.check_request("train", size)
        rows = torch.randint(self._count, (size,), generator=generator)
        return self._draw(rows, generator)

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        """Give the batches of a split; those of `train` hold each drive once at most.

        Raises:
            ValueError: If there is no such split, or a number is out of its range.
        """
        self.check_request(split, size, start)
        if split != "train":
            z, actions = self._fixed(split)
            chosen = one_pass(z.shape[1], size, start)
            return (_lay_out(z[:, rows], actions[:, rows]) for rows in chosen)
        if size > self._count:
            raise ValueError(
                f"expected a batch of at most {self._count}, the number of training drives in "
                f"{self._path}, got {size}"
            )
        generators = (stream(seed, "train", step) for step in itertools.count(start))
        return (
            self._draw(torch.randperm(self._count, generator=each)[:size], each)
            for each in generators
        )

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # (T, B, 32, K) each
        logits, means, log_deviations = outputs.view(*targets.shape, 3, self.mixtures).unbind(-2)
        scaled = (targets.unsqueeze(-1) - means) * (-log_deviations).exp()
        terms = logits - log_deviations - 0.5 * scaled.square()
        likelihood = terms.logsumexp(-1) - logits.logsumexp(-1)
        return _LOG_SQRT_TAU - likelihood.mean()

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.loss(outputs, targets)

    def tally(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (2,)
        loss = self.loss(outputs, targets).double()
        return torch.stack([loss, torch.ones_like(loss)]) * targets.numel()

    def figures(self, tally: Tensor) -> dict[str, float]:
        loss, count = tally.tolist()
        return {"loss": loss / count}

    @property
    def figure_names(self) -> tuple[str, ...]:
        return ("loss",)

    def baseline(self) -> float:
        """The entropy of the Gaussians that have the mean and the variance of the targets."""
        mu, deviations, _ = (each[1:, self._train].double() for each in self._drives)
        variance = mu.var((0, 1), correction=0) + deviations.square().mean((0, 1))
        return (0.5 * (math.tau * math.e * variance).log()).mean().item()

    def steps_per_epoch(self, size: int) -> int | None:
        self.check_request("train", size)
        return None  # the vectors of a drive are never the same again

    @cached_property
    def _path(self) -> Path:
        return find_encoded(self.data_root)

    @cached_property
    def _drives(self) -> tuple[Tensor, Tensor, Tensor]:  # (S, R, 32), (S, R, 32), (S, R, 3)
        """The means, deviations and actions of all drives, read at first use."""
        encoded = read_encoded(self._path)
        mu, logvar, actions = (
            torch.from_numpy(each).transpose(0, 1).contiguous()
            for each in (encoded.mu, encoded.logvar, encoded.action)
        )
        return mu, (logvar / 2).exp(), actions

    @property
    def _train(self) -> slice:
        return parts(self._drives[0].shape[1])["train"]

    @property
    def _count(self) -> int:
        return self._train.stop

    def _draw(self, rows: Tensor, generator: torch.Generator) -> Batch:
        mu, deviations, actions = (each[:, rows] for each in self._drives)
        # in place: these are large, and copies already
        z = torch.randn(mu.shape, generator=generator).mul_(deviations).add_(mu)
        return _lay_out(z, actions)

    @cached_property
    def _kept(self) -> dict[str, tuple[Tensor, Tensor]]:
        return {}

    def _fixed(self, split: str) -> tuple[Tensor, Tensor]:
        """Draw the vectors of a split that is evaluated, once."""
        if split not in self._kept:
            rows = parts(self._drives[0].shape[1])[split]
            mu, deviations, actions = (each[:, rows] for each in self._drives)
            generator = stream(self.data_seed, f"{split} set")
            noise = torch.randn(mu.shape, generator=generator)
            self._kept[split] = mu + deviations * noise, actions
        return self._kept[split]


def _lay_out(z: Tensor, actions: Tensor) -> Batch:
    return Batch(torch.cat([z[:-1], actions[:-1]], -1), z[1:])
