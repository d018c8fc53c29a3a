"""Networks in plain C: their errors, what they need on two boards, and the time of a step here.

Run with ``python -m benchmarks.networks_in_c``; ``--json FILE`` writes the numbers. Needs gcc, and
what `benchmarks.arm` needs; onnxruntime takes part if it is installed.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.arm import BOARDS, is_installed
from eigenrnn import GRU, LRU, LSTM, RNN, ScoRNN, SequenceModel, Stream
from eigenrnn.export import to_c

M, K, STEPS = 3, 4, 20
ROUNDS = 7
CALLS = 2_000  # in each timed round
MODELS = {
    "RNN 64": partial(RNN, M, 64, nonlinearity="tanh"),
    "ScoRNN 170": partial(ScoRNN, M, 170),
    "GRU 64": partial(GRU, M, 64),
    "LSTM 64": partial(LSTM, M, 64),
    "LRU 64": partial(LRU, M, 64),
}
KINDS = ("float", "int16", "int8")
COMPILED = {"-O2": ["-O2"], "-O3 -march=native": ["-O3", "-march=native"]}

TIMED = """\
#include <stdio.h>
#include <time.h>
#include "net.h"

int main(void)
{
    static net_state state;
    struct timespec begin, end;
    float input[net_inputs] = {0.5F};
    float output[net_outputs];
    net_reset(&state);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int t = 0; t < 20000; t++) {
        net_step(&state, input, output);
        input[0] = output[0] > 0.0F ? 0.5F : -0.5F; /* so that no step can be left out */
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    const long seconds = (long)(end.tv_sec - begin.tv_sec);
    printf("%.9f\\n", ((double)seconds * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / 20000e3);
    return 0;
}
"""


def model_of(name: str) -> SequenceModel:
    """Return the network of a name, with the same weights each time."""
    torch.manual_seed(0)
    return SequenceModel(MODELS[name](), K).eval()


def write(name: str, weights: str, inputs: torch.Tensor, folder: Path) -> None:
    """Write a network, in whole numbers unless its weights are floats."""
    calibration = None if weights == "float" else inputs
    to_c(model_of(name), folder / "net.c", weights=weights, calibration=calibration)


def on_boards(name: str, weights: str) -> dict[str, dict[str, Any]]:
    """Return what a network needs on each board."""
    found: dict[str, dict[str, Any]] = {}
    inputs = torch.randn(STEPS, M, generator=torch.Generator().manual_seed(0))
    for board, machine in BOARDS.items():
        with tempfile.TemporaryDirectory() as folder:
            write(name, weights, inputs, Path(folder))
            _, costs = machine.run(Path(folder), inputs.numpy(), repeats=1000)
        found[board] = vars(costs)
    return found


def errors(name: str) -> dict[str, dict[str, float]]:
    """Return the largest error of each machine, relative to the largest output, by weights.

    The exact outputs are those of the layer in double precision.
    """
    inputs = torch.randn(STEPS, M, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        single = model_of(name)(inputs).numpy()
        exact = model_of(name).double()(inputs.double()).numpy()
    size = np.abs(exact).max()
    found: dict[str, dict[str, float]] = {}
    for weights in KINDS:
        outputs = {"the layer, float32": single} if weights == "float" else {}
        with tempfile.TemporaryDirectory() as path:
            folder = Path(path)
            write(name, weights, inputs, folder)
            outputs["this machine"] = in_a_library(folder, inputs.numpy())
            for board, machine in BOARDS.items():
                outputs[board], _ = machine.run(folder, inputs.numpy())
        found[weights] = {
            place: float(np.abs(values - exact).max() / size) for place, values in outputs.items()
        }
    return found


def compiled(folder: Path) -> ctypes.CDLL:
    """Compile ``net.c`` of a folder, and load it."""
    command = ["gcc", "-std=c99", "-O2", "-shared", "-fPIC", "net.c", "-o", "net.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "net.so"))


def in_a_library(folder: Path, inputs: np.ndarray) -> np.ndarray:
    """Return the outputs (T, K) of ``net.c`` of a folder on this machine."""
    network = compiled(folder)
    state = ctypes.create_string_buffer(1 << 16)
    output = (ctypes.c_float * K)()
    rows: list[list[float]] = []
    network.net_reset(state)
    for x in inputs.tolist():
        network.net_step(state, (ctypes.c_float * M)(*x), output)
        rows.append(list(output))
    return np.array(rows)


class _Step(nn.Module):
    """One time step of a model, for onnxruntime."""

    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, *state: torch.Tensor) -> Any:
        """Return the outputs and the new state."""
        given: Any = state[0] if len(state) == 1 else state
        layer: Any = self.model.layer
        y, new = layer.step(x, given)
        return self.model.head(y), new


def onnx_step(model: SequenceModel) -> Callable[[], object]:
    """Return a call that feeds the state back to onnxruntime."""
    import onnxruntime

    layer: Any = model.layer
    state = layer.initial_state(1)
    states = list(state) if isinstance(state, tuple) else [state]
    program: Any = torch.onnx.export(
        _Step(model), (torch.zeros(1, M), *states), dynamo=True, verbose=False
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_inputs()]
    values = [np.zeros((1, M), np.float32), *[each.numpy() for each in states]]

    def step() -> None:
        values[1:] = session.run(None, dict(zip(names, values, strict=True)))[1:]

    return step


def stream_step(model: SequenceModel) -> Callable[[], object]:
    """Return a call of our stream."""
    layer: Any = model.layer
    layer.freeze()
    return partial(Stream(model), torch.zeros(M))


def on_this_machine(name: str) -> dict[str, list[float]]:
    """Return the microseconds of a step, of each round, interleaved."""
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as path, torch.no_grad():
        folder = Path(path)
        to_c(model_of(name), folder / "net.c")
        (folder / "main.c").write_text(TIMED)
        for kind, flags in COMPILED.items():
            command = ["gcc", "-std=gnu99", *flags, "main.c", "net.c", "-o", kind, "-lm"]
            subprocess.run(command, cwd=folder, check=True)
        calls = {"our Stream": stream_step(model_of(name))}
        if find_spec("onnxruntime") is not None:
            calls["onnxruntime"] = onnx_step(model_of(name))
        for _ in range(ROUNDS):
            for kind in COMPILED:
                done = subprocess.run([folder / kind], capture_output=True, text=True, check=True)
                times.setdefault(f"C {kind}", []).append(float(done.stdout))
            for kind, call in calls.items():
                call()
                begin = time.perf_counter()
                for _ in range(CALLS):
                    call()
                seconds = time.perf_counter() - begin
                times.setdefault(kind, []).append(1e6 * seconds / CALLS)
    return times


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(width=120)
    found: dict[str, Any] = {"errors": {}, "boards": {}, "this machine": {}}
    if is_installed():
        table = Table("network", "weights", "machine", "relative error", title="errors")
        for name in MODELS:
            found["errors"][name] = errors(name)
            for weights, places in found["errors"][name].items():
                for place, error in places.items():
                    table.add_row(name, weights, place, f"{error:.1e}")
        console.print(table)
        table = Table("network", "weights", "flash", "RAM", "stack", *BOARDS, title="on boards")
        for name in MODELS:
            for weights in KINDS:
                costs = on_boards(name, weights)
                found["boards"][f"{name}, {weights}"] = costs
                first = costs["Cortex-M4F"]
                steps = [f"{each['instructions']:,}" for each in costs.values()]
                sizes = [f"{first[each]:,}" for each in ("flash", "ram", "stack")]
                table.add_row(name, weights, *sizes, *steps)
        console.print(table)
    table = Table("network", title="microseconds of a step, median (least to most)")
    for name in MODELS:
        times = on_this_machine(name)
        found["this machine"][name] = times
        if name == next(iter(MODELS)):
            for kind in times:
                table.add_column(kind)
        row = [
            f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"
            for each in times.values()
        ]
        table.add_row(name, *row)
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
