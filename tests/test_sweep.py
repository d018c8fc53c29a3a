"""Many runs on a cluster: the numbers of plain runs, whatever dies on the way."""

import csv
import json
import os
import re
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from eigenrnn.experiments.cli.sweep_file import read_sweep
from eigenrnn.experiments.recipes import reproduce
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.sweep import Source
from swept import (
    numbers,
    plain,
    reachable_from_outside,
    started,
    table,
    wait_until_saved,
    written,
)
from training_run import QUIET, one_thread

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


@pytest.fixture(scope="module", autouse=True)
def own_temporary_folder():
    """A folder for what sweeps keep meanwhile; its name is short, as those of Ray's sockets."""
    folder = tempfile.mkdtemp(prefix="e-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setenv("TMPDIR", folder)
        yield Path(folder)
    shutil.rmtree(folder, ignore_errors=True)


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


def run(tmp_path, content, machines=None, out="out", **options):
    sweep = read_sweep(written(tmp_path / f"{out}.yaml", content))
    address = None if machines is None else machines.address
    return sweep.run(tmp_path / out, address=address, console=QUIET, **options)


PAGE = (Path(__file__).parents[1] / "docs" / "sweeps.md").read_text().partition("## A grid")[0]
GRID = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])
GRID |= {"accelerator": "cpu"}


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
        *[(0.01, 0), (0.01, 1), (0.001, 0), (0.001, 1)]
    ]
    sweep = read_sweep(swept / "out.yaml")
    for number, status in enumerate(statuses):
        expected = plain(sweep, status, tmp_path / f"plain-{number}")
        assert numbers(swept / "out" / status.trial.place) == numbers(expected.directory)


def test_the_table_holds_what_came_out(swept):
    statuses, rows = run(swept, GRID, resume=True), table(swept / "out")
    for status, row in zip(statuses, rows, strict=True):
        said = row["lr"], row["seed"], row["status"], row["folder"]
        lr = str(status.trial.parameters["lr"])
        assert said == (lr, str(status.trial.seed), "ended", status.trial.place)
        assert float(row["best_test_loss"]) == status.result.best["test"]["loss"]
        last = status.result.last["validation"]["accuracy"]
        assert float(row["last_validation_accuracy"]) == last


def test_a_sweep_that_has_ended_is_not_repeated(swept):
    files = {path: path.stat().st_mtime_ns for path in (swept / "out").glob("*/seed-*/*")}
    run(swept, GRID, resume=True)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert len(files) > 20


def test_the_page_shows_what_is_told_and_written(swept):
    told = (swept / "told.txt").read_text()
    shown = re.search(r"```console\n\$ eigenrnn sweep first.*?```", PAGE, re.DOTALL)[0]
    for line in re.findall(
        r"^(?:lr=|\[).*(?:step \d+, validation accuracy|ended)", shown, re.MULTILINE
    ):
        assert line.partition("] ")[2] in told
    csv_of_page = re.search(r"```text\n(lr,.*?)```", PAGE, re.DOTALL)[1]
    fixed = ("lr", "seed", "status", "steps", "best_by", "attempts", "message", "folder")
    rows = list(csv.DictReader(csv_of_page.splitlines()))
    assert list(rows[0]) == list(table(swept / "out")[0])
    assert [[row[name] for name in fixed] for row in rows] == [
        [row[name] for name in fixed] for row in table(swept / "out")[: len(rows)]
    ]


def test_a_machine_that_dies_takes_nothing_along(tmp_path, machines):
    content = TINY | {"steps": 1000, "eval_every": 50, "grid": {"lr": [0.01, 0.001]}}
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
    unlike = {"seconds": "", "attempts": ""}
    rows = [
        [row | unlike for row in table(tmp_path / name)] for name in ("undisturbed", "disturbed")
    ]
    assert rows[0] == rows[1]


@dataclass(frozen=True)
class Deadly(Source):
    """Ends the worker that trains seed 0."""

    source: Source

    def trials(self, number, parameters):
        return self.source.trials(number, parameters)

    def check(self, trials):
        self.source.check(trials)

    def task(self, trial):
        return self.source.task(trial)

    def prepare(self, trial, folder):
        return os._exit(1) if trial.seed == 0 else self.source.prepare(trial, folder)


@pytest.fixture
def sent_along():
    """Sends what this module defines to workers, which cannot import it."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.usefixtures("sent_along")
def test_a_trial_whose_workers_die_too_often_is_lost_and_can_be_tried_again(tmp_path, machines):
    content = TINY | {"steps": 8, "eval_every": 4, "seeds": [0, 1]}
    sweep = read_sweep(written(tmp_path / "sweep.yaml", content))
    deadly = replace(sweep, source=Deadly(sweep.source), retries=1)
    statuses = deadly.run(tmp_path / "out", address=machines.address, console=QUIET)
    assert [(s.state, s.attempts) for s in statuses] == [("lost", 2), ("ended", 1)]
    assert "its worker or machine has died 2 times" in statuses[0].message
    assert [row["status"] for row in table(tmp_path / "out")] == ["lost", "ended"]
    statuses = run(tmp_path, content, machines, resume=True)
    assert [(s.state, s.attempts) for s in statuses] == [("ended", 3), ("ended", 1)]


def test_a_recipe_comes_to_what_reproduce_comes_to(tmp_path, machines):
    content = {"rows": ["identity copying"], "seeds": [0, 1], "quick": True}
    with one_thread():  # both say how many threads the process had that wrote them
        run(tmp_path, {"recipe": "nonnormal/fig3", **content}, machines)
        reproduce(RECIPES["nonnormal/fig3"], tmp_path / "reproduced", console=QUIET, **content)
    swept, reproduced = (
        json.loads((tmp_path / name / "results.json").read_text())
        for name in ("out", "reproduced")
    )
    for row in swept["rows"] + reproduced["rows"]:
        del row["seconds"]
    assert swept == reproduced
    assert len(swept["rows"][0]["values"]) == 2


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


@dataclass(frozen=True)
class Stopped:
    """A search that was stopped thrice, and what was seen of the local ones before."""

    folder: Path
    content: dict
    exposed: list
    modes: list


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, machines, own_temporary_folder):
    """Stop a search in each way, the first two without `--address` though RAY_ADDRESS is set."""
    folder, exposed, modes = tmp_path_factory.mktemp("stopped"), [], []
    content = TINY | {"steps": 3000, "eval_every": 50, "trials": 1}
    content |= {"search": {"lr": {"low": 1e-3, "high": 1e-1, "log": True}}}
    written(folder / "sweep.yaml", content)
    out = folder / "out"
    ways = [
        (signal.SIGINT, 130, ()),
        (signal.SIGTERM, 143, ()),
        (signal.SIGKILL, -9, ("--address", machines.address)),
    ]
    for attempt, (number, status, options) in enumerate(ways, start=1):
        elsewhere = {} if options else {"RAY_ADDRESS": "192.0.2.1:6379"}  # of no machine
        with started(folder, "--resume", *options, environment=elsewhere) as process:
            wait_until_saved(process, out, attempt, folder / "said.txt")
            if not options:
                exposed += [reachable_from_outside(process.pid)]
                modes += [each.stat().st_mode for each in own_temporary_folder.glob("eigenrnn-*")]
            process.send_signal(number)
            assert process.wait(120) == status, (folder / "said.txt").read_text()
        (row,) = table(out)
        if number != signal.SIGKILL:  # of which nobody can write
            assert (row["status"], row["attempts"]) == ("stopped", str(attempt))
            assert "continue with --resume" in (folder / "said.txt").read_text()
    assert not list(out.glob("*/seed-0/result.json")), "the run ended before it was stopped"
    return Stopped(folder, content, exposed, modes)


def test_a_search_that_is_stopped_in_any_way_goes_on(
    stopped, machines, tmp_path, own_temporary_folder
):
    out = stopped.folder / "out"
    (row,) = table(out)
    (status,) = run(stopped.folder, stopped.content, machines, resume=True)
    assert (status.state, status.attempts) == ("ended", 4)
    assert status.trial.parameters["lr"] == float(row["lr"])
    expected = plain(read_sweep(stopped.folder / "out.yaml"), status, tmp_path / "plain")
    assert numbers(out / status.trial.place) == numbers(expected.directory)
    assert not list(own_temporary_folder.glob("eigenrnn-*")), "what was killed is cleared"


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc/net")
def test_a_local_sweep_listens_on_loopback_only(stopped):
    assert stopped.exposed == [{}, {}]


def test_other_users_cannot_read_or_change_what_a_local_sweep_keeps(stopped):
    assert [stat.filemode(mode) for mode in stopped.modes] == ["drwx------"] * 2
