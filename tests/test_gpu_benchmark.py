"""The GPU benchmark stops without a GPU, and its contestants run in Triton's interpreter."""

import json

import pytest

from kernel_testing import python, unavailable

NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "1"}

# with 5 units all contestants are timed; with 200 the kernels are skipped
CONTESTANTS = """
import json, torch
from benchmarks.gpu import contestants
runs, skipped = contestants((3, 2, 5), torch.float32, "cpu")
for run in runs.values():
    run()
large = contestants((2, 1, 200), torch.bfloat16, "cpu")
print(json.dumps([list(runs), skipped, list(large[0]), large[1]]))
"""


def test_the_benchmark_stops_without_a_device():
    done = python("-m", "benchmarks.gpu", **NO_GPU)
    assert done.returncode == 1
    assert done.stderr.strip() == "benchmarks.gpu needs a CUDA device, and torch sees none"


@pytest.mark.skipif(unavailable() is not None, reason=f"needs Triton: {unavailable()}")
def test_the_contestants_run_and_an_unsupported_one_is_skipped_with_the_reason():
    done = python("-c", CONTESTANTS, **NO_GPU)
    assert done.returncode == 0, done.stderr
    runs, skipped, large, unsupported = json.loads(done.stdout)
    kernels = {"RNN(tanh), gpu", "GRU, gpu"}
    assert skipped == {}
    assert set(runs) - set(large) == set(unsupported) == kernels
    assert all("states of 200 numbers are too many" in reason for reason in unsupported.values())
