"""Short trainings and recipe results for the tests of the report."""

import json

import numpy as np
import torch

from eigenrnn import ScoRNN
from eigenrnn.analysis import recurrent_matrices
from eigenrnn_experiments.baselines import TorchLSTM
from eigenrnn_experiments.recipes import Computed, Recipe, Reported
from eigenrnn_experiments.recipes.reproduce import compute
from eigenrnn_experiments.registry import RECIPES
from eigenrnn_experiments.tasks import Copying
from eigenrnn_experiments.tasks.base import model_for
from eigenrnn_experiments.training import RunKey, Settings, checkpoint, fit
from training_run import QUIET, one_thread

TASK = Copying(delay=10, test_examples=20)
LAYERS = {"scornn": ScoRNN, "lstm": TorchLSTM}
STEPS = (0, 10, 20, 30)
WITH_DYNAMICS = "scornn-0"


def build(name, seed=0):
    return model_for(TASK, LAYERS[name], 8, generator=torch.Generator().manual_seed(seed))


def train_all(folder, seeds=(0, 1)):
    """Train each network with each seed, and add dynamics to one run."""
    for name in LAYERS:
        for seed in seeds:
            options = {"batch_size": 4, "eval_every": 10, "log_every": 5, "accelerator": "cpu"}
            settings = Settings(steps=30, seed=seed, **options)
            with one_thread():
                fit(build(name, seed), TASK, settings, folder / f"{name}-{seed}", console=QUIET)
    write_dynamics(folder / WITH_DYNAMICS)
    return folder


def write_dynamics(folder):
    """Write recorded dynamics with a different matrix at each step."""
    records = []
    for step in STEPS:
        found = recurrent_matrices(build("scornn", seed=step))
        records.append(
            {
                "step": step,
                "spectrum": {
                    name: [[z.real, z.imag] for z in np.linalg.eigvals(W).tolist()]
                    for name, W in found.items()
                },
                "orthogonality_error": dict.fromkeys(found, 1e-7 * (step + 1)),
                "henrici": dict.fromkeys(found, 1e-8),
                "gradient_norms": {"l0": [0.5**t for t in range(20)]},
            }
        )
    (folder / "dynamics.jsonl").write_text(
        "".join(json.dumps(record) + "\n" for record in records)
    )


def rebuild(folder):
    """Rebuild the network of a run."""
    model = build(folder.name.split("-")[0])
    model.load_state_dict(checkpoint.load(folder / "best.pt")["model"])
    return model, next(TASK.batches("test", 4)).inputs


def write_recipe(folder, patch, *labels, note=""):
    """Write the runs of a recipe of computed numbers, and register it."""
    reported = (Reported(0.5, "table 1", quantity="total", note=note),)
    rows = tuple(Computed(label, lambda: 0.4, reported) for label in labels)
    departures = ("Batches are drawn anew",)
    source = "Helfrich, Willmott and Ye, ICML 2018, figure 2"
    recipe = Recipe("scornn/copying", "A comparison.", rows, source, departures=departures)
    patch.setitem(RECIPES, recipe.name, recipe)
    for row in rows:
        key = RunKey(recipe.name, row.label)
        compute(row, key, folder / key.path)
