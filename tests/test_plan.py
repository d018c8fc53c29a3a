"""What is left to run of all recipes, and how it goes on."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from eigenrnn.experiments.cli import main
from eigenrnn.experiments.recipes import Axis, Outcome, Row
from eigenrnn.experiments.recipes.cost import ONE_GPU, estimated_seconds
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.results import Archive, Plan, collect, order
from eigenrnn.experiments.results.order import GROUPS, Part, in_order
from recipes_for_results import (
    ABSENT,
    FIGURE,
    SEEDS,
    TABLE,
    changed,
    of_figure,
    recipes,
    row,
    run,
)
from training_run import QUIET, one_thread

RUNS = Path("runs")
GROUP = str(len(GROUPS))  # the last one has what no other names
ALL = {
    (TABLE, "scoRNN 6", "", 0),
    (TABLE, "scoRNN 6", "", 1),
    (TABLE, "exact", None, None),
    (FIGURE, "scoRNN 8", "", 0),  # its other row is the table's run of the same seed
}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EIGENRNN_DEBUG", raising=False)


def plan(known=None, **options):
    return Plan.of(known or recipes(), RUNS, "results", **options)


def left(found):
    """Name what a plan has left."""
    names = set()
    for each in found.rows:
        names |= {(each.recipe.name, job.row.label, job.point, job.seed) for job in each.jobs}
        if not each.jobs:
            names.add((each.recipe.name, each.row.label, None, None))
    return names


def go_on(found):
    """Run a plan in silence; return what it said, the recipes that ran and the signal, if any."""
    said, ran = [], []
    with one_thread():
        ended = found.go_on(
            say=said.append, after=lambda recipe, _: ran.append(recipe.name), console=QUIET
        )
    return said, ran, ended


# what is left


def test_at_first_every_run_is_left_once():
    assert left(plan()) == ALL


def test_a_run_that_has_ended_is_not_left():
    run(recipes()[TABLE], RUNS / "tiny-table1", seeds=[1])
    assert left(plan()) == ALL - {(TABLE, "scoRNN 6", "", 1), (TABLE, "exact", None, None)}


def test_a_run_of_another_recipe_that_is_the_same_is_not_left():
    run(recipes()[FIGURE], RUNS / "tiny-fig1")
    assert left(plan()) == ALL - {(FIGURE, "scoRNN 8", "", 0), (TABLE, "scoRNN 6", "", 0)}


def test_an_archived_run_is_not_left():
    run(recipes()[TABLE], "elsewhere", seeds=[0])
    collect(["elsewhere"], "results", recipes())
    assert left(plan()) == {(TABLE, "scoRNN 6", "", 1), (FIGURE, "scoRNN 8", "", 0)}


def test_an_unfinished_run_is_left_though_archived():
    run(recipes()[TABLE], "elsewhere", seeds=[0])
    Path("elsewhere/scornn-6/seed-0/result.json").unlink()
    collect(["elsewhere"], "results", recipes(), unfinished=True)
    assert (TABLE, "scoRNN 6", "", 0) in left(plan())


def test_a_run_that_was_interrupted_is_left():
    run(recipes()[TABLE], RUNS / "tiny-table1")
    (RUNS / "tiny-table1/scornn-6/seed-0/result.json").unlink()
    assert (TABLE, "scoRNN 6", "", 0) in left(plan())


def test_seeds_may_be_chosen():
    seeds = {seed for _, _, _, seed in left(plan(seeds=[5])) if seed is not None}
    assert seeds == {5}


def test_a_search_is_a_run_for_each_point_and_seed():
    known = recipes()
    grid = (Axis.of_settings("lr", (0.1, 0.2, 0.3)), Axis.of_settings("alpha", (0.8, 0.9)))
    rmsprop = replace(row().settings, optimiser="rmsprop")
    known[TABLE] = changed(known[TABLE], "scoRNN 6", grid=grid, settings=rmsprop)
    (search,) = [
        found
        for found in plan(known).rows
        if found.row.label == "scoRNN 6" and found.recipe.name == TABLE
    ]
    assert len({(job.point, job.seed) for job in search.jobs}) == 3 * 2 * len(SEEDS)


def write_estimates():
    Path("results").mkdir()
    seconds = {
        TABLE: {"scoRNN 6": (1_000, 90)},
        FIGURE: {"scoRNN 6": (7, 9), "scoRNN 8": (300, 30)},
    }
    Path("results/estimates.json").write_text(json.dumps(seconds))


def test_the_time_is_that_of_all_runs_that_are_left():
    write_estimates()
    assert plan().total_seconds == len(SEEDS) * 1_000 + 300


def test_the_time_on_a_gpu_is_that_of_the_same_runs():
    write_estimates()
    assert plan().total_gpu_seconds == len(SEEDS) * 90 + 30


def test_the_time_of_a_row_without_an_estimate_is_worked_out():
    (found,) = [found for found in plan().rows if found.row.label == "scoRNN 8"]
    eight = row("scoRNN 8", hidden_size=8)
    assert found.seconds == estimated_seconds(eight)
    assert found.gpu_seconds == estimated_seconds(eight, ONE_GPU) != found.seconds


def test_a_row_without_data_has_no_part_in_the_time():
    known = recipes()
    known[FIGURE] = changed(known[FIGURE], "scoRNN 8", task=ABSENT)
    (absent,) = [found for found in plan(known).rows if found.missing]
    assert (absent.row.label, absent.missing, absent.seconds) == ("scoRNN 8", "absent.bin", None)
    assert plan(known).total_seconds == sum(
        found.total_seconds for found in plan(known).rows if found.row.label != "scoRNN 8"
    )


def test_the_folder_of_another_recipe_is_refused():
    run(recipes()[FIGURE], RUNS / "tiny-table1")
    with pytest.raises(ValueError, match=rf"expected {TABLE} in .*, got runs of {FIGURE}"):
        plan()


# the order


def test_the_order_names_rows_and_points_that_there_are():
    for part in (part for group in GROUPS for part in group):
        rows = RECIPES[part.recipe].select(list(part.rows))
        points = {point for r in rows if isinstance(r, Row) for point in r.points()}
        assert set(part.points) <= points


def test_every_row_has_its_turn():
    met = {(recipe.name, r.label) for _, recipe, r, _ in in_order(RECIPES)}
    assert met == {(recipe.name, r.label) for recipe in RECIPES.values() for r in recipe.rows}


def test_the_exact_numbers_come_first_and_groups_follow_each_other():
    turns = [(group, recipe.name) for group, recipe, _, _ in in_order(RECIPES)]
    assert turns[0] == (1, "nnrnn/table6")
    assert [group for group, _ in turns] == sorted(group for group, _ in turns)


# going on


def test_all_that_is_left_is_run_once():
    assert go_on(plan()) == ([], [TABLE, FIGURE], None)
    assert plan().rows == ()
    assert not (RUNS / "tiny-fig1/scornn-6").exists()


def test_it_goes_on_where_it_stopped():
    run(recipes()[TABLE], RUNS / "tiny-table1")
    before = (RUNS / "tiny-table1/results.json").stat().st_mtime_ns
    assert go_on(plan())[1] == [FIGURE]
    assert (RUNS / "tiny-table1/results.json").stat().st_mtime_ns == before


def test_a_run_of_some_minutes_comes_first_and_the_rest_of_it_last(monkeypatch):
    first = Part(TABLE, ("scoRNN 6",), seeds=(0,), minutes=1e-9)
    monkeypatch.setattr(order, "GROUPS", ((first,), ()))
    limited, *others = plan().rows
    assert [(job.seed, limited.minutes) for job in limited.jobs] == [(0, 1e-9)]
    assert limited.total_seconds == pytest.approx(6e-8)
    assert {each.minutes for each in others} == {None}
    assert left(replace(plan(), rows=tuple(others))) == ALL

    go_on(replace(plan(), rows=(limited,)))
    assert (RUNS / "tiny-table1/scornn-6/seed-0/last.pt").exists()
    assert not (RUNS / "tiny-table1/scornn-6/seed-1").exists()
    assert [each.minutes for each in plan().rows] == [None] * len(others)
    shutil.rmtree(RUNS / "tiny-table1")
    begun = of_figure(recipes()[TABLE], 0, [4.0, 2.0, 1.0])
    Archive("results").add(replace(begun, state="unfinished", value=None, seconds=1.0))
    assert [each.minutes for each in plan().rows] == [None] * len(others)

    assert go_on(plan())
    assert left(plan()) == set()


def test_what_was_run_before_stays_in_the_results():
    run(recipes()[TABLE], RUNS / "tiny-table1")
    (RUNS / "tiny-table1/scornn-6/seed-0/result.json").unlink()
    go_on(plan())
    rows = json.loads((RUNS / "tiny-table1/results.json").read_text())["rows"]
    (found,) = [found for found in rows if found["label"] == "scoRNN 6"]
    assert found["seeds"] == list(SEEDS)


def test_a_row_without_data_is_named_and_left_out():
    known = recipes()
    known[FIGURE] = changed(known[FIGURE], "scoRNN 8", task=ABSENT)
    said, ran, ended = go_on(plan(known))
    assert (ran, ended) == ([TABLE], None)
    (named,) = said
    assert named.startswith(f"{FIGURE}: scoRNN 8 is skipped: expected absent.bin, got none")


def test_an_interruption_stops_all(monkeypatch):
    stopped = replace(Outcome.not_run(row()), signal=2)
    monkeypatch.setattr("eigenrnn.experiments.results.plan.reproduce", lambda *_, **__: [stopped])
    _, ran, ended = go_on(plan())
    assert (ran, ended) == ([TABLE], 2)


# the command line


@pytest.fixture
def eigenrnn(monkeypatch, capsys):
    """Run the command line with the two tiny recipes alone."""
    for module in ("everything", "results"):
        monkeypatch.setattr(f"eigenrnn.experiments.cli.{module}.RECIPES", recipes())

    def call(line):
        with one_thread():
            status = main(shlex.split(line))
        told = capsys.readouterr()
        return status, told.out, told.err

    return call


def test_the_plan_is_printed_and_nothing_is_run(eigenrnn):
    write_estimates()
    status, out, _ = eigenrnn("reproduce --all --plan")
    assert (status, list(Path().iterdir())) == (0, [Path("results")])
    assert [re.split("  +", line) for line in out.splitlines()[:-1]] == [
        ["group", "recipe", "network", "runs", "each", "by then"],
        [GROUP, TABLE, "scoRNN 6", "2", "17 min", "33 min"],
        [GROUP, TABLE, "exact", "1", "0 s", "33 min"],
        [GROUP, FIGURE, "scoRNN 8", "1", "5 min", "38 min"],
    ]
    assert out.endswith(
        "left to run: 4 runs of 3 rows, about 38 min on two cores, as above, "
        "or 3.5 min on one GPU\n"
    )


@pytest.mark.parametrize("line", ["reproduce --all --plan", "reproduce --all"])
def test_that_there_is_no_archive_is_said_in_a_line(eigenrnn, line):
    said = "there is no archive in results, so every run counts as not archived"
    assert eigenrnn(line)[1].splitlines()[0] == said
    Path("results").mkdir()
    assert said not in eigenrnn(line)[1]


def test_quick_runs_look_into_no_archive(eigenrnn):
    assert "archive" not in eigenrnn("reproduce --all --plan --quick")[1]


def test_an_archive_may_be_named(eigenrnn):
    run(recipes()[TABLE], "elsewhere", seeds=[0])
    eigenrnn("results collect elsewhere --archive mine")
    said = eigenrnn("reproduce --all --plan --archive mine")[1]
    assert "left to run: 2 runs of 2 rows" in said
    assert "no archive" not in said


def test_all_recipes_are_run_archived_and_written_down(eigenrnn):
    assert eigenrnn("reproduce --all")[0] == 0
    assert eigenrnn("reproduce --all --plan")[1].endswith("\nnothing is left to run\n")
    status, out, _ = eigenrnn("results collect runs")
    assert (status, out.splitlines()[-1]) == (
        0,
        "in results: 5 runs archived, 0 already archived, 0 skipped",
    )
    assert eigenrnn("results write")[0] == 0
    assert "**4 of 4 rows** of 2 tables and figures" in Path("RESULTS.md").read_text()


def test_what_another_version_ran_is_named_when_it_is_collected(eigenrnn):
    run(recipes()[TABLE], RUNS / "tiny-table1", seeds=[1])
    path = RUNS / "tiny-table1/scornn-6/seed-1/config.json"
    config = json.loads(path.read_text())
    config["versions"]["eigenrnn"] = "0.0.7"
    path.write_text(json.dumps(config))
    said, last = eigenrnn("results collect runs")[1].splitlines()
    place = Path("results/tiny-table1/scornn-6/seed-1.json")
    assert said.startswith(f"{place} is of eigenrnn 0.0.7, and this is ")
    assert place.is_file()
    assert last.startswith("in results: ")


def test_an_interruption_has_its_status(eigenrnn, monkeypatch):
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
            "expected --plan only together with --all, got it without",
        ),
        (
            "reproduce scornn/fig1 --archive a",
            "expected --archive only together with --all, got it without",
        ),
        ("reproduce --all --archive reslts", "expected an archive of runs in reslts, got no such"),
        ("results", "expected results collect or results write, got neither"),
        (
            "results wrte",
            "expected a command after results, got 'wrte' (did you mean write?); there are",
        ),
        ("results collect", "expected the folders of recipes that were run for collect, got none"),
        ("results collect --overwrite runs", "folders before the options, such as --archive, got"),
        ("results write runs", "expected no folder for write, got ['runs']"),
        ("results write", "expected an archive of runs in results, got no such folder"),
    ],
)
def test_what_cannot_be_done_is_said(eigenrnn, line, said):
    status, out, err = eigenrnn(line)
    assert (status, out) == (2, "")
    assert said in err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("out", ["nosuch/x.md", "results"])
def test_a_page_that_cannot_be_written_is_refused_before_anything_is_estimated(eigenrnn, out):
    Path("results").mkdir()
    said = f"expected --out to be a file in a folder that exists, got {out}"
    assert said in eigenrnn(f"results write --out {out}")[2]
    assert list(Path("results").iterdir()) == []
