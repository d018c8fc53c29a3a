"""The reference of the LSTM is its formula. `test_recurrences.py` compares backends with it."""

import numpy as np
import pytest
import torch
from recurrence_cases import draw
from scipy.special import expit as sigmoid
from test_elman import assert_near

from eigenrnn.ops import lstm
from eigenrnn.ops.lstm.reference import LSTM
from kernel_testing import each_direction, each_raggedness, ragged_sizes

pytestmark = [pytest.mark.usefixtures("fresh_memory_is_poisoned"), pytest.mark.pairs]


def one_step(x, W, h, c):
    """Evaluate the formula of torch's documentation."""
    i, f, g, o = np.split(x + W @ h, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


@each_raggedness
@each_direction
def test_the_reference_runs_each_sequence_independently(reverse, ragged):
    T, B, N = 7, 3, 4
    tensors = draw(LSTM, (T, B, N))
    x, W, h0, c0 = (tensors[name].numpy() for name in ("x", "W", "h0", "c0"))
    states, last, cells = np.zeros((T, B, N)), np.zeros((B, N)), np.zeros((B, N))
    sizes = ragged_sizes(T, B) if ragged else [B] * T
    for k in range(B):
        length = sum(size > k for size in sizes)
        h, c = h0[k], c0[k]
        for t in reversed(range(length)) if reverse else range(length):
            h, c = one_step(x[t, k], W, h, c)
            states[t, k] = h
        last[k], cells[k] = h, c
    got = lstm(**tensors, backend="reference", reverse=reverse, batch_sizes=sizes)
    assert_near(got, map(torch.as_tensor, (states, last, cells)), torch.float64, T * N)
