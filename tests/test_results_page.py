"""RESULTS.md, which is written from the archive of runs."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from eigenrnn.experiments.recipes import Reported
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.results import Plan, collect, to_markdown
from eigenrnn.experiments.results.costs import unpaid
from eigenrnn.experiments.results.made import rows_of
from eigenrnn.experiments.results.words import compared
from eigenrnn.experiments.results.written import read_estimates
from eigenrnn.experiments.training import Settings
from recipes_for_results import (
    FIGURE,
    SEEDS,
    TABLE,
    archived,
    changed,
    estimated,
    journal,
    of_figure,
    recipes,
    rewrite,
    row,
)

ROOT = Path(__file__).parents[1]


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


def test_the_committed_page_is_what_the_archive_gives():
    assert (ROOT / "RESULTS.md").read_text() == to_markdown(ROOT / "results", RECIPES)


def test_the_page_sets_the_mean_beside_the_papers_number(archive, reproduced):
    archived(archive, reproduced)
    cells = line(to_markdown(archive.folder, recipes()), "scoRNN 6")
    values = [max(journal(reproduced, "test_accuracy", seed)) for seed in SEEDS]
    mean = sum(values) / 2
    error = abs(values[0] - values[1]) / 2
    assert cells["paper"] == "0.5 (table 1)"
    assert cells["ours"].replace("*", "") == f"{mean:#.4g} ± {error:#.3g} (2)"
    assert (cells["updates"], cells["machine"]) == ("20", "M1")


def test_the_page_says_what_is_compared_in_words(archive, reproduced):
    archived(archive, reproduced)
    page = to_markdown(archive.folder, recipes())
    said = [text for text in section(page, TABLE).splitlines() if text.startswith("Compared: ")]
    assert said == ["Compared: accuracy on the test set, the best of the run.", "Compared: total."]


@pytest.mark.parametrize("name", RECIPES)
def test_what_is_compared_has_no_names_of_the_code(name):
    for known in RECIPES[name].rows:
        words = compared(known)
        assert "_" not in words
        assert not {"validation test", "best test", "last test"} & {words}


def test_a_row_that_is_not_run_stands_with_its_estimate(archive, reproduced):
    archived(archive, reproduced)
    estimated(archive, {FIGURE: {"scoRNN 8": 1_234}})
    cells = line(to_markdown(archive.folder, recipes()), "scoRNN 8", FIGURE)
    assert cells == {
        "network": "scoRNN 8",
        "paper": "not printed (figure 1)",
        "two cores": "21 min",
        "one GPU": "41 min",
    }


def test_a_row_of_several_runs_tells_which_are_left(archive, reproduced):
    archived(archive, reproduced)
    known = archive.runs()[-1]
    (archive.folder / known.place).unlink()
    page = to_markdown(archive.folder, recipes())
    assert line(page, known.row)["ours"].endswith("(1); 1 not made")


def test_the_page_counts_rows_and_time(archive, reproduced):
    known = archived(archive, reproduced)
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


def test_each_recipe_has_a_line_before_all_else(archive, reproduced):
    known = archived(archive, reproduced)
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
    planned = [
        each
        for each in Plan.of(known, tmp_path / "runs", tmp_path).rows
        if each.jobs and each.minutes is None
    ]
    assert [
        (each.row.recipe.name, each.row.row.label, each.runs, each.seconds) for each in left
    ] == [
        (each.recipe.name, each.row.label, len(each.jobs), each.total_seconds) for each in planned
    ]


def test_a_number_is_judged_where_its_run_was_made_and_not_again(archive, reproduced):
    known = recipes()
    bounded = Reported(0.5, "figure 1", "test", "loss", "last")
    known[FIGURE] = changed(known[FIGURE], "scoRNN 6", reported=bounded)
    collect([reproduced], archive.folder, known)
    page = to_markdown(archive.folder, known)
    assert "2 numbers of ours stand beside a paper's number" in page
    assert overview(page)[FIGURE][1:3] == ["", ""]


def test_trainings_on_one_thread_are_counted(archive):
    known = recipes()
    estimated(archive, {TABLE: {"scoRNN 6": 40}})
    for seed, threads in zip(SEEDS, ("1 threads", "2 threads"), strict=True):
        made = of_figure(known[TABLE], seed, [4.0, 2.0, 1.0])
        versions = {"processor": f"some processor, 2 cores, {threads}"}
        archive.add(replace(made, steps=20, all_steps=20, seconds=40.0, versions=versions))
    page = " ".join(to_markdown(archive.folder, known).split())
    assert "the 2 trainings that are there, 1 of them on one thread, took" in page
    assert "2 cores, 1 thread; " in page


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


def test_a_number_that_differs_asks_for_a_remark(archive, reproduced):
    archived(archive, reproduced)
    page = to_markdown(archive.folder, recipes())
    assert "**exact**: off the paper's number by more than 0.005. No remark yet." in page
    assert line(page, "exact")["ours"] == "**3.000**"


def test_a_remark_stands_beside_its_number(archive, reproduced):
    archived(archive, reproduced)
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


def test_the_page_tells_how_far_an_unfinished_run_is(archive):
    known = recipes()
    begun = replace(of_figure(known[TABLE], 0, [4.0, 2.0, 1.0]), state="unfinished", value=0.0955)
    archive.add(replace(begun, steps=12, all_steps=1_500, seconds=90.0))
    estimated(archive, {TABLE: {"scoRNN 6": 7_200}})
    cells = line(to_markdown(archive.folder, known), "scoRNN 6")
    assert cells["ours"] == "0.09550 so far; 1 begun, 1 not made"
    assert cells["updates"] == "12 of 1,500"
    epochs = {**begun.settings, "steps": None, "epochs": 100}
    archive.add(replace(begun, steps=12, all_steps=1_500, settings=epochs), overwrite=True)
    known[TABLE] = changed(known[TABLE], "scoRNN 6", settings=Settings(**epochs))
    page = to_markdown(archive.folder, known)
    assert line(page, "scoRNN 6")["updates"] == "12 of 1,500, 0.8 of 100 epochs"
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
