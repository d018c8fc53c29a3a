"""Reduced runs, the evidence in an archive, the missing runs, and the commands."""

import re
from dataclasses import replace

import pytest
from reproduction.__main__ import PAGE, main
from reproduction.archive import Archive, runs_by_row
from reproduction.archive_runs import archive_runs
from reproduction.claim import Claim, Runs, at_least, at_most, less
from reproduction.evidence import ArchivedEvidence, missing_runs

from eigenrnn_experiments.errors import StoppedError
from eigenrnn_experiments.recipes import Recipe, Row
from eigenrnn_experiments.recipes.recipe import row_of
from eigenrnn_experiments.tasks import Copying
from eigenrnn_experiments.training.run import Length, RunFolder
from recipes_for_results import ABSENT, TABLE, changed, recipes, row, run
from training_run import one_thread

NAME = "tiny/table2"
SMALL, LARGE = "scoRNN 4", "scoRNN 6"
ONE_EPOCH = Length("epochs", 1)


def recipe():
    """Return a recipe of two rows of three epochs with two seeds."""
    task = Copying(delay=4, symbols=2, train_examples=8, test_examples=30)
    settings = replace(row().settings, steps=None, epochs=3, eval_every=2)
    rows = tuple(
        row(label, hidden_size=size, task=task, settings=settings)
        for label, size in ((SMALL, 4), (LARGE, 6))
    )
    return Recipe(NAME, "A table.", rows, "Nobody, 2020", (0, 1))


KNOWN = {NAME: recipe()}


CHANGED = "2026-01-01T00:00:00+00:00"


def claim(*checks, name="works", **changes):
    words = {"place": "section 1", "sentence": "It works.", "decides": "Its loss."}
    return {name: Claim(name, "scoRNN", **words, decisive=checks, changed=CHANGED, **changes)}


def evidence(folder, known=KNOWN):
    return ArchivedEvidence(known, Archive(folder))


def raise_chance(folder):
    """Raise the chance level, which networks after an epoch do not leave, and add two seeds."""
    archive = Archive(folder)
    for known in archive.runs():
        for seed in range(3):
            settings = {**known.settings, "seed": seed}
            key = replace(known.key, seed=seed)
            run = replace(known, baseline=100.0, key=key, settings=settings)
            archive.add(run, overwrite=True)
    archive.save()


def missing(claims, folder, **options):
    """Return the missing runs as row, seed and length."""
    found = missing_runs(claims, evidence(folder), **options)
    return [(run.row, *run.seeds, run.least) for run in found]


def test_a_reduced_recipe_has_fewer_epochs():
    reduced = recipe().reduced(Length("epochs", 2))
    assert reduced.reduced_to == ("epochs", 2)
    assert {row.settings.epochs for row in reduced.rows} == {2}


@pytest.mark.parametrize("epochs", [3, 4])
def test_a_recipe_is_not_reduced_to_as_many_epochs(epochs):
    with pytest.raises(ValueError, match=f"row of tiny/table2 of more than {epochs} epochs"):
        recipe().reduced(Length("epochs", epochs))


def test_a_recipe_of_steps_is_not_reduced():
    with pytest.raises(ValueError, match="row of tiny/fig1 of more than 1 epochs"):
        recipes()["tiny/fig1"].reduced(ONE_EPOCH)


def test_a_recipe_of_steps_has_fewer_steps():
    of_steps = recipes()["tiny/fig1"]
    length = Length("steps", 2)
    reduced = of_steps.reduced(length)
    assert {row.settings.steps for row in reduced.rows if isinstance(row, Row)} == {2}
    assert str(length) == "2 steps"


@pytest.fixture(scope="module")
def reduced_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reduced")
    run(recipe().reduced(ONE_EPOCH), folder, seeds=[0])
    return folder


def test_a_reduced_run_is_archived_as_what_it_is(reduced_folder, tmp_path):
    archive_runs([reduced_folder], tmp_path, KNOWN)
    found = Archive(tmp_path).runs()
    assert [(run.key.row, run.key.reduced, run.state) for run in found] == [
        (SMALL, ONE_EPOCH, "ended"),
        (LARGE, ONE_EPOCH, "ended"),
    ]


def test_a_reduced_run_never_counts_as_a_full_one(reduced_folder, tmp_path):
    archive_runs([reduced_folder], tmp_path, KNOWN)
    assert runs_by_row(KNOWN, Archive(tmp_path).runs()) == {}


def test_the_page_of_a_reduced_run_says_so(reduced_folder):
    assert (
        "**Reduced runs of 1 epoch: the paper trains for longer.**"
        in (reduced_folder / "results.md").read_text()
    )


def test_a_reduced_run_is_rebuilt_with_its_epochs(reduced_folder):
    key = RunFolder(reduced_folder / "scornn-4" / "seed-0").run.key
    assert row_of(key, recipe()).settings.epochs == 1


def test_an_unknown_point_is_refused(tmp_path):
    with pytest.raises(ValueError, match="got 'lr=1'"):
        run(recipe(), tmp_path, points=["lr=1"])


def test_a_claim_without_runs_is_not_decided(tmp_path):
    claims = claim(at_most(Runs(NAME, SMALL), 1.0))
    (judgement,) = evidence(tmp_path).judge(claims)
    assert judgement.verdict == "not decided"
    assert missing(claims, tmp_path) == [(SMALL, 0, None)]


@pytest.mark.parametrize(("epochs", "verdict"), [(1, "holds"), (2, "not decided")])
def test_runs_of_the_least_length_decide(reduced_folder, tmp_path, epochs, verdict):
    archive_runs([reduced_folder], tmp_path, KNOWN)
    raise_chance(tmp_path)
    least = Length("epochs", epochs)
    claims = claim(at_least(Runs(NAME, SMALL, least=least), 1e-9))
    (judgement,) = evidence(tmp_path).judge(claims)
    assert judgement.verdict == verdict
    assert missing(claims, tmp_path) == ([] if verdict == "holds" else [(SMALL, 0, least)])


def test_only_the_missing_seeds_are_planned(reduced_folder, tmp_path):
    archive_runs([reduced_folder], tmp_path, KNOWN)
    claims = claim(at_least(Runs(NAME, SMALL, (0, 1), least=ONE_EPOCH), 0.0))
    assert missing(claims, tmp_path) == [(SMALL, 1, ONE_EPOCH)]


def test_a_run_that_two_claims_need_is_planned_once(tmp_path):
    check = at_most(Runs(NAME, SMALL), 1.0)
    claims = claim(check) | claim(check, name="works too")
    assert missing(claims, tmp_path) == [(SMALL, 0, None)]


def output(capsys, *arguments, **options):
    status = main([*map(str, arguments)], **options)
    found = capsys.readouterr()
    return status, found.out, found.err


def test_check_prints_margin_and_noise_and_refuses_another_verdict(
    capsys, reduced_folder, tmp_path
):
    archive_runs([reduced_folder], tmp_path, KNOWN)
    raise_chance(tmp_path)
    checks = at_least(Runs(NAME, SMALL, least=ONE_EPOCH), 1e-9)
    for verdict, expected in (("holds", 0), ("partly", 1)):
        claims = claim(checks, verdict=verdict)
        arguments = ("--archive", tmp_path, "check")
        status, out, err = output(capsys, *arguments, recipes=KNOWN, claims=claims)
        assert status == expected
        assert re.search(rf"{SMALL}: a >= 1e-09, .*: true\n.* margin .* times, noise 1 times", out)
        assert "Of 1 claims of the five papers, 1 holds" in out
        assert ("its verdict is 'partly', got 'holds'" in err) == bool(expected)


def test_missing_runs_are_listed(capsys, tmp_path):
    status, out, _ = output(capsys, "--archive", tmp_path, "plan", "scornn-copy-1000")
    assert status == 0
    assert out.count("scornn-copy-1000: scornn/fig1, ") == 9


def test_an_unknown_claim_is_refused(capsys, tmp_path):
    status, _, err = output(capsys, "--archive", tmp_path, "plan", "scornn")
    assert (status, "expected a claim" in err, "got 'scornn'" in err) == (2, True, True)


def test_missing_runs_are_made_and_decide_the_claim(capsys, tmp_path):
    small, large = Runs(NAME, SMALL, least=ONE_EPOCH), Runs(NAME, LARGE, least=ONE_EPOCH)
    claims = claim(at_least(small, 1e-9), further=(less(small, large, factor=1e9),))
    arguments = ("--archive", tmp_path / "archive", "run", "--out", tmp_path / "runs")
    with one_thread():
        status, _, _ = output(capsys, *arguments, recipes=KNOWN, claims=claims)
    raise_chance(tmp_path / "archive")
    (judgement,) = evidence(tmp_path / "archive").judge(claims)
    assert (status, judgement.verdict) == (0, "partly")
    assert missing(claims, tmp_path / "archive") == []


def test_a_number_without_training_is_computed_and_judged(capsys, tmp_path):
    claims = claim(at_most(Runs(TABLE, "exact"), 3.1))
    arguments = ("--archive", tmp_path / "archive", "run", "--out", tmp_path / "runs")
    assert output(capsys, *arguments, recipes=recipes(), claims=claims)[0] == 0
    known = evidence(tmp_path / "archive", recipes())
    (judgement,) = known.judge(claims)
    assert judgement.verdict == "holds"
    assert missing_runs(claims, known) == {}


def test_a_row_without_data_is_named_and_skipped(capsys, tmp_path):
    known = {TABLE: changed(recipes()[TABLE], "scoRNN 6", task=ABSENT)}
    claims = claim(at_most(Runs(TABLE, "scoRNN 6"), 1.0))
    arguments = ("--archive", tmp_path / "archive", "run", "--out", tmp_path / "runs")
    status, out, _ = output(capsys, *arguments, recipes=known, claims=claims)
    assert status == 0
    assert "needs absent.bin, skipped" in out
    assert not (tmp_path / "runs").exists()


def test_an_interruption_has_the_exit_status_of_the_signal(capsys, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise StoppedError(15)

    monkeypatch.setattr("reproduction.__main__.reproduce", stop)
    claims = claim(at_most(Runs(NAME, SMALL), 1.0))
    arguments = ("--archive", tmp_path, "run", "--out", tmp_path / "runs")
    assert output(capsys, *arguments, recipes=KNOWN, claims=claims)[0] == 128 + 15


def test_runs_that_have_ended_are_archived(capsys, reduced_folder, tmp_path):
    status, out, _ = output(
        capsys, "--archive", tmp_path, "archive", reduced_folder, recipes=KNOWN
    )
    assert (status, "2 runs archived, 0 already archived, 0 skipped" in out) == (0, True)


@pytest.mark.parametrize("before", [[], ["--archive", "elsewhere"]])
def test_a_recipe_is_trained_with_the_options_of_reproduce(capsys, tmp_path, before):
    arguments = ("train", NAME, "--quick", "--out", tmp_path, "--rows", SMALL)
    with one_thread():
        status, _, _ = output(capsys, *before, *arguments, recipes=KNOWN)
    assert status == 0
    assert (tmp_path / "results.md").exists()


def test_an_unknown_option_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["check", "--quick"])
    assert "--quick" in capsys.readouterr().err


def test_the_committed_page_matches_the_archive(capsys, tmp_path):
    page = tmp_path / "page.md"
    assert output(capsys, "write", "--out", page)[0] == 0
    assert page.read_text() == PAGE.read_text()
