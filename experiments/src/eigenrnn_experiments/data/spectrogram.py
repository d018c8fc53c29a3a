r"""Short-time Fourier transforms of speech, power spectra in decibels, and resynthesis."""

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "BINS",
    "FLOOR_DB",
    "HOP",
    "WINDOW",
    "decibels",
    "istft",
    "magnitude",
    "resynthesis",
    "stft",
]

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
