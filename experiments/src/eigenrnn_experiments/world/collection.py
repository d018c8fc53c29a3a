"""Records drives in gymnasium's CarRacing, with the actions of random networks."""

import io
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from eigenrnn.errors import check_installed
from eigenrnn_experiments.console import plain_console
from eigenrnn_experiments.data import car_racing
from eigenrnn_experiments.files import read_json, write_atomically, write_json
from eigenrnn_experiments.tasks.base import check_at_least

__all__ = ["Collection", "preprocess_frame", "record_drive", "sample_actions"]


_VISIBLE_ROWS = 84  # the instruments are below them
_LARGEST_SCALE = 0.01


def sample_actions(seed: int, number: int, steps: int) -> NDArray[np.float32]:  # (S, 3)
    r"""Sample the actions of a drive.

    .. math:: u_t = \tanh(W \epsilon_t + b), \qquad
        a_t = \left(u_{t1}, \tfrac{1}{2} (u_{t2} + 1), \max(u_{t3}, 0)\right)

    with standard normal :math:`\epsilon_t \in \mathbb{R}^{32}`. W and b are fixed for a drive:
    Cauchy distributed, times a scale that is uniform in [0, 0.01).

    Args:
        seed: The seed of the collection.
        number: The number of the drive; each drive has its own random streams.
        steps: The number of actions.

    Source:
        Ha and Schmidhuber, NeurIPS 2018, in their code (departures: in their code a random world
        model drives. The weights of its autoencoder and its recurrent network are about 1e-6, so
        its input is the noise of the autoencoder, and the recurrent state is negligible).
    """
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 0)))
    scale = generator.uniform(0, _LARGEST_SCALE)
    W = generator.standard_cauchy((car_racing.ACTIONS, car_racing.Z_SIZE)) * scale
    b = generator.standard_cauchy(car_racing.ACTIONS) * scale
    noise = generator.standard_normal((steps, car_racing.Z_SIZE))
    # without BLAS, whose order of summation depends on the machine
    u = np.tanh(np.einsum("sz,az->sa", noise, W, optimize=False) + b)
    steering, gas, brake = u.T
    return np.stack([steering, (gas + 1) / 2, brake.clip(0)], axis=1).astype(np.float32)


def record_drive(seed: int, number: int, steps: int) -> NDArray[Any]:  # (S,), ROLLOUT
    """Record a drive: each frame, and the action that follows it.

    As in the code of the authors, the drive continues after the lap, or off the track.

    Args:
        seed: The seed of the collection.
        number: The number of the drive; the track and the actions are functions of both.
        steps: The number of steps.
    """
    rollout = np.zeros(steps, car_racing.ROLLOUT)
    rollout["action"] = sample_actions(seed, number, steps)
    import gymnasium

    environment = gymnasium.make("CarRacing-v3", disable_env_checker=True)
    track = np.random.SeedSequence(seed, spawn_key=(number, 1)).generate_state(1)
    observation, _ = environment.reset(seed=int(track[0]))
    for step in range(steps):
        rollout["frame"][step] = preprocess_frame(observation)
        if step + 1 < steps:
            observation = environment.step(rollout["action"][step])[0]
    environment.close()
    return rollout


def preprocess_frame(
    observation: NDArray[np.uint8],
) -> NDArray[np.uint8]:  # (96, 96, 3) -> (64, 64, 3)
    """Cut off the instruments, scale to 64 by 64, and invert the colours."""
    from PIL import Image

    visible = Image.fromarray(observation[:_VISIBLE_ROWS])
    scaled = visible.resize((car_racing.FRAME[1], car_racing.FRAME[0]), Image.Resampling.BILINEAR)
    return 255 - np.asarray(scaled)


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
        car_racing.split_slices(self.rollouts)
        check_at_least(self, 2, "steps")
        check_at_least(self, 0, "seed")

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
        return Path(self.folder) / car_racing.ENCODED

    def read(self, number: int) -> Any:
        """Memory-map a drive.

        Raises:
            ValueError: If the file is truncated or not a drive.
        """
        return car_racing.read_rollout(self.path(number), self.steps)

    def record(self, processes: int | None = None) -> None:
        """Record the missing drives; after an interruption another call records the rest.

        Each drive is written atomically. A script must call this under
        `if __name__ == "__main__":`, because the worker processes import the script.

        Args:
            processes: The number of processes, by default one per core; the drives do not depend
                on it.
        Raises:
            ImportError: If a package of the extra `world` is missing.
            ValueError: If the folder holds another collection.
        """
        packages = "gymnasium", "Box2D", "pygame", "PIL"
        check_installed("eigenrnn-experiments[world]", "the environment CarRacing", *packages)
        self._open_folder()
        missing = [number for number in range(self.rollouts) if not self.path(number).exists()]
        # spawned, not forked: the environment conflicts with libraries loaded by this process
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            done = pool.map(partial(_write, self), missing)
            console = plain_console(stderr=True)
            for _ in track(done, "recording drives", total=len(missing), console=console):
                pass

    def _open_folder(self) -> None:
        """Create the folder, or check that it belongs to the same collection.

        Raises:
            ValueError: If it does not.
        """
        folder = Path(self.folder)
        known = folder / "collection.json"
        # another version of the environment may drive differently with the same actions; without
        # the folder, which may be moved
        options = asdict(self) | {"environment": f"CarRacing of gymnasium {version('gymnasium')}"}
        del options["folder"]
        if known.exists():
            found = read_json(known)
            if found != options:
                raise ValueError(f"expected the collection {options} in {folder}, got {found}")
            return
        (folder / "rollouts").mkdir(parents=True, exist_ok=True)
        write_json(known, options)


def _write(collection: Collection, number: int) -> None:
    content = io.BytesIO()
    np.save(content, record_drive(collection.seed, number, collection.steps), allow_pickle=False)
    write_atomically(collection.path(number), content.getvalue())
