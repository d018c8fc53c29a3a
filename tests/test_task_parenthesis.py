"""Counting brackets, against a slow second definition and the law of the counts."""

import itertools
import math

import numpy as np
import pytest
import torch

from eigenrnn.experiments.tasks import Parenthesis
from eigenrnn.experiments.tasks.parenthesis import clamped_walk
from eigenrnn.experiments.tasks.streams import stream

TASKS = {
    "nc-gru": Parenthesis.nc_gru(60),
    "nc-gru-text": Parenthesis.nc_gru_text(60),
    "entropy": Parenthesis(60, criterion="cross_entropy"),
    "low-cap": Parenthesis(60, types=1, noise=3, cap=1),
    "no-noise": Parenthesis(60, noise=0, cap=2),
    "few-pairs": Parenthesis(9, types=2, cap=6, pairs=4, criterion="cross_entropy"),
}


@pytest.fixture(params=TASKS.values(), ids=TASKS.keys())
def task(request):
    return request.param


def count_slowly(tokens, types, cap):
    """The open brackets of each type after each token, one by one."""
    counts, after = [0] * types, []
    for token in tokens:
        kind, closes = divmod(token, 2)
        if kind < types:
            counts[kind] = max(0, counts[kind] - 1) if closes else min(cap, counts[kind] + 1)
        after.append(counts.copy())
    return after


def test_targets_equal_those_counted_token_by_token(task):
    batch = task.batch(20, stream(0))
    assert torch.equal(batch.inputs.sum(-1), torch.ones(batch.inputs.shape[:2]))
    tokens = batch.inputs.argmax(-1)
    for b in range(20):
        expected = count_slowly(tokens[:, b].tolist(), task.types, task.cap)
        assert batch.targets[:, b].tolist() == expected


@pytest.mark.parametrize("highest", [1, 2, 5])
@pytest.mark.parametrize("steps", [1, 2, 3, 64, 65, 123, 126, 127, 1000])
def test_a_clamped_walk_equals_one_taken_step_by_step(steps, highest):
    moves = torch.randint(-1, 2, (steps, 50), generator=stream(0))
    moves[:, 0], moves[:, 1] = 1, -1
    place, places = torch.zeros(50, dtype=torch.int64), []
    for move in moves:
        place = (place + move).clamp(0, highest)
        places.append(place)
    walk = clamped_walk(moves.to(torch.int8).numpy(), highest)
    assert walk.tolist() == torch.stack(places).tolist()


def test_every_short_walk_between_two_walls_is_right():
    moves = np.array([*itertools.product((-1, 0, 1), repeat=7)], np.int8).T
    walks = clamped_walk(moves, 2).T.tolist()
    for path, walk in zip(moves.T.tolist(), walks, strict=True):
        place = 0
        assert walk == [place := min(2, max(0, place + move)) for move in path]


def test_the_code_of_nc_gru_reads_seven_tokens_and_answers_three_counts_up_to_five():
    task = Parenthesis.nc_gru(100)
    batch = task.batch(64, stream(0))
    assert batch.inputs.shape == (100, 64, 7)
    assert task.output_size == 18
    assert batch.targets.unique().tolist() == [0, 1, 2, 3, 4, 5]
    shares = batch.inputs.mean((0, 1))
    assert torch.allclose(shares, torch.full((7,), 1 / 7), atol=0.02)


def test_the_text_of_nc_gru_has_ten_pairs_each_opened_before_it_is_closed():
    task = Parenthesis.nc_gru_text(100)
    batch = task.batch(64, stream(0))
    opened = batch.inputs[:, :, 0:20:2].cumsum(0)
    closed = batch.inputs[:, :, 1:20:2].cumsum(0)
    assert (opened[-1] == closed[-1]).all()
    assert (opened[-1].sum(-1) == 10).all()
    assert torch.equal(opened - closed, batch.targets.float())
    assert (batch.inputs[:, :, 20].sum(0) == 80).all()


def test_pairs_are_at_places_that_are_uniform():
    task = Parenthesis(12, pairs=2)
    brackets = task.batch(30_000, stream(0)).inputs[:, :, :6].sum(-1)
    assert torch.allclose(brackets.mean(1), torch.full((12,), 4 / 12), atol=0.015)


@pytest.mark.parametrize("name", ["nc-gru", "low-cap", "no-noise"])
def test_the_shares_of_the_counts_are_those_of_the_chain(name):
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
    assert torch.allclose(task.shares(), torch.stack(shares), atol=1e-14)


def test_the_shares_of_the_counts_of_pairs_are_those_of_all_arrangements():
    task = Parenthesis(5, types=2, cap=3, pairs=2)
    counted = torch.zeros(5, 4, dtype=torch.float64)
    for a, b, c, d in itertools.permutations(range(5), 4):
        for kinds in itertools.product(range(2), repeat=2):
            tokens = [4] * 5
            for kind, ends in zip(kinds, (sorted((a, b)), sorted((c, d))), strict=True):
                tokens[ends[0]], tokens[ends[1]] = 2 * kind, 2 * kind + 1
            for t, (count, _) in enumerate(count_slowly(tokens, 2, 3)):
                counted[t, count] += 1
    assert torch.allclose(task.shares(), counted / (120 * 4), atol=1e-14)


def test_the_baseline_is_the_loss_of_a_guess_that_knows_the_step_alone(task):
    batch = task.batch(4_000, stream(0))
    shares = task.shares().float()
    guess = shares.clamp_min(1e-30).log() if task.criterion == "cross_entropy" else shares
    outputs = guess[:, None, :].repeat(1, 4_000, task.types)
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


def test_held_out_sets_are_kept_as_bytes():
    task = Parenthesis.nc_gru(100)
    (tokens,) = task._sets.fixed("test")
    assert tokens.shape == (1_000, 100)
    assert tokens.dtype == torch.uint8
    assert sum(batch.size for batch in task.batches("validation", 64)) == 200
    assert task.steps_per_epoch(16) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, r"expected length >= 1, got 0"),
        ({"types": 0}, r"expected types >= 1, got 0"),
        ({"noise": -1}, r"expected noise >= 0, got -1"),
        ({"pairs": 3, "noise": 0}, r"expected noise >= 1, got 0"),
        ({"cap": 0}, r"expected cap >= 1, got 0"),
        ({"types": 128}, r"expected 2 \* types \+ noise <= 256, got 257"),
        ({"length": 9, "pairs": 5}, r"expected 2 \* pairs <= length = 9, got 5 pairs"),
        ({"pairs": 6}, r"expected cap >= pairs = 6, got 5"),
        ({"criterion": "hinge"}, r"expected criterion to be 'squared_error' or .*, got 'hinge'"),
        ({"test_examples": 0}, r"expected test_examples >= 1, got 0"),
        ({"data_seed": -1}, r"expected data_seed >= 0, got -1"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Parenthesis(**options)
