"""The archive of runs."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eigenrnn.experiments.recipes import Computed
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.results import Archived, collect, to_markdown
from eigenrnn.experiments.results.archive import FORMAT, run_file
from eigenrnn.experiments.results.curves import MOST_POINTS, evaluated_curve, training_curve
from eigenrnn.experiments.results.outcomes import outcome_of
from eigenrnn.experiments.results.recorded import departs, task_text
from eigenrnn.experiments.results.same_runs import SameRuns
from recipes_for_results import (
    FIGURE,
    SEEDS,
    TABLE,
    archived,
    changed,
    journal,
    recipes,
    rewrite,
    row,
    run,
)

RUN = Path("scornn-6", "seed-0")


# what is kept


@pytest.mark.parametrize("seed", SEEDS)
def test_the_value_of_a_run_is_by_the_papers_rule(archive, reproduced, seed):
    known = archived(archive, reproduced)[TABLE, "scoRNN 6", seed]
    assert known.value == max(journal(reproduced, "test_accuracy", seed))


def test_a_run_keeps_its_result(archive, reproduced):
    known = archived(archive, reproduced)[TABLE, "scoRNN 6", 1]
    result = json.loads((reproduced / "scornn-6" / "seed-1" / "result.json").read_text())
    assert {name: getattr(known, name) for name in result if name != "train_loss"} == {
        name: value for name, value in result.items() if name != "train_loss"
    }


def test_a_run_keeps_its_settings_and_versions(archive, reproduced):
    known = archived(archive, reproduced)[TABLE, "scoRNN 6", 0]
    config = json.loads((reproduced / RUN / "config.json").read_text())
    assert (known.settings, known.versions) == (config["settings"], config["versions"])


def test_a_number_without_training_is_kept(archive, reproduced):
    assert archived(archive, reproduced)[TABLE, "exact", None].value == 3.0


def test_what_is_archived_is_read_as_it_was(archive, reproduced):
    for known in archived(archive, reproduced).values():
        assert Archived.read(archive.folder / known.place) == known


def test_what_is_not_finite_is_null(archive):
    known = Archived(TABLE, "x", "", 0, "ended", value=math.nan, last={"test": {"loss": math.inf}})
    archive.add(known)
    text = (archive.folder / known.place).read_text()
    content = json.loads(text, parse_constant=pytest.fail)
    assert (content["value"], content["last"]) == (None, {"test": {"loss": None}})


def test_a_run_takes_a_few_kilobytes(archive, reproduced):
    known = archived(archive, reproduced)[TABLE, "scoRNN 6", 0]
    assert (archive.folder / known.place).stat().st_size < 4_000


def test_no_two_runs_of_all_recipes_share_a_file():
    same = SameRuns(RECIPES)
    rows = [(recipe, r) for recipe in RECIPES.values() for r in recipe.rows]
    files = [job.file for recipe, r in rows for job in same.of_row(recipe, r.label)]
    files += [
        run_file(recipe.name, r.label, "", None) for recipe, r in rows if isinstance(r, Computed)
    ]
    assert len(files) == len(set(files))


# curves


@pytest.fixture
def long_journal(tmp_path):
    """Write 1,001 rows, of which each tenth is an evaluation."""
    path = tmp_path / "metrics.csv"
    lines = ["step,train_loss,train_loss_mean,test_loss,test_accuracy"]
    for step in range(1_001):
        evaluated = f"{1 / (step + 7)!r},nan" if step % 10 == 0 else ","
        lines.append(f"{step},{step},{math.exp(-step / 300)!r},{evaluated}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_curve_is_thinned_with_its_ends(long_journal):
    steps = training_curve(long_journal)["step"]
    assert (len(steps), steps[0], steps[-1]) == (MOST_POINTS, 0, 1_000)


def test_a_thinned_curve_is_even(long_journal):
    assert set(np.diff(training_curve(long_journal)["step"])) == {8, 9}


def test_a_curve_has_five_digits(long_journal):
    curve = training_curve(long_journal)
    exact = np.exp(-np.array(curve["step"]) / 300)
    found = np.array(curve["train_loss_mean"])
    assert np.all(np.abs(found - exact) <= 5e-5 * exact)
    assert all(float(f"{number:.5g}") == number for number in found)


def test_evaluations_are_a_curve_of_their_own(long_journal):
    curve = evaluated_curve(long_journal)
    assert curve["step"] == list(range(0, 1_001, 10))
    assert curve["test_accuracy"] == [None] * 101


# a run counts wherever the same one is asked for


def test_a_run_counts_for_the_figure_that_shows_it(archive, reproduced):
    known = archived(archive, reproduced)
    shown = known[FIGURE, "scoRNN 6", 0]
    assert shown.trained_for == f"{TABLE}: scoRNN 6"
    assert shown.value == journal(reproduced, "test_loss")[-1]
    assert (FIGURE, "scoRNN 6", 1) not in known  # the figure has one seed
    assert not any(label == "scoRNN 8" for _, label, _ in known)


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": 7},
        {"options": {"negative": 2}},
        {"settings": replace(row().settings, lr=2e-2)},
        {"settings": replace(row().settings, eval_every=5)},
        {"task": replace(row().task, delay=5)},
    ],
    ids=["size", "options", "rate", "evaluations", "task"],
)
def test_a_run_counts_for_no_row_that_differs(changes):
    known = recipes()
    known[FIGURE] = changed(known[FIGURE], "scoRNN 6", **changes)
    same = SameRuns(known)
    (job, _) = same.of_row(known[TABLE], "scoRNN 6")
    assert same.that_take(job) == []


def test_a_run_does_not_count_for_a_row_that_is_looked_at_on_the_way():
    known = recipes()
    known[FIGURE] = changed(known[FIGURE], "scoRNN 6", callback_factory=lambda _: None)
    same = SameRuns(known)
    (job, _), (watched,) = (same.of_row(known[name], "scoRNN 6") for name in (TABLE, FIGURE))
    assert (same.that_take(job), same.that_take(watched)) == ([], [job])


def test_rows_of_different_recipes_that_are_one_run_are_found():
    same = SameRuns(RECIPES)
    table = RECIPES["scornn/table1"]
    (job,) = same.of_row(table, "scoRNN 170")
    assert [(j.recipe.name, j.row.label) for j in same.that_take(job)] == [
        ("scornn/fig3", "scoRNN 170")
    ]


def test_a_runs_own_numbers_take_the_place_of_those_of_the_same_run(archive, reproduced, tmp_path):
    archived(archive, reproduced)
    run(recipes()[FIGURE], tmp_path / "figure", rows=["scoRNN 6"])
    known = archived(archive, tmp_path / "figure")[FIGURE, "scoRNN 6", 0]
    assert known.trained_for is None
    again = archived(archive, reproduced)[FIGURE, "scoRNN 6", 0]
    assert again.trained_for is None


# what does not count, or not so


def test_a_run_that_has_not_ended_is_named_and_left_out(archive, reproduced):
    (reproduced / RUN / "result.json").unlink()
    collected = collect([reproduced], archive.folder, recipes())
    assert collected.skipped == {str(reproduced / RUN): "has not ended"}
    assert (TABLE, "scoRNN 6") not in {(r.recipe, r.row) for r in archive.runs() if not r.seed}


def test_an_unfinished_run_is_archived_as_such_if_asked_for(archive, reproduced):
    (reproduced / RUN / "result.json").unlink()
    known = archived(archive, reproduced, unfinished=True)[TABLE, "scoRNN 6", 0]
    assert (known.state, known.steps, known.all_steps) == ("unfinished", 20, 20)
    assert known.value == max(journal(reproduced, "test_accuracy"))


def test_an_unfinished_run_has_the_best_of_its_evaluations(archive, reproduced):
    ended = archived(archive, reproduced)[TABLE, "scoRNN 6", 0]
    (reproduced / RUN / "result.json").unlink()
    collect([reproduced], archive.folder, recipes(), unfinished=True, overwrite=True)
    known = Archived.read(archive.folder / ended.place)
    assert (known.best, known.best_step, known.last) == (ended.best, ended.best_step, ended.last)


def test_a_damaged_checkpoint_leaves_what_the_journal_knows(archive, reproduced):
    (reproduced / RUN / "result.json").unlink()
    (reproduced / RUN / "last.pt").write_bytes(b"damaged")
    known = archived(archive, reproduced, unfinished=True)[TABLE, "scoRNN 6", 0]
    assert known.seconds == journal(reproduced, "seconds")[-1]


def test_an_unfinished_run_does_not_count(archive, reproduced):
    (reproduced / RUN / "result.json").unlink()
    known = archived(archive, reproduced, unfinished=True)
    outcome = outcome_of(row(), [known[TABLE, "scoRNN 6", seed] for seed in SEEDS])
    assert outcome.seeds == (1,)


def test_an_unfinished_run_gives_way_to_its_end(archive, reproduced):
    result = (reproduced / RUN / "result.json").read_bytes()
    (reproduced / RUN / "result.json").unlink()
    archived(archive, reproduced, unfinished=True)
    (reproduced / RUN / "result.json").write_bytes(result)
    assert archived(archive, reproduced)[TABLE, "scoRNN 6", 0].state == "ended"


def diverge(reproduced):
    """Let the first seed have diverged."""
    (reproduced / RUN / "result.json").unlink()
    content = json.loads((reproduced / "results.json").read_text())
    content["rows"][0]["failed"] = ["seed 0"]
    (reproduced / "results.json").write_text(json.dumps(content))


def test_a_run_that_diverged_is_archived_as_such(archive, reproduced):
    diverge(reproduced)
    known = archived(archive, reproduced)[TABLE, "scoRNN 6", 0]
    assert (known.state, known.value, known.steps) == ("diverged", None, 20)


def test_the_page_names_a_run_that_diverged(archive, reproduced):
    diverge(reproduced)
    archived(archive, reproduced)
    assert "scoRNN 6: 1 of 2 runs (seed 0)." in to_markdown(archive.folder, recipes())


# what is refused, and kept


def test_quick_runs_are_refused(archive, tmp_path):
    run(recipes()[TABLE], tmp_path / "quick", quick=True)
    with pytest.raises(ValueError, match=r"expected full runs in .*quick, got quick ones"):
        collect([tmp_path / "quick"], archive.folder, recipes())
    assert not archive.folder.exists()


def test_quick_runs_among_others_are_named(archive, reproduced):
    run(recipes()[FIGURE], reproduced.parent / "quick", quick=True)
    collected = collect([reproduced.parent], archive.folder, recipes())
    assert list(collected.skipped) == [str(reproduced.parent / "quick")]
    assert len(collected.archived) == 4


def test_a_folder_without_a_recipe_is_refused(archive, tmp_path):
    with pytest.raises(ValueError, match=r"expected the folder of a recipe .* no results\.json"):
        collect([tmp_path], archive.folder, recipes())


def test_a_recipe_that_is_not_known_is_refused(archive, reproduced):
    with pytest.raises(ValueError, match=f"expected a recipe of this version .* got '{TABLE}'"):
        collect([reproduced], archive.folder, {})


def test_a_run_of_a_recipe_that_has_changed_is_named(archive, reproduced):
    known = recipes()
    known[TABLE] = changed(
        known[TABLE], "scoRNN 6", settings=replace(row().settings, lr=0.5), hidden_size=6
    )
    collected = collect([reproduced], archive.folder, known)
    assert set(collected.skipped.values()) == {"is of another recipe: lr was 0.01, now 0.5"}


def test_another_run_of_the_same_name_is_kept(archive, reproduced):
    before = archived(archive, reproduced)[TABLE, "scoRNN 6", 0]
    rewrite(reproduced / RUN / "result.json", seconds=1e6)
    collected = collect([reproduced], archive.folder, recipes())
    path = archive.folder / before.place
    assert "which is kept (--overwrite replaces it)" in collected.skipped[str(path)]
    assert Archived.read(path) == before


def test_another_run_takes_its_place_if_asked_for(archive, reproduced):
    archived(archive, reproduced)
    rewrite(reproduced / RUN / "result.json", seconds=1e6)
    assert archived(archive, reproduced, overwrite=True)[TABLE, "scoRNN 6", 0].seconds == 1e6


def test_the_same_run_is_there_already(archive, reproduced):
    first = collect([reproduced], archive.folder, recipes())
    again = collect([reproduced], archive.folder, recipes())
    assert (again.archived, again.there, again.skipped) == ([], first.archived, {})


def test_a_run_of_another_version_is_named_and_archived(archive, reproduced):
    config = json.loads((reproduced / RUN / "config.json").read_text())
    rewrite(reproduced / RUN / "config.json", versions={**config["versions"], "eigenrnn": "0.0.7"})
    collected = collect([reproduced], archive.folder, recipes())
    places = [run_file(TABLE, "scoRNN 6", "", 0), run_file(FIGURE, "scoRNN 6", "", 0)]
    assert collected.other_versions == dict.fromkeys(places, "0.0.7")
    assert set(places) <= set(collected.archived)


DAMAGES = {
    "newer": (
        {"format": FORMAT + 1},
        rf"expected format {FORMAT} in .*seed-0\.json, got {FORMAT + 1}, written by",
    ),
    "field": ({"colour": "red"}, rf"format {FORMAT} in .*\.json, got one that differs in colour,"),
    "foreign": ({"format": None}, r"expected a run that .* in .*seed-0\.json, got another file"),
    "row": ({"row": "GRU 7"}, r"expected .*gru-7.*seed-0\.json in .*, got it as"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("reader", ["page", "collect"])
def test_a_file_of_another_version_is_named_and_kept(archive, reproduced, damage, reader):
    known = archived(archive, reproduced)[TABLE, "scoRNN 6", 0]
    path = archive.folder / known.place
    changes, said = DAMAGES[damage]
    rewrite(path, **changes)
    before = path.read_bytes()
    if reader == "page" or damage == "row":
        with pytest.raises(ValueError, match=said):
            to_markdown(archive.folder, recipes())
    else:
        with pytest.raises(ValueError, match=said):
            collect([reproduced], archive.folder, recipes(), overwrite=True)
    assert path.read_bytes() == before


def test_a_run_of_no_recipe_of_today_is_named(archive, reproduced):
    archived(archive, reproduced)
    known = recipes()
    known[TABLE] = changed(known[TABLE], "scoRNN 6", task=replace(row().task, delay=9))
    with pytest.raises(
        ValueError, match=r"one that differs \(eigenrnn .*delay was 4, now 9; run it again"
    ):
        to_markdown(archive.folder, known)


def test_an_option_that_a_run_did_not_know_must_have_its_default():
    known, settings = row(), vars(row().settings)
    older = task_text(known.task).replace(", data_seed=0", "")
    assert departs(known, older, settings) == []
    newer = replace(known, task=replace(known.task, data_seed=3))
    assert departs(newer, older, settings) == ["data_seed was absent, now 3"]


def test_a_setting_that_a_run_did_not_know_must_have_its_default():
    known = row()
    settings = {k: v for k, v in vars(known.settings).items() if k != "weight_decay"}
    decayed = replace(known, settings=replace(known.settings, weight_decay=0.1))
    assert departs(known, task_text(known.task), settings) == []
    assert departs(decayed, task_text(known.task), settings) == ["weight_decay was 0.0, now 0.1"]
