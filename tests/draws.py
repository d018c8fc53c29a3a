"""Streams of random numbers, and what is drawn of them."""

import itertools

import torch


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=1, dtype=torch.float64):
    return torch.randn(shape, generator=stream(seed), dtype=dtype)


def first(batches, count):
    return list(itertools.islice(batches, count))
