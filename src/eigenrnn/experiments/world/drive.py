"""One drive through gymnasium's CarRacing, with the actions of a random network."""

import importlib.util
import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenrnn.experiments.data.car_racing import ACTIONS, FRAME, ROLLOUT, Z_SIZE

__all__ = ["actions", "check_installed", "drive", "frame_of"]

_VISIBLE_ROWS = 84  # below them are the instruments
_LARGEST_SCALE = 0.01


def check_installed() -> None:
    """Refuse to begin without the environment.

    Raises:
        ImportError: If a package is not installed.
    """
    # Not imported here: see `_environment`.
    missing = [n for n in ("gymnasium", "Box2D", "pygame") if importlib.util.find_spec(n) is None]
    if missing:
        raise ImportError(
            f"expected {', '.join(missing)} to be installed, for the environment CarRacing; "
            "install it with: pip install 'eigenrnn[world]'"
        )


def actions(seed: int, number: int, steps: int) -> NDArray[np.float32]:  # (S, 3)
    r"""Draw the actions of a drive.

    .. math:: u_t = \tanh(W \epsilon_t + b), \qquad
        a_t = \left(u_{t1}, \tfrac{1}{2} (u_{t2} + 1), \max(u_{t3}, 0)\right)

    with standard normal :math:`\epsilon_t \in \mathbb{R}^{32}` and, for the whole drive, Cauchy
    distributed W and b, scaled by a number that is uniform below 0.01.

    Args:
        seed: The seed of the collection.
        number: The number of the drive, each of which has streams of its own.
        steps: How many to draw.

    Source:
        Ha and Schmidhuber, NeurIPS 2018, in their code (departures: there a whole random world
        model acts. Its autoencoder and recurrent network have weights of about 1e-6, so that
        what it reads is the noise of the former and, up to that size, nothing of the latter).
    """
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 0)))
    scale = generator.uniform(0, _LARGEST_SCALE)
    W = generator.standard_cauchy((ACTIONS, Z_SIZE)) * scale
    b = generator.standard_cauchy(ACTIONS) * scale
    noise = generator.standard_normal((steps, Z_SIZE))
    # Summed without a BLAS, whose order of adding depends on the machine.
    u = np.tanh(np.einsum("sz,az->sa", noise, W, optimize=False) + b)
    steering, gas, brake = u.T
    return np.stack([steering, (gas + 1) / 2, brake.clip(0)], axis=1).astype(np.float32)


def drive(seed: int, number: int, steps: int) -> NDArray[Any]:  # (S,), ROLLOUT
    """Record a drive: each frame, and what is done on seeing it.

    It goes on after the end of the lap, or off the field, as that of the authors does.

    Args:
        seed: The seed of the collection.
        number: The number of the drive; the track and the actions are functions of both.
        steps: How many to record.
    """
    rollout = np.zeros(steps, ROLLOUT)
    rollout["action"] = actions(seed, number, steps)
    environment = _environment()
    track = np.random.SeedSequence(seed, spawn_key=(number, 1)).generate_state(1)
    seen, _ = environment.reset(seed=int(track[0]))
    for step in range(steps):
        rollout["frame"][step] = frame_of(seen)
        if step + 1 < steps:
            seen = environment.step(rollout["action"][step])[0]
    environment.close()
    return rollout


def frame_of(seen: NDArray[np.uint8]) -> NDArray[np.uint8]:  # (96, 96, 3) -> (64, 64, 3)
    """Cut off the instruments, scale to 64 by 64, and invert the colours."""
    from PIL import Image

    visible = Image.fromarray(seen[:_VISIBLE_ROWS])
    scaled = visible.resize((FRAME[1], FRAME[0]), Image.Resampling.BILINEAR)
    return 255 - np.asarray(scaled)


def _environment() -> Any:
    # Nothing is shown, and a machine need not have a screen.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    with warnings.catch_warnings():
        # Box2D's bindings warn when they are imported, and crash where warnings are errors.
        warnings.simplefilter("ignore", DeprecationWarning)
        from gymnasium.envs.box2d.car_racing import CarRacing

    return CarRacing()
