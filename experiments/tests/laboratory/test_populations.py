"""Populations of units: planted axes, planes at a known angle, and means of conditions."""

import math

import numpy as np
import pytest
import torch

from eigenrnn.analysis import fixed_points
from eigenrnn_experiments.laboratory import (
    condition_space,
    subspace_overlap,
    targeted_projection,
)


def planted(T=12, B=400, S=20, noise=0.1):
    generator = np.random.default_rng(2)
    motion, colour = generator.choice([-1.0, -0.5, 0.5, 1.0], (2, B))
    axes = np.linalg.qr(generator.normal(size=(S, 2)))[0].T
    ramp = np.linspace(0, 1, T)[:, None, None]
    states = ramp * (2 * motion[:, None] * axes[0] + colour[:, None] * axes[1])
    return states + noise * generator.normal(size=states.shape), motion, colour, axes


def test_a_targeted_projection_finds_planted_axes():
    states, motion, colour, axes = planted()
    found = targeted_projection(states, {"motion": motion, "colour": colour})
    assert (np.abs((found.axes * axes).sum(1)) > 0.99).all()
    np.testing.assert_allclose(found.axes @ found.axes.T, np.eye(2), atol=1e-12)
    assert found.peaks.min() >= 10
    along = found.project(states[-1])[:, 0]
    assert np.corrcoef(along, motion)[0, 1] > 0.99
    slope = np.linalg.lstsq(np.stack([motion, colour, np.ones(400)], 1), states[5], rcond=None)[0]
    difference = found.coefficients[5] - slope[:2]
    assert np.linalg.norm(difference) < np.linalg.norm(slope[:2]) * 0.1


def test_dependent_variables_are_refused():
    states, motion, _, _ = planted()
    with pytest.raises(ValueError, match="depend linearly"):
        targeted_projection(states, {"motion": motion, "again": 2 * motion})


def test_overlaps_of_planes_are_those_of_their_angles():
    generator = np.random.default_rng(0)
    first = generator.normal(size=(500, 2)) @ np.eye(2, 4)
    angle = 0.3
    turned = np.array([[1, 0, 0, 0], [0, math.cos(angle), math.sin(angle), 0]])
    second = generator.normal(size=(500, 2)) * [1, 2] @ turned
    found = subspace_overlap(first, second)
    np.testing.assert_allclose(found.angles, [0, angle], atol=1e-7)
    assert found.overlap == pytest.approx((1 + math.cos(angle) ** 2) / 2)
    C = np.cov(second.T, bias=True)
    assert found.alignment == pytest.approx((C[0, 0] + C[1, 1]) / np.linalg.eigvalsh(C)[-2:].sum())
    apart = subspace_overlap(first, generator.normal(size=(500, 2)) @ np.eye(2, 4, 2))
    assert apart.overlap == pytest.approx(0, abs=1e-12)
    assert apart.random == 0.5


def test_the_space_of_conditions_is_that_of_their_means():
    states, motion, _, axes = planted(noise=0.0)
    points = fixed_points(torch.nn.RNN(1, 20, bias=False), initial_states=1)
    found = condition_space(states, motion, points, dimensions=2)
    assert found.conditions.tolist() == [-1.0, -0.5, 0.5, 1.0]
    means = np.stack([states[:, motion == c].mean(1) for c in found.conditions], 1)
    np.testing.assert_allclose(found.project(means), found.trajectories, atol=1e-12)
    assert abs(found.axes[0] @ axes[0]) > 0.9
    spread = means - means.reshape(-1, 20).mean(0)
    share = (found.trajectories[..., 0] ** 2).sum() / (spread**2).sum()
    assert found.shares[0] == pytest.approx(share)
    assert len(found.plot().axes[0].lines) == 5
    table = found.table()
    last = [table[name][-1] for name in ("kind", "t", "component_1", "component_2")]
    assert last == ["point", -1, *found.points[0]]
    np.testing.assert_allclose(found.project(points.points), found.points, atol=1e-12)
    three = condition_space(
        states + 0.1 * np.random.default_rng(0).normal(size=states.shape), motion
    )
    assert three.plot().axes[0].name == "3d"


STATES = np.random.default_rng(0).normal(size=(4, 6, 3))
LABELS = [0, 0, 0, 1, 1, 1]


def test_tensors_of_any_precision_are_taken_as_numbers():
    states = torch.as_tensor(STATES, dtype=torch.bfloat16)
    found = condition_space(states.requires_grad_(), torch.tensor(LABELS), dimensions=2)
    expected = condition_space(states.detach().double().numpy(), LABELS, dimensions=2)
    np.testing.assert_array_equal(found.trajectories, expected.trajectories)


@pytest.mark.parametrize(
    "make",
    [
        lambda: subspace_overlap(np.eye(3, 4), np.eye(3, 4)),
        lambda: targeted_projection(planted()[0], {"motion": planted()[1]}),
        lambda: condition_space(planted()[0], planted()[1]),
    ],
)
def test_results_have_a_picture_and_a_table_of_equal_columns(make, tmp_path):
    result = make()
    assert all(path.stat().st_size for path in result.save(tmp_path / "result"))
    assert len({len(np.asarray(column)) for column in result.table().values()}) == 1
