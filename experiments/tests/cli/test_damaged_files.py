"""A damaged file is rejected by name or read as valid data, without any other effect."""

import faulthandler
import json
import zlib

import numpy as np
import pytest
from damaged_files import READERS, damaged

from eigenrnn_experiments.cli.analyse import delete_earlier_files

FEW, MANY = 20, 250
"""The number of damaged versions of each file: 500 over all files, and several thousand."""

HANGS_AFTER_S = 300


class Rejection:
    """Accepts a ValueError that names the file."""

    def __init__(self, named, damage):
        self.named = named
        self.damage = damage
        self.is_rejected = False

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.is_rejected = isinstance(error, ValueError) and self.named in str(error)
        if error is not None and not self.is_rejected:
            error.add_note(f"expected a ValueError that names {self.named}; damage: {self.damage}")
        return self.is_rejected


@pytest.fixture(autouse=True)
def watched():
    """Print the traceback of a reader that hangs."""
    faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def put(folder, reader, content):
    path = folder / reader.path
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def check_damaged(reader, content, folder, damage):
    """Read a damaged file; fail unless it is rejected by name or the data are valid."""
    path = put(folder, reader, content)
    with Rejection(str(path if reader.names is None else folder), damage) as rejection:
        read = reader.read(folder)
    assert rejection.is_rejected or reader.is_valid(read), damage
    return rejection.is_rejected


def check_damaged_copies(name, folder, count):
    """Damage a reader's file `count` times; return how often it is rejected."""
    reader, rng = READERS[name], np.random.default_rng(zlib.crc32(name.encode()))
    assert not check_damaged(reader, reader.content, folder / "whole", "none")
    rejected = 0
    for number in range(count):
        way, content = damaged(reader, rng)
        rejected += check_damaged(reader, content, folder / str(number), f"{number}, {way}")
    return rejected


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_rejected_by_name_or_valid(tmp_path, name):
    check_damaged_copies(name, tmp_path, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_files_damaged_in_many_ways_are_rejected_by_name_or_valid(tmp_path, name):
    check_damaged_copies(name, tmp_path, MANY)


@pytest.mark.parametrize("found", [3, None, [1]], ids=str)
def test_a_summary_of_an_analysis_with_other_types_is_rejected_by_name(tmp_path, found):
    (tmp_path / "summary.json").write_text(json.dumps({"found": found}))
    with pytest.raises(ValueError, match=r"summary\.json.*\$\.found"):
        delete_earlier_files(tmp_path)


@pytest.mark.parametrize("name", ["text"])
def test_flipped_bytes_anywhere_are_handled(tmp_path, name):
    reader = READERS[name]
    for place in range(0, len(reader.content), 7):
        content = bytearray(reader.content)
        content[place] ^= 0xFF
        check_damaged(reader, content, tmp_path / str(place), f"byte {place}")
