"""Sequential MNIST, pixel by pixel in order or permuted, with the published splits."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn_experiments.data.files import missing_file
from eigenrnn_experiments.data.mnist import FILES, read_mnist
from eigenrnn_experiments.tasks.base import (
    Batch,
    Task,
    batch_indices,
    check_at_least,
    check_choices,
)

__all__ = ["PixelMNIST"]

Split = Literal["tf", "full", "nnrnn"]

_PIXELS = 784
_TRAIN_IMAGES = 60_000
_TEST_IMAGES = 10_000
_VALIDATION_IMAGES: dict[Split, int] = {"tf": 5_000, "full": 0, "nnrnn": 10_000}
_PUBLISHED_SEEDS: dict[Split, int] = {"tf": 92916, "full": 92916, "nnrnn": 1234}


@dataclass(frozen=True)
class PixelMNIST(Task):
    r"""Classify a handwritten digit from its 784 pixels, one per step.

    The pixels are in row order, or in one random order that is the same for all images. The files
    are read when the first batch is drawn. The chance-level baseline is :math:`\ln 10`.

    Args:
        permuted: Whether the pixels are in the random order.
        permutation_seed: The seed of numpy's `RandomState` for that order; `None` takes the one
            published with the split.
        split: The division of the 60,000 training images. `tf`: the first 5,000 are for
            validation (seed 92916). `full`: all are for training (seed 92916). `nnrnn`: 50,000
            random images for training and 10,000 for validation, drawn by the generator that drew
            the order of the pixels (seed 1234). The test set is always that of MNIST.
        shuffle: Whether every epoch has a new order of the images (not for nnRNN).
        eval_examples: The number of images at the beginning of the validation and test sets that
            are used; `None` takes all, as in every paper.
        data_root: The only folder to search for the files; see
            `eigenrnn_experiments.data.locate`.

    Shape:
        inputs: :math:`(784, B, 1)`, in [0, 1].
        targets: :math:`(B)`, digits 0 to 9.

    Units:
        Loss and baseline in nats per image.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Le, Jaitly and Hinton, 2015. https://arxiv.org/abs/1504.00941; splits and permutations of
        Helfrich, Willmott and Ye, ICML 2018 (`tf`), Lezcano-Casado and Martinez-Rubio, ICML 2019
        (`full`), and Kerg et al., NeurIPS 2019 (`nnrnn`) (departures: none).

    Example:
        >>> PixelMNIST(permuted=True, split="nnrnn").splits
        ('train', 'validation', 'test')
    """

    readout: ClassVar[Literal["all", "last"]] = "last"
    metric_name: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True

    permuted: bool = False
    permutation_seed: int | None = None
    split: Split = "tf"
    shuffle: bool = True
    eval_examples: int | None = None
    data_root: str | Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_choices(self, split=Split)
        check_at_least(self, 1, "eval_examples")

    def missing_data(self) -> str | None:
        return missing_file(FILES.values(), self.data_root)

    @property
    def input_size(self) -> int:
        return 1

    @property
    def output_size(self) -> int:
        return 10

    @property
    def splits(self) -> tuple[str, ...]:
        if not self._held_out:
            return "train", "test"
        return "train", "validation", "test"

    @property
    def pixel_order(self) -> Tensor:
        """The index, in row order, of the pixel of each step."""
        if not self.permuted:
            return torch.arange(_PIXELS)
        pixels, _ = self._drawn_orders
        return pixels

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        images = self._images("train")
        rows = torch.randint(len(images), (size,), generator=generator)
        return self._collate("train", images[rows])

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_split(split)
        images = self._images(split)
        if split != "train":
            images = images[: self.eval_examples]
        chosen = batch_indices(
            split, len(images), size, seed=seed, start=start, shuffle=self.shuffle
        )
        return (self._collate(split, images[rows]) for rows in chosen)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets)

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.argmax(-1) == targets).float().mean()

    def baseline(self) -> float:
        return math.log(10)

    def steps_per_epoch(self, size: int) -> int | None:
        return math.ceil((_TRAIN_IMAGES - self._held_out) / size)

    @property
    def _held_out(self) -> int:
        return _VALIDATION_IMAGES[self.split]

    @cached_property
    def _drawn_orders(self) -> tuple[Tensor, Tensor]:
        """The orders of the pixels and of the training images, drawn in this sequence."""
        seed = self.permutation_seed
        if seed is None:
            seed = _PUBLISHED_SEEDS[self.split]
        # the papers use numpy's legacy generator, whose stream is frozen
        generator = np.random.RandomState(seed)
        # in this order, because the second draw depends on the first
        pixels = generator.permutation(_PIXELS)
        images = generator.permutation(_TRAIN_IMAGES)
        return torch.from_numpy(pixels), torch.from_numpy(images)

    def _images(self, split: str) -> Tensor:
        """The indices of the images of a split within their file."""
        if split == "test":
            return torch.arange(_TEST_IMAGES)
        if self.split == "nnrnn":
            _, images = self._drawn_orders
            train, validation = images.split((50_000, 10_000))
        else:
            validation, train = torch.arange(_TRAIN_IMAGES).tensor_split((self._held_out,))
        if split == "train":
            return train
        return validation

    @cached_property
    def _train_file(self) -> tuple[Tensor, Tensor]:
        return self._read("train")

    @cached_property
    def _test_file(self) -> tuple[Tensor, Tensor]:
        return self._read("test")

    def _read(self, part: Literal["train", "test"]) -> tuple[Tensor, Tensor]:
        images, labels = read_mnist(part, self.data_root)
        return images.flatten(1)[:, self.pixel_order], labels

    def _collate(self, split: str, chosen: Tensor) -> Batch:
        if split == "test":
            images, labels = self._test_file
        else:
            images, labels = self._train_file
        # images are stored as bytes, which takes a quarter of the memory
        pixels = images[chosen].T.contiguous().to(torch.float32) / 255
        return Batch(pixels.unsqueeze(-1), labels[chosen].long(), targets_batch_dim=0)
