"""Accuracy of networks in whole numbers beside that of floats, from three seeds, and their flash.

Run with ``python -m benchmarks.integer_weights FOLDER``: the trained weights go into the folder,
and those that are there already are read. Needs gcc, the data files, and what `benchmarks.arm`
needs. ``--json FILE`` writes the numbers after each network, beside those of others in the file.
"""

import argparse
import ctypes
import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.arm import BOARDS
from benchmarks.ts import read_archive
from eigenrnn import GRU, LRU, RNN, ScoRNN, SequenceModel
from eigenrnn.constraints import Rounded
from eigenrnn.estimators import SequenceClassifier
from eigenrnn.export import round_recurrent, to_c
from eigenrnn_experiments.data.audio import decibels, stft
from eigenrnn_experiments.data.speech import read_fsdd
from eigenrnn_experiments.tasks import Copying, PixelMNIST, model_for
from eigenrnn_experiments.training import Settings, fit

SEEDS = (0, 1, 2)
FEW = 2_000  # digits for what takes ten times as long and is far off

RUN = """\
#include "net.h"

void outputs(const float *x, float *y, int steps)
{
    static net_state state;
    net_reset(&state);
    for (int t = 0; t < steps; t++)
        net_step(&state, x + t * net_inputs, y + t * net_outputs);
}
"""


class Trained(NamedTuple):
    """A trained network, training sequences for its ranges, and the test sequences."""

    model: SequenceModel
    calibration: Tensor | list[Tensor]
    sequences: list[NDArray[np.float32]]  # each (T, M)
    labels: list[list[int]]  # of each sequence, those of its last steps


# the settings of the paper's authors, and three epochs of their 70
RMSPROP = Settings(epochs=3, batch_size=64, lr=1e-3, lr_recurrent=1e-4, optimiser="rmsprop")
ADAM = Settings(epochs=3, batch_size=64, lr=2e-3, clip_norm=1.0)
# a quarter of the paper's steps
COPYING = replace(RMSPROP, epochs=None, steps=2_500, batch_size=20, optimiser="rmsprop_tf1")
# of trained networks: half an epoch of pixels, a tenth of copying
MORE_PIXELS = replace(RMSPROP, epochs=None, steps=500, lr=3e-4, lr_recurrent=3e-5)
MORE_COPYING = replace(COPYING, steps=250, lr=3e-4, lr_recurrent=3e-5)


def of_task(
    name: str,
    seed: int,
    out: Path,
    *,
    task: PixelMNIST | Copying,
    layer: Callable[..., nn.Module],
    size: int,
    settings: Settings,
    start: str | None = None,
    rounds: bool = False,
) -> Trained:
    """Train a network on a task, or read its weights.

    With `start`, the name of a trained network, that one trains further; if it rounds, without
    its recurrent matrix.
    """
    model: Any = model_for(task, layer, size, generator=torch.Generator().manual_seed(seed))
    if start is not None:
        model.load_state_dict(torch.load(out / f"{start}-{seed}.pt", weights_only=True))
    if rounds:
        round_recurrent(model)
    weights = out / f"{name}-{seed}.pt"
    if not weights.exists():
        folder = out / f"{name}-{seed}"
        fit(model, task, replace(settings, seed=seed), folder, resume=folder.exists())
        torch.save(model.state_dict(), weights)
    model.load_state_dict(torch.load(weights, weights_only=True))
    recalled = task.symbols if isinstance(task, Copying) else 1
    sequences: list[NDArray[np.float32]] = []
    labels: list[list[int]] = []
    for batch in task.batches("test", 100):
        sequences += list(batch.inputs.transpose(0, 1).numpy())
        labels += torch.atleast_2d(batch.targets)[-recalled:].T.tolist()
    calibration = next(iter(task.batches("train", 100))).inputs
    return Trained(model.eval(), calibration, sequences, labels)


def classified(
    train: tuple[list[Any], list[Any]],
    test: tuple[list[Any], list[Any]],
    seed: int,
    **options: Any,
) -> Trained:
    """Train a GRU of 48 units as a classifier of sequences."""
    classifier = SequenceClassifier(GRU, 48, random_state=seed, **options).fit(*train)

    def scaled(X: list[Any]) -> list[NDArray[np.float32]]:
        return [((x - classifier.mean_) / classifier.scale_).astype(np.float32) for x in X]

    calibration = [torch.from_numpy(x) for x in scaled(train[0])[::10]]
    labels = [[int(number)] for number in np.searchsorted(classifier.classes_, test[1])]
    return Trained(classifier.model_, calibration, scaled(test[0]), labels)


def vowels(seed: int, _: Path) -> Trained:
    """Train on the Japanese vowels."""
    parts = read_archive("JapaneseVowels", "TRAIN"), read_archive("JapaneseVowels", "TEST")
    return classified(*parts, seed, epochs=15, batch_size=27, lr=1e-2)


def digits(seed: int, _: Path) -> Trained:
    """Train on spectra of spoken digits: 257 samples of 8 kHz every 16 ms, in decibels."""

    def read(split: Any) -> tuple[list[Any], list[Any]]:
        recordings = list(read_fsdd(split))
        X = [decibels(stft(samples)).numpy() for _, samples in recordings]
        return X, [name.partition("_")[0] for name, _ in recordings]

    return classified(read("train"), read("test"), seed, epochs=15, batch_size=32, lr=3e-3)


def rounded(bits: int) -> Callable[..., nn.Module]:
    """Return a `ScoRNN` that is trained with its recurrent matrix in a number of bits."""
    return partial(RNN, constraint=partial(Rounded, bits=bits))


pixels = partial(of_task, task=PixelMNIST())
pixels_170 = partial(pixels, size=170, settings=RMSPROP)
pixels_64 = partial(pixels, size=64, settings=ADAM)
more_pixels = partial(pixels_170, layer=ScoRNN, settings=MORE_PIXELS, start="scornn")
copying = partial(of_task, task=Copying.scornn(1000), size=190, settings=COPYING)
more_copying = partial(copying, layer=ScoRNN, settings=MORE_COPYING, start="copying")
two_lrus = partial(LRU, num_layers=2, r_min=0.9, r_max=0.999)
NETWORKS: dict[str, Callable[[int, Path], Trained]] = {
    "pixels, ScoRNN 170": partial(pixels_170, "scornn", layer=ScoRNN),
    "pixels, GRU 64": partial(pixels_64, "gru", layer=GRU),
    "pixels, LRU 64, two layers": partial(pixels_64, "lru", layer=two_lrus),
    "spoken digits, GRU 48": digits,
    "vowels, GRU 48": vowels,
    "pixels, ScoRNN 170 trained in 8 bits": partial(pixels_170, "scornn-8", layer=rounded(8)),
    "pixels, ScoRNN 170 trained in 6 bits": partial(pixels_170, "scornn-6", layer=rounded(6)),
    "pixels, ScoRNN 170 trained in 4 bits": partial(pixels_170, "scornn-4", layer=rounded(4)),
    "copying, ScoRNN 190": partial(copying, "copying", layer=ScoRNN),
    "pixels, ScoRNN 170, trained further": partial(more_pixels, "scornn-more"),
    "copying, ScoRNN 190, trained further": partial(more_copying, "copying-more"),
    "pixels, ScoRNN 170, rounded and trained further": partial(
        more_pixels, "scornn-rounded", rounds=True
    ),
    "copying, ScoRNN 190, rounded and trained further": partial(
        more_copying, "copying-rounded", rounds=True
    ),
}


def accuracy_of_floats(trained: Trained) -> float:
    """Return the accuracy of the layer on the test sequences, in pieces of equal lengths."""
    lengths = np.array([len(x) for x in trained.sequences])
    right = 0
    with torch.no_grad():
        for length in np.unique(lengths):
            (found,) = np.nonzero(lengths == length)
            for rows in np.array_split(found, -(-len(found) // 500)):
                x = torch.from_numpy(np.stack([trained.sequences[row] for row in rows], axis=1))
                labels = torch.tensor([trained.labels[row] for row in rows]).T
                classes = torch.atleast_2d(trained.model(x).argmax(-1))
                right += int((classes[-len(labels) :] == labels).sum())
    return right / sum(map(len, trained.labels))


def accuracy_in_c(trained: Trained, limit: int | None = None, **options: Any) -> dict[str, Any]:
    """Return the accuracy of a network in C, its flash, and the share of steps that saturate."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        description = to_c(trained.model, folder / "net.c", **options)
        # whole numbers have the same bits under every optimisation
        (folder / "run.c").write_text(RUN)
        command = ["gcc", "-O3", "-march=native", "-shared", "-fPIC", "net.c", "run.c", "-lm"]
        subprocess.run([*command, "-o", "net.so"], cwd=folder, check=True)
        run = ctypes.CDLL(str(folder / "net.so")).outputs
    right = asked = 0
    for x, labels in zip(trained.sequences[:limit], trained.labels, strict=False):
        rows = np.ascontiguousarray(x)
        outputs = np.zeros((len(rows), trained.model.head.out_features), np.float32)
        run(*(array.ctypes.data_as(ctypes.c_void_p) for array in (rows, outputs)), len(rows))
        right += int((outputs[-len(labels) :].argmax(-1) == labels).sum())
        asked += len(labels)
    saturated = description.get("saturated", {})
    return {"accuracy": right / asked, "saturated": saturated}


def costs(trained: Trained, **options: Any) -> dict[str, Any]:
    """Return the flash and the instructions of a step on a Cortex-M4F."""
    with tempfile.TemporaryDirectory() as folder:
        to_c(trained.model, Path(folder, "net.c"), **options)
        x = trained.sequences[0][:20]
        _, found = BOARDS["Cortex-M4F"].run(Path(folder), x, repeats=1000)
    return {"flash": found.flash, "instructions": found.instructions}


def measure(name: str, trained: Trained, seed: int) -> dict[str, dict[str, Any]]:
    """Return the accuracies of a network in each kind of numbers; of the first seed, the costs."""
    whole = {"calibration": trained.calibration}
    kinds: dict[str, dict[str, Any]] = {
        "float": {"weights": "float"},
        "int16": {"weights": "int16", **whole},
        "int8": {"weights": "int8", **whole},
    }
    if "trained" in name:
        del kinds["int16"]  # it would have more bits than the training gave it
    found: dict[str, dict[str, Any]] = {"float": {"accuracy": accuracy_of_floats(trained)}}
    for kind, options in kinds.items():
        if kind != "float":
            found[kind] = accuracy_in_c(trained, **options)
        if seed == SEEDS[0]:
            found[kind] |= costs(trained, **options)
    if name == next(iter(NETWORKS)):
        found["int8 around floats"] = accuracy_in_c(trained, FEW, weights="int8")
    return found


def main() -> None:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=NETWORKS, nargs="+", default=list(NETWORKS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(exist_ok=True)
    found: dict[str, list[dict[str, Any]]] = {}
    if options.json and options.json.exists():
        found = json.loads(options.json.read_text())
    for name in options.only:
        of_seeds = found[name] = []
        for seed in SEEDS:
            numbers = measure(name, NETWORKS[name](seed, options.folder), seed)
            of_seeds.append(numbers)
            print(name, seed, numbers, flush=True)
            if options.json:
                options.json.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
