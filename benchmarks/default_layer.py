"""Which layer `SequenceClassifier` should take by default, at equal processor time.

- Data: four sets of the UCR and UEA archives, the spoken digits (FSDD), 1,500 digits of MNIST
  read row by row, and three made-up sensors of 150 to 400 steps: a vibration whose frequency
  and strength tell the class; two events in noise whose order tells it; drifts that differ in
  their speed.
- Splits: training and test part together, divided anew for each split, stratified by class, with
  as many training sequences as the set has.
- Each layer trains with the defaults of `SequenceClassifier`, but for the time: epochs follow one
  another until a budget of processor time is spent, the same for all layers of a set. The epoch
  that is best on the held-out fifth is tested.
- One thread.

Run::

    python -m benchmarks.default_layer [--splits 5] [--share 1.0] [--out FILE]

`--share` multiplies the budgets.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split

from benchmarks.classification import digits
from benchmarks.ts import read_archive
from eigenrnn import GRU, LRU, ResidualStack
from eigenrnn.estimators import SequenceClassifier
from eigenrnn_experiments.data.mnist import read_mnist

__all__ = ["SENSORS", "main", "vibration"]

Arrays = list[NDArray[Any]]
MNIST_ROWS = 1_500


class Data(NamedTuple):
    """A set, the size of its training part, and the seconds of a training."""

    name: str
    X: Arrays
    y: NDArray[Any]
    training: int
    budget: float


def two_lru(inputs: int, units: int) -> ResidualStack:
    """Return two residual blocks around LRUs."""
    return ResidualStack(partial(LRU, hidden_size=units), units, 2, input_size=inputs)


LAYERS: dict[str, Callable[..., Any]] = {"GRU": GRU, "two LRU": two_lru}


def vibration(rng: np.random.Generator, kind: int, steps: int) -> NDArray[Any]:
    """Return six channels whose frequency and strength tell one of four activities."""
    phase = rng.uniform(0, 2 * np.pi, 6)
    angle = 2 * np.pi * (0.02 + 0.02 * kind) * np.arange(steps)[:, None] + phase
    return (0.5 + kind / 4) * np.sin(angle) + rng.normal(0, 0.7, angle.shape)


def events(rng: np.random.Generator, kind: int, steps: int) -> NDArray[Any]:
    """Return two channels in noise; the order and the sign of two events tell the class."""
    x = rng.normal(0, 0.3, (steps, 2))
    first = rng.integers(10, steps // 2 - 10)
    second = rng.integers(steps // 2, steps - 10)
    early, late = (first, second) if kind % 2 else (second, first)
    x[early : early + 5, 0] += 2.0
    x[late : late + 5, 1] += 2.0 if kind < 2 else -2.0
    return x


def drift(rng: np.random.Generator, kind: int, steps: int) -> NDArray[Any]:
    """Return three channels that drift; how fast one of them returns to zero tells the class."""
    x = np.zeros((steps, 3))
    keep = np.array([0.9 + 0.03 * kind, 0.95, 0.99])
    noise = rng.normal(0, 1, (steps, 3)) * np.sqrt(1 - keep**2)
    for t in range(1, steps):
        x[t] = keep * x[t - 1] + noise[t]
    return x


SENSORS = {"vibration": vibration, "events": events, "drift": drift}


def made_up(name: str, count: int = 600) -> tuple[Arrays, NDArray[Any]]:
    """Draw sequences of a sensor."""
    rng = np.random.default_rng(0)
    kinds = np.arange(count) % 4
    return [SENSORS[name](rng, kind, int(rng.integers(150, 401))) for kind in kinds], kinds


def all_data(share: float) -> Iterator[Data]:
    """Yield all sets."""
    budgets = {"ItalyPowerDemand": 3, "BasicMotions": 4, "JapaneseVowels": 4, "ACSF1": 20}
    for name, budget in budgets.items():
        X, y = read_archive(name, "TRAIN")
        more, labels = read_archive(name, "TEST")
        yield Data(name, X + more, np.array(y + labels), len(X), budget * share)
    for name in SENSORS:
        X, kinds = made_up(name)
        yield Data(name, X, kinds, 400, 10 * share)
    X, y = digits("train")
    more, labels = digits("test")
    yield Data("spoken digits", X + more, np.array(y + labels), len(X), 10 * share)
    images, numbers = read_mnist("train")
    rows = np.asarray(images[: 2 * MNIST_ROWS], dtype=np.float64).reshape(-1, 28, 28)
    yield Data(
        "MNIST by rows", list(rows), np.asarray(numbers[: len(rows)]), MNIST_ROWS, 10 * share
    )


def accuracy(data: Data, layer: Callable[..., Any], split: int) -> tuple[float, int]:
    """Train within the budget; return the accuracy and the number of epochs.

    Raises:
        KeyboardInterrupt: If there was not one epoch.
    """
    X, X_test, y, y_test = train_test_split(
        data.X, data.y, train_size=data.training, stratify=data.y, random_state=split
    )
    start = time.process_time()
    epochs = 0

    def scoring(fitted: Any, X: Any, y: Any) -> float:
        nonlocal epochs
        epochs += 1
        score = float(accuracy_score(y, fitted.predict(X)))
        if epochs > 1 and time.process_time() - start > data.budget:
            raise KeyboardInterrupt  # which leaves the best epoch fitted
        return score

    classifier = SequenceClassifier(
        layer, epochs=10_000, patience=None, scoring=scoring, random_state=split
    )
    try:
        classifier.fit(X, y)
    except KeyboardInterrupt:
        if not hasattr(classifier, "model_"):
            raise
    return float(accuracy_score(y_test, classifier.predict(X_test))), epochs


def main() -> None:
    """Measure all sets, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    records: list[dict[str, Any]] = []
    print("| data | median steps | seconds | " + " | ".join(LAYERS) + " |")
    print("|---|---:|---:|" + "---:|" * len(LAYERS))
    for data in all_data(options.share):
        cells: list[str] = []
        for name, layer in LAYERS.items():
            found = [accuracy(data, layer, split) for split in range(options.splits)]
            values = [each for each, _ in found]
            epochs = [each for _, each in found]
            records.append({"data": data.name, "layer": name, "test": values, "epochs": epochs})
            spread = f"{min(values):.3f}..{max(values):.3f}"
            cells.append(f"{statistics.mean(values):.3f} ({spread})")
        steps = int(np.median([len(x) for x in data.X]))
        print(f"| {data.name} | {steps} | {data.budget:g} | {' | '.join(cells)} |", flush=True)
        if options.out is not None:
            options.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
