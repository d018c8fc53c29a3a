"""Every row of every recipe: its published numbers and settings, and its first training losses."""

import json

import pytest
from reproduction.recipes import RECIPES
from shrunken import DISTINCT, PINS, ROWS, TRAINED, first_losses

from crossing import few
from eigenrnn.models import count_parameters
from eigenrnn_experiments.recipes import Computed, Quoted
from eigenrnn_experiments.tasks import Enwik8

LOSSES = json.loads(PINS.read_text())
COUNTS = {}  # the parameters of each full-size network
COMPUTED = {name: row for name, row in ROWS.items() if isinstance(row, Computed)}
COUNTED = [name for name, row in TRAINED.items() if not isinstance(row.task, Enwik8)]
# One row of each table trains in the short tests.
FIRST_ROWS = list({name.split(":")[0]: name for name in reversed(TRAINED)}.values())

# float32 and float64 differ by up to 6e-5 over 784 steps when nothing bounds the states
TOLERANCE = 5e-4
# with W = I and ELU the states grow with each of 784 pixels, and so does the difference
GROWING_STATES = "identity psMNIST"
LOOSE_TOLERANCE = 0.05


def test_labels_are_unique():
    assert len(ROWS) == sum(len(recipe.rows) for recipe in RECIPES.values())


def test_every_distinct_network_has_pinned_first_losses():
    """A row whose options change is another network than those that are pinned."""
    assert set(LOSSES) == set(DISTINCT)


@pytest.mark.usefixtures("data_root")
@few("name", {name: name for name in DISTINCT}, [name for name in FIRST_ROWS if name in DISTINCT])
def test_a_small_network_has_the_pinned_first_losses(name, tmp_path):
    tolerance = LOOSE_TOLERANCE if GROWING_STATES in name else TOLERANCE
    assert first_losses(name, tmp_path) == pytest.approx(LOSSES[name], rel=tolerance)


@pytest.mark.usefixtures("data_root")
@few("name", {name: name for name in COUNTED}, [name for name in COUNTED if name in FIRST_ROWS])
def test_a_full_size_network_has_the_stated_number_of_parameters(name):
    row = next(iter(TRAINED[name].points().values()))
    described = row.describe()
    key = json.dumps([described["network"], described["task"]])
    if key not in COUNTS:
        COUNTS[key] = count_parameters(row.build(0))
    assert COUNTS[key] == row.parameters


def test_no_training_is_a_row_of_two_recipes():
    names = {}
    for recipe in RECIPES.values():
        for row in recipe.trained:
            searched = [(axis.name, axis.values) for axis in row.grid]
            key = json.dumps([row.describe(), searched, recipe.plan(row).seeds])
            names.setdefault(key, []).append(f"{recipe.name}: {row.label}")
    assert [same for same in names.values() if len(same) > 1] == []


def test_a_row_without_a_printed_number_has_a_note():
    for name, row in ROWS.items():
        assert all(each.value is not None or each.note for each in row.reported), name


def test_a_quoted_number_names_its_source():
    quoted = {name: row for name, row in ROWS.items() if isinstance(row, Quoted)}
    assert quoted
    assert [n for n, row in quoted.items() if "quoted from" not in row.reported[0].note] == []


PRINTED = [
    name
    for name, row in COMPUTED.items()
    if row.reported[0].value is not None
    and "d=0.2" not in name  # the printed sums are ill-conditioned
]


@pytest.mark.parametrize("name", PRINTED)
def test_a_computed_number_has_the_printed_digits(name):
    row = COMPUTED[name]
    assert f"{row.compute():.3g}" == f"{row.reported[0].value:.3g}"


def test_a_row_and_its_quick_row_have_a_length():
    for row in TRAINED.values():
        for each in (row, row.quick()):
            assert each.settings.pace(each.task).steps > 0


def test_the_reported_quantities_are_measured():
    others = {"loss", "loss_mean", "success", "epoch_seconds"}
    for name, row in TRAINED.items():
        measured = others.union(row.task.metric_names)
        for reported in row.reported:
            assert reported.quantity in measured or reported.column is not None, name
            assert reported.split in ("train", *row.task.splits), name
