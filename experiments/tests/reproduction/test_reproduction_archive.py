"""The archive of runs."""

import json
import math
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from reproduction.archive import (
    ARCHIVE,
    FORMAT,
    Archive,
    changes_since_run,
    current_runs,
    from_line,
    to_line,
)
from reproduction.archive_runs import MAX_POINTS, archive_runs, evaluated_curve, training_curve
from reproduction.claim import Runs, steps_below
from reproduction.evidence import ArchivedEvidence
from reproduction.recipes import RECIPES

from eigenrnn_experiments.recipes import Row
from eigenrnn_experiments.training import Run, RunKey
from eigenrnn_experiments.training.description import describe
from eigenrnn_experiments.training.run import FRACTIONS, RunFolder, first_below
from recipes_for_results import (
    FIGURE,
    SEEDS,
    TABLE,
    archived,
    archived_run,
    changed,
    journal,
    recipes,
    row,
    run,
)

RUN = Path("scornn-6", "seed-0")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_value_of_a_run_follows_the_papers_rule(archive, reproduced, seed):
    known = archived(archive, reproduced)[TABLE, "scoRNN 6", seed]
    assert known.value == max(journal(reproduced, "test_accuracy", seed))


def test_a_run_keeps_its_result(archive, reproduced):
    known = archived(archive, reproduced)[TABLE, "scoRNN 6", 1]
    left_out = {"name": "", "layer": "", "modules": "", "curves": {}}
    written = RunFolder(reproduced / "scornn-6" / "seed-1").run
    assert replace(known, **left_out) == replace(written, **left_out)
    assert len(known.curves["training"]["step"]) == 4


def test_a_run_keeps_its_settings_and_versions(archive, reproduced):
    known = archived(archive, reproduced)[TABLE, "scoRNN 6", 0]
    defaults = known.network["defaults"]
    options = {"layer": "ScoRNN", "hidden_size": 6, "options": {}}
    assert known.network == {**options, "defaults": defaults}
    assert defaults["ScoRNN"]["num_layers"] == 1


def test_a_number_without_training_is_kept(archive, reproduced):
    assert archived(archive, reproduced)[TABLE, "exact", None].value == 3.0


def test_an_archived_run_is_read_back_unchanged(archive, reproduced):
    for known in archived(archive, reproduced).values():
        assert from_line(to_line(known)) == known


def test_numbers_that_are_not_finite_are_null():
    known = archived_run(
        row(), RunKey(TABLE, "x"), value=math.nan, last={"test": {"loss": math.inf}}
    )
    content = json.loads(to_line(known), parse_constant=pytest.fail)
    assert content["last"] == {"test": {"loss": None}}
    assert math.isnan(from_line(to_line(known)).value)


def test_the_runs_of_a_paper_are_in_one_file(archive, reproduced):
    archived(archive, reproduced)
    (file,) = archive.folder.glob("*.jsonl")
    assert file.name == "tiny.jsonl"
    assert len(file.read_text().splitlines()) == len(Archive(archive.folder).runs())


def test_a_run_keeps_when_its_last_numbers_were_written(archive, reproduced):
    known = archived(archive, reproduced)[TABLE, "scoRNN 6", 0]
    written = (reproduced / RUN / "metrics.csv").stat().st_mtime
    assert abs(datetime.fromisoformat(known.ended).timestamp() - written) <= 2


@pytest.fixture
def long_metrics(tmp_path):
    """Write a metrics.csv of 1,001 rows; every tenth is an evaluation."""
    path = tmp_path / "metrics.csv"
    lines = ["step,train_loss,train_loss_mean,test_loss,test_accuracy,henrici"]
    for step in range(1_001):
        evaluated = f"{1 / (step + 7)!r},nan,{step / 2}" if step % 10 == 0 else ",,"
        lines.append(f"{step},{step},{math.exp(-step / 300)!r},{evaluated}")
    path.write_text("\n".join(lines) + "\n")
    return RunFolder(tmp_path).metrics


def test_a_curve_is_thinned_with_its_ends(long_metrics):
    steps = training_curve(long_metrics)["step"]
    assert (len(steps), steps[0], steps[-1]) == (MAX_POINTS, 0, 1_000)


def test_a_curve_has_five_digits(long_metrics):
    curve = training_curve(long_metrics)
    exact = np.exp(-np.array(curve["step"]) / 300)
    found = np.array(curve["train_loss_mean"])
    assert np.all(np.abs(found - exact) <= 5e-5 * exact)
    assert all(float(f"{number:.5g}") == number for number in found)


def test_evaluations_are_a_separate_curve(long_metrics):
    curve = evaluated_curve(long_metrics)
    assert curve["step"] == list(range(0, 1_001, 10))
    assert curve["test_accuracy"] == [None] * 101
    assert curve["henrici"] == list(range(0, 501, 5))  # of a callback


def test_a_run_keeps_the_numbers_of_the_figure_that_shows_it(archive, reproduced):
    known = archived(archive, reproduced)
    assert {label for _, label, _ in known} == {"scoRNN 6", "exact"}
    first, second = recipes()[TABLE].rows[0].reported
    ours = known[TABLE, "scoRNN 6", 0]
    assert ours.numbers[first.measure].value == ours.value
    assert ours.numbers[second.measure].value == journal(reproduced, "test_loss")[-1]


def test_the_second_training_of_a_row_and_seed_is_kept_beside_the_archive():
    first = {run.key: run.seconds for run in Archive().runs()}
    repeated = {run.key: run.seconds for run in Archive(ARCHIVE / "repeated").runs()}
    assert [seconds != first[name] for name, seconds in repeated.items()] == [True] * 8


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_a_run_keeps_the_step_at_which_a_loss_first_falls(fraction):
    steps = np.arange(10_000.0)
    columns = {"step": steps, "test_loss": 2 * np.exp(-steps / 3_000)}
    crossings = first_below(columns, 2.0)
    known = Run(state="ended", baseline=2.0, first_below=crossings)
    assert steps_below(fraction).of(known) == math.ceil(3_000 * math.log(1 / fraction))


def test_a_first_step_below_is_read_off_the_curve_of_a_run_that_did_not_keep_it():
    curve = {"step": [1, 2, 3], "test_loss": [2.0, 0.9, 0.1]}
    known = Run(state="ended", baseline=2.0, curves={"evaluated": curve})
    assert [steps_below(fraction).of(known) for fraction in (0.5, 0.01)] == [2, math.inf]


def test_an_unfinished_run_is_named_and_skipped(archive, reproduced):
    update(reproduced, state="unfinished")
    collected = archive_runs([reproduced], archive.folder, recipes())
    assert collected.skipped == {str(reproduced / RUN): "has not ended"}
    known = Archive(archive.folder).runs()
    assert (TABLE, "scoRNN 6") not in {(r.key.recipe, r.key.row) for r in known if not r.key.seed}


def update(reproduced, **changes):
    """Change the record of the run of the first seed."""
    files = RunFolder(reproduced / RUN)
    files.write(replace(files.read(), **changes))


def test_a_diverged_run_is_archived_as_diverged(archive, reproduced):
    update(reproduced, state="diverged", numbers=None)
    known = archived(archive, reproduced)[TABLE, "scoRNN 6", 0]
    assert (known.state, known.value, known.steps) == ("diverged", None, 20)


def test_quick_runs_are_skipped_by_name(archive, reproduced):
    run(recipes()[FIGURE], reproduced.parent / "quick", quick=True)
    collected = archive_runs([reproduced.parent], archive.folder, recipes())
    ((path, reason),) = collected.skipped.items()
    assert path == str(reproduced.parent / "quick/scornn-8/seed-0")
    assert reason.startswith("a quick run")
    assert len(collected.archived) == 3


def test_runs_of_an_unknown_recipe_are_skipped(archive, reproduced):
    collected = archive_runs([reproduced], archive.folder, {})
    assert all(f"got '{TABLE}'" in reason for reason in collected.skipped.values())
    assert collected.archived == []


def test_a_folder_without_runs_is_rejected(archive, tmp_path):
    with pytest.raises(ValueError, match="expected runs"):
        archive_runs([tmp_path], archive.folder, recipes())


def test_a_run_of_a_changed_recipe_is_named(archive, reproduced):
    known = recipes()
    known[TABLE] = changed(
        known[TABLE], "scoRNN 6", settings=replace(row().settings, lr=0.5), hidden_size=6
    )
    collected = archive_runs([reproduced], archive.folder, known)
    assert set(collected.skipped.values()) == {
        "differs from its recipe: settings.lr was 0.01, now 0.5"
    }


def test_a_different_run_of_the_same_name_is_kept(archive, reproduced):
    before = archived(archive, reproduced)[TABLE, "scoRNN 6", 0]
    update(reproduced, seconds=1e6)
    collected = archive_runs([reproduced], archive.folder, recipes())
    assert "keeps a different run" in collected.skipped[str(before.key)]
    assert before in Archive(archive.folder).runs()


def test_a_different_run_is_replaced_with_the_option(archive, reproduced):
    archived(archive, reproduced)
    update(reproduced, seconds=1e6)
    assert archived(archive, reproduced, overwrite=True)[TABLE, "scoRNN 6", 0].seconds == 1e6


def test_an_unchanged_run_is_not_written_again(archive, reproduced):
    first = archive_runs([reproduced], archive.folder, recipes())
    again = archive_runs([reproduced], archive.folder, recipes())
    assert (again.archived, again.unchanged, again.skipped) == ([], first.archived, {})


DAMAGES = {
    "newer": ({"format": FORMAT + 1}, rf"expected format {FORMAT}, got {FORMAT + 1}"),
    "field": ({"colour": "red"}, rf"expected the keys of format {FORMAT}, got colour"),
    "paper": ({"key": {"recipe": "other/table1"}}, "a run of other/table1 is in its file"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_line_of_another_kind_is_named_and_kept(archive, reproduced, damage):
    archived(archive, reproduced)
    path = archive.folder / "tiny.jsonl"
    changes, said = DAMAGES[damage]
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([*others, json.dumps({**json.loads(first), **changes})]) + "\n")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"line {len(others) + 1}: {said}"):
        archive_runs([reproduced], archive.folder, recipes(), overwrite=True)
    assert path.read_bytes() == before


CHANGES = {
    "nothing": ({}, ""),
    "the task": ({"task": replace(row().task, delay=9)}, "task.delay was 4, now 9"),
    "the units": ({"hidden_size": 7}, "network.hidden_size was 6, now 7"),
    "an option": ({"options": {"negative": 2}}, "network.negative was absent, now 2"),
    "a setting": ({"settings": replace(row().settings, lr=0.5)}, "settings.lr was 0.01, now 0.5"),
    "the label": ({"label": "scoRNN six"}, "there is no such row"),
}


@pytest.mark.parametrize(("changes", "said"), CHANGES.values(), ids=CHANGES)
def test_a_run_whose_row_has_changed_is_named_and_does_not_count(
    archive, reproduced, changes, said
):
    archived(archive, reproduced)
    known = recipes()
    rows = (replace(known[TABLE].rows[0], **changes), *known[TABLE].rows[1:])
    known[TABLE] = replace(known[TABLE], rows=rows)
    del known[FIGURE]
    runs = [run for run in Archive(archive.folder).runs() if run.key.recipe == TABLE]
    counted, reasons = current_runs(known, runs)
    assert reasons == ({run.key: said for run in runs if run.key.seed is not None} if said else {})
    assert len(counted) + len(reasons) == len(runs)


def test_a_changed_row_is_missing_again(archive, reproduced):
    archived(archive, reproduced)
    known = recipes()
    known[TABLE] = changed(known[TABLE], "scoRNN 6", hidden_size=7)
    network = Runs(TABLE, "scoRNN 6", SEEDS)
    assert ArchivedEvidence(known, Archive(archive.folder)).runs(network) == {}


ROWS = {
    "EURNN's capacity": ("nnrnn/fig2", "EURNN 128 copying", {"capacity": 4}),
    "nnRNN's units": ("nnrnn/fig2", "nnRNN 128 copying", {"hidden_size": 130}),
    "scoRNN's rho": ("scornn/table1", "scoRNN 170", {"negative": 18}),
}


@pytest.mark.parametrize(("name", "label", "changes"), ROWS.values(), ids=ROWS)
def test_the_committed_runs_of_a_row_that_changes_do_not_count(name, label, changes):
    (known,) = (r for r in RECIPES[name].rows if r.label == label)
    options = changes if "hidden_size" in changes else {"options": {**known.options, **changes}}
    edited = changed(RECIPES[name], label, **options)
    runs = [r for r in Archive().runs() if (r.key.recipe, r.key.row) == (name, label)]
    assert runs
    assert current_runs(RECIPES, runs) == (runs, {})
    counted, reasons = current_runs({**RECIPES, name: edited}, runs)
    assert counted == []
    (option,) = changes
    assert all(f"network.{option} was" in reason for reason in reasons.values())
    assert len(reasons) == len(runs)


def test_an_option_newer_than_a_run_must_have_its_default():
    known, recorded = row(), archived_run(row(), RunKey())
    del recorded.task.options["data_seed"]
    assert changes_since_run(known, recorded) == []
    newer = replace(known, task=replace(known.task, data_seed=3))
    assert changes_since_run(newer, recorded) == ["task.data_seed was 0, now 3"]


def test_a_changed_default_of_an_option_that_the_row_leaves_out_is_named():
    known, recorded = row(), archived_run(row(), RunKey())
    defaults = recorded.network["defaults"]
    defaults["ScoRNN"]["matrix_init"] = "henaff"
    defaults["ScoRNN"]["removed"] = 1
    defaults["Removed"] = {"option": 1}
    del defaults["RNN"]["bias"]
    changed_default = "network.defaults.ScoRNN.matrix_init was henaff, now unit_circle"
    assert changes_since_run(known, recorded) == [changed_default]
    del recorded.network["defaults"]
    assert changes_since_run(known, recorded) == [], "of a run that has not recorded them"


def test_a_setting_newer_than_a_run_must_have_its_default():
    known, recorded = row(), archived_run(row(), RunKey())
    del recorded.settings["weight_decay"]
    decayed = replace(known, settings=replace(known.settings, weight_decay=0.1))
    assert changes_since_run(known, recorded) == []
    assert changes_since_run(decayed, recorded) == ["settings.weight_decay was 0.0, now 0.1"]


def test_a_name_in_a_description_stands_for_one_object():
    meanings = {}
    for recipe in RECIPES.values():
        for known in (r for r in recipe.rows if isinstance(r, Row)):
            parts = (known.layer, known.model_factory, known.head_init, known.head_bias_init)
            for part in (*parts, *known.options.values(), type(known.task)):
                if isinstance(part, type | FunctionType):
                    meanings.setdefault(describe(part), set()).add(part)
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


def test_the_descriptions_of_all_rows_are_strict_json():
    for recipe in RECIPES.values():
        for known in (r for r in recipe.rows if isinstance(r, Row) and r.layer):
            described = known.describe()
            assert json.loads(json.dumps(described, allow_nan=False)) == described
