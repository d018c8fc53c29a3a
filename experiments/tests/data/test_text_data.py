"""Texts are read as published, or rejected with file and position."""

import gzip
import hashlib
import tracemalloc
import zipfile

import numpy as np
import pooch
import pytest

from eigenrnn_experiments.data import DataFile, corpora
from eigenrnn_experiments.data.corpora import (
    END_OF_LINE,
    ENWIK8_ZIP,
    open_enwik8,
    read_ptb_characters,
    read_ptb_words,
    read_text,
    split_text,
)
from synthetic_data import patched_enwik8, synthetic_enwik8

PARTS = {"train": "train", "validation": "valid", "test": "test"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    return tmp_path / "cache" / "eigenrnn"


@pytest.fixture(scope="module")
def characters(data_root):
    return read_ptb_characters(data_root)


@pytest.fixture(scope="module")
def words(data_root):
    return read_ptb_words(data_root)


def written(read, part, joint=""):
    """A split as text."""
    symbols = [joint if symbol == END_OF_LINE else symbol for symbol in read.symbols]
    return [symbols[number] for number in read.to_indices(read.parts[part])]


@pytest.mark.parametrize("part", ["validation", "test"])
def test_characters_of_ptb_spell_the_words_of_ptb(data_root, characters, part):
    lines = (data_root / "ptb" / f"ptb.{PARTS[part]}.txt").read_text().splitlines()
    expected = "".join(line.strip() + "\n" for line in lines)
    assert "".join(written(characters, part, "\n")) == expected


def test_ptb_in_characters_has_its_published_size(characters):
    assert [len(part) for part in characters.parts.values()] == [5_017_482, 393_042, 442_423]
    assert len(characters.symbols) == 50
    assert characters.symbols[-1] == END_OF_LINE
    assert characters.counts("train")[-1] == 42_068
    assert (characters.counts("train") > 0).all()


def test_ptb_in_words_has_its_published_size(words):
    assert [len(part) for part in words.parts.values()] == [929_589, 73_760, 82_430]
    assert len(set(words.symbols)) == len(words.symbols) == 10_000
    assert [words.counts(part)[-1] for part in PARTS] == [42_068, 3_370, 3_761]
    assert (words.counts("train") > 0).all()


@pytest.mark.parametrize("part", PARTS)
def test_ptb_in_words_is_read_word_for_word(data_root, words, part):
    text = (data_root / "ptb" / f"ptb.{PARTS[part]}.txt").read_text()
    expected = [word for line in text.splitlines() for word in [*line.split(), "\n"]]
    assert written(words, part, "\n") == expected


def test_character_files_may_be_uncompressed(data_root, tmp_path, characters):
    for part in PARTS.values():
        packed = (data_root / "ptb" / f"ptb.char.{part}.txt.gz").read_bytes()
        (tmp_path / f"ptb.char.{part}.txt").write_bytes(gzip.decompress(packed))
    read = read_ptb_characters(tmp_path)
    assert read.symbols == characters.symbols
    np.testing.assert_array_equal(read.parts["test"], characters.parts["test"])


def test_tiny_shakespeare_has_its_published_size(data_root):
    text = read_text(data_root=data_root)
    assert len(text) == 1_115_394
    read = split_text(text, "characters", (0.05, 0.05))
    assert len(read.symbols) == 65
    assert sum(read.counts(part)[-1] for part in PARTS) == 40_000
    assert [len(part) for part in read.parts.values()] == [1_003_856, 55_769, 55_769]
    assert "".join(written(read, "test", "\n")) == text[-55_769:]


def test_a_text_may_be_compressed_and_have_any_line_ends(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffdéjà\r\nvu 日本\n".encode())
    assert read_text(path) == "déjà\nvu 日本\n"
    path.write_bytes(b"one\rtwo\r\n\rthree")
    assert read_text(path) == "one\ntwo\n\nthree"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert read_text(str(path)) == "one\ntwo\n"


def test_words_are_indexed_by_frequency_and_line_ends_last():
    read = split_text("b a b\na b c\n" * 2, "words", (0.25, 0.25))
    assert read.symbols == ("b", "a", "c", END_OF_LINE)
    assert [part.tolist() for part in read.parts.values()] == [
        [0, 1, 0, 3, 1, 0, 2, 3],
        [0, 1, 0, 3],
        [1, 0, 2, 3],
    ]


def test_characters_are_indexed_by_code_and_line_ends_last():
    read = split_text("b日a\n" * 4, "characters", (0.25, 0.25))
    assert read.symbols == ("a", "b", "日", END_OF_LINE)
    assert read.parts["validation"].tolist() == [1, 2, 0, 3]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_text_in_utf16_is_rejected_with_the_command_that_converts_it(tmp_path, encoding):
    path = tmp_path / "a.txt"
    path.write_bytes("plain\ntext\n".encode(encoding))
    with pytest.raises(ValueError, match="iconv -f utf-16"):
        read_text(path)


def test_a_text_not_in_utf8_is_rejected_with_byte_and_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"plain\nna\xefve\n")
    message = r"expected text in UTF-8 in .*a\.txt, got: .* byte 0xef in position 8: .*iconv"
    with pytest.raises(ValueError, match=message):
        read_text(path)


def test_empty_and_missing_texts_are_rejected(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"")
    with pytest.raises(ValueError, match="got an empty file"):
        read_text(tmp_path / "a.txt")
    with pytest.raises(FileNotFoundError, match=r"got .*b\.txt"):
        read_text(tmp_path / "b.txt")


def test_enwik8_is_divided_into_nine_tenths_and_two_twentieths(tmp_path):
    content = synthetic_enwik8(10_000)
    with patched_enwik8(content, tmp_path):
        read, short = open_enwik8(tmp_path), open_enwik8(tmp_path, 1_000)
    assert isinstance(read.parts["train"], np.memmap)
    cuts = {"train": content[:9_000], "validation": content[9_000:9_500], "test": content[9_500:]}
    assert {name: bytes(part) for name, part in read.parts.items()} == cuts
    assert bytes(short.parts["test"]) == content[950:1_000]
    assert short.symbols == read.symbols
    assert read.symbols == (*map(chr, sorted(set(content) - {10})), END_OF_LINE)
    text = "".join(written(read, "test", "\n"))
    assert text == content[9_500:].decode("latin1")
    counts = [content[:9_000].count(ord(symbol)) for symbol in read.symbols[:-1]]
    assert read.counts("train").tolist() == [*counts, content[:9_000].count(b"\n")]


def pack(folder, content, monkeypatch, member="enwik8"):
    """Write an archive into a folder, and patch the published checksum to match."""
    with zipfile.ZipFile(folder / "enwik8.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
    sha256 = hashlib.sha256((folder / "enwik8.zip").read_bytes()).hexdigest()
    file = DataFile("enwik8/enwik8.zip", sha256, ENWIK8_ZIP.urls)
    monkeypatch.setattr(corpora, "ENWIK8_ZIP", file)


def test_a_compressed_enwik8_is_extracted_once_into_the_cache(tmp_path, cache, monkeypatch):
    content = synthetic_enwik8(5_000)
    sha256 = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(corpora, "ENWIK8", DataFile("enwik8/enwik8", sha256, ()))
    pack(tmp_path, content, monkeypatch)
    read = open_enwik8(tmp_path)
    assert bytes(read.parts["train"]) == content[:4_500]
    unpacked = cache / "enwik8" / "enwik8"
    written_at = unpacked.stat().st_mtime_ns
    open_enwik8(tmp_path)
    assert unpacked.stat().st_mtime_ns == written_at
    assert [*unpacked.parent.iterdir()] == [unpacked]


def test_enwik8_is_never_held_in_memory(tmp_path):
    size = 8_000_000
    with patched_enwik8(synthetic_enwik8(size), tmp_path):
        tracemalloc.start()
        read = open_enwik8(tmp_path)
        read.counts("train")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < size / 4
