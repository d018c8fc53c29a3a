"""The compiled kernels among processes and threads: forks, workers, concurrent calls, memory."""

import concurrent.futures
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from crossing import few
from eigenrnn.kernels import has_threads
from eigenrnn.ops import compiled, elman
from kernel_testing import needs_kernels

pytestmark = needs_kernels

where_processes_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")

OPERANDS = """
import os, sys
import torch
from eigenrnn.ops import elman

def operands(T=50, B=7, N=65, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(T, B, N, generator=generator)
    return x.requires_grad_(), (torch.randn(N, N, generator=generator) / N**0.5).requires_grad_()

def evaluate(x, W):
    h, last = elman(x, W, nonlinearity="tanh", backend="cpu")
    return h.detach(), *torch.autograd.grad((h, last), (x, W), (h.detach(), last.detach()))
"""

SAME = """
def child(tensors, expected):
    status = 1
    try:
        status = 0 if all(map(torch.equal, evaluate(*tensors), expected)) else 2
    finally:
        os._exit(status)

def succeeds(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0

torch.set_num_threads(3)
tensors = operands()
expected = evaluate(*tensors)  # from here on the pool has threads
children = []
for _ in range(3 if hasattr(os, "fork") else 0):
    children.append(os.fork() or child(tensors, expected))
again = evaluate(*tensors)  # the parent must still compute the same
assert all(map(torch.equal, again, expected))
assert all(map(succeeds, children)), "expected the numbers of the parent in every child"

from eigenrnn.kernels import kernels
assert not kernels.find_threads("no such library")
assert all(map(torch.equal, evaluate(*tensors)[:2], expected[:2]))
torch.testing.assert_close(evaluate(*tensors)[2], expected[2])  # summed by other threads
"""

WORKERS = """
class Sequences(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return evaluate(*operands(seed=index))[0]

if __name__ == "__main__":
    torch.set_num_threads(3)
    expected = [Sequences()[index] for index in range(8)]
    loader = torch.utils.data.DataLoader(
        Sequences(), batch_size=None, num_workers=2, multiprocessing_context="fork"
    )
    assert all(map(torch.equal, loader, expected)), "expected the numbers of the parent"
"""

SPAWN = """
def work(rank, expected):
    torch.set_num_threads(1 + rank)
    h, dx, _ = evaluate(*operands())
    assert torch.equal(h, expected[0]) and torch.equal(dx, expected[1])

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, args=(evaluate(*operands())[:2],), nprocs=2)
"""

MEMORY = """
def kilobytes(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what))

torch.set_num_threads(2)
evaluate(*operands())  # allocates everything that is allocated once
T, B, N, M = 784, 64, 170, {M}
x, W = torch.ones(T, B, M or N).requires_grad_({M} is None), torch.eye(N, requires_grad=True)
U = None if M is None else torch.ones(N, M, requires_grad=True)
leaves = [v for v in (x, W, U) if v is not None and v.requires_grad]
with open("/proc/self/clear_refs", "w") as marks:
    marks.write("5")  # reset the peak
before = kilobytes("VmRSS")
h, last = elman(x, W, U=U, nonlinearity="tanh", backend="cpu")
gradients = torch.autograd.grad(h, leaves, torch.ones_like(h))
print((kilobytes("VmHWM") - before) * 1024 / (T * B * N * 4))
"""


def run_script(tmp_path, *parts):
    script = tmp_path / "script.py"
    script.write_text("".join(parts))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def operands(T, B, N):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(T, B, N, generator=generator), torch.eye(N)


def test_the_kernels_find_the_threads_of_torch():
    assert has_threads


def test_forks_of_a_pool_of_threads_and_one_without_torchs_threads_compute_the_same(tmp_path):
    run_script(tmp_path, OPERANDS, SAME)


@pytest.mark.long
@where_processes_fork
def test_forked_workers_of_a_data_loader_compute_the_same(tmp_path):
    run_script(tmp_path, OPERANDS, WORKERS)


@pytest.mark.long
def test_spawned_processes_compute_the_same(tmp_path):
    run_script(tmp_path, OPERANDS, SPAWN)


@pytest.mark.usefixtures("two_threads")
def test_concurrent_calls_give_the_results_of_single_calls():
    inputs = [operands(20 + k, 5, 33) for k in range(8)]
    alone = [elman(*tensors, backend="cpu") for tensors in inputs]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            found = pool.map(lambda tensors: elman(*tensors, backend="cpu"), inputs)
            for (h, last), (h_, last_) in zip(found, alone, strict=True):
                assert torch.equal(h, h_)
                assert torch.equal(last, last_)


def test_other_threads_of_python_run_while_a_kernel_computes(monkeypatch):
    counted, stop, during = [0], threading.Event(), []

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    kernels = compiled.kernels

    class Watched:
        def __getattr__(self, name):
            return getattr(kernels, name)

        def elman_forward(self, *arguments):
            before = counted[0]
            kernels.elman_forward(*arguments)
            during.append(counted[0] - before)

    monkeypatch.setattr(compiled, "kernels", Watched())
    counter = threading.Thread(target=count)
    counter.start()
    try:
        elman(*operands(400, 64, 190), backend="cpu")
    finally:
        stop.set()
        counter.join()
    assert during[0] > 10


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="needs Linux's account of memory"
)
@few(("M", "most"), {"no map": (None, 3.5), "one channel": (1, 2.5)}, [])
def test_peak_memory_is_that_of_states_and_gradients(tmp_path, M, most):
    # states, their gradient and, without a map, that of the inputs: 3 or 2, plus memory per thread
    times = float(run_script(tmp_path, OPERANDS, MEMORY.format(M=M)))
    assert times <= most
    assert times > 1.5  # the measurement works
