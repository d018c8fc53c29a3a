"""Word problems of groups, against products of permutation matrices."""

import math

import numpy as np
import pytest
import torch

from eigenrnn_experiments.tasks import StateTracking
from eigenrnn_experiments.tasks.base import generator_for
from eigenrnn_experiments.tasks.state_tracking import group_elements, multiplication_table

ORDERS = {"Z2": 2, "Z3": 3, "Z7": 7, "S3": 6, "A4": 12, "S4": 24, "A5": 60, "S5": 120}
GROUPS = list(ORDERS)


def permutation_matrices(group):
    """Return P with P[k, g(k)] = 1 for each element g; then P_g P_h belongs to "g, then h"."""
    return [np.eye(len(element))[list(element)] for element in group_elements(group)]


def accuracies(task, correct):
    """Return the metrics of outputs that are correct where a mask (T, B) says so."""
    targets = torch.zeros(correct.shape, dtype=torch.int64)
    outputs = torch.nn.functional.one_hot((~correct).long(), task.output_size).float()
    return task.metrics_from_sums(task.metric_sums(outputs, targets).double())


@pytest.mark.parametrize("letters", ["elements", "generators"])
@pytest.mark.parametrize("group", GROUPS)
def test_targets_equal_products_of_permutation_matrices(group, letters):
    task = StateTracking(group, letters, length=30)
    batch = task.batch(5, generator_for(0))
    matrices = np.array(permutation_matrices(group))
    words = batch.inputs.argmax(-1).numpy()
    products = np.eye(matrices.shape[1])
    for letters_read, targets in zip(words, batch.targets.numpy(), strict=True):
        products = products @ matrices[np.array(task.letter_indices)[letters_read]]
        assert np.array_equal(products, matrices[targets])


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_has_its_order_a_neutral_element_and_inverses(group):
    table = multiplication_table(group)
    order = ORDERS[group]
    assert table.shape == (order, order)
    assert table[0].tolist() == table[:, 0].tolist() == list(range(order))
    assert all(sorted(row) == list(range(order)) for row in (*table, *table.T))


def test_parity_and_counting_are_sums():
    for order in (2, 7):
        batch = StateTracking(f"Z{order}", length=20).batch(8, generator_for(1))
        sums = batch.inputs.argmax(-1).cumsum(0) % order
        assert torch.equal(batch.targets, sums)


@pytest.mark.parametrize("group", [*GROUPS, "S2", "A3"])
def test_every_element_is_a_product_of_the_generators(group):
    matrices = permutation_matrices(group)
    letters = [matrices[i] for i in StateTracking(group, "generators").letter_indices]
    found = {letters[0].tobytes(): letters[0]}
    while True:
        products = [P @ Q for P in found.values() for Q in letters]
        larger = found | {P.tobytes(): P for P in products}
        if len(larger) == len(found):
            break
        found = larger
    assert np.array_equal(letters[0], np.eye(len(letters[0])))
    assert len(found) == len(matrices)


@pytest.mark.parametrize("letters", ["elements", "generators"])
@pytest.mark.parametrize("group", ["Z3", "S3"])
def test_the_baseline_is_the_loss_of_a_predictor_that_knows_only_the_step(group, letters):
    task = StateTracking(group, letters, 5)
    targets = task.batch(60_000, generator_for(0)).targets
    shares = torch.stack([(targets == g).float().mean(1) for g in range(task.output_size)], -1)
    probabilities = torch.from_numpy(task.product_probabilities(5)).float()
    assert torch.allclose(shares, probabilities, atol=0.01)
    outputs = shares.clamp_min(1e-30).log().unsqueeze(1).expand(-1, 60_000, -1)
    assert task.loss(outputs, targets).item() == pytest.approx(task.baseline(), rel=2e-3)


@pytest.mark.parametrize("group", GROUPS)
def test_products_of_all_elements_are_uniform(group):
    assert StateTracking(group).baseline() == pytest.approx(math.log(ORDERS[group]), rel=1e-12)


def test_training_words_are_short_and_held_out_words_long():
    task = StateTracking("S3", test_lengths=(40, 90), test_examples=12)
    lengths = {split: len(next(task.batches(split, 3)).inputs) for split in task.splits}
    assert lengths == {"train": 40, "validation": 90, "test": 90}


def test_the_accuracy_of_each_length_is_that_of_its_step():
    task = StateTracking("Z3", test_lengths=(1, 2, 4, 9))
    correct = torch.tensor([[1, 1], [1, 0], [0, 0], [1, 1]], dtype=torch.bool)
    metrics = accuracies(task, correct)
    assert metrics["accuracy"] == 5 / 8
    assert [metrics[f"accuracy_{n}"] for n in (1, 2, 4)] == [1, 0.5, 1]
    assert math.isnan(metrics["accuracy_9"])


@pytest.mark.parametrize(
    ("correct_of_ten", "longest"),
    [((10, 10, 9, 10), 2), ((10, 10, 10, 10), 4), ((9, 10, 10, 10), 0)],
)
def test_the_longest_length_ends_where_the_accuracy_falls_to_nine_tenths(correct_of_ten, longest):
    correct = torch.arange(10) < torch.tensor(correct_of_ten).unsqueeze(1)
    assert accuracies(StateTracking("Z3"), correct)["longest"] == longest
