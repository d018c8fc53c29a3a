"""The machines that the archived runs were made on."""

import re
from collections.abc import Sequence

from eigenrnn.experiments.results.archive import Archived

__all__ = ["Machines", "had_one_thread"]


class Machines:
    """Gives each machine a short name.

    Args:
        runs: All that are archived.
    """

    def __init__(self, runs: Sequence[Archived]) -> None:
        known = sorted({_described(run) for run in runs})
        self._names = {about: f"M{number}" for number, about in enumerate(known, start=1)}

    def lines(self) -> list[str]:
        """List them with what they are."""
        return [f"- {name}: {about}." for about, name in self._names.items()]

    def of(self, runs: Sequence[Archived]) -> str:
        """Name those of some runs."""
        return ", ".join(sorted({self._names[_described(run)] for run in runs}))


def had_one_thread(run: Archived) -> bool:
    """Whether a run computed on one thread, as far as that was recorded."""
    return re.search(r"\b1 threads?$", run.versions.get("processor", "")) is not None


def _described(run: Archived) -> str:
    known = run.versions
    platform = known.get("platform", "unknown system").partition("-")[0]
    machine = known.get("processor", f"processor not recorded ({platform})")
    machine = re.sub(r"\b1 (core|thread)s", r"1 \1", machine)  # as the first runs wrote it
    parts = [machine, *([known["gpu"]] if "gpu" in known else [])]
    software = (
        f"{name} {known[name]}" for name in ("eigenrnn", "torch", "python") if name in known
    )
    return f"{', '.join(parts)}; {', '.join(software)}"
