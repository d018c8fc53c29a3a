"""The denoising problem, against a slow reference, and its lower bound with collisions."""

import math

import pytest
import torch

from eigenrnn_experiments.tasks import Denoise
from eigenrnn_experiments.tasks.base import generator_for

TASKS = {
    "clean": Denoise(6, symbols=4, alphabet=5),
    "collisions": Denoise(3, symbols=4, alphabet=5, collisions=True),
    "zero-marker": Denoise(6, symbols=4, alphabet=5, marker="zero"),
    "as-nc-gru": Denoise.nc_gru(200),
}


@pytest.fixture(params=TASKS.values(), ids=TASKS.keys())
def task(request):
    return request.param


def input_codes(batch, task):
    """The input code of each step of each sequence."""
    if task.marker == "one_hot":
        assert torch.equal(batch.inputs.sum(-1), torch.ones(batch.inputs.shape[:2]))
        return batch.inputs.argmax(-1)
    marked = batch.inputs.sum(-1) == 0
    assert (marked.sum(0) == 1).all()
    return batch.inputs.argmax(-1).where(~marked, task.alphabet + 1)


def collate_slowly(symbols, places, task):
    """The input and the target of one sequence, constructed symbol by symbol."""
    read = [0] * (task.length + task.symbols - 1) + [task.alphabet + 1] + [0] * task.symbols
    for symbol, place in zip(symbols, places, strict=True):
        read[place] = symbol
    return read, [0] * (task.length + task.symbols) + symbols


def test_sequences_equal_a_construction_symbol_by_symbol(task):
    symbols, places = task._draw(50, generator_for(0))
    batch = task._collate((symbols, places))
    read = input_codes(batch, task)
    for b in range(50):
        expected = collate_slowly(symbols[b].tolist(), places[b].tolist(), task)
        assert (read[:, b].tolist(), batch.targets[:, b].tolist()) == expected


@pytest.mark.parametrize("collisions", [False, True])
def test_the_places_of_symbols_are_uniform(collisions):
    task = Denoise(6, symbols=4, collisions=collisions)
    _, places = task._draw(30_000, generator_for(0))
    assert torch.equal(places, places.sort().values)
    counts = places.flatten().bincount(minlength=9)
    assert (counts - 120_000 / 9).abs().max() < 5 * (120_000 / 9) ** 0.5


def test_the_marker_of_nc_gru_has_no_channel():
    task = Denoise.nc_gru(200)
    batch = task.batch(128, generator_for(0))
    assert batch.inputs.shape == (220, 128, 10)
    assert task.output_size == 10
    assert not batch.inputs[209].any()
    assert sum(batch.size for batch in task.batches("test", 50)) == 128


# the published baseline, and the share of sequences in which a symbol is lost
@pytest.mark.parametrize(
    ("length", "published", "share"), [(200, 0.0999, 0.198), (400, 0.0523, 0.106)]
)
def test_the_fraction_of_lost_symbols_of_nc_gru_is_as_computed(length, published, share):
    task = Denoise.nc_gru(length)
    assert task.baseline() == pytest.approx(published, abs=5e-5)
    _, places = task._draw(50_000, generator_for(0))
    lost = (places[:, 1:] == places[:, :-1]).any(1)
    assert lost.float().mean().item() == pytest.approx(share, abs=0.005)


def test_the_baseline_is_the_loss_of_a_predictor_without_memory(task):
    batch = task.batch(50, generator_for(0))
    outputs = torch.full((*batch.targets.shape, task.output_size), -1e4)
    outputs[: -task.symbols, :, 0] = 0
    outputs[-task.symbols :, :, 1:] = 0
    assert task.loss(outputs, batch.targets).item() == pytest.approx(task.baseline(), rel=1e-5)


def onto(many, few):
    """The number of surjections from a set of size `many` onto one of size `few`."""
    return sum((-1) ** i * math.comb(few, i) * (few - i) ** many for i in range(few + 1))


def optimal_predictor(batch, task):
    """The outputs of the optimal predictor given the visible symbols.

    D symbols are visible, each the last of those drawn for its place. The probability that the
    k-th of all K symbols is the visible one at the j-th place follows by counting the ways to
    draw the places.
    """
    K, A = task.symbols, task.alphabet
    outputs = torch.full((*batch.targets.shape, A + 1), -1e4)
    outputs[:-K, :, 0] = 0
    for b, codes in enumerate(input_codes(batch, task).T[:, : task.marker_index]):
        read = codes[codes > 0]
        D = len(read)
        probability = torch.tensor(
            [
                [
                    math.comb(K, k) * onto(k, j) * onto(K - k, D - j) / onto(K, D)
                    for j in range(1, D + 1)
                ]
                for k in range(1, K + 1)
            ]
        )
        known = probability @ torch.eye(A + 1)[read]
        known[:, 1:] += (1 - probability.sum(1, keepdim=True)).clamp(min=0) / A
        outputs[-K:, b] = known.clamp_min(1e-30).log()
    return outputs


@pytest.mark.long
def test_with_collisions_the_optimal_loss_is_above_zero():
    task = Denoise.nc_gru(200)
    batch = task.batch(2_000, generator_for(0))
    loss = task.loss(optimal_predictor(batch, task), batch.targets).item()
    # which symbol is lost is unknown, and a loss shifts all later symbols
    assert loss == pytest.approx(0.0070, abs=1e-3)  # four standard errors of 2,000 sequences


def test_without_collisions_the_optimal_loss_is_zero():
    task = TASKS["clean"]
    batch = task.batch(50, generator_for(0))
    assert task.loss(optimal_predictor(batch, task), batch.targets).item() == pytest.approx(
        0, abs=1e-6
    )
