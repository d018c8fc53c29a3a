"""How near the sound of a prediction comes to the recording."""

import importlib
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eigenrnn.experiments.data.audio import RATE

__all__ = ["SCORES", "active", "pesq", "segmental_snr", "stoi"]

_SMOOTHING_S, _HANGOVER_S, _MARGIN_DB = 0.03, 0.2, 15.9
_THRESHOLDS = tuple(2.0**-k for k in range(1, 16))
_FRAME = RATE // 100
_LIMIT_DB = 100.0


def segmental_snr(
    sound: Tensor,  # (S,)
    recording: Tensor,  # (S,)
) -> float:
    r"""Measure the mean over frames of 10 ms of the ratio of signal to error, in decibels.

    .. math:: \operatorname{mean}_k 10 \log_{10} \frac{\sum_{t \in k} r_t^2}
        {\sum_{t \in k} (s_t - r_t)^2}

    Frames in which the recording is silent for the most part are left out, and a frame without
    any error counts 100 dB. It is NaN where the recording is silent throughout.

    Args:
        sound: What is judged.
        recording: What it should be.

    Source:
        Brookes, VOICEBOX, `v_snrseg` (departures: the sound is not moved by parts of a sample to
        where it fits best, and the activity is measured without a band-pass filter before).
    """
    frames = len(recording) // _FRAME
    cut = frames * _FRAME
    r, s = recording[:cut].double().view(frames, -1), sound[:cut].double().view(frames, -1)
    speaks = active(recording)[:cut].view(frames, -1).double().mean(1) > 0.5
    power, error = r.square().sum(1)[speaks], (s - r).square().sum(1)[speaks]
    ratio = 10 * torch.log10(power / error)
    ratio = ratio.masked_fill(power == 0, -_LIMIT_DB).masked_fill(error == 0, _LIMIT_DB)
    return ratio.mean().item()


def active(
    recording: Tensor,  # (S,)
) -> Tensor:  # (S,)
    """Say of each sample whether somebody speaks.

    The envelope, smoothed twice, is compared with thresholds of half the size each; somebody
    speaks where it is above, and 0.2 s longer. The threshold that counts is the one that lies
    15.9 dB below the level of what it finds to be speech.

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
        # between two thresholds the excess is close to linear in the logarithm
        logarithm += (excess[low] / (excess[low] - excess[low - 1])).item()
    return _above(envelope, x.new_tensor([2.0**logarithm]))[0]


def stoi(sound: Tensor, recording: Tensor) -> float:
    """Measure the short-time objective intelligibility, from 0 to 1.

    It is NaN where less than about 0.4 s is spoken, which is too short for it.

    Raises:
        ImportError: If pystoi is not installed.

    Source:
        Taal, Hendriks, Heusdens and Jensen, IEEE TASLP 19(7), 2011.
    """
    pystoi = _extra("pystoi", "the score stoi")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Not enough STFT frames", RuntimeWarning)
        try:
            return float(pystoi.stoi(recording.double().numpy(), sound.double().numpy(), RATE))
        except RuntimeWarning:
            return math.nan


def pesq(sound: Tensor, recording: Tensor) -> float:
    """Measure the perceptual quality of narrow-band speech, from about 1 to 4.5.

    It is NaN where it finds no speech, or less than a quarter of a second.

    Raises:
        ImportError: If pesq is not installed.

    Source:
        ITU-T P.862 and P.862.1 (departures: none).
    """
    module = _extra("pesq", "the score pesq", ", which compiles it and needs a C compiler")
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


def _extra(module: str, wanted_for: str, hint: str = "") -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(
            f"expected the package {module}, for {wanted_for}; install it with pip install "
            f"'eigenrnn[speech]'{hint}"
        ) from None


def _smoothed(x: Tensor) -> Tensor:
    """Run two exponential means, one after the other, as one convolution."""
    g = math.exp(-1 / (RATE * _SMOOTHING_S))
    # after a second the response has died out to 1e-13
    n = torch.arange(min(len(x), RATE), dtype=x.dtype)
    response = (1 - g) ** 2 * (n + 1) * g**n
    size = len(x) + len(response)
    product = torch.fft.rfft(x, size) * torch.fft.rfft(response, size)
    return torch.fft.irfft(product, size)[: len(x)]


def _above(
    envelope: Tensor,  # (S,)
    thresholds: Tensor,  # (J,)
) -> Tensor:  # (J, S)
    """Say where an envelope is above each threshold, or was within the hangover."""
    n = torch.arange(len(envelope))
    hangover = math.ceil(_HANGOVER_S * RATE)
    never = -hangover - 1
    last = torch.where(envelope >= thresholds.unsqueeze(1), n, never).cummax(1).values
    return n - last <= hangover
