"""Encoded drives that nobody drove, for tests of what is learnt from them."""

import numpy as np

from eigenrnn.experiments.data.car_racing import ACTIONS, ENCODED, Z_SIZE, Encoded


def encoded_drives(rollouts=30, steps=6):
    generator = np.random.default_rng(0)
    numbers = generator.standard_normal((rollouts, steps, 2 * Z_SIZE + ACTIONS), np.float32)
    mu, logvar, action = np.split(numbers, (Z_SIZE, 2 * Z_SIZE), axis=-1)
    means = np.linspace(-1, 1, Z_SIZE, dtype=np.float32)
    return Encoded(mu + means, logvar - 1, action)


def write_drives(folder, drives):
    (folder / ENCODED).write_bytes(drives.to_bytes())
    return folder
