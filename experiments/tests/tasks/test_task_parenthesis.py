"""Counting brackets, against a slow reference and the distribution of the counts."""

import itertools
import math

import numpy as np
import pytest
import torch

from eigenrnn_experiments.tasks import Parenthesis
from eigenrnn_experiments.tasks.base import generator_for
from eigenrnn_experiments.tasks.parenthesis import clamped_walk

TASKS = {
    "nc-gru": Parenthesis.nc_gru(60),
    "nc-gru-text": Parenthesis(60, types=10, cap=10, pairs=10),
    "entropy": Parenthesis(60, criterion="cross_entropy"),
    "low-cap": Parenthesis(60, types=1, noise=3, cap=1),
    "no-noise": Parenthesis(60, noise=0, cap=2),
    "few-pairs": Parenthesis(9, types=2, cap=6, pairs=4, criterion="cross_entropy"),
}


@pytest.fixture(params=TASKS.values(), ids=TASKS.keys())
def task(request):
    return request.param


def count_slowly(tokens, types, cap):
    """The number of open brackets of each type after each token."""
    counts, after = [0] * types, []
    for token in tokens:
        kind, closes = divmod(token, 2)
        if kind < types:
            counts[kind] = max(0, counts[kind] - 1) if closes else min(cap, counts[kind] + 1)
        after.append(counts.copy())
    return after


def test_targets_equal_a_count_token_by_token(task):
    batch = task.batch(20, generator_for(0))
    assert torch.equal(batch.inputs.sum(-1), torch.ones(batch.inputs.shape[:2]))
    tokens = batch.inputs.argmax(-1)
    for b in range(20):
        expected = count_slowly(tokens[:, b].tolist(), task.types, task.cap)
        assert batch.targets[:, b].tolist() == expected


@pytest.mark.parametrize("highest", [1, 2, 5])
@pytest.mark.parametrize("steps", [1, 2, 3, 64, 65, 123, 126, 127, 1000])
def test_a_clamped_walk_equals_a_sequential_walk(steps, highest):
    moves = torch.randint(-1, 2, (steps, 50), generator=generator_for(0))
    moves[:, 0], moves[:, 1] = 1, -1
    place, places = torch.zeros(50, dtype=torch.int64), []
    for move in moves:
        place = (place + move).clamp(0, highest)
        places.append(place)
    walk = clamped_walk(moves.to(torch.int8).numpy(), highest)
    assert walk.tolist() == torch.stack(places).tolist()


def test_every_short_clamped_walk_is_correct():
    moves = np.array([*itertools.product((-1, 0, 1), repeat=7)], np.int8).T
    walks = clamped_walk(moves, 2).T.tolist()
    for path, walk in zip(moves.T.tolist(), walks, strict=True):
        place = 0
        assert walk == [place := min(2, max(0, place + move)) for move in path]


def test_the_code_of_nc_gru_has_seven_tokens_and_three_counts_up_to_five():
    task = Parenthesis.nc_gru(100)
    batch = task.batch(64, generator_for(0))
    assert batch.inputs.shape == (100, 64, 7)
    assert task.output_size == 18
    assert batch.targets.unique().tolist() == [0, 1, 2, 3, 4, 5]
    shares = batch.inputs.mean((0, 1))
    assert torch.allclose(shares, torch.full((7,), 1 / 7), atol=0.02)


def test_the_text_of_nc_gru_has_ten_pairs_each_opened_before_it_is_closed():
    task = Parenthesis(100, types=10, cap=10, pairs=10)
    batch = task.batch(64, generator_for(0))
    opened = batch.inputs[:, :, 0:20:2].cumsum(0)
    closed = batch.inputs[:, :, 1:20:2].cumsum(0)
    assert (opened[-1] == closed[-1]).all()
    assert (opened[-1].sum(-1) == 10).all()
    assert torch.equal(opened - closed, batch.targets.float())
    assert (batch.inputs[:, :, 20].sum(0) == 80).all()


def test_the_places_of_pairs_are_uniform():
    task = Parenthesis(12, pairs=2)
    brackets = task.batch(30_000, generator_for(0)).inputs[:, :, :6].sum(-1)
    assert torch.allclose(brackets.mean(1), torch.full((12,), 4 / 12), atol=0.015)


@pytest.mark.parametrize("name", ["nc-gru", "low-cap", "no-noise"])
def test_the_count_probabilities_equal_those_of_the_markov_chain(name):
    task = TASKS[name]
    inward = 1 / task.input_size
    share, shares = torch.zeros(task.cap + 1, dtype=torch.float64), []
    share[0] = 1
    for _ in range(task.length):
        up, down = share * inward, share * inward
        share = share - up - down
        share[1:] += up[:-1]
        share[:-1] += down[1:]
        share[-1] += up[-1]
        share[0] += down[0]
        shares.append(share)
    assert torch.allclose(task.count_probabilities(), torch.stack(shares), atol=1e-14)


def test_the_count_probabilities_of_pairs_equal_an_enumeration():
    task = Parenthesis(5, types=2, cap=3, pairs=2)
    counted = torch.zeros(5, 4, dtype=torch.float64)
    for a, b, c, d in itertools.permutations(range(5), 4):
        for kinds in itertools.product(range(2), repeat=2):
            tokens = [4] * 5
            for kind, ends in zip(kinds, (sorted((a, b)), sorted((c, d))), strict=True):
                tokens[ends[0]], tokens[ends[1]] = 2 * kind, 2 * kind + 1
            for t, (count, _) in enumerate(count_slowly(tokens, 2, 3)):
                counted[t, count] += 1
    assert torch.allclose(task.count_probabilities(), counted / (120 * 4), atol=1e-14)


def test_the_baseline_is_the_loss_of_a_predictor_that_knows_only_the_step(task):
    batch = task.batch(4_000, generator_for(0))
    shares = task.count_probabilities().float()
    prediction = shares.clamp_min(1e-30).log() if task.criterion == "cross_entropy" else shares
    outputs = prediction[:, None, :].repeat(1, 4_000, task.types)
    assert task.loss(outputs, batch.targets).item() == pytest.approx(task.baseline(), rel=0.01)


@pytest.mark.parametrize(("length", "published"), [(100, 0.1310), (200, 0.1349), (10**5, 5 / 36)])
def test_the_baseline_of_nc_gru_approaches_that_of_a_uniform_count(length, published):
    assert Parenthesis.nc_gru(length).baseline() == pytest.approx(published, abs=5e-5)


def test_the_squared_error_is_the_mean_over_all_outputs():
    task = Parenthesis(2, types=2, cap=1)
    targets = torch.tensor([[[0, 1]], [[1, 1]]])
    outputs = torch.tensor([[[0.5, 0.0, 0.0, 1.0]], [[0.0, 1.0, 2.0, 1.0]]])
    assert task.loss(outputs, targets).item() == pytest.approx((0.25 + 4) / 8)
    assert task.metric(outputs, targets).item() == 0.75


def test_the_cross_entropy_is_the_mean_over_the_counts():
    task = Parenthesis(2, types=2, cap=1, criterion="cross_entropy")
    targets = torch.tensor([[[0, 1]], [[1, 1]]])
    outputs = torch.tensor([[[0.0, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0, math.log(3)]]])
    expected = (3 * math.log(2) + math.log(4 / 3)) / 4
    assert task.loss(outputs, targets).item() == pytest.approx(expected)


def test_held_out_sets_are_stored_as_bytes():
    task = Parenthesis.nc_gru(100)
    (tokens,) = task._fixed_examples("test")
    assert tokens.shape == (1_000, 100)
    assert tokens.dtype == torch.uint8
    assert sum(batch.size for batch in task.batches("validation", 64)) == 200
    assert task.steps_per_epoch(16) is None
