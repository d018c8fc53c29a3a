"""Many drives, recorded in parallel into a folder."""

import io
import json
import os
import signal
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from eigenrnn.atomic import write_atomically
from eigenrnn.errors import check_positive_integer
from eigenrnn.experiments.data.car_racing import ENCODED, parts, read_rollout
from eigenrnn.experiments.training.interrupts import Interrupts
from eigenrnn.experiments.training.run_directory import write_json
from eigenrnn.experiments.world.drive import actions, check_installed, drive
from eigenrnn.experiments.world.progress import Counter

__all__ = ["Collection"]

_FORMAT = 1


@dataclass(frozen=True)
class Collection:
    """A folder of drives, each of which is a function of the seed and its number.

    =====================  ==========================================================
    `collection.json`      what was collected, and with which versions
    `rollouts/00042.npy`   drive 42: a frame and an action for each step
    `vae/`                 the run of the autoencoder
    `car_racing.npz`       the encoded drives, what the task reads
    =====================  ==========================================================

    Args:
        folder: Where it is or is to be.
        rollouts: The number of drives.
        steps: The number of steps of each.
        seed: The seed of all.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        >>> Collection("runs/car_racing", rollouts=300, steps=1_000).path(42).name
        '00042.npy'
    """

    folder: str | Path = field(compare=False, repr=False)
    rollouts: int = 300
    steps: int = 1_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive_integer("rollouts", self.rollouts)
        parts(self.rollouts)
        if self.steps < 2:
            raise ValueError(f"expected steps >= 2, got {self.steps}")
        if self.seed < 0:
            raise ValueError(f"expected seed >= 0, got {self.seed}")

    def path(self, number: int) -> Path:
        """Return the file of a drive."""
        return Path(self.folder) / "rollouts" / f"{number:05}.npy"

    @property
    def vae(self) -> Path:
        """The folder of the autoencoder's run."""
        return Path(self.folder) / "vae"

    @property
    def encoded(self) -> Path:
        """The file that the task reads."""
        return Path(self.folder) / ENCODED

    def read(self, number: int) -> Any:
        """Map a drive into memory.

        Raises:
            ValueError: If the file is cut off or holds something else.
        """
        return read_rollout(self.path(number), self.steps)

    def collect(self, processes: int | None = None, console: Console | None = None) -> bool:
        """Record the drives that are not there yet, and check those that are.

        Each is written whole or not at all. The first Ctrl-C ends the work after the drives in
        hand; calling this again goes on. A script must call it below `if __name__ == "__main__":`,
        as the processes begin by importing that script.

        Args:
            processes: How many to use, by default one for each core; the drives do not depend on
                it.
            console: Where to show progress, by default on standard error.

        Returns:
            Whether all drives are there now.

        Raises:
            ImportError: If the environment is not installed.
            ValueError: If the folder holds something else, or a drive is damaged or another.
            ChildProcessError: If a process ended by itself.
        """
        if processes is not None:
            check_positive_integer("processes", processes)
        check_installed()
        self._open()
        missing = [number for number in range(self.rollouts) if not self._is_there(number)]
        done = self.rollouts - len(missing)
        if not missing:
            return True
        workers = min(processes or _cores(), len(missing))
        with Counter(console, "recording drives", self.rollouts, done) as counter:
            return self._record(missing, workers, counter)

    def _record(self, missing: list[int], workers: int, counter: Counter) -> bool:
        # Started afresh, not forked: the environment must not meet what this process has loaded.
        context, left = get_context("spawn"), iter(missing)
        with (
            Interrupts() as interrupts,
            ProcessPoolExecutor(workers, context, initializer=_ignore_interrupts) as pool,
        ):
            # No more than are in hand: what waits in the queue of a pool cannot be taken back.
            running = {pool.submit(_write, self, number) for number in islice(left, workers)}
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    _check_written(each, self.folder)
                    counter.advance()
                if not interrupts.requested:
                    next_ones = islice(left, len(done))
                    running |= {pool.submit(_write, self, number) for number in next_ones}
        return all(self.path(number).exists() for number in missing)

    def _is_there(self, number: int) -> bool:
        path = self.path(number)
        if not path.exists():
            return False
        if not np.array_equal(self.read(number)["action"], actions(self.seed, number, self.steps)):
            raise ValueError(
                f"expected the actions of drive {number} with the seed {self.seed} in {path}, "
                "got other actions; delete the file and collect it again"
            )
        return True

    def _open(self) -> None:
        """Make the folder, or see that it is that of the same collection.

        Raises:
            ValueError: If it is not.
        """
        folder, facts = Path(self.folder), self._facts()
        known = folder / "collection.json"
        if known.exists():
            found = _facts_in(known)
            changed = [
                f"{name} {found.get(name)}, now {fact}"
                for name, fact in facts.items()
                if found.get(name) != fact
            ]
            if changed:
                raise ValueError(
                    f"expected the collection of {folder} to be the same, got "
                    f"{'; '.join(changed)}; name another folder"
                )
            return
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(
                f"expected an empty folder or a collection, got {folder} with other files in it"
            )
        (folder / "rollouts").mkdir(parents=True, exist_ok=True)
        write_json(known, facts)

    def _facts(self) -> dict[str, Any]:
        numbers = {name: fact for name, fact in asdict(self).items() if name != "folder"}
        environment = f"CarRacing of gymnasium {version('gymnasium')}"
        return {"format": _FORMAT, "environment": environment, **numbers}


def _facts_in(path: Path) -> dict[str, Any]:
    """Read what was collected.

    Raises:
        ValueError: If that cannot be read.
    """
    try:
        return dict(json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"expected the options of a collection in {path}, got {error}") from None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _write(collection: Collection, number: int) -> None:
    content = io.BytesIO()
    np.save(content, drive(collection.seed, number, collection.steps), allow_pickle=False)
    write_atomically(collection.path(number), content.getvalue())


def _check_written(drive: "Future[None]", folder: str | Path) -> None:
    """Raise what a process met.

    Raises:
        ChildProcessError: If the process ended by itself.
    """
    try:
        drive.result()
    except BrokenProcessPool:
        raise ChildProcessError(
            "expected every process to record its drives, got one that ended early (is there "
            f"enough memory?); the drives recorded so far are in {folder}"
        ) from None


def _ignore_interrupts() -> None:
    # Ctrl-C reaches all processes of a terminal; it is the first one that decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
