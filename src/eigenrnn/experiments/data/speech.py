"""The corpora of speech, by name."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from eigenrnn.experiments.data.files import absent
from eigenrnn.experiments.data.fsdd import FSDD, read_fsdd
from eigenrnn.experiments.data.timit import SAMPLE, has_timit, read_timit, read_timit_sample

__all__ = ["CORPORA", "Corpus", "missing_speech", "read_speech"]

Corpus = Literal["fsdd", "timit", "timit_sample"]

CORPORA: dict[Corpus, Callable[[Any, str | Path | None], Iterator[tuple[str, Tensor]]]] = {
    "fsdd": read_fsdd,
    "timit": read_timit,
    "timit_sample": read_timit_sample,
}
"""The readers, each of which yields names and samples."""


def read_speech(
    corpus: Corpus, split: str, data_root: str | Path | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the samples of each recording, at 8,000 samples a second.

    Args:
        corpus: The name of the corpus.
        split: `train`, `validation` or `test`.
        data_root: The folder to look in; see `eigenrnn.experiments.data.locate` for where else.
    """
    return CORPORA[corpus](split, data_root)


def missing_speech(corpus: Corpus, data_root: str | Path | None = None) -> str | None:
    """Name the file or folder of a corpus that is not on this machine, or return None."""
    if corpus == "timit":
        return None if has_timit(data_root) else "timit/TRAIN, of LDC93S1"
    return absent([FSDD if corpus == "fsdd" else SAMPLE], data_root)
