"""Recordings with one channel of 16 bits, in RIFF (.wav) or NIST SPHERE files."""

import importlib
import io
import sys
import wave
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eigenrnn.errors import check_installed

__all__ = ["RATE", "read_recording", "resample", "wave_bytes"]

RATE = 8_000
"""The sampling rate of all speech data, in samples per second."""

_FULL_SCALE = 2**15  # of samples of 16 bits
_ORDERS = {"01": "<", "10": ">"}


def read_recording(content: bytes, name: str) -> tuple[Tensor, int]:
    """Read a recording in RIFF or NIST SPHERE format.

    Args:
        content: The whole file.
        name: The name of the file in error messages.

    Returns:
        The samples in [-1, 1), and the sampling rate.

    Raises:
        ValueError: If the file is truncated, or not one channel of 16 bits.
    """
    if not content:
        raise ValueError(f"expected a recording in {name}, got an empty file")
    if content.startswith(b"NIST_1A"):
        raw, rate, order = _read_sphere(content, name)
    elif content.startswith(b"RIFF"):
        raw, rate = _read_riff(content, name)
        order = "<"
    else:
        raise ValueError(f"expected a RIFF or a NIST SPHERE header in {name}, got {content[:8]!r}")
    if not rate:
        raise ValueError(f"expected a sampling rate > 0 in {name}, got 0")
    samples = np.frombuffer(raw, f"{order}i2").astype(np.float32) / _FULL_SCALE
    if not len(samples):
        raise ValueError(f"expected at least one sample in {name}, got none")
    return torch.from_numpy(samples), rate


def resample(samples: Tensor, rate: int, name: str) -> Tensor:
    """Resample a recording to 8,000 samples per second, with a low-pass filter.

    Raises:
        ValueError: If the rate is neither 8,000 nor 16,000.
        ImportError: If scipy is not installed.
    """
    if rate == RATE:
        return samples
    if rate != 2 * RATE:
        raise ValueError(f"expected {RATE} or {2 * RATE} samples per second in {name}, got {rate}")
    check_installed("experiments", f"resampling {name} to {RATE} samples per second", "scipy")
    signal: Any = importlib.import_module("scipy.signal")
    halved = signal.resample_poly(samples.numpy(), 1, 2)
    return torch.from_numpy(np.ascontiguousarray(halved, np.float32))


def wave_bytes(samples: Tensor, rate: int = RATE) -> bytes:
    """Encode a recording as 16-bit RIFF; samples beyond full scale scale the whole recording."""
    loudest = samples.abs().max().clamp(min=1.0)
    scaled = (samples / loudest * (_FULL_SCALE - 1)).round().short()
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(scaled.numpy().astype("<i2").tobytes())
    return file.getvalue()


def _read_riff(content: bytes, name: str) -> tuple[bytes, int]:
    try:
        with wave.open(io.BytesIO(content)) as reader:
            channels, width, rate, count, *_ = reader.getparams()
            raw = reader.readframes(count)
    except (wave.Error, EOFError, RuntimeError) as error:  # RuntimeError: truncated chunk
        raise ValueError(
            f"expected a complete recording of uncompressed samples in {name}, got: "
            f"{error or 'a truncated header'}"
        ) from None
    if (channels, width) != (1, 2):
        raise ValueError(
            f"expected one channel of 16 bits in {name}, got {channels} of {8 * width} bits"
        )
    if len(raw) != 2 * count:
        raise ValueError(
            f"expected {count} samples in {name}, as stated in its header, got "
            f"{len(raw) // 2}; the file is truncated"
        )
    if sys.byteorder == "big":  # the module returns samples in the byte order of the machine
        raw = np.frombuffer(raw, "i2").astype("<i2").tobytes()
    return raw, rate


def _read_sphere(content: bytes, name: str) -> tuple[bytes, int, str]:
    """Read a header of lines `name -type value` up to `end_head`, and the samples after it.

    Raises:
        ValueError: If the file is not of this form.
    """
    lines = content[:1024].decode("ascii", "replace").splitlines()
    if len(lines) < 2 or not lines[1].strip().isdecimal() or "end_head" not in lines:
        raise ValueError(
            f"expected a complete NIST SPHERE header in {name}, got {len(content)} bytes"
        )
    header: dict[str, str] = {}
    for line in lines[2 : lines.index("end_head")]:
        words = line.split(maxsplit=2)  # the name, the type and the value
        if len(words) == 3:
            header[words[0]] = words[2].strip()
    channels = header.get("channel_count")
    width = header.get("sample_n_bytes")
    coding = header.get("sample_coding", "pcm")
    if channels != "1" or width != "2" or coding != "pcm":
        raise ValueError(
            f"expected one channel of two bytes, pcm, in {name}, got {channels} of {width}, "
            f"{coding}; convert it, for example with sph2pipe"
        )
    numbers = [header.get("sample_count", ""), header.get("sample_rate", "")]
    if not all(number.isdecimal() for number in numbers):
        raise ValueError(
            f"expected whole numbers as sample_count and sample_rate in {name}, got {numbers}"
        )
    count, rate = map(int, numbers)
    order = header.get("sample_byte_format", "01")
    begin = content.index(b"end_head") + len(b"end_head")
    if order not in _ORDERS or int(lines[1]) < begin:
        raise ValueError(
            f"expected samples in the byte order 01 or 10 after the header of {begin} bytes in "
            f"{name}, got {order!r} from byte {lines[1].strip()}"
        )
    start = int(lines[1])  # the header states its own size
    raw = content[start : start + 2 * count]
    if len(raw) != 2 * count:
        raise ValueError(
            f"expected {count} samples in {name}, as stated in its header, got "
            f"{len(raw) // 2}; the file is truncated"
        )
    return raw, rate, _ORDERS[order]
