"""Ctrl-C and SIGTERM while a cluster starts, and what a sweep that was killed leaves in /tmp."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
import ray

from eigenrnn.experiments.sweep import StoppedError
from eigenrnn.experiments.sweep.cluster import cluster
from eigenrnn.experiments.sweep.stops import Stops
from eigenrnn.experiments.sweep.temporary import temporary_folder

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_the_sweep_and_the_handlers_are_put_back(number):
    before = signal.getsignal(number)
    with pytest.raises(StoppedError) as stopped, Stops():
        signal.raise_signal(number)
    assert stopped.value.number == number
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_ray_raises_in_its_place_is_taken_for_the_signal(number, error):
    def run():
        with Stops():
            with suppress(StoppedError):
                signal.raise_signal(number)
            raise error("in its place")

    with pytest.raises(StoppedError) as stopped:
        run()
    assert stopped.value.number == number


def test_an_error_without_a_signal_stays_what_it_is():
    with pytest.raises(RuntimeError, match="a fault"), Stops():
        raise RuntimeError("a fault")


def rays_own(*_):
    raise AssertionError("Ray's handler was left in place")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_ray_starts_is_not_lost(monkeypatch, tmp_path, number):
    ended = []

    def start(**_):
        signal.signal(signal.SIGTERM, rays_own)
        with suppress(StoppedError):  # Python drops what its hooks of a fork raise
            signal.raise_signal(number)

    monkeypatch.setattr(ray, "init", start)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True))
    with pytest.raises(StoppedError) as stopped, Stops() as stops, cluster(None, stops):
        pytest.fail("the sweep went on")
    assert (stopped.value.number, ended) == (number, [True])
    assert list(tmp_path.iterdir()) == []


def test_a_signal_after_ray_has_started_meets_our_handler(monkeypatch):
    monkeypatch.setattr(ray, "init", lambda **_: signal.signal(signal.SIGTERM, rays_own))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with pytest.raises(StoppedError), Stops() as stops, cluster(None, stops):
        signal.raise_signal(signal.SIGTERM)


def test_a_ray_that_does_not_keep_to_loopback_is_ended(monkeypatch):
    ended = []
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True))
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "192.0.2.2")
    message = r"expected Ray to listen on loopback, got 192\.0\.2\.2 from Ray \d"
    with (
        pytest.raises(ImportError, match=message),
        Stops() as stops,
        cluster(None, stops),
    ):
        pytest.fail("the sweep went on")
    assert ended == [True]


def test_a_system_that_cannot_hold_signals_back_has_our_handler_all_the_same(monkeypatch):
    monkeypatch.delattr(signal, "pthread_sigmask")
    with Stops() as stops:
        with stops.held_back():
            signal.signal(signal.SIGTERM, rays_own)
        with pytest.raises(StoppedError):
            signal.raise_signal(signal.SIGTERM)


def test_the_folders_of_sweeps_that_are_gone_are_removed_and_no_others(tmp_path):
    # a process that ends without a chance to remove its own, as after kill -9
    code = (
        "import os, sys, tempfile; tempfile.tempdir = sys.argv[1];"
        "from eigenrnn.experiments.sweep.temporary import temporary_folder;"
        "entered = temporary_folder(); entered.__enter__(); os._exit(9)"
    )
    gone = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert gone.returncode == 9
    (abandoned,) = tmp_path.glob("eigenrnn-*")
    with temporary_folder() as first:
        assert not abandoned.exists()
        known = json.loads((tmp_path / first / "driver.json").read_text())
        assert known["pid"] == os.getpid()
        others = {
            "reused": {"began": "0"},  # another process had our number
            "elsewhere": {"began": "0", "where": "another machine"},
            "unknown": {"began": None},
            "damaged": {"pid": "\0"},
        }
        for name, changes in others.items():
            folder = tmp_path / f"eigenrnn-{name}"
            folder.mkdir()
            (folder / "driver.json").write_text(json.dumps(known | changes))
        (tmp_path / "eigenrnn-bare").mkdir()
        with temporary_folder() as second:
            left = {path.name for path in tmp_path.iterdir()}
    kept = {f"eigenrnn-{name}" for name in ("elsewhere", "unknown", "damaged", "bare")}
    assert left - kept == {Path(folder).name for folder in (first, second)}
    assert kept < left
    assert {path.name for path in tmp_path.iterdir()} == kept
