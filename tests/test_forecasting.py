"""The forecaster: what it continues, in which form, and how good its forecasts and ends are."""

from functools import partial

import numpy as np
import pandas
import pytest
import torch
from sklearn.base import clone

from eigenrnn import GRU, ScoRNN
from eigenrnn.estimators import SequenceForecaster, load
from eigenrnn.forecasting import _chunks

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


def ragged(count, season):
    """Return a forecaster of series of random lengths, with what is known of 4 steps ahead."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(season + 8, 90, count)
    known = [rng.normal(size=(length + 4, 1)) for length in lengths]
    y = [np.cumsum(rng.normal(size=(length, 2)), axis=0) for length in lengths]
    forecaster = SequenceForecaster(season=season, **{**SMALL, "epochs": 1})
    forecaster.fit(y, [x[:-4] for x in known])
    return forecaster, [x[-4:] for x in known]


@pytest.mark.parametrize("count", [1, 64, 65, 150])
@pytest.mark.parametrize("season", [1, 7])
def test_series_are_continued_together_as_one_by_one_and_step_by_step(count, season):
    forecaster, ahead = ragged(count, season)
    # an untrained network hardly tells its inputs apart
    torch.nn.init.normal_(forecaster.model_.head.weight)
    series, _ = forecaster._continued(4, ahead, None)
    for each, found in zip(series, forecaster.predict(4, ahead), strict=True):
        alone = each
        for _ in range(4):
            (following,) = forecaster._forecasts([alone], 1)
            alone = alone._replace(values=np.append(alone.values, following, axis=0))
        np.testing.assert_allclose(found, alone.values[-4:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [1, 64, 65, 500])
def test_a_batch_has_few_series_of_similar_lengths(count):
    lengths = np.random.default_rng(0).geometric(0.01, count)
    chunks = [np.array(chunk) for chunk in _chunks(lengths)]
    assert sorted(np.concatenate(chunks)) == list(range(count))
    for chunk in chunks:
        assert len(chunk) <= 64
        assert lengths[chunk].max() <= 8 * lengths[chunk].min()
        assert (np.diff(chunk) > 0).all()
    assert len(list(_chunks([7] * count))) == -(-count // 64)


@pytest.mark.parametrize("count", [1, 65, 150])
def test_the_validation_loss_is_the_mean_over_the_held_out_steps_of_all_series(count):
    forecaster, _ = ragged(count, 3)
    errors = []
    for each, cut in zip(forecaster.series_, forecaster.cuts_, strict=True):
        x, target = forecaster._inputs(each)
        with torch.no_grad():
            outputs = forecaster.model_(x[:-1])
        held_out = len(each.values) - cut
        errors.append((outputs - target)[-held_out:].square())
    expected = torch.cat(errors).mean().item()
    assert forecaster.history_[0]["validation_loss"] == pytest.approx(expected, rel=1e-5)


def test_the_errors_of_an_interval_are_those_of_64_origins_of_all_series():
    forecaster, _ = ragged(20, 3)
    origins = []
    for each, cut in zip(forecaster.series_, forecaster.cuts_, strict=True):
        origins += [(each, origin) for origin in range(cut, len(each.values))]
    chosen = np.linspace(0, len(origins) - 1, 64).round().astype(int)
    found = forecaster._errors(3)
    assert len(found) == 64 < len(origins)
    for errors, k in zip(found, chosen, strict=True):
        each, origin = origins[k]
        (forecast,) = forecaster._forecasts([each._replace(values=each.values[:origin])], 3)
        truth = np.full((3, 2), np.nan)
        followed = each.values[origin : origin + 3]
        truth[: len(followed)] = followed
        np.testing.assert_allclose(errors, np.abs(forecast - truth) / each.scale, rtol=1e-4)


class CellOfOnesOwn(torch.nn.GRUCell):
    """A layer that is none of ours: it reads padded batches alone."""

    bidirectional = False
    batch_first = False

    @property
    def output_size(self):
        return self.hidden_size

    def step(self, x, state):
        h = super().forward(x, state)
        return h, h

    def forward(self, x, state=None, lengths=None):
        assert x.dim() == 3
        states = []
        for x_t in x:
            states.append(super().forward(x_t, state))
            state = states[-1]
        h = torch.stack(states)
        if lengths is not None:
            state = h[lengths - 1, torch.arange(len(lengths))]
        return h, state


def test_a_layer_of_ones_own_forecasts():
    y = [waves(30), waves(50)]
    forecaster = SequenceForecaster(CellOfOnesOwn, **SMALL).fit(y)
    expected = [forecaster._forecasts([each], 3)[0] for each in forecaster.series_]
    for found, alone in zip(forecaster.predict(3), expected, strict=True):
        np.testing.assert_allclose(found, alone, rtol=1e-5)


def test_a_scale_and_an_offset_of_the_series_move_the_forecasts():
    y = waves(80)[:, 0]
    plain = SequenceForecaster(**SMALL).fit(y).predict(5)
    moved = SequenceForecaster(**SMALL).fit(1e6 + 100 * y).predict(5)
    np.testing.assert_allclose(moved, 1e6 + 100 * plain, rtol=1e-7)


def test_several_series_of_several_columns_keep_their_form():
    y = [waves(70, 2), waves(50, 2) + 3]
    forecaster = SequenceForecaster(**SMALL).fit(y)
    assert [f.shape for f in forecaster.predict(4)] == [(4, 2), (4, 2)]
    found = forecaster.forecast(4)
    for low, middle, high in zip(found.lower, forecaster.predict(4), found.upper, strict=True):
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
        found = forecaster.forecast(1, 0.8, y=y[:origin])
        hits.append(found.lower[0] <= y[origin] <= found.upper[0])
    assert 0.6 < np.mean(hits) < 0.97
    narrow, wide = (forecaster.forecast(5, coverage) for coverage in (0.5, 0.95))
    assert (wide.lower < narrow.lower).all()
    assert (narrow.upper < wide.upper).all()


def test_an_end_is_the_error_of_that_rank():
    forecaster = SequenceForecaster(**SMALL).fit(waves(100)[:, 0])
    found = forecaster.forecast(3, 0.5)
    errors = np.sort(forecaster._errors(3)[:, :, 0], axis=0)
    # 20, 19 and 18 origins have one, two and three steps in the 20 that are held out
    expected = [errors[10, 0], errors[9, 1], errors[9, 2]]
    distances = (found.upper - found.lower) / 2
    np.testing.assert_allclose(distances, expected * forecaster.series_[0].scale)


def test_later_values_are_scaled_as_those_of_the_fit():
    y = waves(90)[:, 0]
    forecaster = SequenceForecaster(**SMALL).fit(y[:60])
    expected = forecaster.predict(4)
    np.testing.assert_array_equal(forecaster.predict(4, y=y[:60]), expected)
    forecaster.set_params(season=5, validation=0.5)  # for the next fit
    np.testing.assert_array_equal(forecaster.predict(4), expected)
    slope = SequenceForecaster(**SMALL).fit(np.arange(60.0))
    np.testing.assert_allclose(slope.predict(3, y=np.arange(80.0)), [80, 81, 82])


@pytest.fixture(scope="module")
def of_days():
    index = pandas.date_range("2024-01-01", periods=60)
    return SequenceForecaster(**SMALL).fit(pandas.Series(waves(60)[:, 0], index))


@pytest.mark.parametrize(
    "index",
    [
        pandas.date_range("2024-03-01", periods=60, freq="12h"),
        pandas.date_range("2024-03-01", periods=60, freq="B"),
        pandas.date_range("2024-03-01", periods=60, freq="MS"),
        pandas.period_range("2024-03-01", periods=60, freq="W"),
        pandas.timedelta_range("0s", periods=60, freq="h"),
    ],
    ids=lambda index: index.freqstr,
)
def test_later_values_of_other_steps_than_those_of_the_fit_are_refused(of_days, index):
    with pytest.raises(ValueError, match=f"frequency D in y, as in fit, got {index.freqstr}"):
        of_days.predict(2, y=pandas.Series(waves(60)[:, 0], index))


@pytest.mark.parametrize(
    "index",
    [
        pandas.date_range("2024-03-01", periods=60, freq="24h"),
        pandas.period_range("2024-03-01", periods=60),
        pandas.timedelta_range("1 days", periods=60),
        pandas.RangeIndex(60),
    ],
    ids=lambda index: index.__class__.__name__,
)
def test_later_values_of_the_same_steps_under_another_name_are_read(of_days, index):
    expected = of_days.predict(2, y=waves(60)[:, 0])
    found = of_days.predict(2, y=pandas.Series(waves(60)[:, 0], index))
    np.testing.assert_array_equal(found, expected)


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
    swapped = y[["right", "left"]]
    both = SequenceForecaster(**SMALL).fit([y, swapped])
    pandas.testing.assert_frame_equal(*both.predict(3))
    again = SequenceForecaster(**SMALL).fit(y)
    found = again.forecast(3, 0.5, y=swapped)
    expected = again.forecast(3, 0.5)
    for name in ("values", "lower", "upper", "history"):
        pandas.testing.assert_frame_equal(getattr(found, name), getattr(expected, name))
    panel = pandas.concat({"unit": swapped})
    pandas.testing.assert_frame_equal(again.predict(3, y=panel).loc["unit"], again.predict(3))


def test_each_series_keeps_its_name():
    y = [pandas.Series(waves(40)[:, 0], name=name) for name in ("paris", "rome")]
    found = SequenceForecaster(**SMALL).fit(y).predict(2)
    assert [each.name for each in found] == ["paris", "rome"]


def test_a_number_may_name_the_target():
    frame = pandas.DataFrame(waves(43, 2))
    forecaster = SequenceForecaster(**SMALL).fit(frame[:40], targets=0)
    assert forecaster.predict(3, frame[40:][[1]]).name == 0


def test_series_of_pandas_come_together_and_with_enough_steps():
    y = months()
    with pytest.raises(ValueError, match=r"all series of pandas in y or none, got 1 of 2.*numpy"):
        SequenceForecaster(**SMALL).fit([y, waves(60)[:, 0]])
    for count in (0, 1):
        with pytest.raises(ValueError, match=f"at least 3 steps in y, series 0, got {count}"):
            SequenceForecaster(**SMALL).fit(y.iloc[list(range(count))])


@pytest.mark.parametrize(
    "index",
    [
        pandas.date_range("2020-01-31", periods=43, freq="ME"),
        pandas.bdate_range("2026-01-01", periods=43, name="day"),
        pandas.date_range("2026-10-24", periods=43, freq="h", tz="Europe/Berlin"),
        pandas.date_range("2026-10-01", periods=43, freq="D", tz="Europe/Berlin"),
        pandas.period_range("2001Q1", periods=43, freq="Q"),
        pandas.RangeIndex(1950, 1993),
        pandas.Index(range(0, 430, 10)),
        1950 + pandas.Index(np.arange(43) / 12),
        pandas.Index(np.arange(43) / 10, name="s"),
        pandas.timedelta_range("1s", periods=43, freq="500ms", name="ms"),
    ],
    ids=lambda index: str(index.dtype),
)
def test_the_dates_of_a_forecast_follow_those_of_the_series(index, tmp_path):
    frame = pandas.DataFrame({"a": waves(43)[:, 0], "b": 2.0}, index)
    kept = frame[:40].copy()
    kept.index = type(index)(kept.index) if hasattr(index, "freq") else kept.index
    forecaster = SequenceForecaster(**SMALL).fit(kept)
    same = partial(pandas.testing.assert_index_equal, exact="equiv", check_exact=False)
    same(forecaster.predict(3).index, index[40:])
    assert list(forecaster.predict(3).columns) == ["a", "b"]
    forecaster.save(tmp_path / "model.pt")
    pandas.testing.assert_frame_equal(
        load(tmp_path / "model.pt").predict(3), forecaster.predict(3)
    )
    one = SequenceForecaster(**SMALL).fit(kept["a"])
    assert one.forecast(3, 0.5).lower.name == "a"
    assert len(one.forecast(3).history) == 40
    same(one.forecast(3).history.index, index[:40])


def test_each_of_several_series_keeps_its_dates():
    days = pandas.date_range("2020-01-01", periods=43, freq="D")
    dates = [days, days, days.rename("day"), days + pandas.Timedelta("1D"), days[3:], days]
    dates += [pandas.date_range("2020-01-01", periods=43, freq="h")]
    y = [pandas.Series(waves(len(each) - 3)[:, 0], each[:-3]) for each in dates]
    forecaster = SequenceForecaster(**SMALL).fit(y)
    for each, found in zip(dates, forecaster.predict(3), strict=True):
        pandas.testing.assert_index_equal(found.index, each[-3:])
    for each, found in zip(y, forecaster.forecast(3).history, strict=True):
        pandas.testing.assert_series_equal(found, each, check_freq=False)


def test_what_is_known_ahead_has_the_dates_of_each_series():
    days = pandas.date_range("2020-01-01", periods=43, freq="D")
    known = [pandas.DataFrame({"x": 1.0}, days), pandas.DataFrame({"x": 1.0}, days[3:])]
    y = [pandas.Series(waves(len(x) - 3)[:, 0], x.index[:-3]) for x in known]
    forecaster = SequenceForecaster(**SMALL).fit(y, [x[:-3] for x in known])
    expected = forecaster.predict(3, [x[-3:] for x in known])
    for first, second in zip(forecaster.predict(3, known, y=y), expected, strict=True):
        pandas.testing.assert_series_equal(first, second)
    late = [known[0], known[1].shift(1, freq="D")]
    with pytest.raises(ValueError, match=r"expected 2020-01-04 .* got 2020-01-05"):
        forecaster.predict(3, late, y=y)


NUMBERED = {
    "years": pandas.Index(1950 + np.arange(43), name="year"),
    "seconds": pandas.Index(np.arange(43) * 0.1),
    "single precision": pandas.Index((np.arange(43) * 0.1).astype(np.float32)),
    "periods": pandas.period_range("1950", periods=43, freq="Y"),
}


@pytest.mark.parametrize("index", NUMBERED.values(), ids=NUMBERED)
def test_what_is_known_ahead_has_the_numbers_of_its_steps(index):
    y = pandas.Series(waves(40)[:, 0], index[:40])
    known = pandas.DataFrame({"k": waves(43)[:, 0]}, index)
    forecaster = SequenceForecaster(**SMALL).fit(y, known[:40])
    expected = forecaster.predict(3, known[40:])
    for counted in (pandas.RangeIndex(3), [0, 1, 2], ["a", "b", "c"]):  # rows as they stand
        again = forecaster.predict(3, known[40:].set_axis(pandas.Index(counted)))
        np.testing.assert_array_equal(again, expected)
    with pytest.raises(ValueError, match="in the index of X, as in y, got"):
        forecaster.predict(3, known[30:33])
    with pytest.raises(ValueError, match="in the index of X, as in y, got"):
        SequenceForecaster(**SMALL).fit(y, known[:40][::-1])


def test_numbers_that_only_name_rows_are_not_compared():
    """As those of a table from which rows were dropped."""
    rows = np.delete(np.arange(50), [3, 17, 18, 30, 41, 44, 47])
    y = pandas.Series(waves(40)[:, 0], rows[:40])
    known = pandas.DataFrame({"k": waves(43)[:, 0]}, rows)
    forecaster = SequenceForecaster(**SMALL).fit(y, known[:40])
    assert forecaster.predict(3, known[40:]).index.tolist() == [40, 41, 42]
    assert len(forecaster.predict(3, known, y=y)) == 3


def test_a_series_with_dates_goes_on_after_a_fit_of_rows():
    forecaster = SequenceForecaster(**SMALL).fit(waves(40)[:, 0])
    assert forecaster.predict(2, y=months()).index[0] == months().index[-1] + months().index.freq


WRONG_NUMBERS = {
    "series": (lambda y: ([y, y], [y]), "expected 2 series in X, got 1"),
    "columns": (lambda y: ([y, y[:, :1]], None), "series of the same columns in y"),
    "size": (lambda y: (1e39 * y, None), "expected values up to 3.4e\\+38 in y, got 6"),
}


@pytest.mark.parametrize(("change", "found"), WRONG_NUMBERS.values(), ids=WRONG_NUMBERS)
def test_numbers_that_do_not_fit_are_named(change, found):
    with pytest.raises(ValueError, match=found):
        SequenceForecaster(**SMALL).fit(*change(waves(40, 2)))


def test_times_are_no_periods():
    years = NUMBERED["periods"]
    y = pandas.Series(waves(40)[:, 0], years[:40])
    known = pandas.DataFrame({"k": waves(40)[:, 0]}, years[:40].to_timestamp())
    with pytest.raises(ValueError, match="a PeriodIndex as the index of X, as y has, got a Date"):
        SequenceForecaster(**SMALL).fit(y, known)


def test_days_are_measured_where_one_does_not_exist():
    days = pandas.date_range("2024-06-01", periods=95, freq="D", tz="America/Santiago")
    y = pandas.Series(waves(95)[:, 0], days)  # the clocks change at midnight, five days later
    forecaster = SequenceForecaster(**SMALL).fit(y[:90])
    assert forecaster.predict(1, y=y).index[0] == days[-1] + days.freq


def test_the_history_of_a_forecast_is_a_copy():
    forecaster = SequenceForecaster(**SMALL).fit(waves(60)[:, 0])
    expected = forecaster.predict(3)
    history = forecaster.forecast(3).history
    history *= 2
    np.testing.assert_array_equal(forecaster.predict(3), expected)


def test_targets_may_be_an_index_of_pandas(tmp_path):
    frame = pandas.DataFrame(waves(60, 3), columns=["a", "b", "c"])
    forecaster = SequenceForecaster(**SMALL).fit(frame, targets=pandas.Index(["c", "a"]))
    forecaster.save(tmp_path / "forecaster.pt")
    again = load(tmp_path / "forecaster.pt")
    ahead = frame[["b"]][:3]
    pandas.testing.assert_frame_equal(again.predict(3, ahead), forecaster.predict(3, ahead))


def test_tables_of_arrow_are_series():
    arrow = pytest.importorskip("pyarrow")
    y = waves(60, 2)
    table = arrow.table({"a": y[:, 0], "b": y[:, 1]})
    expected = SequenceForecaster(**SMALL).fit(y).predict(3)
    np.testing.assert_array_equal(SequenceForecaster(**SMALL).fit(table).predict(3), expected)


@pytest.mark.parametrize("layer", [GRU(2, 4), torch.nn.LSTM(2, 4), "GRU"], ids=str)
def test_a_layer_is_no_function_that_makes_one(layer):
    with pytest.raises(TypeError, match="expected layer to be a class or a function"):
        SequenceForecaster(layer).fit(waves(60))


@pytest.mark.parametrize("wave", [lambda t: t % 12, lambda t: np.sin(2 * np.pi * t / 12)])
def test_a_backtest_of_equal_seasons_has_no_scale(wave):
    t = np.arange(120.0)
    y = [waves(120, 2), np.stack([t, wave(t)], 1)]
    with pytest.raises(ValueError, match="the same numbers in column 1 of series 1"):
        SequenceForecaster(season=12, **SMALL).backtest(y, 3)


def test_a_new_name_of_the_dates_of_one_forecast_is_not_that_of_others():
    first, second = SequenceForecaster(**SMALL).fit([months(), months()]).predict(3)
    first.index.name = "month"
    assert second.index.name is None


def test_durations_are_drawn_in_seconds():
    y = pandas.Series(waves(40)[:, 0], pandas.timedelta_range("0s", periods=40, freq="500ms"))
    figure = SequenceForecaster(**SMALL).fit(y).forecast(3).plot()
    assert figure.axes[0].lines[1].get_xdata().tolist() == [20.0, 20.5, 21.0]


@pytest.mark.parametrize(
    ("frequency", "timezone"),
    [
        (pandas.offsets.CustomBusinessDay(holidays=["2030-12-25"]), None),
        (pandas.DateOffset(months=1), None),
        (pandas.offsets.Week(), None),
        ("D", "dateutil/Europe/Berlin"),
    ],
    ids=str,
)
def test_a_calendar_that_has_no_name_is_refused_before_the_training(frequency, timezone):
    index = pandas.date_range("2020-01-01", periods=40, freq=frequency, tz=timezone)
    forecaster = SequenceForecaster(epochs=10**6)
    with pytest.raises(ValueError, match=r"by their names in y, series 0, got .*asfreq.*to_numpy"):
        forecaster.fit(pandas.Series(waves(40)[:, 0], index))


def months(*dropped):
    index = pandas.date_range("2010-01-01", periods=60, freq="MS").delete(list(dropped))
    return pandas.Series(waves(60 - len(dropped))[:, 0], index)


@pytest.mark.parametrize(
    ("series", "found"),
    [
        (months(30, 31), r"none for 2012-07-01.*asfreq\('MS'\).*to_numpy"),
        (months(1), r"none for 2010-02-01"),
        (months()[::-1], r"in order.* 2014-12-01 .*before 2014-11-01"),
        (pandas.concat([months()[:20], months()[19:]]), r"2011-08-01 .*before 2011-08-01"),
        (
            pandas.Series(1.0, pandas.period_range("2010", periods=60, freq="M").delete(7)),
            "none for 2010-08",
        ),
        (pandas.Series(1.0, pandas.bdate_range("2026-01-01", periods=60).delete(9)), "none for"),
        (
            pandas.Series(1.0, pandas.period_range("2010", periods=60, freq="M")[::-1]),
            "in order.* 2014-12 before 2014-11",
        ),
        (
            pandas.Series(1.0, pandas.to_datetime(np.arange(60) ** 2, unit="D")),
            "equally far apart .* got 1970-01-02 .*before 1970-01-05",
        ),
        ([], "expected some series in y, got 0"),
        (months().rename({months().index[5]: pandas.NaT}), "in order"),
        (months().rename(index=str), "to_datetime"),
        (months().rename(index=lambda date: date.date()), "to_datetime"),
        (
            pandas.Series(1.0, pandas.timedelta_range("0s", periods=60, freq="s").delete(30)),
            r"none for 0 days 00:00:30.*to_numpy",
        ),
        (pandas.concat({"shop": pandas.concat({"shelf": months()})}), "two levels.*got 3"),
    ],
    ids=[
        "two months",
        "second",
        "reversed",
        "twice",
        "periods",
        "business days",
        "periods reversed",
        "irregular",
        "none",
        "NaT",
        "texts",
        "objects",
        "differences",
        "levels",
    ],
)
def test_dates_that_are_missing_or_in_disorder_are_named(series, found):
    with pytest.raises(ValueError, match=found):
        SequenceForecaster(**SMALL).fit(series)


DATES = pandas.date_range("2026-01-01", periods=40, freq="D")


@pytest.mark.parametrize(
    ("y", "X", "named"),
    [
        (pandas.DataFrame(np.ones((40, 2)), columns=DATES[:2]), None, "columns of y"),
        (pandas.Series(np.ones(40), name=DATES[0]), None, "columns of y"),
        (np.ones(40), pandas.DataFrame(np.ones((40, 1)), columns=DATES[:1]), "columns of X"),
        (pandas.concat([pandas.Series(np.ones(40))] * 2, keys=DATES[:2]), None, "names of the"),
    ],
    ids=["frame", "series", "known-ahead", "panel"],
)
def test_names_that_a_file_cannot_hold_are_refused_before_the_training(y, X, named):
    with pytest.raises(ValueError, match=f"expected the {named}.* to be numbers or texts, got"):
        SequenceForecaster(**SMALL).fit(y, X)


def test_a_panel_is_several_series():
    low = pandas.DataFrame({"y": waves(40)[:, 0]}, pandas.RangeIndex(40))
    panel = pandas.concat({"low": low, "high": low[:30] + 400}, names=["shop", "step"])
    found = SequenceForecaster(**SMALL).fit(panel).predict(2)
    assert found.index.tolist() == [("low", 40), ("low", 41), ("high", 30), ("high", 31)]
    assert found.index.names == ["shop", "step"]
    np.testing.assert_allclose(found["y"], [5, 5, 405, 405], atol=3)


def test_the_series_of_panels_are_found_by_their_names():
    rng = np.random.default_rng(0)
    parts = {
        name: pandas.DataFrame(rng.normal(size=(43, 2)) + level, columns=["y", "x"])
        for name, level in (("low", 0), ("high", 400), ("middle", 20))
    }
    panel = pandas.concat({name: part[:40] for name, part in parts.items()})
    ahead = pandas.concat({name: part[40:][["x"]] for name, part in parts.items()})
    order = ["middle", "low", "high"]
    forecaster = SequenceForecaster(**SMALL).fit(panel["y"], panel[["x"]])
    expected = forecaster.predict(3, ahead)
    again = SequenceForecaster(**SMALL).fit(panel["y"], panel[["x"]].loc[order])
    pandas.testing.assert_series_equal(again.predict(3, ahead.loc[order]), expected)
    known = pandas.concat([panel[["x"]], ahead])
    found = forecaster.predict(3, known, y=panel["y"].loc[order])
    pandas.testing.assert_series_equal(found, expected.loc[order])
    few = order[:2]
    found = forecaster.predict(3, known.loc[few], y=panel["y"].loc[few])
    pandas.testing.assert_series_equal(found, expected.loc[few])
    named = r"series \['low', 'high', 'middle'\] of y in X, got \['low', 'top', 'middle'\]"
    for call in (partial(forecaster.fit, panel["y"]), partial(forecaster.predict, 3)):
        with pytest.raises(ValueError, match=named):
            call(ahead.rename({"high": "top"}))


def test_further_columns_are_known_ahead():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"sales": rng.normal(size=63), "holiday": rng.integers(2, size=63)})
    frame.index = pandas.date_range("2020-01-01", periods=63, freq="MS")
    known = frame[:60]
    options = {**SMALL, "season": 12}
    apart = SequenceForecaster(**options).fit(known["sales"], known[["holiday"]])
    forecaster = SequenceForecaster(**options).fit(known, targets="sales")
    ahead = frame[["holiday"]][60:]
    expected = apart.predict(3, ahead)
    pandas.testing.assert_series_equal(forecaster.predict(3, ahead), expected)
    pandas.testing.assert_series_equal(forecaster.predict(3, ahead, y=known), expected)
    with pytest.raises(ValueError, match="holiday of fit for the next 3 steps, got none"):
        forecaster.predict(3)
    with pytest.raises(ValueError, match=r"expected 2025-01-01 .* got 2024-10-01"):
        forecaster.predict(3, frame[["holiday"]][57:60])
    with pytest.raises(ValueError, match=r"expected 2025-01-01 .* got 2024-10-01"):
        forecaster.predict(3, frame[["holiday"]][57:60], y=known)
    both = frame[["holiday"]].shift(1, freq="MS")  # of y and what follows it
    with pytest.raises(ValueError, match=r"expected 2020-01-01 .* got 2020-02-01"):
        apart.predict(3, both, y=known["sales"])
    pandas.testing.assert_series_equal(
        apart.predict(3, frame[["holiday"]], y=known["sales"]), expected
    )
    with pytest.raises(ValueError, match=r"\['price'\] in frames as y"):
        SequenceForecaster(**options).fit(known, targets="price")


@pytest.mark.parametrize(
    ("rows", "horizon", "season"), [(144, 24, 12), (31, 2, 12), (60, 12, 12), (240, 48, 12)]
)
def test_a_forecast_has_values_always_and_ends_as_far_as_the_data_carry_them(
    rows, horizon, season
):
    y = waves(rows)[:, 0]
    forecaster = SequenceForecaster(season=season, **SMALL).fit(y)
    found = forecaster.forecast(horizon)
    np.testing.assert_array_equal(found.values, forecaster.predict(horizon))
    known = np.isfinite(found.lower)
    held_out = rows - forecaster.cuts_[0]
    # the largest of n errors is an end of coverage 0.9 from n = 9 on
    assert known.tolist() == [held_out - step >= 9 for step in range(horizon)]
    assert (found.lower[known] < found.values[known]).all()
    assert f"reach {known.sum()} of {horizon} steps" in found.note


def test_a_plot_shows_the_history_the_forecast_and_its_ends():
    frame = pandas.DataFrame({"a": waves(60)[:, 0], "b": 1.0}, months().index)
    figure = SequenceForecaster(**SMALL).fit(frame).forecast(5).plot()
    assert [axes.get_ylabel() for axes in figure.axes] == ["a", "b"]
    history, line = figure.axes[0].lines
    assert (len(history.get_xdata()), len(line.get_xdata())) == (60, 5)
    assert line.get_xdata()[0] == pandas.Timestamp("2015-01-01")
    several = SequenceForecaster(**SMALL).fit([waves(60), waves(50)]).forecast(5).plot()
    assert several.axes[1].lines[1].get_xdata().tolist() == [50, 51, 52, 53, 54]


def test_a_backtest_is_the_scaled_error_of_each_origin():
    y = waves(80)[:, 0] + np.random.default_rng(0).normal(size=80)
    forecaster = SequenceForecaster(season=12, **SMALL)
    found = forecaster.backtest(y, 6, origins=3)
    first = y[:72]
    scale = np.abs(first[12:] - first[:-12]).mean()
    fitted = clone(forecaster).fit(first)
    for row, origin in zip(found.by_origin, (72, 73, 74), strict=True):
        truth = y[origin : origin + 6]
        own = fitted.predict(6, y=y[:origin])
        errors = [own - truth, y[origin - 1] - truth, y[origin - 12 : origin - 6] - truth]
        np.testing.assert_allclose(row, np.abs(errors).mean(1) / scale)
    np.testing.assert_allclose(
        [found.mase, found.naive, found.seasonal_naive], found.by_origin.mean(0)
    )
    assert not hasattr(forecaster, "model_")


def test_masked_values_and_times_are_no_numbers():
    y = waves(60)[:, 0]
    masked = np.ma.masked_values(np.where(np.arange(60) == 30, 1e20, y), 1e20)
    with pytest.raises(ValueError, match="no missing value in y, series 0, got NaN in step 30"):
        SequenceForecaster(**SMALL).fit(masked)
    times = pandas.Series(pandas.to_timedelta([None, *range(59)], unit="s"))
    with pytest.raises(ValueError, match="got times"):
        SequenceForecaster(**SMALL).fit(times)
    long = pandas.DataFrame({"product": ["food"] * 60, "sales": y})
    with pytest.raises(ValueError, match=r"column product .* the text 'food'; .*groupby"):
        SequenceForecaster(**SMALL).fit(long)
    nullable = pandas.Series(y, dtype="Float64")
    expected = SequenceForecaster(**SMALL).fit(pandas.Series(y)).predict(2)
    pandas.testing.assert_series_equal(
        SequenceForecaster(**SMALL).fit(nullable).predict(2), expected
    )


def test_an_interruption_leaves_the_best_epoch(monkeypatch):
    forecaster = SequenceForecaster(**{**SMALL, "epochs": 50})
    measure = SequenceForecaster._held_out_loss
    calls = []

    def interrupt(self, *arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return measure(self, *arguments)

    monkeypatch.setattr(SequenceForecaster, "_held_out_loss", interrupt)
    y = waves(60)[:, 0]
    with pytest.raises(KeyboardInterrupt):
        forecaster.fit(y)
    monkeypatch.undo()
    np.testing.assert_array_equal(
        forecaster.predict(3), SequenceForecaster(**SMALL).fit(y).predict(3)
    )


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_fit_needs_no_gradients_of_the_caller(mode):
    y = np.sin(np.arange(80) / 3)
    options = {"hidden_size": 4, "epochs": 2, "random_state": 0}
    with mode():
        found = SequenceForecaster(**options).fit(y).predict(3)
    np.testing.assert_array_equal(found, SequenceForecaster(**options).fit(y).predict(3))
