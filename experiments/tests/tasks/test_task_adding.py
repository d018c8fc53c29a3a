"""The adding problem, against a slow reference."""

import math

import pytest
import torch

from eigenrnn_experiments.tasks import Adding
from eigenrnn_experiments.tasks.adding import splitmix_uniforms
from eigenrnn_experiments.tasks.base import generator_for


def channels(batch, task):
    """The numbers and the mask, (B, T) each, as lists."""
    swapped = task.order == "mask_value"
    numbers, mask = (batch.inputs[:, :, channel].T for channel in ((1, 0) if swapped else (0, 1)))
    assert set(mask.flatten().tolist()) == {0.0, 1.0}
    return numbers.double().tolist(), mask.tolist()


@pytest.mark.parametrize("places", ["halves", "early_half", "anywhere"])
@pytest.mark.parametrize("order", ["value_mask", "mask_value"])
@pytest.mark.parametrize("length", [3, 7, 12])
def test_the_target_is_the_sum_of_the_two_marked_numbers(length, order, places):
    task = Adding(length, places, order)
    batch = task.batch(200, generator_for(0))
    for numbers, mask, (target,) in zip(
        *channels(batch, task), batch.targets.tolist(), strict=True
    ):
        marked = [number for number, mark in zip(numbers, mask, strict=True) if mark]
        assert len(marked) == 2
        assert target == pytest.approx(sum(marked), rel=1e-7)


def test_marks_are_uniform_over_their_places():
    early, late = Adding(10)._draw(50_000, generator_for(0))[1].T
    for counts in (early.bincount(), (late - 5).bincount()):
        assert counts.shape == (5,)
        assert (counts - 10_000).abs().max() < 5 * 10_000**0.5


def test_coinciding_marks_of_ornn_are_moved_one_step_apart():
    # With 4 steps, both are drawn among 3: the same one in a third of all sequences.
    one, other = Adding(4, "anywhere")._draw(30_000, generator_for(0))[1].T
    assert (one != other).all()
    pairs = (4 * one + other).bincount(minlength=16).view(4, 4) / 30_000
    expected = [[0, 2, 1, 0], [1, 0, 2, 0], [1, 1, 0, 1], [0, 0, 0, 0]]
    assert torch.allclose(pairs, torch.tensor(expected) / 9, atol=0.01)


def test_sums_are_rounded_from_the_exact_values():
    exact, rounded = (
        Adding(50, decimals=decimals).batch(500, generator_for(0)) for decimals in (None, 2)
    )
    assert torch.equal(exact.inputs[:, :, 1], rounded.inputs[:, :, 1])
    for before, after in [(exact.inputs, rounded.inputs), (exact.targets, rounded.targets)]:
        written = [float(f"{number:.2f}") for number in before.flatten().tolist()]
        assert after.flatten().tolist() == pytest.approx(written, abs=1e-6)
    summed = (rounded.inputs[:, :, 0] * rounded.inputs[:, :, 1]).sum(0)
    assert (summed - rounded.targets[:, 0]).abs().max() > 0.009  # not from the rounded ones


@pytest.mark.parametrize(
    "task", [Adding(40), Adding.orhan(40), Adding(40, decimals=5), Adding(40, "anywhere")]
)
def test_the_baseline_is_the_loss_of_the_constant_prediction_one(task):
    targets = task.batch(100_000, generator_for(0)).targets
    prediction = task.loss(torch.ones_like(targets), targets).item()
    assert task.baseline() == pytest.approx(0.167, abs=5e-4)
    # the squared error of the prediction has variance 1/15 - 1/36
    assert prediction == pytest.approx(task.baseline(), abs=4 * math.sqrt((7 / 180) / 100_000))


def test_the_accuracy_is_the_fraction_of_errors_below_a_twenty_fifth():
    task = Adding(5)
    targets = torch.ones(4, 1)
    outputs = torch.tensor([[1.03], [0.97], [1.05], [0.0]])
    figures = task.metrics_from_sums(task.metric_sums(outputs, targets).double())
    assert figures["accuracy"] == 0.5
    assert figures["loss"] == pytest.approx((0.0009 * 2 + 0.0025 + 1) / 4, rel=1e-5)


def test_a_hundred_thousand_long_sequences_are_stored_in_a_few_megabytes():
    kept = Adding.scornn(750)._fixed_examples("train")
    assert sum(each.nbytes for each in kept) < 3e6
    assert all(len(each) == 100_000 for each in kept)


def test_the_numbers_of_a_seed_equal_splitmix64():
    def slowly(seed, count):
        word = 2**64 - 1
        for _ in range(count):
            seed = (seed + 0x9E3779B97F4A7C15) & word
            z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & word
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
            yield ((z ^ (z >> 31)) >> 40) / 2**24

    seeds = [0, 1234567, -1, 2**63 - 1]
    numbers = splitmix_uniforms(torch.tensor(seeds), 50)
    assert numbers.T.tolist() == [[*slowly(seed % 2**64, 50)] for seed in seeds]
    # the first number that the authors' program prints for the seed 1234567
    assert numbers[0, 1].item() == pytest.approx(6457827717110365317 / 2**64, abs=2**-24)


def test_numbers_are_uniform_and_neighbouring_streams_independent():
    numbers = splitmix_uniforms(stream_of_seeds(1_000), 1_000)
    assert 0 <= numbers.min() < numbers.max() < 1
    counts = (numbers * 100).long().flatten().bincount(minlength=100)
    chi_squared = ((counts - 1e4).square() / 1e4).sum().item()
    assert chi_squared < 99 + 5 * math.sqrt(2 * 99)
    centred = numbers - 0.5
    for one, other in [
        (centred[1:], centred[:-1]),  # steps
        (centred[:, 1:], centred[:, :-1]),  # sequences
    ]:
        assert abs((one * other).mean().item() * 12) < 5 / 1e3


def stream_of_seeds(count):
    return Adding(2)._draw(count, generator_for(5))[0]
