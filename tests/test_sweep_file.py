"""The YAML file of a sweep: valid content, errors and points."""

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from eigenrnn.experiments.cli.rebuild import load
from eigenrnn.experiments.cli.sweep_file import read_sweep
from eigenrnn.experiments.recipes import nonnormal
from eigenrnn.experiments.recipes.runs import row_of
from eigenrnn.experiments.training import RunFolder
from eigenrnn.experiments.training.run_key import RunKey
from small_sweep import SEEDS, TINY, read_content, run_here, states
from training_run import QUIET, one_thread

SEARCH = {"search": {"lr": {"low": 0.1, "high": 1}}}
INVALID = {
    "an unknown key": (TINY | {"gird": {}}, r"'gird' \(did you mean grid\?\)"),
    "a misspelt setting": (TINY | {"stepz": 3}, r"'stepz' \(did you mean steps"),
    "a seed": (TINY | {"seed": 3}, r"'seed' \(did you mean seeds"),
    "a misspelt parameter": (
        TINY | {"grid": {"hiden_size": [3]}},
        r"'hiden_size' \(did you mean hidden_size",
    ),
    "a key of another kind of sweep": ({"recipe": "scornn/fig1", "task": "Copying"}, "'task'"),
    "rows without a recipe": (TINY | SEEDS | {"rows": ["a"]}, "'rows'"),
    "an unknown recipe": ({"recipe": "scornn/fg1"}, r"did you mean scornn/fig1"),
    "an unknown row": ({"recipe": "scornn/fig1", "rows": ["GRU"]}, "scoRNN 190 T=1000"),
    "both": (TINY | {"grid": {"lr": [1]}} | SEARCH, "grid or search"),
    "neither": (TINY, "grid, search or seeds"),
    "a grid without a list": (TINY | {"grid": {"lr": 0.1}}, r"(?s)grid.*0\.1"),
    "no values in a grid": (TINY | {"grid": {"lr": []}}, "lr"),
    "a repeated seed": (TINY | {"seeds": [1, 1]}, r"\[1, 1\]"),
    "a negative seed": (TINY | {"seeds": [-1]}, r"\[-1\]"),
    "trials for a grid": (TINY | SEEDS | {"trials": 3}, "trials only with search"),
    "a search over several rows": (
        {"recipe": "scornn/fig1"} | SEARCH,
        "expected one row for a search, got",
    ),
    "zero CPU cores": (TINY | SEEDS | {"cpus_per_trial": 0}, "cpus_per_trial .* 0"),
    "a fractional count": (TINY | SEEDS | {"retries": 1.5}, r"(?s)retries.*1\.5"),
    "a negative count": (TINY | SEEDS | {"retries": -1}, "retries .* -1"),
    "GPUs as a string": (TINY | SEEDS | {"gpus_per_trial": "one"}, "(?s)gpus_per_trial.*one"),
    "NaN GPUs": (TINY | SEEDS | {"gpus_per_trial": float("nan")}, "gpus_per_trial .* nan"),
    "a folder as a number": (TINY | SEEDS | {"data_root": 3}, "(?s)data_root.*3"),
    "an empty search": (TINY | {"search": None}, "search"),
    "an empty grid": (TINY | {"grid": None}, "grid"),
    "a number as a name": (TINY | {"grid": {3: [1]}}, "3"),
    "a metric as a number": (TINY | SEARCH | {"metric": 3}, "(?s)metric.*3"),
    "an unknown mode": (TINY | SEARCH | {"mode": "least"}, "(?s)mode.*least"),
    "a search seed as a string": (TINY | SEARCH | {"search_seed": "x"}, "(?s)search_seed.*x"),
    "rows as a number": ({"recipe": "scornn/fig1", "rows": 3}, "(?s)rows.*3"),
    "a list of recipes": ({"recipe": ["a"]}, r"(?s)recipe.*\['a'\]"),
    "quick as a number": ({"recipe": "scornn/fig1", "quick": 3}, "(?s)quick.*3"),
    "invalid YAML": ("a: [", "YAML"),
    "a list instead of a mapping": ("- a", "keys such as task"),
}


@pytest.mark.parametrize(("content", "message"), INVALID.values(), ids=INVALID)
def test_invalid_content_raises(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_content(tmp_path, content)


def test_the_values_of_a_grid_are_those_of_the_file(tmp_path):
    content = "task: Copying\ngrid: {layer.bias: [true, 1, 1e-3, '1e-3', null]}"
    values = [point["layer.bias"] for point in read_content(tmp_path, content).plan]
    assert repr(values) == repr([True, 1, 0.001, "1e-3", None])


def test_null_entries_are_left_out_of_the_description(tmp_path):
    nulls = {"data_root": None, "metric": None, "mode": None}
    assert read_content(tmp_path, TINY | SEARCH | nulls).description == TINY | SEARCH


@pytest.mark.parametrize("name", ["nofile.yaml", ""])
def test_a_missing_file_raises(tmp_path, name):
    with pytest.raises(ValueError, match=f"YAML file of a sweep at {tmp_path / name}"):
        read_sweep(tmp_path / name)


INVALID_TRIALS = {
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
    "a reversed range": (TINY | {"search": {"lr": {"low": 2, "high": 1}}}, "lr.*low"),
    "a misspelt key of a range": (
        TINY | {"search": {"lr": {"low": 1, "high": 2, "lgo": True}}},
        "lr.*lgo",
    ),
    "a logarithmic range from zero": (
        TINY | {"search": {"lr": {"low": 0, "high": 1.5, "log": True}}},
        "lr.*low",
    ),
    "no choices": (TINY | {"search": {"lr": {"choices": []}}}, "lr.*choices"),
    "a range as a string": (TINY | {"search": {"lr": {"low": "a", "high": 2}}}, "lr.*'a'"),
    "an end of a range": (
        TINY | {"search": {"layer.negative": {"low": 1, "high": 50}}},
        "negative <= 6, got 50",
    ),
    "an unknown metric": (
        TINY | {"search": {"lr": {"low": 0.1, "high": 1}}, "metric": "test los"},
        "expected metric among validation loss",
    ),
    "an unknown metric with a mode": (
        TINY | {"search": {"lr": {"low": 0.1, "high": 1}}, "metric": "test los", "mode": "min"},
        "expected metric among validation loss",
    ),
    "a rate of constrained matrices for networks without any": (
        TINY | SEEDS | {"layer": "TorchGRU", "lr_recurrent": 0.1},
        "lr_recurrent only for a network with a constrained matrix, got 0.1",
    ),
    "such a rate for a row of a recipe": (
        {"recipe": "scornn/fig1", "rows": ["LSTM 68 T=1000"], "grid": {"lr_recurrent": [0.1]}},
        "lr_recurrent only for a network with a constrained matrix, got 0.1",
    ),
    "an unknown option of a recipe": (
        {"recipe": "scornn/fig1", "rows": ["uRNN"], "grid": {"layr": [1]}},
        "for the row 'restricted-capacity uRNN 470 T=1000'; got layr",
    ),
}


@pytest.mark.parametrize(("content", "message"), INVALID_TRIALS.values(), ids=INVALID_TRIALS)
def test_an_invalid_trial_raises_before_any_is_trained(tmp_path, content, message):
    with pytest.raises(Exception, match=message):
        read_content(tmp_path, content).run(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_of_several_layers_may_need_the_rate_of_constrained_matrices(tmp_path):
    content = TINY | {"lr_recurrent": 0.1, "grid": {"layer": ["TorchGRU", "ScoRNN"]}, "steps": 2}
    _, trials = run_here(tmp_path, content)
    assert states(tmp_path, trials) == ["ended", "ended"]


def test_a_grid_is_every_combination(tmp_path):
    plan = read_content(tmp_path, TINY | {"grid": {"lr": [1, 2], "layer.negative": [3, 4]}}).plan
    assert [tuple(point.values()) for point in plan] == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_a_search_has_the_domains_of_the_file(tmp_path):
    space = {
        "lr": {"low": 1e-4, "high": 0.1, "log": True},
        "layer.negative": {"low": 1, "high": 6},
        "batch_size": {"low": 1, "high": 11, "step": 5},
        "optimiser": {"choices": ["adam", "sgd"]},
    }
    plan = read_content(tmp_path, TINY | {"search": space, "trials": 7, "search_seed": 3}).plan
    assert (plan.trials, plan.seed) == (7, 3)
    assert plan.distributions == {
        "lr": FloatDistribution(1e-4, 0.1, log=True),
        "layer.negative": IntDistribution(1, 6),
        "batch_size": IntDistribution(1, 11, step=5),
        "optimiser": CategoricalDistribution(("adam", "sgd")),
    }
    lrs = [point["lr"] for point in plan.examples]
    assert (len(lrs), set(lrs)) == (5, {1e-4, 0.1})
    assert {point["layer.negative"] for point in plan.examples} == {1, 6}
    assert {point["optimiser"] for point in plan.examples} == {"adam", "sgd"}


def test_the_points_of_a_recipe_are_those_of_its_rows(tmp_path):
    content = {"recipe": "nonnormal/fig3", "rows": ["identity copying"], "seeds": [3]}
    sweep = read_content(tmp_path, content)
    (recipe,) = (r for r in nonnormal.RECIPES if r.name == "nonnormal/fig3")
    row = next(r for r in recipe.rows if r.label == "identity copying")
    trials = [sweep.trials_of(n, point)[0] for n, point in enumerate(sweep.plan)]
    assert [trial.point for trial in trials] == list(row.points())
    origin = RunKey(recipe.name, row.label, trials[5].point, 3, False)
    assert sweep.run_of(trials[5]).row.settings == row_of(origin, recipe).settings


def test_a_recipe_can_be_swept_with_other_values(tmp_path):
    content = {"recipe": "scornn/fig1", "rows": ["uRNN"], "quick": True}
    content |= {"grid": {"lr": [0.25], "task.delay": [7], "hidden_size": [6]}}
    sweep = read_content(tmp_path, content)
    (trial,) = sweep.trials_of(0, sweep.plan[0])
    row = sweep.run_of(trial).row
    assert (row.settings.lr, row.task.delay) == (0.25, 7)
    with one_thread():
        sweep.train(trial, RunFolder(tmp_path / "run"), console=QUIET)
    again = load(tmp_path / "run")
    assert (again.settings, again.task) == (row.settings, row.task)
