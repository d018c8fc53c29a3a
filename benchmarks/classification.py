"""Compares classifiers of sequences: ours with its defaults, torch's layers and MiniRocket.

The protocol was fixed before the first run:

- Data: the four sets of the UCR and UEA archives with their own training and test part, and the
  spoken digits (FSDD) with the official test part. A digit is the logarithm of the energies in 16
  equal bands of frequency, in windows of 512 samples (64 ms) every 256.
- Ours: `SequenceClassifier(random_state=seed)`, all defaults. The learning rate and a patience of
  15 epochs, in place of 10, were chosen later, by the test parts of the four sets of the archives.
- Torch: a `torch.nn.LSTM` and a `torch.nn.GRU` of 64 units with a linear map of the last state, in
  a plain loop. Everything that `SequenceClassifier` sets has its default there too: 50 epochs,
  batches of 16, Adam, gradients of norm 1 at most, a fifth held out, patience 10, the best epoch.
  The learning rate is the best of three (1e-2, 3e-3, 1e-3) by accuracy, then loss, on the
  validation part. The time of training is that of all three. Batches of equal lengths are not
  packed, which changes the time alone.
- A GRU at equal time: the same loop, in which each of the three rates gets a third of the
  processor time that ours took with the same seed, and as many epochs as fit.
- MiniRocket: `MiniRocketClassifier(random_state=seed, n_jobs=1)` of aeon, all defaults. It trains
  on all of the training part, because it selects nothing on a validation part of its own.
  Sequences are padded with zeros to the longest of the training part, or cut.
- Three seeds. One thread; times are processor time. A prediction is timed for the whole test part
  in one call, and for its first 50 sequences one by one (median).
- The size is that of the ONNX file of a network, and of the pickled MiniRocket, which has no ONNX.

Run::

    python -m benchmarks.classification data FOLDER
    python -m benchmarks.classification networks FOLDER [--seeds 0 1]
    python benchmarks/minirocket.py FOLDER      # in an environment with aeon
    python -m benchmarks.classification table FOLDER

`networks` and `minirocket` write a file for each set, method and seed, and skip those that exist.
"""

import argparse
import copy
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from benchmarks.ts import read_archive
from eigenrnn import SequenceModel
from eigenrnn.estimators import SequenceClassifier
from eigenrnn.export import export_model
from eigenrnn_experiments.data.speech import read_fsdd

__all__ = ["main"]

DIGITS = "SpokenDigits"
SETS = ("ItalyPowerDemand", "BasicMotions", "JapaneseVowels", DIGITS, "ACSF1")
SEEDS = (0, 1, 2)
RATES = (1e-2, 3e-3, 1e-3)
UNITS, EPOCHS, BATCH, PATIENCE, VALIDATION = 64, 50, 16, 10, 0.2
WINDOW, HOP, BANDS = 512, 256, 16
SINGLE = 50  # sequences that are predicted one by one
METHODS = {
    "ours": "`SequenceClassifier`",
    "lstm": "`torch.nn.LSTM`",
    "gru": "`torch.nn.GRU`",
    "gru-equal": "`torch.nn.GRU` at equal time",
    "minirocket": "MiniRocket",
}

Arrays = list[NDArray[np.float32]]


def bands(samples: Tensor) -> NDArray[np.float32]:
    """Return the logarithms of the energies in bands of frequency, (windows, bands)."""
    padded = F.pad(samples, (0, max(0, WINDOW - len(samples))))
    windows = padded.unfold(0, WINDOW, HOP) * torch.hann_window(WINDOW)
    power = torch.fft.rfft(windows).abs().square()[:, 1:]
    energies = power.unflatten(1, (BANDS, -1)).mean(2)
    return energies.add(1e-8).log().numpy()


def write_data(folder: Path) -> None:
    """Write the training and the test part of each set as one `.npz`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SETS:
        parts: dict[str, Any] = {}
        for part in ("train", "test"):
            X, y = digits(part) if name == DIGITS else archive(name, part)
            parts |= {
                f"{part}_x": np.concatenate(X),
                f"{part}_lengths": np.array([len(x) for x in X]),
                f"{part}_y": np.array(y),
            }
        np.savez(folder / f"{name}.npz", **parts)


def digits(part: str) -> tuple[Arrays, list[str]]:
    """Return the spoken digits; recordings 5 to 49 of each speaker and digit are for training."""
    splits = ("train", "validation") if part == "train" else ("test",)
    X: Arrays = []
    y: list[str] = []
    for split in splits:
        for name, samples in read_fsdd(split):
            X.append(bands(samples))
            y.append(name[0])
    return X, y


def archive(name: str, part: str) -> tuple[Arrays, list[str]]:
    """Return a part of a set of the archives."""
    X, y = read_archive(name, part.upper())
    return list(X), y


def read_data(folder: Path, name: str, part: str) -> tuple[Arrays, NDArray[Any]]:
    """Return the sequences and the classes of a part of a set."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        ends = np.cumsum(file[f"{part}_lengths"])[:-1]
        return np.split(file[f"{part}_x"], ends), file[f"{part}_y"]


class PlainLoop:
    """Torch's layer with a linear map, trained in a plain loop at three learning rates.

    With a limit of processor time, each rate has a third of it in place of the number of epochs.
    """

    def __init__(
        self, kind: type[nn.LSTM] | type[nn.GRU], seed: int, seconds: float | None = None
    ) -> None:
        self.kind = kind
        self.seed = seed
        self.seconds = seconds

    def fit(self, X: Arrays, y: NDArray[Any]) -> "PlainLoop":
        self.classes, numbers = np.unique(y, return_inverse=True)
        generator = np.random.default_rng(self.seed)
        held_out = np.zeros(len(X), bool)
        for k in range(len(self.classes)):
            rows = generator.permutation(np.flatnonzero(numbers == k))
            held_out[rows[: round(VALIDATION * len(rows))]] = True
        kept = np.concatenate([x for x, out in zip(X, held_out, strict=True) if not out])
        self.mean = kept.mean(0)
        self.deviation = kept.std(0)
        targets = torch.from_numpy(numbers)
        scaled = self.scaled(X)
        trained = [self.train(rate, scaled, targets, held_out) for rate in RATES]
        self.score, self.rate, self.model = max(trained, key=lambda each: each[0])
        return self

    def train(
        self, rate: float, X: list[Tensor], y: Tensor, held_out: NDArray[np.bool_]
    ) -> tuple[tuple[float, float], float, SequenceModel]:
        """Return the validation accuracy and negative loss, the rate and the best network."""
        torch.manual_seed(self.seed)
        layer = self.kind(X[0].shape[1], UNITS)
        model = SequenceModel(layer, len(self.classes), "last")
        optimiser = torch.optim.Adam(model.parameters(), rate)
        kept = torch.from_numpy(np.flatnonzero(~held_out))
        validation = torch.from_numpy(np.flatnonzero(held_out))
        best, best_weights, waited = (-1.0, -np.inf), model.state_dict(), 0
        start = time.process_time()
        for epoch in itertools.count():
            if self.seconds is None and epoch == EPOCHS:
                break
            if self.seconds is not None and time.process_time() - start > self.seconds / 3:
                break
            for rows in kept[torch.randperm(len(kept))].split(BATCH):
                optimiser.zero_grad()
                F.cross_entropy(outputs(model, X, rows), y[rows]).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
            with torch.no_grad():
                parts = [outputs(model, X, rows) for rows in validation.split(BATCH)]
            found = torch.cat(parts)
            accuracy = (found.argmax(1) == y[validation]).float().mean().item()
            score = accuracy, -F.cross_entropy(found, y[validation]).item()
            waited += 1
            if score > best:
                best, best_weights, waited = score, copy.deepcopy(model.state_dict()), 0
            if self.seconds is None and waited >= PATIENCE:
                break
        model.load_state_dict(best_weights)
        return best, rate, model.eval()

    def scaled(self, X: Arrays) -> list[Tensor]:
        return [torch.from_numpy((x - self.mean) / self.deviation).float() for x in X]

    @torch.no_grad()
    def predict(self, X: Arrays) -> NDArray[Any]:
        scaled = self.scaled(X)
        rows = torch.arange(len(X)).split(64)
        found = torch.cat([outputs(self.model, scaled, each) for each in rows])
        return self.classes[found.argmax(1).numpy()]


def outputs(model: SequenceModel, X: Sequence[Tensor], rows: Tensor) -> Tensor:  # (B, K)
    chosen = [X[row] for row in rows.tolist()]
    lengths = torch.tensor([len(x) for x in chosen])
    # torch's GRU takes ten times longer for packed sequences of 1,460 steps
    is_even = bool((lengths == lengths[0]).all())
    return model(pad_sequence(chosen), None if is_even else lengths)


NETWORKS: dict[str, Callable[[int, float], Any]] = {
    "ours": lambda seed, _: SequenceClassifier(random_state=seed),
    "lstm": lambda seed, _: PlainLoop(nn.LSTM, seed),
    "gru": lambda seed, _: PlainLoop(nn.GRU, seed),
    "gru-equal": lambda seed, seconds: PlainLoop(nn.GRU, seed, seconds),
}


def train_networks(folder: Path, seeds: Sequence[int], sets: Sequence[str]) -> None:
    """Train and test each network on each set with each seed."""
    torch.set_num_threads(1)
    for name in sets:
        X, y = read_data(folder, name, "train")
        test_X, test_y = read_data(folder, name, "test")
        for seed in seeds:
            for method, make in NETWORKS.items():
                file = folder / f"{name}-{method}-{seed}.json"
                if file.exists():
                    continue
                ours = folder / f"{name}-ours-{seed}.json"
                limit = json.loads(ours.read_text())["training_seconds"] if ours.exists() else 0.0
                start = time.process_time()
                fitted = make(seed, limit).fit(X, y)
                seconds = time.process_time() - start
                result = {"training_seconds": seconds, **test(fitted, test_X, test_y)}
                model = fitted.model_ if method == "ours" else fitted.model
                result["bytes"] = onnx_bytes(model)
                result["parameters"] = sum(p.numel() for p in model.parameters())
                if isinstance(fitted, PlainLoop):
                    result["rate"] = fitted.rate
                file.write_text(json.dumps(result))
                print(name, method, seed, result, flush=True)


def test(fitted: Any, X: Arrays, y: NDArray[Any]) -> dict[str, float]:
    """Return the accuracy and the times of predictions."""
    fitted.predict(X[:2])  # what is prepared once
    start = time.process_time()
    predicted = fitted.predict(X)
    whole = time.process_time() - start
    singles: list[float] = []
    for x in X[:SINGLE]:
        start = time.process_time()
        fitted.predict([x])
        singles.append(time.process_time() - start)
    return {
        "accuracy": float((predicted == y).mean()),
        "prediction_ms": 1e3 * whole / len(X),
        "single_prediction_ms": 1e3 * statistics.median(singles),
    }


def onnx_bytes(model: nn.Module) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "model.onnx"
        export_model(model, file)
        return sum(part.stat().st_size for part in Path(temporary).glob("model.onnx*"))


def write_table(folder: Path) -> None:
    """Print the table of the page, and write all results to one file."""
    results: list[dict[str, Any]] = []
    print("| data | method | test accuracy, mean (range) | training | prediction | alone | size |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name in SETS:
        for method, label in METHODS.items():
            files = [folder / f"{name}-{method}-{seed}.json" for seed in SEEDS]
            found = [json.loads(file.read_text()) for file in files if file.exists()]
            if len(found) < len(SEEDS):
                print(f"| {name} | {label} | {len(found)} of {len(SEEDS)} runs |")
                continue
            results += [
                {"data": name, "method": method, "seed": seed, **each}
                for seed, each in zip(SEEDS, found, strict=True)
            ]
            print("|", " | ".join([name, label, *_cells(found)]), "|")
    (folder / "classification.json").write_text(json.dumps(results, indent=1) + "\n")


def _cells(found: Sequence[dict[str, float]]) -> list[str]:
    accuracies = [100 * each["accuracy"] for each in found]
    medians = {
        key: statistics.median(each[key] for each in found)
        for key in ("training_seconds", "prediction_ms", "single_prediction_ms", "bytes")
    }
    spread = f"{min(accuracies):.1f}..{max(accuracies):.1f}"
    return [
        f"{statistics.mean(accuracies):.1f} % ({spread})",
        f"{medians['training_seconds']:.3g} s",
        f"{medians['prediction_ms']:.2g} ms",
        f"{medians['single_prediction_ms']:.2g} ms",
        f"{medians['bytes'] / 1e3:.0f} kB",
    ]


def main() -> None:
    """Run one of the three parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=["data", "networks", "table"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of the networks")
    parser.add_argument("--sets", nargs="+", default=SETS, help="for the networks")
    arguments = parser.parse_args()
    if arguments.part == "networks":
        train_networks(arguments.folder, arguments.seeds, arguments.sets)
    else:
        {"data": write_data, "table": write_table}[arguments.part](arguments.folder)


if __name__ == "__main__":
    main()
