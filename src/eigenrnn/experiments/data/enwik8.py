"""The first 100 million bytes of an English Wikipedia dump, mapped into memory."""

import hashlib
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pooch  # no stubs and no py.typed

from eigenrnn.errors import ChecksumError, MissingDataError
from eigenrnn.experiments.data.files import DataFile, locate
from eigenrnn.experiments.data.text import Corpus, index_characters

__all__ = ["FILE", "ZIP", "open_enwik8"]

FILE = DataFile(
    "enwik8/enwik8",
    "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8",
    (),
)
"""The text of 100,000,000 bytes; only the zip file has download addresses."""

ZIP = DataFile(
    "enwik8/enwik8.zip",
    "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
    ("https://mattmahoney.net/dc/enwik8.zip", "https://data.deepai.org/enwik8.zip"),
)


def open_enwik8(data_root: str | Path | None = None, length: int | None = None) -> Corpus:
    """Open enwik8: 90 % of its bytes for training, 5 % for validation and 5 % for the test.

    The text is searched for as `enwik8` and as `enwik8.zip`, which is extracted once into the
    cache. The file is memory-mapped.

    Args:
        data_root: The only folder to search; see `eigenrnn.experiments.data.locate`.
        length: The number of bytes that are used, from the first on; all by default.

    Raises:
        MissingDataError: If the file is not found and cannot be downloaded.
        ChecksumError: If the file has another checksum.

    Source:
        Mahoney, Large text compression benchmark, 2006. https://mattmahoney.net/dc/textdata.html
    """
    whole = np.memmap(_locate_text(data_root), np.uint8, mode="r")
    # index the whole text, so that a shorter one has the same symbols
    symbols, table = index_characters([whole], 256)
    text = whole[:length]
    train, held_out = len(text) * 9 // 10, len(text) // 20
    ends = {"train": train, "validation": train + held_out, "test": len(text)}
    begins = [0, *ends.values()]
    parts = {
        part: text[begin:end] for begin, (part, end) in zip(begins, ends.items(), strict=False)
    }
    return Corpus(symbols, parts, table)


def _locate_text(data_root: str | Path | None) -> Path:
    try:
        return locate(FILE, data_root)
    except MissingDataError:
        packed = locate(ZIP, data_root)
    try:
        return locate(FILE)
    except MissingDataError:
        return _unpack(packed, Path(pooch.os_cache("eigenrnn")) / FILE.path)


def _unpack(packed: Path, target: Path) -> Path:
    """Extract the text atomically, so that it can be memory-mapped.

    Raises:
        ChecksumError: If the text has another checksum.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent)
    try:
        with (
            zipfile.ZipFile(packed) as archive,
            archive.open(target.name) as source,
            os.fdopen(handle, "w+b") as sink,
        ):
            shutil.copyfileobj(source, sink, 2**20)
            sink.seek(0)
            found = hashlib.file_digest(sink, "sha256").hexdigest()
        if found != FILE.sha256:
            raise ChecksumError(
                f"expected {target.name} in {packed} to have the sha256 {FILE.sha256}, "
                f"got {found}; delete the archive, so that it is downloaded again"
            )
        return Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)
