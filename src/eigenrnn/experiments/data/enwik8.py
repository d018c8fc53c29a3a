"""The first 100 million bytes of an English Wikipedia dump, mapped into memory."""

import hashlib
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pooch  # it has none, nor a py.typed

from eigenrnn.errors import ChecksumError, MissingDataError
from eigenrnn.experiments.data.corpus import Corpus, number_codes
from eigenrnn.experiments.data.files import DataFile, locate

__all__ = ["FILE", "ZIP", "open_enwik8"]

FILE = DataFile(
    "enwik8/enwik8",
    "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8",
    (),
)
"""The text, 100,000,000 bytes; it is published packed only."""

ZIP = DataFile(
    "enwik8/enwik8.zip",
    "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
    ("https://mattmahoney.net/dc/enwik8.zip", "https://data.deepai.org/enwik8.zip"),
)


def open_enwik8(data_root: str | Path | None = None, length: int | None = None) -> Corpus:
    """Open enwik8: bytes, of which 90 % are to train on, 5 % to validate and 5 % to test.

    The text is looked for as `enwik8` and as `enwik8.zip`, which is unpacked, once, into the
    cache. It stays on the disk, and the system maps into memory what is read of it.

    Args:
        data_root: The folder to look in; see `eigenrnn.experiments.data.locate` for where else.
        length: The number of bytes at its beginning that are used; all by default.

    Raises:
        MissingDataError: If the file is nowhere and cannot be downloaded.
        ChecksumError: If the file is not the published one.

    Source:
        Mahoney, Large text compression benchmark, 2006. https://mattmahoney.net/dc/textdata.html
    """
    whole = np.memmap(_located(data_root), np.uint8, mode="r")
    # numbered by the whole, so that a shorter text has the same symbols
    symbols, table = number_codes([whole], 256)
    text = whole[:length]
    train, held_out = len(text) * 9 // 10, len(text) // 20
    ends = {"train": train, "validation": train + held_out, "test": len(text)}
    begins = [0, *ends.values()]
    parts = {
        part: text[begin:end] for begin, (part, end) in zip(begins, ends.items(), strict=False)
    }
    return Corpus(symbols, parts, table)


def _located(data_root: str | Path | None) -> Path:
    try:
        return locate(FILE, data_root)
    except MissingDataError:
        packed = locate(ZIP, data_root)
    try:
        return locate(FILE)
    except MissingDataError:
        return _unpack(packed, Path(pooch.os_cache("eigenrnn")) / FILE.path)


def _unpack(packed: Path, target: Path) -> Path:
    """Write the text where it can be mapped, whole or not at all.

    Raises:
        ChecksumError: If it is not the published one.
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
                f"got {found}; delete the archive and let it be downloaded again"
            )
        return Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)
