"""Psychometric curves against shares counted by hand and a fit by another method."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from eigenrnn_experiments.laboratory import psychometric_curve


def drawn(bias=0.2, slope=3.0, trials=2000, seed=0):
    generator = np.random.default_rng(seed)
    s = generator.choice([-1.0, -0.5, -0.1, 0.1, 0.5, 1.0], trials)
    p = 1 / (1 + np.exp(-slope * (s - bias)))
    return s, np.where(generator.random(trials) < p, 1.0, -1.0)


def test_the_means_are_the_shares_of_the_upper_choice():
    s, choice = drawn()
    curve = psychometric_curve(s, choice)
    for j, level in enumerate(np.unique(s)):
        chosen = choice[s == level] > 0
        assert curve.counts[0, j] == len(chosen)
        p = chosen.mean()
        assert curve.responses[0, j] == pytest.approx(p)
        assert curve.errors[0, j] == pytest.approx((p * (1 - p) / (len(chosen) - 1)) ** 0.5)


def test_one_trial_has_no_error():
    curve = psychometric_curve(np.array([1.0, 1.0, 2.0]), np.array([7.0, 9.0, 12.0]))
    np.testing.assert_allclose(curve.errors, [[1.0, np.nan]])


def test_the_fit_is_that_of_greatest_likelihood():
    s, choice = drawn()

    def loss(parameters):
        bias, slope = parameters
        return np.logaddexp(0, -choice * slope * (s - bias)).sum()

    best = minimize(loss, [0.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9})
    curve = psychometric_curve(s, choice)
    np.testing.assert_allclose([curve.bias[0], curve.slope[0]], best.x, atol=1e-5)
    assert abs(curve.bias[0] - 0.2) < 0.1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("offset", "unit"), [(0.0, 1.0), (1000.0, 1e-4), (-1e6, 1e4)])
def test_the_fit_does_not_depend_on_the_offset_and_the_unit_of_stimuli(seed, offset, unit):
    generator = np.random.default_rng(seed)
    levels = np.linspace(-1, 1, generator.integers(5, 12))
    s = generator.choice(levels, 400)
    steepness = 10 ** generator.uniform(0, 0.9)
    y = (generator.random(400) < 1 / (1 + np.exp(-steepness * (s - 0.1)))).astype(float)

    def loss(weights):
        odds = weights[0] + weights[1] * s
        return np.sum(np.logaddexp(0, odds) - y * odds)

    found = minimize(loss, [0.0, 1.0], method="BFGS", options={"gtol": 1e-9})
    bias, slope = -found.x[0] / found.x[1], found.x[1]
    curve = psychometric_curve(offset + unit * s, y)
    assert curve.slope[0] * unit == pytest.approx(slope, rel=1e-4)
    assert (curve.bias[0] - offset) / unit == pytest.approx(bias, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_one_pair_of_trials_on_the_wrong_sides_converges(seed):
    generator = np.random.default_rng(seed)
    gap = 10 ** -generator.uniform(6, 9)
    far = generator.uniform(0.5, 1, (2, 120))
    s = np.concatenate([-far[0], far[1], [-gap, gap]])
    y = np.concatenate([np.zeros(120), np.ones(120), [1, 0]])
    curve = psychometric_curve(s, y)
    p = 1 / (1 + np.exp(-curve.slope[0] * (s - curve.bias[0])))
    np.testing.assert_allclose([np.sum(y - p), np.sum((y - p) * s)], 0, atol=1e-9)


def test_a_group_without_responses_stays_as_nan():
    curve = psychometric_curve(
        stimulus=[-1.0, 1.0, 1.0, -1.0, 2.0],
        response=[0.0, 0.0, 1.0, 1.0, np.nan],
        group=[0, 0, 0, 0, 7],
    )
    assert curve.groups.tolist() == [0, 7]
    assert curve.counts.tolist() == [[2, 2, 0], [0, 0, 0]]
    assert np.isnan(curve.responses[1]).all()
    assert np.isnan([curve.bias[1], curve.slope[1]]).all()


def test_groups_are_fitted_apart():
    left, right = drawn(bias=-0.3), drawn(bias=0.3, seed=1)
    s, choice = np.concatenate([left, right], axis=1)
    group = np.repeat([0, 1], 2000)
    both = psychometric_curve(s, choice, group)
    for i, one in enumerate((left, right)):
        alone = psychometric_curve(*one)
        np.testing.assert_allclose(both.responses[i], alone.responses[0])
        np.testing.assert_allclose(both.bias[i], alone.bias[0])
    means, fits = both.plot().axes[0].lines[:2], both.plot().axes[0].lines[2:]
    assert len(means) == len(fits) == 2
    for fit, bias, slope in zip(fits, both.bias, both.slope, strict=True):
        p = expit(slope * (fit.get_xdata() - bias))
        np.testing.assert_allclose(fit.get_ydata(), p, rtol=1e-12)
    assert len(both.table()["stimulus"]) == 12


@pytest.mark.parametrize(
    ("choices", "bias", "slope"),
    [
        ([1, 1, 0, 0], 0.0, -np.inf),
        ([True, True, False, False], 0.0, -np.inf),
        ([-1, -1, -1, 1], 1.5, np.inf),
        ([1, 1, 1, 1], np.nan, np.nan),
    ],
)
def test_a_stimulus_may_separate_the_choices_either_way(choices, bias, slope):
    curve = psychometric_curve([-2.0, -1.0, 1.0, 2.0], choices)
    np.testing.assert_equal([curve.bias[0], curve.slope[0]], [bias, slope])


def test_one_stimulus_with_both_choices_between_the_others_has_an_infinite_slope():
    curve = psychometric_curve([-2.0, -1.0, -1.0, 1.0], [-1, -1, 1, 1])
    assert (curve.bias[0], curve.slope[0]) == (-1.0, np.inf)


def test_choices_that_do_not_depend_on_the_stimulus_have_no_bias():
    flat = psychometric_curve([-1.0, -1.0, 1.0, 1.0], [-1, 1, 1, -1])
    assert np.isnan(flat.bias[0])
    assert flat.slope[0] == pytest.approx(0, abs=1e-9)
    single = psychometric_curve([0.0, 0.0, 0.0], [-1, 1, 1])
    assert np.isnan([single.bias[0], single.slope[0]]).all()
    assert single.responses[0, 0] == pytest.approx(2 / 3)


def test_numbers_that_are_no_choices_are_not_taken_for_them():
    curve = psychometric_curve([1.0, 2.0, 1.0, 2.0], [-1.0, 0.0, -1.0, -1.0])
    assert curve.responses.tolist() == [[-1.0, -0.5]]
    assert np.isnan(curve.slope[0])


def test_numbers_have_means_but_no_fit_and_missing_ones_are_left_out():
    curve = psychometric_curve([8, 8, 9, 9, 9], [8.0, 10.0, 9.0, np.nan, 11.0])
    assert curve.responses.tolist() == [[9.0, 10.0]]
    assert curve.counts.tolist() == [[2, 2]]
    assert np.isnan(curve.bias).all()
