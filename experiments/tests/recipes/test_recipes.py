"""Recipes in general: rows and grids, training, resuming, and the files of results."""

import io
import json
import shutil
import signal
import statistics
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from shrunken import ROWS
from torch import nn

from eigenrnn import ScoRNN
from eigenrnn.models import count_parameters
from eigenrnn_experiments.baselines import TorchLSTM
from eigenrnn_experiments.errors import (
    FolderInUseError,
    MissingDataError,
    RunExistsError,
    StoppedError,
)
from eigenrnn_experiments.recipes import Axis, Computed, Quoted, Recipe, Reported, Row, reproduce
from eigenrnn_experiments.recipes.comparison import compare
from eigenrnn_experiments.recipes.setup import Network, Setup
from eigenrnn_experiments.tasks import Copying, PixelMNIST
from eigenrnn_experiments.training import Callback, Settings, runs
from eigenrnn_experiments.training.run import Length
from eigenrnn_experiments.training.table import read_below
from training_run import QUIET, one_thread, read_metrics

TASK = Copying(delay=4, symbols=2, test_examples=20, validation_examples=20)


@pytest.fixture(scope="module")
def recipe():
    """A comparison of two small networks, and of one that has no layer."""
    reported = (Reported(0.9, "table 7", rule="best"),)
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
            replace(row, label="LSTM 5", layer=TorchLSTM, hidden_size=5, departures=("of torch",)),
            Quoted("uRNN 9", reported),
        ),
        source="A. Author, 2020",
        seeds=(0, 1, 2),
    )


@pytest.fixture(scope="module")
def finished(recipe, tmp_path_factory):
    """The folder of the finished comparison, and its outcomes."""
    folder = tmp_path_factory.mktemp("finished")
    return folder, run(replace(recipe, departures=("one in all",)), folder)


def with_hidden_size(row, value):
    return replace(row, hidden_size=int(value))


def tiny_row(**options):
    defaults = {
        "label": "scoRNN",
        "task": TASK,
        "layer": ScoRNN,
        "hidden_size": 4,
        "settings": Settings(steps=2, batch_size=2, eval_every=1, accelerator="cpu"),
        "reported": (Reported(46 / 462, "table 9", "validation", "success"),),
    }
    return Row(**(defaults | options))


SEARCH = (Axis.of_settings("lr", (0.1, 0.01)), Axis("units", (3, 4, 5), with_hidden_size))


def run(recipe, directory, **options):
    with one_thread():
        return reproduce(recipe, directory, **{"console": QUIET, **options})


def run_row(row, directory, **options):
    """Reproduce one row with two seeds."""
    recipe = Recipe("paper/table9", "A search.", (row,), "A paper", seeds=(1, 2))
    return run(recipe, directory, **options)


def with_reported(recipe, **changes):
    """Keep the first network only, with another reported number."""
    row = recipe.rows[0]
    return replace(recipe, rows=(replace(row, reported=(replace(row.reported[0], **changes),)),))


def evaluations(directory, column):
    """Read the values of a column of `metrics.csv`."""
    return [float(row[column]) for row in read_metrics(directory) if row[column]]


def seeds(outcome):
    """Return the seeds of the runs that count."""
    return list(outcome.best["seed"])


def interrupt(recipe, directory, message):
    """Stop at a message, as Ctrl-C does."""
    with pytest.raises(StoppedError) as caught:
        run(recipe, directory, console=StopAt(message))
    return caught


def ended(directory):
    """Return the seeds of the runs that have ended, by row."""
    table = runs([directory])
    return (
        table[table["state"] == "ended"].groupby("row", sort=False)["seed"].apply(list).to_dict()
    )


def table(directory):
    """Read the table of results.md: for each network its cells by heading."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (directory / "results.md").read_text().splitlines()
        if line.startswith("|")
    ]
    headings, _, *rows = lines
    return {row[0]: dict(zip(headings, row, strict=True)) for row in rows}


class StopAt(Console):
    """A console that raises SIGINT, as Ctrl-C does, when a message appears."""

    def __init__(self, message):
        super().__init__(file=io.StringIO())
        self.message = message

    def print(self, *objects, **_):
        if self.message in str(objects[0]):
            signal.raise_signal(signal.SIGINT)


def test_a_network_with_another_number_of_parameters_is_refused(recipe):
    row = replace(recipe.rows[0], parameters=7)
    with pytest.raises(ValueError, match="7 parameters in scoRNN 6"):
        row.build(0)


def test_the_numbers_of_parameters_are_checked_before_any_training(recipe, tmp_path):
    other = replace(recipe.rows[0], label="other", parameters=7)
    with pytest.raises(ValueError, match="7 parameters in other"):
        run(replace(recipe, rows=(*recipe.rows[:1], other)), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_layer_of_torch_is_refused_with_the_name_of_ours():
    with pytest.raises(ValueError, match="in mine, got LSTM: eigenrnn_experiments"):
        tiny_row(label="mine", layer=nn.LSTM)


def test_epochs_of_endless_data_are_refused():
    settings = Settings(epochs=2)
    with pytest.raises(ValueError, match="in mine, got epochs: Copying draws"):
        tiny_row(label="mine", settings=settings, task=Copying(3))
    assert tiny_row(settings=settings, task=Copying(3, train_examples=9)).settings.epochs == 2


def test_two_rows_of_one_label_are_refused():
    with pytest.raises(ValueError, match="got 'scoRNN' twice"):
        Recipe("paper/table9", "Two rows.", (tiny_row(), tiny_row(hidden_size=5)), "A paper")


@pytest.mark.parametrize("labels", [("RNN 6", "RNN (6)"), ("é", "ü")])
def test_two_rows_of_one_folder_are_refused(labels):
    rows = tuple(tiny_row(label=label) for label in labels)
    with pytest.raises(ValueError, match="whose ASCII letters and digits differ"):
        Recipe("paper/table9", "Two rows.", rows, "A paper")


def test_two_points_of_one_folder_are_refused_before_the_first_training(recipe, tmp_path):
    def with_penalty(row, value):
        return replace(row, settings=replace(row.settings, weight_penalty=abs(value)))

    row = replace(recipe.rows[0], grid=(Axis("gain", (-1.0, 1.0), with_penalty),))
    with pytest.raises(ValueError, match=r"expected a folder for each run, got .*gain-1"):
        run(replace(recipe, rows=(row,)), tmp_path)
    assert not list(tmp_path.rglob("run.json"))


UNREPORTED = [
    {"quantity": "nonsense"},
    {"quantity": "accuracy", "split": "train"},
    {"quantity": "loss", "split": "train", "rule": "validation"},
    {"quantity": "epoch_seconds"},
]


@pytest.mark.parametrize("changes", UNREPORTED, ids=str)
def test_a_number_that_no_run_has_is_refused_before_the_first_training(recipe, tmp_path, changes):
    with pytest.raises(ValueError, match="scoRNN 6"):
        run(with_reported(recipe, **changes), tmp_path)
    assert not list(tmp_path.rglob("run.json"))


def test_the_initialisation_is_a_function_of_the_seed():
    row = ROWS["scornn/fig1: scoRNN 190 T=1000"]
    first, again, other = (row.build(seed).layer.directions[0].weight_ih for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_quick_row_has_the_same_network():
    row = ROWS["scornn/fig1: scoRNN 190 T=1000"].quick()
    assert (row.task.delay, row.settings.steps) == (30, 30)
    assert count_parameters(row.build(0)) == 21_764


def test_a_setup_is_reported_in_another_table():
    shared = Setup(TASK, Settings(steps=6), Reported(None, "table 7", note="a note"))
    network = Network("scoRNN 6", ScoRNN, 6, parameters=100)
    (other,) = shared.reported_as(place="figure 3", note="").row(network).reported
    assert other == Reported(None, "figure 3")


def figure_of(recipe):
    """Return a figure of the first network, and the table that trains it."""
    shown = recipe.rows[0].also_reported(place="figure 3", quantity="loss", rule="last")
    table = replace(recipe, rows=(shown, *recipe.rows[1:]))
    return table, Recipe("paper/fig3", "A figure.", table.rows_at("figure 3"), "A. Author, 2020")


def test_a_figure_reads_the_runs_of_the_table_that_trains_its_rows(recipe, tmp_path):
    table, figure = figure_of(recipe)
    (before,) = run(figure, tmp_path / "paper-fig3")
    assert (before.values, before.note) == ([], "trained by `eigenrnn reproduce paper/table7`")
    _, second, *_ = run(table, tmp_path / "paper-table7", seeds=[0, 1])
    (shown,) = run(figure, tmp_path / "paper-fig3")
    assert (shown.reported, shown.values) == (second.reported, second.values)
    runs = [tmp_path / "paper-table7/scornn-6" / f"seed-{seed}" for seed in (0, 1)]
    assert shown.values == [evaluations(each, "test_loss")[-1] for each in runs]
    assert list((tmp_path / "paper-fig3").rglob("run.json")) == []


def test_a_reduced_figure_reads_the_reduced_runs_of_its_table(recipe, tmp_path):
    table, figure = (each.reduced(Length("steps", 4)) for each in figure_of(recipe))
    run(table, tmp_path / "paper-table7-steps-4", rows=["scoRNN"], seeds=[0])
    (shown,) = run(figure, tmp_path / "paper-fig3-steps-4")
    assert seeds(shown) == [0]


def test_a_row_is_found_by_its_label(recipe):
    assert recipe.row("LSTM 5") is recipe.rows[1]
    assert figure_of(recipe)[1].row("scoRNN 6").reported[0].place == "figure 3"


def test_a_row_that_is_not_trained_is_not_found(recipe):
    quoted = Quoted("GRU 5", recipe.rows[0].reported)
    listed = replace(recipe, rows=(*recipe.rows, quoted))
    assert quoted not in listed.trained
    with pytest.raises(ValueError, match="got 'GRU 5 T=4'"):
        listed.row("GRU 5 T=4")


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
def test_rows_are_selected_by_parts_of_their_labels(recipe, patterns, labels):
    assert [row.label for row in recipe.select(patterns)] == labels


def test_an_unknown_row_writes_nothing(recipe, tmp_path):
    with pytest.raises(ValueError, match="got 'GRU'"):
        run(recipe, tmp_path / "results", rows=["GRU"])
    assert not (tmp_path / "results").exists()


def test_every_row_and_seed_has_a_run(finished):
    folder, _ = finished
    runs = [path.parent.relative_to(folder) for path in folder.glob("*/*/run.json")]
    expected = {f"{row}/seed-{seed}" for row in ("scornn-6", "lstm-5") for seed in range(3)}
    assert {path.as_posix() for path in runs} == expected


def test_a_seed_twice_is_refused_before_the_first_training(recipe, tmp_path):
    with pytest.raises(ValueError, match="expected each seed once, got 0, 0"):
        run(recipe, tmp_path / "runs", seeds=[0, 0])
    assert not list(tmp_path.rglob("run.json"))


def test_seeds_can_be_chosen(recipe, tmp_path):
    outcomes = run(recipe, tmp_path, seeds=[7, 3])
    assert [seeds(each) for each in outcomes] == [[3, 7], [3, 7], []]


def test_the_best_accuracy_is_the_highest_of_all_evaluations(finished):
    folder, (outcome, *_) = finished
    for seed, value in zip(seeds(outcome), outcome.values, strict=True):
        accuracies = evaluations(folder / "scornn-6" / f"seed-{seed}", "test_accuracy")
        assert len(accuracies) == 3
        assert value == max(accuracies)


def test_the_best_loss_is_the_lowest_of_all_evaluations(recipe, tmp_path):
    recipe = with_reported(recipe, rule="best", quantity="loss")
    (outcome,) = run(recipe, tmp_path, seeds=[0])
    assert outcome.values == [min(evaluations(tmp_path / "scornn-6/seed-0", "test_loss"))]


@pytest.mark.parametrize("split", ["test", "train"])
def test_the_last_loss_is_that_of_the_last_step(recipe, tmp_path, split):
    recipe = with_reported(recipe, rule="last", quantity="loss", split=split)
    (outcome,) = run(recipe, tmp_path, seeds=[0])
    assert outcome.values == [evaluations(tmp_path / "scornn-6/seed-0", f"{split}_loss")[-1]]


def with_overfitting(recipe, **changes):
    recipe = with_reported(recipe, **changes)
    row = recipe.rows[0]
    settings = replace(
        row.settings, lr=0.3, steps=16
    )  # a large rate, so the best step is not the last
    task = replace(row.task, data_seed=5)  # data for which the best steps of the splits differ
    return replace(recipe, rows=(replace(row, settings=settings, task=task),))


def accuracy_at_best_validation(directory):
    """Find the test accuracy at the step of the best validation accuracy."""
    rows = [row for row in read_metrics(directory) if row["validation_accuracy"]]
    best = max(
        rows, key=lambda row: (float(row["validation_accuracy"]), -float(row["validation_loss"]))
    )
    return float(best["test_accuracy"])


def test_the_validation_rule_reports_the_test_accuracy_at_the_best_validation(recipe, tmp_path):
    (outcome,) = run(with_overfitting(recipe, rule="validation"), tmp_path)
    runs = [tmp_path / "scornn-6" / f"seed-{seed}" for seed in seeds(outcome)]
    last = [evaluations(run, "test_accuracy")[-1] for run in runs]
    assert outcome.values == list(map(accuracy_at_best_validation, runs)) != last


def test_the_table_also_has_accuracies_selected_on_validation(recipe, tmp_path):
    (outcome,) = run(with_overfitting(recipe, rule="best"), tmp_path)
    runs = [tmp_path / "scornn-6" / f"seed-{seed}" for seed in seeds(outcome)]
    assert outcome.selected == list(map(accuracy_at_best_validation, runs)) != outcome.values
    mean = f"{statistics.fmean(outcome.selected):.4f}"
    assert table(tmp_path)["scoRNN 6"]["ours, selected on validation"].startswith(mean)


def test_a_number_that_the_paper_does_not_print_has_no_difference(recipe, tmp_path):
    (outcome,) = run(with_reported(recipe, value=None), tmp_path, seeds=[0])
    assert table(tmp_path)["scoRNN 6"]["paper"] == "not printed"
    assert outcome.difference is None


def test_a_quoted_number_is_listed_as_not_run(finished):
    folder, (*_, quoted) = finished
    assert table(folder)["uRNN 9"]["ours"] == "no finished run"
    note = "uRNN 9, table 7: not run: quoted from another paper."
    assert note in (folder / "results.md").read_text()
    assert quoted.values == []


def test_departures_are_written_under_the_table(finished):
    page = (finished[0] / "results.md").read_text()
    assert page.endswith("## Departures\n\n- one in all.\n- LSTM 5: of torch.\n")


def test_a_quick_run_is_marked(recipe, finished, tmp_path):
    run(recipe, tmp_path, rows=["scornn"], seeds=[0], quick=True)
    assert "A quick run" in (tmp_path / "results.md").read_text()
    assert "A quick run" not in (finished[0] / "results.md").read_text()


def test_results_are_written_after_every_run(recipe, tmp_path):
    interrupt(recipe, tmp_path, "LSTM 5, seed 1: step 4")
    assert [row.get("ours", "") for row in table(tmp_path).values()].count("no finished run") == 1
    assert ended(tmp_path) == {"LSTM 5": [0], "scoRNN 6": [0, 1, 2]}


def test_a_folder_of_a_recipe_that_is_written_to_is_refused(recipe, tmp_path):
    refused = []

    class Second(Console):
        """A console on which somebody begins the same again."""

        def print(self, *_, **__):
            with pytest.raises(FolderInUseError, match="is in use"):
                run(recipe, tmp_path, rows=["LSTM"], resume=True)
            refused.append(True)

    run(recipe, tmp_path, rows=["scoRNN"], seeds=[0], console=Second(file=io.StringIO()))
    assert len(refused) == 3
    assert not (tmp_path / "lstm-5").exists()
    assert not list(tmp_path.glob("**/.lock*"))


def test_a_resumed_recipe_does_not_repeat_finished_runs(recipe, tmp_path):
    interrupt(recipe, tmp_path, "LSTM 5, seed 1: step 4")
    finished = [tmp_path / f"scornn-6/seed-{seed}/run.json" for seed in range(3)]
    before = [path.stat().st_mtime_ns for path in finished]
    run(recipe, tmp_path, resume=True)
    assert [path.stat().st_mtime_ns for path in finished] == before


def test_a_resumed_recipe_gives_the_same_numbers(recipe, finished, tmp_path):
    interrupt(recipe, tmp_path, "LSTM 5, seed 1: step 4")
    halves = run(recipe, tmp_path, resume=True)
    assert [each.values for each in halves] == [each.values for each in finished[1]]


@pytest.mark.long
def test_after_the_time_limit_of_a_run_the_next_run_begins(recipe, tmp_path):
    short = run(recipe, tmp_path, max_minutes=1e-9)
    assert [outcome.values for outcome in short] == [[]] * 3
    assert len(list(tmp_path.glob("*/*/last.pt"))) == 6
    whole = run(recipe, tmp_path, resume=True)
    assert [len(outcome.values) for outcome in whole] == [3, 3, 0]


def test_existing_runs_are_refused_before_any_training(recipe, tmp_path):
    run(recipe, tmp_path, rows=["LSTM"], seeds=[0])
    with pytest.raises(RunExistsError, match=r"--resume.*--overwrite"):
        run(recipe, tmp_path)
    assert not (tmp_path / "scornn-6").exists()


def test_overwriting_trains_again(recipe, tmp_path):
    run(recipe, tmp_path, rows=["LSTM"], seeds=[0])
    before = (tmp_path / "lstm-5/seed-0/run.json").stat().st_mtime_ns
    run(recipe, tmp_path, rows=["LSTM"], seeds=[0], overwrite=True)
    assert (tmp_path / "lstm-5/seed-0/run.json").stat().st_mtime_ns > before


def test_rows_of_an_earlier_call_stay_in_the_table(recipe, tmp_path):
    (earlier,) = run(recipe, tmp_path, rows=["LSTM"], seeds=[0])
    outcomes = run(recipe, tmp_path, rows=["scornn"], seeds=[0], resume=True)
    assert [outcome.label for outcome in outcomes] == ["scoRNN 6", "LSTM 5"]
    assert outcomes[1].values == earlier.values
    assert list(table(tmp_path)) == ["scoRNN 6", "LSTM 5"]


@pytest.mark.parametrize("content", ['{"steps":', '{"steps": []}'])
def test_a_damaged_result_of_an_earlier_row_is_named_with_what_to_do(recipe, tmp_path, content):
    run(recipe, tmp_path, rows=["LSTM"], seeds=[0])
    (tmp_path / "lstm-5/seed-0/run.json").write_text(content)
    with pytest.raises(ValueError, match=r"seed-0/run\.json"):
        run(recipe, tmp_path, rows=["scoRNN"], resume=True)
    assert (tmp_path / "lstm-5/seed-0/run.json").read_text() == content


def test_copies_of_a_run_count_once(recipe, tmp_path):
    (found,) = run(recipe, tmp_path / "runs", rows=["LSTM"], seeds=[0, 1])
    shutil.copytree(tmp_path / "runs", tmp_path / "of another machine")
    shutil.copytree(tmp_path / "runs/lstm-5/seed-0", tmp_path / "runs/lstm-5/seed-0-backup")
    (both,) = compare(recipe, read_below([tmp_path]), listed=())
    assert both.values == found.values
    assert len(both.values) == 2


def test_quick_results_do_not_stay_among_full_ones(recipe, tmp_path):
    run(recipe, tmp_path, rows=["LSTM"], seeds=[0], quick=True)
    outcomes = run(recipe, tmp_path, rows=["scornn"], seeds=[0], overwrite=True)
    assert [outcome.label for outcome in outcomes] == ["scoRNN 6"]


def test_a_row_without_a_grid_is_its_only_point():
    row = tiny_row()
    assert row.points() == {"": row}


def test_the_points_of_a_grid_are_all_combinations():
    points = tiny_row(grid=SEARCH).points()
    assert list(points) == [f"lr={lr} units={n}" for lr in (0.1, 0.01) for n in (3, 4, 5)]
    assert points["lr=0.01 units=3"].settings.lr == 0.01
    assert points["lr=0.01 units=3"].hidden_size == 3


def test_a_point_that_no_run_has_is_refused():
    recipe = Recipe("tiny/table1", "", (tiny_row(grid=SEARCH),), "")
    (key,) = recipe.keys(recipe.rows, ["lr=0.1 units=3"], [0])
    assert key.point == "lr=0.1 units=3"
    (quick,) = recipe.keys(recipe.rows, quick=True)  # it has the middle of the grid alone
    assert quick.point == "lr=0.01 units=4"
    for points, is_quick in ((["lr=0.1 units=3"], True), (["lr=1"], False)):
        with pytest.raises(ValueError, match="expected points of these rows"):
            recipe.keys(recipe.rows, points, quick=is_quick)


def test_a_shortened_run_may_be_shorter_than_the_warm_up():
    row = tiny_row(settings=Settings(steps=100, warmup_steps=50, batch_size=20))
    settings = row.shortened(Length("steps", 20)).settings
    assert (settings.steps, settings.warmup_steps) == (20, 19)
    assert settings.pace(row.task).steps == 20


def test_the_share_of_successful_runs_is_reported(tmp_path):
    never = Reported(0.1, "table 9", "validation", "success", success=0.0)
    always = replace(never, success=100.0)
    assert run_row(tiny_row(reported=(never,)), tmp_path / "a")[0].ours.value == 0
    assert run_row(tiny_row(reported=(always,)), tmp_path / "b")[0].ours.value == 1


def test_a_quick_run_takes_the_middle_of_a_grid(tmp_path):
    (outcome,) = run_row(tiny_row(grid=SEARCH), tmp_path, quick=True, seeds=[1])
    assert len(outcome.values) == 1
    assert [path.name for path in (tmp_path / "scornn").iterdir()] == ["lr-0-01-units-4"]


def test_the_processor_time_of_an_epoch_is_reported(tmp_path):
    task = replace(TASK, train_examples=8)
    row = tiny_row(task=task, reported=(Reported(3.0, "figure 6", quantity="epoch_seconds"),))
    (outcome,) = run_row(row, tmp_path)
    results = [json.loads(path.read_text()) for path in sorted(tmp_path.rglob("run.json"))]
    assert outcome.values == pytest.approx([2 * each["processor_seconds"] for each in results])


def test_the_callback_of_a_row_gets_the_folder_of_the_run(tmp_path):
    class StepWriter(Callback):
        def begin(self, step, model, task, folder):  # noqa: ARG002
            self.folder = folder

        def after_step(self, step, loss, model):  # noqa: ARG002
            (self.folder / "last_step").write_text(str(step))

    run_row(tiny_row(callback_factory=StepWriter), tmp_path, seeds=[1])
    assert (tmp_path / "scornn" / "seed-1" / "last_step").read_text() == "2"


def test_a_computed_row_needs_no_training(tmp_path):
    computed = Computed("chain", lambda: 3.5, (Reported(3.0, "table 6", quantity="J_tot"),))
    (outcome,) = run_row(computed, tmp_path)
    assert (outcome.values, outcome.difference, outcome.quantity) == ([3.5], 0.5, "J_tot")
    assert json.loads((tmp_path / "chain/run.json").read_text())["state"] == "computed"


class Diverging(ScoRNN):
    """A network whose outputs are infinite."""

    def forward(self, *args, **options):
        output, h_n = super().forward(*args, **options)
        return output * float("inf"), h_n


def test_a_diverged_run_is_no_success(tmp_path):
    (outcome,) = run_row(tiny_row(layer=Diverging), tmp_path)
    assert outcome.values == [0, 0]


def test_a_diverged_run_is_listed_and_other_runs_continue(tmp_path):
    reported = (Reported(1.0, "table 1", "test", "loss"),)
    rows = (
        tiny_row(label="diverging", layer=Diverging, reported=reported),
        tiny_row(reported=reported),
    )
    recipe = Recipe("paper/table1", "Two networks.", rows, "A paper", seeds=(1, 2))
    with one_thread():
        diverged, other = reproduce(recipe, tmp_path, console=QUIET)
    assert (diverged.values, diverged.diverged) == ([], ["seed 1", "seed 2"])
    assert len(other.values) == 2
    page = (tmp_path / "results.md").read_text()
    assert "diverging: 2 of 2 runs (seed 1, seed 2)." in page


def test_a_row_can_have_its_own_seeds(tmp_path):
    (outcome,) = run_row(tiny_row(seeds=(7,)), tmp_path)
    assert seeds(outcome) == [7]


def test_a_search_reports_its_best_point(tmp_path):
    rates = Axis.of_settings("lr", (0.0, 0.05))
    settings = Settings(steps=60, batch_size=20, eval_every=30, accelerator="cpu")
    reported = (Reported(0.2, "table 1", "test", "loss", "last"),)
    (outcome,) = run_row(tiny_row(grid=(rates,), settings=settings, reported=reported), tmp_path)
    assert outcome.best_point == "lr=0.05"
    every = list(outcome.counted["value"])
    assert outcome.ours.value == pytest.approx(sum(every[2:]) / 2)
    assert outcome.ours.value < 0.9 * every[0]
    assert "scoRNN: lr=0.05, of 2 points." in (tmp_path / "results.md").read_text()


class EvaluationCounter(Callback):
    """Writes the step of each evaluation to a column of its own."""

    columns = ("evaluations",)

    def after_evaluation(self, step, metrics, model):  # noqa: ARG002
        return {"evaluations": step}


@pytest.mark.parametrize(("success", "values"), [(100.0, [2.0, 2.0]), (0.0, [])])
def test_a_number_written_by_a_callback_is_reported_for_successful_runs(tmp_path, success, values):
    number = Reported(
        2.0,
        "table 3",
        "test",
        "evaluations",
        "last",
        success=success,
        only_successes=True,
        column="evaluations",
    )
    row = tiny_row(reported=(number,), callback_factory=EvaluationCounter)
    (outcome,) = run_row(row, tmp_path)
    assert outcome.values == values
    assert ("no run counts" in (tmp_path / "results.md").read_text()) == (not values)


def test_the_best_model_of_a_run_is_scored(tmp_path):
    calls = []

    def score(model, task, folder):
        calls.append((model.training, task, folder.parent))
        saved = torch.load(folder.parent / "best.pt")["model"]
        assert all(torch.equal(saved[n], p) for n, p in model.state_dict().items())
        return {"size": 4.0 * len(calls)}

    reported = (Reported(0.2, "table 1", "test", "loss", "validation"),)
    (outcome,) = run_row(tiny_row(score=score, reported=reported), tmp_path)
    assert list(outcome.runs["scores_size"]) == [4.0, 8.0]
    assert calls[0] == (False, TASK, tmp_path / "scornn" / "seed-1")
    assert "scoRNN: size 6." in (tmp_path / "results.md").read_text()


def test_a_quick_run_computes_no_scores(tmp_path):
    def score(*_):
        raise AssertionError

    (outcome,) = run_row(tiny_row(score=score), tmp_path, quick=True)
    assert "scores_size" not in outcome.runs


def test_a_quick_run_can_have_its_own_layer_options():
    row = tiny_row(options={"negative": 2, "init": "zero"}, quick_options={"negative": 1})
    assert row.quick().options == {"negative": 1, "init": "zero"}
    assert row.options == {"negative": 2, "init": "zero"}


def test_missing_data_is_reported_before_any_training(tmp_path):
    pixels = PixelMNIST(data_root=tmp_path / "nowhere")
    rows = (
        tiny_row(),
        tiny_row(label="LSTM 128", task=pixels),
        tiny_row(label="GRU 9", task=pixels),
    )
    recipe = Recipe("paper/table1", "Three networks.", rows, "A paper")
    with pytest.raises(MissingDataError, match="LSTM 128, GRU 9"):
        reproduce(recipe, tmp_path / "runs", console=QUIET)
    assert not (tmp_path / "runs").exists()
