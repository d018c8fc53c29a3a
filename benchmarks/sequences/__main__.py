"""Times the layers on this machine against torch's own: `python -m benchmarks.sequences`."""

import argparse
from pathlib import Path

from rich.console import Console

import eigenrnn
from benchmarks import sequences
from eigenrnn_experiments.files import write_json


def _size(text: str) -> sequences.Size:
    T, B, N = map(int, text.split(","))
    return T, B, N


parser = argparse.ArgumentParser(prog="python -m benchmarks.sequences", description=__doc__)
parser.add_argument("--sizes", nargs="+", type=_size, help="sizes T,B,N", default=sequences.SIZES)
parser.add_argument("--rounds", type=int, default=7, help="number of timed rounds, at least 2")
parser.add_argument(
    "--all",
    action="store_true",
    help="also time Python loops and measure memory, streaming and scaling; needs geotorch",
)
parser.add_argument("--keep", action="store_true", help="call eigenrnn.keep_freed_memory() first")
parser.add_argument("--json", type=Path, help="write all rounds to this file")
options = parser.parse_args()
console = Console()
if options.keep:
    eigenrnn.keep_freed_memory()


def after(found: sequences.Bench, size: sequences.Size | None) -> None:
    """Print the times of a size, and write all so far: an interrupted run keeps its results."""
    sequences.show(found, size, console)
    if options.json is not None:
        write_json(options.json, found.to_json())


with console.status("timing") as status:
    sequences.measure(
        options.sizes,
        options.rounds,
        slow=options.all,
        details=options.all,
        progress=status.update,
        after=after,
    )
