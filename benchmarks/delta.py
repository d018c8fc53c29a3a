"""Times the delta rule beside other implementations, a product of matrices, and copies of memory.

A rate counts 2 (2 C K + 2 C V + 3 K V) operations of each step and head in a forward pass, with
C = 64, and 2.24 times as many in a backward pass. The share is that of the rate of a product of
two matrices of 2048 rows, which is timed in every round. ``python -m benchmarks.delta --help``
lists options.

Other libraries take part if they are there: transformers if it is installed, and the naive chunk
function of flash-linear-attention if ``--fla`` names the folder that contains its package ``fla``.
Where flash-linear-attention is installed, transformers would call its kernels, which need a GPU.
"""

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops import delta
from eigenrnn.ops.compiled import kernels

SHAPES = [(4096, 1, 16, 128, 128), (1024, 8, 8, 64, 64), (256, 64, 4, 32, 32)]
"""T, B, H, K and V."""

LENGTHS = [256, 1024, 4096, 16384, 65536]
BACKWARD = 2.24  # operations of a backward pass over those of a forward pass
SIDE = 2048

Contender = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Takes q, k, v and the strengths as `delta` does, and returns the outputs."""


def operands(T: int, B: int, H: int, K: int, V: int, R: int = 1) -> list[Tensor]:
    """Return queries, unit keys, values and strengths."""
    k = F.normalize(torch.randn(T, B, H, R, K), dim=-1)
    return [torch.randn(T, B, H, K), k, torch.randn(T, B, H, R, V), 2 * torch.rand(T, B, H, R)]


def operations(T: int, B: int, H: int, K: int, V: int) -> float:
    """Return the operations of a forward pass with chunks of 64 steps."""
    return 2.0 * T * B * H * (2 * 64 * (K + V) + 3 * K * V)


def ours(backend: str) -> Contender:
    """Return one of our backends."""
    return lambda q, k, v, beta: delta(q, k, v, beta, backend=backend)[0]


def batch_first(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> list[Tensor]:
    """Return the operands as the other libraries take them, without copies, and no decay."""
    log_decay = beta.new_zeros(beta.shape[:3])
    parts = (q, k[:, :, :, 0], v[:, :, :, 0], log_decay, beta[..., 0])
    return [part.transpose(0, 1) for part in parts]


def of_transformers() -> Contender | None:
    """Return the torch function of transformers, if it is installed."""
    if importlib.util.find_spec("transformers") is None:
        return None
    module: Any = importlib.import_module("transformers.models.qwen3_next.modeling_qwen3_next")
    return lambda *given: module.torch_chunk_gated_delta_rule(*batch_first(*given))[0]


def of_fla(folder: Path | None) -> Contender | None:
    """Return the naive chunk function of flash-linear-attention, loaded by its path."""
    if folder is None:
        return None
    file = folder / "fla/ops/gated_delta_rule/naive.py"
    spec: Any = importlib.util.spec_from_file_location("fla_naive", file)
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda *given: module.naive_chunk_gated_delta_rule(*batch_first(*given))[0]


def forward(run: Contender, tensors: list[Tensor]) -> None:
    """Run a forward pass alone."""
    with torch.no_grad():
        run(*tensors)


def both(run: Contender, tensors: list[Tensor], g: Tensor) -> None:
    """Run both passes, to all operands."""
    o = run(*tensors)
    torch.autograd.grad(o, tensors, g if o.shape == g.shape else g.transpose(0, 1))


Clock = Callable[[], float]


def interleaved(
    calls: dict[str, Callable[[], object]], rounds: int, clock: Clock
) -> dict[str, list[float]]:
    """Return the seconds of each call in each round, after one round to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(rounds + 1):
        for name, call in calls.items():
            begin = clock()
            call()
            taken = clock() - begin
            if i:
                seconds[name].append(taken)
    return seconds


def print_sequences(
    contenders: dict[str, Contender],
    rounds: int,
    R: int,
    shapes: list[tuple[int, ...]],
    clock: Clock,
) -> None:
    """Print times, and shares of the rate of a product, of both passes."""
    a = torch.randn(SIDE, SIDE)
    print("| T, B, H, K, V | product Gflop/s | contender | forward ms | share | both ms | share |")
    print("|---|---:|---|---:|---:|---:|---:|")
    for shape in shapes:
        T, B, H, K, V = shape
        tensors = [tensor.requires_grad_() for tensor in operands(T // R, B, H, K, V, R)]
        g = torch.randn(T // R, B, H, V)
        calls: dict[str, Callable[[], object]] = {"product": partial(torch.mm, a, a)}
        for name, run in contenders.items():
            calls[f"{name}, forward"] = partial(forward, run, tensors)
            calls[f"{name}, both"] = partial(both, run, tensors, g)
        seconds = interleaved(calls, rounds, clock)
        rates = [2 * SIDE**3 / each for each in seconds["product"]]
        count = operations(*shape)
        for name in contenders:
            cells = []
            for which, work in (("forward", count), ("both", (1 + BACKWARD) * count)):
                taken = seconds[f"{name}, {which}"]
                shares = [work / t / rate for t, rate in zip(taken, rates, strict=True)]
                cells.append(f"{1e3 * statistics.median(taken):.1f}")
                cells.append(f"{100 * statistics.median(shares):.0f} %")
            rate = f"{statistics.median(rates) / 1e9:.0f}"
            place = ", ".join(map(str, shape))
            print(f"| {place} | {rate} | {name} | {' | '.join(cells)} |", flush=True)


def print_lengths(rounds: int, clock: Clock) -> None:
    """Print the time of each step at several lengths of one sequence of 4 heads."""
    print("| T | forward, us a step | both, us a step |")
    print("|---:|---:|---:|")
    run = ours("cpu")
    for T in LENGTHS:
        tensors = [tensor.requires_grad_() for tensor in operands(T, 1, 4, 64, 64)]
        g = torch.randn(T, 1, 4, 64)
        calls: dict[str, Callable[[], object]] = {
            "forward": partial(forward, run, tensors),
            "both": partial(both, run, tensors, g),
        }
        seconds = interleaved(calls, rounds, clock)
        cells = [f"{1e6 * statistics.median(each) / T:.2f}" for each in seconds.values()]
        print(f"| {T} | {' | '.join(cells)} |", flush=True)


def peak_bytes() -> int:
    """Return the largest memory that this process has used.

    Raises:
        RuntimeError: If the system does not tell.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("expected VmHWM in /proc/self/status, which only Linux has")


def print_peak(shape: str) -> None:
    """Print the peak memory of training over that of operands and outputs, in this process."""
    T, B, H, K, V = map(int, shape.split(","))
    both(
        ours("cpu"),
        [each.requires_grad_() for each in operands(64, 1, H, K, V)],
        torch.ones(64, 1, H, V),
    )
    before = peak_bytes()
    tensors = [tensor.requires_grad_() for tensor in operands(T, B, H, K, V)]
    size = 4 * (sum(tensor.numel() for tensor in tensors) + T * B * H * V)
    both(ours("cpu"), tensors, torch.ones(1).expand(T, B, H, V))
    print((peak_bytes() - before) / size)


def print_memory() -> None:
    """Print the peak memory of training at each shape, each in a new process."""
    print("| T, B, H, K, V | peak memory over that of operands and outputs |")
    print("|---|---:|")
    for shape in SHAPES:
        text = ",".join(map(str, shape))
        command = [sys.executable, "-m", "benchmarks.delta", "--peak", text]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"| {text} | {float(done.stdout):.2f} |", flush=True)


def main() -> None:
    """Print the chosen tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="processor time, of one thread")
    parser.add_argument("--reflections", type=int, default=1, help="in a step of a T / R steps")
    parser.add_argument("--only", choices=["sequences", "cpu", "lengths", "memory"])
    parser.add_argument("--shapes", type=int, nargs="*", default=range(len(SHAPES)), help="0 to 2")
    parser.add_argument("--fla", type=Path, help="the folder of the package fla")
    parser.add_argument("--peak", help="a shape whose memory to measure in this process")
    options = parser.parse_args()
    if kernels is None:
        sys.exit("expected the compiled kernels, which were not built")
    if options.cpu:
        options.threads = 1
    clock = time.process_time if options.cpu else time.perf_counter
    torch.set_num_threads(options.threads)
    if options.peak:
        print_peak(options.peak)
        return
    if options.only in (None, "sequences", "cpu"):
        contenders = {"cpu": ours("cpu")}
        if options.only != "cpu":
            contenders["chunk"] = ours("chunk")
            others = {"fla, naive": of_fla(options.fla), "transformers": of_transformers()}
            if options.reflections == 1:
                contenders |= {name: run for name, run in others.items() if run is not None}
        shapes = [SHAPES[i] for i in options.shapes]
        print_sequences(contenders, options.rounds, options.reflections, shapes, clock)
    if options.only in (None, "lengths"):
        torch.set_num_threads(options.threads)
        print_lengths(options.rounds, clock)
    if options.only in (None, "memory"):
        print_memory()


if __name__ == "__main__":
    main()
