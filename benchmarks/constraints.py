"""Forward and backward of every constraint, against torch's own, geotorch's and a recurrence."""

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
from tests.cases import CONSTRAINTS
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from benchmarks.interleave import Timing, interleave
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
"""N, and how many rounds: a round at 1024 takes a minute, most of it in the alternatives."""

T, B = 784, 128
"""Steps and batch of the recurrence that a constraint is built once for: pixel MNIST."""

LARGEST = 512
"""The N up to which a constraint must cost less than `SHARE` of that recurrence."""

SHARE = 0.1


@dataclass(frozen=True)
class Row:
    """One constraint in the middle of training.

    Args:
        constraint: The constraint.
        step: An optimiser step on a copy of it, where it does some of its work there.
    """

    constraint: Constraint
    step: Callable[[], object] | None = None

    @property
    def recurrence(self) -> str:
        """Which of the two recurrences is its own."""
        return "complex recurrence" if self.constraint.is_complex else "real recurrence"

    @property
    def family(self) -> str | None:
        """Which alternatives there are, by the same map where there is one."""
        made = self.constraint
        if isinstance(made, Exponential):
            return "exponential" if made.raw.any() else "exponential at A = 0"
        if isinstance(made, ScaledCayley | MovingCayley | NeumannCayley):
            return "complex cayley" if made.is_complex else "cayley"
        if isinstance(made, Householder | BoundedSVD) and made.reflections == made.size:
            return "householder" if isinstance(made, Householder) else "bounded svd"
        return None


def build(make: nn.Module, G: Tensor) -> None:
    """Make W and bring a gradient back to the raw parameters, as a training step does."""
    make.zero_grad()
    W = make.weight if isinstance(make, nn.Linear) else make()
    W.backward(G)


def recur(N: int, dtype: torch.dtype) -> Callable[[], None]:
    """Return a run of the recurrence that brings the gradients of all states back."""
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
    """Make a constraint, and leave its start behind by four steps."""
    if "fft" in name:
        N = 1 << (N - 1).bit_length()  # the next power of two
    constraint = CONSTRAINTS[name](N)
    optimiser = torch.optim.Adam(constraint.parameters(), lr=0.01)
    for _ in range(4):
        build(constraint, torch.randn(N, N, dtype=constraint.dtype))
        optimiser.step()
    if not any(part.moves for part in constraint.modules() if isinstance(part, Constraint)):
        return Row(constraint)
    twin = copy.deepcopy(constraint)  # so that all rounds of the constraint find the same
    build(twin, torch.randn(N, N, dtype=constraint.dtype))
    optimiser = torch.optim.SGD(twin.parameters(), lr=1e-4)
    return Row(constraint, partial(_step, optimiser, twin))


def _step(optimiser: torch.optim.Optimizer, _followed: Constraint) -> None:
    """Take a step, and with it the one that a constraint takes as long as there is a use of it."""
    optimiser.step()


def alternatives(
    family: str,
    A: Tensor,  # (N, N), skew
) -> dict[str, nn.Module]:
    """Make what torch and geotorch have, with these raw parameters."""

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
    if family == "complex cayley":  # which geotorch has not
        return {"torch cayley, complex": registered(orthogonal, orthogonal_map="cayley")}
    if family == "cayley":
        return {
            "torch cayley": registered(orthogonal, orthogonal_map="cayley"),
            "geotorch cayley": registered(geotorch.orthogonal, triv="cayley"),
        }
    where = ", A = 0" if family.endswith("0") else ""
    return {
        f"torch matrix_exp{where}": registered(orthogonal, orthogonal_map="matrix_exp"),
        f"geotorch expm{where}": registered(geotorch.orthogonal, triv="expm"),
    }


def rivals(rows: dict[str, Row], N: int) -> dict[str, dict[str, nn.Module]]:
    """Make the alternatives of all families that there are among the rows."""
    made: dict[str, dict[str, nn.Module]] = {}
    for family in sorted({row.family for row in rows.values()} - {None}):
        members = [row.constraint for row in rows.values() if row.family == family]
        dtype = members[0].dtype
        A = torch.randn(N, N, dtype=dtype) * 0.5 / N**0.5
        A = A - A.mH
        if family.startswith("exponential"):
            # the shorter A is, the easier it is for them
            A = skew(min((m.raw.detach() for m in members), key=torch.linalg.vector_norm), N)
        made[family] = alternatives(family, A)
    return made


@dataclass(frozen=True)
class Cost:
    """What one constraint cost in all rounds, in milliseconds.

    Args:
        own: Its forward and backward.
        step: An optimiser step, if it does some of its work there.
        rivals: Its alternatives by name.
        recurrence: The recurrence that it serves, unless that was not timed.
    """

    own: Timing
    step: Timing | None
    rivals: dict[str, Timing]
    recurrence: Timing | None

    @property
    def share(self) -> float | None:
        """The median of its parts of the recurrence."""
        return None if self.recurrence is None else _over(self.own, self.recurrence).ratio

    @property
    def fastest(self) -> tuple[str, Timing] | None:
        """The fastest alternative, and our times over its own."""
        if not self.rivals:
            return None
        name = min(self.rivals, key=lambda name: self.rivals[name].median_ms)
        return name, _over(self.own, self.rivals[name])

    def misses(self, N: int) -> list[str]:
        """Say which targets are not reached."""
        found: list[str] = []
        if self.share is not None and N <= LARGEST and self.share > SHARE:
            found.append(f"{self.share:.1%} of the recurrence (at most {SHARE:.0%})")
        if self.fastest is not None and self.fastest[1].ratio > 1:
            name, ours = self.fastest
            found.append(f"{ours.ratio:.2f} times {name} (at most 1)")
        return found


def _over(own: Timing, other: Timing) -> Timing:
    pairs = zip(own.times_ms, other.times_ms, strict=True)
    return Timing(own.times_ms, tuple(a / b for a, b in pairs))


def measure(N: int, rounds: int, pattern: str = "", cpu: bool = False) -> dict[str, Cost]:
    """Time the constraints whose names contain the pattern, with all that they are held against.

    The complex recurrence is left out above `LARGEST`: it needs many gigabytes there.
    """
    clock = time.process_time if cpu else time.perf_counter
    torch.manual_seed(0)
    rows = {name: trained(name, N) for name in CONSTRAINTS if pattern in name}
    families = rivals(rows, N)
    contestants: dict[str, Callable[[], object]] = {"real recurrence": recur(N, torch.float32)}
    if N <= LARGEST and any(row.constraint.is_complex for row in rows.values()):
        contestants["complex recurrence"] = recur(N, torch.complex64)
    # the next one would pay for the caches that a recurrence leaves behind
    contestants["warm-up"] = partial(build, ScaledCayley(N), torch.randn(N, N))
    for name, row in rows.items():
        size, dtype = row.constraint.size, row.constraint.dtype
        contestants[name] = partial(build, row.constraint, torch.randn(size, size, dtype=dtype))
    steps = {f"{name}, step": row.step for name, row in rows.items() if row.step is not None}
    for made in families.values():
        for name, module in made.items():
            G = torch.randn(N, N, dtype=module.weight.dtype)
            contestants[name] = partial(build, module, G)
    timings = interleave({**contestants, **steps}, "real recurrence", rounds, clock)
    return {
        name: Cost(
            timings[name],
            timings.get(f"{name}, step"),
            {rival: timings[rival] for rival in families.get(row.family or "", {})},
            timings.get(row.recurrence),
        )
        for name, row in rows.items()
    }


def table(N: int, costs: dict[str, Cost]) -> Table:
    """Lay the costs of one size out."""
    timed = {cost.recurrence for cost in costs.values()} - {None}
    against = ", ".join(f"{ms:.0f} ms" for ms in sorted(each.median_ms for each in timed))
    title = f"N={N}: forward + backward; a recurrence at T={T}, B={B} (real, complex): {against}"
    made = Table(title=title, title_justify="left")
    made.add_column("constraint")
    for heading in ("median ms", "of recurrence", "mean step ms"):
        made.add_column(heading, justify="right")
    made.add_column("fastest alternative")
    for heading in ("ms", "ours / theirs", "quartiles"):
        made.add_column(heading, justify="right")
    for name, cost in costs.items():
        share = "" if cost.share is None else f"{cost.share:.1%}"
        step = "" if cost.step is None else f"{statistics.mean(cost.step.times_ms):.2f}"
        cells = [name, f"{cost.own.median_ms:.2f}", share, step]
        if cost.fastest is not None:
            rival, ours = cost.fastest
            low, high = ours.spread
            theirs = f"{cost.rivals[rival].median_ms:.2f}"
            cells += [rival, theirs, f"{ours.ratio:.2f}", f"{low:.2f} .. {high:.2f}"]
        made.add_row(*cells)
    return made


def main() -> None:
    """Print a table for each size, then name the rows that miss a target, and fail if any do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", choices=list(SIZES), default=[170, 512])
    parser.add_argument("--rounds", type=int, help=f"by default {SIZES} by size")
    parser.add_argument("--only", default="", help="a part of the names of the constraints")
    parser.add_argument("--cpu", action="store_true", help="processor time of a single thread")
    parser.add_argument("--json", type=Path, help="where to write all rounds")
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
    sys.exit("\n".join(["not reached:", *missed]) if missed else 0)


def _rounds(cost: Cost) -> dict[str, tuple[float, ...]]:
    kept = {"own": cost.own, "step": cost.step, "recurrence": cost.recurrence, **cost.rivals}
    return {name: timing.times_ms for name, timing in kept.items() if timing is not None}


if __name__ == "__main__":
    main()
