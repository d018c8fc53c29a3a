"""Times the recurrences on a GPU against torch's, with their errors; needs torch and numpy alone.

Run with ``python -m benchmarks.gpu --json FILE`` on a machine with a CUDA device, with
``PYTHONPATH=src`` where eigenrnn is not installed. It times the forward and the backward pass of
whole layers with one input channel apart, in turns, with CUDA events. A contestant that fails is
recorded with its error, and the run goes on.
"""

import argparse
import copy
import json
import platform
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import eigenrnn
from eigenrnn.constraints import ScaledCayley, Unconstrained
from eigenrnn.layers import GRU, LSTM, RNN

__all__ = ["Contestant", "contestants", "main", "measure", "tf32"]

SIZES = (
    *((784, 128, N) for N in (100, 128, 170, 512)),
    (1020, 20, 190),
    (2020, 20, 190),
    (150, 128, 1024),
    *((784, B, 170) for B in (16, 512, 2048)),
)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CHECKED = 8  # the sequences of a batch whose error is measured

Size = tuple[int, int, int]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Contestant:
    """A layer and the settings that it runs with.

    Args:
        make: Returns the layer for N units.
        tf32: Whether torch may round the factors of float32 products to TF32.
        graphed: Whether a CUDA graph replays the training step; its passes are timed together.
    """

    make: Callable[[int], nn.Module]
    tf32: bool = False
    graphed: bool = False


def contestants(device: str) -> dict[str, Contestant]:
    """Return what is timed, by name."""
    theirs = {"nn.RNN(tanh)": nn.RNN, "nn.LSTM": nn.LSTM, "nn.GRU": nn.GRU}
    ours: dict[str, Callable[..., nn.Module]] = {
        "RNN(tanh)": partial(RNN, constraint=Unconstrained, nonlinearity="tanh"),
        "RNN(modReLU), scaled Cayley": partial(RNN, constraint=ScaledCayley),
        "GRU": GRU,
        "LSTM": LSTM,
    }
    found: dict[str, Contestant] = {}
    for name, make in theirs.items():
        for on in (False, True):
            found[f"{name}, TF32 {'on' if on else 'off'}"] = Contestant(partial(make, 1), tf32=on)
    backends = {
        "RNN(tanh)": ("triton", "torch", "loop"),
        "RNN(modReLU), scaled Cayley": ("triton", "loop"),
        "GRU": ("triton", "torch", "loop"),
        "LSTM": ("torch",),
    }
    for name, make in ours.items():
        for backend in backends[name]:
            found[f"{name}, {backend}"] = Contestant(partial(make, 1, backend=backend))
    if device == "cuda":
        for backend in ("triton", "loop"):
            layer = partial(RNN, 1, backend=backend)
            found[f"a CUDA graph of RNN(modReLU), {backend}"] = Contestant(layer, graphed=True)
    return found


@contextmanager
def tf32(on: bool) -> Generator[None]:
    """Set whether products and cuDNN's recurrent layers may use TF32."""
    rnn: Any = torch.backends.cudnn.rnn
    settings = (
        [
            (torch.backends.cuda.matmul, "fp32_precision", "tf32" if on else "ieee"),
            (rnn, "fp32_precision", "tf32" if on else "ieee"),
        ]
        if hasattr(rnn, "fp32_precision")  # torch 2.9
        else [
            (torch.backends.cuda.matmul, "allow_tf32", on),
            (torch.backends.cudnn, "allow_tf32", on),
        ]
    )
    before = [getattr(owner, name) for owner, name, _ in settings]
    for owner, name, value in settings:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name, _), value in zip(settings, before, strict=True):
            setattr(owner, name, value)


class Passes:
    """The forward and the backward pass of a contestant, timed apart, in milliseconds."""

    def __init__(
        self, contestant: Contestant, size: Size, dtype: torch.dtype, device: str
    ) -> None:
        T, B, N = size
        torch.manual_seed(0)
        self.layer = contestant.make(N).to(device, dtype)
        self.x = torch.randn(T, B, 1, device=device, dtype=dtype)
        self.g = torch.ones(T, B, N, device=device, dtype=dtype)
        self.graph = self._graph() if contestant.graphed else None

    def run(self, clock: Clock) -> dict[str, float]:
        start = clock()
        if self.graph is not None:
            self.graph.replay()
            return {"forward + backward": 1e3 * (clock() - start)}
        self.layer.zero_grad(set_to_none=True)
        h = self.layer(self.x)[0]
        middle = clock()
        h.backward(self.g)
        end = clock()
        times = middle - start, end - middle, end - start
        names = "forward", "backward", "forward + backward"
        return {name: 1e3 * seconds for name, seconds in zip(names, times, strict=True)}

    def _graph(self) -> Any:
        """Capture a training step in a CUDA graph."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.layer(self.x)[0].backward(self.g)
        torch.cuda.current_stream().wait_stream(stream)
        self.layer.zero_grad(set_to_none=True)  # so that the graph creates the gradients
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.layer(self.x)[0].backward(self.g)
        return graph

    def errors(self) -> dict[str, float]:
        """Return the relative errors of the states and of all gradients, against float64.

        They are those of the first sequences at full length.
        """
        exact = copy.deepcopy(self.layer).double()
        if hasattr(exact, "backend"):
            exact.backend = "reference"
        x = self.x[:, :CHECKED]
        results = [_states_and_gradients(layer, x) for layer in (self.layer, exact)]
        return {
            name: float((one.double() - other).norm() / other.norm())
            for name, one, other in zip(("states", "gradients"), *results, strict=True)
        }


def _states_and_gradients(layer: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    h = layer(x.to(next(layer.parameters()).dtype))[0]
    weights = torch.ones_like(h) / h.numel() ** 0.5
    gradients = torch.autograd.grad(h, [*layer.parameters()], weights)
    return h.detach(), torch.cat([g.flatten() for g in gradients])


class Measurement:
    """The times, errors and failures of contestants at one size, measured in turns."""

    def __init__(
        self, size: Size, dtype: torch.dtype, device: str, taking_part: dict[str, Contestant]
    ) -> None:
        self.size, self.dtype, self.device, self.taking_part = size, dtype, device, taking_part
        self.clock = event_clock() if device == "cuda" else time.perf_counter
        self.passes: dict[str, Passes] = {}
        self.rounds_ms: dict[str, list[dict[str, float]]] = {}
        self.errors: dict[str, dict[str, float]] = {}
        self.failures: dict[str, str] = {}

    def attempt(self, name: str, action: Callable[[str], None]) -> None:
        """Run an action with the settings of a contestant, which drops out if it fails."""
        try:
            with tf32(self.taking_part[name].tf32):
                action(name)
        except Exception as error:  # any failure is a result of this benchmark
            self.failures[name] = f"{type(error).__name__}: {error}"
            self.passes.pop(name, None)
            self.rounds_ms.pop(name, None)

    def prepare(self, name: str) -> None:
        """Build the layer, run it once, and measure its errors."""
        one = Passes(self.taking_part[name], self.size, self.dtype, self.device)
        one.run(self.clock)
        if one.graph is None:
            self.errors[name] = one.errors()
        self.passes[name], self.rounds_ms[name] = one, []

    def time_once(self, name: str) -> None:
        """Add one round."""
        self.rounds_ms[name].append(self.passes[name].run(self.clock))


def measure(
    size: Size,
    dtype: torch.dtype,
    rounds: int,
    device: str,
    taking_part: dict[str, Contestant],
) -> dict[str, Any]:
    """Time all contestants in turns, and return their times, errors and failures."""
    found = Measurement(size, dtype, device, taking_part)
    for name in taking_part:
        found.attempt(name, found.prepare)
    for _ in range(rounds):
        for name in list(found.passes):
            found.attempt(name, found.time_once)
    settings = {name: {"tf32": one.tf32} for name, one in taking_part.items()}
    return {
        "size": size,
        "dtype": str(dtype).removeprefix("torch."),
        "settings": settings,
        "rounds_ms": found.rounds_ms,
        "relative_errors": found.errors,
        "failures": found.failures,
        "lower_bounds_ms": lower_bounds_ms(size, dtype, rounds) if device == "cuda" else {},
    }


def lower_bounds_ms(size: Size, dtype: torch.dtype, rounds: int) -> dict[str, float | str]:
    """Measure lower bounds on the time of any implementation, forward and backward."""
    T, B, N = size
    x, W = (torch.randn(n, N, device="cuda", dtype=dtype) for n in (T * B, N))
    one = torch.zeros(1, device="cuda")
    clock = event_clock()

    def launches() -> None:
        for _ in range(T):
            one.add_(1)

    # three products over all time steps: forward, backward, and the gradient of W
    runs: dict[str, Callable[[], object]] = {
        "T launches of an empty kernel": launches,
        "the products alone": lambda: (x @ W, x @ W, x.T @ x),
    }
    found: dict[str, float | str] = {}
    for name, run in runs.items():
        try:
            run()
            milliseconds: list[float] = []
            for _ in range(rounds):
                start = clock()
                run()
                milliseconds.append(1e3 * (clock() - start))
            found[name] = float(np.median(milliseconds))
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def event_clock() -> Clock:
    """Return a clock in device seconds, which waits for earlier work on the device."""
    origin = torch.cuda.Event(enable_timing=True)
    origin.record()

    def clock() -> float:
        now = torch.cuda.Event(enable_timing=True)
        now.record()
        now.synchronize()
        return origin.elapsed_time(now) / 1e3

    return clock


def versions() -> dict[str, str]:
    """Return the versions that timings depend on."""
    found = {"python": platform.python_version(), "eigenrnn": eigenrnn.__version__}
    for name in ("torch", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    found |= {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
    if torch.cuda.is_available():
        device = torch.cuda.get_device_properties(0)
        found["device"] = device.name
        found["capability"] = f"{device.major}.{device.minor}"
        found["multiprocessors"] = str(device.multi_processor_count)
    return found


def lines(found: dict[str, Any]) -> list[str]:
    """Format a measurement as the lines of a table."""
    T, B, N = found["size"]
    parts = "forward", "backward", "forward + backward"
    rows = [f"T={T}, B={B}, N={N}, {found['dtype']}: median ms [quartiles], us per step, errors"]
    for name, rounds in found["rounds_ms"].items():
        cells: list[str] = []
        for part in parts:
            values = [one[part] for one in rounds if part in one]
            if not values:
                cells.append(f"{'':>24}")
                continue
            low, median, high = np.percentile(values, (25, 50, 75))
            cells.append(f"{median:9.3f} [{low:.3f}, {high:.3f}]")
        per_step = 1e3 * float(np.median([one[parts[-1]] for one in rounds])) / T
        errors = found["relative_errors"].get(name, {})
        of_float64 = ", ".join(f"{which} {size:.1e}" for which, size in errors.items())
        rows.append(f"  {name:<52} {' '.join(cells)} {per_step:8.2f}  {of_float64}")
    for name, bound in found["lower_bounds_ms"].items():
        shown = bound if isinstance(bound, str) else f"{bound:9.3f}"
        rows.append(f"  lower bound: {name:<39} {shown}")
    return rows + [f"  {name}: {reason}" for name, reason in found["failures"].items()]


def parsed_size(text: str) -> Size:
    """Read a size such as ``784,128,170``."""
    T, B, N = (int(part) for part in text.split(","))
    return T, B, N


def main(arguments: Sequence[str] | None = None) -> None:
    """Time every size in every dtype, and write all rounds after each.

    Raises:
        SystemExit: If there is no CUDA device.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="number of timed rounds")
    parser.add_argument("--json", type=Path, default=Path("gpu.json"), help="file for all rounds")
    parser.add_argument("--sizes", nargs="*", type=parsed_size, default=SIZES, help="T,B,N ...")
    parser.add_argument("--dtypes", nargs="*", choices=DTYPES, default=[*DTYPES])
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks.gpu needs a CUDA device, and torch sees none")
    record: dict[str, Any] = {"versions": versions(), "measurements": []}
    print(json.dumps(record["versions"]))
    for size in options.sizes:
        for name in options.dtypes:
            found = measure(size, DTYPES[name], options.rounds, "cuda", contestants("cuda"))
            print("\n".join(lines(found)), flush=True)
            record["measurements"].append(found)
            options.json.write_text(json.dumps(record, indent=1))
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
