"""Recordings of speech, their spectra in decibels, and resynthesis."""

import importlib
import io
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.errors import check_installed

__all__ = [
    "BINS",
    "FLOOR_DB",
    "HOP",
    "RATE",
    "WINDOW",
    "decibels",
    "istft",
    "magnitude",
    "read_recording",
    "resample",
    "resynthesis",
    "stft",
    "wave_bytes",
]

RATE = 8_000
"""The sampling rate of all speech data, in samples per second."""


WINDOW = 256
HOP = 128
BINS = WINDOW // 2 + 1
FLOOR_DB = -50.0
"""The decibels of silence, from the constant that is added to every power."""

_FLOOR = 1e-5


def stft(
    samples: Tensor,  # (S,)
) -> Tensor:  # (frames, 129), complex
    """Compute the transform with periodic Hann windows of 256 samples and a hop of 128.

    The recording is padded with zeros to a whole number of hops, and then by one window at both
    ends. The first and the last frame are therefore silent, and each sample lies in two frames.
    """
    behind = -len(samples) % HOP  # up to the next multiple
    padded = F.pad(samples, (WINDOW, behind + WINDOW))
    window = torch.hann_window(WINDOW, dtype=samples.dtype)
    spectra = torch.stft(padded, WINDOW, HOP, window=window, center=False, return_complex=True)
    return spectra.T


def istft(
    spectra: Tensor,  # (frames, 129), complex
    samples: int,
) -> Tensor:  # (S,)
    """Overlap-add the windowed frames, and divide by the sum of the squared windows.

    The result is the signal whose transform is nearest to `spectra` in the least-squares sense.

    Source:
        Griffin and Lim, IEEE Transactions on ASSP 32(2), 1984.
        https://doi.org/10.1109/TASSP.1984.1164317
    """
    window = torch.hann_window(WINDOW, dtype=spectra.real.dtype)
    # with its default, torch leaves out half a window at both ends, where the windows vanish
    signal = torch.istft(spectra.T, WINDOW, HOP, window=window)
    return signal[WINDOW // 2 : WINDOW // 2 + samples]


def decibels(spectra: Tensor) -> Tensor:
    r"""Compute :math:`10 \log_{10}(10^{-5} + |X|^2)`."""
    power = spectra.real.square() + spectra.imag.square()
    return 10 * torch.log10(_FLOOR + power)


def magnitude(decibels: Tensor) -> Tensor:
    r"""Compute :math:`10^{\text{dB} / 20}`, without subtracting :math:`10^{-5}`, as published."""
    return 10 ** (decibels / 20)


def resynthesis(
    predicted: Tensor,  # (frames, 129)
    samples: Tensor,  # (S,)
) -> Tensor:  # (S,)
    """Synthesise speech from predicted powers and the true phases of a recording.

    Args:
        predicted: The prediction at each frame of the decibels of the next frame. The first frame
            is taken from the recording, and the prediction after the last frame is dropped.
        samples: The recording.
    """
    spectra = stft(samples)
    synthesised = torch.polar(magnitude(predicted[:-1]), spectra[1:].angle())
    return istft(torch.cat([spectra[:1], synthesised]), len(samples))


def _soundfile() -> Any:
    check_installed("eigenrnn-experiments[speech]", "a sound file", "soundfile")
    return importlib.import_module("soundfile")


def read_recording(content: bytes, name: str) -> tuple[Tensor, int]:
    """Read a recording with one channel, for instance in RIFF (.wav) or NIST SPHERE format.

    Args:
        content: The whole file.
        name: The name of the file in error messages.
    Returns:
        The samples in [-1, 1), and the sampling rate.
    Raises:
        ValueError: If it is no sound file, or has several channels or no samples.
        ImportError: If soundfile is not installed.
    """
    soundfile = _soundfile()
    try:
        samples, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise ValueError(f"expected a recording in {name}, got: {error.error_string}") from None
    if samples.shape[1] != 1 or not len(samples):
        raise ValueError(
            f"expected samples of one channel in {name}, got {len(samples)} samples of "
            f"{samples.shape[1]} channels"
        )
    return torch.from_numpy(samples[:, 0].copy()), rate


def resample(samples: Tensor, rate: int, name: str) -> Tensor:
    """Resample a recording to 8,000 samples per second, with a low-pass filter.

    Raises:
        ValueError: If the rate is neither 8,000 nor 16,000.
    """
    if rate == RATE:
        return samples
    if rate != 2 * RATE:
        raise ValueError(f"expected {RATE} or {2 * RATE} samples per second in {name}, got {rate}")
    from scipy.signal import resample_poly

    halved = resample_poly(samples.numpy(), 1, 2)
    return torch.from_numpy(np.ascontiguousarray(halved, np.float32))


def wave_bytes(samples: Tensor, rate: int = RATE) -> bytes:
    """Encode a recording as 16-bit RIFF; samples beyond full scale scale the whole recording."""
    loudest = samples.abs().max().clamp(min=1.0)
    file = io.BytesIO()
    _soundfile().write(file, (samples / loudest).numpy(), rate, format="WAV", subtype="PCM_16")
    return file.getvalue()
