"""Trains MiniRocket on the data of `benchmarks.classification`, whose protocol is stated there.

Run it in an environment of its own: ``pip install aeon``, then ``python minirocket.py FOLDER``.
"""

import json
import pickle
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from aeon.classification.convolution_based import MiniRocketClassifier

SETS = ("ItalyPowerDemand", "BasicMotions", "JapaneseVowels", "SpokenDigits", "ACSF1")
SEEDS = (0, 1, 2)
SINGLE = 50


def padded(values: np.ndarray, lengths: np.ndarray, steps: int) -> np.ndarray:
    """Return sequences as (count, channels, steps): padded with zeros, or cut."""
    X = np.zeros((len(lengths), values.shape[1], steps), np.float32)
    ends = np.cumsum(lengths)[:-1]
    for number, x in enumerate(np.split(values, ends)):
        X[number, :, : len(x)] = x[:steps].T
    return X


def main(folder: Path) -> None:
    """Train and test on each set with each seed."""
    for name in SETS:
        with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
            data = dict(file)
        steps = data["train_lengths"].max()
        X = padded(data["train_x"], data["train_lengths"], steps)
        test_X = padded(data["test_x"], data["test_lengths"], steps)
        # compiles the kernels
        MiniRocketClassifier(n_jobs=1).fit(X, data["train_y"]).predict(test_X[:2])
        for seed in SEEDS:
            start = time.process_time()
            fitted = MiniRocketClassifier(random_state=seed, n_jobs=1).fit(X, data["train_y"])
            training = time.process_time() - start
            start = time.process_time()
            predicted = fitted.predict(test_X)
            whole = time.process_time() - start
            singles = []
            for x in test_X[:SINGLE]:
                start = time.process_time()
                fitted.predict(x[None])
                singles.append(time.process_time() - start)
            result = {
                "training_seconds": training,
                "accuracy": float((predicted == data["test_y"]).mean()),
                "prediction_ms": 1e3 * whole / len(test_X),
                "single_prediction_ms": 1e3 * statistics.median(singles),
                "bytes": len(pickle.dumps(fitted)),
            }
            (folder / f"{name}-minirocket-{seed}.json").write_text(json.dumps(result))
            print(name, seed, result, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
