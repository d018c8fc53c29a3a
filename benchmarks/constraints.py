"""Times every constraint against torch's and geotorch's alternatives and a recurrence.

Run with ``PYTHONPATH=tests python -m benchmarks.constraints``, or ``make bench-constraints``.
"""

import argparse
import copy
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import geotorch
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from benchmarks.sequences import Timing, interleave
from cases import CONSTRAINTS
from eigenrnn.constraints import (
    BoundedSVD,
    Constraint,
    Exponential,
    Householder,
    MovingCayley,
    NeumannCayley,
    ScaledCayley,
)
from eigenrnn.linalg import skew
from eigenrnn.ops import elman

__all__ = ["main", "measure"]

SIZES = {170: 11, 512: 5, 1024: 3}
"""The number of rounds for each N. A round at 1024 takes a minute, mostly in the alternatives."""

T, B = 784, 128
"""Time steps and batch of the recurrence: pixel MNIST. W is built once for it."""

LARGEST = 512
"""The largest N at which a constraint must cost less than `SHARE` of that recurrence."""

SHARE = 0.1


@dataclass(frozen=True)
class Row:
    """One constraint after a few training steps.

    Args:
        constraint: The constraint.
        step: An optimiser step on a copy of it, if the constraint works during that step.
    """

    constraint: Constraint
    step: Callable[[], object] | None = None

    @property
    def recurrence(self) -> str:
        """The recurrence with the same kind of states, real or complex."""
        return "complex recurrence" if self.constraint.is_complex else "real recurrence"

    @property
    def family(self) -> str | None:
        """The family of alternatives, with the same map if there is one."""
        constraint = self.constraint
        if isinstance(constraint, Exponential):
            return "exponential" if constraint.raw.any() else "exponential at A = 0"
        if isinstance(constraint, ScaledCayley | MovingCayley | NeumannCayley):
            return "complex cayley" if constraint.is_complex else "cayley"
        if not isinstance(constraint, Householder | BoundedSVD):
            return None
        if constraint.reflections == constraint.size:
            return "householder" if isinstance(constraint, Householder) else "bounded svd"
        return None


def forward_backward(module: nn.Module, G: Tensor) -> None:
    """Compute W and the gradients of the raw parameters, as a training step does."""
    module.zero_grad()
    W = module.weight if isinstance(module, nn.Linear) else module()
    W.backward(G)


def recurrence_run(N: int, dtype: torch.dtype) -> Callable[[], None]:
    """Return a run of the recurrence, forward and backward, with a loss on all states."""
    W = torch.linalg.qr(torch.randn(N, N, dtype=dtype)).Q.requires_grad_()
    x = torch.randn(T, B, N, dtype=dtype).requires_grad_()
    bias = torch.zeros(N, requires_grad=True)
    G = torch.randn(T, B, N, dtype=dtype)

    def run() -> None:
        x.grad = W.grad = bias.grad = None
        states, _ = elman(x, W, bias=bias, nonlinearity="modrelu")
        states.backward(G)

    return run


def trained(name: str, N: int) -> Row:
    """Create a constraint and train it for four steps, away from its initialisation."""
    if "fft" in name:
        N = 1 << (N - 1).bit_length()  # the next power of two
    constraint = CONSTRAINTS[name](N)
    optimiser = torch.optim.Adam(constraint.parameters(), lr=0.01)
    for _ in range(4):
        forward_backward(constraint, torch.randn(N, N, dtype=constraint.dtype))
        optimiser.step()
    if not any(
        part.needs_advance for part in constraint.modules() if isinstance(part, Constraint)
    ):
        return Row(constraint)
    clone = copy.deepcopy(constraint)  # so that every round has the same parameters
    forward_backward(clone, torch.randn(N, N, dtype=constraint.dtype))
    optimiser = torch.optim.SGD(clone.parameters(), lr=1e-4)
    return Row(constraint, partial(_step, optimiser, clone))


def _step(optimiser: torch.optim.Optimizer, _constraint: Constraint) -> None:
    """Take an optimiser step, and keep alive the constraint that its hook advances."""
    optimiser.step()


def alternatives(
    family: str,
    A: Tensor,  # (N, N), skew
) -> dict[str, nn.Module]:
    """Create the alternatives in torch and geotorch with the raw parameters A."""

    def registered(register: Callable[..., object], **options: object) -> nn.Module:
        linear = nn.Linear(len(A), len(A), bias=False, dtype=A.dtype)
        register(linear, "weight", **options)
        with torch.no_grad():
            raw = linear.parametrizations["weight"].original
            raw.copy_(A - torch.eye(len(A)))  # the diagonal holds the signs of Householder
        return linear

    if family == "householder":
        return {"torch householder": registered(orthogonal, orthogonal_map="householder")}
    if family == "bounded svd":
        return {"geotorch almost_orthogonal": registered(geotorch.almost_orthogonal, lam=0.2)}
    if family == "complex cayley":  # geotorch has none
        return {"torch cayley, complex": registered(orthogonal, orthogonal_map="cayley")}
    if family == "cayley":
        return {
            "torch cayley": registered(orthogonal, orthogonal_map="cayley"),
            "geotorch cayley": registered(geotorch.orthogonal, triv="cayley"),
        }
    suffix = ", A = 0" if family.endswith("0") else ""
    return {
        f"torch matrix_exp{suffix}": registered(orthogonal, orthogonal_map="matrix_exp"),
        f"geotorch expm{suffix}": registered(geotorch.orthogonal, triv="expm"),
    }


def alternatives_by_family(rows: dict[str, Row], N: int) -> dict[str, dict[str, nn.Module]]:
    """Create the alternatives of every family among the rows."""
    modules: dict[str, dict[str, nn.Module]] = {}
    for family in sorted({row.family for row in rows.values()} - {None}):
        members = [row.constraint for row in rows.values() if row.family == family]
        dtype = members[0].dtype
        A = torch.randn(N, N, dtype=dtype) * 0.5 / N**0.5
        A = A - A.mH
        if family.startswith("exponential"):
            # a shorter A is faster for the alternatives
            A = skew(min((m.raw.detach() for m in members), key=torch.linalg.vector_norm), N)
        modules[family] = alternatives(family, A)
    return modules


@dataclass(frozen=True)
class Cost:
    """The times of one constraint in all rounds, in milliseconds.

    Args:
        own: Its forward and backward pass.
        step: An optimiser step, if the constraint works during that step.
        alternatives: Its alternatives by name.
        recurrence: The recurrence that uses W, or None if it was not timed.
    """

    own: Timing
    step: Timing | None
    alternatives: dict[str, Timing]
    recurrence: Timing | None

    @property
    def share(self) -> float | None:
        """The median over rounds of its time relative to the recurrence."""
        return None if self.recurrence is None else _ratios(self.own, self.recurrence).ratio

    @property
    def fastest(self) -> tuple[str, Timing] | None:
        """The fastest alternative, and the ratios of our times to its times."""
        if not self.alternatives:
            return None
        name = min(self.alternatives, key=lambda name: self.alternatives[name].median_ms)
        return name, _ratios(self.own, self.alternatives[name])

    def misses(self, N: int) -> list[str]:
        """Return a description of each target that is missed."""
        missed: list[str] = []
        if self.share is not None and N <= LARGEST and self.share > SHARE:
            missed.append(f"{self.share:.1%} of the recurrence (at most {SHARE:.0%})")
        if self.fastest is not None and self.fastest[1].ratio > 1:
            name, ours = self.fastest
            missed.append(f"{ours.ratio:.2f} times {name} (at most 1)")
        return missed


def _ratios(own: Timing, other: Timing) -> Timing:
    pairs = zip(own.times_ms, other.times_ms, strict=True)
    return Timing(own.times_ms, tuple(a / b for a, b in pairs))


def measure(N: int, rounds: int, pattern: str = "", cpu: bool = False) -> dict[str, Cost]:
    """Time the constraints whose names contain the pattern, with recurrence and alternatives.

    Above `LARGEST` the complex recurrence is not timed, because it needs many gigabytes.
    """
    clock = time.process_time if cpu else time.perf_counter
    torch.manual_seed(0)
    rows = {name: trained(name, N) for name in CONSTRAINTS if pattern in name}
    families = alternatives_by_family(rows, N)
    contestants: dict[str, Callable[[], object]] = {
        "real recurrence": recurrence_run(N, torch.float32)
    }
    if N <= LARGEST and any(row.constraint.is_complex for row in rows.values()):
        contestants["complex recurrence"] = recurrence_run(N, torch.complex64)
    # the next contestant would find caches full of the recurrence's data
    contestants["warm-up"] = partial(forward_backward, ScaledCayley(N), torch.randn(N, N))
    for name, row in rows.items():
        size, dtype = row.constraint.size, row.constraint.dtype
        G = torch.randn(size, size, dtype=dtype)
        contestants[name] = partial(forward_backward, row.constraint, G)
    steps = {f"{name}, step": row.step for name, row in rows.items() if row.step is not None}
    for modules in families.values():
        for name, module in modules.items():
            G = torch.randn(N, N, dtype=module.weight.dtype)
            contestants[name] = partial(forward_backward, module, G)
    timings = interleave({**contestants, **steps}, "real recurrence", rounds, clock)
    return {
        name: Cost(
            timings[name],
            timings.get(f"{name}, step"),
            {other: timings[other] for other in families.get(row.family or "", {})},
            timings.get(row.recurrence),
        )
        for name, row in rows.items()
    }


def table(N: int, costs: dict[str, Cost]) -> Table:
    """Return the table of one size."""
    timed = {cost.recurrence for cost in costs.values()} - {None}
    times = ", ".join(f"{ms:.0f} ms" for ms in sorted(timing.median_ms for timing in timed))
    title = f"N={N}: forward + backward; the recurrence at T={T}, B={B} (real, complex): {times}"
    result = Table(title=title, title_justify="left")
    result.add_column("constraint")
    for heading in ("median ms", "share of recurrence", "mean step ms"):
        result.add_column(heading, justify="right")
    result.add_column("fastest alternative")
    for heading in ("ms", "ours / theirs", "quartiles"):
        result.add_column(heading, justify="right")
    for name, cost in costs.items():
        share = "" if cost.share is None else f"{cost.share:.1%}"
        step = "" if cost.step is None else f"{statistics.mean(cost.step.times_ms):.2f}"
        cells = [name, f"{cost.own.median_ms:.2f}", share, step]
        if cost.fastest is not None:
            other, ours = cost.fastest
            low, high = ours.spread
            theirs = f"{cost.alternatives[other].median_ms:.2f}"
            cells += [other, theirs, f"{ours.ratio:.2f}", f"{low:.2f} .. {high:.2f}"]
        result.add_row(*cells)
    return result


def main() -> None:
    """Print a table for each size, and exit with the rows that miss a target, if any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", choices=list(SIZES), default=[170, 512])
    parser.add_argument(
        "--rounds", type=int, help=f"number of rounds; by default, by size: {SIZES}"
    )
    parser.add_argument(
        "--only", default="", help="time only constraints whose name contains this"
    )
    parser.add_argument("--cpu", action="store_true", help="measure processor time on one thread")
    parser.add_argument("--json", type=Path, help="file for the times of all rounds")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    torch.set_num_threads(1 if options.cpu else torch.get_num_threads())
    threads = torch.get_num_threads()
    console.print(f"torch {torch.__version__}, threads: {threads}, {platform.machine()}")
    record: dict[str, object] = {"torch": str(torch.__version__), "threads": threads}
    missed: list[str] = []
    for N in options.sizes:
        costs = measure(N, options.rounds or SIZES[N], options.only, options.cpu)
        console.print(table(N, costs))
        missed += [f"{name} at N={N}: {m}" for name in costs for m in costs[name].misses(N)]
        record[str(N)] = {name: _rounds(cost) for name, cost in costs.items()}
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1))
    sys.exit("\n".join(["missed targets:", *missed]) if missed else 0)


def _rounds(cost: Cost) -> dict[str, tuple[float, ...]]:
    named = {"own": cost.own, "step": cost.step, "recurrence": cost.recurrence}
    timings = {**named, **cost.alternatives}
    return {name: timing.times_ms for name, timing in timings.items() if timing is not None}


if __name__ == "__main__":
    main()
