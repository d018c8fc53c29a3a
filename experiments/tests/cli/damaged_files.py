"""A small valid file for every reader, and ways to damage it."""

import io
import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from reproduction.archive import Archive, to_line

from eigenrnn_experiments.cli.analyse import delete_earlier_files
from eigenrnn_experiments.data.corpora import (
    read_text,
)
from eigenrnn_experiments.recipes import Plan
from eigenrnn_experiments.sweep import Sweep, SweepFile
from eigenrnn_experiments.tasks.preprocessing import TextPreprocessing
from eigenrnn_experiments.training import checkpoint
from eigenrnn_experiments.training.files import read_lines, read_table
from eigenrnn_experiments.training.metrics_writer import _kept_rows
from eigenrnn_experiments.training.run import Description, Run, RunKey, RunNumber
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


RUN = Run(
    task=Description("Copying", {"delay": 3}),
    network={"layer": "ScoRNN", "hidden_size": 4},
    settings={"steps": 8},
    state="ended",
    steps=8,
    seconds=1.5,
    train_loss=0.25,
    last={"test": {"loss": 0.5}},
    best={"test": {"loss": 0.5}},
    best_step=4,
    best_by="test loss",
    numbers={"best test loss": RunNumber(0.5)},
    scores={"stoi": 0.5},
)
METRICS = "step,seconds,train_loss,test_loss\n1,0.1,0.9,\n2,0.2,0.8,0.7\n4,0.4,0.6,0.5\n"


def json_bytes(content: Any) -> bytes:
    return (json.dumps(content, indent=2, default=str) + "\n").encode()


def metrics_are_valid(metrics: Any) -> bool:
    return isinstance(metrics, dict) and all(
        isinstance(figures, dict) and all(isinstance(n, int | float) for n in figures.values())
        for figures in metrics.values()
    )


def run_is_valid(run: Run) -> bool:
    return (
        isinstance(run.steps, int)
        and isinstance(run.seconds, int | float)
        and metrics_are_valid(run.last)
        and metrics_are_valid(run.best)
        and metrics_are_valid({"scores": run.scores})
        and isinstance(run.best_step, int | None)
        and isinstance(run.best_by, str | None)
        and isinstance(run.state, str)
    )


def data_readers() -> dict[str, Reader]:
    return {"text": Reader("a.txt", TEXT.encode(), lambda f: read_text(f / "a.txt"), bool)}


def sweep_readers() -> dict[str, Reader]:
    points = {"points": [{"lr": 0.01}]}
    file = SweepFile(search={"lr": {"low": 0.001, "high": 0.1}})
    sweep = Sweep(file=file, plans=[Plan()], row_of=lambda _: None, description={})

    return {
        "points.json": Reader(
            "points.json",
            json_bytes(points),
            sweep.points,
            lambda found: all(set(point) == {"lr"} for point, _ in found),
        ),
    }


def prediction_readers() -> dict[str, Reader]:
    """Readers of the files that `predict` takes, and of what a run says about them."""
    text = TextPreprocessing((*sorted({*TEXT} - {"\n"}), "\n"), "characters")

    def record(fitted: Any) -> bytes:
        described = Description(type(fitted).__name__, msgspec.to_builtins(fitted))
        return json_bytes(msgspec.to_builtins(replace(RUN, preprocessing=described)))

    def preprocessing(folder: Path) -> Any:
        return RunFolder(folder).read_preprocessing()

    def fitted_or_none(read: Any) -> bool:
        return read is None or isinstance(read, TextPreprocessing)

    return {
        "preprocessing of text": Reader("run.json", record(text), preprocessing, fitted_or_none),
        "summary of an analysis": Reader(
            "summary.json",
            json_bytes({"name": "mine", "found": {"spectrum": {"radius": 0.5}}}),
            delete_earlier_files,
            lambda read: read is None,
        ),
    }


def run_readers() -> dict[str, Reader]:
    look = {"step": 4, "spectrum": {"W": [[0.5, 0.5]]}, "henrici": {"W": 0.1}}
    archived = replace(RUN, key=RunKey("mine/table1", "row", seed=0))
    archived_line = f"{to_line(archived)}\n".encode()
    state = io.BytesIO()
    weights = {"W": torch.arange(6.0)}
    torch.save({"state": {"step": 4}, "train_step": {"model": weights}, "format": 1}, state)

    def archive(folder: Path) -> list[str]:
        return [to_line(run) for run in Archive(folder).runs()]

    return {
        "run.json": Reader(
            "run.json",
            json_bytes(msgspec.to_builtins(RUN)),
            lambda folder: RunFolder(folder).run,
            run_is_valid,
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
