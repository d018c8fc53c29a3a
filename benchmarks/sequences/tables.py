"""Prints the measurements of a benchmark as tables."""

from rich.console import Console
from rich.table import Table

from benchmarks.sequences.layers import GRUS, LSTMS, REFERENCE
from benchmarks.sequences.measure import Bench, Size

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
            lines: dict[str, str] = {}
            for count, ms in found.items():
                each_us = ms / count * 1e3
                lines[f"{count:,}"] = f"{ms:.2f} ms, {each_us:.1f} us each"
            _print(_pairs(f"forward + backward by {title}", lines), console)
    machine = ", ".join(f"{name} {value}" for name, value in bench.machine.items())
    console.print(machine, soft_wrap=True)
    console.print("No such machine in docs/speed.md? CONTRIBUTING.md says where to send this.")


def _print(table: Table, console: Console) -> None:
    if not console.is_terminal:  # a file or a pipe has no fixed width
        console = Console(file=console.file, width=_WIDTH)
    console.print(table)


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
    torch_lstm = LSTMS[0]
    torch_gru = GRUS[0]
    if name == REFERENCE:
        return ""
    if name in (torch_lstm, torch_gru):
        return f"{1 / timings[name].ratio:.2f} nn.RNN"
    if name in LSTMS:
        rivals = (torch_lstm,)
    elif name in GRUS:
        rivals = (torch_gru,)
    else:
        rivals = (REFERENCE, torch_lstm)
    share = bench.utilisation(size, name)
    comparisons: list[str] = []
    for rival in rivals:
        ratio = timings[rival].ratio / timings[name].ratio
        short_name = rival.removeprefix("torch.").removesuffix("(tanh)")
        comparisons.append(f"{ratio:.2f} ({ratio / share:.2f}) {short_name}")
    return ", ".join(comparisons)


def _pairs(title: str, found: dict[str, float] | dict[str, str]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in found.items():
        text = value
        if not isinstance(text, str):
            text = f"{text:.2f}"
        table.add_row(name, text)
    return table
