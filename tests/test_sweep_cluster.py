"""The cluster of a sweep: signals while it starts, addresses, and temporary folders."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import nullcontext
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
from eigenrnn.experiments.training.signals import DeferredSignals, blocked_signals
from small_sweep import SEEDS, TINY, read_content
from training_run import QUIET

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def handler_of_ray(*_):
    raise AssertionError("Ray's handler was left in place")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_ray_starts_is_not_lost(monkeypatch, tmp_path, number):
    def start(**_):
        signal.signal(signal.SIGTERM, handler_of_ray)
        signal.raise_signal(number)

    monkeypatch.setattr(ray, "init", start)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with DeferredSignals() as signals, cluster(None):
        assert signals.number == number
    assert list(tmp_path.iterdir()) == []


def test_our_handler_is_installed_after_ray_has_started(monkeypatch):
    monkeypatch.setattr(ray, "init", lambda **_: signal.signal(signal.SIGTERM, handler_of_ray))
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with DeferredSignals() as signals, cluster(None):
        signal.raise_signal(signal.SIGTERM)
    assert signals.number == signal.SIGTERM


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("error", [None, KeyboardInterrupt, RuntimeError])
def test_a_signal_ends_the_sweep_even_if_ray_raises_an_error(monkeypatch, tmp_path, number, error):
    monkeypatch.setattr("eigenrnn.experiments.sweep.cluster.cluster", lambda _: nullcontext())

    def run(*_):
        signal.raise_signal(number)
        if error is not None:
            raise error("raised by Ray")

    before = signal.getsignal(number)
    monkeypatch.setattr("eigenrnn.experiments.sweep.scheduler.Scheduler.run", run)
    with pytest.raises(StoppedError) as stopped:
        read_content(tmp_path, TINY | SEEDS).run(tmp_path / "out", console=QUIET)
    assert stopped.value.number == number
    assert signal.getsignal(number) is before


def test_an_error_without_a_signal_is_unchanged(monkeypatch, tmp_path):
    monkeypatch.setattr("eigenrnn.experiments.sweep.cluster.cluster", lambda _: nullcontext())

    def run(*_):
        raise RuntimeError("a fault")

    monkeypatch.setattr("eigenrnn.experiments.sweep.scheduler.Scheduler.run", run)
    with pytest.raises(RuntimeError, match="a fault"):
        read_content(tmp_path, TINY | SEEDS).run(tmp_path / "out", console=QUIET)


def test_a_ray_that_listens_beyond_loopback_is_shut_down(monkeypatch):
    shutdowns = []
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "shutdown", lambda: shutdowns.append(True))
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "192.0.2.2")
    message = r"expected Ray to listen on loopback, got 192\.0\.2\.2 from Ray \d"
    with pytest.raises(ImportError, match=message), cluster(None):
        pytest.fail("the sweep continued")
    assert shutdowns == [True]


def test_our_handler_is_installed_where_signals_cannot_be_blocked(monkeypatch):
    monkeypatch.delattr(signal, "pthread_sigmask")
    with DeferredSignals() as signals:
        with blocked_signals():
            signal.signal(signal.SIGTERM, handler_of_ray)
        signal.raise_signal(signal.SIGTERM)
    assert signals.number == signal.SIGTERM


@pytest.mark.long
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
    (tmp_path / "eigenrnn-bare").mkdir()
    with temporary_folder() as first:
        assert not abandoned.exists()
        with temporary_folder() as second:
            left = set(tmp_path.iterdir())
    assert left == {first, second, tmp_path / "eigenrnn-bare"}
    assert list(tmp_path.iterdir()) == [tmp_path / "eigenrnn-bare"]


def test_a_folder_of_another_user_is_kept(tmp_path, monkeypatch):
    (tmp_path / "eigenrnn-a").mkdir()
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "eigenrnn-a" / "lock").symlink_to(tmp_path / "precious")
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    with temporary_folder():
        assert (tmp_path / "precious").read_text() == "mine"
        assert (tmp_path / "eigenrnn-a").exists()


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
