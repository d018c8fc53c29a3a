"""Recipes beyond one run a row: searches, counts of successes, and what is only computed."""

import json
from dataclasses import replace

import pytest
import torch

from eigenrnn import ScoRNN
from eigenrnn.errors import MissingDataError
from eigenrnn.experiments.recipes import Axis, Computed, Recipe, Reported, Row, reproduce
from eigenrnn.experiments.recipes.outcome import Outcome
from eigenrnn.experiments.tasks import Copying, PixelMNIST
from eigenrnn.experiments.training import Callback, Settings
from training_run import QUIET, one_thread

TASK = Copying(delay=4, symbols=2, test_examples=20, validation_examples=20)


def widened(row, value):
    return replace(row, hidden_size=int(value))


def a_row(**options):
    defaults = {
        "label": "scoRNN",
        "task": TASK,
        "layer": ScoRNN,
        "hidden_size": 4,
        "settings": Settings(steps=2, batch_size=2, eval_every=1, accelerator="cpu"),
        "reported": Reported(46 / 462, "table 9", "validation", "success", note="46 of 462 runs"),
    }
    return Row(**(defaults | options))


SEARCH = (Axis.of_settings("lr", (0.1, 0.01)), Axis("units", (3, 4, 5), widened))


def run(tmp_path, row, **options):
    recipe = Recipe("paper/table9", "A search.", (row,), "A paper", seeds=(1, 2))
    with one_thread():
        return reproduce(recipe, tmp_path, console=QUIET, **options)


def test_a_row_without_a_grid_is_its_only_point():
    row = a_row()
    assert row.points() == {"": row}


def test_the_points_are_all_combinations():
    points = a_row(grid=SEARCH).points()
    assert list(points) == [f"lr={lr} units={n}" for lr in (0.1, 0.01) for n in (3, 4, 5)]
    assert points["lr=0.01 units=3"].settings.lr == 0.01
    assert points["lr=0.01 units=3"].hidden_size == 3


def test_every_point_is_run_with_every_seed(tmp_path):
    (outcome,) = run(tmp_path, a_row(grid=SEARCH))
    assert len(outcome.values) == 12
    assert outcome.seeds == (1, 2) * 6
    folders = {str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("result.json")}
    assert "scornn/lr-0-1-units-3/seed-1" in folders
    assert len(folders) == 12


def test_the_share_of_successes_is_set_beside_the_papers(tmp_path):
    never = Reported(0.1, "table 9", "validation", "success", success=0.0)
    always = replace(never, success=100.0)
    assert run(tmp_path / "a", a_row(reported=never))[0].mean == 0
    assert run(tmp_path / "b", a_row(reported=always))[0].mean == 1


def test_a_quick_run_takes_the_middle_of_a_grid(tmp_path):
    (outcome,) = run(tmp_path, a_row(grid=SEARCH), quick=True, seeds=[1])
    assert len(outcome.values) == 1
    assert [path.name for path in (tmp_path / "scornn").iterdir()] == ["lr-0-01-units-4"]


def test_a_search_that_was_stopped_goes_on(tmp_path):
    run(tmp_path, a_row(grid=SEARCH[:1]))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    (outcome,) = run(tmp_path, a_row(grid=SEARCH[:1]), resume=True)
    assert len(outcome.values) == 4
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}


def test_the_time_of_an_epoch_is_reported(tmp_path):
    task = replace(TASK, train_examples=8)
    row = a_row(task=task, reported=Reported(3.0, "figure 6", quantity="epoch_seconds"))
    (outcome,) = run(tmp_path, row)
    assert outcome.values == pytest.approx([2 * seconds for seconds in outcome.seconds])


def test_a_callback_of_the_row_looks_on_and_knows_the_folder(tmp_path):
    class Note(Callback):
        def __init__(self, folder):
            self.folder = folder

        def after_step(self, step, loss, model):  # noqa: ARG002
            (self.folder / "noted").write_text(str(step))

    run(tmp_path, a_row(watch=Note), seeds=[1])
    assert (tmp_path / "scornn" / "seed-1" / "noted").read_text() == "2"


def test_what_takes_no_training_is_computed(tmp_path):
    computed = Computed("chain", lambda: 3.5, Reported(3.0, "table 6", quantity="J_tot"))
    (outcome,) = run(tmp_path, computed)
    assert (outcome.mean, outcome.difference, outcome.quantity) == (3.5, 0.5, "J_tot")
    (written,) = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert Outcome.from_json(written) == outcome


class Diverging(ScoRNN):
    """A network whose states leave the range of numbers."""

    def forward(self, *args, **options):
        output, h_n = super().forward(*args, **options)
        return output * float("inf"), h_n


def test_a_run_that_diverges_is_no_success(tmp_path):
    (outcome,) = run(tmp_path, a_row(layer=Diverging))
    assert outcome.values == (0, 0)


def test_a_run_that_diverges_is_told_and_the_others_go_on(tmp_path):
    reported = Reported(1.0, "table 1", "test", "loss")
    rows = (a_row(label="lost", layer=Diverging, reported=reported), a_row(reported=reported))
    recipe = Recipe("paper/table1", "Two networks.", rows, "A paper", seeds=(1, 2))
    with one_thread():
        lost, other = reproduce(recipe, tmp_path, console=QUIET)
    assert (lost.values, lost.failed) == ((), ("seed 1", "seed 2"))
    assert len(other.values) == 2
    page = (tmp_path / "results.md").read_text()
    assert "lost: 2 of 2 runs (seed 1, seed 2)." in page


def test_a_row_may_have_seeds_of_its_own(tmp_path):
    (outcome,) = run(tmp_path, a_row(seeds=(7,)))
    assert outcome.seeds == (7,)


def test_a_label_in_full_chooses_its_row_alone():
    rows = (a_row(label="chain"), a_row(label="feedback chain"))
    recipe = Recipe("paper/table1", "Two networks.", rows, "A paper")
    assert [row.label for row in recipe.select(["chain"])] == ["chain"]
    assert [row.label for row in recipe.select(["cha"])] == ["chain", "feedback chain"]


def test_small_numbers_keep_their_digits(tmp_path):
    tiny = Computed("tiny", lambda: 2.34e-5, Reported(2.28e-5, "table 3", error=1e-6))
    run(tmp_path, tiny)
    page = (tmp_path / "results.md").read_text()
    assert "| 2.28e-05 ± 1e-06 | 2.340e-05 | +6.0e-07 |" in page


def test_a_search_is_told_by_its_best_point(tmp_path):
    rates = Axis.of_settings("lr", (0.0, 0.05))
    settings = Settings(steps=60, batch_size=20, eval_every=30, accelerator="cpu")
    reported = Reported(0.2, "table 1", "test", "loss", "last")
    (outcome,) = run(tmp_path, a_row(grid=(rates,), settings=settings, reported=reported))
    assert outcome.best_point == "lr=0.05"
    assert outcome.mean == pytest.approx(sum(outcome.values[2:]) / 2)
    assert outcome.mean < 0.9 * outcome.values[0]
    assert "scoRNN: lr=0.05, of 2 points." in (tmp_path / "results.md").read_text()


class Counted(Callback):
    """Writes the number of each evaluation into a file of its own."""

    def __init__(self, folder):
        self.path = folder / "counted.csv"

    def after_evaluation(self, step, metrics, model):  # noqa: ARG002
        self.path.write_text(f"step,evaluations\n{step},{step}\n")


@pytest.mark.parametrize(("success", "values"), [(100.0, (2.0, 2.0)), (0.0, ())])
def test_what_a_callback_wrote_can_be_reported_of_successes_alone(tmp_path, success, values):
    reported = Reported(
        2.0,
        "table 3",
        "test",
        "evaluations",
        success=success,
        only_successes=True,
        file="counted.csv",
    )
    (outcome,) = run(tmp_path, a_row(reported=reported, watch=Counted))
    assert outcome.values == values
    assert ("no run counts" in (tmp_path / "results.md").read_text()) == (not values)


def test_the_best_model_of_a_run_is_scored(tmp_path):
    asked = []

    def score(model, task, folder):
        asked.append((model.training, task, folder.parent))
        saved = torch.load(folder.parent / "best.pt")["model"]
        assert all(torch.equal(saved[n], p) for n, p in model.state_dict().items())
        return {"size": 4.0 * len(asked)}

    reported = Reported(0.2, "table 1", "test", "loss", "validation")
    (outcome,) = run(tmp_path, a_row(score=score, reported=reported))
    assert outcome.scores == ({"size": 4.0}, {"size": 8.0})
    assert asked[0] == (False, TASK, tmp_path / "scornn" / "seed-1")
    assert "scoRNN: size 6." in (tmp_path / "results.md").read_text()


def test_a_quick_run_scores_nothing(tmp_path):
    def score(*_):
        raise AssertionError

    (outcome,) = run(tmp_path, a_row(score=score), quick=True)
    assert outcome.scores == ()


def test_a_quick_run_may_have_options_of_its_own():
    row = a_row(options={"negative": 2, "start": "zero"}, quick_options={"negative": 1})
    assert row.quick().options == {"negative": 1, "start": "zero"}
    assert row.options == {"negative": 2, "start": "zero"}


def test_missing_data_is_told_before_anything_is_trained(tmp_path):
    pixels = PixelMNIST(data_root=tmp_path / "nowhere")
    rows = (a_row(), a_row(label="LSTM 128", task=pixels), a_row(label="GRU 9", task=pixels))
    recipe = Recipe("paper/table1", "Three networks.", rows, "A paper")
    with pytest.raises(MissingDataError, match="or choose other rows than LSTM 128, GRU 9"):
        reproduce(recipe, tmp_path / "runs", console=QUIET)
    assert not (tmp_path / "runs").exists()
