"""Every backend of the LSTM agrees with the reference in values and gradients."""

import numpy as np
import pytest
import torch
from scipy.special import expit as sigmoid
from test_elman import assert_near

from eigenrnn.init import haar_
from eigenrnn.ops import lstm
from kernel_testing import each_direction, each_raggedness, ragged_sizes

pytestmark = [pytest.mark.usefixtures("fresh_memory_is_poisoned"), pytest.mark.pairs]


def operands(T, B, N, dtype=torch.float64, *, seed=0):
    """Return x, W, h0 and c0."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def orthogonal():
        return haar_(torch.empty(N, N, dtype=torch.float64), generator=generator)

    W = torch.cat([orthogonal() for _ in range(4)])
    tensors = normal(T, B, 4 * N), W, normal(B, N), normal(B, N)
    return [tensor.to(dtype).requires_grad_() for tensor in tensors]


def options_of(T, B, *, reverse=False, ragged=False):
    return {"reverse": reverse, "batch_sizes": ragged_sizes(T, B) if ragged else None}


def one_step(x, W, h, c):
    """Evaluate the formula of torch's documentation."""
    i, f, g, o = np.split(x + W @ h, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


@each_raggedness
@each_direction
def test_the_reference_runs_each_sequence_independently(reverse, ragged):
    T, B, N = 7, 3, 4
    tensors, options = operands(T, B, N), options_of(T, B, reverse=reverse, ragged=ragged)
    x, W, h0, c0 = (tensor.detach().numpy() for tensor in tensors)
    states, last, cells = np.zeros((T, B, N)), np.zeros((B, N)), np.zeros((B, N))
    sizes = options["batch_sizes"] or [B] * T
    for k in range(B):
        length = sum(size > k for size in sizes)
        h, c = h0[k], c0[k]
        for t in reversed(range(length)) if reverse else range(length):
            h, c = one_step(x[t, k], W, h, c)
            states[t, k] = h
        last[k], cells[k] = h, c
    got = [each.detach() for each in lstm(*tensors, backend="reference", **options)]
    assert_near(got, map(torch.as_tensor, (states, last, cells)), torch.float64, T * N)
