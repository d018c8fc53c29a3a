"""Compares forecasts of the series that statsmodels ships, by MASE over several origins.

- Series: sunspots of a year, CO2 of a month, temperatures of the sea of a month (El Nino), and
  unemployment and the logarithm of the gross domestic product of a quarter in the USA.
- Origins: five, one horizon apart, the last forecast ends with the series. Each method sees what
  lies before an origin, and nothing is chosen by what follows.
- MASE: the mean absolute error, divided by that of the seasonal naive forecast of one season ahead
  before the origin.
- Methods: the value of a season ago; exponential smoothing with a damped trend and an additive
  season (Holt and Winters, statsmodels); `SequenceForecaster` with its defaults, which corrects
  the value of a season ago or the last value; the same with a `torch.nn.LSTM`.

Needs statsmodels. Run::

    python -m benchmarks.forecasting [--seeds 3] [--out FILE]
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from eigenrnn import ResidualStack
from eigenrnn.estimators import SequenceForecaster

__all__ = ["main"]

ORIGINS = 5
Array = NDArray[np.float64]


class Series(NamedTuple):
    """A series, the steps of its season, and the horizon of its forecasts."""

    name: str
    values: Array
    season: int
    horizon: int


def all_series() -> Iterator[Series]:
    """Yield the series of statsmodels; missing weeks of CO2 are interpolated."""
    from statsmodels import datasets

    sunspots = datasets.sunspots.load_pandas().data["SUNACTIVITY"]
    yield Series("sunspots", sunspots.to_numpy(), 11, 11)
    co2 = datasets.co2.load_pandas().data["co2"].interpolate().resample("MS").mean()
    yield Series("CO2", co2.to_numpy(), 12, 24)
    elnino = datasets.elnino.load_pandas().data.drop(columns="YEAR")
    yield Series("El Nino", elnino.to_numpy().ravel(), 12, 12)
    economy = datasets.macrodata.load_pandas().data
    yield Series("unemployment", economy["unemp"].to_numpy(), 4, 8)
    yield Series("log GDP", np.log(economy["realgdp"].to_numpy()), 4, 8)


def naive(series: Series, known: Array, _seed: int) -> Array:
    """Repeat the last season."""
    return known[-series.season :][np.arange(series.horizon) % series.season]


def smoothing(series: Series, known: Array, _seed: int) -> Array:
    """Smooth exponentially."""
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an optimiser that has not converged
        model = ExponentialSmoothing(
            known,
            trend="add",
            damped_trend=True,
            seasonal="add",
            seasonal_periods=series.season,
            initialization_method="estimated",
        ).fit()
    return model.forecast(series.horizon)


def torch_lstm(inputs: int, units: int) -> ResidualStack:
    """Return torch's LSTM with a `step`, and nothing around it."""
    return ResidualStack(
        lambda width: nn.LSTM(width, units), units, 1, norm=None, mixer=None, input_size=inputs
    )


def ours(*, seasonal: bool, **options: Any) -> Callable[[Series, Array, int], Array]:
    """Return the forecaster, which corrects the value of a season ago or the last value."""

    def forecast(series: Series, known: Array, seed: int) -> Array:
        season = series.season if seasonal else 1
        forecaster = SequenceForecaster(season=season, random_state=seed, **options)
        return forecaster.fit(known).predict(series.horizon)

    return forecast


METHODS = {
    "seasonal naive": naive,
    "exponential smoothing": smoothing,
    "GRU on the season": ours(seasonal=True),
    "GRU on the last value": ours(seasonal=False),
    "torch's LSTM on the season": ours(seasonal=True, layer=torch_lstm),
    "torch's LSTM on the last value": ours(seasonal=False, layer=torch_lstm),
}


def mase(series: Series, forecast: Callable[[Series, Array, int], Array], seed: int) -> float:
    """Return the mean scaled error over the origins."""
    found: list[float] = []
    for back in range(1, ORIGINS + 1):
        origin = len(series.values) - back * series.horizon
        known = series.values[:origin]
        truth = series.values[origin : origin + series.horizon]
        scale = np.abs(known[series.season :] - known[: -series.season]).mean()
        found.append(float(np.abs(forecast(series, known, seed) - truth).mean() / scale))
    return statistics.mean(found)


def main() -> None:
    """Measure all series, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    records: list[dict[str, object]] = []
    print("| series | " + " | ".join(METHODS) + " |")
    print("|---|" + "---:|" * len(METHODS))
    for series in all_series():
        cells: list[str] = []
        for name, forecast in METHODS.items():
            is_drawn = name not in ("seasonal naive", "exponential smoothing")
            start = time.process_time()
            values = [
                mase(series, forecast, seed) for seed in range(options.seeds if is_drawn else 1)
            ]
            seconds = (time.process_time() - start) / len(values) / ORIGINS
            records.append(
                {"series": series.name, "method": name, "mase": values, "seconds": seconds}
            )
            spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.2f}{spread}")
        print(f"| {series.name} | " + " | ".join(cells) + " |", flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
