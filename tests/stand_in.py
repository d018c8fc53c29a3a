"""A text that passes for enwik8, which is too large to keep beside the tests."""

import hashlib
from contextlib import contextmanager

import numpy as np
import pytest

from eigenrnn.experiments.data import DataFile, enwik8

SIZE = 200_000


def wikipedia(size=SIZE):
    """Bytes as uneven in their frequencies as those of a text, newlines among them."""
    generator = np.random.default_rng(0)
    alphabet = np.frombuffer(b"\n etaoinshrdluETAOIN[]='|<>&;0123456789\xc3\xa9", np.uint8)
    weights = 1 / np.arange(1, len(alphabet) + 1)
    return generator.choice(alphabet, size, p=weights / weights.sum()).tobytes()


@contextmanager
def taken_for_enwik8(content, folder):
    """Write a file into a folder, and let its checksum be that of enwik8."""
    (folder / "enwik8").write_bytes(content)
    file = DataFile("enwik8/enwik8", hashlib.sha256(content).hexdigest(), ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enwik8, "FILE", file)
        yield folder
