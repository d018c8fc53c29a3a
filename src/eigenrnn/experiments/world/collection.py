"""Records many drives in parallel into a folder, with a progress bar."""

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
from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from eigenrnn.atomic import write_atomically
from eigenrnn.errors import check_installed, check_positive_integer
from eigenrnn.experiments.data.car_racing import ENCODED, read_rollout, split_slices
from eigenrnn.experiments.training.files import check_folder_path, read_text, write_json
from eigenrnn.experiments.training.progress import plain_console
from eigenrnn.experiments.training.signals import DeferredSignals
from eigenrnn.experiments.world.drive import record_drive, sample_actions

__all__ = ["Collection", "ProgressCounter"]


class ProgressCounter:
    """A progress bar on a terminal; elsewhere a line at each tenth.

    Args:
        console: The console; by default standard error.
        label: The name of the work.
        total: The number of items.
        done: The number of items that are finished already.
    """

    def __init__(self, console: Console | None, label: str, total: int, done: int = 0) -> None:
        self._console = console or plain_console(stderr=True)
        self._label = label
        self._total = total
        self._done = done
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self._console,
            disable=not self._console.is_interactive,
        )
        self._task = self._bar.add_task(label, total=total, completed=done)

    def advance(self) -> None:
        """Count one more finished item."""
        self._done += 1
        self._bar.update(self._task, completed=self._done)
        tenths = self._done * 10 // self._total
        if not self._console.is_interactive and tenths > (self._done - 1) * 10 // self._total:
            self._console.print(
                f"{self._label}: {self._done}/{self._total}", highlight=False, soft_wrap=True
            )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


_FORMAT = 1


@dataclass(frozen=True)
class Collection:
    """A folder of drives; each drive is a function of the seed and its number.

    =====================  ==========================================================
    `collection.json`      the options of the collection, and the versions
    `rollouts/00042.npy`   drive 42: a frame and an action for each step
    `vae/`                 the run of the autoencoder
    `car_racing.npz`       the encoded drives, the data file of the task
    =====================  ==========================================================

    Args:
        folder: The folder.
        rollouts: The number of drives.
        steps: The number of steps of a drive.
        seed: The seed.

    Raises:
        ValueError: If a number is out of range.

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
        split_slices(self.rollouts)
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
        """The data file of the task."""
        return Path(self.folder) / ENCODED

    def read(self, number: int) -> Any:
        """Memory-map a drive.

        Raises:
            ValueError: If the file is truncated or not a drive.
        """
        return read_rollout(self.path(number), self.steps)

    def record(self, processes: int | None = None, console: Console | None = None) -> bool:
        """Record the missing drives, and check the recorded ones.

        Each drive is written atomically. After the first Ctrl-C the drives in progress are
        finished; another call resumes. A script must call this under
        `if __name__ == "__main__":`, because the worker processes import the script.

        Args:
            processes: The number of processes, by default one per core; the drives do not depend
                on it.
            console: The console for progress; by default standard error.

        Returns:
            Whether all drives are recorded.

        Raises:
            ImportError: If a package of the extra `world` is missing.
            ValueError: If the folder holds other files, or a drive is damaged or a different one.
            ChildProcessError: If a process crashed.
        """
        if processes is not None:
            check_positive_integer("processes", processes)
        packages = "gymnasium", "Box2D", "pygame", "PIL"
        check_installed("world", "the environment CarRacing", *packages)
        self._prepare_folder()
        missing = [number for number in range(self.rollouts) if not self._is_recorded(number)]
        done = self.rollouts - len(missing)
        if not missing:
            return True
        workers = min(processes or _cores(), len(missing))
        with ProgressCounter(console, "recording drives", self.rollouts, done) as counter:
            return self._record(missing, workers, counter)

    def _record(self, missing: list[int], workers: int, counter: ProgressCounter) -> bool:
        # spawned, not forked: the environment conflicts with libraries loaded by this process
        context = get_context("spawn")
        remaining = iter(missing)
        with (
            DeferredSignals() as signals,
            ProcessPoolExecutor(workers, context, initializer=_ignore_interrupts) as pool,
        ):
            # submit only as many as there are workers: queued drives could not be cancelled
            running = {pool.submit(_write, self, number) for number in islice(remaining, workers)}
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    _raise_worker_error(each, self.folder)
                    counter.advance()
                if not signals.received:
                    next_ones = islice(remaining, len(done))
                    running |= {pool.submit(_write, self, number) for number in next_ones}
        return all(self.path(number).exists() for number in missing)

    def _is_recorded(self, number: int) -> bool:
        path = self.path(number)
        if not path.exists():
            return False
        if not np.array_equal(
            self.read(number)["action"], sample_actions(self.seed, number, self.steps)
        ):
            raise ValueError(
                f"expected the actions of drive {number} with the seed {self.seed} in {path}, "
                "got other actions; delete the file and collect it again"
            )
        return True

    def _prepare_folder(self) -> None:
        """Create the folder, or check that it belongs to the same collection.

        Raises:
            ValueError: If it does not.
        """
        folder = Path(self.folder)
        check_folder_path(folder)
        config = self._config()
        known = folder / "collection.json"
        if known.exists():
            found = _read_config(known)
            changed: list[str] = []
            for name, value in config.items():
                if found.get(name) != value:
                    changed.append(f"{name} {found.get(name)}, now {value}")
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
        write_json(known, config)

    def _config(self) -> dict[str, Any]:
        # without the folder, which may be moved
        numbers = {name: value for name, value in asdict(self).items() if name != "folder"}
        # another version of the environment may drive differently with the same actions
        environment = f"CarRacing of gymnasium {version('gymnasium')}"
        return {"format": _FORMAT, "environment": environment, **numbers}


def _read_config(path: Path) -> dict[str, Any]:
    """Read the options of a collection.

    Raises:
        ValueError: If the file is damaged.
    """
    try:
        return dict(json.loads(read_text(path)))
    except (ValueError, TypeError) as error:
        raise ValueError(f"expected the options of a collection in {path}, got {error}") from None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _write(collection: Collection, number: int) -> None:
    content = io.BytesIO()
    np.save(content, record_drive(collection.seed, number, collection.steps), allow_pickle=False)
    write_atomically(collection.path(number), content.getvalue())


def _raise_worker_error(drive: "Future[None]", folder: str | Path) -> None:
    """Raise the error of a worker process, if any.

    Raises:
        ChildProcessError: If the process crashed.
    """
    try:
        drive.result()
    except BrokenProcessPool:
        raise ChildProcessError(
            "expected every process to record its drives, got one that ended early (is there "
            f"enough memory?); the drives recorded so far are in {folder}"
        ) from None


def _ignore_interrupts() -> None:
    # Ctrl-C reaches all processes of a terminal; only the parent handles it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
