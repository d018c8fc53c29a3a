"""Every row of every recipe, so small that it trains in a moment; as a script, pins losses."""

import json
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path

from drives import encoded_drives, write_drives
from eigenrnn.experiments.recipes import Row
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.tasks import CarRacing, Enwik8, PixelMNIST
from eigenrnn.experiments.training import fit
from stand_in import SIZE, taken_for_enwik8, wikipedia
from training_run import QUIET, one_thread, read_metrics

ROWS = {f"{recipe.name}: {row.label}": row for recipe in RECIPES.values() for row in recipe.rows}
TRAINED = {name: row for name, row in ROWS.items() if isinstance(row, Row)}
PINS = Path(__file__).with_name("first_losses.json")

UNITS = 8
# A free matrix of eight numbers from N(0, 1/8) may have any spectral radius; this seed's is 0.95.
SEEDS = {f"nnrnn/{figure}: RNN 512 psMNIST": 2 for figure in ("fig2", "fig4")}
LIMITS = {"reflections": 2, "capacity": 4}


class FewImages(PixelMNIST):
    """Pixel-by-pixel MNIST of which only a few images are evaluated."""

    def _images(self, split):
        images = super()._images(split)
        return images if split == "train" else images[:4]


@cache
def few_images(task):
    """Keep one task of a kind, which reads its files once."""
    return FewImages(task.permuted, task.permutation_seed, task.split, task.shuffle)


def shrunken(row):
    """Take the first point of a row with 8 units, a batch of 2 and a quick task."""
    row = next(iter(row.quick(steps=3).points().values()))
    options = dict(row.options)
    if options.get("short_size") is not None:
        options["short_size"] = max(1, UNITS * options["short_size"] // row.hidden_size)
    if options.get("negative") is not None:
        scaled = UNITS * options["negative"] // row.hidden_size
        options["negative"] = min(scaled, UNITS - options.get("short_size", 0))
    options |= {name: min(most, options[name]) for name, most in LIMITS.items() if name in options}
    settings = replace(
        row.settings, batch_size=2, eval_batch_size=100, log_every=1, accelerator="cpu"
    )
    task = few_images(row.task) if isinstance(row.task, PixelMNIST) else row.task
    changes = {"task": task, "options": options, "settings": settings, "parameters": None}
    return replace(row, hidden_size=UNITS, **changes)


def with_data(row, folder):
    """Let what is too large to keep, or must be collected, stand in a folder."""
    if isinstance(row.task, CarRacing):
        write_drives(folder, encoded_drives())
        return replace(row, task=replace(row.task, data_root=folder)), nullcontext()
    if isinstance(row.task, Enwik8):
        task = replace(row.task, data_root=folder, length=SIZE)
        return replace(row, task=task), taken_for_enwik8(wikipedia(), folder)
    return row, nullcontext()


def first_losses(name, directory):
    """Train three steps and return the loss before each."""
    directory.mkdir(parents=True, exist_ok=True)
    row, data = with_data(shrunken(TRAINED[name]), directory)
    with one_thread(), data:
        fit(row.build(SEEDS.get(name, 0)), row.task, row.settings, directory, console=QUIET)
    return [float(numbers["train_loss"]) for numbers in read_metrics(directory)]


def pin():
    """Write the losses of all rows, telling which have changed."""
    known = json.loads(PINS.read_text()) if PINS.exists() else {}
    found = {}
    for name in TRAINED:
        with tempfile.TemporaryDirectory() as folder:
            losses = first_losses(name, Path(folder) / "run")
        found[name] = [float(f"{loss:.6g}") for loss in losses]
        if found[name] != known.get(name):
            sys.stdout.write(f"{name}: {known.get(name)} -> {found[name]}\n")
    lines = [f"{json.dumps(name)}: {json.dumps(losses)}" for name, losses in found.items()]
    PINS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    pin()
