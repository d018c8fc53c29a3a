"""A sweep on Ray has the numbers of single runs, even if workers or the command are killed."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs
from small_sweep import (
    SEEDS,
    TINY,
    fit_alone,
    read_content,
    read_table,
    untimed_rows,
    write_yaml,
)

from eigenrnn_experiments.sweep.tuning import _start_ray
from eigenrnn_experiments.training import Callback, RunFolder

pytestmark = [
    pytest.mark.long,
    # in Ray's own code, in its threads and when it releases its processes
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
]
SEARCH = TINY | {
    "steps": 4,
    "search": {
        "lr": {"low": 1e-3, "high": 1e-1, "log": True},
        "layer.negative": {"low": 1, "high": 3},
        "optimiser": {"choices": ["adam", "rmsprop"]},
    },
    "seeds": [0, 1],
    "best_by": "loss",
}


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """A cluster of this process, which all its sweeps use; the workers can import the tests."""
    import ray

    folder = Path(__file__).parent
    variables = {"PYTHONPATH": f"{folder}:{folder.parent}", "OMP_NUM_THREADS": "1"}
    environment = {"env_vars": variables}
    ray.init("local", num_cpus=2, include_dashboard=False, runtime_env=environment)
    yield
    ray.shutdown()


def keys(runs):
    return [run.key for run in runs]


@dataclass(frozen=True)
class Killing:
    """Returns rows whose workers are killed after an evaluation of seed 0, twice."""

    row_of: Callable
    out: Path

    def __call__(self, key):
        folder = self.out / key.path
        row = self.row_of(key)
        marks = [folder / name for name in ("killed", "killed again")]
        remaining = [mark for mark in marks if not mark.exists()]
        if key.seed == 0 and remaining:
            return replace(row, callback_factory=partial(Kill, remaining[0]))
        return row


class Kill(Callback):
    def __init__(self, mark):
        self.mark = mark

    def after_evaluation(self, step, *_):
        if step >= 4:
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_trial_whose_worker_is_killed_resumes_from_its_checkpoint(tmp_path):
    plain = read_content(tmp_path, TINY | {"seeds": [0, 1]})
    killing = Killing(plain.row_of, tmp_path / "out")
    sweep = replace(plain, file=structs.replace(plain.file, retries=1), row_of=killing)
    runs = sweep.run(tmp_path / "out")
    first, second = read_table(tmp_path / "out")
    assert (first["state"], second["state"]) == ("failed", "unfinished")
    assert first["message"].startswith("its worker ended without an error")
    assert len(list((tmp_path / "out").glob("*/seed-0/killed*"))) == 2
    sweep.run(tmp_path / "out", resume=True)
    assert [row["state"] for row in read_table(tmp_path / "out")] == ["ended", "ended"]
    for run in runs:
        place = run.key.path
        fit_alone(plain, run, tmp_path / "alone" / place)
        assert untimed_rows(tmp_path / "out" / place) == untimed_rows(tmp_path / "alone" / place)


def test_a_point_that_diverges_is_recorded_and_does_not_stop_the_others(tmp_path):
    content = TINY | {"layer": "TanhRNN", "optimiser": "sgd", "grid": {"lr": [1e38, 0.01]}}
    read_content(tmp_path, content).run(tmp_path / "out")
    found = [(row["lr"], row["state"]) for row in read_table(tmp_path / "out")]
    assert found == [("1e+38", "diverged"), ("0.01", "ended")]


def test_a_cluster_that_does_not_start_is_one_line(monkeypatch):
    import ray

    def time_out(*_arguments, **_options):
        raise Exception("The current node timed out during startup.\nTraceback ...")

    monkeypatch.setattr(ray, "init", time_out)
    with pytest.raises(ConnectionError, match=r"timed out during startup\.; .*--resume$"):
        _start_ray(None, {})


def test_a_resumed_search_has_the_points_of_an_uninterrupted_one(tmp_path, monkeypatch):
    once = {"trials_at_once": 1}
    # beyond the first ten points, which Optuna draws at random
    reference = read_content(tmp_path, SEARCH | {"trials": 13}).run(tmp_path / "whole", **once)
    assert len({run.key.varied["lr"] for run in reference}) == 13
    for run in reference:
        varied = run.key.varied
        assert 1e-3 <= varied["lr"] <= 1e-1
        assert varied["layer.negative"] in {1, 2, 3}
        assert (run.settings["lr"], run.settings["seed"]) == (varied["lr"], run.key.seed)

    out = tmp_path / "out"
    first = read_content(tmp_path, SEARCH | {"trials": 11}).run(out, **once)
    assert keys(first) == keys(reference[:22])
    shutil.rmtree(out / first[-1].key.path)  # as if killed before the last trial has ended
    monkeypatch.setenv("PLANTED", str(tmp_path / "executed"))
    plant(out)
    longer = read_content(tmp_path, SEARCH | {"trials": 13}).run(out, resume=True, **once)
    assert keys(longer) == keys(reference)
    tables = [read_table(folder) for folder in (tmp_path / "whole", out)]
    for row in tables[0] + tables[1]:
        del row["seconds"]
    assert tables[0] == tables[1]
    assert not (tmp_path / "executed").exists(), "a file in the folder of a sweep was executed"


class Planted:
    def __reduce__(self):
        return os.mkdir, (os.environ["PLANTED"],)


def plant(out):
    """Add pickles that execute something, under the names that Ray Tune and Optuna use."""
    for folder in (out, out / ".tune"):
        folder.mkdir(exist_ok=True)
        for name in (
            *(
                "tuner.pkl",
                "trainable.pkl",
                "searcher-state-2026.pkl",
                "search_gen_state-2026.json",
            ),
            *("experiment_state-2026.json", "study.log", "study.db"),
        ):
            (folder / name).write_bytes(pickle.dumps(Planted()))


def test_the_command_resumes_after_signals(tmp_path):
    content = TINY | SEEDS | {"steps": 3000, "eval_every": 50}
    write_yaml(tmp_path / "sweep.yaml", content)
    module = [sys.executable, "-m", "eigenrnn_experiments"]
    command = [*module, "sweep", "sweep.yaml", "--out", "out", "--resume"]
    run = tmp_path / "out" / "000" / "seed-0"
    for number, status in ((signal.SIGTERM, 130), (signal.SIGKILL, -9)):
        before = (run / "last.pt").stat().st_mtime_ns if run.exists() else 0
        with subprocess.Popen(command, cwd=tmp_path) as process:
            try:
                while not (run / "last.pt").exists() or (
                    (run / "last.pt").stat().st_mtime_ns == before
                ):
                    assert process.poll() is None
                    time.sleep(0.02)
                process.send_signal(number)
                assert process.wait(60) == status
            finally:
                process.kill()
        assert RunFolder(run).run.state == "unfinished", "it ended before it was stopped"
    sweep = read_content(tmp_path, content)
    (whole,) = sweep.run(tmp_path / "out", resume=True)
    fit_alone(sweep, whole, tmp_path / "alone")
    assert untimed_rows(run) == untimed_rows(tmp_path / "alone")
