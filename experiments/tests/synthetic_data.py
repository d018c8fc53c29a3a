"""Synthetic stand-ins for data that is too large or too slow to obtain in tests."""

import hashlib
from contextlib import contextmanager

import numpy as np
import pytest

from eigenrnn_experiments.data import DataFile, corpora
from eigenrnn_experiments.data.car_racing import ACTIONS, ENCODED, Z_SIZE, Encoded


def encoded_drives(rollouts=30, steps=6):
    generator = np.random.default_rng(0)
    numbers = generator.standard_normal((rollouts, steps, 2 * Z_SIZE + ACTIONS), np.float32)
    mu, logvar, action = np.split(numbers, (Z_SIZE, 2 * Z_SIZE), axis=-1)
    means = np.linspace(-1, 1, Z_SIZE, dtype=np.float32)
    return Encoded(mu + means, logvar - 1, action)


def write_drives(folder, drives):
    (folder / ENCODED).write_bytes(drives.to_bytes())
    return folder


SIZE = 200_000


def synthetic_enwik8(size=SIZE):
    """Random bytes with the uneven frequencies of a text, including newlines."""
    generator = np.random.default_rng(0)
    alphabet = np.frombuffer(b"\n etaoinshrdluETAOIN[]='|<>&;0123456789\xc3\xa9", np.uint8)
    weights = 1 / np.arange(1, len(alphabet) + 1)
    return generator.choice(alphabet, size, p=weights / weights.sum()).tobytes()


@contextmanager
def patched_enwik8(content, folder):
    """Write a file into a folder, and patch the checksum of enwik8 to match."""
    (folder / "enwik8").write_bytes(content)
    file = DataFile("enwik8/enwik8", hashlib.sha256(content).hexdigest(), ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "ENWIK8", file)
        yield folder
