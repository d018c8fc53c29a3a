"""The benchmark times the layers interleaved, and records all rounds."""

import ast
import importlib
import json
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest
import torch
from benchmarks import sequences as bench
from benchmarks import streaming
from benchmarks.sequences.layers import (
    REFERENCE,
    benchmarked_layers,
    product_gflops,
    step,
)
from torch import nn

from eigenrnn.ops import compiled
from training_run import one_thread

SMALL = (5, 3, 4)
FILES = sorted(Path(bench.__file__).parents[1].rglob("*.py"))


def test_every_function_runs_once_untimed_and_once_timed_per_round():
    turns, ticks = [], count()

    def clock():
        return next(ticks)

    runs = {"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}
    found = bench.interleave(runs, "a", 3, clock)
    assert turns == ["a", "a", "b", "b"] * 3
    assert found["b"].times_ms == (1000, 1000, 1000)


def test_ratios_are_those_within_a_round():
    times = iter([0, 1, 10, 14, 20, 22, 30, 34, 40, 43, 50, 59])
    found = bench.interleave({"a": int, "b": int}, "a", 3, lambda: next(times))
    assert found["b"].ratios == (4, 2, 3)
    assert found["b"].ratio == 3
    assert found["a"].median_ms == 2000


@pytest.mark.parametrize("slow", [False, True])
def test_every_benchmarked_layer_gives_all_weights_a_gradient(slow):
    for name, layer in benchmarked_layers(4, slow).items():
        step(layer, torch.randn(3, 2, 1))
        assert all(p.grad is not None for p in layer.parameters()), name


def test_the_loops_compute_what_torchs_layer_does():
    loop = benchmarked_layers(4, slow=True)["a plain loop under autograd"]
    rnn, x = nn.RNN(1, 4), torch.randn(6, 2, 1)
    with torch.no_grad():
        for ours, theirs in zip(loop.parameters(), rnn.parameters(), strict=True):
            theirs.copy_(ours)
    torch.testing.assert_close(loop(x)[0], rnn(x)[0])


def test_single_steps_are_timed_in_turns():
    with one_thread():
        found = streaming.measure(4, 2, time.perf_counter, calls=3)
    kinds = [f"{form}{name}" for name in ("RNN", "GRU", "LSTM") for form in ("Stream, ", "step, ")]
    assert {*kinds, "torch.nn.RNN", "torch.nn.GRU", "torch.nn.LSTM", streaming.READ} <= set(found)
    assert all(len(timing.times_ms) == 2 for timing in found.values())


def test_a_matrix_product_counts_two_operations_per_multiplication():
    ticks = iter([0, 1] * 6)
    assert product_gflops(lambda: next(ticks), n=10) == pytest.approx(2e3 / 1e9)


@pytest.fixture
def short_scaling(monkeypatch):
    measure = bench.measure.__globals__
    monkeypatch.setitem(measure, "_LENGTHS", (2, 4))
    monkeypatch.setitem(measure, "_BATCHES", (1,))
    return measure


def test_streaming_and_scaling_are_measured(short_scaling, monkeypatch):
    peak = short_scaling["peak"](REFERENCE)  # one for all: each takes a new process
    monkeypatch.setitem(short_scaling, "peak", lambda _: peak)
    found = bench.measure([], details=True)
    assert set(found.peak.values()) == {peak}
    assert peak > 1
    assert list(found.by_length) == [2, 4]
    assert list(found.by_batch) == [1]
    if compiled.unavailable() is None:
        assert found.step_us["kernel"] > 0
        assert found.step_us["step"] > 0


def test_the_command_prints_tables_and_writes_all_rounds(tmp_path):
    path = tmp_path / "rounds.json"
    command = [sys.executable, "-m", "benchmarks.sequences", "--sizes", "5,3,4", "--rounds", "2"]
    said = subprocess.run([*command, "--json", path], capture_output=True, text=True, check=True)
    assert "T=5, B=3, N=4" in said.stdout
    assert list(json.loads(path.read_text())["timings"]) == ["5,3,4"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_benchmark_imports_names_that_exist(path):
    """Those of other libraries may be absent here."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            package = node.module.partition(".")[0]
            if package in ("eigenrnn", "eigenrnn_experiments", "benchmarks"):
                module = importlib.import_module(node.module)
                missing = [a.name for a in node.names if not hasattr(module, a.name)]
                # a module of a package is an attribute once it is imported
                for name in missing:
                    importlib.import_module(f"{node.module}.{name}")
