"""TIMIT: the user's own licensed copy, and the small sample of it that may be passed on."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from torch import Tensor

from eigenrnn.errors import MissingDataError
from eigenrnn.experiments.data.audio import at_rate, read_recording
from eigenrnn.experiments.data.files import DATA_VARIABLE, DataFile, locate
from eigenrnn.experiments.data.packed import read_members

__all__ = ["CORE_TEST", "DEVELOPMENT", "SAMPLE", "has_timit", "read_timit", "read_timit_sample"]

Split = Literal["train", "validation", "test"]


def _speakers(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


DEVELOPMENT = _speakers(
    "fadg0 faks0 fcal1 fcmh0 fdac1 fdms0 fdrw0 fedw0 fgjd0 fjem0 fjmg0 fjsj0 fkms0 fmah0",
    "fmml0 fnmr0 frew0 fsem0 majc0 mbdg0 mbns0 mbwm0 mcsh0 mdlf0 mdls0 mdvc0 mers0 mgjf0",
    "mglb0 mgwt0 mjar0 mjfc0 mjsw0 mmdb1 mmdm2 mmjr0 mmwh0 mpdf0 mrcs0 mreb0 mrjm4 mrjr0",
    "mroa0 mrtk0 mrws1 mtaa0 mtdt0 mteb0 mthc0 mwjg0",
)
"""The 50 speakers of the test part whose sentences are for validation."""

CORE_TEST = _speakers(
    "fdhc0 felc0 fjlm0 fmgd0 fmld0 fnlp0 fpas0 fpkt0 mbpm0 mcmj0 mdab0 mgrt0 mjdh0 mjln0",
    "mjmp0 mklt0 mlll0 mlnt0 mnjm0 mpam0 mtas1 mtls0 mwbt0 mwew0",
)
"""The 24 speakers of the core test set."""

_SENTENCES = {"train": 3_696, "validation": 400, "test": 192}


def _is_recording(name: str) -> bool:
    return name.endswith(".wav")


def _digest(path: Path) -> str:
    """Compute the checksum of the samples of all recordings, in the order of their names."""
    content = hashlib.sha256()
    try:
        for name, recording in read_members(path, _is_recording):
            samples, _ = read_recording(recording, f"{name} of {path}")
            content.update(samples.numpy().astype("<f4").tobytes())
    except ValueError as error:
        return f"none ({error})"
    return content.hexdigest()


SAMPLE = DataFile(
    "timit-sample/timit-sample.zip",
    "352eed75b9f8c94c981cdca09a1fcf91f4d99056376640259107d842322d92b6",
    (
        "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/timit.zip",
        "https://github.com/nltk/nltk_data/raw/gh-pages/packages/corpora/timit.zip",
    ),
    _digest,
)
"""Any zip file with these 160 recordings, some of which are published behind another header."""

_SAMPLE_REGIONS: dict[Split, tuple[str, ...]] = {
    "train": ("dr1", "dr2", "dr3", "dr4", "dr5", "dr6"),
    "validation": ("dr7",),
    "test": ("dr8",),
}


def read_timit(split: Split, data_root: str | Path | None = None) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the samples of each sentence of the user's own copy, without the SA ones.

    Training takes the 462 speakers of the training part, validation and test the listed ones of
    the test part. Names of folders and files may be of either case, and the recordings as the
    corpus has them (NIST SPHERE in `.WAV`) or converted to RIFF (`.wav`, or `.WAV.wav`).

    Args:
        split: Which part.
        data_root: The folder with `timit` in it, or that folder itself; by default the one that
            the environment variable `EIGENRNN_DATA` names.

    Raises:
        MissingDataError: If there is no copy, or it is not complete.

    Source:
        Garofolo et al., LDC93S1, 1993. https://catalog.ldc.upenn.edu/LDC93S1; the speakers as in
        Halberstadt and Glass, ICSLP 1998.
    """
    part = _part(split, data_root)
    chosen = {"train": None, "validation": DEVELOPMENT, "test": CORE_TEST}[split]
    files = dict(_sentences(part, chosen))
    if len(files) != _SENTENCES[split]:
        raise MissingDataError(
            f"expected {_SENTENCES[split]} sentences (SX and SI) for {split} below {part}, got "
            f"{len(files)}; the copy of TIMIT is not complete"
        )
    for name, path in sorted(files.items()):
        samples, rate = read_recording(path.read_bytes(), str(path))
        yield name, at_rate(samples, rate, str(path))


def has_timit(data_root: str | Path | None = None) -> bool:
    """Whether there is a folder that may be the user's own copy."""
    try:
        _part("train", data_root)
    except MissingDataError:
        return False
    return True


def read_timit_sample(
    split: Split, data_root: str | Path | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the samples of each sentence of the sample, without the SA ones.

    It holds two speakers of each of eight regions; those of the seventh are for validation, those
    of the eighth for the test. It is too small for any number to be compared with those of TIMIT.

    Args:
        split: Which part.
        data_root: The folder to look in; see `eigenrnn.experiments.data.locate` for where else.

    Raises:
        MissingDataError: If the file is nowhere and cannot be downloaded.
        ChecksumError: If the file is not the published one.

    Source:
        Garofolo et al., LDC93S1, 1993, in the selection of the Natural Language Toolkit.
    """
    path = locate(SAMPLE, data_root)
    for name, content in read_members(path, _is_recording):
        folder, _, file = name.removeprefix("timit/").partition("/")
        if folder[:3] in _SAMPLE_REGIONS[split] and not file.startswith("sa"):
            place = f"{name} of {path}"
            samples, rate = read_recording(content, place)
            yield f"{folder}-{file.removesuffix('.wav')}", at_rate(samples, rate, place)


def _part(split: Split, data_root: str | Path | None) -> Path:
    """Find the folder TRAIN or TEST.

    Raises:
        MissingDataError: If there is none.
    """
    named = os.environ.get(DATA_VARIABLE) if data_root is None else data_root
    wanted = "train" if split == "train" else "test"
    if named:
        root = Path(named).expanduser()
        for folder in (root, *_folders(root, "timit"), *_folders(root, "timit", "timit")):
            for part in _folders(folder, wanted):
                return part
    place = f"below {named}" if named else f"as data_root or in ${DATA_VARIABLE}"
    raise MissingDataError(
        f"expected a folder timit/{wanted.upper()}, with DR1/FCJF0/SX127.WAV and so on, {place}, "
        "got none; TIMIT is licensed: buy it as LDC93S1 at https://catalog.ldc.upenn.edu/LDC93S1 "
        "and copy its folders TRAIN and TEST there as they are, or take the free corpus='fsdd'"
    )


def _folders(root: Path, *names: str) -> list[Path]:
    """List the folders of a name, in either case, below each other."""
    found = [root]
    for name in names:
        inside = [each for folder in found if folder.is_dir() for each in folder.iterdir()]
        found = [each for each in inside if each.name.lower() == name and each.is_dir()]
    return found


def _sentences(part: Path, speakers: frozenset[str] | None) -> Iterator[tuple[str, Path]]:
    """Yield the sentences of some speakers, or of all: `dr1-fcjf0-sx127` and the file.

    Of a sentence that is there in both layouts the last by name counts; their samples are equal.
    """
    for path in sorted(part.glob("*/*/*")):
        sentence, _, endings = path.name.lower().partition(".")
        speaker = path.parent.name.lower()
        if endings not in ("wav", "wav.wav") or sentence.startswith("sa"):
            continue
        if speakers is None or speaker in speakers:
            yield f"{path.parent.parent.name.lower()}-{speaker}-{sentence}", path
