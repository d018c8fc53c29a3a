"""Accuracy of networks in C with matrices of 8 or 16 bits, and of floats, from three seeds.

Run with ``python -m benchmarks.integer_weights FOLDER``: the trained runs go into the folder, and
a run that is there already is read. Needs gcc and the data files. ``--json FILE`` writes the
numbers.
"""

import argparse
import ctypes
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.networks_in_c import compiled
from benchmarks.ts import read_archive
from eigenrnn import GRU, ScoRNN, SequenceModel
from eigenrnn.estimators import SequenceClassifier
from eigenrnn.export import to_c
from eigenrnn_experiments import load
from eigenrnn_experiments.tasks import PixelMNIST, model_for
from eigenrnn_experiments.training import Settings, fit
from eigenrnn_experiments.training.description import describe_call

SEEDS = (0, 1, 2)
PIXELS, VOWELS = "MNIST by pixels, ScoRNN 170", "JapaneseVowels, GRU 48"


class Trained(NamedTuple):
    """A trained network, and the test sequences that it reads, with their classes."""

    model: SequenceModel
    sequences: list[np.ndarray]
    classes: list[int]


def pixels(seed: int, folder: Path) -> Trained:
    """Train a `ScoRNN` on MNIST pixel by pixel, or read the run that is there."""
    task = PixelMNIST()
    settings = Settings(epochs=3, batch_size=64, lr=1e-3, lr_recurrent=1e-4, optimiser="rmsprop")
    out = folder / f"scornn-{seed}"
    model: Any = model_for(task, ScoRNN, 170, generator=torch.Generator().manual_seed(seed))
    if not (out / "run.json").exists():
        network = describe_call(layer=ScoRNN, hidden_size=170)
        fit(model, task, replace(settings, seed=seed), out, network=network)
    trained: Any = load(out, model=model).model
    sequences: list[np.ndarray] = []
    classes: list[int] = []
    for batch in task.batches("test", 100):
        sequences += list(batch.inputs.transpose(0, 1).numpy())
        classes += batch.targets.tolist()
    return Trained(trained, sequences, classes)


def vowels(seed: int, _: Path) -> Trained:
    """Train a `GRU` on the Japanese vowels."""
    options = {"epochs": 15, "batch_size": 27, "lr": 1e-2, "random_state": seed}
    classifier = SequenceClassifier(GRU, 48, **options).fit(
        *read_archive("JapaneseVowels", "TRAIN")
    )
    X, y = read_archive("JapaneseVowels", "TEST")
    scaled = [(x - classifier.mean_) / classifier.scale_ for x in X]
    return Trained(classifier.model_, scaled, np.searchsorted(classifier.classes_, y).tolist())


CASES: dict[str, Callable[[int, Path], Trained]] = {PIXELS: pixels, VOWELS: vowels}


def in_c(model: SequenceModel, weights: str) -> Any:
    """Return a function of sequences (T, M) that gives the last outputs of the network in C."""
    with tempfile.TemporaryDirectory() as folder:
        to_c(model, Path(folder, "net.c"), weights=weights)
        network = compiled(Path(folder))
    state = ctypes.create_string_buffer(1 << 16)
    output = np.zeros(model.head.out_features, np.float32)

    def run(sequence: np.ndarray) -> np.ndarray:
        network.net_reset(state)
        rows = np.ascontiguousarray(sequence, np.float32)
        place = rows.ctypes.data
        stride = rows.strides[0]
        for t in range(len(rows)):
            network.net_step(
                state, ctypes.c_void_p(place + t * stride), output.ctypes.data_as(ctypes.c_void_p)
            )
        return output

    return run


def accuracy(run: Any, trained: Trained, limit: int) -> float:
    """Return the accuracy on the first test sequences."""
    pairs = list(zip(trained.sequences, trained.classes, strict=True))[:limit]
    right = [int(run(sequence).argmax()) == number for sequence, number in pairs]
    return sum(right) / len(right)


def rounded(W: Tensor) -> Tensor:
    """Round each row as the file in 8 bits does."""
    scale = W.abs().amax(1, keepdim=True) / 127
    return (W / scale).round() * scale


def spectrum(model: SequenceModel) -> dict[str, float]:
    """Return how the rounding moves the moduli of the eigenvalues, and a state in 1,000 steps."""
    layer: Any = model.layer
    found: dict[str, float] = {}
    before: list[float] = []
    after: list[float] = []
    norms: list[float] = []
    for W in layer.recurrent_matrices():
        exact = W.detach().double()
        near = rounded(exact)
        before += torch.linalg.eigvals(exact).abs().tolist()
        after += torch.linalg.eigvals(near).abs().tolist()
        norms.append(float((near - exact).norm(2)))
        h = torch.ones(len(exact), dtype=torch.double)
        other = h.clone()
        for _ in range(1000):
            h = exact @ h
            other = near @ other
        found["size after 1,000 steps"] = float(other.norm() / h.norm().clamp_min(1e-300))
    found |= {"least modulus": min(before), "largest modulus": max(before)}
    found |= {"least modulus, rounded": min(after), "largest modulus, rounded": max(after)}
    return found | {"norm of the rounding": max(norms)}


def main() -> None:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, default=10_000, help="test sequences")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, list[dict[str, float]]] = {}
    for name in CASES:
        for seed in SEEDS:
            trained = CASES[name](seed, options.folder)
            numbers = {
                weights: accuracy(in_c(trained.model, weights), trained, options.limit)
                for weights in ("float", "int16", "int8")
            }
            if name == PIXELS:
                numbers |= spectrum(trained.model)
            found.setdefault(name, []).append(numbers)
            print(name, seed, numbers, flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
