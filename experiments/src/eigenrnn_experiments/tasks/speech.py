"""Speech prediction: the next frame of the spectrum, and scores of the resynthesised speech."""

import importlib
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from eigenrnn.errors import check_installed
from eigenrnn_experiments.data.audio import BINS, FLOOR_DB, RATE, decibels, stft
from eigenrnn_experiments.data.speech import CORPORA, SpeechCorpus, missing_speech
from eigenrnn_experiments.tasks.base import Batch, Task, batch_indices, check_choices

__all__ = ["SCORES", "Speech", "pesq", "segmental_snr", "speech_activity", "stoi"]

# stated here, so that the length of an epoch is known without reading the files
_TRAIN_RECORDINGS: dict[SpeechCorpus, int] = {"fsdd": 2_400, "timit": 3_696, "timit_sample": 96}

# of the scores
_SMOOTHING_S = 0.03
_HANGOVER_S = 0.2
_MARGIN_DB = 15.9
_THRESHOLDS = tuple(2.0**-k for k in range(1, 16))
_FRAME = RATE // 100
_LIMIT_DB = 100.0


@dataclass(frozen=True)
class Speech(Task):
    r"""Predict the next frame of a recording's spectrum, in decibels.

    One batch of a recording f with four frames and a recording g with three; o is silence::

        input   f1 f2 f3 f4       target  f2 f3 f4 o
                g1 g2 g3 o                g2 g3 o  -    - is ignored

    A frame is the power spectrum of 256 samples at 8 kHz in 129 bins, under a periodic Hann
    window, with a hop of 128 samples: :math:`10 \log_{10}(10^{-5} + |X|^2)`, without scaling.
    Silence is -50. The loss is the mean squared error over the frames of the recordings, as
    reported by Lezcano-Casado and Martinez-Rubio. Wisdom et al. report `padded_mse`: its mean is
    over recordings padded to the longest, with zero error after the end.

    Args:
        corpus: `fsdd`, the Free Spoken Digit Dataset; `timit`, your licensed copy; or
            `timit_sample`, 160 sentences of TIMIT that may be redistributed, for first tests.
        shuffle: Whether every epoch has a new order.
        data_root: The only folder to search; see `eigenrnn_experiments.data.locate`.

    Shape:
        inputs: :math:`(T, B, 129)`, silence after the end of a recording.
        targets: :math:`(T, B, 129)`, NaN after it.

    Units:
        Loss and baseline in squared decibels per bin.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Wisdom et al., NeurIPS 2016. https://arxiv.org/abs/1611.00035 (departures: the loss
        is the mean over valid frames, which differs from theirs by a factor in each batch.
        Training batches are padded to their longest recording, the other splits to the longest of
        the split; their code pads the whole test set. An SA sentence is one whose name begins with
        these letters; their code looks for them anywhere in the path, and so loses some
        speakers).

    Example:
        >>> Speech().input_size, Speech().steps_per_epoch(100)
        (129, 24)
    """

    readout: ClassVar[Literal["all", "last"]] = "all"
    metric_name: ClassVar[str] = "padded_mse"
    higher_is_better: ClassVar[bool] = False

    corpus: SpeechCorpus = "fsdd"
    shuffle: bool = True
    data_root: str | Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_choices(self, corpus=SpeechCorpus)

    @property
    def input_size(self) -> int:
        return BINS

    @property
    def output_size(self) -> int:
        return BINS

    def missing_data(self) -> str | None:
        return missing_speech(self.corpus, self.data_root)

    def recordings(self, split: str) -> Iterator[tuple[str, Tensor]]:
        """Yield the name and the samples of each recording of a split, in order.

        Raises:
            ValueError: If the split does not exist.
        """
        self.check_split(split)
        return CORPORA[self.corpus](split, self.data_root)

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        frames = self._frames("train")
        rows = torch.randint(len(frames), (size,), generator=generator)
        return _collate([frames[row] for row in rows.tolist()])

    def batches(self, split: str, size: int, seed: int = 0, start: int = 0) -> Iterator[Batch]:
        self.check_split(split)
        frames = self._frames(split)
        count = len(frames)
        steps = 0
        if split != "train":  # `padded_mse` is over recordings padded to the longest of the split
            steps = max(map(len, frames))
        chosen = batch_indices(split, count, size, seed=seed, start=start, shuffle=self.shuffle)
        return (_collate([frames[row] for row in rows.tolist()], steps) for rows in chosen)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return _squared_errors(outputs, targets).sum() / (~targets.isnan()).sum()

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return _squared_errors(outputs, targets).mean()

    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (3,)
        errors = _squared_errors(outputs, targets).double().sum()
        valid = (~targets.isnan()).sum()
        return torch.stack([errors, valid.to(errors), errors.new_tensor(targets.numel())])

    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        errors, valid, padded = sums.tolist()
        return {"loss": errors / valid, "padded_mse": errors / padded}

    def baseline(self) -> float:
        """The variance of the training targets, as the mean over the bins."""
        frames = self._frames("train")
        count = 0
        total = torch.zeros(BINS, dtype=torch.float64)
        squares = torch.zeros(BINS, dtype=torch.float64)
        for first in range(0, len(frames), 256):
            batch = _collate(frames[first : first + 256])
            targets = batch.targets.double()
            total += targets.nansum((0, 1))
            squares += targets.square().nansum((0, 1))
            count += int(torch.as_tensor(batch.lengths).sum())
        return (squares / count - (total / count).square()).mean().item()

    def steps_per_epoch(self, size: int) -> int | None:
        return math.ceil(_TRAIN_RECORDINGS[self.corpus] / size)

    @cached_property
    def _cache(self) -> dict[str, list[Tensor]]:
        return {}

    def _frames(self, split: str) -> list[Tensor]:  # (frames, 129) each
        """Return the frames of all recordings of a split, computed at first use."""
        if split not in self._cache:
            recordings = self.recordings(split)
            self._cache[split] = [decibels(stft(samples)) for _, samples in recordings]
        return self._cache[split]


def _collate(frames: list[Tensor], steps: int = 0) -> Batch:
    """Pad recordings to the longest, and to at least so many steps."""
    lengths = torch.tensor([len(each) for each in frames])
    steps = max(steps, int(lengths.max()))
    inputs = frames[0].new_full((steps, len(frames), BINS), FLOOR_DB)
    targets = torch.full_like(inputs, math.nan)
    for row, each in enumerate(frames):
        inputs[: len(each), row] = each
        targets[: len(each) - 1, row] = each[1:]
        targets[len(each) - 1, row] = FLOOR_DB  # the target of the last frame is silence
    return Batch(inputs, targets, lengths)


def _squared_errors(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the squared errors, zero where a target is NaN."""
    # mask before squaring: zero times NaN is NaN in the gradient
    return (outputs - targets).masked_fill(targets.isnan(), 0.0).square()


def segmental_snr(
    sound: Tensor,  # (S,)
    recording: Tensor,  # (S,)
) -> float:
    r"""Compute the mean signal-to-error ratio over frames of 10 ms, in decibels.

    .. math:: \operatorname{mean}_k 10 \log_{10} \frac{\sum_{t \in k} r_t^2}
        {\sum_{t \in k} (s_t - r_t)^2}

    Frames in which most of the recording is silent are left out. A frame without error counts as
    100 dB. The score is NaN if the whole recording is silent.

    Args:
        sound: The resynthesised speech.
        recording: The reference.

    Source:
        Brookes, VOICEBOX, `v_snrseg` (departures: the sound is not aligned with subsample
        precision, and the speech activity is measured without a band-pass filter).
    """
    frames = len(recording) // _FRAME
    cut = frames * _FRAME
    r = recording[:cut].double().view(frames, -1)
    s = sound[:cut].double().view(frames, -1)
    # silence would have a ratio of its own, far from that of speech
    is_speech = speech_activity(recording)[:cut].view(frames, -1).double().mean(1) > 0.5
    power = r.square().sum(1)[is_speech]
    error = (s - r).square().sum(1)[is_speech]
    ratio = 10 * torch.log10(power / error)
    ratio = ratio.masked_fill(power == 0, -_LIMIT_DB).masked_fill(error == 0, _LIMIT_DB)
    return ratio.mean().item()


def speech_activity(
    recording: Tensor,  # (S,)
) -> Tensor:  # (S,)
    """Return for each sample whether it is speech.

    The envelope, smoothed twice, is compared with thresholds that halve from one to the next. A
    sample is speech if the envelope exceeds the threshold or did so within the last 0.2 s. The
    chosen threshold lies 15.9 dB below the level of the speech that it detects.

    Source:
        ITU-T P.56, method B, 2011. https://www.itu.int/rec/T-REC-P.56.
    """
    x = recording.double()
    envelope = _smoothed(x.abs())
    power = x.square().sum()
    thresholds = x.new_tensor(_THRESHOLDS)
    counts = _above(envelope, thresholds).sum(1)
    level_db = 10 * torch.log10(power / counts)
    excess = level_db - 20 * torch.log10(thresholds) - _MARGIN_DB  # grows as thresholds fall
    fits = ((counts > 0) & (excess >= 0)).nonzero().flatten()
    if not len(fits):
        return torch.zeros(len(x), dtype=torch.bool)
    low = int(fits[0])
    logarithm = math.log2(_THRESHOLDS[low])
    if low and counts[low - 1]:
        # between two thresholds the excess is almost linear in their logarithm
        logarithm += (excess[low] / (excess[low] - excess[low - 1])).item()
    return _above(envelope, x.new_tensor([2.0**logarithm]))[0]


def stoi(sound: Tensor, recording: Tensor) -> float:
    """Compute the short-time objective intelligibility, from 0 to 1.

    It is NaN for less than about 0.4 s of speech.

    Raises:
        ImportError: If pystoi is not installed.

    Source:
        Taal, Hendriks, Heusdens and Jensen, IEEE TASLP 19(7), 2011.
    """
    check_installed("eigenrnn-experiments[speech]", "the score stoi", "pystoi")
    pystoi: Any = importlib.import_module("pystoi")  # without types
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Not enough STFT frames", RuntimeWarning)
        try:
            return float(pystoi.stoi(recording.double().numpy(), sound.double().numpy(), RATE))
        except RuntimeWarning:
            return math.nan


def pesq(sound: Tensor, recording: Tensor) -> float:
    """Compute the perceptual quality of narrow-band speech, from about 1 to 4.5.

    It is NaN if it detects no speech, or less than a quarter of a second.

    Raises:
        ImportError: If pesq is not installed.

    Source:
        ITU-T P.862 and P.862.1 (departures: none).
    """
    check_installed(
        "eigenrnn-experiments[speech]", "the score pesq, which a C compiler builds,", "pesq"
    )
    module: Any = importlib.import_module("pesq")  # without types
    try:
        return float(module.pesq(RATE, recording.numpy(), sound.numpy(), "nb"))
    except (module.NoUtterancesError, module.BufferTooShortError):
        return math.nan


SCORES: dict[str, Callable[[Tensor, Tensor], float]] = {
    "segsnr": segmental_snr,
    "stoi": stoi,
    "pesq": pesq,
}
"""The scores by name, each a function of the sound and the recording."""


def _smoothed(x: Tensor) -> Tensor:
    """Apply an exponential moving average twice, as one convolution."""
    g = math.exp(-1 / (RATE * _SMOOTHING_S))
    # the impulse response has decayed to 1e-13 after one second
    n = torch.arange(min(len(x), RATE), dtype=x.dtype)
    response = (1 - g) ** 2 * (n + 1) * g**n
    size = len(x) + len(response)
    product = torch.fft.rfft(x, size) * torch.fft.rfft(response, size)
    return torch.fft.irfft(product, size)[: len(x)]


def _above(
    envelope: Tensor,  # (S,)
    thresholds: Tensor,  # (J,)
) -> Tensor:  # (J, S)
    """Return where the envelope exceeds each threshold, or did so within the hangover."""
    n = torch.arange(len(envelope))
    hangover = math.ceil(_HANGOVER_S * RATE)
    never = -hangover - 1
    last = torch.where(envelope >= thresholds.unsqueeze(1), n, never).cummax(1).values
    return n - last <= hangover
