"""Claims judged by an archive, their missing runs, and reduced runs."""

import json
from dataclasses import replace

import pytest

from eigenrnn.experiments.claims.claim import AtLeast, AtMost, Claim, Less, Runs
from eigenrnn.experiments.cli.main import main
from eigenrnn.experiments.recipes import Recipe, Row
from eigenrnn.experiments.recipes.runs import row_of
from eigenrnn.experiments.results import Archive, archive_runs
from eigenrnn.experiments.results.archive import runs_by_row
from eigenrnn.experiments.results.verdicts import Verdicts
from eigenrnn.experiments.tasks import Copying
from eigenrnn.experiments.training.run_key import Length, RunKey
from recipes_for_results import TABLE, recipes, row, run

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


def claim(*checks, name="works"):
    return {name: Claim(name, "scoRNN", "It works.", "section 1", checks)}


def verdicts(claims, tmp_path):
    return Verdicts(claims, KNOWN, tmp_path / "archive")


def missing(found):
    return [(runs.row, runs.seeds, runs.reduced) for _, runs in found.missing()]


# reduced runs


def test_a_reduced_recipe_has_fewer_epochs():
    reduced = recipe().reduced(Length("epochs", 2))
    assert reduced.reduced_to == ("epochs", 2)
    assert {row.settings.epochs for row in reduced.rows} == {2}


@pytest.mark.parametrize("epochs", [3, 4])
def test_a_recipe_is_not_reduced_to_as_many_epochs(epochs):
    with pytest.raises(ValueError, match=r"expected fewer epochs .* train for at most 3 epochs"):
        recipe().reduced(Length("epochs", epochs))


def test_a_recipe_of_steps_is_not_reduced():
    with pytest.raises(ValueError, match="its rows train for a number of steps"):
        recipes()["tiny/fig1"].reduced(ONE_EPOCH)


def test_a_recipe_of_steps_has_fewer_steps():
    of_steps = recipes()["tiny/fig1"]
    length = Length("steps", 2)
    reduced = of_steps.reduced(length)
    assert {row.settings.steps for row in reduced.rows if isinstance(row, Row)} == {2}
    assert str(length) == "2 steps"


@pytest.mark.parametrize("value", [[], ["minutes", 3], ["steps", "3"], ["steps", True]])
def test_another_length_is_refused(value):
    with pytest.raises(ValueError, match=r"expected .* as reduced, got"):
        Length.from_json(value)


@pytest.fixture(scope="module")
def reduced_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reduced")
    run(recipe().reduced(ONE_EPOCH), folder, seeds=[0])
    return folder


def test_a_reduced_run_is_archived_as_what_it_is(reduced_folder, tmp_path):
    archive_runs([reduced_folder], tmp_path, KNOWN)
    found = Archive(tmp_path).runs()
    assert [(run.row, run.reduced, run.state) for run in found] == [
        (SMALL, ONE_EPOCH, "ended"),
        (LARGE, ONE_EPOCH, "ended"),
    ]
    assert {run.relative_path.name for run in found} == {"seed-0-epochs-1.json"}


def test_a_reduced_run_never_counts_as_a_full_one(reduced_folder, tmp_path):
    archive_runs([reduced_folder], tmp_path, KNOWN)
    assert runs_by_row(KNOWN, Archive(tmp_path).runs()) == {}


def test_the_page_of_a_reduced_run_says_so(reduced_folder):
    assert (
        "**Reduced runs of 1 epoch: the paper trains for longer.**"
        in (reduced_folder / "results.md").read_text()
    )


def test_a_reduced_run_is_rebuilt_with_its_epochs(reduced_folder):
    config = json.loads((reduced_folder / "scornn-4" / "seed-0" / "config.json").read_text())
    key = RunKey.from_config(config["config"])
    assert row_of(key, recipe()).settings.epochs == 1


def test_an_unknown_point_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"expected points of these rows .* got 'lr=1'"):
        run(recipe(), tmp_path, points=["lr=1"])


# verdicts


def test_a_claim_without_runs_is_not_tried(tmp_path):
    found = verdicts(claim(AtMost(Runs(NAME, SMALL), 1.0)), tmp_path)
    assert [judgement.verdict for judgement in found.judge()] == ["not tried"]
    assert missing(found) == [(SMALL, (0,), None)]


def test_missing_runs_are_made_and_decide_the_claim(tmp_path):
    small, large = Runs(NAME, SMALL, reduced=ONE_EPOCH), Runs(NAME, LARGE, reduced=ONE_EPOCH)
    claims = claim(AtLeast(small, 0.0), Less(small, large, factor=1e9))
    before = verdicts(claims, tmp_path)
    for _, runs in before.missing():
        before.run(runs, tmp_path / "runs")
    after = verdicts(claims, tmp_path)
    assert missing(after) == []
    assert [judgement.verdict for judgement in after.judge()] == ["partly"]


def test_a_full_run_does_not_stand_for_a_reduced_one(reduced_folder, tmp_path):
    archive_runs([reduced_folder], tmp_path / "archive", KNOWN)
    claims = claim(AtLeast(Runs(NAME, SMALL, reduced=Length("epochs", 2)), 0.0))
    assert missing(verdicts(claims, tmp_path)) == [(SMALL, (0,), ("epochs", 2))]


def test_only_the_missing_seeds_are_made(reduced_folder, tmp_path):
    archive_runs([reduced_folder], tmp_path / "archive", KNOWN)
    claims = claim(AtLeast(Runs(NAME, SMALL, (0, 1), reduced=ONE_EPOCH), 0.0))
    assert missing(verdicts(claims, tmp_path)) == [(SMALL, (1,), ONE_EPOCH)]


def test_a_run_that_two_claims_need_is_missing_once(tmp_path):
    check = AtMost(Runs(NAME, SMALL), 1.0)
    claims = claim(check) | claim(check, name="works too")
    assert missing(verdicts(claims, tmp_path)) == [(SMALL, (0,), None)]


# the command


def output(capsys, *arguments):
    status = main(["claims", *arguments])
    found = capsys.readouterr()
    return status, found.out, found.err


def test_the_command_lists_verdicts_as_json(capsys, tmp_path):
    status, out, _ = output(capsys, "--json", "--archive", str(tmp_path))
    entries = json.loads(out)
    assert status == 0
    assert len(entries) == 26
    assert {entry["verdict"] for entry in entries} == {"not tried"}


def test_the_command_lists_the_missing_runs(capsys, tmp_path):
    arguments = ("run", "scornn-copy-1000", "--plan", "--archive", str(tmp_path))
    status, out, _ = output(capsys, *arguments)
    assert status == 0
    assert out.count("scornn-copy-1000") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs"], "expected a command after claims, got 'runs'"),
        (["run", "scornn"], "expected a claim, got 'scornn'"),
        (["--plan"], "expected --plan only with eigenrnn claims run"),
        (["write", "--json"], "expected --json only with eigenrnn claims"),
    ],
)
def test_the_command_refuses_what_does_not_fit(capsys, arguments, message):
    status, _, err = output(capsys, *arguments)
    assert status == 2
    assert message in " ".join(err.split())


def test_a_claim_about_numbers_without_training_is_made_and_judged(tmp_path):
    known = recipes()
    exact = {
        "total": Claim("total", "nnRNN", "3.", "table 1", (AtMost(Runs(TABLE, "exact"), 3.1),))
    }
    found = Verdicts(exact, known, tmp_path / "archive")
    ((_, runs),) = found.missing()
    found.run(runs, tmp_path / "runs")
    (judgement,) = Verdicts(exact, known, tmp_path / "archive").judge()
    assert judgement.verdict == "holds"
