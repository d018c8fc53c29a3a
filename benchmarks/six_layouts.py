"""Measures the way of a user's own data: six layouts, from the file to a stream.

Run with ``python -m benchmarks.six_layouts FOLDER``, which writes 800 sequences of 200 to 600
steps of a made-up sensor into the folder, once in each layout. For each, the commands or the lines
that a user writes train a network, predict the test part, export the network, run it in ONNX
Runtime in a process that cannot import torch, and stream single readings. All must give the same
classes. Times are processor times of whole commands, with the start of Python; with
OMP_NUM_THREADS=1 they are about the elapsed times on a quiet machine.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from eigenrnn import GRU, Stream
from eigenrnn_experiments import load
from eigenrnn_experiments.data.in_memory import from_arrays, from_table
from eigenrnn_experiments.prediction import predict_series
from eigenrnn_experiments.tasks import Series
from eigenrnn_experiments.tasks.base import model_for
from eigenrnn_experiments.training import Settings, fit
from eigenrnn_experiments.training.description import describe_call

__all__ = ["main"]

CHANNELS = ["ax", "ay", "az", "gx", "gy", "gz"]
ACTIVITIES = ["rest", "walk", "run", "stairs"]
TEST_PART = 4  # every fourth sequence is for the test
STREAMED = 20  # sequences
EQUAL_STEPS = 400  # of aeon's array, whose sequences have one length
STAGES = ["train", "predict", "export", "onnxruntime", "stream"]
NETWORK = "--layer GRU --hidden_size 32 --optimiser adam --lr 1e-2 --clip_norm 1 --batch_size 32"

# in a process without torch: what a device does with the two exported files
WITHOUT_TORCH = """
import json, sys
sys.modules["torch"] = sys.modules["eigenrnn"] = None
import numpy as np, onnxruntime
model, arrays, out = sys.argv[1:]
fitted = json.load(open(model.replace(".onnx", ".json")))["preprocessing"]
data = np.load(arrays)
session = onnxruntime.InferenceSession(model)
classes = []
for number in range(len(data)):
    x = data[str(number)]
    inputs = {"inputs": x[:, None], "lengths": np.array([len(x)])}
    logits = session.run(None, inputs)[0][0]
    classes.append(fitted["class_names"][logits.argmax()])
json.dump(classes, open(out, "w"))
"""

Arrays = list[NDArray[np.float64]]


@dataclass(frozen=True)
class Part:
    """Sequences with their classes."""

    arrays: Arrays  # (T, 6) each
    labels: list[str]

    def resampled(self) -> "Part":
        """Return sequences of equal length."""
        times = np.linspace(0, 1, EQUAL_STEPS)
        arrays: Arrays = []
        for array in self.arrays:
            own = np.linspace(0, 1, len(array))
            arrays.append(np.stack([np.interp(times, own, column) for column in array.T], 1))
        return Part(arrays, self.labels)


@dataclass
class Walk:
    """What happened in one layout.

    Args:
        name: The layout.
        seconds: The processor time of each stage.
        classes: The predicted classes of the test part, by stage.
        accuracy: The share of right predictions.
    """

    name: str
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    classes: dict[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    accuracy: float = 0.0

    def timed(self, stage: str, action: Callable[[], Any]) -> Any:
        """Run a stage and note its time, that of child processes included."""
        start = processor_time()
        result = action()
        self.seconds[stage] = processor_time() - start
        return result

    def row(self) -> str:
        """Return the line of the table."""
        cells = [f"{self.seconds[stage]:.1f}" for stage in STAGES]
        minutes = sum(self.seconds.values()) / 60
        return f"| {self.name} | {' | '.join(cells)} | {minutes:.2f} | {self.accuracy:.3f} |"


def processor_time() -> float:
    """Return the processor time of this process and of its ended children, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def draw(count: int) -> dict[str, Part]:
    """Draw the readings of a sensor, whose frequency and strength depend on the activity."""
    generator = np.random.default_rng(0)
    parts = {"train": Part([], []), "test": Part([], [])}
    for number in range(count):
        kind = number // TEST_PART % len(ACTIVITIES)  # equally often in both parts
        steps = int(generator.integers(200, 601))
        phase = generator.uniform(0, 2 * np.pi, len(CHANNELS))
        frequency = 0.02 + 0.02 * kind
        angle = 2 * np.pi * frequency * np.arange(steps)[:, None] + phase
        readings = (0.5 + kind / 4) * np.sin(angle) + generator.normal(0, 0.7, angle.shape)
        part = parts["test" if number % TEST_PART == 0 else "train"]
        part.arrays.append(np.round(readings, 4))
        part.labels.append(ACTIVITIES[kind])
    return parts


def table(part: Part) -> pd.DataFrame:
    """Return one row per time step."""
    frames: list[pd.DataFrame] = []
    for number, (array, label) in enumerate(zip(part.arrays, part.labels, strict=True)):
        frame = pd.DataFrame(array, columns=CHANNELS)
        frame.insert(0, "unit", f"u{number:04d}")
        frame.insert(1, "ms", 20 * np.arange(len(array)))
        frame["activity"] = label
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def write_long_csv(part: Part, path: Path) -> None:
    """Write a table with the columns of the user."""
    table(part).to_csv(path, index=False)


def write_folder(part: Part, path: Path) -> None:
    """Write a file for each sequence, in a folder for each class."""
    for number, (array, label) in enumerate(zip(part.arrays, part.labels, strict=True)):
        folder = path / label
        folder.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(array, columns=CHANNELS).to_csv(folder / f"u{number:04d}.csv", index=False)


def write_npz(part: Part, path: Path) -> None:
    """Write all sequences one after the other, with their lengths."""
    lengths = [len(array) for array in part.arrays]
    np.savez(path, x=np.concatenate(part.arrays), lengths=lengths, label=part.labels)


def write_aeon(part: Part, path: Path) -> None:
    """Write aeon's array, channels before time."""
    x = np.stack(part.resampled().arrays).transpose(0, 2, 1)
    np.savez(path, X=x, y=part.labels)


@dataclass(frozen=True)
class FileLayout:
    """A layout that the command line reads.

    Args:
        suffix: The end of the names of the files.
        write: Writes a part.
        options: What the user has to say about it.
        equal: Whether all sequences have one length.
    """

    suffix: str
    write: Callable[[Part, Path], None]
    options: str = ""
    equal: bool = False


FILES = {
    "one CSV, with columns of ids and times": FileLayout(
        ".csv",
        write_long_csv,
        "--task.columns.sequence unit --task.columns.time ms --task.columns.label activity",
    ),
    "a folder with a CSV for each sequence": FileLayout("", write_folder),
    ".npz": FileLayout(".npz", write_npz),
    ".npz of aeon": FileLayout(".npz", write_aeon, equal=True),
}
IN_MEMORY = {"a table of pandas": "table", "a list of arrays": "arrays"}


def eigenrnn(line: str) -> None:
    """Run a command as a user does.

    Raises:
        RuntimeError: If it fails.
    """
    command = [sys.executable, "-m", "eigenrnn_experiments", *line.split()]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"eigenrnn {line}\n{done.stdout}{done.stderr}")


def walk_file(
    name: str, layout: FileLayout, parts: Mapping[str, Part], folder: Path, epochs: int
) -> Walk:
    """Take the way from files."""
    files = {split: folder / f"{split}{layout.suffix}" for split in parts}
    for split, part in parts.items():
        layout.write(part, files[split])
    walk = Walk(name)
    run = folder / "run"
    out = folder / "classes.csv"
    walk.timed(
        "train",
        lambda: eigenrnn(
            f"train --task Series --task.train {files['train']} {layout.options} {NETWORK} "
            f"--epochs {epochs} --out {run}"
        ),
    )
    walk.timed("predict", lambda: eigenrnn(f"predict {run} {files['test']} -o {out}"))
    part = parts["test"].resampled() if layout.equal else parts["test"]
    by_name = pd.read_csv(out, dtype=str)["label"].tolist()
    walk.classes["predict"] = by_name
    truth = part.labels
    if not layout.suffix:  # files are read in the order of their names, class by class
        order = np.lexsort((np.arange(len(truth)), truth))
        arrays = [part.arrays[k] for k in order]
        labels = [truth[k] for k in order]
        part = Part(arrays, labels)
    finish(walk, part, run, folder)
    return walk


def walk_memory(
    name: str, kind: str, parts: Mapping[str, Part], folder: Path, epochs: int
) -> Walk:
    """Take the way from Python."""
    walk = Walk(name)
    run = folder / "run"

    def sequences(part: Part) -> Any:
        if kind == "arrays":
            return from_arrays(part.arrays, labels=part.labels)
        columns = {"sequence": "unit", "time": "ms", "label": "activity"}
        return from_table(table(part), **columns)

    def train() -> None:
        task = Series(train=sequences(parts["train"]))
        settings = Settings(
            epochs=epochs, batch_size=32, optimiser="adam", lr=1e-2, clip_norm=1.0, patience=10
        )
        torch.manual_seed(0)
        network = describe_call(layer=GRU, hidden_size=32)
        fit(model_for(task, GRU, 32), task, settings, run, network=network)

    def predict() -> list[str]:
        loaded = load(run)
        found: Any = predict_series(loaded.model, loaded.preprocessing, sequences(parts["test"]))
        return [found.columns[k] for k in found.values.argmax(1).tolist()]

    walk.timed("train", train)
    walk.classes["predict"] = walk.timed("predict", predict)
    finish(walk, parts["test"], run, folder)
    return walk


def finish(walk: Walk, part: Part, run: Path, folder: Path) -> None:
    """Export the network of a run, run it without torch, and stream.

    Raises:
        RuntimeError: If two of them disagree.
    """
    model = folder / "model.onnx"
    walk.timed("export", lambda: eigenrnn(f"export {run} {model}"))
    arrays = folder / "test-arrays.npz"
    answers = folder / "answers.json"
    np.savez(arrays, **{str(number): array for number, array in enumerate(part.arrays)})
    command = [sys.executable, "-c", WITHOUT_TORCH, str(model), str(arrays), str(answers)]
    walk.timed("onnxruntime", lambda: subprocess.run(command, check=True))
    walk.classes["onnxruntime"] = json.loads(answers.read_text())
    walk.classes["stream"] = walk.timed("stream", lambda: stream(part.arrays[:STREAMED], run))
    for stage in ("onnxruntime", "stream"):
        expected = walk.classes["predict"][: len(walk.classes[stage])]
        if list(walk.classes[stage]) != list(expected):
            raise RuntimeError(f"{walk.name}: {stage} and predict give other classes")
    right = np.array(walk.classes["predict"]) == np.array(part.labels)
    walk.accuracy = float(right.mean())


@torch.no_grad()
def stream(arrays: Arrays, run: Path) -> list[str]:
    """Return the class after the last reading of each sequence."""
    loaded = load(run)
    loaded.model.layer.freeze()
    fitted: Any = loaded.preprocessing
    steps = fitted.steps()
    of_stream = Stream(loaded.model)
    found: list[str] = []
    for array in arrays:
        steps.reset()
        of_stream.reset()
        logits = torch.zeros(len(fitted.class_names))
        for reading in torch.from_numpy(array):
            logits = of_stream(steps(reading))
        found.append(fitted.class_names[int(logits.argmax())])
    return found


def main(arguments: Sequence[str] | None = None) -> list[Walk]:
    """Take all six ways, and print what each takes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sequences", type=int, default=800)
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args(arguments)
    parts = draw(options.sequences)
    print(f"| layout | {', s | '.join(STAGES)}, s | together, min | accuracy |")
    print(f"|---|{'---:|' * (len(STAGES) + 2)}")
    walks: list[Walk] = []
    for number, name in enumerate([*FILES, *IN_MEMORY], start=1):
        folder = options.folder / str(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if name in FILES:
            walk = walk_file(name, FILES[name], parts, folder, options.epochs)
        else:
            walk = walk_memory(name, IN_MEMORY[name], parts, folder, options.epochs)
        print(walk.row(), flush=True)
        walks.append(walk)
    return walks


if __name__ == "__main__":
    main()
