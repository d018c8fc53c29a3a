"""The copying problem, against a slow reference and the table of published layouts."""

import itertools
import math

import pytest
import torch

from draws import first
from eigenrnn_experiments.tasks import Copying
from eigenrnn_experiments.tasks.base import generator_for

# constructor, argument, length, blanks before and after the marker, first recalled step
LAYOUTS = [
    ("scornn", 1000, 1020, 999, 10, 1010),
    ("scornn", 2000, 2020, 1999, 10, 2010),
    ("nnrnn", 200, 220, 199, 10, 210),
    ("orhan", 500, 500, 479, 10, 490),
    ("nc_gru", 1000, 1020, 1000, 9, 1010),
]
OPTIONS = [
    {"recall": recall, "coding": coding, "blank": blank}
    for recall in ("after", "at")
    for coding in ("one_hot", "scalar")
    for blank in ("first", "last")
]


def input_codes(batch, task):
    """The input code of each step of each sequence."""
    if task.coding == "scalar":
        return batch.inputs.squeeze(-1)
    assert torch.equal(batch.inputs.sum(-1), torch.ones(batch.inputs.shape[:2]))
    return batch.inputs.argmax(-1)


def collate_slowly(symbols, task):
    """The input and the target of one sequence, constructed step by step."""
    blank = 0 if task.blank == "first" else task.alphabet
    marker = task.alphabet + 1
    read = list(symbols)
    if task.recall == "after":
        read += [blank] * (task.delay - 1) + [marker] + [blank] * len(symbols)
    else:
        read += [blank] * task.delay + [marker] + [blank] * (len(symbols) - 1)
    target = []
    for step in range(len(read)):
        recalled = step - len(symbols) - task.delay
        target.append(blank if recalled < 0 else symbols[recalled])
    return read, target


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options.values()))
@pytest.mark.parametrize("delay", [1, 2, 7])
def test_sequences_equal_a_construction_step_by_step(delay, options):
    task = Copying(delay, symbols=3, alphabet=5, **options)
    batch = task.batch(4, generator_for(0))
    read = input_codes(batch, task)
    for b in range(4):
        symbols = [int(code) for code in read[:3, b]]
        expected_read, expected_target = collate_slowly(symbols, task)
        assert read[:, b].tolist() == expected_read
        assert batch.targets[:, b].tolist() == expected_target


@pytest.mark.parametrize(("paper", "argument", "length", "before", "after", "recalled"), LAYOUTS)
def test_constructors_have_the_layouts_of_the_papers(
    paper, argument, length, before, after, recalled
):
    task = getattr(Copying, paper)(argument)
    batch = task.batch(2, generator_for(0))
    read, target = input_codes(batch, task)[:, 0].tolist(), batch.targets[:, 0].tolist()
    marker, blank = 9, 0
    assert len(read) == task.length == length
    assert read[10:] == [blank] * before + [marker] + [blank] * after
    assert read.index(marker) == task.marker_index == 10 + before
    assert target == [blank] * recalled + read[:10]
    assert task.input_size == 10
    assert task.output_size == 9


@pytest.mark.parametrize(
    ("task", "published"),
    [
        (Copying(200), 0.0945),
        (Copying(1000), 0.0204),
        (Copying(2000), 0.0103),
        (Copying.orhan(500), 0.0416),
    ],
)
def test_the_baseline_is_the_published_one(task, published):
    assert task.baseline() == pytest.approx(published, abs=5e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options.values()))
def test_the_baseline_is_the_loss_of_a_predictor_without_memory(options):
    task = Copying(20, **options)
    batch = task.batch(50, generator_for(0))
    alphabet = slice(1, 9) if task.blank == "first" else slice(0, 8)
    prediction = torch.full((task.length, 50, task.output_size), -1e4)
    prediction[: -task.symbols, :, 0 if task.blank == "first" else 8] = 0
    prediction[-task.symbols :, :, alphabet] = 0
    assert task.loss(prediction, batch.targets).item() == pytest.approx(task.baseline(), rel=1e-5)


def test_the_loss_is_the_mean_cross_entropy_over_all_steps():
    task = Copying(4, symbols=2, alphabet=3)
    batch = task.batch(3, generator_for(0))
    outputs = torch.randn(task.length, 3, task.output_size, generator=generator_for(1))
    total = 0.0
    for t, b in itertools.product(range(task.length), range(3)):
        scores = outputs[t, b].tolist()
        total += math.log(sum(map(math.exp, scores))) - scores[batch.targets[t, b]]
    expected = total / (task.length * 3)
    assert task.loss(outputs, batch.targets).item() == pytest.approx(expected, rel=1e-6)


def test_fresh_training_sequences_are_never_seen_twice():
    seen = torch.cat(
        [batch.targets[-10:] for batch in first(Copying(3).batches("train", 50), 40)], 1
    )
    assert len(seen.unique(dim=1).T) == 2_000


def test_a_fixed_training_set_is_cycled_in_order_for_every_seed():
    task = Copying(3, train_examples=10)
    targets = [batch.targets for batch in first(task.batches("train", 4, seed=8), 6)]
    again = [batch.targets for batch in first(task.batches("train", 4, seed=9), 6)]
    assert [each.shape[1] for each in targets] == [4, 4, 2, 4, 4, 2]
    assert all(torch.equal(*pair) for pair in zip(targets[:3], again[3:], strict=True))


def test_a_shuffled_training_set_has_the_same_sequences_in_another_order():
    task = Copying(3, train_examples=10, shuffle=True)
    one, two = (batch.targets for batch in first(task.batches("train", 10), 2))
    assert not torch.equal(one, two)
    assert torch.equal(one.unique(dim=1), two.unique(dim=1))


def test_the_fixed_sets_are_disjoint_draws_of_the_data_seed():
    task, other = Copying(3, train_examples=50), Copying(3, train_examples=50, data_seed=1)
    train, validation, test = (next(task.batches(split, 50)).targets for split in task.splits)
    assert not torch.equal(train, test)
    assert not torch.equal(train, validation)
    assert not torch.equal(validation, test)
    assert not torch.equal(train, next(other.batches("train", 50)).targets)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"test_examples": 30}, 30),
        ({"test_examples": 10_000}, 200),
        ({"test_examples": 30, "validation_examples": 50}, 50),
    ],
)
def test_the_validation_set_has_the_size_of_the_test_set_up_to_a_limit(options, size):
    assert sum(batch.size for batch in Copying(3, **options).batches("validation", 64)) == size


def test_the_test_set_of_a_seed_is_pinned():
    (batch,) = Copying(1, symbols=4, test_examples=2).batches("test", 2)
    assert batch.targets[-4:].T.tolist() == [[8, 3, 5, 6], [2, 7, 2, 1]]


def test_an_epoch_is_one_pass_over_a_fixed_set_and_undefined_without_one():
    assert Copying.scornn(1000).steps_per_epoch(20) == 1_000
    assert Copying(3, train_examples=10).steps_per_epoch(4) == 3
    assert Copying(3).steps_per_epoch(4) is None


def test_fixed_sets_are_drawn_at_first_use_and_stored_as_their_symbols():
    task = Copying.scornn(1000)
    assert not task._stored
    next(task.batches("train", 20))
    assert task._stored.keys() == {"train"}
    (symbols,) = task._fixed_examples("train")
    assert symbols.shape == (20_000, 10)
    assert symbols.dtype == torch.uint8
