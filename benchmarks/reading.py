"""Measures how long `eigenrnn fit` takes to read a CSV table of 200 MB, and how much memory.

Run with ``python -m benchmarks.reading FOLDER``, which writes the tables into the folder. Each
reading runs in a process of its own. Its memory is the largest resident size above that after the
imports. `--megabytes` sets the size.
"""

import argparse
import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np

__all__ = ["main"]

CHANNELS, STEPS = 8, 400
MEGA = 1e6
KINDS = {
    "plain": "eight channels of four decimals",
    "time": "the same, with times, the rows of a sequence in random order",
    "short": "numbers of one digit",
    "gzip": "as plain, compressed",
}
CODE = """
import sys, time
import pandas
from eigenrnn_experiments.cli.own_tables import read_table, sequences_of

def peak():
    # that of getrusage survives exec, so it may be that of the parent process
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) * 1024

before = peak()
start = time.perf_counter()
busy = time.process_time()
table = read_table(sys.argv[1])
time_column = "time" if "time" in table else None
names = {"sequence": "sequence", "time": time_column, "target": "label", "group": None}
_, X, _ = sequences_of(table, {**names, "ignore": []})
seconds = time.perf_counter() - start
busy = time.process_time() - busy
print(len(X), sum(map(len, X)), seconds, busy, peak() - before)
"""


def write(path: Path, kind: str, size: float) -> None:
    """Write a table of about this number of bytes, uncompressed."""
    draw = np.random.default_rng(0)
    names = [f"c{k}" for k in range(CHANNELS)]
    heading = ["sequence"]
    if kind == "time":
        heading.append("time")
    heading += [*names, "label"]
    opened = gzip.open if kind == "gzip" else open
    with opened(path, "wt") as file:
        file.write(",".join(heading) + "\n")
        written = 0
        number = 0
        while written < size:
            values = draw.normal(20, 10, (STEPS, CHANNELS))
            form = "{:.0f}" if kind == "short" else "{:.4f}"
            unit = number
            lines = []
            for step, row in enumerate(values):
                time = [str(10 * step)] if kind == "time" else []
                cells = [form.format(v % 10 if kind == "short" else v) for v in row]
                lines.append(",".join([f"unit-{unit}", *time, *cells, f"class{unit % 5}"]))
            if kind == "time":
                lines = draw.permutation(lines).tolist()
            text = "\n".join(lines) + "\n"
            file.write(text)
            written += len(text)
            number += 1


def main() -> None:
    """Write the tables, and print what reading each takes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=float, default=200.0)
    arguments = parser.parse_args()
    print("| table | rows | elapsed | processor | memory, times the text |")
    print("|---|---:|---:|---:|---:|")
    for kind, description in KINDS.items():
        size = arguments.megabytes * MEGA
        path = arguments.folder / f"{kind}.csv{'.gz' if kind == 'gzip' else ''}"
        if not path.exists():
            write(path, kind, size)
        command = [sys.executable, "-c", CODE, str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        _, rows, seconds, busy, memory = map(float, done.stdout.split())
        print(
            f"| {description} | {rows:,.0f} | {seconds:.1f} s | {busy:.1f} s | "
            f"{memory / size:.2f} |"
        )


if __name__ == "__main__":
    main()
