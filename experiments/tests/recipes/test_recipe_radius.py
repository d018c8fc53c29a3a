"""The experiment on the spectral radius: where W starts, and what bounds it."""

import pytest
import torch
from reproduction.studies.state_tracking_radius import RECIPES, RadiusCallback

(RECIPE,) = RECIPES


def constraint_of(label):
    row = RECIPE.row(f"{label} 72 A5")
    (direction,) = row.build(0).layer.all_directions()
    return direction.constraint


def radius(W):
    return float(torch.linalg.eigvals(W.detach()).abs().max())


def largest(W):
    return float(torch.linalg.svdvals(W.detach())[0])


@pytest.mark.parametrize("row", RECIPE.rows, ids=lambda row: row.label)
def test_the_label_says_where_a_matrix_starts(row):
    W = constraint_of(row.label.removesuffix(" 72 A5"))()
    if "orthogonal start" in row.label:
        assert torch.allclose(W @ W.T, torch.eye(72), atol=1e-5)
    else:
        torch.testing.assert_close(W, constraint_of("SpectralRadius, small start")())
        assert 0.9 < radius(W) < 1.0


@pytest.mark.parametrize(
    ("label", "radius_of_double", "norm_of_double"),
    [
        ("free, orthogonal start", 2.0, 2.0),
        ("SpectralRadius, orthogonal start", 1.0, 1.0),
        ("penalty, small start", None, None),
        ("spectral norm, small start", None, 1.0),
    ],
)
def test_what_bounds_a_matrix_that_grows(label, radius_of_double, norm_of_double):
    constraint = constraint_of(label)
    with torch.no_grad():
        constraint.raw.mul_(2.0)
    if radius_of_double is not None:
        assert radius(constraint()) == pytest.approx(radius_of_double, rel=1e-4)
    if norm_of_double is not None:
        assert largest(constraint()) == pytest.approx(norm_of_double, rel=1e-4)
    expected = (radius(constraint.raw) - 1) ** 2 if label.startswith("penalty") else 0.0
    assert float(constraint.penalty().detach()) == pytest.approx(expected, rel=1e-4)


def test_the_callback_measures_the_raw_matrix_and_w():
    row = RECIPE.row("SpectralRadius, orthogonal start 72 A5")
    model = row.build(0)
    (direction,) = model.layer.all_directions()
    with torch.no_grad():
        direction.constraint.raw.mul_(3.0)
    found = RadiusCallback().after_evaluation(0, {}, model)
    expected = {"radius_raw": 3.0, "norm_raw": 3.0, "radius": 1.0, "norm": 1.0}
    assert found == pytest.approx(expected, rel=1e-4)
