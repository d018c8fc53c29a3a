"""Each row of each recipe: that it says what it must, and that it trains as it did."""

import json

import pytest

from eigenrnn.experiments.recipes import Computed, Quoted, Row
from eigenrnn.experiments.tasks import Enwik8
from eigenrnn.models import count_parameters
from shrunken import PINS, ROWS, TRAINED, first_losses

LOSSES = json.loads(PINS.read_text())
COMPUTED = {name: row for name, row in ROWS.items() if isinstance(row, Computed)}

# float32 and float64 part by up to 6e-5 over 784 steps without a norm to hold the states
TOLERANCE = 5e-4
# but where W is the identity and ELU lets the states grow with each of 784 pixels
GROWING = "identity psMNIST"


def test_labels_are_unique():
    from eigenrnn.experiments.registry import RECIPES

    assert len(ROWS) == sum(len(recipe.rows) for recipe in RECIPES.values())


def test_every_row_that_is_trained_has_its_first_losses_pinned():
    assert set(LOSSES) == set(TRAINED)


@pytest.mark.usefixtures("data_root")
@pytest.mark.parametrize("name", TRAINED)
def test_a_small_network_begins_with_the_known_losses(name, tmp_path):
    tolerance = 0.05 if GROWING in name else TOLERANCE
    assert first_losses(name, tmp_path) == pytest.approx(LOSSES[name], rel=tolerance)


@pytest.mark.usefixtures("data_root")
@pytest.mark.parametrize(
    "name", [name for name, row in TRAINED.items() if not isinstance(row.task, Enwik8)]
)
def test_a_network_of_full_size_has_the_stated_number_of_parameters(name):
    row = next(iter(TRAINED[name].points().values()))
    assert count_parameters(row.build(0)) == row.parameters


@pytest.mark.parametrize("name", ROWS)
def test_a_number_that_is_not_printed_says_why(name):
    reported = ROWS[name].reported
    assert reported.value is not None or reported.note


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if isinstance(row, Quoted)])
def test_a_quoted_number_says_from_whom(name):
    assert "quoted from" in ROWS[name].reported.note


PRINTED = [
    name
    for name, row in COMPUTED.items()
    if row.reported.value is not None and "d=0.2" not in name  # printed from ill-conditioned sums
]


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_computed_has_the_printed_digits(name):
    row = COMPUTED[name]
    assert f"{row.compute():.3g}" == f"{row.reported.value:.3g}"


@pytest.mark.parametrize("name", TRAINED)
def test_what_is_reported_is_measured(name):
    row: Row = TRAINED[name]
    known = {*row.task.figure_names, "loss", "loss_mean", "success", "epoch_seconds"}
    assert row.reported.quantity in known or row.reported.file is not None
    assert row.reported.split in ("train", *row.task.splits)
