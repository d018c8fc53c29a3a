"""The recurrences on a GPU beside torch's, beside loops, and beside the floor.

Run with ``python -m benchmarks.gpu --json FILE`` on a machine with a CUDA device. Forward and
backward of whole layers with one input channel, taking turns; times are those of CUDA events.
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

from benchmarks.interleave import Timing, interleave
from eigenrnn.constraints import Unconstrained
from eigenrnn.experiments.bench.contestants import REFERENCE, Loop, step
from eigenrnn.layers import GRU, RNN

__all__ = ["contestants", "main"]

SIZES = ((784, 128, 170), (1020, 20, 190), (2020, 20, 190), (784, 128, 512), (150, 128, 1024))
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

Size = tuple[int, int, int]
Runs = dict[str, Callable[[], object]]


def contestants(size: Size, dtype: torch.dtype, device: str) -> tuple[Runs, dict[str, str]]:
    """Make what is timed, and say of what is left out why."""
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
    left_out: dict[str, str] = {}
    for name, layer in layers.items():
        layer.to(device, dtype)
        refusal = _refusal(layer, x)
        if refusal is not None:
            left_out[name] = refusal
            continue
        runs[name] = partial(step, layer, x)
    if device == "cuda":
        runs["a CUDA graph of RNN(tanh), loop"] = _graphed(layers["RNN(tanh), loop"], x)
        if importlib.util.find_spec("flashrnn"):
            runs["FlashRNN's elman, fused"] = _flashrnn(size, dtype)
        else:
            left_out["FlashRNN's elman, fused"] = "flashrnn is not installed"
    return runs, left_out


def _refusal(layer: nn.Module, x: Tensor) -> str | None:
    """Say why the backend that a layer is to use does not take it."""
    if not isinstance(layer, RNN | GRU) or layer.backend != "gpu":
        return None
    try:
        layer.explain(x)
    except ValueError as refusal:
        return str(refusal)
    return None


def _graphed(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    """Capture a step of a layer whole, with its launches, and play it again."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step(layer, x)
    torch.cuda.current_stream().wait_stream(aside)
    layer.zero_grad(set_to_none=True)  # so that gradients are made by the graph, not added to
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(layer, x)
    return graph.replay


def _flashrnn(size: Size, dtype: torch.dtype) -> Callable[[], object]:
    """Time its fused kernel alone, with one head, of inputs that are mapped already."""
    from flashrnn import flashrnn

    T, B, N = size
    make = partial(torch.randn, device="cuda", dtype=dtype, requires_grad=True)
    x, R, b = make(B, T, 1, 1, N), make(1, 1, N, N), make(1, 1, N)
    h0 = make(1, B, 1, 1, N)

    def run() -> None:
        states, _ = flashrnn(x, R, b, states=h0, function="elman", backend="cuda_fused")
        states[0].sum().backward()

    return run


def floor_ms(size: Size, dtype: torch.dtype, rounds: int) -> dict[str, float]:
    """Measure what no way of doing it, forward and backward, can go below, part by part."""
    T, B, N = size
    x, W = (torch.randn(n, N, device="cuda", dtype=dtype) for n in (T * B, N))
    one = torch.zeros(1, device="cuda")

    def launches() -> None:
        for _ in range(T):
            one.add_(1)

    # three products of all steps at once: forward, back, and that of the gradient of W
    runs: Runs = {
        "T launches of nothing": launches,
        "T meetings of a program's warps": partial(_meet, T),
        "the products alone": lambda: (x @ W, x @ W, x.T @ x),
    }
    timings = interleave(runs, "the products alone", rounds, event_clock())
    return {name: timing.median_ms for name, timing in timings.items()}


def _meet(T: int) -> None:
    from benchmarks.meetings import meetings

    out = torch.empty(256, device="cuda")
    meetings[(1,)](out, T, num_warps=8)


def event_clock() -> Callable[[], float]:
    """Return a clock of the device's own seconds, which waits for what was started before."""
    origin = torch.cuda.Event(enable_timing=True)
    origin.record()

    def clock() -> float:
        now = torch.cuda.Event(enable_timing=True)
        now.record()
        now.synchronize()
        return origin.elapsed_time(now) / 1e3

    return clock


def measure(size: Size, name: str, rounds: int, console: Console) -> dict[str, Any]:
    """Time all contestants of a size and a type, print them, and return all rounds."""
    dtype = DTYPES[name]
    runs, left_out = contestants(size, dtype, "cuda")
    timings = interleave(runs, REFERENCE, rounds, event_clock())
    floor = floor_ms(size, dtype, rounds)
    console.print(_table(size, name, timings, left_out, floor))
    return {
        "size": size,
        "dtype": name,
        "timings": {one: asdict(timing) for one, timing in timings.items()},
        "left_out": left_out,
        "floor_ms": floor,
    }


def _table(
    size: Size,
    dtype: str,
    timings: dict[str, Timing],
    left_out: dict[str, str],
    floor: dict[str, float],
) -> Table:
    T, B, N = size
    title = f"T={T}, B={B}, N={N}, {dtype}: forward + backward"
    table = Table(title=title, title_justify="left")
    for head in ("layer", "median ms", "us a step", "over nn.RNN", "quartiles"):
        table.add_column(head, justify="left" if head == "layer" else "right")
    for name, timing in timings.items():
        (low, high), ms = timing.spread, timing.median_ms
        spread = f"{low:.2f} .. {high:.2f}"
        table.add_row(name, f"{ms:.2f}", f"{ms / T * 1e3:.2f}", f"{timing.ratio:.2f}", spread)
    for name, ms in floor.items():
        table.add_row(f"floor: {name}", f"{ms:.2f}", f"{ms / T * 1e3:.2f}", "", "")
    for name, why in left_out.items():
        table.add_row(name, why, "", "", "")
    return table


def main() -> None:
    """Time every size in every type, and write all rounds as they come.

    Raises:
        SystemExit: If there is no CUDA device.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="how many rounds count")
    parser.add_argument("--json", type=Path, default=Path("gpu.json"), help="where rounds go")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks.gpu needs a CUDA device, and torch sees none")
    torch.manual_seed(0)
    console = Console(width=140)
    machine = {"device": torch.cuda.get_device_name(), "torch": str(torch.__version__)}
    found: list[dict[str, Any]] = []
    for size in SIZES:
        for dtype in DTYPES:
            found.append(measure(size, dtype, options.rounds, console))
            options.json.write_text(json.dumps({"machine": machine, "found": found}, indent=1))


if __name__ == "__main__":
    main()
