"""Scores of the similarity between resynthesised speech and the recording."""

import importlib
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eigenrnn.experiments.data.audio import RATE

__all__ = ["SCORES", "pesq", "segmental_snr", "speech_activity", "stoi"]

_SMOOTHING_S, _HANGOVER_S, _MARGIN_DB = 0.03, 0.2, 15.9
_THRESHOLDS = tuple(2.0**-k for k in range(1, 16))
_FRAME = RATE // 100
_LIMIT_DB = 100.0


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
    r, s = recording[:cut].double().view(frames, -1), sound[:cut].double().view(frames, -1)
    is_speech = speech_activity(recording)[:cut].view(frames, -1).double().mean(1) > 0.5
    power, error = r.square().sum(1)[is_speech], (s - r).square().sum(1)[is_speech]
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
    pystoi = _import_extra("pystoi", "the score stoi")
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
    module = _import_extra("pesq", "the score pesq", ", which compiles it and needs a C compiler")
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


def _import_extra(module: str, purpose: str, hint: str = "") -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(
            f"expected the package {module}, for {purpose}; install it with pip install "
            f"'eigenrnn[speech]'{hint}"
        ) from None


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
