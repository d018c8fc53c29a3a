"""Measures how far 100,000 optimiser steps in float32 take each matrix from its set.

Run with ``PYTHONPATH=tests python -m benchmarks.drift --folder runs/drift``. A set with a
record in the folder is not measured again.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from cases import CONFINED
from drift_walk import MEASURED_STEPS, OPTIMISERS, N, bound, walk

__all__ = ["main"]


def record(name: str, optimiser: str) -> dict[str, Any]:
    """Train one set and return the residuals by the number of steps."""
    start = time.perf_counter()
    residuals = dict(walk(CONFINED[name](N), optimiser))
    return {"residuals": residuals, "seconds": time.perf_counter() - start}


def table(folder: Path, optimiser: str) -> str:
    """Return the records in the folder as a Markdown table."""
    heads = ["set", *(f"after {k:,}" for k in MEASURED_STEPS), "largest", "bound"]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for name in CONFINED:
        path = folder / f"{name}.{optimiser}.json"
        if path.exists():
            residuals = json.loads(path.read_text())["residuals"]
            numbers = [
                *(residuals[str(k)] for k in MEASURED_STEPS),
                max(residuals.values()),
                bound(name),
            ]
            lines.append(
                "| "
                + " | ".join([f"`{name}`", *(f"{x:.1e}" if x else "0" for x in numbers)])
                + " |"
            )
    return "\n".join(lines)


def main() -> None:
    """Measure all sets, or the named ones, with one optimiser, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder of the records")
    parser.add_argument("--optimiser", choices=OPTIMISERS, default="Adam")
    parser.add_argument("names", nargs="*", help="names in tests/cases.py; all by default")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or CONFINED:
        path = options.folder / f"{name}.{options.optimiser}.json"
        if not path.exists():
            path.write_text(json.dumps(record(name, options.optimiser), indent=1))
    print(table(options.folder, options.optimiser))


if __name__ == "__main__":
    main()
