"""What `make bench` measures: interleaved timings, memory, streaming and scaling."""

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

from benchmarks.sequences.layers import (
    JAX,
    REFERENCE,
    benchmarked_layers,
    jax_step,
    operations,
    product_gflops,
    step,
)
from eigenrnn.kernels import has_threads
from eigenrnn.layers import RNN
from eigenrnn.ops import compiled
from eigenrnn.ops.arguments import Options
from eigenrnn.ops.compiled import add_results, call_arguments
from eigenrnn.ops.elman import ElmanOperands

__all__ = ["SIZES", "Bench", "Size", "Timing", "interleave", "measure"]

SIZES = ((784, 128, 170), (1020, 20, 190), (750, 50, 170), (784, 128, 512), (150, 128, 1024))
"""T, B, N of the papers' experiments and of two larger networks."""

OUR_OWN = "RNN(modReLU), compiled"
_LENGTHS = (200, 400, 800, 1600, 3200, 6400, 12_800)
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
_SEED = 0

Size = tuple[int, int, int]


@dataclass(frozen=True)
class Timing:
    """The timings of one function.

    Args:
        times_ms: The time of each round, in milliseconds.
        ratios: The time of each round divided by that of the reference in the same round.
    """

    times_ms: tuple[float, ...]
    ratios: tuple[float, ...]

    @property
    def median_ms(self) -> float:
        """The median time."""
        return statistics.median(self.times_ms)

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles of the ratios."""
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, high


def interleave(
    functions: Mapping[str, Callable[[], object]],
    reference: str,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Run all functions in every round, each once untimed and then once timed.

    The untimed run warms the caches and the memory allocator, as the previous step does in a
    training loop. Without it, the host of a virtual machine may take back free memory while a slow
    function runs, and the next function must allocate it again.

    On a shared machine, use one thread and `time.process_time` as the clock: it does not count
    the time of other processes.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, run in functions.items():
            run()
            start = clock()
            run()
            times[name].append((clock() - start) * 1e3)
    of_reference = times[reference]
    timings: dict[str, Timing] = {}
    for name, own in times.items():
        # by round: what slows the machine down for a while slows both of a pair
        ratios = [mine / its for mine, its in zip(own, of_reference, strict=True)]
        timings[name] = Timing(tuple(own), tuple(ratios))
    return timings


@dataclass
class Bench:
    """The measurements of one benchmark.

    Args:
        machine: Software versions, threads and processor of the machine.
        product_gflops: The rate of a 2048 x 2048 x 2048 matrix product in float32, measured right
            before each size.
        timings: The timings by size and layer.
        peak: Peak memory of forward and backward, in units of T B N numbers, by layer.
        step_us: Microseconds of `step` for one sequence with N = 170, and of its kernel.
        by_length: Milliseconds of forward and backward at B = 20, N = 190, by T.
        by_batch: The same at T = 200, N = 190, by B.
    """

    machine: dict[str, Any]
    product_gflops: dict[Size, float] = field(default_factory=dict[Size, float])
    timings: dict[Size, dict[str, Timing]] = field(default_factory=dict[Size, dict[str, Timing]])
    peak: dict[str, float] = field(default_factory=dict[str, float])
    step_us: dict[str, float] = field(default_factory=dict[str, float])
    by_length: dict[int, float] = field(default_factory=dict[int, float])
    by_batch: dict[int, float] = field(default_factory=dict[int, float])

    def utilisation(self, size: Size, name: str) -> float:
        """Return the rate of a layer relative to that of the matrix product."""
        gflops = operations(name, *size) / self.timings[size][name].median_ms / 1e6
        return gflops / self.product_gflops[size]

    def to_json(self) -> dict[str, Any]:
        """Return all measurements with all rounds, ready for JSON."""
        record = asdict(self)
        for name in ("product_gflops", "timings"):
            # JSON has no tuples as keys
            record[name] = {
                ",".join(map(str, size)): found for size, found in record[name].items()
            }
        return record


def measure(
    sizes: Sequence[Size] = SIZES,
    rounds: int = 7,
    slow: bool = False,
    details: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    after: Callable[[Bench, Size | None], None] = lambda _, __: None,
) -> Bench:
    """Time all layers, interleaved in one process.

    Args:
        sizes: T, B and N of each table.
        rounds: How often each layer is timed.
        slow: Whether to time Python loops over torch's cells too, and JAX if it is installed.
        details: Whether to measure memory, streaming and scaling too.
        progress: Called with the name of each measurement.
        after: Called with the measurements so far after each size, and with None at the end.
    """
    bench = Bench(_machine())
    for size in sizes:
        T, B, N = size
        progress(f"T={T}, B={B}, N={N}")
        bench.product_gflops[size] = product_gflops(time.perf_counter)
        x = torch.randn(T, B, 1, generator=torch.Generator().manual_seed(_SEED))
        runs: dict[str, Callable[[], object]] = {
            name: partial(step, layer, x) for name, layer in benchmarked_layers(N, slow).items()
        }
        if slow and find_spec("jax") is not None:
            runs[JAX] = jax_step(x, N)
        bench.timings[size] = interleave(runs, REFERENCE, rounds)
        after(bench, size)
    if details:
        progress("memory")
        bench.peak = {name: peak(name) for name in (REFERENCE, "torch.nn.LSTM", OUR_OWN)}
        progress("streaming")
        bench.step_us = _step_us()
        progress("scaling")
        bench.by_length = {T: _once(T, 20, 190) for T in _LENGTHS}
        bench.by_batch = {B: _once(200, B, 190) for B in _BATCHES}
    after(bench, None)
    return bench


def _machine() -> dict[str, Any]:
    return {
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "kernels": compiled.unavailable() or compiled.kernels.isa,
        "torch's threads found": has_threads,
    }


def _processor() -> str:
    """Return the name of the processor, which Python itself does not know."""
    commands = {"Linux": "LC_ALL=C lscpu | sed -n 's/^ *Model name: *//p'"}
    commands["Darwin"] = "sysctl -n machdep.cpu.brand_string"
    command = commands.get(platform.system(), "")
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    return ", ".join(done.stdout.splitlines()) or platform.processor()


def _once(T: int, B: int, N: int, rounds: int = 5) -> float:
    """Return the median milliseconds of forward and backward of our own layer."""
    layer = RNN(1, N)
    x = torch.randn(T, B, 1)
    run = {OUR_OWN: partial(step, layer, x)}
    return interleave(run, OUR_OWN, rounds)[OUR_OWN].median_ms


def _step_us(N: int = 170, steps: int = 2000) -> dict[str, float]:
    """Time `step` of a frozen layer on one sequence, and its kernel alone."""
    layer = RNN(1, N).freeze()
    W = layer.recurrent_matrices()[0].detach()
    bias = torch.zeros(N)
    x_t = torch.randn(1, 1)
    h = torch.zeros(1, 1, N)
    U = torch.randn(N, 1)
    h0 = torch.zeros(1, N)
    with torch.inference_mode():
        total = _median_us(lambda: layer.step(x_t, h), steps)
        if compiled.unavailable():
            return {"step": total}
        call = _kernel_call(x_t.unsqueeze(0), U, W, h0, bias)
        return {"step": total, "kernel": _median_us(call, steps)}


def _kernel_call(
    x: torch.Tensor, U: torch.Tensor, W: torch.Tensor, h0: torch.Tensor, bias: torch.Tensor
) -> Callable[[], object]:
    h = torch.empty(1, 1, len(W))
    last = torch.empty(1, len(W))
    operands = ElmanOperands(x, W, h0, bias, U)
    options = Options("modrelu")
    arguments = call_arguments(operands, options)
    add_results(arguments, {"h": h, "last": last})

    def call(_kept: Sequence[torch.Tensor] = (x, U, W, h0, bias, h, last)) -> None:
        # the arguments are addresses only; _kept keeps the tensors alive
        compiled.kernels.elman_forward("float32", torch.get_num_threads(), arguments)

    return call


def _median_us(call: Callable[[], object], rounds: int) -> float:
    times: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def peak(name: str, size: Size = (784, 128, 170), *, autocast: bool = False) -> float:
    """Return the peak memory of one step in units of T B N float32 numbers, in a new process."""
    # a new one, because the peak of a process never falls
    T, B, N = size
    command = [
        sys.executable,
        "-m",
        "benchmarks.sequences.peak_memory",
        name,
        *map(str, size),
        *["autocast"] * autocast,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) / (4 * T * B * N)
