"""A small valid file for every reader, and ways to damage it."""

import io
import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from reproduction.archive import Archive, ArchivedRun

from eigenrnn_experiments.cli.analyse import delete_earlier_files
from eigenrnn_experiments.cli.sweep import ConfigSweep
from eigenrnn_experiments.data.corpora import (
    read_text,
)
from eigenrnn_experiments.sweep import Plan, Trial
from eigenrnn_experiments.tasks.preprocessing import TextPreprocessing
from eigenrnn_experiments.training import checkpoint
from eigenrnn_experiments.training.files import read_lines, read_table
from eigenrnn_experiments.training.metrics_writer import _kept_rows
from eigenrnn_experiments.training.records import RunConfig
from eigenrnn_experiments.training.result import Result
from eigenrnn_experiments.training.run_folder import RunFolder

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Reader:
    """A reader, a valid file for it, and a check of the result.

    Args:
        path: The path of the file in its own folder.
        content: The content before damage.
        read: Reads the file in a folder.
        check: Checks the result; by default it must equal that of the undamaged file, as for
            formats with checksums.
        unpack: Returns the members of an archive, which are then damaged one at a time.
        pack: Creates the archive from its members, with correct checksums.
        names: The text that an error must contain; by default the path.
    """

    path: str
    content: bytes
    read: Callable[[Path], Any]
    check: Callable[[Any], bool] | None = None
    unpack: Callable[[bytes], dict[str, bytes]] | None = None
    pack: Callable[[dict[str, bytes]], bytes] | None = None
    names: str | None = None

    def is_valid(self, read: Any) -> bool:
        if self.check is not None:
            return self.check(read)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / self.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.content)
            return read == self.read(Path(folder))


def flip(content: bytearray, rng: np.random.Generator) -> None:
    for place in rng.integers(len(content), size=rng.integers(1, 4)):
        content[place] ^= 1 << rng.integers(8)


def truncate(content: bytearray, rng: np.random.Generator) -> None:
    del content[rng.integers(len(content)) :]


def insert(content: bytearray, rng: np.random.Generator) -> None:
    place = rng.integers(len(content) + 1)
    inserted = [rng.bytes(rng.integers(1, 9)), b"\0" * 16, b"[" * 9_000, b"\n", b",", b'"']
    content[place:place] = inserted[rng.integers(len(inserted))]


def duplicate(content: bytearray, rng: np.random.Generator) -> None:
    begin, end = sorted(rng.integers(len(content) + 1, size=2))
    content[end:end] = content[begin:end]


def remove(content: bytearray, rng: np.random.Generator) -> None:
    begin, end = sorted(rng.integers(len(content) + 1, size=2))
    del content[begin:end]


CHUNKS = [b"0", b"-1", b"nan", b"1e39", b"1e999", b"1" * 5_000, b"null", b"[]", b"{}", b'""', b"x"]


def write_another_number(content: bytearray, rng: np.random.Generator) -> None:
    numbers = [*re.finditer(rb"[0-9]+", bytes(content))]
    begin, end = numbers[rng.integers(len(numbers))].span() if numbers else (0, 0)
    content[begin:end] = CHUNKS[rng.integers(len(CHUNKS))]


def overwrite(content: bytearray, rng: np.random.Generator) -> None:
    size = 2 ** rng.integers(4)
    place = rng.integers(max(len(content) - size, 0) + 1)
    extremes = [
        bytes(size),
        b"\xff" * size,
        b"\xff" * (size - 1) + b"\x7f",
        b"\1".ljust(size, b"\0"),
    ]
    content[place : place + size] = extremes[rng.integers(len(extremes))]


def empty(content: bytearray, _: np.random.Generator) -> None:
    content.clear()


DAMAGES = [flip, truncate, insert, duplicate, remove, write_another_number, overwrite, empty]
OFTEN = [0.25, 0.15, 0.1, 0.1, 0.08, 0.15, 0.15, 0.02]


def damaged(reader: Reader, rng: np.random.Generator) -> tuple[str, bytes]:
    """Damage the file once; return the kind of damage and the damaged content."""
    way = DAMAGES[rng.choice(len(DAMAGES), p=OFTEN)]
    if reader.unpack is None or reader.pack is None or rng.integers(2):
        content = bytearray(reader.content)
        way(content, rng)
        return way.__name__, bytes(content)
    parts = reader.unpack(reader.content)
    name = list(parts)[rng.integers(len(parts))]
    content = bytearray(parts[name])
    way(content, rng)
    return f"{way.__name__} in {name!r}", reader.pack({**parts, name: bytes(content)})


TEXT = "déjà vu\n日本 and other words of a text\n" * 6


def trial() -> Trial:
    return Trial({"lr": 0.01}, 0, "000/seed-0")


RESULT = Result(
    steps=8,
    seconds=1.5,
    train_loss=0.25,
    last={"test": {"loss": 0.5}},
    best={"test": {"loss": 0.5}},
    best_step=4,
    best_by="test loss",
    directory=Path(),
)
NOT_WRITTEN = ("directory", "interrupted", "out_of_time")
METRICS = "step,seconds,train_loss,test_loss\n1,0.1,0.9,\n2,0.2,0.8,0.7\n4,0.4,0.6,0.5\n"


def json_bytes(content: Any) -> bytes:
    return (json.dumps(content, indent=2, default=str) + "\n").encode()


def metrics_are_valid(metrics: Any) -> bool:
    return isinstance(metrics, dict) and all(
        isinstance(figures, dict) and all(isinstance(n, int | float) for n in figures.values())
        for figures in metrics.values()
    )


def result_is_valid(result: Result) -> bool:
    return (
        isinstance(result.steps, int)
        and isinstance(result.seconds, int | float)
        and metrics_are_valid(result.last)
        and metrics_are_valid(result.best)
        and isinstance(result.best_step, int | None)
        and isinstance(result.best_by, str | None)
    )


def status_is_valid(status: Any) -> bool:
    return (
        isinstance(status.state, str)
        and isinstance(status.message, str)
        and metrics_are_valid({"scores": status.scores or {}})
    )


def data_readers() -> dict[str, Reader]:
    return {"text": Reader("a.txt", TEXT.encode(), lambda f: read_text(f / "a.txt"), bool)}


def sweep_readers() -> dict[str, Reader]:
    place = trial().path
    status = {"state": "ended", "message": "", "scores": {"stoi": 0.5}}
    points = {"points": [{"lr": 0.01}]}
    plan = Plan(search={"lr": {"low": 0.001, "high": 0.1}})
    sweep = ConfigSweep(plan=plan, points=[{}], description={})

    return {
        "status.json": Reader(
            f"{place}/status.json",
            json_bytes(status),
            lambda folder: trial().status(folder),
            status_is_valid,
        ),
        "points.json": Reader(
            "points.json",
            json_bytes(points),
            sweep.read_points,
            lambda found: all(set(point) == {"lr"} for point in found),
        ),
    }


def prediction_readers() -> dict[str, Reader]:
    """Readers of the files that `predict` takes, and of what a run says about them."""
    text = TextPreprocessing((*sorted({*TEXT} - {"\n"}), "\n"), "characters")

    def config(fitted: Any) -> bytes:
        kind = type(fitted).__name__
        fitted = {"class": kind, "options": msgspec.to_builtins(fitted)}
        return json_bytes({**CONFIG, "preprocessing": fitted})

    def preprocessing(folder: Path) -> Any:
        return RunFolder(folder).read_preprocessing()

    def fitted_or_none(read: Any) -> bool:
        return read is None or isinstance(read, TextPreprocessing)

    return {
        "preprocessing of text": Reader(
            "config.json", config(text), preprocessing, fitted_or_none
        ),
        "summary of an analysis": Reader(
            "summary.json",
            json_bytes({"name": "mine", "found": {"spectrum": {"radius": 0.5}}}),
            delete_earlier_files,
            lambda read: read is None,
        ),
    }


CONFIG = {
    "settings": {"steps": 8},
    "task": {"class": "Copying", "options": {"delay": 3}},
    "modules": "SequenceModel()",
    "network": {"layer": "ScoRNN", "hidden_size": 4},
    "parameters": 12,
    "versions": {"torch": "2.6"},
}


def run_readers() -> dict[str, Reader]:
    written = {k: v for k, v in asdict(RESULT).items() if k not in NOT_WRITTEN}
    look = {"step": 4, "spectrum": {"W": [[0.5, 0.5]]}, "henrici": {"W": 0.1}}
    archived = ArchivedRun("mine/table1", "row", "", 0, "ended", steps=8, parameters=12)
    archived_line = f"{archived.to_line()}\n".encode()
    state = io.BytesIO()
    weights = {"W": torch.arange(6.0)}
    torch.save({"state": {"step": 4}, "train_step": {"model": weights}, "format": 1}, state)

    def archive(folder: Path) -> list[str]:
        return [run.to_line() for run in Archive(folder).runs()]

    def result(folder: Path) -> Result | None:
        return RunFolder(folder).result

    return {
        "config.json": Reader(
            "config.json",
            json_bytes(CONFIG),
            lambda f: RunFolder(f).config,
            lambda known: isinstance(known, RunConfig),
        ),
        "metrics.csv": Reader(
            "metrics.csv",
            METRICS.encode(),
            lambda f: read_table(f / "metrics.csv"),
            lambda columns: len({len(column) for column in columns.values()}) == 1,
        ),
        "metrics.csv of a resumed run": Reader(
            "metrics.csv",
            METRICS.encode(),
            lambda f: _kept_rows(f / "metrics.csv", METRICS.split("\n")[0].split(","), 4),
            lambda rows: len({len(row) for row in rows}) == 1,
        ),
        "dynamics.jsonl": Reader(
            "dynamics.jsonl",
            (json.dumps(look) + "\n").encode() * 3,
            lambda f: read_lines(f / "dynamics.jsonl"),
            lambda looks: all(isinstance(look["step"], int) for look in looks),
        ),
        "result.json": Reader("result.json", json_bytes(written), result, result_is_valid),
        "last.pt": Reader(
            "last.pt",
            state.getvalue(),
            lambda f: json.dumps(checkpoint.load(f / "last.pt"), default=torch.Tensor.tolist),
        ),
        "archive": Reader("mine.jsonl", archived_line, archive, bool),
    }


RUN_READERS = {**sweep_readers(), **run_readers()}
"""The readers of the files of a run or a sweep, by the name of their tests."""

READERS = {**data_readers(), **RUN_READERS, **prediction_readers()}
"""All readers, by the name of their tests."""
