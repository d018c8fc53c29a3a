"""The tables and pictures of the runs on state tracking, from the archive."""

import json
import math

import numpy as np
import pytest
from reproduction.archive import Archive, ArchivedRun
from reproduction.state_tracking import (
    eigenvalue_figure,
    length_figure,
    table_columns,
    tracked_rows,
)

from eigenrnn.experiments.registry import RECIPES

NAME, LABEL = "state_tracking/z2", "scoRNN 94 Z2"


def archived(point, seed, longest, accuracy, loss):
    """Return a run of scoRNN on Z2 that is equally accurate at all lengths."""
    row = next(row for row in RECIPES[NAME].rows if row.label == LABEL)
    row = row.points()[point].with_seed(seed)
    metrics = {"longest": longest, **{f"accuracy_{n}": accuracy for n in row.task.test_lengths}}
    return ArchivedRun(
        *(NAME, LABEL, point, seed, "ended"),
        **row.describe(),
        parameters=row.parameters,
        best={"test": metrics, "validation": {"accuracy": accuracy, "loss": loss}},
        last={"test": metrics | {"longest": longest - 10}},
        value=longest,
        deciding=loss,
    )


@pytest.fixture
def rows(tmp_path):
    """The rows of two equally accurate rates with two seeds; the second has the lower loss."""
    archive = Archive(tmp_path)
    for point, loss in (("lr=0.003", 2.0), ("lr=0.01", 1.0)):
        for seed in (0, 1):
            archive.add(archived(point, seed, 40.0 + seed, 0.5 + seed / 4, loss))
    entry = {"recipe": NAME, "row": LABEL, "point": "lr=0.01", "seed": 0, "lyapunov": -0.25}
    spectra = tmp_path / "spectra.json"
    spectra.write_text(json.dumps([entry | {"eigenvalues": [[0.0, 1.0], [-1.0, 0.5]]}]))
    return tracked_rows(archive, RECIPES, spectra)


def test_a_row_shows_the_runs_of_the_rate_that_the_validation_set_prefers(rows):
    (row,) = rows
    assert (row.point, row.longest, row.runs_in_all) == ("lr=0.01", [40, 41], 4)
    assert set(row.accuracies().values()) == {0.625}
    assert row.exponents == [-0.25]
    assert np.array_equal(row.eigenvalues, [1j, -1 + 0.5j])


def test_the_accuracy_of_the_validation_set_counts_more_than_its_loss(tmp_path):
    archive = Archive(tmp_path)
    for point, accuracy, loss in (("lr=0.003", 0.9, 2.0), ("lr=0.01", 0.8, 1.0)):
        archive.add(archived(point, 0, 40.0, accuracy, loss))
    (row,) = tracked_rows(archive, RECIPES)
    assert row.point == "lr=0.003"


def test_the_table_has_one_line_for_each_network(rows):
    columns = table_columns(rows)
    assert [column[0] for column in columns.values()] == [
        *(LABEL, "4,843", "0.01", "40, 41", "30, 31", "62.5 %", "62.5 %", "62.5 %", "-0.250", "4")
    ]


def test_the_figures_hold_the_numbers_of_the_archive(rows):
    lengths, eigenvalues = length_figure(rows).table(), eigenvalue_figure(rows).table()
    assert lengths["length"].tolist() == list(rows[0].row.task.test_lengths)
    assert lengths["accuracy"].tolist() == [0.625] * 9
    assert eigenvalues["modulus"].tolist() == [1, math.hypot(1, 0.5)]
    assert eigenvalues["panel"].tolist() == [NAME] * 2
    assert eigenvalues["network"].tolist() == [LABEL] * 2


@pytest.mark.long
def test_the_figures_of_the_archive_can_be_drawn():
    rows = tracked_rows(Archive(), RECIPES)
    for figure in (length_figure(rows), eigenvalue_figure(rows)):
        assert figure.plot().axes
