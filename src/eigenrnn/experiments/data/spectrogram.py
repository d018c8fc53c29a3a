r"""Short-time Fourier transforms of speech, their powers in decibels, and the way back."""

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "BINS",
    "FLOOR_DB",
    "HOP",
    "WINDOW",
    "decibels",
    "frame_count",
    "istft",
    "magnitude",
    "resynthesis",
    "stft",
]

WINDOW, HOP = 256, 128
BINS = WINDOW // 2 + 1
FLOOR_DB = -50.0
"""The decibels of silence: those of the floor that is added to every power."""

_FLOOR = 1e-5


def frame_count(samples: int) -> int:
    """Count the frames of a recording."""
    return -(-samples // HOP) + WINDOW // HOP + 1


def stft(
    samples: Tensor,  # (S,)
) -> Tensor:  # (frames, 129), complex
    """Transform frames of 256 samples under a periodic Hann window, one every 128 samples.

    Zeros are put behind, up to a whole number of hops, and then a window's length at both ends, so
    that the first and the last frame are silent and every sample lies under two frames.
    """
    behind = -len(samples) % HOP
    padded = F.pad(samples, (WINDOW, behind + WINDOW))
    frames = padded.unfold(0, WINDOW, HOP)
    return torch.fft.rfft(frames * _hann(samples), dim=1)


def istft(
    spectra: Tensor,  # (frames, 129), complex
    samples: int,
) -> Tensor:  # (S,)
    """Add the frames up again, each under its window, and divide by the sum of squared windows.

    It is the signal whose transform is nearest to `spectra`, in the mean over all of them.

    Source:
        Griffin and Lim, IEEE Transactions on ASSP 32(2), 1984.
        https://doi.org/10.1109/TASSP.1984.1164317
    """
    window = _hann(spectra.real)
    frames = torch.fft.irfft(spectra, WINDOW, dim=1) * window
    total = _overlap_add(frames)
    weight = _overlap_add(window.square().expand_as(frames))
    # where no window reaches, at the very ends, there is no signal either
    signal = torch.where(weight > 1e-8, total / weight.clamp(min=1e-8), total)
    return signal[WINDOW : WINDOW + samples]


def decibels(spectra: Tensor) -> Tensor:
    r"""Compute :math:`10 \log_{10}(10^{-5} + |X|^2)`."""
    power = spectra.real.square() + spectra.imag.square()
    return 10 * torch.log10(_FLOOR + power)


def magnitude(decibels: Tensor) -> Tensor:
    r"""Compute :math:`10^{\text{dB} / 20}`; the floor stays in it, as in the published scores."""
    return 10 ** (decibels / 20)


def resynthesis(
    predicted: Tensor,  # (frames, 129)
    samples: Tensor,  # (S,)
) -> Tensor:  # (S,)
    """Make the sound of predicted powers with the true phases of a recording.

    Args:
        predicted: In each frame the decibels of the frame after it. The first frame, which nothing
            predicts, is that of the recording, and what is predicted after the last is left out.
        samples: The recording.
    """
    spectra = stft(samples)
    spoken = torch.polar(magnitude(predicted[:-1]), spectra[1:].angle())
    return istft(torch.cat([spectra[:1], spoken]), len(samples))


def _hann(like: Tensor) -> Tensor:
    return torch.hann_window(WINDOW, periodic=True, dtype=like.dtype, device=like.device)


def _overlap_add(
    frames: Tensor,  # (frames, 256)
) -> Tensor:
    length = WINDOW + HOP * (len(frames) - 1)
    columns = frames.T.unsqueeze(0)
    return F.fold(columns, (1, length), (1, WINDOW), stride=(1, HOP)).flatten()
