"""A text of the user's own, and a small free one."""

from pathlib import Path
from typing import Literal

import numpy as np

from eigenrnn.experiments.data.corpus import Corpus, number_codes, number_words
from eigenrnn.experiments.data.files import DataFile, locate
from eigenrnn.experiments.data.packed import read_gzip
from eigenrnn.memory import check_memory

__all__ = ["TINY_SHAKESPEARE", "decode", "read_text", "split_text"]

_CHAR_RNN = "https://raw.githubusercontent.com/karpathy/char-rnn"

TINY_SHAKESPEARE = DataFile(
    "tinyshakespeare/input.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    (
        f"{_CHAR_RNN}/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/input.txt",
        f"{_CHAR_RNN}/master/data/tinyshakespeare/input.txt",
    ),
)
"""40,000 lines from plays of Shakespeare, in the public domain."""

_CODES = 0x110000  # of Unicode
_GZIP = b"\x1f\x8b"
_PEAK = 20  # bytes of memory, while a text is numbered, for each of its own
_SMALLER = "train on a part of it"


def read_text(
    path: str | Path | None = None,
    data_root: str | Path | None = None,
) -> str:
    """Read a file in UTF-8, packed by gzip or not; by default Tiny Shakespeare.

    Args:
        path: The file.
        data_root: The folder to look for Tiny Shakespeare in.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is empty, too large for the memory, no text in UTF-8 or no complete
            gzip file.
    """
    path = locate(TINY_SHAKESPEARE, data_root) if path is None else Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"expected a file of text, got {path}, which is not a file")
    with path.open("rb") as stream:
        packed = stream.read(len(_GZIP)) == _GZIP
    if packed:
        content = read_gzip(path, "the text", _PEAK, _SMALLER)
    else:
        check_memory(_PEAK * path.stat().st_size, f"the text in {path}", _SMALLER)
        content = path.read_bytes()
    text = decode(content, path)
    if not text:
        raise ValueError(f"expected a text in {path}, got an empty file")
    return text


def decode(content: bytes, path: Path) -> str:
    """Read bytes as UTF-8, all ends of lines as newlines.

    Raises:
        ValueError: If they are no UTF-8; names the file, the byte and its line.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"expected text in UTF-8 in {path}, got the byte 0x{content[error.start]:02x} at "
            f"offset {error.start}, in line {line} ({error.reason}); convert the file, as by "
            "iconv -f latin1 -t utf-8, or mend that place"
        ) from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def split_text(
    text: str, unit: Literal["characters", "words"], held_out: tuple[float, float]
) -> Corpus:
    """Number the symbols of a text, and cut it into train, validation and test.

    Args:
        text: The text.
        unit: What a symbol is; words are what white space parts.
        held_out: The shares of the symbols, at the end, that are for validation and for test.
    """
    if unit == "words":
        symbols, numbers = number_words(text)
    else:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        symbols, table = number_codes([codes], _CODES)
        numbers = table.astype(np.int32).take(codes)
    validation, test = (int(share * len(numbers)) for share in held_out)
    cuts = [len(numbers) - validation - test, len(numbers) - test]
    names = ("train", "validation", "test")
    return Corpus(symbols, dict(zip(names, np.split(numbers, cuts), strict=True)))
