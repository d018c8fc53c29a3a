"""RESULTS.md, written from the archive of runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from eigenrnn.experiments.claims import Claim
from eigenrnn.experiments.claims.claim import AtMost, Runs
from eigenrnn.experiments.recipes import Reported
from eigenrnn.experiments.registry import CLAIMS, RECIPES
from eigenrnn.experiments.results import Plan, archive_runs
from eigenrnn.experiments.results.page import describe_quantity, to_markdown
from eigenrnn.experiments.results.plan import remaining_rows
from eigenrnn.experiments.training.run_key import Length
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


def page_of(archive, known=None, claims=()):
    """Return the page of an archive of the tiny recipes."""
    return to_markdown(archive.folder, known or recipes(), {claim.id: claim for claim in claims})


def section(page, heading):
    """Return the text below a heading."""
    return page.split(f"# {heading}\n")[1].split("\n#")[0]


def lines(page, heading="Others"):
    """Return the cells of the lines of a table, each by column."""
    table = [text for text in section(page, heading).splitlines() if text.startswith("|")]
    head, _, *cells = [[cell.strip() for cell in text.split("|")[1:-1]] for text in table]
    return [dict(zip(head, each, strict=True)) for each in cells]


def line(page, network):
    """Return the cells of a network, by column."""
    (found,) = [each for each in lines(page) if each["network"] == network]
    return found


def claim(bound, **fields):
    """Return a claim that the loss of the first row is at most a bound."""
    known = {"id": "low", "paper": "scoRNN", "sentence": "It is low.", "place": "section 1"}
    return Claim(**known, test=(AtMost(Runs(TABLE, "scoRNN 6", SEEDS), bound),), **fields)


def test_the_committed_page_matches_the_archive():
    assert (ROOT / "RESULTS.md").read_text() == to_markdown(ROOT / "results", RECIPES, CLAIMS)


def test_the_page_compares_the_mean_with_the_papers_number(archive, reproduced):
    archived(archive, reproduced)
    cells = line(page_of(archive), "scoRNN 6")
    values = [max(journal(reproduced, "test_accuracy", seed)) for seed in SEEDS]
    mean = sum(values) / 2
    error = abs(values[0] - values[1]) / 2
    assert cells["recipe"] == TABLE
    assert cells["paper"] == "0.5"
    assert cells["compared"] == "accuracy on the test set, best of the run"
    assert cells["ours"].replace("*", "") == f"{mean:#.4g} ± {error:#.3g} (2)"
    assert cells["updates"] == "20"


@pytest.mark.parametrize("name", RECIPES)
def test_quantities_are_described_without_code_names(name):
    for known in RECIPES[name].rows:
        words = describe_quantity(known)
        assert "_" not in words
        assert not {"validation test", "best test", "last test"} & {words}


def test_each_run_stands_once(archive, reproduced):
    archived(archive, reproduced)
    assert [each["network"] for each in lines(page_of(archive))] == ["scoRNN 6", "exact"]


def test_a_row_counts_its_remaining_runs(archive, reproduced):
    archived(archive, reproduced)
    (archive.folder / archive.runs()[-1].relative_path).unlink()
    assert line(page_of(archive), "scoRNN 6")["ours"].endswith("(1); 1 not run")


def test_the_page_counts_runs_and_time(archive, reproduced):
    known = archived(archive, reproduced)
    rewrite(archive.folder / known[TABLE, "scoRNN 6", 0].relative_path, seconds=7_200.0)
    assert "We trained 1 network in 2 runs, which took 2 h" in page_of(archive)


def test_an_empty_archive_has_a_page(archive):
    page = page_of(archive, claims=[claim(0.5)])
    assert "**Of 1 central claim, 1 is not tried.** No network has been trained yet." in page
    assert "## Runs\n" not in page
    assert [tuple(each.values()) for each in lines(page, "Runs that were not made")] == [
        (TABLE, "0 of 2", "2", f"`eigenrnn reproduce {TABLE}`"),
        (FIGURE, "0 of 2", "1", f"`eigenrnn reproduce {FIGURE}`"),
    ]


def test_a_recipe_whose_runs_are_all_shared_has_none_left(archive):
    known = recipes()
    known[FIGURE] = replace(known[FIGURE], rows=known[FIGURE].rows[:1])
    left = [each["recipe"] for each in lines(page_of(archive, known), "Runs that were not made")]
    assert left == [TABLE]


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
    archive_runs([reproduced], archive.folder, known)
    assert "Of 2 numbers, " in page_of(archive, known)


@pytest.mark.parametrize(
    ("bound", "verdict"), [(-1.0, "fails"), (2.0, "holds")], ids=["fails", "holds"]
)
def test_a_claim_stands_with_its_verdict_and_numbers(archive, reproduced, bound, verdict):
    archived(archive, reproduced)
    page = page_of(archive, claims=[claim(bound, note="A note.")])
    values = [max(journal(reproduced, "test_accuracy", seed)) for seed in SEEDS]
    (cells,) = lines(page, "What holds of the five papers")
    assert cells == {
        "paper": "scoRNN",
        "claim": "It is low. (section 1) A note.",
        "verdict": f"**{verdict}**",
        "ours": f"scoRNN 6 {sum(values) / 2:.3g}",
        "paper's": "scoRNN 6 0.5",
        "seeds": "2",
    }
    assert ("the claim low fails." in page) == (verdict == "fails")


def test_a_claim_of_one_seed_says_so(archive, reproduced):
    archived(archive, reproduced)
    one = replace(claim(2.0), test=(AtMost(Runs(TABLE, "scoRNN 6", (0,)), 2.0),))
    (cells,) = lines(page_of(archive, claims=[one]), "What holds of the five papers")
    assert cells["verdict"] == "**holds, one seed**"


@pytest.mark.parametrize(("bound", "verdict"), [(0.1, "fails, reduced"), (0.3, "holds reduced")])
def test_a_claim_that_fails_in_reduced_runs_says_so(archive, bound, verdict):
    known, length = recipes(), Length("epochs", 3)
    known[TABLE] = changed(
        known[TABLE], "scoRNN 6", settings=replace(row().settings, steps=None, epochs=9)
    )
    run = of_figure(known[TABLE].reduced(length), 0, [4.0, 2.0, 1.0])
    archive.add(replace(run, value=0.25, reduced=length))
    one = replace(
        claim(bound), test=(AtMost(Runs(TABLE, "scoRNN 6", (0,), reduced=length), bound),)
    )
    (cells,) = lines(page_of(archive, known, claims=[one]), "What holds of the five papers")
    assert cells["verdict"] == f"**{verdict}, one seed**"


def test_reduced_runs_stand_apart(archive):
    known = recipes()
    known[TABLE] = changed(
        known[TABLE], "scoRNN 6", settings=replace(row().settings, steps=None, epochs=9)
    )
    run = of_figure(known[TABLE].reduced(Length("epochs", 3)), 0, [4.0, 2.0, 1.0])
    archive.add(replace(run, value=0.25, reduced=Length("epochs", 3)))
    page = page_of(archive, known)
    (cells,) = lines(page, "Reduced experiments")
    assert (cells["network"], cells["length"], cells["ours"]) == (
        "scoRNN 6",
        "3 of 9 epochs",
        "0.2500 (1)",
    )
    assert "## Runs\n" not in page


def test_a_number_that_differs_needs_a_remark(archive, reproduced):
    archived(archive, reproduced)
    page = page_of(archive)
    said = f"{TABLE}, **exact** (more than 0.005 from the paper's number): not explained yet."
    assert said in section(page, "Open")
    assert line(page, "exact")["ours"] == "**3.000**"


REMARK = '[[remark]]\nkind = "{kind}"\nrecipe = "{recipe}"\nrows = {rows}\ntext = """\n{text}"""\n'


def remark(archive, kind, rows, text):
    content = REMARK.format(kind=kind, recipe=TABLE, rows=rows, text=text)
    (archive.folder / "remarks.toml").write_text(content)


@pytest.mark.parametrize("kind", ["explained", "open", "cannot be judged"])
def test_a_remark_stands_under_its_kind(archive, reproduced, kind):
    archived(archive, reproduced)
    remark(archive, kind, ["exact"], "It is\nthree.")
    page = page_of(archive)
    assert "from the paper's number): It is three.\n" in section(page, kind.capitalize())
    assert page.count("**exact** (") == 1


def test_a_remark_on_several_rows_appears_once(archive):
    known = recipes()
    known[TABLE] = replace(known[TABLE], rows=(row(), row("LSTM 6"), row("GRU 6")))
    for each in known[TABLE].rows:
        of_row = of_figure(replace(known[TABLE], rows=(each,)), 0, [4.0, 2.0, 1.0])
        archive.add(replace(of_row, value=0.9))
    remark(archive, "open", ["scoRNN 6", "GRU 6"], "Too high.")
    by = "(more than 0.05 from the paper's number, from one seed)"
    assert (
        f"{TABLE}, **scoRNN 6** {by}, **GRU 6** {by}: Too high.\n\n"
        f"{TABLE}, **LSTM 6** {by}: not explained yet.\n" in page_of(archive, known)
    )


def test_a_remark_on_a_claim_takes_the_place_of_its_sentence(archive, reproduced):
    archived(archive, reproduced)
    (archive.folder / "remarks.toml").write_text(
        '[[remark]]\nkind = "explained"\nclaim = "low"\ntext = "It is not."\n'
    )
    page = page_of(archive, claims=[claim(-1.0)])
    assert "Claim low: It is not.\n" in section(page, "Explained")
    assert "the claim low fails" not in page


def test_the_page_shows_a_bound_and_the_runs_above_it(archive):
    known = recipes()
    known[TABLE] = changed(
        known[TABLE], "scoRNN 6", reported=Reported(None, "figure 2", at_most=0.02)
    )
    for seed, value in zip(SEEDS, (0.01, 0.05), strict=True):
        archive.add(replace(of_figure(known[TABLE], seed, [4.0, 2.0, 1.0]), value=value))
    cells = line(page_of(archive, known), "scoRNN 6")
    assert cells["paper"] == "at most 0.02"
    assert cells["ours"] == "0.03000 ± 0.0200 (2, 1 above)"


def test_the_page_shows_the_progress_of_an_unfinished_run(archive):
    known = recipes()
    begun = replace(of_figure(known[TABLE], 0, [4.0, 2.0, 1.0]), state="unfinished", value=0.0955)
    archive.add(replace(begun, steps=12, all_steps=1_500, seconds=90.0))
    cells = line(page_of(archive, known), "scoRNN 6")
    assert cells["ours"] == "0.09550 so far; 2 not run"
    assert cells["updates"] == "12 of 1,500"


def test_the_page_shows_the_processor_time_if_it_is_known(archive):
    known = recipes()
    run = of_figure(known[TABLE], 0, [4.0, 2.0, 1.0])
    archive.add(replace(run, seconds=90.0))
    assert "processor time" not in line(page_of(archive), "scoRNN 6")
    archive.add(replace(run, seconds=90.0, processor_seconds=42.0), overwrite=True)
    assert line(page_of(archive), "scoRNN 6")["processor time"] == "42 s"
