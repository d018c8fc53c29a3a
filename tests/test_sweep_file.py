"""The YAML file of a sweep: valid content, errors and points."""

import pytest

from eigenrnn.experiments.cli.rebuild import load
from eigenrnn.experiments.cli.sweep_file import read_sweep
from eigenrnn.experiments.recipes import nonnormal
from eigenrnn.experiments.recipes.runs import row_of
from eigenrnn.experiments.sweep import Choice, Range, Search
from eigenrnn.experiments.training import RunFolder
from eigenrnn.experiments.training.run_key import RunKey
from small_sweep import SEEDS, TINY, read_content
from training_run import QUIET, one_thread

WHOLE = "a whole number >= 0"
SEARCH = {"search": {"lr": {"low": 0.1, "high": 1}}}
INVALID = {
    "an unknown key": (TINY | {"gird": {}}, r"takes no key 'gird' \(did you mean grid\?\)"),
    "a misspelt setting": (TINY | {"stepz": 3}, r"takes no key 'stepz' \(did you mean steps"),
    "a seed": (TINY | {"seed": 3}, r"'seed' \(did you mean seeds"),
    "a misspelt parameter": (
        TINY | {"grid": {"hiden_size": [3]}},
        r"train takes no key 'hiden_size' \(did you mean hidden_size",
    ),
    "a key of another kind of sweep": (
        {"recipe": "scornn/fig1", "task": "copying"},
        "no key 'task'",
    ),
    "an unknown recipe": ({"recipe": "scornn/fg1"}, r"did you mean scornn/fig1"),
    "an unknown row": ({"recipe": "scornn/fig1", "rows": ["GRU"]}, "scoRNN 190 T=1000"),
    "both": (TINY | {"grid": {"lr": [1]}, "search": {}}, "grid or search in a sweep, got both"),
    "neither": (TINY, "expected grid, search or seeds"),
    "a grid without a list": (TINY | {"grid": {"lr": 0.1}}, "names to lists of values"),
    "a repeated seed": (TINY | {"seeds": [1, 1]}, "different whole numbers"),
    "trials for a grid": (
        TINY | SEEDS | {"trials": 3},
        "expected trials only with search",
    ),
    "an incomplete range": (
        TINY | {"search": {"lr": {"low": 1}}},
        "lr to have low and high, or choices",
    ),
    "a reversed range": (
        TINY | {"search": {"lr": {"low": 2, "high": 1}}},
        "lr: expected finite low",
    ),
    "a misspelt key of a range": (
        TINY | {"search": {"lr": {"low": 1, "high": 2, "lgo": True}}},
        r"lr takes no key 'lgo' \(did you mean low or log",
    ),
    "a logarithmic range from zero": (
        TINY | {"search": {"lr": {"low": 0, "high": 1, "log": True}}},
        "lr: expected 0 < low",
    ),
    "a search over several rows": (
        {"recipe": "scornn/fig1", "search": {"lr": {"low": 1, "high": 2}}},
        "expected one row for a search, got",
    ),
    "zero CPU cores": (TINY | SEEDS | {"cpus_per_trial": 0}, "cpus_per_trial to be a positive"),
    "a fractional count": (TINY | SEEDS | {"retries": 1.5}, f"retries to be {WHOLE}, got 1.5"),
    "a count as a string": (TINY | SEEDS | {"retries": "3"}, f"retries to be {WHOLE}, got '3'"),
    "a negative count": (TINY | SEEDS | {"retries": -1}, f"retries to be {WHOLE}, got -1"),
    "GPUs as a string": (TINY | SEEDS | {"gpus_per_trial": "one"}, "gpus_per_trial to be a whole"),
    "1.5 GPUs": (TINY | SEEDS | {"gpus_per_trial": 1.5}, "or a fraction below 1, got 1.5"),
    "NaN GPUs": (
        TINY | SEEDS | {"gpus_per_trial": float("nan")},
        "or a fraction below 1, got nan",
    ),
    "a folder as a number": (TINY | SEEDS | {"data_root": 3}, "data_root to be a string, got 3"),
    "an empty search": (
        TINY | {"search": None},
        "search to map names to ranges or choices, got None",
    ),
    "an empty grid": (TINY | {"grid": None}, "grid to map names to lists of values, got None"),
    "a number as a name": (TINY | {"grid": {3: [1]}}, "train takes no key '3'"),
    "a step as a string": (
        TINY | {"search": {"lr": {"low": 1, "high": 2, "step": "a"}}},
        "lr: expected step to be a number, got 'a'",
    ),
    "a logarithm as a string": (
        TINY | {"search": {"lr": {"low": 1, "high": 2, "log": "no"}}},
        "lr: expected log to be true or false, got 'no'",
    ),
    "a metric as a number": (TINY | SEARCH | {"metric": 3}, "metric to be a string, got 3"),
    "an unknown mode": (TINY | SEARCH | {"mode": "least"}, "mode to be min or max, got 'least'"),
    "a search seed as a string": (
        TINY | SEARCH | {"search_seed": "x"},
        f"search_seed to be {WHOLE}",
    ),
    "rows as a number": (
        {"recipe": "scornn/fig1", "rows": 3},
        "rows to be a string or a list of strings, got 3",
    ),
    "a list of recipes": ({"recipe": ["a"]}, r"recipe to be a string, got \['a'\]"),
    "quick as a string": (
        {"recipe": "scornn/fig1", "quick": "false"},
        "quick to be true or false, got 'false'",
    ),
    "a repeated value": (
        TINY | {"grid": {"lr": [1, 0.1, 1.0]}},
        "lr in grid to have each value once",
    ),
    "a repeated choice": (
        TINY | {"search": {"lr": {"choices": [1, 1]}}},
        "lr: expected choices to have each value once, got 1 twice",
    ),
    "invalid YAML": ("a: [", "expected YAML in"),
    "a key of a grid twice": (
        "task: copying\nsteps: 1\ngrid:\n  lr: [0.1, 0.2]\n  lr: [0.3]\n",
        "expected YAML in .* the key 'lr' once, got it in the lines 4 and 5",
    ),
    "a list instead of a mapping": (
        "- a",
        "expected keys such as task, layer and grid, or recipe",
    ),
}


@pytest.mark.parametrize(("content", "message"), INVALID.values(), ids=INVALID)
def test_invalid_content_raises(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_content(tmp_path, content)


def test_true_and_one_are_different_values(tmp_path):
    plan = read_content(tmp_path, TINY | {"grid": {"layer.bias": [True, 1]}}).plan
    assert len(plan.points) == 2


def test_null_entries_are_left_out_of_the_description(tmp_path):
    nulls = {"data_root": None, "metric": None, "mode": None}
    assert read_content(tmp_path, TINY | SEARCH | nulls).description == TINY | SEARCH


@pytest.mark.parametrize(("name", "got"), [("nofile.yaml", "nothing"), ("", "a folder")])
def test_a_missing_file_raises(tmp_path, name, got):
    with pytest.raises(ValueError, match="expected the YAML file of a sweep") as caught:
        read_sweep(tmp_path / name)
    assert str(caught.value).endswith(f"at {tmp_path / name}, got {got}")


def test_more_gpus_than_available_raise(tmp_path):
    sweep = read_content(tmp_path, TINY | SEEDS | {"gpus_per_trial": 1000})
    with pytest.raises(ValueError, match=r"expected gpus_per_trial <= .*, got 1000"):
        sweep.run(tmp_path / "out", console=QUIET)
    assert not (tmp_path / "out").exists()


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
        TINY | SEEDS | {"layer": "torchgru", "lr_recurrent": 0.1},
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
        read_content(tmp_path, content).run(tmp_path / "out", console=QUIET)
    assert not (tmp_path / "out").exists()


def test_one_of_several_layers_may_need_the_rate_of_constrained_matrices(tmp_path):
    content = TINY | {"lr_recurrent": 0.1, "grid": {"layer": ["torchgru", "scornn"]}}
    source, plan = (sweep := read_content(tmp_path, content)).source, sweep.plan
    source.check([trial for n, p in enumerate(plan.points) for trial in source.trials(n, p)])


def test_a_grid_is_every_combination(tmp_path):
    plan = read_content(tmp_path, TINY | {"grid": {"lr": [1, 2], "layer.negative": [3, 4]}}).plan
    assert [tuple(point.values()) for point in plan.points] == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_a_search_has_the_domains_of_the_file(tmp_path):
    space = {"lr": {"low": 1e-4, "high": 0.1, "log": True}, "optimiser": {"choices": ["adam"]}}
    plan = read_content(tmp_path, TINY | {"search": space, "trials": 7, "search_seed": 3}).plan
    domains = {"lr": Range(1e-4, 0.1, log=True), "optimiser": Choice(("adam",))}
    assert plan == Search(domains, trials=7, seed=3)


def test_the_points_of_a_recipe_are_those_of_its_rows(tmp_path):
    content = {"recipe": "nonnormal/fig3", "rows": ["identity copying"], "seeds": [3]}
    sweep = read_content(tmp_path, content)
    (recipe,) = (r for r in nonnormal.RECIPES if r.name == "nonnormal/fig3")
    row = next(r for r in recipe.rows if r.label == "identity copying")
    trials = [sweep.source.trials(n, point)[0] for n, point in enumerate(sweep.plan.points)]
    assert [trial.point for trial in trials] == list(row.points())
    origin = RunKey(recipe.name, row.label, trials[5].point, 3, False)
    assert sweep.source.run(trials[5]).row.settings == row_of(origin, recipe).settings


def test_a_recipe_can_be_swept_with_other_values(tmp_path):
    content = {"recipe": "scornn/fig1", "rows": ["uRNN"], "quick": True}
    content |= {"grid": {"lr": [0.25], "task.delay": [7], "hidden_size": [6]}}
    sweep = read_content(tmp_path, content)
    (trial,) = sweep.source.trials(0, sweep.plan.points[0])
    row = sweep.source.run(trial).row
    assert (row.settings.lr, row.task.delay) == (0.25, 7)
    with one_thread():
        sweep.source.train(trial, RunFolder(tmp_path / "run"), console=QUIET)
    again = load(tmp_path / "run")
    assert (again.settings, again.task) == (row.settings, row.task)
