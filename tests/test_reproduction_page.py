"""RESULTS.md, written from the archive of runs."""

import math
from dataclasses import replace

import pytest
from reproduction.archive import Archive, ArchivedRun
from reproduction.claim import (
    AtMost,
    CheckResult,
    Claim,
    Judgement,
    Less,
    Progress,
    Runs,
    accuracy,
    value,
)
from reproduction.page import describe_quantity, evidence, to_markdown
from reproduction.recipes import RECIPES

from eigenrnn.experiments.recipes import Reported
from eigenrnn.experiments.training.run_key import Length
from recipes_for_results import SEEDS, TABLE, archived, changed, journal, of_figure, recipes, row


def texts_of(archive):
    """Return the file of the texts beside an archive."""
    archive.folder.parent.mkdir(exist_ok=True)
    return archive.folder.parent / "texts.toml"


def page_of(archive, known=None, claims=()):
    """Return the page of an archive of the tiny recipes."""
    archive.save()
    texts = texts_of(archive)
    if not texts.exists():
        texts.write_text("")
    of_claims = {claim.id: claim for claim in claims}
    return to_markdown(Archive(archive.folder), known or recipes(), of_claims, texts)


def above_chance(archive, runs):
    """Forget the chance level, which the tiny networks do not leave."""
    for run in runs:
        archive.add(replace(run, baseline=None), overwrite=True)


def section(page, heading):
    """Return the text below a heading."""
    return page.split(f"# {heading}\n")[1].split("\n#")[0]


def lines(page, heading="Numbers of tiny"):
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
    test = (AtMost(Runs(TABLE, "scoRNN 6", SEEDS), bound),)
    return Claim(**known, decisive=test, changed="2026-01-01T00:00:00+00:00", **fields)


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


def test_the_headline_counts_what_is_computed_and_what_was_never_trained(archive, reproduced):
    known = archived(archive, reproduced)
    above_chance(archive, known.values())
    computed = (AtMost(Runs(TABLE, "exact"), 4.0),)
    claims = [
        replace(claim(2.0), id="trained"),
        replace(claim(2.0), id="computed", decisive=computed),
        replace(claim(2.0), id="short", seeds=3),
        replace(claim(2.0), id="absent", decisive=(AtMost(Runs(TABLE, "LSTM 6", SEEDS), 1.0),)),
    ]
    known = recipes()
    known[TABLE] = replace(known[TABLE], rows=(*known[TABLE].rows, row("LSTM 6")))
    page = page_of(archive, known, claims)
    assert (
        "**We state 4 claims of the five papers. Our runs decide 2 of them: 2 hold (1 of them "
        "computed, without training), 0 hold partly, 0 fail.**\n"
        "The other 2 are not decided yet: 1 has networks that we have not trained, and the rest "
        "trained for too short a time or from too few seeds.\n" in page
    )


def test_an_empty_archive_has_a_page(archive):
    page = page_of(archive, claims=[claim(0.5)])
    assert "**We state 1 claim of the five papers. Our runs decide 0 of them.**" in page
    assert "No network has been trained yet." in page
    assert "Numbers of tiny" not in page


@pytest.mark.parametrize(("bound", "verdict"), [(-1.0, "fails"), (2.0, "holds")])
def test_a_claim_stands_with_its_verdict_and_evidence(archive, reproduced, bound, verdict):
    known = archived(archive, reproduced)
    above_chance(archive, known.values())
    page = page_of(archive, claims=[claim(bound, note="A note.")])
    values = [max(journal(reproduced, "test_accuracy", seed)) for seed in SEEDS]
    said = f"scoRNN 6 reaches {sum(values) / 2:.3g}. 2 seeds, the paper's length."
    not_so = ""
    if verdict == "fails":
        not_so = f" But scoRNN 6 is above {bound:g} in 2 of 2 runs."
    (cells,) = lines(page, "The claims")
    assert cells == {
        "claim": "scoRNN: It is low.",
        "verdict": f"**{verdict}**",
        "evidence": f"{said}{not_so} [Numbers](#numbers-of-scornn)",
    }
    assert "- *low* (section 1): A note." in section(page, "scoRNN")


def judged(number, *pairs):
    """Return a judgement on comparisons of numbers, each of some pairs of runs."""
    ours = Runs(TABLE, "LSTM 6", name="the LSTM")
    test, results = [], []
    for name, theirs, outcomes in pairs:
        other = Runs(TABLE, f"{name} 6", name=name)
        runs = {
            network: [ArchivedRun(TABLE, network.row, "", 0, "ended")] for network in (ours, other)
        }
        test.append(Less(ours, other, number=number))
        results.append(CheckResult(outcomes, {ours: 2.0, other: theirs}, runs))
    known = claim(0.0)
    progress = {
        network: Progress(share=1.0, seeds=3, longest=1.0)
        for check in test
        for network in check.networks
    }
    return Judgement(replace(known, decisive=tuple(test)), "fails", tuple(results), progress)


def test_of_many_networks_the_evidence_names_the_best():
    rivals = (("first", 3.0, (True,)), ("second", 1.0, (False,)), ("third", 0.5, (False,)))
    assert evidence(judged(value, *rivals)) == (
        "The LSTM reaches 2, and the best of 3 others, third, 0.5. 1 seed, the paper's length. "
        "But the LSTM is not below second and not below third."
    )
    assert "the best of 3 others, first, of 300 %." in evidence(judged(accuracy, *rivals))


def test_a_network_that_diverges_does_nothing_else():
    said = evidence(judged(value, ("GORU", math.inf, (True,)), ("GRU", 0.5, (True,))))
    assert said.startswith("The LSTM reaches 2, GRU 0.5 and GORU diverges. ")
    alone = judged(replace(value, verb="ends"), ("GORU", 1.0, (True,)))
    (result,) = alone.results
    medians = dict.fromkeys(result.medians, math.inf)
    said = evidence(replace(alone, results=(replace(result, medians=medians),)))
    assert said.startswith("The LSTM diverges and GORU diverges. ")


def test_a_claim_that_is_not_decided_says_what_is_missing(archive, reproduced):
    archived(archive, reproduced)
    page = page_of(archive, claims=[replace(claim(2.0), seeds=3)])
    (cells,) = lines(page, "The claims")
    assert (cells["verdict"], cells["evidence"]) == (
        "not decided yet",
        "The least length, 2 of 3 seeds. [Numbers](#numbers-of-scornn)",
    )


def test_shorter_runs_stand_apart_with_their_share(archive):
    known = recipes()
    known[TABLE] = changed(
        known[TABLE], "scoRNN 6", settings=replace(row().settings, steps=None, epochs=9)
    )
    run = of_figure(known[TABLE].reduced(Length("epochs", 3)), 0, [4.0, 2.0, 1.0])
    archive.add(replace(run, value=0.25, reduced=Length("epochs", 3)))
    page = page_of(archive, known)
    (cells,) = lines(page, "Shorter runs")
    assert (cells["network"], cells["length"], cells["share"], cells["ours"]) == (
        "scoRNN 6",
        "3 epochs",
        "0.33",
        "0.2500 (1)",
    )
    assert "Numbers of tiny" not in page


def test_a_number_that_differs_needs_a_remark(archive, reproduced):
    archived(archive, reproduced)
    page = page_of(archive)
    said = f"{TABLE}, **exact** (0.03 below the paper's number): not explained yet."
    assert said in section(page, "Open")
    assert line(page, "exact")["ours"] == "*3.000*"


REMARK = '[[remark]]\nkind = "{kind}"\nrecipe = "{recipe}"\nrows = {rows}\ntext = """\n{text}"""\n'


def remark(archive, kind, rows, text):
    content = REMARK.format(kind=kind, recipe=TABLE, rows=rows, text=text)
    texts_of(archive).write_text(content)


@pytest.mark.parametrize("kind", ["explained", "open", "cannot be judged"])
def test_a_remark_stands_under_its_kind(archive, reproduced, kind):
    archived(archive, reproduced)
    remark(archive, kind, ["exact"], "It is\nthree.")
    page = page_of(archive)
    assert "below the paper's number): It is three.\n" in section(page, kind.capitalize())
    assert page.count("**exact** (") == 1


def test_a_remark_on_several_rows_appears_once(archive):
    known = recipes()
    known[TABLE] = replace(known[TABLE], rows=(row(), row("LSTM 6"), row("GRU 6")))
    for each in known[TABLE].rows:
        of_row = of_figure(replace(known[TABLE], rows=(each,)), 0, [4.0, 2.0, 1.0])
        archive.add(replace(of_row, value=0.9))
    remark(archive, "open", ["scoRNN 6", "GRU 6"], "Too high.")
    by = "(0.4 above the paper's number, from one seed)"
    assert (
        f"{TABLE}, **scoRNN 6** {by}, **GRU 6** {by}: Too high.\n\n"
        f"{TABLE}, **LSTM 6** {by}: not explained yet.\n" in page_of(archive, known)
    )


def test_a_remark_names_only_rows_that_differ(archive):
    known = recipes()
    known[TABLE] = replace(known[TABLE], rows=(row(), row("LSTM 6")))
    for each, number in zip(known[TABLE].rows, (0.5, 0.9), strict=True):
        of_row = of_figure(replace(known[TABLE], rows=(each,)), 0, [4.0, 2.0, 1.0])
        archive.add(replace(of_row, value=number))
    remark(archive, "open", ["scoRNN 6", "LSTM 6"], "Too high.")
    page = page_of(archive, known)
    said = f"{TABLE}, **LSTM 6** (0.4 above the paper's number, from one seed): Too high."
    assert section(page, "Open").strip() == said


def test_a_remark_on_a_claim_stands_once_the_claim_is_decided(archive, reproduced):
    known = archived(archive, reproduced)
    texts_of(archive).write_text(
        '[[remark]]\nkind = "explained"\nclaim = "low"\ntext = "It is not."\n'
    )
    assert "Claim low" not in page_of(archive, claims=[replace(claim(-1.0), seeds=3)])
    above_chance(archive, known.values())
    page = page_of(archive, claims=[claim(-1.0)])
    assert "Claim low: It is not.\n" in section(page, "Explained")


def test_the_page_shows_a_bound_and_the_runs_above_it(archive):
    known = recipes()
    known[TABLE] = changed(
        known[TABLE], "scoRNN 6", reported=Reported(None, "figure 2", at_most=0.02)
    )
    for seed, number in zip(SEEDS, (0.01, 0.05), strict=True):
        archive.add(replace(of_figure(known[TABLE], seed, [4.0, 2.0, 1.0]), value=number))
    cells = line(page_of(archive, known), "scoRNN 6")
    assert cells["paper"] == "at most 0.02"
    assert cells["ours"] == "0.03000 ± 0.0200 (2, 1 above)"


def test_the_page_shows_the_progress_of_an_unfinished_run(archive):
    known = recipes()
    begun = replace(of_figure(known[TABLE], 0, [4.0, 2.0, 1.0]), state="unfinished", value=0.0955)
    archive.add(replace(begun, steps=12, all_steps=1_500, seconds=90.0))
    cells = line(page_of(archive, known), "scoRNN 6")
    assert cells["ours"] == "0.09550 so far"
    assert cells["updates"] == "12 of 1,500"
