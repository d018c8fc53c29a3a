"""Recipes: what they say of the papers, that each network trains, and what is written down."""

import io
import json
import math
import signal
import statistics
from dataclasses import dataclass, replace

import pytest
import torch
from rich.console import Console

from eigenrnn import ScoRNN
from eigenrnn.errors import FolderInUseError, RunExistsError
from eigenrnn.experiments.recipes import Recipe, Reported, Row, reproduce
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.tasks import Copying
from eigenrnn.experiments.training import Settings
from eigenrnn.layers import LSTM
from eigenrnn.models import count_parameters
from shrunken import ROWS, TRAINED
from training_run import QUIET, one_thread, read_metrics

# The papers' words, each with the number that they stand for.
PARAMETERS = {
    "scornn/table1: scoRNN 170": 16e3,
    "scornn/table1: scoRNN 360": 69e3,
    "scornn/table1: LSTM 128": 68e3,
    "scornn/table1: LSTM 256": 270e3,
    "scornn/table2: scoRNN 170": 16e3,
    "scornn/table2: scoRNN 360": 69e3,
    "scornn/table2: LSTM 128": 68e3,
    "scornn/table2: LSTM 256": 270e3,
    "scornn/fig1: scoRNN 190 T=1000": 22e3,
    "scornn/fig1: scoRNN 190 T=2000": 22e3,
    "scornn/fig1: LSTM 68 T=1000": 22e3,
    "scornn/fig1: LSTM 68 T=2000": 22e3,
    "nnrnn/fig4: expRNN 176 copying": 18.9e3,
    "nnrnn/fig4: LSTM 63 copying": 18.9e3,
    "nnrnn/fig4: expRNN 722 psMNIST": 269e3,
    "nnrnn/fig4: LSTM 257 psMNIST": 269e3,
}
# scoRNN, tables 1 and 2: test accuracy of each network in order and permuted.
TABLES = {
    "scoRNN 170": (0.973, 0.943),
    "scoRNN 360": (0.983, 0.962),
    "LSTM 128": (0.987, 0.920),
    "LSTM 256": (0.989, 0.929),
    "restricted-capacity uRNN 512": (0.976, 0.945),
    "full-capacity uRNN 116": (0.947, 0.925),
    "full-capacity uRNN 512": (0.974, 0.947),
}
# nnRNN, tables 2 and 3: rate, rate of the orthogonal matrix, smoothing and start.
RATES = {
    "expRNN 128 copying": (1e-3, 1e-4, 0.99, "henaff"),
    "expRNN 176 copying": (1e-3, 1e-4, 0.99, "henaff"),
    "LSTM 128 copying": (5e-4, None, 0.99, "glorot_normal"),
    "LSTM 63 copying": (1e-3, None, 0.99, "glorot_normal"),
    "expRNN 512 psMNIST": (5e-4, 5e-5, 0.99, "cayley"),
    "expRNN 722 psMNIST": (5e-4, 5e-5, 0.99, "cayley"),
    "LSTM 512 psMNIST": (5e-4, None, 0.9, "glorot_normal"),
    "LSTM 257 psMNIST": (5e-4, None, 0.9, "glorot_normal"),
    "nnRNN 128 copying": (5e-4, 1e-6, 0.99, None),
    "RNN-orth 128 copying": (2e-4, None, 0.99, None),
    "EURNN 128 copying": (1e-3, 1e-3, 0.5, None),
    "EURNN 256 copying": (1e-3, 1e-3, 0.5, None),
    "RNN 128 copying": (1e-3, None, 0.9, None),
    "nnRNN 512 psMNIST": (2e-4, 2e-5, 0.99, None),
    "RNN-orth 512 psMNIST": (5e-5, None, 0.99, None),
    "EURNN 512 psMNIST": (1e-4, 1e-4, 0.9, None),
    "EURNN 1024 psMNIST": (1e-4, 1e-4, 0.9, None),
    "RNN 512 psMNIST": (1e-4, None, 0.9, None),
}


@dataclass(frozen=True)
class WithoutValidation(Copying):
    """Copying of which nothing is held out but the test set."""

    @property
    def splits(self):
        return "train", "test"


@pytest.fixture
def recipe():
    """A comparison of two networks that train in a moment, and one that is not there."""
    reported = Reported(0.9, "table 7", rule="best")
    row = Row(
        label="scoRNN 6",
        task=Copying(delay=2, symbols=2, test_examples=20),
        layer=ScoRNN,
        hidden_size=6,
        settings=Settings(
            steps=6, batch_size=4, lr=0.03, eval_every=2, log_every=1, accelerator="cpu"
        ),
        reported=reported,
    )
    return Recipe(
        name="paper/table7",
        summary="A comparison.",
        rows=(
            row,
            replace(row, label="LSTM 5", layer=LSTM, hidden_size=5, departures=("of torch",)),
            replace(row, label="uRNN 9", layer=None, hidden_size=9),
        ),
        source="A. Author, 2020",
        seeds=(0, 1, 2),
    )


def run(recipe, directory, **options):
    with one_thread():
        return reproduce(recipe, directory, **{"console": QUIET, **options})


def with_reported(recipe, **changes):
    """Take the first network alone, with another number to compare."""
    row = recipe.rows[0]
    return replace(recipe, rows=(replace(row, reported=replace(row.reported, **changes)),))


def evaluations(directory, column):
    """Read a column of the journal where it was measured."""
    return [float(row[column]) for row in read_metrics(directory) if row[column]]


def results(directory):
    return json.loads((directory / "results.json").read_text())


def table(directory):
    """Read the table of results.md as one mapping a row, by network."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (directory / "results.md").read_text().splitlines()
        if line.startswith("|")
    ]
    headings, _, *rows = lines
    return {row[0]: dict(zip(headings, row, strict=True)) for row in rows}


class StopAt(Console):
    """A console on which somebody presses Ctrl-C when a message appears."""

    def __init__(self, message):
        super().__init__(file=io.StringIO())
        self.message = message

    def print(self, *said, **_):
        if self.message in str(said[0]):
            signal.raise_signal(signal.SIGINT)


# what the recipes say


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_about_as_many_as_the_paper_says(name):
    # nnRNN's LSTM of 63 units is the worst: 18,900 without its head
    assert ROWS[name].parameters == pytest.approx(PARAMETERS[name], rel=0.031)


def test_a_network_with_another_number_of_parameters_is_refused(recipe):
    row = replace(recipe.rows[0], parameters=7)
    with pytest.raises(ValueError, match="expected 7 parameters in scoRNN 6, got"):
        row.build(0)


def test_a_network_without_a_layer_cannot_be_built(recipe):
    with pytest.raises(
        ValueError, match="expected a row whose layer exists in this version, got 'uRNN 9'"
    ):
        recipe.rows[2].build(0)


@pytest.mark.parametrize(("number", "place"), [(0, "table1"), (1, "table2")])
def test_accuracies_of_the_tables_of_scornn_are_the_published_ones(number, place):
    rows = RECIPES[f"scornn/{place}"].rows
    published = {label: values[number] for label, values in TABLES.items()}
    assert {row.label: row.reported.value for row in rows} == published


@pytest.mark.parametrize("place", ["table1", "table2"])
def test_the_tables_of_scornn_take_the_best_test_accuracy(place):
    said = {
        (r.reported.split, r.reported.quantity, r.reported.rule)
        for r in RECIPES[f"scornn/{place}"].rows
    }
    assert said == {("test", "accuracy", "best")}


@pytest.mark.parametrize(
    ("name", "negative"),
    [
        ("scornn/table1: scoRNN 170", 17),
        ("scornn/table1: scoRNN 360", 36),
        ("scornn/table2: scoRNN 170", 85),
        ("scornn/table2: scoRNN 360", 180),
        ("scornn/fig1: scoRNN 190 T=1000", 95),
        ("scornn/fig1: scoRNN 190 T=2000", 95),
    ],
)
def test_scornn_scales_by_a_tenth_in_order_and_by_half_elsewhere(name, negative):
    assert ROWS[name].build(0).layer.directions[0].constraint.negative == negative


@pytest.mark.parametrize(
    ("label", "rate"), [("scoRNN 170", 1e-4), ("scoRNN 360", 1e-5), ("LSTM 128", 1e-4)]
)
def test_scornn_trains_on_pixels_at_the_published_rates(label, rate):
    for place in ("table1", "table2"):
        settings = ROWS[f"scornn/{place}: {label}"].settings
        assert (settings.lr, settings.lr_recurrent, settings.epochs) == (1e-3, rate, 70)


@pytest.mark.parametrize(
    "name", [name for name in TRAINED if name.startswith(("nnrnn/fig2", "nnrnn/fig4"))]
)
def test_the_networks_of_nnrnn_have_the_published_hyperparameters(name):
    row = TRAINED[name]
    lr, lr_recurrent, alpha, start = RATES[row.label]
    assert (row.settings.lr, row.settings.alpha, row.options.get("start")) == (lr, alpha, start)
    assert lr_recurrent in (None, row.settings.lr_recurrent)


@pytest.mark.parametrize(
    ("label", "moduli", "decay"), [("128 copying", 1e-4, 1e-6), ("512 psMNIST", 0.1, 1e-4)]
)
def test_nnrnn_is_regularised_as_published(label, moduli, decay):
    row = TRAINED[f"nnrnn/fig2: nnRNN {label}"]
    assert row.options["gamma_penalty"] == moduli
    assert (row.settings.weight_decay, row.settings.weight_decay_of) == (decay, ("triangle",))


@pytest.mark.parametrize("delay", [1000, 2000])
def test_networks_that_do_not_learn_to_copy_are_reported_at_the_baseline(delay):
    reported = ROWS[f"scornn/fig1: LSTM 68 T={delay}"].reported.value
    assert reported == pytest.approx(10 * math.log(8) / (delay + 20), abs=5e-5)


# that they train


def test_the_start_is_a_function_of_the_seed():
    row = ROWS["scornn/fig1: scoRNN 190 T=1000"]
    first, again, other = (row.build(seed).layer.directions[0].weight_ih for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_another_seed_draws_other_batches(recipe):
    assert recipe.rows[0].with_seed(5).settings.seed == 5


def test_a_quick_row_has_the_same_network():
    row = ROWS["scornn/fig1: scoRNN 190 T=1000"].quick()
    assert (row.task.delay, row.settings.steps) == (30, 30)
    assert count_parameters(row.build(0)) == 21_764


# which rows


@pytest.mark.parametrize(
    ("patterns", "labels"),
    [
        (None, ["scoRNN 6", "LSTM 5", "uRNN 9"]),
        ([], ["scoRNN 6", "LSTM 5", "uRNN 9"]),
        (["lstm"], ["LSTM 5"]),
        (["RNN"], ["scoRNN 6", "uRNN 9"]),
        (["9", "scornn 6"], ["scoRNN 6", "uRNN 9"]),
    ],
)
def test_rows_are_chosen_by_parts_of_their_labels(recipe, patterns, labels):
    assert [row.label for row in recipe.select(patterns)] == labels


def test_an_unknown_row_lists_the_labels(recipe):
    with pytest.raises(ValueError, match=r"\(scoRNN 6, LSTM 5, uRNN 9\), got 'GRU'"):
        recipe.select(["lstm", "GRU"])


def test_an_unknown_row_writes_nothing(recipe, tmp_path):
    with pytest.raises(ValueError, match="got 'GRU'"):
        run(recipe, tmp_path / "results", rows=["GRU"])
    assert not (tmp_path / "results").exists()


# what they come to


def test_every_row_and_seed_has_a_run(recipe, tmp_path):
    run(recipe, tmp_path)
    runs = [path.parent.relative_to(tmp_path) for path in tmp_path.glob("*/*/result.json")]
    expected = {f"{row}/seed-{seed}" for row in ("scornn-6", "lstm-5") for seed in range(3)}
    assert {path.as_posix() for path in runs} == expected


def test_seeds_may_be_chosen(recipe, tmp_path):
    outcomes = run(recipe, tmp_path, seeds=[7, 3])
    assert [outcome.seeds for outcome in outcomes] == [(7, 3), (7, 3), ()]


def test_the_best_accuracy_is_the_highest_of_all_evaluations(recipe, tmp_path):
    (outcome,) = run(with_reported(recipe, rule="best"), tmp_path)
    for seed, value in zip(outcome.seeds, outcome.values, strict=True):
        accuracies = evaluations(tmp_path / "scornn-6" / f"seed-{seed}", "test_accuracy")
        assert len(accuracies) == 3
        assert value == max(accuracies)


def test_the_best_loss_is_the_lowest_of_all_evaluations(recipe, tmp_path):
    recipe = with_reported(recipe, rule="best", quantity="loss")
    (outcome,) = run(recipe, tmp_path, seeds=[0])
    assert outcome.values == (min(evaluations(tmp_path / "scornn-6/seed-0", "test_loss")),)


@pytest.mark.parametrize("split", ["test", "train"])
def test_the_last_loss_is_that_of_the_last_step(recipe, tmp_path, split):
    recipe = with_reported(recipe, rule="last", quantity="loss", split=split)
    (outcome,) = run(recipe, tmp_path, seeds=[0])
    assert outcome.values == (evaluations(tmp_path / "scornn-6/seed-0", f"{split}_loss")[-1],)


def validated(recipe, **changes):
    recipe = with_reported(recipe, **changes)
    row = recipe.rows[0]
    settings = replace(row.settings, lr=0.3, steps=16)  # so fast that the best is soon passed
    task = replace(row.task, data_seed=5)  # sets whose best steps are not the same
    return replace(recipe, rows=(replace(row, settings=settings, task=task),))


def chosen_by_validation(directory):
    """Find the test accuracy at the step of the best validation accuracy."""
    rows = [row for row in read_metrics(directory) if row["validation_accuracy"]]
    best = max(
        rows, key=lambda row: (float(row["validation_accuracy"]), -float(row["validation_loss"]))
    )
    return float(best["test_accuracy"])


def test_the_validated_accuracy_is_that_at_the_best_validation(recipe, tmp_path):
    (outcome,) = run(validated(recipe, rule="validation"), tmp_path)
    runs = [tmp_path / "scornn-6" / f"seed-{seed}" for seed in outcome.seeds]
    last = tuple(evaluations(run, "test_accuracy")[-1] for run in runs)
    assert outcome.values == tuple(map(chosen_by_validation, runs)) != last


def test_accuracies_selected_on_validation_stand_beside_those_by_the_papers_rule(recipe, tmp_path):
    (outcome,) = run(validated(recipe, rule="best"), tmp_path)
    runs = [tmp_path / "scornn-6" / f"seed-{seed}" for seed in outcome.seeds]
    assert outcome.selected == tuple(map(chosen_by_validation, runs)) != outcome.values
    mean = f"{statistics.fmean(outcome.selected):.4f}"
    assert table(tmp_path)["scoRNN 6"]["ours, selected on validation"].startswith(mean)


def test_without_a_validation_split_no_column_speaks_of_one(recipe, tmp_path):
    task = WithoutValidation(delay=2, symbols=2, test_examples=20)
    run(replace(recipe, rows=(replace(recipe.rows[0], task=task),)), tmp_path, seeds=[0])
    assert "ours, selected on validation" not in table(tmp_path)["scoRNN 6"]


def test_results_hold_the_numbers_of_the_runs(recipe, tmp_path):
    run(recipe, tmp_path)
    ours = results(tmp_path)["rows"][0]
    folders = [tmp_path / "scornn-6" / f"seed-{seed}" for seed in ours["seeds"]]
    runs = [json.loads((folder / "result.json").read_text()) for folder in folders]
    assert ours["values"] == [max(evaluations(folder, "test_accuracy")) for folder in folders]
    assert ours["seconds"] == [run["seconds"] for run in runs]


def test_results_give_mean_and_standard_error_over_the_seeds(recipe, tmp_path):
    run(recipe, tmp_path)
    ours = results(tmp_path)["rows"][0]
    a, b, c = ours["values"]
    mean = (a + b + c) / 3
    error = math.sqrt(((a - mean) ** 2 + (b - mean) ** 2 + (c - mean) ** 2) / 2 / 3)
    assert (ours["mean"], ours["standard_error"]) == pytest.approx((mean, error), abs=1e-12)
    assert table(tmp_path)["scoRNN 6"]["ours"] == f"{mean:.4f} ± {error:.4f}"


def test_one_seed_has_no_standard_error(recipe, tmp_path):
    run(recipe, tmp_path, seeds=[0])
    ours = results(tmp_path)["rows"][0]
    assert ours["standard_error"] is None
    assert table(tmp_path)["scoRNN 6"]["ours"] == f"{ours['mean']:.4f}"


def test_the_table_sets_the_papers_number_beside_ours(recipe, tmp_path):
    run(recipe, tmp_path, seeds=[0])
    best = max(evaluations(tmp_path / "lstm-5" / "seed-0", "test_accuracy"))
    row = table(tmp_path)["LSTM 5"]
    assert row["paper"] == "0.9"
    assert row["quantity"] == "best test accuracy"
    assert row["difference"] == f"{best - 0.9:+.4f}"


def test_the_table_counts_parameters(recipe, tmp_path):
    outcomes = run(recipe, tmp_path, seeds=[0])
    assert outcomes[1].parameters == count_parameters(recipe.rows[1].build(0))
    assert table(tmp_path)["LSTM 5"]["parameters"] == str(outcomes[1].parameters)


def test_a_number_that_the_paper_does_not_print_has_no_difference(recipe, tmp_path):
    run(with_reported(recipe, value=None), tmp_path, seeds=[0])
    assert table(tmp_path)["scoRNN 6"]["paper"] == "not printed"
    assert results(tmp_path)["rows"][0]["difference"] is None


def test_a_row_without_a_layer_is_listed_as_not_run(recipe, tmp_path):
    run(recipe, tmp_path, seeds=[0])
    assert table(tmp_path)["uRNN 9"]["ours"] == "not run"
    assert (
        "uRNN 9, table 7: not run: this version has no such layer."
        in (tmp_path / "results.md").read_text()
    )
    assert results(tmp_path)["rows"][2]["values"] == []


def test_departures_are_written_under_the_table(recipe, tmp_path):
    run(replace(recipe, departures=("one in all",)), tmp_path, seeds=[0])
    page = (tmp_path / "results.md").read_text()
    assert page.endswith("## Departures\n\n- one in all.\n- LSTM 5: of torch.\n")


def test_the_source_stands_above_the_table(recipe, tmp_path):
    run(recipe, tmp_path, seeds=[0])
    assert "Source: A. Author, 2020." in (tmp_path / "results.md").read_text()


def test_a_quick_run_is_marked(recipe, tmp_path):
    run(recipe, tmp_path / "quick", rows=["scornn"], seeds=[0], quick=True)
    run(recipe, tmp_path / "full", rows=["scornn"], seeds=[0])
    assert "A quick run" in (tmp_path / "quick" / "results.md").read_text()
    assert "A quick run" not in (tmp_path / "full" / "results.md").read_text()
    assert results(tmp_path / "quick")["quick"]


# going on


def test_results_are_written_after_every_run(recipe, tmp_path):
    run(recipe, tmp_path, console=StopAt("LSTM 5, seed 1: step 4"))
    assert [row["seeds"] for row in results(tmp_path)["rows"]] == [[0, 1, 2], [0], []]


def test_an_interruption_is_told(recipe, tmp_path):
    outcomes = run(recipe, tmp_path, console=StopAt("LSTM 5, seed 1: step 4"))
    assert [outcome.interrupted for outcome in outcomes] == [False, True, False]


@pytest.mark.parametrize(
    ("message", "seeds"),
    [
        ("LSTM 5, seed 0: step 4", [[0, 1, 2], [], []]),  # between two evaluations
        ("LSTM 5, seed 0: step 6", [[0, 1, 2], [], []]),  # in the last one
    ],
)
def test_an_interruption_of_a_run_begins_no_other(recipe, tmp_path, message, seeds):
    outcomes = run(recipe, tmp_path, console=StopAt(message))
    assert [row["seeds"] for row in results(tmp_path)["rows"]] == seeds
    assert [outcome.signal for outcome in outcomes] == [None, signal.SIGINT, None]
    assert not (tmp_path / "lstm-5" / "seed-1").exists()
    whole = run(recipe, tmp_path, resume=True)
    assert [len(outcome.values) for outcome in whole] == [3, 3, 0]


def test_a_folder_of_a_recipe_that_is_written_to_is_refused(recipe, tmp_path):
    refused = []

    class Second(Console):
        """A console on which somebody begins the same again."""

        def print(self, *_, **__):
            with pytest.raises(FolderInUseError, match="in use by process"):
                run(recipe, tmp_path, rows=["LSTM"], resume=True)
            refused.append(True)

    run(recipe, tmp_path, rows=["scoRNN"], seeds=[0], console=Second(file=io.StringIO()))
    assert len(refused) == 3
    assert not (tmp_path / "lstm-5").exists()
    assert not list(tmp_path.glob("**/.lock*"))


def test_an_interrupted_recipe_goes_on_without_repeating_what_has_ended(recipe, tmp_path):
    run(recipe, tmp_path, console=StopAt("LSTM 5, seed 1: step 4"))
    ended = list(tmp_path.glob("*/*/result.json"))
    before = [path.stat().st_mtime_ns for path in ended]
    run(recipe, tmp_path, resume=True)
    assert len(ended) == 4
    assert [path.stat().st_mtime_ns for path in ended] == before


def test_an_interrupted_recipe_comes_to_the_same_numbers(recipe, tmp_path):
    run(recipe, tmp_path / "halves", console=StopAt("LSTM 5, seed 1: step 4"))
    halves = run(recipe, tmp_path / "halves", resume=True)
    whole = run(recipe, tmp_path / "whole")
    assert [replace(outcome, seconds=()) for outcome in halves] == [
        replace(outcome, seconds=()) for outcome in whole
    ]


def test_a_run_that_is_out_of_time_gives_way_to_the_next(recipe, tmp_path):
    short = run(recipe, tmp_path, max_minutes=1e-9)
    assert [(outcome.values, outcome.interrupted) for outcome in short] == [((), False)] * 3
    assert len(list(tmp_path.glob("*/*/last.pt"))) == 6
    whole = run(recipe, tmp_path, resume=True)
    assert [len(outcome.values) for outcome in whole] == [3, 3, 0]


def test_runs_that_are_there_are_refused_before_anything_trains(recipe, tmp_path):
    run(recipe, tmp_path, rows=["LSTM"], seeds=[0])
    with pytest.raises(RunExistsError, match=r"--resume.*--overwrite"):
        run(recipe, tmp_path)
    assert not (tmp_path / "scornn-6").exists()


def test_overwriting_trains_anew(recipe, tmp_path):
    run(recipe, tmp_path, rows=["LSTM"], seeds=[0])
    before = (tmp_path / "lstm-5/seed-0/result.json").stat().st_mtime_ns
    run(recipe, tmp_path, rows=["LSTM"], seeds=[0], overwrite=True)
    assert (tmp_path / "lstm-5/seed-0/result.json").stat().st_mtime_ns > before


def test_rows_of_an_earlier_call_stay_in_the_table(recipe, tmp_path):
    (earlier,) = run(recipe, tmp_path, rows=["LSTM"], seeds=[0])
    outcomes = run(recipe, tmp_path, rows=["scornn"], seeds=[0], resume=True)
    assert [outcome.label for outcome in outcomes] == ["scoRNN 6", "LSTM 5"]
    assert outcomes[1] == earlier
    assert list(table(tmp_path)) == ["scoRNN 6", "LSTM 5"]


def test_results_that_are_damaged_are_named_and_kept(recipe, tmp_path):
    run(recipe, tmp_path, rows=["LSTM"], seeds=[0])
    (tmp_path / "results.json").write_text('{"recipe":')
    with pytest.raises(ValueError, match=r"results\.json is truncated or damaged"):
        run(recipe, tmp_path, resume=True)
    assert (tmp_path / "results.json").read_text() == '{"recipe":'


def test_results_without_their_numbers_are_named_with_what_to_do(recipe, tmp_path):
    run(recipe, tmp_path, rows=["LSTM"], seeds=[0])
    content = results(tmp_path)
    for rows in ([{"label": "LSTM 5"}], ["LSTM 5"], 5):
        (tmp_path / "results.json").write_text(json.dumps(content | {"rows": rows}))
        with pytest.raises(ValueError, match=r"results\.json is damaged: .*; delete it"):
            run(recipe, tmp_path, rows=["scoRNN"], resume=True)


def test_quick_results_do_not_stay_among_full_ones(recipe, tmp_path):
    run(recipe, tmp_path, rows=["LSTM"], seeds=[0], quick=True)
    outcomes = run(recipe, tmp_path, rows=["scornn"], seeds=[0], overwrite=True)
    assert [outcome.label for outcome in outcomes] == ["scoRNN 6"]
