"""Where a sweep may go, and what becomes of a trial that goes wrong; no cluster is needed."""

import errno
import json
import socket
from pathlib import Path

import pytest
import yaml

from eigenrnn.errors import RunExistsError
from eigenrnn.experiments.cli import main
from eigenrnn.experiments.cli.rebuild import rebuild
from eigenrnn.experiments.recipes import reproduce
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.sweep import Criterion, Status, Trial
from eigenrnn.experiments.sweep.cluster import _JOIN_S, _KNOCK_S, check_address, check_cluster
from eigenrnn.experiments.sweep.folder import check_folder, open_folder
from eigenrnn.experiments.sweep.results import write_table
from eigenrnn.experiments.sweep.suggestions import suggested_before
from eigenrnn.experiments.sweep.tuning import objective
from eigenrnn.experiments.sweep.worker import train_points
from eigenrnn.experiments.training import checkpoint
from swept import SEEDS, TINY, begun, read, train
from training_run import QUIET, one_thread, read_metrics

# where


@pytest.mark.parametrize("address", ["nowhere", "ray://10.0.0.1:10001", "host:0", ":1", "host:x"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match="expected an address HOST:PORT"):
        check_address(address)


def test_an_address_where_nobody_answers_is_refused(tmp_path, monkeypatch, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(yaml.safe_dump(TINY | SEEDS))
    assert main(["sweep", "sweep.yaml", "--address", address]) == 2
    assert f"there is no cluster to join at {address}" in " ".join(capsys.readouterr().err.split())
    assert not Path("runs").exists()


def test_what_listens_but_is_no_cluster_is_refused(monkeypatch):
    monkeypatch.setattr("eigenrnn.experiments.sweep.cluster._JOIN_S", 0.5)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        check_address(address)  # somebody is there
        with pytest.raises(ConnectionError, match="did not answer as a cluster within"):
            check_cluster(address)


def test_an_address_without_a_cluster_takes_no_half_minute_with_the_start_of_the_program():
    assert _KNOCK_S + _JOIN_S <= 20


# the folder

NEITHER = {"resume": False, "overwrite": False}
OPTIONS = [{"resume": True}, {"overwrite": True}, {}]


def test_a_folder_that_holds_a_sweep_is_refused_with_both_ways_out(tmp_path):
    open_folder(tmp_path, TINY, overwrite=False)
    with pytest.raises(RunExistsError, match=r"already holds a sweep.*--resume.*--overwrite"):
        check_folder(tmp_path, TINY, resume=False, overwrite=False)


def test_a_sweep_of_another_file_is_refused_and_kept(tmp_path):
    open_folder(tmp_path, TINY, overwrite=False)
    before = (tmp_path / "sweep.json").read_bytes()
    with pytest.raises(ValueError, match=r"another file: steps was 8, now 9;"):
        check_folder(tmp_path, TINY | {"steps": 9}, resume=True, overwrite=False)
    assert (tmp_path / "sweep.json").read_bytes() == before


@pytest.mark.parametrize("options", OPTIONS)
def test_a_sweep_of_another_version_is_refused_and_kept(tmp_path, options):
    open_folder(tmp_path, TINY, overwrite=False)
    file = tmp_path / "sweep.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eigenrnn": "0.0.7"}))
    with pytest.raises(ValueError, match=r"a sweep of eigenrnn 0\.0\.7, and this is"):
        check_folder(tmp_path, TINY, **NEITHER | options)


@pytest.mark.parametrize(
    "content",
    ['{"format": 1, "eigen', "[]", "{}", '{"format": 1, "eigenrnn": "0.1.0", "file": ["task"]}'],
)
def test_a_sweep_whose_file_is_damaged_is_refused_by_name_and_can_be_deleted(tmp_path, content):
    open_folder(tmp_path, TINY, overwrite=False)
    (tmp_path / "sweep.json").write_text(content)
    for options in ({"resume": True}, {}):
        with pytest.raises(ValueError, match=r"sweep\.json is .*damaged.*--overwrite"):
            check_folder(tmp_path, TINY, **NEITHER | options)
    check_folder(tmp_path, TINY, resume=False, overwrite=True)
    open_folder(tmp_path, TINY, overwrite=True)
    check_folder(tmp_path, TINY, resume=True, overwrite=False)


@pytest.mark.parametrize("below", ["", "below/it"])
def test_a_file_in_place_of_the_folder_is_refused_by_name(tmp_path, below):
    (tmp_path / "afile").write_text("mine")
    with pytest.raises(ValueError, match=r"to be a folder or not to exist, got the file .*afile"):
        check_folder(tmp_path / "afile" / below, TINY, resume=False, overwrite=False)


@pytest.mark.parametrize("options", OPTIONS)
def test_runs_of_another_command_are_kept(tmp_path, options):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    with pytest.raises(RunExistsError, match="runs that are not of a sweep"):
        check_folder(tmp_path, TINY, **NEITHER | options)


def test_how_much_of_a_machine_a_trial_takes_may_change(tmp_path):
    open_folder(tmp_path, TINY, overwrite=False)
    check_folder(tmp_path, TINY | {"cpus_per_trial": 2}, resume=True, overwrite=False)


def test_overwriting_leaves_what_is_not_of_the_sweep(tmp_path):
    sweep, (trial,) = begun(tmp_path)
    train(sweep, [trial], tmp_path)
    (tmp_path / "out" / "mine.txt").write_text("mine")
    open_folder(tmp_path / "out", TINY, overwrite=True)
    assert sorted(p.name for p in (tmp_path / "out").rglob("*") if p.is_file()) == [
        *["mine.txt", "sweep.json"]
    ]


# a trial


def test_a_trial_reports_its_evaluations_only(tmp_path):
    sweep, trials = begun(tmp_path)
    told = []
    train(sweep, trials, tmp_path, lambda _, step, metrics: told.append((step, set(metrics))))
    assert told == [(step, {"validation", "test"}) for step in (2, 4, 6, 8)]


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path, monkeypatch):
    sweep, (trial,) = begun(tmp_path)
    folder, room = tmp_path / "out" / trial.place, [True]
    write = Path.open

    def limited(path, mode="r", *args, **options):
        if "w" in mode and folder in path.parents and not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, mode, *args, **options)

    def fill(_, step, __):
        room[0] = step < 6

    monkeypatch.setattr(Path, "open", limited)
    (status,) = train(sweep, [trial], tmp_path, fill)
    assert status.state == "failed"
    assert f"the disk of {folder} is full" in status.message
    assert status.message.endswith(f"the last good checkpoint is {folder / 'last.pt'}")
    assert checkpoint.load(folder / "last.pt")["course"]["step"] == 4

    room[0] = True
    (status,) = train(sweep, [trial], tmp_path)
    assert (status.state, status.attempts) == ("ended", 2)
    assert [row["step"] for row in read_metrics(folder)] == [str(n) for n in range(1, 9)]


DAMAGED = {
    "trial.json": ['{"parameters": {"l', "[]", '{"state": "well"}', ""],
    "result.json": ["", '{"steps": 8, "seco', "{}"],
}


@pytest.mark.parametrize(
    ("name", "content"), [(name, text) for name, texts in DAMAGED.items() for text in texts]
)
def test_a_damaged_file_costs_its_own_trial_only(tmp_path, name, content):
    sweep, trials = begun(tmp_path, TINY | {"seeds": [0, 1]})
    before, out = train(sweep, trials, tmp_path), tmp_path / "out"
    rows, file = read_metrics(out / trials[0].place), out / trials[0].place / name
    file.write_text(content)

    found = [Status.read(trial, out) for trial in trials]
    assert [status.state for status in found] == ["waiting", "ended"]
    assert f"{file} is " in found[0].message
    assert "damaged" in found[0].message
    assert found[0].message.endswith("the trial goes again from its checkpoint")
    after = train(sweep, trials, tmp_path)
    assert [status.state for status in after] == ["ended", "ended"]
    assert [status.result.best for status in after] == [status.result.best for status in before]
    assert read_metrics(out / trials[0].place) == rows, "no step was taken again"


WRITTEN = {"state": "ended", "message": "", "attempts": 1, "node": "", "owner": ""}
CAME_OUT = {"steps": 8, "seconds": 1, "train_loss": 0.5, "best_step": 8, "best_by": "test loss"}
CAME_OUT |= {"last": {"test": {"loss": 0.5}}, "best": {"test": {"loss": 0.5}}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("trial.json", "[" * 100_000),
        ("trial.json", "1" * 5_000),
        ("trial.json", json.dumps(WRITTEN | {"attempts": -1})),
        ("trial.json", json.dumps(WRITTEN | {"state": ["ended"]})),
        ("trial.json", json.dumps(WRITTEN | {"scores": [1]})),
        ("result.json", json.dumps(CAME_OUT | {"seconds": "1"})),
        ("result.json", json.dumps(CAME_OUT | {"last": {"test": 0.5}})),
        ("result.json", json.dumps(CAME_OUT | {"best": {"test": {"loss": "0.5"}}})),
    ],
)
def test_values_of_the_wrong_kind_are_taken_as_damage(tmp_path, name, content):
    trial = Trial(0, {}, 0, "seed-0")
    files = {"trial.json": json.dumps(WRITTEN), "result.json": json.dumps(CAME_OUT)}
    (tmp_path / trial.place).mkdir()
    for file, text in files.items():
        (tmp_path / trial.place / file).write_text(text)
    assert Status.read(trial, tmp_path).state == "ended"
    (tmp_path / trial.place / name).write_text(content)
    status = Status.read(trial, tmp_path)
    assert status.state == "waiting"
    assert f"{tmp_path / trial.place / name} is " in status.message
    assert "damaged" in status.message


@pytest.mark.parametrize(
    "content", ['{"points": [', '{"points": [{}]}', '{"points": [{"number": 0, "parameters": 1}]}']
)
def test_a_search_whose_points_are_damaged_names_their_file(tmp_path, content):
    (tmp_path / "suggestions.json").write_text(content)
    with pytest.raises(ValueError, match=r"suggestions\.json is .*damaged"):
        suggested_before(tmp_path)


def test_a_machine_that_was_thought_dead_does_not_write_on(tmp_path):
    sweep, (trial,) = begun(tmp_path)
    out = tmp_path / "out"

    def taken_over(_, step, __):
        if step == 4:
            Status(trial, "running", attempts=2, owner="another").write(out)

    (status,) = train(sweep, [trial], tmp_path, taken_over)
    assert "another worker has taken over" in status.message
    assert Status.read(trial, out).owner == "another"
    assert checkpoint.load(out / trial.place / "last.pt")["course"]["step"] == 4


def test_a_machine_that_does_not_see_the_folder_says_so(tmp_path):
    sweep, trials = begun(tmp_path)
    (status,) = train_points(trials, sweep.source, tmp_path / "elsewhere", "mark", 1, print)
    assert status.state == "failed"
    assert "a folder that all machines share" in status.message


def test_an_error_ends_its_own_trial_only(tmp_path):
    sweep = read(tmp_path, TINY | {"seeds": [0, 1]})
    open_folder(tmp_path / "out", sweep.description, overwrite=False)

    def fail(trial, *_):
        if trial.seed == 0:
            raise RuntimeError("a fault")

    statuses = train(sweep, sweep.source.trials(0, {}), tmp_path, fail)
    assert [(s.state, s.message) for s in statuses] == [
        *[("failed", "RuntimeError: a fault"), ("ended", "")]
    ]


def test_a_trial_that_diverges_is_noted_and_the_others_go_on(tmp_path):
    content = TINY | {"layer": "tanhrnn", "optimiser": "sgd", "grid": {"lr": [1e38, 0.01]}}
    sweep = read(tmp_path, content)
    open_folder(tmp_path / "out", sweep.description, overwrite=False)
    trials = [sweep.source.trials(n, point)[0] for n, point in enumerate(sweep.plan.points)]
    statuses = train(sweep, trials, tmp_path)
    assert [status.state for status in statuses] == ["diverged", "ended"]
    assert "largest gradient norms" in statuses[0].message
    assert Status.read(trials[0], tmp_path / "out") == statuses[0]
    write_table(tmp_path / "out", statuses, sweep.decides())
    lines = (tmp_path / "out" / "results.csv").read_text().splitlines()
    assert [line.split(",")[:3] for line in lines[1:]] == [
        *[["1e+38", "0", "diverged"], ["0.01", "0", "ended"]]
    ]


def test_a_search_hears_nothing_of_a_point_that_came_to_nothing(tmp_path):
    sweep, (trial,) = begun(tmp_path)
    (ended,) = train(sweep, [trial], tmp_path)
    decides = Criterion("test accuracy", "max")
    assert objective([ended, Status(trial, "diverged")], decides) is None
    assert objective([ended, ended], decides) == ended.result.best["test"]["accuracy"]


def test_a_recipe_counts_the_successes_that_reproduce_counts(tmp_path):
    content = {"rows": ["identity copying", "chain copying"], "seeds": [0, 1], "quick": True}
    sweep = read(tmp_path, {"recipe": "nonnormal/fig3", **content})
    open_folder(tmp_path / "out", sweep.description, overwrite=False)
    points = enumerate(sweep.plan.points)
    trials = [trial for n, point in points for trial in sweep.source.trials(n, point)]
    with one_thread():
        sweep.source.summarise(tmp_path / "out", train(sweep, trials, tmp_path), is_over=True)
        reproduce(RECIPES["nonnormal/fig3"], tmp_path / "reproduced", console=QUIET, **content)
    swept, reproduced = (
        json.loads((tmp_path / name / "results.json").read_text())
        for name in ("out", "reproduced")
    )
    untimed = [
        {**record, "rows": [{**row, "seconds": None} for row in record["rows"]]}
        for record in (swept, reproduced)
    ]
    assert untimed[0] == untimed[1]
    assert swept["rows"][0]["quantity"].endswith("success")
    assert {len(row["values"]) for row in swept["rows"]} == {2}
    for run in (tmp_path / "out").glob("**/seed-*"):
        assert rebuild(run).settings.steps == 30
    (run / "config.json").write_text('{"parameters":')
    final = [Status(trial, "diverged") for trial in trials]
    with pytest.raises(ValueError, match=r"config\.json is truncated or damaged"):
        sweep.source.summarise(tmp_path / "out", final)
