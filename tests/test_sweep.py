"""Sweeps on a cluster have the numbers of single runs, even if workers or machines die."""

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
from eigenrnn.experiments.sweep import TrialSource
from small_sweep import (
    fit_alone,
    reachable_from_outside,
    read_table,
    start_command,
    untimed_rows,
    wait_until_saved,
    write_yaml,
)
from training_run import QUIET, one_thread

pytestmark = [
    # in Ray's own code, in its threads and when it releases its processes
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
def own_temporary_folder(tmp_path_factory):
    """A temporary folder with a short name, because paths of Ray's sockets must be short."""
    tmp_path_factory.getbasetemp()  # created elsewhere, because it outlives this module
    folder = tempfile.mkdtemp(prefix="e-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setenv("TMPDIR", folder)
        yield Path(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def machines():
    """A simulated cluster of one machine, the head, to which a test adds another."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    cluster.small = small
    # once for all sweeps; a command below tests that `--address` joins the cluster
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def run(tmp_path, content, machines=None, out="out", **options):
    sweep = read_sweep(write_yaml(tmp_path / f"{out}.yaml", content))
    address = None if machines is None else machines.address
    return sweep.run(tmp_path / out, address=address, console=QUIET, **options)


PAGE = (Path(__file__).parents[1] / "docs" / "sweeps.md").read_text().partition("## A grid")[0]
GRID = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])
GRID |= {"accelerator": "cpu"}


@pytest.fixture(scope="module")
def grid_sweep(tmp_path_factory, machines):
    """A finished sweep of two points and two seeds, and its console output."""
    folder = tmp_path_factory.mktemp("swept")
    sweep = read_sweep(write_yaml(folder / "out.yaml", GRID))
    with (folder / "output.txt").open("w") as file:
        sweep.run(folder / "out", address=machines.address, console=Console(file=file))
    return folder


@pytest.mark.long
def test_a_grid_has_the_numbers_of_single_runs(grid_sweep, tmp_path):
    ended = run(grid_sweep, GRID, resume=True)
    assert [(s.parameters["lr"], s.seed) for s in ended] == [
        *[(0.01, 0), (0.01, 1), (0.001, 0), (0.001, 1)]
    ]
    sweep = read_sweep(grid_sweep / "out.yaml")
    for number in (0, 3):  # they differ in both parameter and seed
        status = ended[number]
        expected = fit_alone(sweep, status, tmp_path / f"plain-{number}")
        assert untimed_rows(grid_sweep / "out" / status.path) == untimed_rows(expected.directory)


@pytest.mark.long
def test_the_table_holds_the_results(grid_sweep):
    ended, rows = run(grid_sweep, GRID, resume=True), read_table(grid_sweep / "out")
    for status, row in zip(ended, rows, strict=True):
        found = row["lr"], row["seed"], row["status"], row["folder"]
        lr = str(status.parameters["lr"])
        assert found == (lr, str(status.seed), "ended", status.path)
        assert float(row["best_test_loss"]) == status.result.best["test"]["loss"]
        last = status.result.last["validation"]["accuracy"]
        assert float(row["last_validation_accuracy"]) == last


@pytest.mark.long
def test_a_finished_sweep_is_not_repeated(grid_sweep):
    files = {path: path.stat().st_mtime_ns for path in (grid_sweep / "out").glob("*/seed-*/*")}
    run(grid_sweep, GRID, resume=True)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert len(files) > 20


@pytest.mark.long
def test_the_page_shows_the_actual_output(grid_sweep):
    output = (grid_sweep / "output.txt").read_text()
    shown = re.search(r"```console\n\$ eigenrnn sweep first.*?```", PAGE, re.DOTALL)[0]
    for line in re.findall(
        r"^(?:lr=|\[).*(?:step \d+, validation accuracy|ended)", shown, re.MULTILINE
    ):
        assert line.partition("] ")[2] in output
    csv_of_page = re.search(r"```text\n(lr,.*?)```", PAGE, re.DOTALL)[1]
    header, *lines = csv_of_page.splitlines()
    *names, rest = header.split(",")
    table = read_table(grid_sweep / "out")
    assert rest == "..."  # the page leaves out the last columns
    assert names == list(table[0])[: len(names)]
    for line, row in zip(lines, table, strict=False):
        shown_row = dict(zip(names, line.split(","), strict=False))
        for name in ("lr", "seed", "status", "steps", "best_by"):
            assert shown_row[name] == row[name]


@pytest.mark.long
def test_a_trial_resumes_after_its_machine_died(tmp_path, machines):
    content = TINY | {"steps": 1000, "eval_every": 50, "grid": {"lr": [0.01, 0.001]}}
    mortal = machines.add_node(**machines.small)
    reference = run(tmp_path, content, machines, out="reference")
    out = tmp_path / "interrupted"

    def kill():
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            for file in out.glob("*/seed-*/status.json"):
                on_it = mortal.node_id in json.loads(file.read_text())["node"]
                if on_it and (file.parent / "last.pt").exists():
                    machines.remove_node(mortal, allow_graceful=False)
                    return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    interrupted = run(tmp_path, content, machines, out="interrupted")
    killer.join()
    assert sorted(status.attempts for status in reference) == [1, 1]
    assert sorted(status.attempts for status in interrupted) == [1, 2]
    for one, other in zip(reference, interrupted, strict=True):
        assert (one.state, other.state) == ("ended", "ended")
        assert one.result.best == other.result.best
        folders = tmp_path / "reference" / one.path, out / other.path
        assert untimed_rows(folders[0]) == untimed_rows(folders[1])
    ignored = {"seconds": "", "attempts": ""}
    rows = [
        [row | ignored for row in read_table(tmp_path / name)]
        for name in ("reference", "interrupted")
    ]
    assert rows[0] == rows[1]


@dataclass(frozen=True)
class CrashingSource(TrialSource):
    """Kills the worker that trains seed 0."""

    source: TrialSource

    def trials(self, number, parameters):
        return self.source.trials(number, parameters)

    def check(self, trials):
        self.source.check(trials)

    def task(self, trial):
        return self.source.task(trial)

    def train(self, trial, files, **options):
        return os._exit(1) if trial.seed == 0 else self.source.train(trial, files, **options)


@pytest.fixture
def pickle_by_value():
    """Pickle the classes of this module by value: workers cannot import it."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.usefixtures("pickle_by_value")
@pytest.mark.long
def test_a_trial_whose_workers_die_too_often_is_lost_and_can_be_resumed(tmp_path, machines):
    content = TINY | {"steps": 8, "eval_every": 4, "seeds": [0, 1]}
    sweep = read_sweep(write_yaml(tmp_path / "sweep.yaml", content))
    crashing = replace(sweep, source=CrashingSource(sweep.source), retries=1)
    ended = crashing.run(tmp_path / "out", address=machines.address, console=QUIET)
    assert [(s.state, s.attempts) for s in ended] == [("lost", 2), ("ended", 1)]
    assert "its worker or machine has died 2 times" in ended[0].message
    assert [row["status"] for row in read_table(tmp_path / "out")] == ["lost", "ended"]
    ended = run(tmp_path, content, machines, resume=True)
    assert [(s.state, s.attempts) for s in ended] == [("ended", 3), ("ended", 1)]


@pytest.mark.long
def test_a_sweep_of_a_recipe_has_the_results_of_reproduce(tmp_path, machines):
    content = {"rows": ["identity copying"], "seeds": [0, 1], "quick": True}
    with one_thread():  # the results contain the number of threads of the process
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


@pytest.mark.long
def test_a_search_stays_in_its_space_and_can_be_resumed(tmp_path, machines):
    space = {
        "lr": {"low": 1e-3, "high": 1e-1, "log": True},
        "layer.negative": {"low": 1, "high": 3},
        "optimiser": {"choices": ["adam", "rmsprop"]},
    }
    content = TINY | {"steps": 3, "search": space, "seeds": [0, 1], "metric": "test loss"}
    first = run(tmp_path, content | {"trials": 3}, machines)
    longer = run(tmp_path, content | {"trials": 5}, machines, resume=True)
    same = [(trial.path, trial.parameters, trial.seed) for trial in first]
    assert [(trial.path, trial.parameters, trial.seed) for trial in longer[:6]] == same
    assert len(longer) == 10
    points = [status.parameters for status in longer[::2]]
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
class StoppedSearch:
    """A search stopped three times, with the sockets and file modes of its local clusters."""

    folder: Path
    content: dict
    exposed: list
    modes: list


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, machines, own_temporary_folder):
    """Stop a search by three signals, the first two with a local cluster despite RAY_ADDRESS."""
    folder, exposed, modes = tmp_path_factory.mktemp("stopped"), [], []
    content = TINY | {"steps": 3000, "eval_every": 50, "trials": 1}
    content |= {"search": {"lr": {"low": 1e-3, "high": 1e-1, "log": True}}}
    write_yaml(folder / "sweep.yaml", content)
    out = folder / "out"
    ways = [
        (signal.SIGINT, 130, ()),
        (signal.SIGTERM, 143, ()),
        (signal.SIGKILL, -9, ("--address", machines.address)),
    ]
    for attempt, (number, status, options) in enumerate(ways, start=1):
        elsewhere = {} if options else {"RAY_ADDRESS": "192.0.2.1:6379"}  # a reserved address
        with start_command(folder, "--resume", *options, environment=elsewhere) as process:
            wait_until_saved(process, out, attempt, folder / "output.txt")
            if not options:
                exposed += [reachable_from_outside(process.pid)]
                modes += [each.stat().st_mode for each in own_temporary_folder.glob("eigenrnn-*")]
            process.send_signal(number)
            assert process.wait(120) == status, (folder / "output.txt").read_text()
        (row,) = read_table(out)
        if number != signal.SIGKILL:  # which leaves no time to write
            assert (row["status"], row["attempts"]) == ("stopped", str(attempt))
            assert "continue with --resume" in (folder / "output.txt").read_text()
    assert not list(out.glob("*/seed-0/result.json")), "the run ended before it was stopped"
    return StoppedSearch(folder, content, exposed, modes)


@pytest.mark.long
def test_a_stopped_search_can_be_resumed(stopped, machines, tmp_path, own_temporary_folder):
    out = stopped.folder / "out"
    (row,) = read_table(out)
    (status,) = run(stopped.folder, stopped.content, machines, resume=True)
    assert (status.state, status.attempts) == ("ended", 4)
    assert status.parameters["lr"] == float(row["lr"])
    expected = fit_alone(read_sweep(stopped.folder / "out.yaml"), status, tmp_path / "plain")
    assert untimed_rows(out / status.path) == untimed_rows(expected.directory)
    assert not list(own_temporary_folder.glob("eigenrnn-*")), "no folder is left"


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc/net")
def test_a_local_sweep_listens_on_loopback_only(stopped):
    assert stopped.exposed == [{}, {}]


@pytest.mark.long
def test_other_users_cannot_access_the_files_of_a_local_sweep(stopped):
    assert [stat.filemode(mode) for mode in stopped.modes] == ["drwx------"] * 2
