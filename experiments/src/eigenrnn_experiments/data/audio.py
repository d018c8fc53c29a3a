"""Recordings of speech, read and written by soundfile and resampled by scipy."""

import importlib
import io
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eigenrnn.errors import check_installed

__all__ = ["RATE", "read_recording", "resample", "wave_bytes"]

RATE = 8_000
"""The sampling rate of all speech data, in samples per second."""


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
