"""Panels of recipes: pictures drawn from finished runs, and the files of their numbers."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from eigenrnn.layers import ScoRNN
from eigenrnn_experiments.recipes import Recipe, Reported, Row, reproduce
from eigenrnn_experiments.recipes.panels import Curves, Map, SideBySide
from eigenrnn_experiments.recipes.recipe import Panel
from eigenrnn_experiments.tasks import Copying
from eigenrnn_experiments.training import Settings

QUIET = Console(quiet=True)
TASK = Copying(delay=5, test_examples=20, validation_examples=20)


def row(label):
    return Row(
        label=label,
        task=TASK,
        layer=ScoRNN,
        hidden_size=6,
        settings=Settings(steps=4, batch_size=2, log_every=1, eval_every=2, accelerator="cpu"),
        reported=(Reported(None, "figure 1", note="a test"),),
    )


def losses(trained):
    series = {
        run.row.label: run.files.read_column("train_loss")[1]
        for runs in trained.values()
        for run in runs
    }
    return Curves(range(1, 5), series, "step", "loss")


def weights(trained):
    (run,) = trained["one"]
    return Map(run.model().layer.recurrent_matrices()[0].detach(), "from", "to", "weight")


RECIPE = Recipe(
    name="test/fig1",
    summary="A test.",
    rows=(row("one"), row("two")),
    source="nobody",
    panels=(
        Panel("a", "The losses of both", losses, ("one", "two")),
        Panel("b", "The weights of one", weights, ("one",)),
    ),
)


def csv_rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_panel_is_drawn_when_all_rows_have_runs(tmp_path):
    reproduce(RECIPE, tmp_path, console=QUIET)
    assert {path.name for path in tmp_path.glob("*.png")} == {"a.png", "b.png"}
    drawn = [
        float(line["loss"]) for line in csv_rows(tmp_path / "a.csv") if line["curve"] == "one"
    ]
    metrics = tmp_path / "one" / "seed-0" / "metrics.csv"
    logged = [float(line["train_loss"]) for line in csv_rows(metrics)]
    assert drawn == pytest.approx(logged, rel=1e-9)
    page = (tmp_path / "results.md").read_text()
    assert "![The losses of both](a.png)" in page


def test_a_panel_is_drawn_from_the_runs_of_another_recipe(tmp_path):
    for recipe in (RECIPE, replace(RECIPE, name="test/fig2", rows=RECIPE.rows_at("figure 1"))):
        reproduce(recipe, tmp_path / recipe.name.replace("/", "-"), console=QUIET)
    first, second = (
        (tmp_path / name / "a.csv").read_text() for name in ("test-fig1", "test-fig2")
    )
    assert first == second


def test_the_drawn_model_has_the_trained_weights(tmp_path):
    reproduce(RECIPE, tmp_path, rows=["one"], console=QUIET)
    drawn = np.array([float(line["weight"]) for line in csv_rows(tmp_path / "b.csv")])
    untrained = row("one").build(0).layer.recurrent_matrices()[0].detach().numpy().ravel()
    assert abs(drawn - untrained).max() > 1e-6


def test_a_panel_with_missing_runs_is_listed_and_not_drawn(tmp_path):
    reproduce(RECIPE, tmp_path, rows=["one"], console=QUIET)
    assert not (tmp_path / "a.png").exists()
    page = (tmp_path / "results.md").read_text()
    assert "a, not drawn because a run is missing: The losses of both." in page
    reproduce(RECIPE, tmp_path, rows=["two"], resume=True, console=QUIET)
    assert (tmp_path / "a.png").exists()


def test_an_unknown_column_is_named(tmp_path):
    recipe = replace(
        RECIPE,
        panels=(Panel("a", "?", lambda t: t["one"][0].files.read_column("nothing"), ("one",)),),
    )
    with pytest.raises(ValueError, match="got step"):
        reproduce(recipe, tmp_path, rows=["one"], console=QUIET)


def test_the_table_of_curves_keeps_bands_and_nan():
    curves = Curves(
        [1, 2], {"p": [3.0, np.nan], "q": [5.0, 6.0]}, "x", "y", bands={"q": [1.0, 2.0]}
    )
    table = {name: np.asarray(column).tolist() for name, column in curves.table().items()}
    assert table["curve"] == ["p", "p", "q", "q"]
    np.testing.assert_array_equal(table["half_width"], [np.nan, np.nan, 1.0, 2.0])
    combined = SideBySide([curves, Curves([1], {"r": [7.0]}, "x", "z")]).table()
    np.testing.assert_array_equal(combined["part"], [1, 1, 1, 1, 2])
    np.testing.assert_array_equal(combined["z"], [np.nan] * 4 + [7.0])
