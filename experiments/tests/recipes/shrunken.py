"""Every row of every recipe, shrunken to 8 units; as a script, it pins first losses."""

import json
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path

from reproduction.recipes import RECIPES

from eigenrnn_experiments.recipes import Row
from eigenrnn_experiments.tasks import CarRacing, Enwik8, PixelMNIST
from eigenrnn_experiments.training import fit
from synthetic_data import SIZE, encoded_drives, patched_enwik8, synthetic_enwik8, write_drives
from training_run import QUIET, one_thread, read_metrics

ROWS = {f"{recipe.name}: {row.label}": row for recipe in RECIPES.values() for row in recipe.rows}
TRAINED = {name: row for name, row in ROWS.items() if isinstance(row, Row)}
PINS = Path(__file__).with_name("first_losses.json")

UNITS = 8
# The spectral radius of an 8 x 8 matrix from N(0, 1/8) varies; with this seed it is 0.95.
SEEDS = {"nnrnn/fig2: RNN 512 psMNIST": 2}
MAXIMAL_OPTIONS = {"reflections": 2, "capacity": 4}


class FewImages(PixelMNIST):
    """Pixel-by-pixel MNIST that evaluates four images."""

    def _images(self, split):
        images = super()._images(split)
        return images if split == "train" else images[:4]


@cache
def few_images(task):
    """Return one task per set of options, so its files are read once."""
    return FewImages(task.permuted, task.permutation_seed, task.split, task.shuffle)


def shrunken(row):
    """Return the first point of a row with 8 units, batches of 2 and its quick task."""
    row = next(iter(row.quick(steps=3).points().values()))
    options = dict(row.options)
    if options.get("short_size") is not None:
        options["short_size"] = max(1, UNITS * options["short_size"] // row.hidden_size)
    if options.get("negative") is not None:
        scaled = UNITS * options["negative"] // row.hidden_size
        options["negative"] = min(scaled, UNITS - options.get("short_size", 0))
    options |= {
        name: min(limit, options[name])
        for name, limit in MAXIMAL_OPTIONS.items()
        if name in options
    }
    settings = replace(
        row.settings, batch_size=2, eval_batch_size=100, log_every=1, accelerator="cpu"
    )
    task = few_images(row.task) if isinstance(row.task, PixelMNIST) else row.task
    changes = {"task": task, "options": options, "settings": settings, "parameters": None}
    return replace(row, hidden_size=UNITS, **changes)


def with_data(row, folder):
    """Write stand-in data to a folder for tasks whose data is too large for the tests."""
    if isinstance(row.task, CarRacing):
        write_drives(folder, encoded_drives())
        return replace(row, task=replace(row.task, data_root=folder)), nullcontext()
    if isinstance(row.task, Enwik8):
        task = replace(row.task, data_root=folder, length=SIZE)
        return replace(row, task=task), patched_enwik8(synthetic_enwik8(), folder)
    return row, nullcontext()


def _distinct():
    """Return a name for each small network: figures and tables share some of them."""
    names = {}
    for name, row in TRAINED.items():
        names.setdefault(json.dumps([shrunken(row).describe(), SEEDS.get(name, 0)]), name)
    return list(names.values())


DISTINCT = _distinct()


def first_losses(name, directory):
    """Train three steps and return the training loss of each."""
    seed = SEEDS.get(name, 0)
    directory.mkdir(parents=True, exist_ok=True)
    row, data = with_data(shrunken(TRAINED[name]), directory)
    with one_thread(), data:
        fit(row.build(seed), row.task, row.settings, directory, console=QUIET)
    return [float(numbers["train_loss"]) for numbers in read_metrics(directory)]


def pin(parts):
    """Write the losses of rows without pinned ones, and of rows whose name contains a part.

    Raises:
        ValueError: If no name contains a part.
    """
    unknown = [part for part in parts if not any(part in name for name in TRAINED)]
    if unknown:
        raise ValueError(f"expected parts of the names of trained rows, got {unknown}")
    pinned = json.loads(PINS.read_text()) if PINS.exists() else {}
    losses_of = {}
    for name in DISTINCT:
        if name in pinned and not any(part in name for part in parts):
            losses_of[name] = pinned[name]
            continue
        with tempfile.TemporaryDirectory() as folder:
            losses = first_losses(name, Path(folder) / "run")
        losses_of[name] = [float(f"{loss:.6g}") for loss in losses]
        if losses_of[name] != pinned.get(name):
            sys.stdout.write(f"{name}: {pinned.get(name)} -> {losses_of[name]}\n")
    lines = [f"{json.dumps(name)}: {json.dumps(losses)}" for name, losses in losses_of.items()]
    PINS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    pin(sys.argv[1:])
