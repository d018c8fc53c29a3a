"""Speech corpora: the Free Spoken Digit Dataset, TIMIT, and a free sample of TIMIT."""

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from torch import Tensor

from eigenrnn_experiments.data.archives import read_members
from eigenrnn_experiments.data.audio import read_recording, resample
from eigenrnn_experiments.data.files import DATA_VARIABLE, DataFile, locate, missing_file
from eigenrnn_experiments.errors import MissingDataError

__all__ = [
    "CORE_TEST",
    "CORPORA",
    "DEVELOPMENT",
    "FSDD",
    "TIMIT_SAMPLE",
    "SpeechCorpus",
    "missing_speech",
    "read_fsdd",
    "read_timit",
    "read_timit_sample",
]


Split = Literal["train", "validation", "test"]

_GITHUB = "https://github.com/Jakobovski/free-spoken-digit-dataset/archive"


def _is_fsdd_recording(name: str) -> bool:
    path = PurePosixPath(name)
    return path.parent.name == "recordings" and path.suffix == ".wav"


def _digest(path: Path, is_selected: Callable[[str], bool], *, of_samples: bool) -> str:
    """Compute the checksum of all recordings, in the order of their names.

    It is that of their samples where the headers of the published files differ.
    """
    content = hashlib.sha256()
    try:
        for name, recording in read_members(path, is_selected):
            if of_samples:
                samples, _ = read_recording(recording, f"{name} of {path}")
                recording = samples.numpy().astype("<f4").tobytes()  # noqa: PLW2901
            content.update(recording)
    except ValueError as error:
        return f"none ({error})"
    return content.hexdigest()


FSDD = DataFile(
    "fsdd/fsdd-recordings.zip",
    "ddb17656a0bca4c5ddace082be188ca630516dc2ef1110afe3c4e9cc71173de4",
    (
        f"{_GITHUB}/26eb9aaf76e81b692f806f9140c2d2777410d7a1.zip",
        f"{_GITHUB}/refs/heads/master.zip",
    ),
    partial(_digest, is_selected=_is_fsdd_recording, of_samples=False),
)
"""Any zip file with the recordings of this version, such as GitHub creates."""

_INDICES = {"train": range(10, 50), "validation": range(5, 10), "test": range(5)}


def read_fsdd(split: Split, data_root: str | Path | None = None) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the samples of each recording, in the order of their names.

    The test split is the official one, recordings 0 to 4 of each digit by each speaker. Recordings
    5 to 9 are for validation.

    Args:
        split: The split.
        data_root: The only folder to search; see `eigenrnn_experiments.data.locate`.

    Raises:
        MissingDataError: If the file is not found and cannot be downloaded.
        ChecksumError: If the file has another checksum.

    Source:
        Jackson and others, https://github.com/Jakobovski/free-spoken-digit-dataset.
    """
    path = locate(FSDD, data_root)
    for name, content in read_members(path, lambda name: _is_in_split(name, split)):
        label = f"{name} of {path}"
        samples, rate = read_recording(content, label)
        yield Path(name).stem, resample(samples, rate, label)


def _is_in_split(name: str, split: str) -> bool:
    return _is_fsdd_recording(name) and int(Path(name).stem.rsplit("_", 1)[1]) in _INDICES[split]


def _speakers(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


DEVELOPMENT = _speakers(
    "fadg0 faks0 fcal1 fcmh0 fdac1 fdms0 fdrw0 fedw0 fgjd0 fjem0 fjmg0 fjsj0 fkms0 fmah0",
    "fmml0 fnmr0 frew0 fsem0 majc0 mbdg0 mbns0 mbwm0 mcsh0 mdlf0 mdls0 mdvc0 mers0 mgjf0",
    "mglb0 mgwt0 mjar0 mjfc0 mjsw0 mmdb1 mmdm2 mmjr0 mmwh0 mpdf0 mrcs0 mreb0 mrjm4 mrjr0",
    "mroa0 mrtk0 mrws1 mtaa0 mtdt0 mteb0 mthc0 mwjg0",
)
"""The 50 speakers of the test folder whose sentences are for validation."""

CORE_TEST = _speakers(
    "fdhc0 felc0 fjlm0 fmgd0 fmld0 fnlp0 fpas0 fpkt0 mbpm0 mcmj0 mdab0 mgrt0 mjdh0 mjln0",
    "mjmp0 mklt0 mlll0 mlnt0 mnjm0 mpam0 mtas1 mtls0 mwbt0 mwew0",
)
"""The 24 speakers of the core test set."""

# eight by each of 462, 50 and 24 speakers: SA, which all of them read, is left out
_SENTENCES = {"train": 3_696, "validation": 400, "test": 192}


def _is_wav(name: str) -> bool:
    return name.endswith(".wav")


TIMIT_SAMPLE = DataFile(
    "timit-sample/timit-sample.zip",
    "352eed75b9f8c94c981cdca09a1fcf91f4d99056376640259107d842322d92b6",
    (
        "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/timit.zip",
        "https://github.com/nltk/nltk_data/raw/gh-pages/packages/corpora/timit.zip",
    ),
    partial(_digest, is_selected=_is_wav, of_samples=True),
)
"""Any zip file with these 160 recordings; they are published with different headers."""

_SAMPLE_REGIONS: dict[Split, tuple[str, ...]] = {
    "train": ("dr1", "dr2", "dr3", "dr4", "dr5", "dr6"),
    "validation": ("dr7",),
    "test": ("dr8",),
}


def read_timit(split: Split, data_root: str | Path | None = None) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the samples of each sentence of the user's copy, without SA sentences.

    Training uses the 462 speakers of the training folder; validation and test use the listed
    speakers of the test folder. File and folder names may be in either case. The recordings may
    be the original ones (NIST SPHERE in `.WAV`) or converted to RIFF (`.wav`, or `.WAV.wav`).

    Args:
        split: The split.
        data_root: The folder that contains `timit`, or that folder itself; by default the value of
            the environment variable `EIGENRNN_DATA`.

    Raises:
        MissingDataError: If there is no copy, or it is incomplete.

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
        yield name, resample(samples, rate, str(path))


def read_timit_sample(
    split: Split, data_root: str | Path | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the samples of each sentence of the sample, without SA sentences.

    It has two speakers from each of eight regions. The seventh region is for validation and the
    eighth for the test. The sample is too small for a comparison with results on TIMIT.

    Args:
        split: The split.
        data_root: The only folder to search; see `eigenrnn_experiments.data.locate`.

    Raises:
        MissingDataError: If the file is not found and cannot be downloaded.
        ChecksumError: If the file has another checksum.

    Source:
        Garofolo et al., LDC93S1, 1993, in the selection of the Natural Language Toolkit.
    """
    path = locate(TIMIT_SAMPLE, data_root)
    for name, content in read_members(path, _is_wav):
        folder, _, file = name.removeprefix("timit/").partition("/")
        if folder[:3] in _SAMPLE_REGIONS[split] and not file.startswith("sa"):
            label = f"{name} of {path}"
            samples, rate = read_recording(content, label)
            yield f"{folder}-{file.removesuffix('.wav')}", resample(samples, rate, label)


def _part(split: Split, data_root: str | Path | None) -> Path:
    """Return the folder TRAIN or TEST.

    Raises:
        MissingDataError: If there is none.
    """
    named = data_root
    if named is None:
        named = os.environ.get(DATA_VARIABLE)
    folder_name = "test"  # of the validation speakers, too
    if split == "train":
        folder_name = "train"
    place = f"as data_root or in ${DATA_VARIABLE}"
    if named:
        place = f"below {named}"
        root = Path(named).expanduser()
        for folder in (root, *_folders(root, "timit"), *_folders(root, "timit", "timit")):
            for part in _folders(folder, folder_name):
                return part
    raise MissingDataError(
        f"expected a folder timit/{folder_name.upper()}, with DR1/FCJF0/SX127.WAV and so on, "
        f"{place}, got none; TIMIT is licensed: buy it as LDC93S1 at "
        "https://catalog.ldc.upenn.edu/LDC93S1 and copy its folders TRAIN and TEST there as they "
        "are, or use the free corpus='fsdd'"
    )


def _folders(root: Path, *names: str) -> list[Path]:
    """Return the nested folders of the given names, in either case."""
    found = [root]
    for name in names:
        inside: list[Path] = []
        for folder in found:
            if folder.is_dir():
                inside += folder.iterdir()
        # copies of TIMIT differ in case
        found = [each for each in inside if each.name.lower() == name and each.is_dir()]
    return found


def _sentences(part: Path, speakers: frozenset[str] | None) -> Iterator[tuple[str, Path]]:
    """Yield the names and files of the sentences of some speakers or of all: `dr1-fcjf0-sx127`.

    If a sentence exists in both layouts, the last by name counts; their samples are equal.
    """
    for path in sorted(part.glob("*/*/*")):
        sentence, _, endings = path.name.lower().partition(".")
        speaker = path.parent.name.lower()
        if endings not in ("wav", "wav.wav") or sentence.startswith("sa"):
            continue
        if speakers is None or speaker in speakers:
            yield f"{path.parent.parent.name.lower()}-{speaker}-{sentence}", path


SpeechCorpus = Literal["fsdd", "timit", "timit_sample"]

CORPORA: dict[SpeechCorpus, Callable[[Any, str | Path | None], Iterator[tuple[str, Tensor]]]] = {
    "fsdd": read_fsdd,
    "timit": read_timit,
    "timit_sample": read_timit_sample,
}
"""The reader of each corpus, which yields names and samples."""


def missing_speech(corpus: SpeechCorpus, data_root: str | Path | None = None) -> str | None:
    """Return the file or folder of a corpus that is not on this machine, or None."""
    if corpus == "fsdd":
        return missing_file([FSDD], data_root)
    if corpus == "timit_sample":
        return missing_file([TIMIT_SAMPLE], data_root)
    try:
        _part("train", data_root)
    except MissingDataError:
        return "timit/TRAIN, of LDC93S1"
    return None
