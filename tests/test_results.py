"""The archive of runs, and RESULTS.md that is written from it."""

import csv
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eigenrnn.recipes import Computed, Recipe, Reported, Row
from eigenrnn.registry import RECIPES
from eigenrnn.results import Archive, Archived, collect, to_markdown
from eigenrnn.results.archive import FORMAT, run_file
from eigenrnn.results.curves import MOST_POINTS, evaluated_curve, training_curve
from eigenrnn.results.outcomes import margin, misses, outcome_of
from eigenrnn.results.pictures import pictures
from eigenrnn.results.recorded import departs, task_text
from eigenrnn.results.same_runs import SameRuns
from eigenrnn.results.written import read_remarks, write_estimates
from recipes_for_results import ABSENT, FIGURE, SEEDS, TABLE, changed, recipes, row, run

ROOT = Path(__file__).parents[1]
RUN = Path("scornn-6", "seed-0")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Both seeds of the table's network, as `reproduce` leaves them."""
    folder = tmp_path_factory.mktemp("runs") / "tiny-table1"
    run(recipes()[TABLE], folder)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(made, tmp_path / "runs" / made.name))


@pytest.fixture
def archive(tmp_path):
    return Archive(tmp_path / "results")


def archived(archive, folder, **options):
    """Collect a folder and give the runs by recipe, row and seed."""
    collect([folder], archive.folder, recipes(), **options)
    return {(run.recipe, run.row, run.seed): run for run in archive.runs()}


def journal(folder, column, seed=0):
    with (folder / "scornn-6" / f"seed-{seed}" / "metrics.csv").open(newline="") as file:
        return [float(line[column]) for line in csv.DictReader(file) if line[column]]


def rewrite(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# what is kept


@pytest.mark.parametrize("seed", SEEDS)
def test_the_value_of_a_run_is_by_the_papers_rule(archive, folder, seed):
    known = archived(archive, folder)[TABLE, "scoRNN 6", seed]
    assert known.value == max(journal(folder, "test_accuracy", seed))


def test_a_run_keeps_its_result(archive, folder):
    known = archived(archive, folder)[TABLE, "scoRNN 6", 1]
    result = json.loads((folder / "scornn-6" / "seed-1" / "result.json").read_text())
    assert {name: getattr(known, name) for name in result if name != "train_loss"} == {
        name: value for name, value in result.items() if name != "train_loss"
    }


def test_a_run_keeps_its_settings_and_versions(archive, folder):
    known = archived(archive, folder)[TABLE, "scoRNN 6", 0]
    config = json.loads((folder / RUN / "config.json").read_text())
    assert (known.settings, known.versions) == (config["settings"], config["versions"])


def test_a_number_without_training_is_kept(archive, folder):
    assert archived(archive, folder)[TABLE, "exact", None].value == 3.0


def test_what_is_archived_is_read_as_it_was(archive, folder):
    for known in archived(archive, folder).values():
        assert Archived.read(archive.folder / known.place) == known


def test_what_is_not_finite_is_null(archive):
    known = Archived(TABLE, "x", "", 0, "ended", value=math.nan, last={"test": {"loss": math.inf}})
    archive.add(known)
    text = (archive.folder / known.place).read_text()
    content = json.loads(text, parse_constant=pytest.fail)
    assert (content["value"], content["last"]) == (None, {"test": {"loss": None}})


def test_a_run_takes_a_few_kilobytes(archive, folder):
    known = archived(archive, folder)[TABLE, "scoRNN 6", 0]
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


def test_a_run_counts_for_the_figure_that_shows_it(archive, folder):
    known = archived(archive, folder)
    shown = known[FIGURE, "scoRNN 6", 0]
    assert shown.trained_for == f"{TABLE}: scoRNN 6"
    assert shown.value == journal(folder, "test_loss")[-1]
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
    known[FIGURE] = changed(known[FIGURE], "scoRNN 6", watch=lambda _: None)
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


def test_a_runs_own_numbers_take_the_place_of_those_of_the_same_run(archive, folder, tmp_path):
    archived(archive, folder)
    run(recipes()[FIGURE], tmp_path / "figure", rows=["scoRNN 6"])
    known = archived(archive, tmp_path / "figure")[FIGURE, "scoRNN 6", 0]
    assert known.trained_for is None
    again = archived(archive, folder)[FIGURE, "scoRNN 6", 0]
    assert again.trained_for is None


# what does not count, or not so


def test_a_run_that_has_not_ended_is_named_and_left_out(archive, folder):
    (folder / RUN / "result.json").unlink()
    collected = collect([folder], archive.folder, recipes())
    assert collected.skipped == {str(folder / RUN): "has not ended"}
    assert (TABLE, "scoRNN 6") not in {(r.recipe, r.row) for r in archive.runs() if not r.seed}


def test_an_unfinished_run_is_archived_as_such_if_asked_for(archive, folder):
    (folder / RUN / "result.json").unlink()
    known = archived(archive, folder, unfinished=True)[TABLE, "scoRNN 6", 0]
    assert (known.state, known.steps, known.all_steps) == ("unfinished", 20, 20)
    assert known.value == max(journal(folder, "test_accuracy"))


def test_an_unfinished_run_has_the_best_of_its_evaluations(archive, folder):
    ended = archived(archive, folder)[TABLE, "scoRNN 6", 0]
    (folder / RUN / "result.json").unlink()
    collect([folder], archive.folder, recipes(), unfinished=True, overwrite=True)
    known = Archived.read(archive.folder / ended.place)
    assert (known.best, known.best_step, known.last) == (ended.best, ended.best_step, ended.last)


def test_an_unfinished_run_does_not_count(archive, folder):
    (folder / RUN / "result.json").unlink()
    known = archived(archive, folder, unfinished=True)
    outcome = outcome_of(row(), [known[TABLE, "scoRNN 6", seed] for seed in SEEDS])
    assert outcome.seeds == (1,)
    assert "after 20 of 20 updates" in to_markdown(archive.folder, recipes())


def test_an_unfinished_run_gives_way_to_its_end(archive, folder):
    result = (folder / RUN / "result.json").read_bytes()
    (folder / RUN / "result.json").unlink()
    archived(archive, folder, unfinished=True)
    (folder / RUN / "result.json").write_bytes(result)
    assert archived(archive, folder)[TABLE, "scoRNN 6", 0].state == "ended"


def diverge(folder):
    """Let the first seed have diverged."""
    (folder / RUN / "result.json").unlink()
    content = json.loads((folder / "results.json").read_text())
    content["rows"][0]["failed"] = ["seed 0"]
    (folder / "results.json").write_text(json.dumps(content))


def test_a_run_that_diverged_is_archived_as_such(archive, folder):
    diverge(folder)
    known = archived(archive, folder)[TABLE, "scoRNN 6", 0]
    assert (known.state, known.value, known.steps) == ("diverged", None, 20)


def test_the_page_names_a_run_that_diverged(archive, folder):
    diverge(folder)
    archived(archive, folder)
    assert "scoRNN 6: 1 of 2 runs (seed 0)." in to_markdown(archive.folder, recipes())


# what is refused, and kept


def test_quick_runs_are_refused(archive, tmp_path):
    run(recipes()[TABLE], tmp_path / "quick", quick=True)
    with pytest.raises(ValueError, match=r"expected full runs in .*quick, got quick ones"):
        collect([tmp_path / "quick"], archive.folder, recipes())
    assert not archive.folder.exists()


def test_quick_runs_among_others_are_named(archive, folder):
    run(recipes()[FIGURE], folder.parent / "quick", quick=True)
    collected = collect([folder.parent], archive.folder, recipes())
    assert list(collected.skipped) == [str(folder.parent / "quick")]
    assert len(collected.archived) == 4


def test_a_folder_without_a_recipe_is_refused(archive, tmp_path):
    with pytest.raises(ValueError, match=r"expected the folder of a recipe .* no results\.json"):
        collect([tmp_path], archive.folder, recipes())


def test_a_recipe_that_is_not_known_is_refused(archive, folder):
    with pytest.raises(ValueError, match=f"expected a recipe of this version .* got '{TABLE}'"):
        collect([folder], archive.folder, {})


def test_a_run_of_a_recipe_that_has_changed_is_named(archive, folder):
    known = recipes()
    known[TABLE] = changed(
        known[TABLE], "scoRNN 6", settings=replace(row().settings, lr=0.5), hidden_size=6
    )
    collected = collect([folder], archive.folder, known)
    assert set(collected.skipped.values()) == {"is of another recipe: lr was 0.01, now 0.5"}


def test_another_run_of_the_same_name_is_kept(archive, folder):
    before = archived(archive, folder)[TABLE, "scoRNN 6", 0]
    rewrite(folder / RUN / "result.json", seconds=1e6)
    collected = collect([folder], archive.folder, recipes())
    path = archive.folder / before.place
    assert "which is kept (--overwrite replaces it)" in collected.skipped[str(path)]
    assert Archived.read(path) == before


def test_another_run_takes_its_place_if_asked_for(archive, folder):
    archived(archive, folder)
    rewrite(folder / RUN / "result.json", seconds=1e6)
    assert archived(archive, folder, overwrite=True)[TABLE, "scoRNN 6", 0].seconds == 1e6


def test_the_same_run_is_there_already(archive, folder):
    first = collect([folder], archive.folder, recipes())
    again = collect([folder], archive.folder, recipes())
    assert (again.archived, again.there, again.skipped) == ([], first.archived, {})


DAMAGES = {
    "newer": ({"format": FORMAT + 1}, rf"expected format {FORMAT} in .*seed-0\.json, got"),
    "field": ({"colour": "red"}, rf"expected format {FORMAT} in .*seed-0\.json"),
    "foreign": ({"format": None}, r"expected a run that .* in .*seed-0\.json, got another file"),
    "row": ({"row": "GRU 7"}, r"expected .*gru-7.*seed-0\.json in .*, got it as"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("reader", ["page", "collect"])
def test_a_file_of_another_version_is_named_and_kept(archive, folder, damage, reader):
    known = archived(archive, folder)[TABLE, "scoRNN 6", 0]
    path = archive.folder / known.place
    changes, said = DAMAGES[damage]
    rewrite(path, **changes)
    before = path.read_bytes()
    if reader == "page" or damage == "row":
        with pytest.raises(ValueError, match=said):
            to_markdown(archive.folder, recipes())
    else:
        with pytest.raises(ValueError, match=said):
            collect([folder], archive.folder, recipes(), overwrite=True)
    assert path.read_bytes() == before


def test_a_run_of_no_recipe_of_today_is_named(archive, folder):
    archived(archive, folder)
    known = recipes()
    known[TABLE] = changed(known[TABLE], "scoRNN 6", task=replace(row().task, delay=9))
    with pytest.raises(
        ValueError, match=r"of another \(eigenrnn .*delay was 4, now 9; it is left"
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


# the page


def test_the_committed_page_is_what_the_archive_gives():
    assert (ROOT / "RESULTS.md").read_text() == to_markdown(ROOT / "results", RECIPES)


def line(page, network, recipe=TABLE):
    """Return the cells of a network's row."""
    section = page.split(f"## {recipe}\n")[1].split("\n## ")[0]
    (found,) = [text for text in section.splitlines() if text.startswith(f"| {network} ")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_the_page_sets_the_mean_beside_the_papers_number(archive, folder):
    archived(archive, folder)
    cells = line(to_markdown(archive.folder, recipes()), "scoRNN 6 (best test accuracy)")
    values = [max(journal(folder, "test_accuracy", seed)) for seed in SEEDS]
    mean = sum(values) / 2
    error = abs(values[0] - values[1]) / 2
    assert cells[2] == "0.5 (table 1)"
    assert cells[3] == f"{mean:#.4g} ± {error:#.3g} (2)"
    assert cells[4] == f"{mean - 0.5:+#.4g}"
    assert (cells[6], cells[8]) == ("20", "M1")


def test_a_row_that_is_not_run_stands_with_its_estimate(archive, folder):
    archived(archive, folder)
    archive.folder.joinpath("estimates.json").write_text(json.dumps({FIGURE: {"scoRNN 8": 1_234}}))
    cells = line(to_markdown(archive.folder, recipes()), "scoRNN 8", FIGURE)
    assert (cells[3], cells[7], cells[8]) == ("not made", "about 1,234", "")


def test_a_row_of_several_runs_tells_which_are_left(archive, folder):
    archived(archive, folder)
    known = archive.runs()[-1]
    (archive.folder / known.place).unlink()
    page = to_markdown(archive.folder, recipes())
    assert line(page, f"{known.row} (best test accuracy)")[3].endswith("(1); 1 of 2 not made")


def test_the_page_counts_rows_and_time(archive, folder):
    known = archived(archive, folder)
    rewrite(archive.folder / known[TABLE, "scoRNN 6", 0].place, seconds=7_200.0)
    page = to_markdown(archive.folder, recipes())
    assert "**3 of 4 rows** of 2 tables and figures are run in full, 0 more in part." in page
    assert "2 trainings took 2.0 hours of machine time; 1 times a run counts" in page


def test_a_number_that_differs_asks_for_a_remark(archive, folder):
    archived(archive, folder)
    page = to_markdown(archive.folder, recipes())
    assert "**exact** differs from the paper's number by more than 0.005. No remark yet." in page


def test_a_remark_stands_beside_its_number(archive, folder):
    archived(archive, folder)
    text = f'["{TABLE}"]\nexact = """\nIt is\nthree."""\n'
    (archive.folder / "remarks.toml").write_text(text)
    assert "by more than 0.005. It is three.\n" in to_markdown(archive.folder, recipes())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'["{TABLE}"]\nGRU = "x"', f"got {TABLE}: GRU"),
        ('["tiny/table9"]\nexact = "x"', "got tiny/table9: exact"),
        ("[", r"remarks\.toml is damaged"),
    ],
)
def test_a_remark_on_nothing_is_refused(tmp_path, text, said):
    (tmp_path / "remarks.toml").write_text(text)
    with pytest.raises(ValueError, match=said):
        read_remarks(tmp_path, recipes())


def reported(value, error=None, runs=(1.0, 1.0)):
    """Make the outcome of a row whose paper printed a number."""
    known = row(reported=Reported(value, "table 1", error=error))
    ended = [
        Archived(TABLE, "scoRNN 6", "", seed, "ended", value=value, deciding=0.0)
        for seed, value in enumerate(runs)
    ]
    return outcome_of(known, ended)


@pytest.mark.parametrize(
    ("value", "error", "runs", "expected"),
    [
        (0.973, 0.02, (0.9, 1.0), 0.02),  # what the paper prints
        (0.973, None, (1.0, 1.0), 0.0005),  # half a digit
        (12.0, None, (1.0,), 0.05),
        (1e-05, None, (1.0,), 5e-6),
        (0.0, None, (1.0,), 5e-4),
        (0.5, None, (0.0, 1.0), 1.0),  # twice our standard error, 0.5
    ],
)
def test_the_margin_of_a_number(value, error, runs, expected):
    assert margin(reported(value, error, runs)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("ours", "differs"), [(0.9735, False), (0.9725, False), (0.9736, True), (0.97, True)]
)
def test_a_number_beyond_the_margin_differs(ours, differs):
    assert misses(reported(0.973, runs=(ours, ours))) is differs


def test_estimates_of_rows_without_data_stay(tmp_path):
    known = recipes()
    known[FIGURE] = changed(known[FIGURE], "scoRNN 8", task=ABSENT)
    (tmp_path / "estimates.json").write_text(
        json.dumps({FIGURE: {"scoRNN 8": 77, "scoRNN 6": 55}, "old/fig1": {"GRU": 3}})
    )
    write_estimates(tmp_path, known)
    found = json.loads((tmp_path / "estimates.json").read_text())
    assert found[FIGURE]["scoRNN 8"] == 77
    assert found[FIGURE]["scoRNN 6"] != 55
    assert "old/fig1" not in found


# pictures


def test_a_picture_shows_the_median_over_the_seeds(archive):
    known = recipes()
    curves = ([4.0, 2.0, 0.0], [5.0, 3.0, 1.0], [9.0, 9.0, None])
    for seed, values in enumerate(curves):
        archive.add(of_figure(known[TABLE], seed, values))
    (picture,) = pictures(archive.folder, known)
    np.testing.assert_allclose(picture.series["scoRNN 6"], [5.0, 3.0, 0.5])
    np.testing.assert_allclose(picture.bands["scoRNN 6"][:, 0], [4.5, 7.0])
    assert list(picture.steps) == [10, 20, 30]


def test_a_band_lies_between_the_quartiles(archive):
    known = recipes()
    for seed, values in enumerate(([4.0, 2.0, 0.0], [5.0, 3.0, 1.0], [9.0, 9.0, 9.0])):
        archive.add(of_figure(known[TABLE], seed, values))
    (picture,) = pictures(archive.folder, known)
    (axes,) = picture.plot().axes
    drawn = axes.collections[0].get_paths()[0].vertices
    at_first = drawn[drawn[:, 0] == 10, 1]
    assert (at_first.min(), at_first.max()) == (4.5, 7.0)


def test_the_table_of_a_picture_has_a_row_for_each_point(archive):
    known = recipes()
    archive.add(of_figure(known[TABLE], 0, [4.0, 2.0, 1.0]))
    (picture,) = pictures(archive.folder, known)
    table = picture.table()
    assert list(table["test accuracy"]) == [4.0, 2.0, 1.0]
    assert {len(column) for column in table.values()} == {3}


def test_a_picture_of_a_loss_shows_the_baseline(archive):
    known = recipes()
    archive.add(replace(of_figure(known[FIGURE], 0, [4.0, 2.0, 1.0], "test_loss"), baseline=0.7))
    (picture,) = pictures(archive.folder, known)
    assert list(picture.series["a guess without memory"]) == [0.7] * 3
    assert picture.quantity == "test loss"


def test_a_picture_leaves_out_what_diverged(archive):
    known = recipes()
    archive.add(replace(of_figure(known[TABLE], 0, [4.0, 2.0, 1.0]), state="diverged", value=None))
    assert pictures(archive.folder, known) == []


def of_figure(recipe: Recipe, seed, values, quantity="test_accuracy"):
    """Make a run of the first row with this curve."""
    first = recipe.rows[0]
    assert isinstance(first, Row)
    return Archived(
        recipe.name,
        first.label,
        "",
        seed,
        "ended",
        task=task_text(first.task),
        settings=vars(first.with_seed(seed).settings),
        value=1.0,
        deciding=1.0,
        training={"step": [10, 20, 30], "train_loss": values},
        evaluated={"step": [10, 20, 30], quantity: values},
    )
