"""Many runs on a cluster: the numbers of plain runs, whatever dies on the way."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
import yaml
from rich.console import Console

from eigenrnn.cli.sweep_file import read_sweep
from eigenrnn.train import fit
from training_run import QUIET, one_thread, read_metrics

pytestmark = [
    # of Ray's own code, in its threads and when it lets go of its processes
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
]

TINY = {
    "task": {"name": "copying", "delay": 3, "symbols": 2, "test_examples": 10},
    "layer": "scornn",
    "hidden_size": 6,
    "batch_size": 2,
    "log_every": 1,
    "accelerator": "cpu",
}


@pytest.fixture(scope="module")
def machines():
    """Two machines, as far as Ray can tell: this one, and one that may die."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    cluster.small = small
    cluster.mortal = cluster.add_node(**small)
    # once, and not for each sweep; that `--address` joins by itself is tested below
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def written(path, content):
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def run(tmp_path, content, machines=None, out="out", **options):
    sweep = read_sweep(written(tmp_path / f"{out}.yaml", content))
    address = None if machines is None else machines.address
    return sweep.run(tmp_path / out, address=address, console=QUIET, **options)


def plain(sweep, status, folder):
    """Train what a trial trained, without a sweep."""
    prepared = sweep.source.prepare(status.trial, folder)
    with one_thread():
        return fit(prepared.model, prepared.task, prepared.settings, folder, console=QUIET)


def numbers(folder):
    return [{n: v for n, v in row.items() if n != "seconds"} for row in read_metrics(folder)]


def table(folder):
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


GRID = TINY | {"steps": 8, "eval_every": 4, "seeds": [0, 5]}
GRID |= {"grid": {"lr": [0.01, 0.001], "layer.negative": [2]}}


@pytest.fixture(scope="module")
def swept(tmp_path_factory, machines):
    """A sweep of two points and two seeds: its folder, and what was told."""
    folder = tmp_path_factory.mktemp("swept")
    sweep = read_sweep(written(folder / "out.yaml", GRID))
    with (folder / "told.txt").open("w") as file:
        sweep.run(folder / "out", address=machines.address, console=Console(file=file))
    return folder


def test_a_grid_gives_the_numbers_of_plain_runs(swept, tmp_path):
    statuses = run(swept, GRID, resume=True)
    assert [(s.trial.parameters["lr"], s.trial.seed) for s in statuses] == [
        *[(0.01, 0), (0.01, 5), (0.001, 0), (0.001, 5)]
    ]
    sweep = read_sweep(swept / "out.yaml")
    for number, status in enumerate(statuses):
        expected = plain(sweep, status, tmp_path / f"plain-{number}")
        assert numbers(swept / "out" / status.trial.place) == numbers(expected.directory)


def test_the_table_holds_what_came_out(swept):
    statuses, rows = run(swept, GRID, resume=True), table(swept / "out")
    for status, row in zip(statuses, rows, strict=True):
        said = row["lr"], row["layer.negative"], row["seed"], row["status"], row["folder"]
        lr = str(status.trial.parameters["lr"])
        assert said == (lr, "2", str(status.trial.seed), "ended", status.trial.place)
        assert float(row["best_test_loss"]) == status.result.best["test"]["loss"]
        last = status.result.last["validation"]["accuracy"]
        assert float(row["last_validation_accuracy"]) == last


def test_a_sweep_that_has_ended_is_not_repeated(swept):
    files = {path: path.stat().st_mtime_ns for path in (swept / "out").glob("*/seed-*/*")}
    run(swept, GRID, resume=True)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert len(files) > 20


def test_what_happens_is_told(swept):
    told = (swept / "told.txt").read_text()
    assert "lr=0.01, layer.negative=2, seed 5: step 4, validation loss" in told
    assert "[4/4]" in told


def test_a_machine_that_dies_takes_nothing_along(tmp_path, machines):
    content = TINY | {"steps": 1000, "eval_every": 50, "seeds": [0, 1]}
    undisturbed = run(tmp_path, content, machines, out="undisturbed")
    out = tmp_path / "disturbed"

    def kill():
        mortal, deadline = machines.mortal.node_id, time.monotonic() + 120
        while time.monotonic() < deadline:
            for file in out.glob("*/seed-*/trial.json"):
                on_it = mortal in json.loads(file.read_text())["node"]
                if on_it and (file.parent / "last.pt").exists():
                    machines.remove_node(machines.mortal, allow_graceful=False)
                    return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    disturbed = run(tmp_path, content, machines, out="disturbed")
    killer.join()
    machines.mortal = machines.add_node(**machines.small)
    assert sorted(status.attempts for status in undisturbed) == [1, 1]
    assert sorted(status.attempts for status in disturbed) == [1, 2]
    for one, other in zip(undisturbed, disturbed, strict=True):
        assert (one.state, other.state) == ("ended", "ended")
        assert one.result.best == other.result.best
        folders = tmp_path / "undisturbed" / one.trial.place, out / other.trial.place
        assert numbers(folders[0]) == numbers(folders[1])


def test_a_search_stays_in_its_space_and_goes_on_where_it_was(tmp_path, machines):
    space = {
        "lr": {"low": 1e-3, "high": 1e-1, "log": True},
        "layer.negative": {"low": 1, "high": 3},
        "optimiser": {"choices": ["adam", "rmsprop"]},
    }
    content = TINY | {"steps": 3, "search": space, "seeds": [0, 1], "metric": "test loss"}
    first = run(tmp_path, content | {"trials": 3}, machines)
    longer = run(tmp_path, content | {"trials": 5}, machines, resume=True)
    assert [status.trial for status in longer[:6]] == [status.trial for status in first]
    assert len(longer) == 10
    points = [status.trial.parameters for status in longer[::2]]
    assert all(1e-3 <= point["lr"] <= 1e-1 for point in points)
    assert {point["layer.negative"] for point in points} <= {1, 2, 3}
    assert {point["optimiser"] for point in points} <= {"adam", "rmsprop"}
    assert len({point["lr"] for point in points}) == 5
    settings = [
        json.loads((status.result.directory / "config.json").read_text())["settings"]
        for status in longer
    ]
    assert [s["lr"] for s in settings[::2]] == [point["lr"] for point in points]
    assert [s["seed"] for s in settings] == [0, 1] * 5


@contextmanager
def started(tmp_path, name):
    command = [sys.executable, "-m", "eigenrnn.cli", "sweep", name, "--out", "out"]
    with (tmp_path / "said.txt").open("w") as said:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=said)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_killed_sweep_goes_on(tmp_path, machines):
    content = TINY | {"steps": 1000, "eval_every": 50, "seeds": [0]}
    written(tmp_path / "sweep.yaml", content)
    folder, deadline = tmp_path / "out" / "000" / "seed-0", time.monotonic() + 120
    with started(tmp_path, "sweep.yaml") as process:
        while not (folder / "last.pt").exists():
            assert time.monotonic() < deadline, (tmp_path / "said.txt").read_text()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert not (folder / "result.json").exists(), "the run ended before it could be killed"
    command = [sys.executable, "-m", "eigenrnn.cli", "sweep", "sweep.yaml", "--out", "out"]
    command += ["--resume", "--address", machines.address]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (status,) = run(tmp_path, content, out="out", resume=True)
    assert (status.state, status.attempts) == ("ended", 2)
    expected = plain(read_sweep(tmp_path / "out.yaml"), status, tmp_path / "plain")
    assert numbers(folder) == numbers(expected.directory)
