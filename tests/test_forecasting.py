"""The forecaster: what it continues, in which form, and how good its forecasts and ends are."""

from functools import partial

import numpy as np
import pandas
import pytest
import torch
from sklearn.base import clone

from eigenrnn import GRU, ScoRNN
from eigenrnn.estimators import SequenceForecaster

SMALL = {"hidden_size": 8, "epochs": 2, "random_state": 0}


def waves(T, columns=1):
    t = np.arange(T)[:, None] + 3 * np.arange(columns)
    return 5 + 0.02 * t + np.sin(2 * np.pi * t / 12)


def test_a_wave_on_a_slope_is_continued():
    y = waves(252)[:, 0]
    forecaster = SequenceForecaster(epochs=30, random_state=0).fit(y[:240])
    naive = np.abs(y[239] - y[240:]).mean()
    assert np.abs(forecaster.predict(12) - y[240:]).mean() < naive / 5


def test_an_untrained_correction_is_the_seasonal_naive_forecast_with_drift():
    y = waves(60)[:, 0]
    forecaster = SequenceForecaster(season=12, **SMALL).fit(y)
    torch.nn.init.zeros_(forecaster.model_.head.weight)
    torch.nn.init.zeros_(forecaster.model_.head.bias)
    # the slope adds 12 x 0.02 in a season, and the wave repeats itself
    expected = y[-12:] + 0.24
    np.testing.assert_allclose(forecaster.predict(24), [*expected, *(expected + 0.24)])


def test_forecasts_read_themselves():
    y = waves(100)[:, 0]
    forecaster = SequenceForecaster(**SMALL).fit(y)
    first = forecaster.predict(1)
    both = forecaster.predict(2)
    assert both[0] == pytest.approx(first[0])
    # with the first forecast in place of a value, the next one follows
    again = forecaster._forecasts(
        [forecaster.series_[0]._replace(values=np.append(y, first)[:, None])], 1
    )
    assert again[0][0, 0] == pytest.approx(both[1], rel=1e-5)


def test_a_scale_and_an_offset_of_the_series_move_the_forecasts():
    y = waves(80)[:, 0]
    plain = SequenceForecaster(**SMALL).fit(y).predict(5)
    moved = SequenceForecaster(**SMALL).fit(1e6 + 100 * y).predict(5)
    np.testing.assert_allclose(moved, 1e6 + 100 * plain, rtol=1e-7)


def test_several_series_of_several_columns_keep_their_form():
    y = [waves(70, 2), waves(50, 2) + 3]
    forecaster = SequenceForecaster(**SMALL).fit(y)
    assert [f.shape for f in forecaster.predict(4)] == [(4, 2), (4, 2)]
    lower, upper = forecaster.predict_interval(4)
    for low, middle, high in zip(lower, forecaster.predict(4), upper, strict=True):
        assert (low < middle).all()
        assert (middle < high).all()
    assert forecaster.predict(3, y=waves(40, 2)).shape == (3, 2)


def test_what_is_known_ahead_is_read():
    rng = np.random.default_rng(0)
    known = rng.normal(size=(330, 1))
    y = 3 * known[:, 0] + 0.01 * rng.normal(size=330)
    forecaster = SequenceForecaster(epochs=40, lr=1e-2, random_state=0).fit(y[:320], known[:320])
    error = np.abs(forecaster.predict(10, X=known[320:]) - y[320:]).mean()
    assert error < 0.3 * np.abs(y[320:]).mean()
    again = forecaster.predict(10, X=known, y=y[:320])
    np.testing.assert_allclose(again, forecaster.predict(10, X=known[320:]))


def test_intervals_have_about_their_coverage():
    rng = np.random.default_rng(1)
    y = np.cumsum(rng.normal(size=800))
    forecaster = SequenceForecaster(epochs=3, validation=0.4, random_state=0).fit(y[:500])
    hits = []
    for origin in range(500, 790, 10):
        lower, upper = forecaster.predict_interval(1, 0.8, y=y[:origin])
        hits.append(lower[0] <= y[origin] <= upper[0])
    assert 0.6 < np.mean(hits) < 0.97
    narrow, wide = (np.ptp(forecaster.predict_interval(5, c), axis=0) for c in (0.5, 0.95))
    assert (narrow < wide).all()


def test_an_end_is_the_error_of_that_rank():
    forecaster = SequenceForecaster(**SMALL).fit(waves(100)[:, 0])
    lower, upper = forecaster.predict_interval(3, 0.5)
    # ten of the 18 origins whose three steps lie in the 20 that are held out
    expected = np.sort(forecaster._errors(3), axis=0)[9, :, 0] * forecaster.series_[0].scale
    np.testing.assert_allclose((upper - lower) / 2, expected)


def test_later_values_are_scaled_as_those_of_the_fit():
    y = waves(90)[:, 0]
    forecaster = SequenceForecaster(**SMALL).fit(y[:60])
    expected = forecaster.predict(4)
    np.testing.assert_array_equal(forecaster.predict(4, y=y[:60]), expected)
    forecaster.set_params(season=5, validation=0.5)  # for the next fit
    np.testing.assert_array_equal(forecaster.predict(4), expected)
    slope = SequenceForecaster(**SMALL).fit(np.arange(60.0))
    np.testing.assert_allclose(slope.predict(3, y=np.arange(80.0)), [80, 81, 82])


def test_a_layer_that_cannot_forecast_is_refused_before_the_training():
    for layer in (partial(GRU, bidirectional=True), torch.nn.GRU):
        forecaster = SequenceForecaster(layer, epochs=10**6)
        with pytest.raises((ValueError, TypeError), match=r"one direction|got GRU"):
            forecaster.fit(waves(40))


def test_a_network_in_double_precision_forecasts():
    layer = partial(GRU, dtype=torch.float64)
    assert SequenceForecaster(layer, **SMALL).fit(waves(40)[:, 0]).predict(2).shape == (2,)


def test_without_a_seed_the_generators_of_the_caller_stay_as_they_are():
    np.random.seed(0)  # noqa: NPY002, the generator of the caller
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    SequenceForecaster(hidden_size=4, epochs=1).fit(waves(40))
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_the_seed_alone_decides_the_bits():
    y = waves(60)[:, 0]
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    first = SequenceForecaster(ScoRNN, **SMALL).fit(y).predict(3)
    assert torch.equal(torch.rand(3), expected)
    again = clone(SequenceForecaster(ScoRNN, **SMALL)).fit(y).predict(3)
    np.testing.assert_array_equal(first, again)


WRONG = {
    "nan": ({}, [1.0, np.nan] * 20, "NaN"),
    "short": ({"season": 12}, np.arange(15.0), "20 steps, got 15"),
    "columns": ({}, [waves(30, 1), waves(30, 2)], "columns"),
    "validation": ({"validation": 1.0}, waves(30), "got 1"),
    "season": ({"season": 0}, waves(30), "got 0"),
    "nothing": ({}, [], "got 0"),
    "too large": ({}, np.full(40, 1e200), "got 1e\\+200"),
    "lr": ({"lr": 0.0}, waves(30), "got 0"),
}


@pytest.mark.parametrize(("options", "y", "match"), WRONG.values(), ids=WRONG)
def test_wrong_series_and_options_raise(options, y, match):
    if isinstance(y, list) and y and np.isscalar(y[0]):
        y = np.array(y)
    with pytest.raises(ValueError, match=match):
        SequenceForecaster(**SMALL | options).fit(y)


def test_wrong_horizons_raise():
    forecaster = SequenceForecaster(**SMALL).fit(waves(50)[:, 0])
    with pytest.raises(ValueError, match="got 0"):
        forecaster.predict(0)
    with pytest.raises(ValueError, match="got 11"):
        forecaster.predict_interval(11)
    with pytest.raises(ValueError, match=r"got 1\.5"):
        forecaster.predict_interval(3, 1.5)
    with pytest.raises(ValueError, match="0 columns"):
        forecaster.predict(3, X=np.zeros((3, 1)))
    with pytest.raises(ValueError, match=r"at most 0\.75 .* got 0\.8"):
        forecaster.predict_interval(8, 0.8)  # three origins in the ten steps held out
    with pytest.raises(ValueError, match=r"1 columns, got \(50, 2\)"):
        forecaster.predict(3, y=waves(50, 2))


def test_a_change_of_the_array_after_the_fit_changes_no_forecast():
    series = np.sin(np.arange(40.0))
    forecaster = SequenceForecaster(hidden_size=4, epochs=2, random_state=0).fit(series)
    expected = forecaster.predict(3)
    series[:] = 0
    assert np.array_equal(forecaster.predict(3), expected)


def test_columns_of_frames_are_found_by_their_names():
    y = pandas.DataFrame(waves(60, 2), columns=["left", "right"])
    known = pandas.DataFrame({"price": np.arange(63.0), "holiday": np.arange(63) % 7 == 0})
    forecaster = SequenceForecaster(**SMALL).fit(y, known[:60])
    expected = forecaster.predict(3, X=known[60:])
    np.testing.assert_array_equal(
        forecaster.predict(3, X=known[["holiday", "price"]], y=y[["right", "left"]]), expected
    )
    with pytest.raises(ValueError, match="left, right once in y, series 0, got left, up"):
        forecaster.predict(3, X=known, y=y.rename(columns={"right": "up"}))
    both = SequenceForecaster(**SMALL).fit([y, y[["right", "left"]]])
    np.testing.assert_array_equal(*both.predict(3))
