"""A damaged file is refused by name, or gives what its reader promises; nothing else happens."""

import faulthandler
import tracemalloc
import zlib

import numpy as np
import pytest

from damaged import READERS, damaged

FEW, MANY = 20, 250
"""How often each file is damaged: 500 times in all, and several thousand times."""

HANGS_AFTER_S = 300
MOST = 32 * 2**20
"""The bytes that a reader may allocate for any of these files, of which the largest has 4 KiB."""


class Refusal:
    """Lets a reader refuse a file by an error that names it."""

    def __init__(self, named, damage):
        self.named = named
        self.damage = damage
        self.is_refused = False

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.is_refused = isinstance(error, ValueError) and self.named in str(error)
        if error is not None and not self.is_refused:
            error.add_note(f"expected a ValueError that names {self.named}; damage: {self.damage}")
        return self.is_refused


@pytest.fixture(autouse=True)
def watched():
    """Measure what is allocated, and end with the place of a reader that hangs."""
    tracemalloc.start()
    faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    tracemalloc.stop()


def put(folder, reader, content):
    path = folder / reader.path
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def judge(reader, content, folder, damage):
    """Read a damaged file; fail unless it is refused by name, or what it gives is sound."""
    path = put(folder, reader, content)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    with Refusal(str(path if reader.names is None else folder), damage) as refusal:
        read = reader.read(folder)
    assert tracemalloc.get_traced_memory()[1] - before < MOST, damage
    assert refusal.is_refused or reader.is_sound(read), damage
    return refusal.is_refused


def damage_and_judge(name, folder, count):
    """Damage a reader's file so many times; count how often it is refused."""
    reader, rng = READERS[name], np.random.default_rng(zlib.crc32(name.encode()))
    assert not judge(reader, reader.content, folder / "whole", "none")
    refused = 0
    for number in range(count):
        way, content = damaged(reader, rng)
        refused += judge(reader, content, folder / str(number), f"{number}, {way}")
    return refused


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_refused_by_name_or_sound(tmp_path, name):
    damage_and_judge(name, tmp_path, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_files_damaged_in_many_ways_are_refused_by_name_or_sound(tmp_path, name):
    damage_and_judge(name, tmp_path, MANY)


def test_most_damages_are_noticed_where_there_are_checksums(tmp_path):
    assert damage_and_judge("fsdd", tmp_path, FEW) > FEW / 2


@pytest.mark.parametrize("name", ["parquet", "parquet with checksums"])
def test_pyarrow_allocates_little_for_damaged_tables(tmp_path, name):
    pool = pytest.importorskip("pyarrow").default_memory_pool()
    damage_and_judge(name, tmp_path, FEW)
    assert pool.max_memory() < MOST


@pytest.mark.parametrize("name", ["padded npz", "packed text", "riff"])
def test_bytes_all_over_a_file_may_be_flipped(tmp_path, name):
    reader = READERS[name]
    for place in range(0, len(reader.content), 7):
        content = bytearray(reader.content)
        content[place] ^= 0xFF
        judge(reader, content, tmp_path / str(place), f"byte {place}")
