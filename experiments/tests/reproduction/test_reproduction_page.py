"""RESULTS.md, written from the archive of runs."""

from dataclasses import replace

import pytest
from reproduction.archive import Archive
from reproduction.claim import Claim, Median, Runs, at_most, value
from reproduction.page import describe_quantity, to_markdown
from reproduction.recipes import RECIPES

from recipes_for_results import SEEDS, TABLE, archived, recipes


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


NETWORK = Runs(TABLE, "scoRNN 6", SEEDS)
OURS = replace(value, is_reported=False)


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


@pytest.mark.parametrize("name", RECIPES)
def test_quantities_are_described_without_code_names(name):
    for known in RECIPES[name].rows:
        for reported in known.reported:
            words = describe_quantity(known, reported)
            assert "_" not in words
            assert not {"validation test", "best test", "last test"} & {words}


def test_an_empty_archive_has_a_page(archive):
    page = page_of(archive, claims=[claim(hours=2)])
    assert "**Of 1 claims of the five papers, 0 hold," in page
    assert "No network has been trained yet." in page
    assert "Numbers of tiny" not in page


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
