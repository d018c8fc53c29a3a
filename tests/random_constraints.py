"""Constraints with random parameters, and functions to train and compare them."""

import copy

import numpy as np
import torch

from cases import Case
from draws import stream


def initialised(make, n=5, seed=0, dtype=torch.float32):
    with torch.random.fork_rng(devices=()):
        constraint = make(make.near(n) if isinstance(make, Case) else n)
    constraint.reset(stream(seed))
    return constraint.to(dtype)


@torch.no_grad()
def perturbed(make, n=5, seed=0, dtype=torch.float32):
    """A constraint with raw parameters away from their initialisation."""
    constraint = initialised(make, n, seed, dtype)
    for raw in constraint.parameters():
        raw.add_(torch.randn(raw.shape, generator=stream(seed + 1), dtype=dtype), alpha=0.3)
    return constraint


def exact(W):
    return torch.as_tensor(W).detach().to(torch.complex128)


def distance(W, V):
    return float(torch.linalg.norm(exact(W) - exact(V)))  # of all entries


def loss(constraint, k=0):
    W = constraint()
    dtype = torch.complex64 if W.is_complex() else torch.float32
    weights = torch.randn(W.shape, generator=stream(1000 + k), dtype=dtype)
    return (W * weights.to(W)).sum().real


def take_steps(constraint, optimiser, steps):
    for k in steps:
        optimiser.zero_grad()
        loss(constraint, k).backward()
        optimiser.step()


def to_empty(module):
    """Move a module off the meta device; its memory holds NaN, and the largest integers."""
    torch.use_deterministic_algorithms(True)
    module.to_empty(device="cpu")
    torch.use_deterministic_algorithms(False)
    return module


def state_of(constraint):
    return {name: copy.deepcopy(value) for name, value in constraint.state_dict().items()}


def assert_same_state(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def skew_entry_by_entry(raw, n):
    A = np.zeros((n, n))
    entries = iter(raw.tolist())
    for i in range(n):
        for j in range(i):
            A[i, j] = next(entries)
            A[j, i] = -A[i, j]
    return A
