"""Speech, frame by frame: which spectrum comes next."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor

from eigenrnn.experiments.data.spectrogram import BINS, FLOOR_DB, decibels, stft
from eigenrnn.experiments.data.speech import Corpus, missing_speech, read_speech
from eigenrnn.experiments.tasks.answers import squared_errors
from eigenrnn.experiments.tasks.base import Batch, Task
from eigenrnn.experiments.tasks.epochs import epochs, one_pass
from eigenrnn.experiments.tasks.options import check_choices
from eigenrnn.experiments.tasks.ragged import Ragged
from eigenrnn.memory import check_memory

__all__ = ["Speech"]

_TRAIN_RECORDINGS: dict[Corpus, int] = {"fsdd": 2_400, "timit": 3_696, "timit_sample": 96}


@dataclass(frozen=True)
class Speech(Task):
    r"""Predict the next frame of a recording's spectrum, in decibels.

    A recording of four frames beside one of three, where o is silence::

        input   f1 f2 f3 f4       target  f2 f3 f4 o
                g1 g2 g3 o                g2 g3 o  -    - counts nowhere

    A frame is the power of 256 samples at 8 kHz in 129 bins, under a periodic Hann window, one
    every 128 samples: :math:`10 \log_{10}(10^{-5} + |X|^2)`, without any scaling. Silence is -50.
    The loss is the mean of the squared errors over the frames of the recordings, and `padded_mse`
    that over the frames of recordings padded to the longest, where errors after the end are zero:
    Wisdom et al. report the latter, and Lezcano-Casado and Martinez-Rubio the former.

    Args:
        corpus: `fsdd`, the Free Spoken Digit Dataset; `timit`, a copy that the user has bought; or
            `timit_sample`, 160 of its sentences that may be passed on, for trials.
        shuffle: Whether every epoch has a new order.
        data_root: The only folder to look in; see `eigenrnn.experiments.data.locate`.

    Shape:
        inputs: :math:`(T, B, 129)`, silence after the end of a recording.
        targets: :math:`(T, B, 129)`, NaN after it.

    Units:
        Loss and baseline in squared decibels a bin.

    Raises:
        ValueError: If an option is out of its range.

    Source:
        Wisdom et al., NeurIPS 2016. https://arxiv.org/abs/1611.00035 (departures: what is
        minimised is the mean over valid frames, which differs from theirs by a factor in each
        batch; training batches are padded to their longest recording and the other splits to
        theirs, while their code pads all of the test part to the longest recording of it; their
        code takes a sentence to be an SA one if these letters are anywhere in its path, which
        loses some speakers, and here it is one if its name begins so).

    Example:
        >>> Speech().input_size, Speech().steps_per_epoch(100)
        (129, 24)
    """

    readout: ClassVar[Literal["all", "last"]] = "all"
    metric_name: ClassVar[str] = "padded_mse"
    higher_is_better: ClassVar[bool] = False

    corpus: Corpus = "fsdd"
    shuffle: bool = True
    data_root: str | Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_choices(self, corpus=Corpus)

    @property
    def input_size(self) -> int:
        return BINS

    @property
    def output_size(self) -> int:
        return BINS

    def missing_data(self) -> str | None:
        return missing_speech(self.corpus, self.data_root)

    @property
    def splits(self) -> tuple[str, ...]:
        return "train", "validation", "test"

    def recordings(self, split: str) -> Iterator[tuple[str, Tensor]]:
        """Read the name and the samples of each recording of a split, in order.

        Raises:
            ValueError: If there is no such split.
        """
        self.check_request(split, 1)
        return read_speech(self.corpus, split, self.data_root)

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        self.check_request("train", size)
        frames = self._frames("train")
        rows = torch.randint(len(frames), (size,), generator=generator)
        return _lay_out(frames, rows, int(frames.lengths[rows].max()))

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_request(split, size, start)
        frames = self._frames(split)
        count, longest = len(frames), int(frames.lengths.max())
        check_memory(
            2 * 4 * BINS * longest * min(size, count),
            f"a batch of {min(size, count)} recordings of the {split} split, of {longest} frames,",
            "take a smaller batch_size",
        )
        if split != "train":
            order = torch.arange(count)
            chosen = (order[rows] for rows in one_pass(count, size, start))
            return (_lay_out(frames, rows, longest) for rows in chosen)
        shuffled = epochs(count, size, seed=seed, start=start, shuffle=self.shuffle)
        return (_lay_out(frames, rows, int(frames.lengths[rows].max())) for rows in shuffled)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return squared_errors(outputs, targets).sum() / (~targets.isnan()).sum()

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return squared_errors(outputs, targets).mean()

    def tally(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (3,)
        errors = squared_errors(outputs, targets).double().sum()
        valid = (~targets.isnan()).sum()
        return torch.stack([errors, valid.to(errors), errors.new_tensor(targets.numel())])

    def figures(self, tally: Tensor) -> dict[str, float]:
        errors, valid, padded = tally.tolist()
        return {"loss": errors / valid, "padded_mse": errors / padded}

    def baseline(self) -> float:
        """The loss of the mean training target of each bin: the variance of the targets."""
        frames = self._frames("train")
        count, (total, squares) = 0, torch.zeros(2, BINS, dtype=torch.float64)
        for rows in torch.arange(len(frames)).split(256):
            targets = _lay_out(frames, rows, int(frames.lengths[rows].max())).targets.double()
            total += targets.nansum((0, 1))
            squares += targets.square().nansum((0, 1))
            count += int(frames.lengths[rows].sum())
        return (squares / count - (total / count).square()).mean().item()

    def steps_per_epoch(self, size: int) -> int | None:
        self.check_request("train", size)
        return math.ceil(_TRAIN_RECORDINGS[self.corpus] / size)

    @cached_property
    def _kept(self) -> dict[str, Ragged]:
        return {}

    def _frames(self, split: str) -> Ragged:
        """Compute the frames of all recordings of a split, at first use."""
        if split not in self._kept:
            frames = [decibels(stft(samples)) for _, samples in self.recordings(split)]
            lengths = torch.tensor([len(each) for each in frames])
            self._kept[split] = Ragged.joined(frames, lengths, FLOOR_DB)
        return self._kept[split]


def _lay_out(frames: Ragged, rows: Tensor, steps: int) -> Batch:
    lengths = frames.lengths[rows]
    # After the last frame silence is due, and nothing after that.
    targets = frames.padded(rows, steps, ahead=1, due=lengths)
    return Batch(frames.padded(rows, steps), targets, lengths)
