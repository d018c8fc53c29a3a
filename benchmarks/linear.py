"""Times the linear recurrence beside copies of memory and beside other implementations.

The floor of a pass is its bytes, read and written, over the bandwidth of a copy between existing
tensors, measured in turns with the passes. The passes write into existing tensors too; the columns
*new tensor* include the time in which the system provides new memory.
``python -m benchmarks.linear --help`` lists options.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch._higher_order_ops import associative_scan

from eigenrnn.ops import linear
from eigenrnn.ops.compiled import add_results, call_arguments, kernels, number_type, pointer
from eigenrnn.ops.linear.cpu import as_real, linear_cpu, linear_sizes
from eigenrnn.ops.linear.reference import LinearOperands, LinearOptions

SHAPES = [(1000, 32, 256), (16384, 1, 256), (4096, 8, 1024)]
CHUNK = 32  # steps in one compiled graph; a graph of all steps takes minutes to compile


def loop(x: Tensor, decay: Tensor) -> Tensor:
    """Evaluate one step after another under autograd."""
    h = torch.zeros_like(x[0])
    states = []
    for x_t in x.unbind():
        h = decay * h + x_t
        states.append(h)
    return torch.stack(states)


@torch.compile(dynamic=False)
def _compiled_chunk(x: Tensor, decay: Tensor, h: Tensor) -> Tensor:
    states = []
    for x_t in x.unbind():
        h = decay * h + x_t
        states.append(h)
    return torch.stack(states)


def compiled_loop(x: Tensor, decay: Tensor) -> Tensor:
    """Evaluate a compiled graph of some steps after another."""
    h = torch.zeros_like(x[0])
    parts = []
    for part in x.split(CHUNK):
        states = _compiled_chunk(part, decay, h)
        h = states[-1]
        parts.append(states)
    return torch.cat(parts)


def torch_scan(x: Tensor, decay: Tensor) -> Tensor:
    """Evaluate the associative scan of torch."""

    def combine(one: tuple[Tensor, Tensor], two: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return one[0] * two[0], one[1] * two[0] + two[1]

    decays = decay.expand(x.shape).contiguous()
    return associative_scan(combine, (decays, x), dim=0, combine_mode="generic")[1]


_Recurrence = Callable[[Tensor, Tensor], Tensor]

OTHERS: dict[str, _Recurrence] = {
    "clone of x": lambda x, decay: x.clone(),  # noqa: ARG005, the limit: it only allocates and copies
    "plain loop": loop,
    "compiled loop": compiled_loop,
    "torch's associative_scan": torch_scan,
    "associative_scan, compiled": torch.compile(torch_scan, dynamic=False),
    "our scan": lambda x, decay: linear(x, decay, backend="scan")[0],
}


def forward(recurrence: _Recurrence, x: Tensor, decay: Tensor) -> None:
    """Run a forward pass alone."""
    with torch.no_grad():
        recurrence(x, decay)


def forward_and_backward(recurrence: _Recurrence, x: Tensor, decay: Tensor, g: Tensor) -> None:
    """Run both passes, to x and to the decay."""
    torch.autograd.grad(recurrence(x, decay), (x, decay), g, allow_unused=True)


def interleaved(
    calls: dict[str, Callable[[], object]], rounds: int, *, twice: bool = False
) -> dict[str, list[float]]:
    """Return the seconds of each call in each round, after one round to warm up.

    With `twice`, the second of two calls in a row is timed. The first leaves the memory that the
    second can use, so that no implementation depends on which one comes before it.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(rounds + 1):
        for name, call in calls.items():
            if twice:
                call()
            begin = time.perf_counter()
            call()
            if i:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


def passes(
    shape: tuple[int, int, int], dtype: torch.dtype, gated: bool
) -> tuple[dict[str, Callable[[], object]], dict[str, int]]:
    """Return the passes of a shape, and the arrays of its size that each reads and writes."""
    _, B, N = shape
    x, g, h, dx, target = (torch.randn(shape, dtype=dtype) for _ in range(5))
    decay = 0.99 * torch.ones(shape if gated else (N,), dtype=dtype)
    operands = LinearOperands(x, decay, x.new_zeros(B, N))
    options = LinearOptions(None, reverse=False, last_only=False)
    last = x.new_empty(B, N)
    gradients = {"x": dx, "decay": torch.ones_like(decay), "h0": x.new_empty(B, N)}
    read = operands._make([v if v is None else as_real("", v) for v in operands])
    call = call_arguments(read, options, linear_sizes(operands))
    add_results(call, {"h": as_real("h", h), "last": as_real("last", last)})
    back = {name: pointer(as_real(name, each)) for name, each in gradients.items()}
    back["h"] = pointer(as_real("h", g))
    number = number_type(x, takes_complex=True)

    def forward() -> None:
        kernels.linear_forward(number, torch.get_num_threads(), call)

    def backward(_kept: object = (read, h, last, g, gradients)) -> None:
        # the arguments are addresses only; _kept keeps the tensors alive
        kernels.linear_backward(number, torch.get_num_threads(), call, back)

    calls: dict[str, Callable[[], object]] = {
        "copy": lambda: target.copy_(x),
        "forward": forward,
        "backward": backward,
        "forward, new tensor": lambda: linear_cpu(operands, options),
        "clone, new tensor": x.clone,
    }
    arrays = {"copy": 2, "forward": 2 + gated, "backward": 3 + 2 * gated}
    arrays |= {"forward, new tensor": 2 + gated, "clone, new tensor": 2}
    return calls, arrays


def print_floor(rounds: int) -> None:
    """Print the share of the bandwidth of a copy that each pass reaches."""
    names = ("forward", "backward", "forward, new tensor", "clone, new tensor")
    print("| T, B, N | numbers | decay | copy GB/s | " + " | ".join(names) + " |")
    print("|---|---|---|---:|" + "---:|" * len(names))
    for shape in SHAPES:
        for dtype in (torch.float32, torch.complex64):
            for gated in (False, True):
                calls, arrays = passes(shape, dtype, gated)
                seconds = interleaved(calls, rounds)
                size = shape[0] * shape[1] * shape[2] * dtype.itemsize
                rates = {name: [arrays[name] * size / s for s in seconds[name]] for name in calls}
                shares = {
                    name: statistics.quantiles(
                        [a / b for a, b in zip(rates[name], rates["copy"], strict=True)]
                    )
                    for name in names
                }
                cells = " | ".join(
                    f"{100 * m:.0f} % ({100 * a:.0f}..{100 * b:.0f})"
                    for a, m, b in shares.values()
                )
                kind = "complex" if dtype.is_complex else "real"
                each = "each step" if gated else "constant"
                bandwidth = statistics.median(rates["copy"]) / 1e9
                name = ", ".join(map(str, shape))
                print(f"| {name} | {kind} | {each} | {bandwidth:.1f} | {cells} |", flush=True)


def _kernels(x: Tensor, decay: Tensor) -> Tensor:
    return linear(x, decay, backend="cpu")[0]


def print_others(rounds: int, shapes: list[tuple[int, int, int]], *, with_backward: bool) -> None:
    """Print the time of other implementations relative to the kernels."""
    print("| T, B, N | numbers | compiled kernels ms | " + " | ".join(OTHERS) + " |")
    print("|---|---|---:|" + "---:|" * len(OTHERS))
    # compiling the backward pass of a complex scan takes minutes
    dtypes = (torch.float32,) if with_backward else (torch.float32, torch.complex64)
    for shape in shapes:
        for dtype in dtypes:
            torch.compiler.reset()  # a function is compiled a limited number of times
            x = torch.randn(shape, dtype=dtype, requires_grad=True)
            g = torch.randn(shape, dtype=dtype)
            decay = torch.full((shape[2],), 0.99, dtype=dtype, requires_grad=True)
            arguments = (x, decay, g) if with_backward else (x, decay)
            timed = forward_and_backward if with_backward else forward
            calls = {
                name: partial(timed, recurrence, *arguments)
                for name, recurrence in {"cpu": _kernels, **OTHERS}.items()
            }
            seconds = interleaved(calls, rounds, twice=True)
            ours = seconds["cpu"]
            times = [
                statistics.median(s / o for s, o in zip(seconds[name], ours, strict=True))
                for name in OTHERS
            ]
            kind = "complex" if dtype.is_complex else "real"
            cells = " | ".join(f"{ratio:.1f} x" for ratio in times)
            name = ", ".join(map(str, shape))
            print(
                f"| {name} | {kind} | {1e3 * statistics.median(ours):.1f} | {cells} |", flush=True
            )


def main() -> None:
    """Print the chosen tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=["floor", "forward", "training"])
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="the first shapes only")
    options = parser.parse_args()
    if kernels is None:
        sys.exit("expected the compiled kernels, which were not built")
    torch.set_num_threads(options.threads)
    if options.only in (None, "floor"):
        print_floor(options.rounds)
    shapes = SHAPES[: options.shapes]
    if options.only in (None, "forward"):
        print_others(options.rounds, shapes, with_backward=False)
    if options.only in (None, "training"):
        print_others(options.rounds, shapes, with_backward=True)


if __name__ == "__main__":
    main()
