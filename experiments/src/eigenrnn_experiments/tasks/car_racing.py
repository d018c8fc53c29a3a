"""CarRacing, encoded by a variational autoencoder: the next latent vector of a drive."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor

from eigenrnn_experiments.data import car_racing
from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.tasks.base import (
    Batch,
    Task,
    check_at_least,
    generator_for,
    sequential_slices,
)

__all__ = ["CarRacing"]

_LOG_SQRT_TAU = 0.5 * math.log(math.tau)


@dataclass(frozen=True)
class CarRacing(Task):
    r"""Predict the next latent vector of a drive from the previous ones and the actions.

    One drive of four steps; z is the latent vector of a frame (32 numbers) and a the action
    (steering, gas, brake)::

        input   z1 a1   z2 a2   z3 a3
        target  z2      z3      z4

    The prediction is a mixture of K Gaussians for each latent dimension separately. The outputs
    of a dimension are K logits :math:`l`, K means :math:`m` and K log standard deviations
    :math:`s`. The loss is

    .. math:: -\ln \sum_k \operatorname{softmax}(l)_k \, \mathcal{N}(z; m_k, e^{2 s_k})

    averaged over dimensions, steps and drives. The latent vectors of the training drives are
    sampled anew at every step; those of the other splits are sampled once.

    `eigenrnn collect car_racing` creates the data file. A tenth of the drives is held out for
    validation and a tenth for the test. The chance-level baseline is one Gaussian per dimension,
    fitted on the training drives.

    Args:
        mixtures: The number K of Gaussians for each latent dimension.
        data_seed: The seed of the latent vectors of the fixed splits.
        data_root: The only folder to search for the file; by default the value of the environment
            variable `EIGENRNN_DATA`.

    Shape:
        inputs: :math:`(T, B, 35)`, T being 999 for drives of 1000 steps.
        targets: :math:`(T, B, 32)`.
        outputs: :math:`(T, B, 32 \cdot 3 K)`.

    Units:
        Loss and baseline in nats per latent dimension.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Orhan and Pitkow, 2019. https://arxiv.org/abs/1905.13715v1, with the predictive model of
        Ha and Schmidhuber, NeurIPS 2018. https://arxiv.org/abs/1803.10122 (departures: the
        environment is gymnasium's CarRacing-v3, because v0 is no longer available; the split is
        ours, because theirs is not published; `eigenrnn_experiments.world` describes how drives
        are recorded and encoded).

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
        return car_racing.Z_SIZE + car_racing.ACTIONS

    @property
    def output_size(self) -> int:
        return car_racing.Z_SIZE * 3 * self.mixtures

    def missing_data(self) -> str | None:
        try:
            car_racing.find_encoded(self.data_root)
        except MissingDataError:
            return f"{car_racing.ENCODED}, see `eigenrnn collect car_racing`"
        return None

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        rows = torch.randint(self._train.stop, (size,), generator=generator)
        return self._draw(rows, generator)

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of a split; a batch of `train` holds each drive at most once.

        Raises:
            ValueError: If the split does not exist, or a number is out of range.
        """
        self.check_split(split)
        if split != "train":
            drives = car_racing.split_slices(self._drives[0].shape[1])[split]
            # the latent vectors of a fixed split are the same at every evaluation
            fixed = self._draw(drives, generator_for(self.data_seed, f"{split} set"))
            chosen = sequential_slices(fixed.size, size, start)
            return (fixed.rows(rows.start, rows.stop) for rows in chosen)
        generators = (generator_for(seed, "train", step) for step in itertools.count(start))
        return (
            self._draw(torch.randperm(self._train.stop, generator=each)[:size], each)
            for each in generators
        )

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # (T, B, 32, K) each
        logits, means, log_deviations = outputs.view(*targets.shape, 3, self.mixtures).unbind(-2)
        scaled = (targets.unsqueeze(-1) - means) * (-log_deviations).exp()
        # the logarithm of each Gaussian times its weight, without the constants of both
        terms = logits - log_deviations - 0.5 * scaled.square()
        likelihood = terms.logsumexp(-1) - logits.logsumexp(-1)
        return _LOG_SQRT_TAU - likelihood.mean()

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.loss(outputs, targets)

    def baseline(self) -> float:
        """The mean entropy of Gaussians with the variances of the training targets."""
        mu, deviations, _ = (each[1:, self._train].double() for each in self._drives)
        variance = mu.var((0, 1), correction=0) + deviations.square().mean((0, 1))
        return (0.5 * (math.tau * math.e * variance).log()).mean().item()

    def steps_per_epoch(self, size: int) -> int | None:
        del size
        return None  # the latent vectors of a drive differ at every step

    @cached_property
    def _drives(self) -> tuple[Tensor, Tensor, Tensor]:  # (S, R, 32), (S, R, 32), (S, R, 3)
        """The means, standard deviations and actions of all drives, read at first use."""
        encoded = car_racing.read_encoded(car_racing.find_encoded(self.data_root))
        mu = _time_first(encoded.mu)
        deviations = (_time_first(encoded.logvar) / 2).exp()
        return mu, deviations, _time_first(encoded.action)

    @property
    def _train(self) -> slice:
        return car_racing.split_slices(self._drives[0].shape[1])["train"]

    def _draw(self, rows: Tensor | slice, generator: torch.Generator) -> Batch:
        mu, deviations, actions = (each[:, rows] for each in self._drives)
        z = mu + deviations * torch.randn(mu.shape, generator=generator)
        return Batch(torch.cat([z[:-1], actions[:-1]], -1), z[1:])


def _time_first(
    array: car_racing.Floats,  # (R, S, M)
) -> Tensor:  # (S, R, M)
    return torch.from_numpy(array).transpose(0, 1).contiguous()
