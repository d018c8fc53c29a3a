"""Times one time step of one sequence: our layers beside torch's and onnxruntime's.

Run with ``python -m benchmarks.streaming``; ``--cpu`` measures processor time, not that of other
processes, and ``--json FILE`` writes the medians. onnxruntime takes part if it is installed:
``pip install onnx onnxruntime``.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.sequences import Timing, interleave
from eigenrnn import (
    GRU,
    LRU,
    LSTM,
    RNN,
    DeltaNet,
    DeltaProduct,
    GatedDeltaNet,
    MinGRU,
    SequenceModel,
    Stream,
)

__all__ = ["main", "measure"]

READ = "reading W"
CALLS = 200  # in each timed round


def layer_step(layer: Any, x: torch.Tensor) -> Callable[[], object]:
    """Return a call that feeds the state back to `step`."""
    state = layer.initial_state()

    def step() -> None:
        nonlocal state
        _, state = layer.step(x, state)

    return step


def torch_step(layer: nn.RNNBase, x: torch.Tensor) -> Callable[[], object]:
    """Return a call that feeds the state back to torch's layer, with a sequence of one step."""
    x, state = x.unsqueeze(0), None

    def step() -> None:
        nonlocal state
        _, state = layer(x, state)

    return step


def onnx_step(layer: nn.RNN) -> Callable[[], object]:
    """Return a call that feeds the state back to onnxruntime's RNN with the same weights."""
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    N, M = layer.weight_ih_l0.shape
    weights = {
        "W": layer.weight_ih_l0.detach().unsqueeze(0),
        "R": layer.weight_hh_l0.detach().unsqueeze(0),
        "B": torch.cat([layer.bias_ih_l0, layer.bias_hh_l0]).detach().unsqueeze(0),
    }
    node = helper.make_node("RNN", ["X", "W", "R", "B", "", "H"], ["", "H_next"], hidden_size=N)
    graph = helper.make_graph(
        [node],
        "step",
        [
            helper.make_tensor_value_info("X", TensorProto.FLOAT, [1, 1, M]),
            helper.make_tensor_value_info("H", TensorProto.FLOAT, [1, 1, N]),
        ],
        [helper.make_tensor_value_info("H_next", TensorProto.FLOAT, [1, 1, N])],
        [numpy_helper.from_array(weight.numpy(), name) for name, weight in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    x, state = np.ones((1, 1, M), np.float32), np.zeros((1, 1, N), np.float32)

    def step() -> Any:
        nonlocal state
        (state,) = session.run(["H_next"], {"X": x, "H": state})
        return state

    return step


def contenders(N: int) -> dict[str, Callable[[], object]]:
    """Return one call of each contender; all keep their state from call to call."""
    x = torch.ones(1)
    calls: dict[str, Callable[[], object]] = {}
    for ours, theirs in ((RNN, nn.RNN), (GRU, nn.GRU), (LSTM, nn.LSTM)):
        name, layer, rival = ours.__name__, ours(1, N).freeze(), theirs(1, N).eval()
        calls[f"Stream, {name}"] = partial(Stream(layer), x)
        calls[f"step, {name}"] = layer_step(layer, x)
        calls[f"torch.nn.{name}"] = torch_step(rival, x)
        if ours is RNN and find_spec("onnx") and find_spec("onnxruntime"):
            calls["onnxruntime, RNN"] = onnx_step(rival)
    for kind in (LRU, MinGRU):
        calls[f"step, {kind.__name__}"] = layer_step(kind(1, N).freeze(), x)
    for kind in (DeltaNet, GatedDeltaNet, DeltaProduct):
        name, layer = kind.__name__, kind(1, N, heads=max(1, N // 64)).freeze()
        calls[f"Stream, {name}"] = partial(Stream(layer), x)
        calls[f"step, {name}"] = layer_step(layer, x)
    model = SequenceModel(RNN(1, N), 10)
    model.layer.freeze()
    calls["Stream, RNN with 10 outputs"] = partial(Stream(model), x)
    calls["Stream, two layers of RNN"] = partial(Stream(RNN(1, N, num_layers=2).freeze()), x)
    W = torch.randn(N * N)
    calls[READ] = lambda: torch.dot(W, W)
    one = torch.ones(1)
    calls["a call of torch.dot"] = lambda: torch.dot(one, one)
    return calls


def measure(
    N: int, rounds: int, clock: Callable[[], float], calls: int = CALLS
) -> dict[str, Timing]:
    """Time all contenders in turns; times and ratios are those of one call."""

    def repeated(call: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            for _ in range(calls):
                call()

        return run

    runs = {name: repeated(call) for name, call in contenders(N).items()}
    with torch.inference_mode():
        found = interleave(runs, "torch.nn.RNN", rounds, clock)
    return {
        name: Timing(tuple(ms / calls for ms in timing.times_ms), timing.ratios)
        for name, timing in found.items()
    }


def table(N: int, found: dict[str, Timing]) -> Table:
    """Return the medians in microseconds and the quartiles of the ratios to torch.nn.RNN."""
    shown = Table(title=f"one step of one sequence, N={N}", title_justify="left")
    shown.add_column("contender")
    for head in ("microseconds", "times torch.nn.RNN", "quartiles"):
        shown.add_column(head, justify="right")
    for name, timing in found.items():
        low, high = timing.spread
        shown.add_row(
            name,
            f"{1e3 * timing.median_ms:.1f}",
            f"{timing.ratio:.2f}",
            f"{low:.2f} .. {high:.2f}",
        )
    return shown


def main() -> None:
    """Print one table for each N."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[64, 170, 512])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", type=Path, help="also write the medians to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.process_time if options.cpu else time.perf_counter
    medians: dict[str, dict[str, float]] = {}  # in microseconds, by N
    for N in options.sizes:
        found = measure(N, options.rounds, clock)
        medians[str(N)] = {name: 1e3 * timing.median_ms for name, timing in found.items()}
        Console().print(table(N, found))
    if options.json is not None:
        options.json.write_text(json.dumps(medians, indent=2) + "\n")


if __name__ == "__main__":
    main()
