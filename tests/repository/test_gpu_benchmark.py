"""The GPU benchmark stops without a GPU, and its contestants run on the CPU."""

import json

import pytest

from kernel_testing import python

NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": "src"}

CONTESTANTS = """
import json, sys, torch
from benchmarks.gpu import contestants, lines, measure, versions
everyone = contestants("cpu")
found = measure((3, 2, 3), torch.float32, 1, "cpu", everyone)
text = lines(found)
from dataclasses import replace
broken = replace(everyone["GRU, loop"], make=lambda N: 1 / 0)
both = {"broken": broken, "whole": everyone["LSTM, torch"]}
failed = measure((2, 1, 3), torch.float32, 1, "cpu", both)
needed = [m for m in ("rich", "lightning", "scipy", "eigenrnn_experiments") if m in sys.modules]
print(json.dumps([found, text, failed, needed, versions()]))
"""


@pytest.mark.long
def test_the_benchmark_stops_without_a_device():
    done = python("-m", "benchmarks.gpu", **NO_GPU)
    assert done.returncode == 1
    assert done.stderr.strip() == "benchmarks.gpu needs a CUDA device, and torch sees none"


@pytest.mark.long
def test_the_contestants_run_and_a_failure_is_recorded_without_ending_the_run():
    done = python("-c", CONTESTANTS, **NO_GPU)
    assert done.returncode == 0, done.stderr
    found, text, failed, needed, versions = json.loads(done.stdout)
    assert needed == []  # torch and numpy are enough
    assert found["failures"] == {}
    assert {"nn.RNN(tanh), TF32 off", "nn.RNN(tanh), TF32 on", "GRU, loop"} <= set(
        found["rounds_ms"]
    )
    assert {one["tf32"] for one in found["settings"].values()} == {False, True}
    for name, rounds in found["rounds_ms"].items():
        assert len(rounds) == 1
        assert all(one["forward"] > 0 and one["backward"] > 0 for one in rounds)
        assert max(found["relative_errors"][name].values()) < 1e-5
        assert any(line.strip().startswith(name) for line in text)
    assert failed["failures"] == {"broken": "ZeroDivisionError: division by zero"}
    assert len(failed["rounds_ms"]["whole"]) == 1
    assert {"torch", "numpy", "cudnn", "eigenrnn"} <= set(versions)
