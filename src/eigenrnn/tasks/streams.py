"""Random streams that are a pure function of a seed and of what they are for."""

import zlib

import numpy as np
import torch

__all__ = ["stream"]


def stream(seed: int, *keys: int | str) -> torch.Generator:
    """Make the generator that belongs to a seed and a purpose.

    The seed and the keys are mixed by the hash of `numpy.random.SeedSequence`, so that seeds 0 and
    1, or steps 0 and 1, give unrelated streams, and any step can be drawn without those before it.
    Words keep purposes apart: `stream(0, "train", 3)` shares nothing with `stream(0, "test", 3)`.

    Args:
        seed: The seed of a run or of a set of data.
        keys: What the stream is for: words, and non-negative numbers such as a step.

    Raises:
        ValueError: If the seed is negative.
    """
    if seed < 0:
        raise ValueError(f"expected seed >= 0, got {seed}")
    numbers = [zlib.crc32(key.encode()) if isinstance(key, str) else key for key in keys]
    # torch's generator on the CPU reads 32 bits of its seed: among 10,000 steps two are the same
    # draw in about one run of a hundred, which no training can notice.
    (mixed,) = np.random.SeedSequence(seed, spawn_key=numbers).generate_state(1)
    return torch.Generator().manual_seed(int(mixed))
