"""Random streams that are a pure function of a seed and of what they are for."""

import zlib

import numpy as np
import torch
from torch import Tensor

__all__ = ["stream", "uniforms"]


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


def uniforms(
    seeds: Tensor,  # (B,)
    count: int,
) -> Tensor:  # (count, B)
    """Draw the first numbers, uniform in [0, 1), of as many streams as there are seeds.

    A stream is that of SplitMix64, whose k-th number is a function of the seed and k: a set of
    long sequences of noise can be kept as one seed a sequence. The numbers are multiples of 2^-24,
    as torch's are in single precision.

    Args:
        seeds: Any 64 bits each.
        count: The length of each stream.

    Source:
        Steele, Lea and Flood, OOPSLA 2014. https://doi.org/10.1145/2660193.2660195
    """
    steps = np.arange(1, count + 1, dtype=np.uint64)[:, None]
    mixed = seeds.numpy().view(np.uint64) + steps * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = (mixed ^ (mixed >> np.uint64(31))) >> np.uint64(40)
    return torch.from_numpy(mixed.astype(np.float32) * np.float32(2**-24))
