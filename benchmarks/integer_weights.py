"""Accuracy of networks in whole numbers beside that of floats, from three seeds, and their flash.

Run with ``python -m benchmarks.integer_weights FOLDER``: the trained weights go into the folder,
and those that are there already are read. Needs gcc, the data files, and what `benchmarks.arm`
needs. ``--json FILE`` writes the numbers, after each network.
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
from eigenrnn.export import to_c
from eigenrnn_experiments.data.audio import decibels, stft
from eigenrnn_experiments.data.speech import read_fsdd
from eigenrnn_experiments.tasks import PixelMNIST, model_for
from eigenrnn_experiments.training import Settings, fit

SEEDS = (0, 1, 2)
FEW = 2_000  # digits for what takes ten times as long and is far off

RUN = """\
#include "net.h"

void last_outputs(const float *x, int steps, float *y)
{
    static net_state state;
    net_reset(&state);
    for (int t = 0; t < steps; t++)
        net_step(&state, x + t * net_inputs, y);
}
"""


class Trained(NamedTuple):
    """A trained network, training sequences for its ranges, and the test sequences."""

    model: SequenceModel
    calibration: Tensor | list[Tensor]
    sequences: list[NDArray[np.float32]]  # each (T, M)
    classes: list[int]


# the settings of the paper's authors, and three epochs of their 70
RMSPROP = Settings(epochs=3, batch_size=64, lr=1e-3, lr_recurrent=1e-4, optimiser="rmsprop")
ADAM = Settings(epochs=3, batch_size=64, lr=2e-3, clip_norm=1.0)


def pixels(
    name: str, layer: Callable[..., nn.Module], size: int, settings: Settings, seed: int, out: Path
) -> Trained:
    """Train a network on MNIST pixel by pixel, or read its weights."""
    task = PixelMNIST()
    model: Any = model_for(task, layer, size, generator=torch.Generator().manual_seed(seed))
    weights = out / f"{name}-{seed}.pt"
    if not weights.exists():
        folder = out / f"{name}-{seed}"
        fit(model, task, replace(settings, seed=seed), folder, resume=folder.exists())
        torch.save(model.state_dict(), weights)
    model.load_state_dict(torch.load(weights, weights_only=True))
    sequences: list[NDArray[np.float32]] = []
    classes: list[int] = []
    for batch in task.batches("test", 100):
        sequences += list(batch.inputs.transpose(0, 1).numpy())
        classes += batch.targets.tolist()
    calibration = next(iter(task.batches("train", 100))).inputs
    return Trained(model.eval(), calibration, sequences, classes)


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
    classes = np.searchsorted(classifier.classes_, test[1]).tolist()
    return Trained(classifier.model_, calibration, scaled(test[0]), classes)


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


two_lrus = partial(LRU, num_layers=2, r_min=0.9, r_max=0.999)
NETWORKS: dict[str, Callable[[int, Path], Trained]] = {
    "pixels, ScoRNN 170": partial(pixels, "scornn", ScoRNN, 170, RMSPROP),
    "pixels, GRU 64": partial(pixels, "gru", GRU, 64, ADAM),
    "pixels, LRU 64, two layers": partial(pixels, "lru", two_lrus, 64, ADAM),
    "spoken digits, GRU 48": digits,
    "vowels, GRU 48": vowels,
    "pixels, ScoRNN 170 trained in 8 bits": partial(pixels, "scornn-8", rounded(8), 170, RMSPROP),
    "pixels, ScoRNN 170 trained in 6 bits": partial(pixels, "scornn-6", rounded(6), 170, RMSPROP),
    "pixels, ScoRNN 170 trained in 4 bits": partial(pixels, "scornn-4", rounded(4), 170, RMSPROP),
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
                outputs = trained.model(x).argmax(-1).tolist()
                right += sum(
                    got == trained.classes[row] for got, row in zip(outputs, rows, strict=True)
                )
    return right / len(lengths)


def accuracy_in_c(trained: Trained, limit: int | None = None, **options: Any) -> dict[str, Any]:
    """Return the accuracy of a network in C, its flash, and the share of steps that saturate."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        description = to_c(trained.model, folder / "net.c", **options)
        # whole numbers have the same bits under every optimisation
        (folder / "run.c").write_text(RUN)
        command = ["gcc", "-O3", "-march=native", "-shared", "-fPIC", "net.c", "run.c", "-lm"]
        subprocess.run([*command, "-o", "net.so"], cwd=folder, check=True)
        run = ctypes.CDLL(str(folder / "net.so")).last_outputs
    output = np.zeros(trained.model.head.out_features, np.float32)
    address = output.ctypes.data_as(ctypes.c_void_p)
    sequences = trained.sequences[:limit]
    right = 0
    for x, number in zip(sequences, trained.classes, strict=False):
        rows = np.ascontiguousarray(x)
        run(rows.ctypes.data_as(ctypes.c_void_p), len(rows), address)
        right += int(output.argmax()) == number
    saturated = description.get("saturated", {})
    return {"accuracy": right / len(sequences), "saturated": saturated}


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
    if "trained in" in name:
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
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(exist_ok=True)
    found: dict[str, list[dict[str, Any]]] = {}
    for name, make in NETWORKS.items():
        for seed in SEEDS:
            numbers = measure(name, make(seed, options.folder), seed)
            found.setdefault(name, []).append(numbers)
            print(name, seed, numbers, flush=True)
            if options.json:
                options.json.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
