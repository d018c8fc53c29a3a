"""The tables and pictures of the runs on state tracking, from the archive."""

import itertools
import json
import math

import numpy as np
import pytest
import torch
from reproduction.archive import Archive
from reproduction.recipes import RECIPES
from reproduction.reflections import EVEN, LETTERS, ODD, Reflections, measure_reflections
from reproduction.state_tracking import (
    RADIUS,
    REFLECTIONS,
    eigenvalue_figure,
    length_figure,
    reflection_figure,
    table_of_networks,
    table_of_radii,
    tracked_rows,
)

from eigenrnn.layers import DeltaNet
from eigenrnn_experiments.tasks import StateTracking
from eigenrnn_experiments.training import RunKey
from recipes_for_results import archived_run

NAME, LABEL = "state_tracking/z2", "scoRNN 94 Z2"


def archived(point, seed, longest, accuracy, loss):
    """Return a run of scoRNN on Z2 that is equally accurate at all lengths."""
    row = next(row for row in RECIPES[NAME].rows if row.label == LABEL)
    row = row.points()[point].with_seed(seed)
    metrics = {"longest": longest, **{f"accuracy_{n}": accuracy for n in row.task.test_lengths}}
    return archived_run(
        row,
        RunKey(NAME, LABEL, point, seed),
        parameters=row.parameters,
        best={"test": metrics, "validation": {"accuracy": accuracy, "loss": loss}},
        last={"test": metrics | {"longest": longest - 10}},
        value=longest,
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
    assert (row.point, row.longest) == ("lr=0.01", [40, 41])
    assert {point: len(runs) for point, runs in row.runs_of_points.items()} == {
        "lr=0.003": 2,
        "lr=0.01": 2,
    }
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
    table = table_of_networks(rows)
    assert table.to_numpy().tolist() == [
        [LABEL, "4,843", "0.01", "40, 41", "62.5 %", "62.5 %", "62.5 %", "-0.250", "4"]
    ]


def test_the_table_of_the_radius_has_the_median_sizes_after_training_at_every_rate(tmp_path, rows):
    recipe = RECIPES[RADIUS]
    row = recipe.rows[0]
    archive = Archive(tmp_path / "radius")
    for rate in ("lr=0.001", "lr=0.01"):
        for seed, size in enumerate((1.0, 2.0, 9.0)):
            best = {"longest": 40.0 + seed}
            best |= {f"accuracy_{n}": 0.5 for n in row.task.test_lengths}
            sizes = {
                "radius_raw": size,
                "norm_raw": size + 1,
                "radius": size / 2,
                "norm": size / 4,
            }
            archive.add(
                archived_run(
                    row.points()[rate].with_seed(seed),
                    RunKey(recipe.name, row.label, rate, seed),
                    best={"test": best, "validation": {"accuracy": 0.5, "loss": 1.0}},
                    last={"test": {"longest": 20.0 + seed}},
                    curves={"evaluated": {n: [0.0, size] for n, size in sizes.items()}},
                )
            )
    table = table_of_radii([*rows, *tracked_rows(archive, RECIPES)])
    line = ["free, orthogonal start 72", "0.001", "40, 41, 42", "2.00", "3.00", "1.00", "0.50"]
    assert table.to_numpy().tolist() == [line, [line[0], "0.01", *line[2:]]]


def test_the_table_shows_longer_words_where_all_networks_read_them(tmp_path):
    recipe = RECIPES[REFLECTIONS]
    archive = Archive(tmp_path)
    for row in recipe.rows:
        metrics = {"longest": 600.0}
        metrics |= {f"accuracy_{n}": 1 / n for n in row.task.test_lengths}
        ((point, at_point),) = row.points().items()
        archive.add(
            archived_run(
                at_point.with_seed(0),
                RunKey(recipe.name, row.label, point, 0),
                parameters=row.parameters,
                best={"test": metrics, "validation": {"accuracy": 0.5, "loss": 1.0}},
                last={"test": metrics},
                value=600.0,
            )
        )
    table = table_of_networks(tracked_rows(archive, RECIPES))
    assert list(table)[4:8] == ["accuracy at 40", "at 100", "at 500", "at 2,000"]
    assert list(table["at 500"]) == ["0.2 %", "0.2 %"]


@pytest.fixture
def triangle():
    """A layer whose letters are a rotation by 120 degrees and a reflection of a plane."""
    layer = DeltaNet(3, 4, reflections=2, trainable_h0=True).double()
    (direction,) = layer.all_directions()
    angle = math.pi / 3
    first = {"neutral": [0, 0, 0, 1.0], "swap": [1.0, 0, 0, 0], "cycle": [1.0, 0, 0, 0]}
    second = {
        "neutral": [0, 0, 0, 1.0],
        "swap": [0, 0, 1.0, 0],
        "cycle": [math.cos(angle), math.sin(angle), 0, 0],
    }
    start = torch.zeros(4, 4, dtype=torch.float64)
    start[:2, 1] = torch.tensor([1.0, 0.3])  # no axis of a reflection
    with torch.no_grad():
        direction.weight_ih.zero_()
        for i, letter in enumerate(LETTERS):
            direction.weight_ih[4:8, i] = torch.tensor(first[letter])
            direction.weight_ih[8:12, i] = torch.tensor(second[letter])
        direction.weight_ih[20:22] = 100.0  # strengths
        direction.h0.copy_(start.flatten())
    return layer


def test_the_reflections_of_a_triangle_are_seen(triangle):
    entry = measure_reflections(triangle, StateTracking("S3", "generators"))
    found = Reflections.of(json.loads(json.dumps(entry)))
    assert entry["head"] == 0
    third = 2 * math.pi / 3
    np.testing.assert_allclose(np.abs(np.angle(found.eigenvalues["cycle"])), third, atol=1e-4)
    np.testing.assert_allclose(found.eigenvalues["swap"], -1, atol=1e-4)
    np.testing.assert_allclose(found.plane["neutral"], np.eye(2), atol=1e-4)
    swap = found.plane["swap"]
    np.testing.assert_allclose(swap @ swap, np.eye(2), atol=1e-3)
    assert np.linalg.det(swap) == pytest.approx(-1, abs=1e-3)
    corners = {name: points.mean(0) @ [1, 1j] for name, points in found.points.items()}
    for name, points in found.points.items():
        np.testing.assert_allclose(np.abs(points @ [1, 1j]), 1, atol=1e-3)
        np.testing.assert_allclose(points @ [1, 1j], corners[name], atol=1e-3)
    for names in (EVEN, ODD):
        turns = [corners[b] / corners[a] for a, b in itertools.pairwise((*names, names[0]))]
        np.testing.assert_allclose(turns, turns[0], atol=3e-3)
        assert np.abs(np.angle(turns[0])) == pytest.approx(third, abs=3e-3)


def test_the_picture_of_reflections_joins_the_corners_of_two_triangles(triangle):
    entry = measure_reflections(triangle, StateTracking("S3", "generators"))
    left, right = Reflections.of(entry).plot().axes[:2]
    assert [text.get_text() for text in left.get_legend().texts] == list(LETTERS)
    assert len(right.get_legend().texts) == 4
    columns = Reflections.of(entry).table()
    assert {len(column) for column in columns.values()} == {60}


def test_only_a_network_that_solved_its_problem_shows_its_reflections(tmp_path, triangle):
    recipe = RECIPES[REFLECTIONS]
    row = recipe.rows[0]
    ((point, at_point),) = row.points().items()
    entry = {"recipe": recipe.name, "row": row.label, "point": point, "lyapunov": 0.0}
    entry |= {"eigenvalues": []}
    entry["reflections"] = measure_reflections(triangle, StateTracking("S3", "generators"))
    spectra = tmp_path / "spectra.json"
    spectra.write_text(json.dumps([entry | {"seed": seed} for seed in (0, 1)]))
    for longest, is_shown in ((499.0, False), (500.0, True)):
        archive = Archive(tmp_path / str(longest))
        metrics = {"longest": longest, **{f"accuracy_{n}": 1.0 for n in row.task.test_lengths}}
        archive.add(
            archived_run(
                at_point.with_seed(0),
                RunKey(recipe.name, row.label, point, 0),
                parameters=row.parameters,
                best={"test": metrics, "validation": {"accuracy": 1.0, "loss": 0.0}},
                last={"test": metrics},
                value=longest,
            )
        )
        rows = tracked_rows(archive, RECIPES, spectra)
        assert (rows[0].reflections is not None) == is_shown
        if is_shown:
            assert reflection_figure(rows) is rows[0].reflections
        else:
            with pytest.raises(ValueError, match="solved S3"):
                reflection_figure(rows)


def test_the_figures_hold_the_numbers_of_the_archive(rows):
    accuracies = dict.fromkeys(rows[0].row.task.test_lengths, 0.625)
    assert length_figure(rows).panels == {"Z2": {"scoRNN 94": accuracies}}
    spectra = eigenvalue_figure(rows).panels["Z2"]
    assert np.abs(spectra["scoRNN 94"]).tolist() == [1, math.hypot(1, 0.5)]


@pytest.mark.long
def test_the_figures_of_the_archive_can_be_drawn():
    rows = tracked_rows(Archive(), RECIPES)
    titles = {row.title for row in rows}
    assert {"S3", "A5: constraints", "S3: delta rule, started at reflections"} <= titles
    assert len(titles) == len({row.recipe.name for row in rows})
    for figure in (length_figure(rows), eigenvalue_figure(rows)):
        assert figure.plot().axes
