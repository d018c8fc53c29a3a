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
from eigenrnn.recipes.table import columns
from eigenrnn.registry import RECIPES
from eigenrnn.results import Archive, Archived, Plan, collect, to_markdown
from eigenrnn.results.archive import FORMAT, run_file
from eigenrnn.results.costs import unpaid
from eigenrnn.results.curves import MOST_POINTS, evaluated_curve, training_curve
from eigenrnn.results.made import rows_of
from eigenrnn.results.outcomes import by_row, is_judged, margin, misses, outcome_of
from eigenrnn.results.pictures import pictures
from eigenrnn.results.recorded import departs, task_text
from eigenrnn.results.same_runs import SameRuns
from eigenrnn.results.words import compared, duration
from eigenrnn.results.written import read_estimates, read_remarks, write_estimates
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


def test_the_page_tells_how_far_an_unfinished_run_is(archive):
    known = recipes()
    begun = replace(of_figure(known[TABLE], 0, [4.0, 2.0, 1.0]), state="unfinished", value=0.0955)
    archive.add(replace(begun, steps=12, all_steps=1_500, seconds=90.0))
    estimated(archive, {TABLE: {"scoRNN 6": 7_200}})
    cells = line(to_markdown(archive.folder, known), "scoRNN 6")
    assert cells["ours"] == "0.09550 so far; 1 begun, 1 not made"
    assert cells["updates"] == "12 of 1,500"
    assert cells["time a run"] == "1.5 min so far; estimated 2 h"


def test_the_page_tells_what_the_processors_computed_where_that_is_known(archive):
    known = recipes()
    run = of_figure(known[TABLE], 0, [4.0, 2.0, 1.0])
    archive.add(replace(run, seconds=90.0))
    assert "processor time" not in line(to_markdown(archive.folder, known), "scoRNN 6")
    archive.add(replace(run, seconds=90.0, processor_seconds=42.0), overwrite=True)
    cells = line(to_markdown(archive.folder, known), "scoRNN 6")
    assert cells["time a run"].startswith("1.5 min")
    assert cells["processor time"] == "42 s"


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


def test_a_run_of_another_version_is_named_and_archived(archive, folder):
    config = json.loads((folder / RUN / "config.json").read_text())
    rewrite(folder / RUN / "config.json", versions={**config["versions"], "eigenrnn": "0.0.7"})
    collected = collect([folder], archive.folder, recipes())
    places = [run_file(TABLE, "scoRNN 6", "", 0), run_file(FIGURE, "scoRNN 6", "", 0)]
    assert collected.other_versions == dict.fromkeys(places, "0.0.7")
    assert set(places) <= set(collected.archived)


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


def section(page, recipe):
    """Cut the section of a recipe out of the page."""
    return page.split(f"### {recipe}\n")[1].split("\n## ")[0].split("\n### ")[0]


def line(page, network, recipe=TABLE):
    """Return the cells of a network's row by their headings."""
    lines = section(page, recipe).splitlines()
    (at,) = [i for i, text in enumerate(lines) if text.startswith(f"| {network} ")]
    head = max(i for i in range(at) if lines[i].startswith("| network "))
    named, cells = ([cell.strip() for cell in lines[i].split("|")[1:-1]] for i in (head, at))
    return dict(zip(named, cells, strict=True))


def overview(page):
    """Return the cells of the table of all recipes, by recipe."""
    lines = [text for text in page.splitlines() if text.startswith("| [")]
    cells = [[cell.strip() for cell in text.split("|")[1:-1]] for text in lines]
    return {first.partition("]")[0][1:]: rest for first, *rest in cells}


def estimated(archive, seconds):
    archive.folder.mkdir(exist_ok=True)
    archive.folder.joinpath("estimates.json").write_text(json.dumps(seconds))


def test_the_page_sets_the_mean_beside_the_papers_number(archive, folder):
    archived(archive, folder)
    cells = line(to_markdown(archive.folder, recipes()), "scoRNN 6")
    values = [max(journal(folder, "test_accuracy", seed)) for seed in SEEDS]
    mean = sum(values) / 2
    error = abs(values[0] - values[1]) / 2
    assert cells["paper"] == "0.5 (table 1)"
    assert cells["ours"].replace("*", "") == f"{mean:#.4g} ± {error:#.3g} (2)"
    assert (cells["updates"], cells["machine"]) == ("20", "M1")


def test_the_page_says_what_is_compared_in_words(archive, folder):
    archived(archive, folder)
    page = to_markdown(archive.folder, recipes())
    said = [text for text in section(page, TABLE).splitlines() if text.startswith("Compared: ")]
    assert said == ["Compared: accuracy on the test set, the best of the run.", "Compared: total."]


@pytest.mark.parametrize("name", RECIPES)
def test_what_is_compared_has_no_names_of_the_code(name):
    for known in RECIPES[name].rows:
        words = compared(known)
        assert "_" not in words
        assert not {"validation test", "best test", "last test"} & {words}


def test_a_row_that_is_not_run_stands_with_its_estimate(archive, folder):
    archived(archive, folder)
    estimated(archive, {FIGURE: {"scoRNN 8": 1_234}})
    cells = line(to_markdown(archive.folder, recipes()), "scoRNN 8", FIGURE)
    assert cells == {
        "network": "scoRNN 8",
        "paper": "not printed (figure 1)",
        "estimate": "21 min",
    }


def test_a_row_of_several_runs_tells_which_are_left(archive, folder):
    archived(archive, folder)
    known = archive.runs()[-1]
    (archive.folder / known.place).unlink()
    page = to_markdown(archive.folder, recipes())
    assert line(page, known.row)["ours"].endswith("(1); 1 not made")


def test_the_page_counts_rows_and_time(archive, folder):
    known = archived(archive, folder)
    rewrite(archive.folder / known[TABLE, "scoRNN 6", 0].place, seconds=7_200.0)
    page = to_markdown(archive.folder, recipes())
    assert "**3 of 4 rows** of 2 tables and figures are run in full." in page
    assert "2 trainings took 2 h of machine time. Once a run counts for another" in page


def test_an_archive_of_one_run_is_counted_in_good_english(archive):
    known = recipes()
    archive.add(replace(of_figure(known[FIGURE], 0, [4.0, 2.0, 1.0], "test_loss"), seconds=40.0))
    page = to_markdown(archive.folder, known)
    assert "are run in full. 1 training took 40 s of machine time.\n" in page
    assert "beside a paper's" not in page  # none has printed its number


def test_an_empty_archive_has_a_page(tmp_path):
    page = to_markdown(tmp_path, recipes())
    assert "**0 of 4 rows** of 2 tables and figures are run in full.\n" in page
    assert "## Run\n" not in page
    assert "no training is there yet to judge it by" in page


def test_each_recipe_has_a_line_before_all_else(archive, folder):
    known = archived(archive, folder)
    for seed in SEEDS:
        rewrite(archive.folder / known[TABLE, "scoRNN 6", seed].place, seconds=3_600.0, value=0.5)
    estimated(archive, {FIGURE: {"scoRNN 8": 7_200}})
    page = to_markdown(archive.folder, recipes())
    assert overview(page) == {
        TABLE: ["2 / 2", "1", "1", "2", ""],
        FIGURE: ["1 / 2", "", "", "", "2"],
    }
    assert page.index(f"| [{TABLE}](#tinytable1) |") < page.index("## How to read it")


def test_a_recipe_whose_runs_are_anothers_has_nothing_left_of_its_own(tmp_path):
    known = recipes()
    known[FIGURE] = replace(known[FIGURE], rows=known[FIGURE].rows[:1])
    assert overview(to_markdown(tmp_path, known))[FIGURE][-1] == "shared"


def test_a_recipe_that_is_computed_has_no_training_left(tmp_path):
    known = recipes()
    known[TABLE] = replace(known[TABLE], rows=known[TABLE].rows[1:])
    assert overview(to_markdown(tmp_path, known))[TABLE] == ["0 / 1", "no training"]


def test_what_is_left_is_what_the_plan_counts(tmp_path):
    shutil.copy(ROOT / "results" / "estimates.json", tmp_path)
    known = {n: recipe for n, recipe in RECIPES.items() if n.startswith(("scornn/", "nnrnn/"))}
    left = unpaid(known, rows_of(known, {}, read_estimates(tmp_path)), [])
    planned = [each for each in Plan.of(known, tmp_path / "runs", tmp_path).rows if each.jobs]
    assert [
        (each.row.recipe.name, each.row.row.label, each.runs, each.seconds) for each in left
    ] == [
        (each.recipe.name, each.row.label, len(each.jobs), each.total_seconds) for each in planned
    ]


def test_what_was_run_comes_before_what_was_not(archive):
    known = recipes()
    archive.add(of_figure(known[FIGURE], 0, [4.0, 2.0, 1.0], "test_loss"))
    page = to_markdown(archive.folder, known)
    headings = [text for text in page.splitlines() if text.startswith("##")]
    assert headings == [
        "## How to read it",
        "## Run",
        f"### {FIGURE}",
        "## Not made",
        f"### {TABLE}",
    ]


def test_the_page_tells_how_the_estimates_did(archive):
    known = recipes()
    for seed, seconds in zip(SEEDS, (40.0, 60.0), strict=True):
        run_of = of_figure(known[TABLE], seed, [4.0, 2.0, 1.0])
        archive.add(replace(run_of, steps=10, all_steps=20, seconds=seconds))
    archive.add(replace(of_figure(known[FIGURE], 0, [4.0, 2.0, 1.0], "test_loss"), seconds=9.0))
    estimated(archive, {TABLE: {"scoRNN 6": 40}})  # half of the steps should take 20 s
    page = " ".join(to_markdown(archive.folder, known).split())
    assert (
        "the 2 trainings that are there took 2.5 times their estimates in the median, the "
        "quickest 2 times and the slowest 3 times." in page
    )
    assert "factor of two" not in page


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.096, "0.096 s"),
        (11.4, "11 s"),
        (89.9, "90 s"),
        (90, "1.5 min"),
        (3_450, "58 min"),
        (5_400, "1.5 h"),
        (118_143, "33 h"),
        (593_728, "6.9 days"),
        (127_686_400, "1,500 days"),
    ],
)
def test_a_time_has_two_figures_and_a_unit(seconds, written):
    assert duration(seconds) == written


@pytest.mark.parametrize(
    ("ours", "paper", "difference"),
    [
        ((0.0952101, 0.0956781), 0.095, "+0.000444"),  # the error is 0.000234
        ((0.52, 0.48), 0.5, "0"),
        ((0.0949504, 0.09525), 0.0951, "0"),  # 2e-7 of an error of 0.00015
        ((2.34e-5,), 2.28e-5, "+6.0e-07"),
        ((12.0873,), 12.1, "-0.01"),
        ((3.0327,), 3.03, "+0.003"),
        ((640.0, 660.0), 600.0, "+50.0"),
    ],
)
def test_a_difference_has_the_digits_of_its_error(ours, paper, difference):
    assert columns([reported(paper, runs=ours)])["difference"] == [difference]


def test_a_number_that_differs_asks_for_a_remark(archive, folder):
    archived(archive, folder)
    page = to_markdown(archive.folder, recipes())
    assert "**exact**: off the paper's number by more than 0.005. No remark yet." in page
    assert line(page, "exact")["ours"] == "**3.000**"


def test_every_number_of_ours_that_differs_has_a_remark():
    archive = Archive(ROOT / "results")
    said = read_remarks(archive.folder, RECIPES)
    of_rows = by_row(RECIPES, archive.runs())
    silent = [
        f"{name}: {label}"
        for (name, label), runs in of_rows.items()
        for known in RECIPES[name].rows
        if known.label == label
        and misses(outcome_of(known, runs))
        and not said.get(name, {}).get(label)
    ]
    assert silent == []


def test_a_remark_stands_beside_its_number(archive, folder):
    archived(archive, folder)
    text = f'["{TABLE}"]\nexact = """\nIt is\nthree."""\n'
    (archive.folder / "remarks.toml").write_text(text)
    assert "by more than 0.005. It is three.\n" in to_markdown(archive.folder, recipes())


def test_a_remark_on_several_rows_is_said_once(archive):
    known = recipes()
    known[TABLE] = replace(known[TABLE], rows=(row(), row("LSTM 6"), row("GRU 6")))
    for each in known[TABLE].rows:
        of_row = of_figure(replace(known[TABLE], rows=(each,)), 0, [4.0, 2.0, 1.0])
        archive.add(replace(of_row, value=0.9))
    text = f'["{TABLE}".high]\nrows = ["scoRNN 6", "GRU 6"]\ntext = "Too high."\n'
    (archive.folder / "remarks.toml").write_text(text)
    page = section(to_markdown(archive.folder, known), TABLE)
    assert (
        "**scoRNN 6**, **GRU 6**: off the paper's number by more than 0.05. Too high.\n\n"
        "**LSTM 6**: off the paper's number by more than 0.05. No remark yet.\n" in page
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'["{TABLE}"]\nGRU = "x"', f"got {TABLE}: GRU"),
        ('["tiny/table9"]\nexact = "x"', "got tiny/table9: exact"),
        ("[", r"remarks\.toml is damaged"),
        (f'["{TABLE}"]\nexact = "x"\n["{TABLE}".a]\nrows = ["exact"]\ntext = "y"', "one remark"),
        (f'["{TABLE}".a]\nrows = ["GRU"]\ntext = "y"', f"got {TABLE}: GRU"),
        (f'["{TABLE}".a]\nrows = ["exact"]', "expected a text, or rows and text, of a in"),
        (f'["{TABLE}"]\nexact = 3', "expected a text, or rows and text, of exact in .*, got 3"),
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


def bounded(at_most, runs):
    """Make the outcome of a row whose paper printed a bound alone."""
    known = row(reported=Reported(None, "figure 2", at_most=at_most))
    ended = [
        Archived(TABLE, "scoRNN 6", "", seed, "ended", value=value, deciding=0.0)
        for seed, value in enumerate(runs)
    ]
    return outcome_of(known, ended)


@pytest.mark.parametrize(
    ("runs", "differs"),
    [
        ((0.001,), False),
        ((0.024,), False),  # half a unit of the last digit above
        ((0.026,), True),
        ((0.001, 0.001, 0.09), False),  # the mean is 0.0107 above, twice its error 0.059
        ((0.03, 0.031, 0.032), True),
        ((0.001, 0.3, 0.9), True),  # most runs are above, however wide they are
        ((math.nan,), True),
        ((), False),
    ],
)
def test_a_number_above_the_bound_of_a_curve_differs(runs, differs):
    assert misses(bounded(0.02, runs)) is differs
    assert is_judged(bounded(0.02, runs)) is bool(runs)


def test_a_curve_without_a_bound_is_not_judged():
    assert not misses(bounded(None, (5.0,)))
    assert not is_judged(bounded(None, (5.0,)))


def test_the_page_shows_a_bound_and_the_runs_above_it(archive):
    known = recipes()
    known[TABLE] = changed(
        known[TABLE], "scoRNN 6", reported=Reported(None, "figure 2", at_most=0.02)
    )
    for seed, value in zip(SEEDS, (0.01, 0.05), strict=True):
        archive.add(replace(of_figure(known[TABLE], seed, [4.0, 2.0, 1.0]), value=value))
    cells = line(to_markdown(archive.folder, known), "scoRNN 6")
    assert cells["paper"] == "at most 0.02 (figure 2)"
    assert cells["ours"] == "0.03000 ± 0.0200 (2, 1 above)"


def test_a_number_and_a_bound_of_it_are_refused():
    with pytest.raises(
        ValueError, match=r"expected a number or a bound, got 0\.1 and at most 0\.2"
    ):
        Reported(0.1, "figure 2", at_most=0.2)


def test_the_curves_that_end_below_a_number_are_bounded_by_it():
    known = [r for name in ("nnrnn/fig2", "nnrnn/fig4") for r in RECIPES[name].rows]
    bounds = {r.reported.at_most for r in known if "is below 0.02" in r.reported.note}
    assert bounds == {0.02}
    assert all("is below" in r.reported.note for r in known if r.reported.at_most is not None)


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
