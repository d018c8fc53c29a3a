"""One drive in gymnasium's CarRacing, with the actions of a random network."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenrnn_experiments.data.car_racing import ACTIONS, FRAME, ROLLOUT, Z_SIZE

__all__ = ["preprocess_frame", "record_drive", "sample_actions"]

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
    W = generator.standard_cauchy((ACTIONS, Z_SIZE)) * scale
    b = generator.standard_cauchy(ACTIONS) * scale
    noise = generator.standard_normal((steps, Z_SIZE))
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
    rollout = np.zeros(steps, ROLLOUT)
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
    scaled = visible.resize((FRAME[1], FRAME[0]), Image.Resampling.BILINEAR)
    return 255 - np.asarray(scaled)
