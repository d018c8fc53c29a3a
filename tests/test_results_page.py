"""RESULTS.md, written from the archive of runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from eigenrnn.experiments.recipes import Reported
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.results import Plan, collect, to_markdown
from eigenrnn.experiments.results.page import describe_quantity
from eigenrnn.experiments.results.plan import remaining_rows
from eigenrnn.experiments.training import Settings
from recipes_for_results import (
    FIGURE,
    SEEDS,
    TABLE,
    archived,
    changed,
    journal,
    of_figure,
    recipes,
    rewrite,
    row,
)

ROOT = Path(__file__).parents[1]


def section(page, recipe):
    """Return the section of a recipe."""
    return page.split(f"### {recipe}\n")[1].split("\n## ")[0].split("\n### ")[0]


def line(page, network, recipe=TABLE):
    """Return the cells of a network's row, by heading."""
    lines = section(page, recipe).splitlines()
    (at,) = [i for i, text in enumerate(lines) if text.startswith(f"| {network} ")]
    head = max(i for i in range(at) if lines[i].startswith("| network "))
    named, cells = ([cell.strip() for cell in lines[i].split("|")[1:-1]] for i in (head, at))
    return dict(zip(named, cells, strict=True))


def overview(page):
    """Return the cells of the overview table, by recipe."""
    lines = [text for text in page.splitlines() if text.startswith("| [")]
    cells = [[cell.strip() for cell in text.split("|")[1:-1]] for text in lines]
    return {first.partition("]")[0][1:]: rest for first, *rest in cells}


def test_the_committed_page_matches_the_archive():
    assert (ROOT / "RESULTS.md").read_text() == to_markdown(ROOT / "results", RECIPES)


def test_the_page_compares_the_mean_with_the_papers_number(archive, reproduced):
    archived(archive, reproduced)
    cells = line(to_markdown(archive.folder, recipes()), "scoRNN 6")
    values = [max(journal(reproduced, "test_accuracy", seed)) for seed in SEEDS]
    mean = sum(values) / 2
    error = abs(values[0] - values[1]) / 2
    assert cells["paper"] == "0.5 (table 1)"
    assert cells["ours"].replace("*", "") == f"{mean:#.4g} ± {error:#.3g} (2)"
    assert cells["updates"] == "20"


def test_the_page_describes_the_compared_quantity(archive, reproduced):
    archived(archive, reproduced)
    page = to_markdown(archive.folder, recipes())
    said = [text for text in section(page, TABLE).splitlines() if text.startswith("Compared: ")]
    assert said == ["Compared: accuracy on the test set, best of the run.", "Compared: total."]


@pytest.mark.parametrize("name", RECIPES)
def test_quantities_are_described_without_code_names(name):
    for known in RECIPES[name].rows:
        words = describe_quantity(known)
        assert "_" not in words
        assert not {"validation test", "best test", "last test"} & {words}


def test_a_row_without_runs_has_their_number(archive, reproduced):
    archived(archive, reproduced)
    cells = line(to_markdown(archive.folder, recipes()), "scoRNN 8", FIGURE)
    assert cells == {"network": "scoRNN 8", "paper": "not printed (figure 1)", "runs": "1"}


def test_a_row_counts_its_remaining_runs(archive, reproduced):
    archived(archive, reproduced)
    known = archive.runs()[-1]
    (archive.folder / known.relative_path).unlink()
    page = to_markdown(archive.folder, recipes())
    assert line(page, known.row)["ours"].endswith("(1); 1 not run")


def test_the_page_counts_rows_and_time(archive, reproduced):
    known = archived(archive, reproduced)
    rewrite(archive.folder / known[TABLE, "scoRNN 6", 0].relative_path, seconds=7_200.0)
    page = to_markdown(archive.folder, recipes())
    assert "**3 of 4 rows** in 2 tables and figures have all their runs." in page
    assert "2 trainings took 2 h of machine time. 1 run belongs to a second" in page


def test_an_archive_of_one_run_is_described_in_the_singular(archive):
    known = recipes()
    archive.add(replace(of_figure(known[FIGURE], 0, [4.0, 2.0, 1.0], "test_loss"), seconds=40.0))
    page = to_markdown(archive.folder, known)
    assert "have all their runs. 1 training took 40 s of machine time.\n" in page
    assert "that we compare" not in page  # none of the papers prints its number


def test_an_empty_archive_has_a_page(tmp_path):
    page = to_markdown(tmp_path, recipes())
    assert "**0 of 4 rows** in 2 tables and figures have all their runs.\n" in page
    assert "## Runs\n" not in page
    assert "3 trainings of 2 rows remain." in page


def test_the_page_begins_with_one_line_per_recipe(archive, reproduced):
    known = archived(archive, reproduced)
    for seed in SEEDS:
        rewrite(
            archive.folder / known[TABLE, "scoRNN 6", seed].relative_path,
            seconds=3_600.0,
            value=0.5,
        )
    page = to_markdown(archive.folder, recipes())
    assert overview(page) == {
        TABLE: ["2 / 2", "1", "1", "2", ""],
        FIGURE: ["1 / 2", "", "", "", "1"],
    }
    assert page.index(f"| [{TABLE}](#tinytable1) |") < page.index("## How to read it")


def test_a_recipe_whose_runs_are_all_shared_has_none_left(tmp_path):
    known = recipes()
    known[FIGURE] = replace(known[FIGURE], rows=known[FIGURE].rows[:1])
    assert overview(to_markdown(tmp_path, known))[FIGURE][-1] == "shared"


def test_a_computed_recipe_has_no_training_left(tmp_path):
    known = recipes()
    known[TABLE] = replace(known[TABLE], rows=known[TABLE].rows[1:])
    assert overview(to_markdown(tmp_path, known))[TABLE] == ["0 / 1", "no training"]


def test_the_remaining_runs_equal_those_of_the_plan(tmp_path):
    known = {n: recipe for n, recipe in RECIPES.items() if n.startswith(("scornn/", "nnrnn/"))}
    planned = Plan.of(known, tmp_path / "runs", tmp_path).rows
    left = list(remaining_rows(known, []))
    assert [each.row for each in left] == [each.row for each in planned]
    assert [run.key for each in left for run in each.runs] == [
        run.key for each in planned for run in each.runs
    ]


def test_a_shared_run_is_compared_once(archive, reproduced):
    known = recipes()
    bounded = Reported(0.5, "figure 1", "test", "loss", "last")
    known[FIGURE] = changed(known[FIGURE], "scoRNN 6", reported=bounded)
    collect([reproduced], archive.folder, known)
    page = to_markdown(archive.folder, known)
    assert "Of 2 numbers that we compare, " in page
    assert overview(page)[FIGURE][1:3] == ["", ""]


def test_recipes_with_runs_come_first(archive):
    known = recipes()
    archive.add(of_figure(known[FIGURE], 0, [4.0, 2.0, 1.0], "test_loss"))
    page = to_markdown(archive.folder, known)
    headings = [text for text in page.splitlines() if text.startswith("##")]
    assert headings == [
        "## How to read it",
        "## Runs",
        f"### {FIGURE}",
        "## Not run",
        f"### {TABLE}",
    ]


def test_a_number_that_differs_needs_a_remark(archive, reproduced):
    archived(archive, reproduced)
    page = to_markdown(archive.folder, recipes())
    assert "**exact**: more than 0.005 from the paper's number. No remark yet." in page
    assert line(page, "exact")["ours"] == "**3.000**"


def test_a_remark_stands_beside_its_number(archive, reproduced):
    archived(archive, reproduced)
    text = f'["{TABLE}"]\nexact = """\nIt is\nthree."""\n'
    (archive.folder / "remarks.toml").write_text(text)
    assert "from the paper's number. It is three.\n" in to_markdown(archive.folder, recipes())


def test_a_remark_on_several_rows_appears_once(archive):
    known = recipes()
    known[TABLE] = replace(known[TABLE], rows=(row(), row("LSTM 6"), row("GRU 6")))
    for each in known[TABLE].rows:
        of_row = of_figure(replace(known[TABLE], rows=(each,)), 0, [4.0, 2.0, 1.0])
        archive.add(replace(of_row, value=0.9))
    text = f'["{TABLE}".high]\nrows = ["scoRNN 6", "GRU 6"]\ntext = "Too high."\n'
    (archive.folder / "remarks.toml").write_text(text)
    page = section(to_markdown(archive.folder, known), TABLE)
    assert (
        "**scoRNN 6**, **GRU 6**: more than 0.05 from the paper's number, from one seed. "
        "Too high.\n\n"
        "**LSTM 6**: more than 0.05 from the paper's number, from one seed. No remark yet.\n"
        in page
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


def test_the_page_shows_the_progress_of_an_unfinished_run(archive):
    known = recipes()
    begun = replace(of_figure(known[TABLE], 0, [4.0, 2.0, 1.0]), state="unfinished", value=0.0955)
    archive.add(replace(begun, steps=12, all_steps=1_500, seconds=90.0))
    cells = line(to_markdown(archive.folder, known), "scoRNN 6")
    assert cells["ours"] == "0.09550 so far; 1 unfinished, 1 not run"
    assert cells["updates"] == "12 of 1,500"
    epochs = {**begun.settings, "steps": None, "epochs": 100}
    archive.add(replace(begun, steps=12, all_steps=1_500, settings=epochs), overwrite=True)
    known[TABLE] = changed(known[TABLE], "scoRNN 6", settings=Settings(**epochs))
    page = to_markdown(archive.folder, known)
    assert line(page, "scoRNN 6")["updates"] == "12 of 1,500, 0.8 of 100 epochs"
    assert cells["time per run"] == "1.5 min so far"


def test_the_page_shows_the_processor_time_if_it_is_known(archive):
    known = recipes()
    run = of_figure(known[TABLE], 0, [4.0, 2.0, 1.0])
    archive.add(replace(run, seconds=90.0))
    assert "processor time" not in line(to_markdown(archive.folder, known), "scoRNN 6")
    archive.add(replace(run, seconds=90.0, processor_seconds=42.0), overwrite=True)
    cells = line(to_markdown(archive.folder, known), "scoRNN 6")
    assert cells["time per run"].startswith("1.5 min")
    assert cells["processor time"] == "42 s"
