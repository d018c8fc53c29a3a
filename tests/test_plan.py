"""The plan of the remaining runs of all recipes, and `reproduce --all`."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from eigenrnn.experiments.claims import Runs
from eigenrnn.experiments.cli import main
from eigenrnn.experiments.recipes import Axis, Outcome
from eigenrnn.experiments.recipes.cost import estimated_seconds
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.results import Plan, archive_runs
from eigenrnn.experiments.results import plan as plans
from eigenrnn.experiments.results.plan import rows_in_order
from recipes_for_results import (
    ABSENT,
    FIGURE,
    SEEDS,
    TABLE,
    changed,
    recipes,
    row,
    run,
)
from training_run import QUIET, one_thread

RUNS = Path("runs")
ALL = {
    (TABLE, "scoRNN 6", "", 0),
    (TABLE, "scoRNN 6", "", 1),
    (TABLE, "exact", None, None),
    (FIGURE, "scoRNN 8", "", 0),  # its other row shares the run of the table
}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EIGENRNN_DEBUG", raising=False)


def plan(known=None, **options):
    return Plan.of(known or recipes(), RUNS, "results", **options)


def keys(planned):
    return [run.key for run in planned.runs]


def remaining(found):
    """Return the runs of a plan as (recipe, row, point, seed)."""
    names = set()
    for each in found.rows:
        names |= {(key.recipe, key.row, key.point, key.seed) for key in keys(each)}
        if not each.runs:
            names.add((each.recipe.name, each.row.label, None, None))
    return names


def run_remaining(found):
    """Run a plan; return its messages, the recipes that ran and the signal, if any."""
    said, ran = [], []
    with one_thread():
        ended = found.run_remaining(
            say=said.append, after=lambda recipe, _: ran.append(recipe.name), console=QUIET
        )
    return said, ran, ended


# the remaining runs


def test_initially_every_run_is_planned_once():
    assert remaining(plan()) == ALL


def test_a_finished_run_is_not_planned():
    run(recipes()[TABLE], RUNS / "tiny-table1", seeds=[1])
    assert remaining(plan()) == ALL - {(TABLE, "scoRNN 6", "", 1), (TABLE, "exact", None, None)}


def test_a_shared_run_of_another_recipe_is_not_planned_again():
    run(recipes()[FIGURE], RUNS / "tiny-fig1")
    assert remaining(plan()) == ALL - {(FIGURE, "scoRNN 8", "", 0), (TABLE, "scoRNN 6", "", 0)}


def test_an_archived_run_is_not_planned():
    run(recipes()[TABLE], "elsewhere", seeds=[0])
    archive_runs(["elsewhere"], "results", recipes())
    assert remaining(plan()) == {(TABLE, "scoRNN 6", "", 1), (FIGURE, "scoRNN 8", "", 0)}


def test_an_archived_unfinished_run_is_planned():
    run(recipes()[TABLE], "elsewhere", seeds=[0])
    Path("elsewhere/scornn-6/seed-0/result.json").unlink()
    archive_runs(["elsewhere"], "results", recipes(), unfinished=True)
    assert (TABLE, "scoRNN 6", "", 0) in remaining(plan())


def test_an_interrupted_run_is_planned():
    run(recipes()[TABLE], RUNS / "tiny-table1")
    (RUNS / "tiny-table1/scornn-6/seed-0/result.json").unlink()
    assert (TABLE, "scoRNN 6", "", 0) in remaining(plan())


def test_seeds_can_be_chosen():
    seeds = {seed for _, _, _, seed in remaining(plan(seeds=[5])) if seed is not None}
    assert seeds == {5}


def test_a_search_plans_each_point_with_each_seed():
    known = recipes()
    grid = (Axis.of_settings("lr", (0.1, 0.2, 0.3)), Axis.of_settings("alpha", (0.8, 0.9)))
    rmsprop = replace(row().settings, optimiser="rmsprop")
    known[TABLE] = changed(known[TABLE], "scoRNN 6", grid=grid, settings=rmsprop)
    (search,) = [
        found
        for found in plan(known).rows
        if found.row.label == "scoRNN 6" and found.recipe.name == TABLE
    ]
    assert len({(key.point, key.seed) for key in keys(search)}) == 3 * 2 * len(SEEDS)


def test_the_time_is_the_sum_over_the_remaining_runs():
    six, eight = estimated_seconds(row()), estimated_seconds(row("scoRNN 8", hidden_size=8))
    assert plan().total_seconds == pytest.approx(len(SEEDS) * six + eight)


def test_a_row_without_data_is_not_counted_in_the_time():
    known = recipes()
    known[FIGURE] = changed(known[FIGURE], "scoRNN 8", task=ABSENT)
    (absent,) = [found for found in plan(known).rows if found.missing_data]
    assert (absent.row.label, absent.missing_data, absent.seconds) == (
        "scoRNN 8",
        "absent.bin",
        None,
    )
    assert plan(known).total_seconds == sum(
        found.total_seconds for found in plan(known).rows if found.row.label != "scoRNN 8"
    )


def test_the_folder_of_another_recipe_is_rejected():
    run(recipes()[FIGURE], RUNS / "tiny-table1")
    with pytest.raises(ValueError, match=rf"expected {TABLE} in .*, got runs of {FIGURE}"):
        plan()


# the order


def test_every_row_is_in_the_order():
    met = {(recipe.name, r.label) for _, recipe, r, _ in rows_in_order(RECIPES)}
    assert met == {(recipe.name, r.label) for recipe in RECIPES.values() for r in recipe.rows}


def test_the_runs_of_claims_come_first():
    first = (Runs(FIGURE, "scoRNN 8"), Runs(TABLE, "scoRNN 6", (1,)), Runs("absent/fig1", "a"))
    named, others = plan(first=first).rows[:2], plan(first=first).rows[2:]
    assert [(r.group, r.row.label, [k.seed for k in keys(r)]) for r in named] == [
        (1, "scoRNN 8", [0]),
        (1, "scoRNN 6", [1]),
    ]
    assert [(r.group, r.row.label, [k.seed for k in keys(r)]) for r in others] == [
        (2, "scoRNN 6", [0]),
        (2, "exact", []),
    ]
    assert remaining(plan(first=first)) == ALL


# training


def test_all_remaining_runs_are_trained_once():
    assert run_remaining(plan()) == ([], [TABLE, FIGURE], None)
    assert plan().rows == ()
    assert not (RUNS / "tiny-fig1/scornn-6").exists()


def test_a_plan_resumes_where_it_stopped():
    run(recipes()[TABLE], RUNS / "tiny-table1")
    before = (RUNS / "tiny-table1/results.json").stat().st_mtime_ns
    assert run_remaining(plan())[1] == [FIGURE]
    assert (RUNS / "tiny-table1/results.json").stat().st_mtime_ns == before


def test_earlier_runs_stay_in_the_results():
    run(recipes()[TABLE], RUNS / "tiny-table1")
    (RUNS / "tiny-table1/scornn-6/seed-0/result.json").unlink()
    run_remaining(plan())
    rows = json.loads((RUNS / "tiny-table1/results.json").read_text())["rows"]
    (found,) = [found for found in rows if found["label"] == "scoRNN 6"]
    assert found["seeds"] == list(SEEDS)


def test_a_row_without_data_is_named_and_skipped():
    known = recipes()
    known[FIGURE] = changed(known[FIGURE], "scoRNN 8", task=ABSENT)
    said, ran, ended = run_remaining(plan(known))
    assert (ran, ended) == ([TABLE], None)
    (named,) = said
    assert named.startswith(f"{FIGURE}: scoRNN 8 is skipped: expected absent.bin, got none")


def test_an_interruption_stops_the_plan(monkeypatch):
    stopped = replace(Outcome.not_run(row()), signal=2)
    monkeypatch.setattr("eigenrnn.experiments.results.plan.reproduce", lambda *_, **__: [stopped])
    _, ran, ended = run_remaining(plan())
    assert (ran, ended) == ([TABLE], 2)


# the command line


@pytest.fixture
def eigenrnn(monkeypatch, capsys):
    """Run the command line with the two tiny recipes only."""
    for module in ("reproduce_all", "archive", "claims"):
        monkeypatch.setattr(f"eigenrnn.experiments.cli.{module}.RECIPES", recipes())
    for module in ("reproduce_all", "claims"):
        monkeypatch.setattr(f"eigenrnn.experiments.cli.{module}.CLAIMS", {})

    def call(line):
        with one_thread():
            status = main(shlex.split(line))
        output = capsys.readouterr()
        return status, output.out, output.err

    return call


def test_the_plan_is_printed_and_nothing_is_run(eigenrnn, monkeypatch):
    seconds = {"scoRNN 6": 1_000, "scoRNN 8": 300}
    monkeypatch.setattr(plans, "estimated_seconds", lambda row: seconds[row.label])
    status, out, _ = eigenrnn("reproduce --all --plan")
    assert (status, list(Path().iterdir())) == (0, [])
    assert [re.split("  +", line) for line in out.splitlines()[1:-1]] == [
        ["group", "recipe", "network", "runs", "per run", "in total"],
        ["2", TABLE, "scoRNN 6", "2", "17 min", "33 min"],
        ["2", TABLE, "exact", "1", "0 s", "33 min"],
        ["2", FIGURE, "scoRNN 8", "1", "5 min", "38 min"],
    ]
    assert out.endswith("remaining: 4 runs of 3 rows, roughly 38 min on one core\n")


@pytest.mark.parametrize("line", ["reproduce --all --plan", "reproduce --all"])
def test_a_missing_archive_is_reported_in_one_line(eigenrnn, line):
    said = "no archive in results: every run counts as not archived"
    assert eigenrnn(line)[1].splitlines()[0] == said
    Path("results").mkdir()
    assert said not in eigenrnn(line)[1]


def test_quick_runs_ignore_the_archive(eigenrnn):
    assert "archive" not in eigenrnn("reproduce --all --plan --quick")[1]


def test_another_archive_can_be_named(eigenrnn):
    run(recipes()[TABLE], "elsewhere", seeds=[0])
    eigenrnn("archive elsewhere --archive mine")
    said = eigenrnn("reproduce --all --plan --archive mine")[1]
    assert "remaining: 2 runs of 2 rows" in said
    assert "no archive" not in said


def test_all_recipes_can_be_run_archived_and_written(eigenrnn):
    assert eigenrnn("reproduce --all")[0] == 0
    assert eigenrnn("reproduce --all --plan")[1].endswith("\nno runs remain\n")
    status, out, _ = eigenrnn("archive runs")
    assert (status, out.splitlines()[-1]) == (
        0,
        "in results: 5 runs archived, 0 already archived, 0 skipped",
    )
    assert eigenrnn("claims write")[0] == 0
    assert "We trained 2 networks in 3 runs" in Path("RESULTS.md").read_text()


def test_runs_of_another_version_are_reported_when_collected(eigenrnn):
    run(recipes()[TABLE], RUNS / "tiny-table1", seeds=[1])
    path = RUNS / "tiny-table1/scornn-6/seed-1/config.json"
    config = json.loads(path.read_text())
    config["versions"]["eigenrnn"] = "0.0.7"
    path.write_text(json.dumps(config))
    said, last = eigenrnn("archive runs")[1].splitlines()
    place = Path("results/tiny-table1/scornn-6/seed-1.json")
    assert said.startswith(f"{place} was trained by eigenrnn 0.0.7, this is ")
    assert place.is_file()
    assert last.startswith("in results: ")


def test_an_interruption_has_the_exit_status_of_the_signal(eigenrnn, monkeypatch):
    stopped = replace(Outcome.not_run(row()), signal=2)
    monkeypatch.setattr("eigenrnn.experiments.results.plan.reproduce", lambda *_, **__: [stopped])
    assert eigenrnn("reproduce --all")[0] == 130


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("reproduce scornn/fig1 --all", "expected a recipe or --all, got both"),
        ("reproduce --all --rows scoRNN", "expected --rows or --all, got both"),
        ("reproduce --all --overwrite", "expected --overwrite or --all, got both"),
        ("reproduce --all --max_minutes 3", "expected --max_minutes or --all, got both"),
        (
            "reproduce scornn/fig1 --plan",
            "expected --plan only with --all, got it without --all",
        ),
        (
            "reproduce scornn/fig1 --archive a",
            "expected --archive only with --all, got it without --all",
        ),
        ("reproduce --all --archive reslts", "expected an archive of runs in reslts, got no such"),
        (
            "claims wrte",
            "expected a command after claims, got 'wrte' (did you mean write?); there are",
        ),
        ("archive", "expected the folders of recipes that were run, got none"),
        ("archive --overwrite runs", "expected the folder of a recipe that was run, or a folder"),
        ("claims write runs", "expected names of claims only after claims run"),
        ("claims write", "expected an archive of runs in results, got no such folder"),
    ],
)
def test_invalid_combinations_are_explained(eigenrnn, line, said):
    status, out, err = eigenrnn(line)
    assert (status, out) == (2, "")
    assert said in err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("out", ["nosuch/x.md", "results"])
def test_an_invalid_output_path_is_rejected_before_estimating(eigenrnn, out):
    Path("results").mkdir()
    said = f"expected --out to be a file in a folder that exists, got {out}"
    assert said in eigenrnn(f"claims write --out {out}")[2]
    assert list(Path("results").iterdir()) == []
