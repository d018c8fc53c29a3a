"""The YAML file of a sweep: valid content, errors and points."""

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from small_sweep import SEEDS, TINY, read_content

from eigenrnn_experiments.cli.sweep import read_sweep
from eigenrnn_experiments.loading import load
from eigenrnn_experiments.recipes import nonnormal
from eigenrnn_experiments.recipes.recipe import row_of
from eigenrnn_experiments.recipes.reproduce import train
from eigenrnn_experiments.training.run import RunKey
from training_run import QUIET, one_thread

SEARCH = {"search": {"lr": {"low": 0.1, "high": 1}}}
INVALID = {
    "a key of another kind of sweep": ({"recipe": "scornn/fig1", "task": "Copying"}, "task"),
    "an unknown recipe": ({"recipe": "scornn/fg1"}, r"did you mean scornn/fig1"),
    "an unknown row": ({"recipe": "scornn/fig1", "rows": ["GRU"]}, "scoRNN 190 T=1000"),
    "a row without a network": ({"recipe": "nonnormal/fig1"}, "nonnormal/fig1"),
    "both": (TINY | {"grid": {"lr": [1]}} | SEARCH, "both"),
    "no values in a grid": (TINY | {"grid": {"lr": []}}, "grid"),
    "a repeated seed": (TINY | {"seeds": [1, 1]}, r"\[1, 1\]"),
    "a search over several rows": ({"recipe": "scornn/fig1"} | SEARCH, "choose one"),
    "zero CPU cores": (TINY | SEEDS | {"cpus_per_trial": 0}, "cpus_per_trial"),
    "invalid YAML": ("a: [", r"sweep\.yaml"),
    "a list instead of a mapping": ("- a", r"sweep\.yaml"),
    "an empty file": ("", r"sweep\.yaml"),
}


@pytest.mark.parametrize(("content", "message"), INVALID.values(), ids=INVALID)
def test_invalid_content_raises(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_content(tmp_path, content)


def test_the_values_of_a_grid_are_those_of_the_file(tmp_path):
    content = "task: Copying\ngrid: {layer.bias: [true, 1, 1e-3, '1e-3', null]}"
    (plan,) = read_content(tmp_path, content).plans
    values = [point["layer.bias"] for point in plan.points]
    assert repr(values) == repr([True, 1, 0.001, "1e-3", None])


def test_a_value_twice_is_refused(tmp_path):
    content = "task: Copying\ngrid: {lr: [0.1, 0.01, 0.1]}"
    with pytest.raises(ValueError, match=r"expected different values of lr, got .*0\.01"):
        read_content(tmp_path, content)


@pytest.mark.parametrize("name", ["nofile.yaml", ""])
def test_a_missing_file_raises(tmp_path, name):
    with pytest.raises(OSError, match=str(tmp_path / name)):
        read_sweep(tmp_path / name)


def test_a_key_twice_is_refused(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text("task: Copying\ngrid:\n  lr: [0.1]\ngrid:\n  hidden_size: [4, 6]\n")
    with pytest.raises(ValueError, match="each key once, got grid 2 times"):
        read_sweep(file)


INVALID_RUNS = {
    "a misspelt key": (TINY | {"gird": {"lr": [1]}}, "gird"),
    "a misspelt setting": (TINY | {"stepz": 3}, "'stepz'"),
    "a seed": (TINY | {"seed": 3}, "'seed'"),
    "a seed in a grid": (TINY | {"grid": {"seed": [3]}}, "--seed=3"),
    "an option of the command": (TINY | {"out": "a"}, "'out'"),
    "a misspelt parameter": (TINY | {"grid": {"hiden_size": [3]}}, "hiden_size"),
    "rows without a recipe": (TINY | SEEDS | {"rows": ["a"]}, "'rows'"),
    "a metric that the task lacks": (TINY | SEARCH | {"best_by": "los"}, "'los'"),
    "an option of a layer": (
        TINY | {"grid": {"layer.negative": [3, 300]}},
        "negative <= 6, got 300",
    ),
    "a misspelt option": (TINY | {"grid": {"task.dely": [3]}}, "Option 'dely' is not accepted"),
    "a setting out of range": (
        TINY | {"grid": {"lr": [0.1, -1]}},
        "expected a finite lr >= 0, got -1",
    ),
    "an incomplete range": (TINY | {"search": {"lr": {"low": 1}}}, "lr.*high"),
    "an end of a range": (
        TINY | {"search": {"layer.negative": {"low": 1, "high": 50}}},
        "negative <= 6, got 50",
    ),
    "an unknown option of a recipe": (
        {"recipe": "scornn/fig1", "rows": ["uRNN"], "grid": {"layr": [1]}},
        "for the row 'restricted-capacity uRNN 470 T=1000'; got layr",
    ),
}


@pytest.mark.parametrize(("content", "message"), INVALID_RUNS.values(), ids=INVALID_RUNS)
def test_an_invalid_run_raises_before_any_is_trained(tmp_path, content, message):
    with pytest.raises(Exception, match=message):
        read_content(tmp_path, content).run(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_search_has_the_domains_of_the_file(tmp_path):
    space = {
        "lr": {"low": 1e-4, "high": 0.1, "log": True},
        "layer.negative": {"low": 1, "high": 6},
        "batch_size": {"low": 1, "high": 11, "step": 5},
        "optimiser": {"choices": ["adam", "sgd"]},
    }
    sweep = read_content(tmp_path, TINY | {"search": space, "trials": 7, "search_seed": 3})
    assert (sweep.file.trials, sweep.file.search_seed) == (7, 3)
    assert sweep.distributions == {
        "lr": FloatDistribution(1e-4, 0.1, log=True),
        "layer.negative": IntDistribution(1, 6),
        "batch_size": IntDistribution(1, 11, step=5),
        "optimiser": CategoricalDistribution(("adam", "sgd")),
    }


def test_the_points_of_a_recipe_are_those_of_its_rows(tmp_path):
    content = {"recipe": "nonnormal/fig3", "rows": ["identity copying"], "seeds": [3]}
    sweep = read_content(tmp_path, content)
    (recipe,) = (r for r in nonnormal.RECIPES if r.name == "nonnormal/fig3")
    row = next(r for r in recipe.rows if r.label == "identity copying")
    (plan,) = sweep.plans
    assert [key.point for key in plan.keys] == list(row.points())
    origin = RunKey(recipe.name, row.label, plan.keys[5].point, 3)
    assert plan.keys[5] == origin
    assert sweep.row_of(origin).settings == row_of(origin, recipe).settings


def test_a_recipe_can_be_swept_with_other_values(tmp_path):
    content = {"recipe": "scornn/fig1", "rows": ["uRNN"], "quick": True}
    content |= {"grid": {"lr": [0.25], "task.delay": [7], "hidden_size": [6]}}
    sweep = read_content(tmp_path, content)
    (key,) = sweep.plans[0].keys
    row = sweep.row_of(key)
    assert (row.settings.lr, row.task.delay) == (0.25, 7)
    with one_thread():
        train(row, key, tmp_path / "run", console=QUIET)
    again = load(tmp_path / "run")
    assert (again.settings, again.task) == (row.settings, row.task)
