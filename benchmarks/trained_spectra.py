"""Measures trained networks of the recipes `state_tracking`: eigenvalues and Lyapunov exponents.

Of layers that learnt S3 from reflections on, it also measures what the letters do to the state.

Run with ``python -m benchmarks.trained_spectra FOLDER ...``, where each folder holds the runs of a
recipe, after these runs have been archived. The numbers of the best rate of each network are added
to `reproduction/state_tracking.json`; weights are not stored.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from reproduction.archive import Archive
from reproduction.recipes import RECIPES
from reproduction.reflections import measure_reflections
from reproduction.state_tracking import REFLECTIONS, SPECTRA, tracked_rows
from torch import nn

from eigenrnn.analysis import lyapunov, spectrum
from eigenrnn.layers import LRU, RNN
from eigenrnn_experiments.errors import CheckpointError
from eigenrnn_experiments.recipes import Row
from eigenrnn_experiments.recipes.reproduce import TrainedRow
from eigenrnn_experiments.training import Run, RunFolder, runs

__all__ = ["main"]

WORDS, STEPS, DISCARD = 2, 120, 40


def measure(row: Row, run: Run, folder: Path, has_eigenvalues: bool) -> dict[str, Any]:
    """Return the numbers of one run, with the eigenvalues of its W unless another run has them."""
    key = run.key
    layer: Any = TrainedRow(row, RunFolder(folder)).model().layer
    words = next(row.task.batches("test", WORDS)).inputs[:STEPS]
    with torch.no_grad():
        exponent = lyapunov(layer, words, discard=DISCARD, exponents=1).exponents[0]
        has_single_matrix = isinstance(layer, RNN | LRU | nn.RNN) and not has_eigenvalues
        eigenvalues = spectrum(layer).eigenvalues if has_single_matrix else []
    entry: dict[str, Any] = {
        "recipe": key.recipe,
        "row": key.row,
        "point": key.point,
        "seed": key.seed,
        "lyapunov": round(float(exponent), 5),
        "eigenvalues": [[round(z.real, 4), round(z.imag, 4)] for z in eigenvalues],
    }
    if key.recipe == REFLECTIONS:
        entry["reflections"] = measure_reflections(layer, row.task)
    return entry


def main() -> None:
    """Measure the runs at the best rate of each network, and write the file of the archive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="folders of recipes")
    options = parser.parse_args()
    folders = {RunFolder(path).run.key: path for path in runs(options.folders)["folder"]}
    entries = json.loads(SPECTRA.read_text()) if SPECTRA.exists() else []
    known = {(e["recipe"], e["row"], e["point"], e["seed"]): e for e in entries}
    for tracked in tracked_rows(Archive(), RECIPES):
        for run in tracked.runs:
            key = (run.key.recipe, run.key.row, run.key.point, run.key.seed)
            if key in known or run.key not in folders:
                continue
            has_eigenvalues = any(e["eigenvalues"] for k, e in known.items() if k[:3] == key[:3])
            try:
                known[key] = measure(tracked.row, run, folders[run.key], has_eigenvalues)
            except CheckpointError as error:  # the weights of archived runs may be lost
                print(*key, f"not measured: {error}", flush=True)
            else:
                print(*key, known[key]["lyapunov"], flush=True)
                lines = ",\n".join(json.dumps(known[each]) for each in sorted(known))
                SPECTRA.write_text(f"[\n{lines}\n]\n")  # so that an interrupted command keeps it


if __name__ == "__main__":
    main()
