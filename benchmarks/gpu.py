"""Times the recurrences on a GPU against torch's, plain loops, and lower bounds.

Run with ``python -m benchmarks.gpu --json FILE`` on a machine with a CUDA device. It times the
forward and backward pass of whole layers with one input channel, in turns, with CUDA events.
"""

import argparse
import importlib.util
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from eigenrnn.constraints import Unconstrained
from eigenrnn.experiments.bench import Timing, interleave
from eigenrnn.experiments.bench.layers import REFERENCE, Loop, step
from eigenrnn.layers import GRU, RNN

__all__ = ["contestants", "main"]

SIZES = ((784, 128, 170), (1020, 20, 190), (2020, 20, 190), (784, 128, 512), (150, 128, 1024))
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

Size = tuple[int, int, int]
Runs = dict[str, Callable[[], object]]


def contestants(size: Size, dtype: torch.dtype, device: str) -> tuple[Runs, dict[str, str]]:
    """Return the functions to time, and the reason for each one that is skipped."""
    T, B, N = size
    x = torch.randn(T, B, 1, device=device, dtype=dtype)
    tanh = partial(RNN, 1, N, constraint=Unconstrained, nonlinearity="tanh")
    layers: dict[str, nn.Module] = {
        REFERENCE: nn.RNN(1, N),
        "torch.nn.LSTM": nn.LSTM(1, N),
        "torch.nn.GRU": nn.GRU(1, N),
        "RNN(tanh), gpu": tanh(backend="gpu"),
        "RNN(tanh), loop": tanh(backend="loop"),
        "GRU, gpu": GRU(1, N, backend="gpu"),
        "GRU, loop": GRU(1, N, backend="loop"),
        "a plain loop under autograd": Loop(N),
    }
    runs: Runs = {}
    skipped: dict[str, str] = {}
    for name, layer in layers.items():
        layer.to(device, dtype)
        reason = _unsupported(layer, x)
        if reason is not None:
            skipped[name] = reason
            continue
        runs[name] = partial(step, layer, x)
    if device == "cuda":
        runs["a CUDA graph of RNN(tanh), loop"] = _graphed(layers["RNN(tanh), loop"], x)
        if importlib.util.find_spec("flashrnn"):
            runs["FlashRNN's elman, fused"] = _flashrnn(size, dtype)
        else:
            skipped["FlashRNN's elman, fused"] = "flashrnn is not installed"
    return runs, skipped


def _unsupported(layer: nn.Module, x: Tensor) -> str | None:
    """Return the reason why the layer's backend does not support it, or None."""
    if not isinstance(layer, RNN | GRU) or layer.backend != "gpu":
        return None
    try:
        layer.explain(x)
    except ValueError as error:
        return str(error)
    return None


def _graphed(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    """Capture a training step of a layer in a CUDA graph, and return its replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(layer, x)
    torch.cuda.current_stream().wait_stream(stream)
    layer.zero_grad(set_to_none=True)  # so that the graph creates the gradients
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(layer, x)
    return graph.replay


def _flashrnn(size: Size, dtype: torch.dtype) -> Callable[[], object]:
    """Return a run of FlashRNN's fused kernel, with one head and inputs mapped beforehand."""
    from flashrnn import flashrnn

    T, B, N = size
    randn = partial(torch.randn, device="cuda", dtype=dtype, requires_grad=True)
    x, R, b = randn(B, T, 1, 1, N), randn(1, 1, N, N), randn(1, 1, N)
    h0 = randn(1, B, 1, 1, N)

    def run() -> None:
        states, _ = flashrnn(x, R, b, states=h0, function="elman", backend="cuda_fused")
        states[0].sum().backward()

    return run


def lower_bounds_ms(size: Size, dtype: torch.dtype, rounds: int) -> dict[str, float]:
    """Measure lower bounds on the time of any implementation, forward and backward."""
    T, B, N = size
    x, W = (torch.randn(n, N, device="cuda", dtype=dtype) for n in (T * B, N))
    one = torch.zeros(1, device="cuda")

    def launches() -> None:
        for _ in range(T):
            one.add_(1)

    # three products over all time steps: forward, backward, and the gradient of W
    runs: Runs = {
        "T launches of an empty kernel": launches,
        "T barriers within a program": partial(_barriers, T),
        "the products alone": lambda: (x @ W, x @ W, x.T @ x),
    }
    timings = interleave(runs, "the products alone", rounds, event_clock())
    return {name: timing.median_ms for name, timing in timings.items()}


def _barriers(T: int) -> None:
    from benchmarks.triton_barrier import barriers

    out = torch.empty(256, device="cuda")
    barriers[(1,)](out, T, num_warps=8)


def event_clock() -> Callable[[], float]:
    """Return a clock in device seconds, which waits for earlier work on the device."""
    origin = torch.cuda.Event(enable_timing=True)
    origin.record()

    def clock() -> float:
        now = torch.cuda.Event(enable_timing=True)
        now.record()
        now.synchronize()
        return origin.elapsed_time(now) / 1e3

    return clock


def measure(size: Size, name: str, rounds: int, console: Console) -> dict[str, Any]:
    """Time all contestants at a size and dtype, print a table, and return all rounds."""
    dtype = DTYPES[name]
    runs, skipped = contestants(size, dtype, "cuda")
    timings = interleave(runs, REFERENCE, rounds, event_clock())
    bounds = lower_bounds_ms(size, dtype, rounds)
    console.print(_table(size, name, timings, skipped, bounds))
    return {
        "size": size,
        "dtype": name,
        "timings": {layer: asdict(timing) for layer, timing in timings.items()},
        "skipped": skipped,
        "lower_bounds_ms": bounds,
    }


def _table(
    size: Size,
    dtype: str,
    timings: dict[str, Timing],
    skipped: dict[str, str],
    bounds: dict[str, float],
) -> Table:
    T, B, N = size
    title = f"T={T}, B={B}, N={N}, {dtype}: forward + backward"
    table = Table(title=title, title_justify="left")
    for head in ("layer", "median ms", "us per step", "over nn.RNN", "quartiles"):
        table.add_column(head, justify="left" if head == "layer" else "right")
    for name, timing in timings.items():
        (low, high), ms = timing.spread, timing.median_ms
        spread = f"{low:.2f} .. {high:.2f}"
        table.add_row(name, f"{ms:.2f}", f"{ms / T * 1e3:.2f}", f"{timing.ratio:.2f}", spread)
    for name, ms in bounds.items():
        table.add_row(f"lower bound: {name}", f"{ms:.2f}", f"{ms / T * 1e3:.2f}", "", "")
    for name, reason in skipped.items():
        table.add_row(name, reason, "", "", "")
    return table


def main() -> None:
    """Time every size in every dtype, and write all rounds after each.

    Raises:
        SystemExit: If there is no CUDA device.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="number of timed rounds")
    parser.add_argument("--json", type=Path, default=Path("gpu.json"), help="file for all rounds")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks.gpu needs a CUDA device, and torch sees none")
    torch.manual_seed(0)
    console = Console(width=140)
    machine = {"device": torch.cuda.get_device_name(), "torch": str(torch.__version__)}
    measurements: list[dict[str, Any]] = []
    for size in SIZES:
        for dtype in DTYPES:
            measurements.append(measure(size, dtype, options.rounds, console))
            record = {"machine": machine, "measurements": measurements}
            options.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
