"""RESULTS.md, written from the archive of runs."""

from dataclasses import replace

import pytest
from reproduction.archive import Archive
from reproduction.claim import Claim, Median, Runs, at_most, value
from reproduction.page import describe_quantity, to_markdown
from reproduction.recipes import RECIPES

from eigenrnn_experiments.recipes import Reported
from eigenrnn_experiments.training.run import Length
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
    """Raise the chance level, which the tiny networks do not leave, and add a third seed."""
    for run in runs:
        archive.add(replace(run, baseline=100.0), overwrite=True)
        if run.key.seed == 1:
            settings = {**run.settings, "seed": 2}
            key = replace(run.key, seed=2)
            archive.add(replace(run, baseline=100.0, key=key, settings=settings), overwrite=True)


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


NETWORK = Runs(TABLE, "scoRNN 6", SEEDS)
OURS = replace(value, is_reported=False)
LOW = replace(value, name="missing", of=lambda _: None)


def claim(bound=2.0, **fields):
    """Return a claim that the loss of the first row is at most a bound."""
    known = {
        "id": "low",
        "paper": "scoRNN",
        "place": "section 1",
        "sentence": "It is low.",
        "decides": "The loss.",
        "decisive": (at_most(NETWORK, bound, OURS),),
        "changed": "2026-01-01T00:00:00+00:00",
    }
    return Claim(**known | fields)


def test_the_page_compares_the_mean_with_the_papers_number(archive, reproduced):
    archived(archive, reproduced)
    cells = line(page_of(archive), "scoRNN 6")
    values = [max(journal(reproduced, "test_accuracy", seed)) for seed in SEEDS]
    mean = sum(values) / 2
    error = abs(values[0] - values[1]) / 2
    assert cells["recipe"] == TABLE
    assert cells["paper"] == "0.5"
    assert cells["compared"] == "accuracy on the test set, best of the run"
    assert cells["ours"] == f"{mean:#.4g} ± {error:#.3g} (2)"
    assert cells["updates"] == "20"


@pytest.mark.parametrize("name", RECIPES)
def test_quantities_are_described_without_code_names(name):
    for known in RECIPES[name].rows:
        for reported in known.reported:
            words = describe_quantity(known, reported)
            assert "_" not in words
            assert not {"validation test", "best test", "last test"} & {words}


def test_each_run_stands_once(archive, reproduced):
    archived(archive, reproduced)
    assert [each["network"] for each in lines(page_of(archive))] == ["scoRNN 6", "exact"]


def test_the_headline_counts_verdicts_and_hours(archive, reproduced):
    known = archived(archive, reproduced)
    above_chance(archive, known.values())
    exact = (at_most(Runs(TABLE, "exact"), 4.0),)
    claims = [
        claim(id="trained", verdict="holds"),
        claim(id="computed", decisive=exact, verdict="holds"),
        claim(id="open", decisive=(at_most(NETWORK, 0.5, LOW),), hours=1.5),
        claim(id="absent", decisive=(at_most(Runs(TABLE, "LSTM 6", SEEDS), 1.0),), hours=2),
    ]
    known = recipes()
    known[TABLE] = replace(known[TABLE], rows=(*known[TABLE].rows, row("LSTM 6")))
    page = page_of(archive, known, claims)
    assert (
        "**Of 4 claims of the five papers, 2 hold (1 of them computed, without training), 0 hold "
        "partly, 0 are refuted at our settings, 2 are not decided, 0 were tested on other data.**"
    ) in page
    assert "What is open needs about 4 more hours of one core.\n" in page


def test_an_empty_archive_has_a_page(archive):
    page = page_of(archive, claims=[claim(hours=2)])
    assert "**Of 1 claims of the five papers, 0 hold," in page
    assert "No network has been trained yet." in page
    assert "Numbers of tiny" not in page


def stated(reproduced, **fields):
    """Return a claim that states our number."""
    accuracy = max(journal(reproduced, "test_accuracy", 1))  # the median, as that of seed 2
    numbers = {"ours": Median(f"{accuracy:.3f}", NETWORK, OURS)}
    return claim(seen="It reaches {ours}.", numbers=numbers, **fields)


@pytest.mark.parametrize(("bound", "verdict"), [(-1.0, "refuted at our settings"), (2.0, "holds")])
def test_a_claim_stands_with_its_verdict_and_sentence(archive, reproduced, bound, verdict):
    known = archived(archive, reproduced)
    above_chance(archive, known.values())
    words = {"before": "fails", "why": "A seed more.", "tried": "A larger rate."}
    low = stated(reproduced, bound=bound, verdict=verdict, **words)
    page = page_of(archive, claims=[low])
    (cells,) = lines(page, verdict.capitalize())
    hours = cells.pop("core-hours")
    assert cells == {
        "paper": "scoRNN",
        "claim": "It is low.",
        "before": "fails",
        "why": "A seed more.",
        "what our runs show": f"It reaches {low.numbers['ours'].text}.",
        "seeds": "3",
        "rates tried": "1",
        "length": "100 %",
    }
    assert hours == "0.0"
    said = section(page, "scoRNN")
    assert f"**It is low.** (section 1; *{verdict}*)" in said
    assert "- What decides: The loss.\n" in said
    assert "- What was tried, and what is known: A larger rate.\n" in said


@pytest.mark.parametrize("fields", [{"verdict": "partly"}, {"verdict": "holds", "bound": -1.0}])
def test_no_page_is_written_with_a_verdict_that_the_runs_do_not_carry(archive, reproduced, fields):
    known = archived(archive, reproduced)
    above_chance(archive, known.values())
    with pytest.raises(ValueError, match=f"low: its verdict is '{fields['verdict']}', got"):
        page_of(archive, claims=[claim(**fields)])


def test_no_page_is_written_with_a_number_that_the_archive_does_not_have(archive, reproduced):
    known = archived(archive, reproduced)
    above_chance(archive, known.values())
    numbers = {"ours": Median("0.999", NETWORK, OURS)}
    with pytest.raises(ValueError, match=r"low: its 'ours' is 0\.999, got 0"):
        page_of(archive, claims=[claim(seen="{ours}", numbers=numbers, verdict="holds")])


def test_a_claim_that_is_not_decided_says_why_and_what_is_missing(archive, reproduced):
    archived(archive, reproduced)
    page = page_of(archive, claims=[claim(hours=2.5)])
    (cells,) = lines(page, "Not decided")
    assert (cells["why"], cells["still needed"]) == ("fewer than three seeds", "2.5")


def test_shorter_runs_stand_apart_with_their_share(archive):
    known = recipes()
    known[TABLE] = changed(
        known[TABLE], "scoRNN 6", settings=replace(row().settings, steps=None, epochs=9)
    )
    shorter = known[TABLE].reduced(Length("epochs", 3))
    archive.add(of_figure(shorter, 0, [4.0, 2.0, 1.0], ours=0.25))
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
    said = f"{TABLE}, **exact** (better here, 0.03 below the paper's number): not explained yet."
    assert said in section(page, "Open")


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
        of_row = replace(known[TABLE], rows=(each,))
        archive.add(of_figure(of_row, 0, [4.0, 2.0, 1.0], ours=0.9))
    remark(archive, "open", ["scoRNN 6", "GRU 6"], "Too high.")
    by = "(better here, 0.4 above the paper's number, from one seed)"
    assert (
        f"{TABLE}, **scoRNN 6** {by}, **GRU 6** {by}: Too high.\n\n"
        f"{TABLE}, **LSTM 6** {by}: not explained yet.\n" in page_of(archive, known)
    )


def test_a_remark_names_only_rows_that_differ(archive):
    known = recipes()
    known[TABLE] = replace(known[TABLE], rows=(row(), row("LSTM 6")))
    for each, number in zip(known[TABLE].rows, (0.5, 0.9), strict=True):
        of_row = replace(known[TABLE], rows=(each,))
        archive.add(of_figure(of_row, 0, [4.0, 2.0, 1.0], ours=number))
    remark(archive, "open", ["scoRNN 6", "LSTM 6"], "Too high.")
    page = page_of(archive, known)
    by = "(better here, 0.4 above the paper's number, from one seed)"
    said = f"{TABLE}, **LSTM 6** {by}: Too high."
    assert section(page, "Open").strip() == said


def beside(archive, ours, **reported):
    """Return the page of a row with this number of ours, and its cells."""
    known = recipes()
    if reported:
        known[TABLE] = changed(
            known[TABLE], "scoRNN 6", reported=(Reported(0.5, "table 1", **reported),)
        )
    archive.add(of_figure(known[TABLE], 0, [4.0, 2.0, 1.0], ours=ours))
    page = page_of(archive, known)
    return page, line(page, "scoRNN 6")


@pytest.mark.parametrize(
    ("ours", "quantity", "mark"),
    [
        (0.5, "accuracy", "agrees"),
        (0.9, "accuracy", "*better here*"),
        (0.1, "accuracy", "**worse here**"),
        (0.1, "loss", "*better here*"),
        (0.9, "loss", "**worse here**"),
        (0.9, "henrici", "differs"),
    ],
)
def test_the_table_tells_better_from_worse(archive, ours, quantity, mark):
    _, cells = beside(archive, ours, quantity=quantity)
    assert cells["beside the paper"] == mark


@pytest.mark.parametrize(
    ("tried", "said"),
    [("", "*Tried:* nothing yet."), ('tried = "a rate."\n', "*Tried:* a rate.")],
)
def test_a_worse_number_says_what_was_tried(archive, tried, said):
    remark(archive, "open", ["scoRNN 6"], "Too low.")
    texts_of(archive).write_text(texts_of(archive).read_text() + tried)
    page, _ = beside(archive, 0.1)
    assert section(page, "Open").strip().endswith(f"from one seed): Too low. {said}")


def test_a_worse_number_without_a_remark_says_that_nothing_was_tried(archive):
    page, _ = beside(archive, 0.1)
    assert "not explained yet. *Tried:* nothing yet." in section(page, "Open")


def test_a_better_number_needs_no_trial(archive):
    remark(archive, "open", ["scoRNN 6"], "High.")
    page, _ = beside(archive, 0.9)
    assert "Tried" not in section(page, "Open")


def test_the_page_shows_a_bound_and_the_runs_above_it(archive):
    known = recipes()
    known[TABLE] = changed(
        known[TABLE], "scoRNN 6", reported=(Reported(None, "figure 2", at_most=0.02),)
    )
    for seed, number in zip(SEEDS, (0.01, 0.05), strict=True):
        archive.add(of_figure(known[TABLE], seed, [4.0, 2.0, 1.0], ours=number))
    cells = line(page_of(archive, known), "scoRNN 6")
    assert cells["paper"] == "at most 0.02"
    assert cells["ours"] == "0.03000 ± 0.0200 (2, 1 above)"
