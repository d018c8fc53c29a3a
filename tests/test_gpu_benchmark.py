"""The benchmark for a GPU says that it needs one, and all that it can do without one works."""

import json

import pytest

from on_gpu import missing, python

NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "1"}

# at five units all are timed, at two hundred the kernels are left out
CONTESTANTS = """
import json, torch
from benchmarks.gpu import contestants
runs, left_out = contestants((3, 2, 5), torch.float32, "cpu")
for run in runs.values():
    run()
large = contestants((2, 1, 200), torch.bfloat16, "cpu")
print(json.dumps([list(runs), left_out, list(large[0]), large[1]]))
"""


def test_without_a_device_it_says_that_it_needs_one():
    done = python("-m", "benchmarks.gpu", **NO_GPU)
    assert done.returncode == 1
    assert done.stderr.strip() == "benchmarks.gpu needs a CUDA device, and torch sees none"


@pytest.mark.skipif(missing() is not None, reason=f"needs Triton: {missing()}")
def test_the_contestants_run_and_one_that_refuses_is_left_out_with_the_reason():
    done = python("-c", CONTESTANTS, **NO_GPU)
    assert done.returncode == 0, done.stderr
    runs, left_out, large, refused = json.loads(done.stdout)
    kernels = {"RNN(tanh), gpu", "GRU, gpu"}
    assert left_out == {}
    assert set(runs) - set(large) == set(refused) == kernels
    assert all("states of 200 numbers are too many" in why for why in refused.values())
