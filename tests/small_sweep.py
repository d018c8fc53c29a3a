"""A small sweep, and functions of tests to read, start and inspect sweeps."""

import csv
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

import pytest
import yaml

from eigenrnn.experiments.cli.sweep_file import read_sweep
from eigenrnn.experiments.sweep import worker
from eigenrnn.experiments.sweep.folder import open_folder
from eigenrnn.experiments.training import RunFolder
from training_run import QUIET, one_thread, read_metrics

TINY = {
    "task": {"name": "copying", "delay": 3, "symbols": 2, "test_examples": 10},
    "layer": "scornn",
    "hidden_size": 6,
    "steps": 8,
    "eval_every": 2,
    "batch_size": 2,
    "log_every": 1,
    "accelerator": "cpu",
}
SEEDS = {"seeds": [0]}


def read_content(tmp_path, content):
    file = tmp_path / "sweep.yaml"
    file.write_text(
        content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    )
    return read_sweep(file)


def open_sweep(tmp_path, content=TINY | SEEDS):
    """Read a sweep and open its folder; return it with the trials of its first point."""
    sweep = read_content(tmp_path, content)
    open_folder(tmp_path / "out", sweep.description, overwrite=False)
    return sweep, sweep.source.trials(0, sweep.plan.points[0])


def train(sweep, trials, tmp_path, report=bool):
    """Train trials one after another, as in a worker; `report` receives their events."""
    fingerprint = json.loads((tmp_path / "out" / "sweep.json").read_text())["fingerprint"]
    with one_thread():
        return [
            worker.train(trial, sweep.source, tmp_path / "out", fingerprint, 1, report)
            for trial in trials
        ]


def train_two_seeds(folder):
    """Train a sweep of two seeds in a folder, for tests that change copies of it."""
    sweep, trials = open_sweep(folder, TINY | {"seeds": [0, 1]})
    train(sweep, trials, folder)
    return folder


def write_yaml(path, content):
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def fit_alone(sweep, trial, folder):
    """Train the run of a trial without a sweep."""
    with one_thread():
        return sweep.source.train(trial, RunFolder(folder), console=QUIET)


def untimed_rows(folder):
    """Read `metrics.csv` without the column of seconds."""
    return [{n: v for n, v in row.items() if n != "seconds"} for row in read_metrics(folder)]


def read_table(folder):
    """Read `results.csv`."""
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@contextmanager
def start_command(tmp_path, *options, environment=None):
    """Run the command on `sweep.yaml` in a process, which is killed when the context ends."""
    command = [sys.executable, "-m", "eigenrnn", "sweep", "sweep.yaml", "--out", "out", *options]
    with (tmp_path / "output.txt").open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until_saved(process, out, attempt, output):
    """Wait until the given attempt of a run has saved a checkpoint."""
    deadline, before = time.time() + 240, time.time()
    while time.time() < deadline:
        assert process.poll() is None, output.read_text()
        for file in out.glob("*/seed-0/last.pt"):
            attempts = json.loads((file.parent / "status.json").read_text())["attempts"]
            if attempts == attempt and file.stat().st_mtime > before:
                return
        time.sleep(0.01)
    pytest.fail(output.read_text())


def reachable_from_outside(pid):
    """List the sockets of a process and its descendants that other machines can reach.

    Returns:
        The addresses by process name; empty if all are loopback.
    """
    # /proc/net writes an address as 32-bit words in native byte order
    bound = {}
    for kind, states in (("tcp", {"0A"}), ("tcp6", {"0A"}), ("udp", {"07"}), ("udp6", {"07"})):
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state in states:
                words = bytes.fromhex(local.partition(":")[0])
                octets = b"".join(words[k : k + 4][::-1] for k in range(0, len(words), 4))
                address = ip_address(octets)
                bound[f"socket:[{inode}]"] = getattr(address, "ipv4_mapped", None) or address
    found, listening = {}, 0
    for process in _descendants(pid):
        with suppress(FileNotFoundError):  # the process or the file no longer exists
            held = {str(each.readlink()) for each in Path(f"/proc/{process}/fd").iterdir()}
            addresses = [bound[each] for each in held if each in bound]
            listening += len(addresses)
            outside = sorted(str(each) for each in addresses if not each.is_loopback)
            if outside:
                found[Path(f"/proc/{process}/comm").read_text().strip()] = outside
    assert listening, "found no listening socket: the processes were not found"
    return found


def _descendants(pid):
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parents[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for each in found:  # grows during the loop
        found += [child for child, parent in parents.items() if parent == each]
    return found
