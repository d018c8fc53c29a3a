"""The cluster of a sweep: signals while it starts, addresses, and temporary folders."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
import ray
import yaml

from eigenrnn.experiments.cli import main
from eigenrnn.experiments.sweep import StoppedError
from eigenrnn.experiments.sweep.cluster import (
    _CONNECT_S,
    _JOIN_S,
    check_address,
    check_cluster,
    cluster,
    temporary_folder,
)
from eigenrnn.experiments.sweep.signals import RaisingSignals
from small_sweep import SEEDS, TINY

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_the_sweep_and_restores_the_handlers(number):
    before = signal.getsignal(number)
    with pytest.raises(StoppedError) as stopped, RaisingSignals():
        signal.raise_signal(number)
    assert stopped.value.number == number
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_error_of_ray_after_a_signal_becomes_stopped_error(number, error):
    def run():
        with RaisingSignals():
            with suppress(StoppedError):
                signal.raise_signal(number)
            raise error("raised by Ray")

    with pytest.raises(StoppedError) as stopped:
        run()
    assert stopped.value.number == number


def test_an_error_without_a_signal_is_unchanged():
    with pytest.raises(RuntimeError, match="a fault"), RaisingSignals():
        raise RuntimeError("a fault")


def handler_of_ray(*_):
    raise AssertionError("Ray's handler was left in place")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_ray_starts_is_not_lost(monkeypatch, tmp_path, number):
    shutdowns = []

    def start(**_):
        signal.signal(signal.SIGTERM, handler_of_ray)
        with suppress(StoppedError):  # Python drops exceptions in the hooks of a fork
            signal.raise_signal(number)

    monkeypatch.setattr(ray, "init", start)
    monkeypatch.setattr(ray, "shutdown", lambda: shutdowns.append(True))
    with (
        pytest.raises(StoppedError) as stopped,
        RaisingSignals() as signals,
        cluster(None, signals),
    ):
        pytest.fail("the sweep continued")
    assert (stopped.value.number, shutdowns) == (number, [True])
    assert list(tmp_path.iterdir()) == []


def test_our_handler_is_installed_after_ray_has_started(monkeypatch):
    monkeypatch.setattr(ray, "init", lambda **_: signal.signal(signal.SIGTERM, handler_of_ray))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with pytest.raises(StoppedError), RaisingSignals() as signals, cluster(None, signals):
        signal.raise_signal(signal.SIGTERM)


def test_a_ray_that_listens_beyond_loopback_is_shut_down(monkeypatch):
    shutdowns = []
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "shutdown", lambda: shutdowns.append(True))
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "192.0.2.2")
    message = r"expected Ray to listen on loopback, got 192\.0\.2\.2 from Ray \d"
    with (
        pytest.raises(ImportError, match=message),
        RaisingSignals() as signals,
        cluster(None, signals),
    ):
        pytest.fail("the sweep continued")
    assert shutdowns == [True]


def test_our_handler_is_installed_where_signals_cannot_be_blocked(monkeypatch):
    monkeypatch.delattr(signal, "pthread_sigmask")
    with RaisingSignals() as signals:
        with signals.sigterm_blocked():
            signal.signal(signal.SIGTERM, handler_of_ray)
        with pytest.raises(StoppedError):
            signal.raise_signal(signal.SIGTERM)


def test_only_the_folders_of_killed_sweeps_are_removed(tmp_path):
    # a process that cannot remove its own folder, as after kill -9
    code = (
        "import os, sys, tempfile; tempfile.tempdir = sys.argv[1];"
        "from eigenrnn.experiments.sweep.cluster import temporary_folder;"
        "entered = temporary_folder(); entered.__enter__(); os._exit(9)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert killed.returncode == 9
    (abandoned,) = tmp_path.glob("eigenrnn-*")
    with temporary_folder() as first:
        assert not abandoned.exists()
        known = json.loads((tmp_path / first / "driver.json").read_text())
        assert known["pid"] == os.getpid()
        others = {
            "reused": {"began": "0"},  # our process number, but of an earlier process
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


# addresses


@pytest.mark.parametrize("address", ["nowhere", "ray://10.0.0.1:10001", "host:0", ":1", "host:x"])
def test_a_malformed_address_raises(address):
    with pytest.raises(ValueError, match="expected an address HOST:PORT"):
        check_address(address)


def test_an_address_without_a_listener_raises(tmp_path, monkeypatch, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(yaml.safe_dump(TINY | SEEDS))
    assert main(["sweep", "sweep.yaml", "--address", address]) == 2
    assert f"there is no cluster to join at {address}" in " ".join(capsys.readouterr().err.split())
    assert not Path("runs").exists()


def test_a_listener_that_is_not_a_cluster_raises(monkeypatch):
    monkeypatch.setattr("eigenrnn.experiments.sweep.cluster._JOIN_S", 0.5)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        check_address(address)  # something listens
        with pytest.raises(ConnectionError, match="did not answer as a cluster within"):
            check_cluster(address)


def test_the_timeouts_leave_time_for_the_start_of_the_program():
    assert _CONNECT_S + _JOIN_S <= 20
