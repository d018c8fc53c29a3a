"""Prints the measurements of a benchmark as tables."""

from rich.console import Console
from rich.table import Table

from eigenrnn.experiments.bench.layers import GRUS, LSTMS, REFERENCE
from eigenrnn.experiments.bench.measure import Bench, Size

__all__ = ["show"]

_WIDTH = 160


def show(bench: Bench, size: Size | None, console: Console) -> None:
    """Print the table of one size or, without a size, all other measurements."""
    if size is not None:
        _print(_of_size(bench, size), console)
        return
    if bench.peak:
        _print(_pairs("peak memory of forward + backward, in units of T B N", bench.peak), console)
    if bench.step_us:
        _print(_pairs("one step of one sequence, N=170, microseconds", bench.step_us), console)
    for title, found in (("T at B=20, N=190", bench.by_length), ("B at T=200", bench.by_batch)):
        if found:
            per = {f"{k:,}": f"{ms:.2f} ms, {ms / k * 1e3:.1f} us each" for k, ms in found.items()}
            _print(_pairs(f"forward + backward by {title}", per), console)
    machine = ", ".join(f"{name} {value}" for name, value in bench.machine.items())
    console.print(machine, soft_wrap=True)


def _print(table: Table, console: Console) -> None:
    # a file or a pipe has no fixed width
    wide = console if console.is_terminal else Console(file=console.file, width=_WIDTH)
    wide.print(table)


def _of_size(bench: Bench, size: Size) -> Table:
    T, B, N = size
    timings = bench.timings[size]
    title = f"T={T}, B={B}, N={N}: forward + backward, {bench.product_gflops[size]:.0f} Gflop/s"
    table = Table(title=title, title_justify="left")
    heads = ("layer", "median ms", "ratio quartiles", "times faster than", "tokens / s")
    for head in (*heads, "utilisation"):
        table.add_column(head, justify="left" if head == "layer" else "right")
    for name, timing in timings.items():
        low, high = timing.spread
        table.add_row(
            name,
            f"{timing.median_ms:.1f}",
            f"{low:.2f} .. {high:.2f}",
            _faster(bench, size, name),
            f"{T * B / timing.median_ms * 1e3:,.0f}",
            f"{bench.utilisation(size, name):.0%}",
        )
    return table


def _faster(bench: Bench, size: Size, name: str) -> str:
    """Say how many times faster a layer is than the layers of torch.

    In brackets is the factor at the rate of a general matrix product.
    """
    timings = bench.timings[size]
    others = (REFERENCE, LSTMS[0])
    if name in (REFERENCE, LSTMS[0], GRUS[0]):
        return "" if name == REFERENCE else f"{1 / timings[name].ratio:.2f} nn.RNN"
    faster = (
        (rival.removeprefix("torch."), timings[rival].ratio / timings[name].ratio)
        for rival in (LSTMS[:1] if name in LSTMS else GRUS[:1] if name in GRUS else others)
    )
    share = bench.utilisation(size, name)
    return ", ".join(
        f"{ratio:.2f} ({ratio / share:.2f}) {rival.removesuffix('(tanh)')}"
        for rival, ratio in faster
    )


def _pairs(title: str, found: dict[str, float] | dict[str, str]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in found.items():
        table.add_row(name, value if isinstance(value, str) else f"{value:.2f}")
    return table
