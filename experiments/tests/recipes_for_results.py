"""Two tiny recipes and their runs. The second recipe shows a row of the first."""

import csv
from dataclasses import dataclass, replace

from reproduction.archive import Archive
from reproduction.archive_runs import archive_runs

from eigenrnn import ScoRNN
from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.recipes import Computed, Quoted, Recipe, Reported, Row, reproduce
from eigenrnn_experiments.tasks import Copying
from eigenrnn_experiments.training import Run, RunKey, Settings
from eigenrnn_experiments.training.run import Description, RunNumber
from training_run import QUIET, one_thread

TABLE, FIGURE = "tiny/table1", "tiny/fig1"
SEEDS = (0, 1)


@dataclass(frozen=True)
class Absent(Copying):
    """A task whose data is nowhere."""

    def missing_data(self):
        return "absent.bin"

    def batches(self, *_args, **_kwargs):
        raise MissingDataError("expected absent.bin, got none")


ABSENT = Absent(delay=4, symbols=2, test_examples=30)


def row(label="scoRNN 6", *, hidden_size=6, task=None, **changes):
    settings = Settings(
        steps=20, batch_size=4, lr=1e-2, eval_every=10, log_every=5, accelerator="cpu"
    )
    known = {
        "label": label,
        "task": task or Copying(delay=4, symbols=2, train_examples=40, test_examples=30),
        "layer": ScoRNN,
        "hidden_size": hidden_size,
        "settings": settings,
        "reported": (Reported(0.5, "table 1"),),
    }
    return Row(**(known | changes))


def recipes():
    """Make both: the figure shows the last loss of a run whose best accuracy the table has."""
    exact = Computed("exact", lambda: 3.0, (Reported(3.03, "table 1", quantity="total"),))
    quoted = Quoted("LSTM", (Reported(0.7, "table 1"),))
    last = {"place": "figure 1", "quantity": "loss", "rule": "last", "value": None}
    rows = (row().also_reported(**last), exact, quoted)
    table = Recipe(TABLE, "A table.", rows, "Nobody, 2020", SEEDS, ("nothing is true",))
    other = row("scoRNN 8", hidden_size=8, reported=(rows[0].reported[1],))
    shown = table.rows_at("figure 1")
    figure = Recipe(FIGURE, "A figure.", (*shown, other), "Nobody, 2020", (0,))
    return {recipe.name: recipe for recipe in (table, figure)}


def changed(recipe, label, **changes):
    """Return a recipe with a row of it changed."""
    rows = tuple(replace(r, **changes) if r.label == label else r for r in recipe.rows)
    return replace(recipe, rows=rows)


def run(recipe, folder, **options):
    """Run a recipe in silence."""
    with one_thread():
        return reproduce(recipe, folder, **{"console": QUIET, **options})


def archived(archive, folder, **options):
    """Collect a folder and give the runs by recipe, row and seed."""
    archive_runs([folder], archive.folder, recipes(), **options)
    keys = {run.key: run for run in Archive(archive.folder).runs()}
    return {(key.recipe, key.row, key.seed): run for key, run in keys.items()}


def journal(folder, column, seed=0):
    with (folder / "scornn-6" / f"seed-{seed}" / "metrics.csv").open(newline="") as file:
        return [float(line[column]) for line in csv.DictReader(file) if line[column]]


def of_figure(recipe: Recipe, seed, values, quantity="test_accuracy", ours=1.0):
    """Make a run of the first row with this curve."""
    first = recipe.rows[0]
    assert isinstance(first, Row)
    steps = [10, 20, 30]
    training = {"step": steps, "train_loss": values}
    return archived_run(
        first.with_seed(seed),
        RunKey(recipe.name, first.label, seed=seed, reduced=recipe.reduced_to),
        value=ours,
        curves={"training": training, "evaluated": {"step": steps, quantity: values}},
    )


def archived_run(row, key, *, value=None, state="ended", **known):
    """Make a run of a row with a number by the paper's rule."""
    described = row.describe()
    task = Description(described["task"]["class"], described["task"]["options"])
    numbers = {row.reported[0].measure: None if value is None else RunNumber(value)}
    if state == "diverged":
        numbers = None
    of_row = {"network": described["network"], "settings": described["settings"]}
    return Run(key=key, task=task, **of_row, state=state, numbers=numbers, **known)
