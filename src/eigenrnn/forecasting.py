"""Forecasts of series by a recurrent network that reads its own outputs."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from eigenrnn.closed_loop import rollout
from eigenrnn.errors import check_installed, check_positive_integer
from eigenrnn.fitting import (
    Loop,
    check_layer,
    check_plain,
    checked_device,
    drawing,
    drawing_batches,
    seed_of,
    write_file,
)
from eigenrnn.layers import GRU
from eigenrnn.linalg import on_cpu
from eigenrnn.models import SequenceModel
from eigenrnn.series import (
    Calendar,
    Form,
    check_same_dates,
    check_same_steps,
    deviation,
    given,
    is_rounding,
    known_ahead,
    read,
    split,
)
from eigenrnn.values import Array, is_index

check_installed("eigenrnn[estimators]", "eigenrnn.forecasting", "sklearn")

from sklearn.base import BaseEstimator, clone  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Backtest", "Forecast", "SequenceForecaster"]

_STEPS_AN_EPOCH = 20
_ORIGINS = 64  # of the forecasts whose errors give an interval
_READ_AT_ONCE = 64  # series


class _Series(NamedTuple):
    """One series, and the statistics by which it is scaled.

    Args:
        values: Its values, (T, K).
        exogenous: What is known ahead of each step and of those after the end, (T + S, E).
        mean: The mean of each column, (K,).
        scale: The deviation of each column, (K,).
        drift: The mean of the seasonal differences, (K,).
        change: The deviation of the seasonal differences, (K,).
    """

    values: Array
    exogenous: Array
    mean: Array
    scale: Array
    drift: Array
    change: Array

    @classmethod
    def of(cls, values: Array, exogenous: Array, season: int, known: int) -> "_Series":
        """Return a series with the statistics of its first `known` steps."""
        first = values[:known]
        changes = first[season:] - first[:-season]
        return cls(
            values,
            exogenous,
            first.mean(0),
            deviation(first),
            changes.mean(0),
            deviation(changes),
        )


@dataclass(frozen=True)
class Forecast:
    """A forecast, and the ends between which each value lies with about the given probability.

    Args:
        values: The forecast, in the form of the series: arrays, or tables with dates.
        lower: The lower ends, NaN where there are too few origins; likewise `upper`.
        upper: The upper ends.
        history: The series that were continued.
        note: Why ends are missing, if some are.
    """

    values: Any
    lower: Any
    upper: Any
    history: Any
    note: str | None = None

    def plot(self) -> "Figure":
        """Draw the history, the forecast and the ends, one row for each series and column."""
        check_installed("matplotlib", "Forecast.plot", "matplotlib")
        from matplotlib.figure import Figure

        curves = zip(
            *map(_curves, (self.history, self.values, self.lower, self.upper)), strict=True
        )
        panels = list(curves)
        figure = Figure(figsize=(8.0, 2.6 * len(panels)), layout="constrained")
        all_axes: Any = figure.subplots(len(panels), squeeze=False)
        for axes, (past, values, lower, upper) in zip(all_axes.flat, panels, strict=True):
            name, x, y = past
            ahead = values[1]
            if ahead is None:  # an array: steps are counted
                x = np.arange(len(y))
                ahead = len(y) + np.arange(len(values[2]))
            axes.plot(x, y, color="0.4", label="history")
            (line,) = axes.plot(ahead, values[2], label="forecast")
            axes.fill_between(ahead, lower[2], upper[2], color=line.get_color(), alpha=0.2)
            axes.set_ylabel(name)
        all_axes.flat[0].legend(frameon=False)
        return figure


def _curves(series: Any) -> list[tuple[str, Any, Array]]:
    """Return the name, the dates if there are any, and the values of each column of series."""
    parts, _, keys = split(series)
    names = [""] * len(parts)
    if keys is not None:
        names, _ = keys
    found: list[tuple[str, Any, Array]] = []
    for name, part in zip(names, parts, strict=True):
        dates: Any = getattr(part, "index", None)
        if not is_index(dates):
            dates = None
        if hasattr(dates, "to_timestamp"):
            dates = dates.to_timestamp()
        if hasattr(dates, "total_seconds"):
            dates = dates.total_seconds()
        values = np.asarray(part, dtype=np.float64).reshape(len(part), -1)
        columns = getattr(part, "columns", [getattr(part, "name", None) or ""] * values.shape[1])
        for column, y in zip(columns, values.T, strict=True):
            found.append((f"{name} {column}".strip(), dates, y))
    return found


@dataclass(frozen=True)
class Backtest:
    r"""How well forecasts would have been, beside those that need no training.

    .. math:: \text{MASE} = \frac{\overline{|y - \hat y|}}{\overline{|y_t - y_{t-s}|}}

    The denominator is the error of the seasonal naive forecast one season ahead, on what precedes
    the first origin. Numbers below one beat it. The means are over steps, columns and series.

    Args:
        mase: The mean over origins.
        naive: That of the last value, repeated.
        seasonal_naive: That of the last season, repeated.
        by_origin: The three numbers of each origin, in this order, (origins, 3).
    Source:
        Hyndman and Koehler, International Journal of Forecasting 22, 2006, section 3.
    """

    mase: float
    naive: float
    seasonal_naive: float
    by_origin: Array


@dataclass(eq=False, repr=False)  # scikit-learn has its own
class SequenceForecaster(BaseEstimator):
    r"""A recurrent network that continues series, and reads its own forecasts as it does so.

    .. math:: \hat y_{t+1} = y_{t+1-s} + \delta + \sigma \odot (V h_t + d)

    h is the state after the values up to t and what is known of step t + 1. The network corrects
    the seasonal naive forecast, the value one season of s steps ago, with the mean
    :math:`\delta` and the deviation :math:`\sigma` of the seasonal differences of the series.
    Beyond its end, forecasts take the place of values. Adam minimises the squared error of one
    step ahead in random windows; the last part of each series is held out, and the epoch with the
    smallest error there is kept. A series that is shorter than a window is continued, but not
    trained on, unless all are.

    A series is an array (T,) or (T, K), or whatever numpy makes one of; a list or a tuple of them
    is several, and so is a table of pandas with two levels of index. Rows are consecutive steps.
    An index of times has to be in order and without gaps. The columns of frames are found by
    their names.

    The names are sktime's: `y` are the series, `X` exogenous values that are known ahead, and a
    horizon of S stands for its ``fh`` of 1, ..., S. Results have the form of what was given; those
    of pandas' series and frames have the dates that follow. Where the index has no dates, no
    durations and no numbers that are equally far apart, steps are counted from zero.

    Args:
        layer: A function of the numbers of inputs and of units that makes a recurrent layer of
            eigenrnn, or a `ResidualStack`.
        hidden_size: The number N of units.
        season: The number s of steps in a season; 1 corrects the last value.
        window: The number of steps of a training window.
        epochs: The largest number of epochs, of 20 steps of the optimiser each.
        batch_size: The number of windows in a step.
        lr: The learning rate; that of constrained matrices is a tenth of it.
        validation: The fraction of each series that is held out at its end.
        patience: Training ends after this number of epochs without improvement.
        random_state: The seed, or a `numpy.random.RandomState`.
        device: Where the network computes, such as ``"cuda"``; by default the CPU.
        verbose: With 1, each epoch prints a line.
    Attributes:
        model_: The trained `SequenceModel`, frozen; `model_.train()` ends that.
        layer_: The function that made its layer.
        history_: The losses of each epoch.
    Raises:
        ValueError: If a shape, an option or a value is wrong.
    Source:
        Intervals: Stankeviciute, Alaa and van der Schaar, NeurIPS 2021, section 4.
        https://proceedings.neurips.cc/paper/2021/hash/312f1ba2a72318edaaa995a67835fad5-Abstract.html
        (departures: their calibration series are origins in the held-out parts here, which overlap
        and chose the epoch too, and each step has the coverage by itself).
    Example:
        >>> y = np.sin(np.arange(120) / 3)
        >>> forecaster = SequenceForecaster(hidden_size=8, epochs=5, random_state=0).fit(y)
        >>> forecaster.predict(10).shape
        (10,)
        >>> forecast = forecaster.forecast(10, coverage=0.8)
        >>> bool((forecast.lower <= forecast.upper).all())
        True
    """

    layer: Callable[[int, int], Any] = GRU
    hidden_size: int = 32
    _: KW_ONLY
    season: int = 1
    window: int = 64
    epochs: int = 100
    batch_size: int = 16
    lr: float = 3e-3
    validation: float = 0.2
    patience: int = 15
    random_state: Any = None
    device: str | None = None
    verbose: int = 0

    def fit(self, y: Any, X: Any = None, *, targets: Any = None) -> Self:
        """Train a network. If that fails, the forecaster stays as it was.

        Ctrl-C leaves the best epoch so far, and is raised on.

        Args:
            y: A series, (T,) or (T, K), or a list of series of any lengths.
            X: What is known ahead of each step, (T, E), or a list as y.
            targets: The column to forecast, or a list of them, where y are frames; the others are
                X. By default all columns.
        """
        fitted = copy.copy(self)
        interruption = fitted._fit(y, X, targets)  # noqa: SLF001, its own
        self.__dict__ = fitted.__dict__
        if interruption is not None:
            raise interruption
        return self

    def save(self, path: str | Path) -> None:
        """Write what `eigenrnn.estimators.load` needs to forecast as now, with the series.

        Raises:
            ValueError: If the folder does not exist.
        """
        check_is_fitted(self)
        write_file(path, self)

    def restored(self, attributes: Mapping[str, Any]) -> Self:
        """Take what the fit of a file had found; used by `load`."""
        vars(self).update(attributes)
        self.series_ = [_Series(*each) for each in self.series_]
        *others, calendars = self.form_
        self.form_ = Form(*others, [Calendar(*each) for each in calendars])
        return self

    def predict(self, horizon: int, X: Any = None, *, y: Any = None) -> Any:
        """Return the next S values, (S,) or (S, K), or a list of them.

        Args:
            horizon: The number S.
            X: What is known ahead of those steps, (S, E), or a list, if `fit` had X; with y, of
                its steps and the next S, or with `targets` in `fit` of the next S.
            y: Series to continue in place of those of `fit`. If there are as many, they are those
                of `fit` with later values, and keep their statistics. Of two panels the names
                tell, and a series of a new name has statistics of its own.
        """
        series, form = self._continued(horizon, X, y)
        return form.filled(self._forecasts(series, horizon), ahead=True)

    def forecast(
        self, horizon: int, coverage: float = 0.9, *, X: Any = None, y: Any = None
    ) -> Forecast:
        r"""Return the forecast, and ends that contain each value with about a given probability.

        The distance of step k is the m-th smallest absolute error of forecasts k steps ahead, from
        n origins in the held-out parts of the series of `fit`, at most 64, with
        :math:`m = \lceil (n + 1) \, \text{coverage} \rceil`. Errors are in deviations of their
        series. Later steps have fewer origins; ends of steps with too few are NaN, and `note` says
        so.

        Args:
            horizon: The number S of steps.
            coverage: The probability.
            X: What is known ahead, as in `predict`.
            y: Series to continue in place of those of `fit`, as in `predict`.
        Raises:
            ValueError: If the coverage is no probability.
        Example:
            >>> y = np.sin(np.arange(120) / 3)
            >>> forecaster = SequenceForecaster(hidden_size=8, epochs=5, random_state=0).fit(y)
            >>> figure = forecaster.forecast(10).plot()
        """
        if not isinstance(coverage, Real):
            raise ValueError(f"expected one coverage, got {coverage!r}: call it once for each")
        if not 0 < coverage < 1:
            raise ValueError(f"expected 0 < coverage < 1, got {coverage}")
        series, form = self._continued(horizon, X, y)
        forecasts = self._forecasts(series, horizon)
        distance, note = self._distances(horizon, coverage)
        pairs = list(zip(forecasts, series, strict=True))
        return Forecast(
            form.filled(forecasts, ahead=True),
            form.filled([v - distance * each.scale for v, each in pairs], ahead=True),
            form.filled([v + distance * each.scale for v, each in pairs], ahead=True),
            form.filled([each.values.copy() for each in series], ahead=False),
            note,
        )

    def backtest(
        self, y: Any, horizon: int, origins: int = 5, *, X: Any = None, targets: Any = None
    ) -> Backtest:
        """Compare forecasts from several origins with what followed, and with naive ones.

        A copy is fitted once, on what precedes the first origin, and reads what precedes each.
        The origins are consecutive steps, and the last forecast ends with the series.

        Args:
            y: The series, as in `fit`.
            horizon: The number S of steps of each forecast.
            origins: The number of origins.
            X: What is known ahead, as in `fit`.
            targets: The columns to forecast, as in `fit`.
        Raises:
            ValueError: If a series is too short, or did not change before the first origin.
        """
        check_positive_integer("horizon", horizon)
        check_positive_integer("origins", origins)
        values, known, _, _ = _read_all(y, X, targets)
        held_out = horizon + origins - 1
        has_known = known[0].shape[1] > 0
        first = [v[:-held_out] for v in values]
        copied: Any = clone(self)
        copied.fit(first, [x[:-held_out] for x in known] if has_known else None)
        scale = [np.abs(v[self.season :] - v[: -self.season]).mean(0) for v in first]
        for number, (changes, v) in enumerate(zip(scale, first, strict=True)):
            is_same = is_rounding(changes, v)
            if is_same.any():
                raise ValueError(
                    "expected series that differ from one season to the next before the first "
                    f"origin, got the same numbers in column {is_same.argmax()} of series {number}"
                )
        found: list[list[float]] = []
        for back in range(held_out, horizon - 1, -1):
            past = [v[: len(v) - back] for v in values]
            ahead = [x[: len(x) - back + horizon] for x in known] if has_known else None
            forecasts = (
                copied.predict(horizon, ahead, y=past),
                [np.repeat(v[-1:], horizon, 0) for v in past],
                [v[-self.season :][np.arange(horizon) % self.season] for v in past],
            )
            truth = [v[len(v) - back :][:horizon] for v in values]
            found.append([_scaled_error(each, truth, scale) for each in forecasts])
        by_origin = np.array(found)
        mase, naive, seasonal = by_origin.mean(0).tolist()
        return Backtest(mase, naive, seasonal, by_origin)

    @torch.inference_mode(False)  # the caller's may be on
    @torch.enable_grad()
    @on_cpu
    def _fit(self, y: Any, X: Any, targets: Any) -> KeyboardInterrupt | None:
        """Scale the series and train; return Ctrl-C, if it ended the training.

        Raises:
            TypeError: If `layer` is no function.
            ValueError: If an option is wrong, or a series is too short.
        """
        for name in ("season", "window", "batch_size"):
            check_positive_integer(name, getattr(self, name))
        if not 0 < self.validation < 1:
            raise ValueError(f"expected 0 < validation < 1, got {self.validation}")
        check_layer(self.layer)
        loop = Loop(self.epochs, self.patience, self.lr, 1.0, self.verbose)
        # the names of columns, if y and X are frames
        values, known, names, self.form_ = _read_all(y, X, targets)
        self.columns_, self.known_columns_ = names
        rename = "frame.rename(columns=str)"
        named = "series.rename('y')" if self.form_.is_flat else rename
        check_plain(self.form_.columns, "the columns of y", named)
        if self.known_columns_ is not None:
            check_plain(self.known_columns_.tolist(), "the columns of X", rename)
        if self.form_.keys is not None:
            series, _ = self.form_.keys
            check_plain(series, "the names of the series", "frame.rename(str, level=0)")
        self.targets_ = targets
        if targets is not None and not isinstance(targets, str | tuple) and np.ndim(targets) > 0:
            self.targets_ = list(targets)  # such as an index of pandas
        shortest = min(map(len, values))
        if shortest < self.season + 8:
            raise ValueError(
                f"expected series of at least season + 8 = {self.season + 8} steps, got {shortest}"
            )
        # what a later `set_params` must not change
        self.season_: int = self.season
        self.cuts_ = [
            min(len(v) - 1, max(self.season + 4, round(len(v) * (1 - self.validation))))
            for v in values
        ]
        self.series_ = [
            _Series.of(v, x, self.season, cut)
            for v, x, cut in zip(values, known, self.cuts_, strict=True)
        ]
        of_training = np.concatenate([x[:cut] for x, cut in zip(known, self.cuts_, strict=True)])
        self.known_mean_ = of_training.mean(0)
        self.known_scale_ = deviation(of_training)
        return self._train(loop)

    def _inputs(self, series: _Series) -> tuple[Tensor, Tensor]:  # (T - s, M), (T - s - 1, K)
        """Return the inputs of steps s, s + 1, ..., and the scaled changes that follow."""
        s = self.season_
        values = series.values
        changes = (values[s:] - values[:-s] - series.drift) / series.change
        ahead = self._known(series, np.arange(s, len(values)) + 1)
        x = np.hstack([changes, (values[s:] - series.mean) / series.scale, ahead])
        dtype = self.model_.head.weight.dtype
        return torch.from_numpy(x).to(dtype), torch.from_numpy(changes[1:]).to(dtype)

    def _known(self, series: _Series, rows: NDArray[np.intp]) -> Array:  # (n, E)
        """Return what is known ahead of n steps, scaled."""
        # nothing may be known after the last step, which then is read again
        known = series.exogenous[rows.clip(max=len(series.exogenous) - 1)]
        return (known - self.known_mean_) / self.known_scale_

    def _train(self, loop: Loop) -> KeyboardInterrupt | None:
        """Train on windows before the cuts; what follows chooses the epoch."""
        device = checked_device(self.device)
        generator = torch.Generator().manual_seed(seed_of(self.random_state))
        K = self.series_[0].values.shape[1]
        M = 2 * K + len(self.known_mean_)
        with drawing(generator, torch.device("cpu")):
            model = SequenceModel(self.layer(M, self.hidden_size), K)
        model.head.to(next(model.layer.parameters()).dtype)
        nn.init.zeros_(model.head.weight)
        nn.init.zeros_(model.head.bias)
        self.layer_ = self.layer
        self.sizes_ = M, self.hidden_size, K
        self.model_ = model.to(device)
        # a layer that cannot forecast raises here, and not after the training
        blank = model.head.weight.new_zeros(2, 1, M)
        rollout(model, blank, 2, feedback=lambda _: blank[0])
        pairs = [self._inputs(each) for each in self.series_]
        ends = [cut - self.season_ - 1 for cut in self.cuts_]  # of what is trained on

        drawing_batch = drawing_batches(model, generator, device)

        def losses() -> Iterator[tuple[Tensor, int]]:
            # windows of one length, each from a series in proportion to its length
            length = min(self.window, max(ends))
            counts = torch.tensor([max(0.0, end - length + 1.0) for end in ends])
            for _ in range(_STEPS_AN_EPOCH):
                chosen = counts.multinomial(self.batch_size, replacement=True, generator=generator)
                starts = (torch.rand(self.batch_size, generator=generator) * counts[chosen]).long()
                x: list[Tensor] = []
                targets: list[Tensor] = []
                for i, a in zip(chosen.tolist(), starts.tolist(), strict=True):
                    of_inputs, of_targets = pairs[i]
                    x.append(of_inputs[a : a + length])
                    targets.append(of_targets[a : a + length])
                with drawing_batch():
                    outputs = model(torch.stack(x, 1).to(device))
                yield (outputs - torch.stack(targets, 1).to(device)).square().mean(), 1

        def judge(_: int, record: dict[str, float]) -> tuple[float, ...]:
            record["validation_loss"] = self._held_out_loss(pairs, ends)
            return (-record["validation_loss"],)

        training = loop.run(model, losses, judge)
        self.history_: list[dict[str, float]] = training.history
        return training.interruption

    @torch.no_grad()
    def _held_out_loss(self, pairs: Sequence[tuple[Tensor, Tensor]], ends: Sequence[int]) -> float:
        """Return the mean squared error of one step ahead in the held-out parts."""
        total = 0.0
        count = 0
        device = self.model_.head.weight.device
        steps_of = [len(target) for _, target in pairs]
        for numbers in _chunks(steps_of):
            some = [pairs[number] for number in numbers]
            x = pad_sequence([x[: len(target)] for x, target in some]).to(device)
            targets = pad_sequence([target for _, target in some])
            lengths = torch.tensor([len(target) for _, target in some])
            # the call of `rollout`, which each layer that forecasts can answer
            states, _ = self.model_.layer(x, None, lengths=lengths.to(device))
            outputs = self.model_.head(states).cpu()
            first = torch.tensor([ends[number] for number in numbers])
            step = torch.arange(len(targets)).unsqueeze(1)
            is_held_out = (step >= first) & (step < lengths)
            errors = (outputs - targets)[is_held_out].square()
            total += float(errors.sum())
            count += errors.numel()
        return total / count

    def _continued(self, horizon: int, X: Any, y: Any) -> tuple[list[_Series], Form]:
        """Return the series to continue, with what is known ahead, and their form.

        Raises:
            ValueError: If X is missing or has another shape, or a series is too short or has
                other columns than those of `fit`.
        """
        check_is_fitted(self)
        check_positive_integer("horizon", horizon)
        E = len(self.known_mean_)
        if (X is None) != (E == 0):
            names = f"the {E} columns"
            if self.known_columns_ is not None:
                names = f"the columns {', '.join(map(str, self.known_columns_))}"
            got = "none"
            if X is not None:
                got = "some"
            raise ValueError(
                f"expected X with {names} of fit for the next {horizon} steps, got {got}: what is "
                "not known ahead cannot help, so leave it out of fit"
            )
        series = self.series_
        form = self.form_
        before = [each.exogenous for each in series]
        if y is not None:
            parts, others, form = given(y, self.targets_, self.columns_)
            check_same_steps(form.calendars, self.form_.calendars)
            series = self._with_values(read(parts, "y", self.columns_)[0], form)
            before = [each.exogenous for each in series]  # empty: X has their steps too
            if others is not None:
                before, _ = read(others, "y", self.known_columns_)
        if X is None:
            return series, form
        parts = known_ahead(X, form)
        rows, _ = read(parts, "X", self.known_columns_, len(series))
        found: list[_Series] = []
        for each, x, known in zip(series, rows, before, strict=True):
            steps = len(each.values) - len(known) + horizon
            if known.shape[1] == 0:
                steps = len(each.values) + horizon
                known = np.empty((0, E))  # noqa: PLW2901
            if x.shape != (steps, E):
                raise ValueError(f"expected X of shape {(steps, E)}, got {x.shape}")
            found.append(each._replace(exogenous=np.concatenate([known, x])))
        # many series have the same dates, which pandas takes long to make
        after = cache(Calendar.after)
        until = cache(Calendar.until)
        for part, each, known, calendar in zip(
            parts, series, before, form.calendars, strict=False
        ):
            expected = after(calendar, horizon)
            if known.shape[1] == 0:
                expected = until(calendar, len(each.values)).append(expected)
            if calendar.kind != "counted":
                check_same_dates(part, expected, "the index of X")
        return found, form

    def _with_values(self, values: list[Array], form: Form) -> list[_Series]:
        """Return other series: those of `fit` with later values, if there are as many.

        Those of panels are found by their names.

        Raises:
            ValueError: If a series is too short, or has other columns than those of `fit`.
        """
        K = self.series_[0].values.shape[1]
        for v in values:
            if len(v) <= self.season_ + 1 or v.shape[1] != K:
                raise ValueError(
                    f"expected series of more than season + 1 = {self.season_ + 1} steps and of "
                    f"{K} columns, got {v.shape}"
                )
        known = dict(enumerate(self.series_))
        names: Sequence[Any] = range(len(values))
        if form.keys is not None and self.form_.keys is not None:
            known = dict(zip(self.form_.keys[0], self.series_, strict=True))
            names = form.keys[0]
        elif len(values) != len(known):
            known = {}
        found: list[_Series] = []
        for name, v in zip(names, values, strict=True):
            if name in known:
                found.append(known[name]._replace(values=v, exogenous=v[:, :0]))
            else:
                found.append(_Series.of(v, v[:, :0], self.season_, len(v)))
        return found

    @torch.no_grad()
    @on_cpu
    def _forecasts(self, series: Sequence[_Series], horizon: int) -> list[Array]:  # each (S, K)
        """Return what follows series."""
        found: dict[int, Array] = {}
        steps_of = [len(each.values) for each in series]
        for numbers in _chunks(steps_of):
            values = self._continuations([series[number] for number in numbers], horizon)
            found.update(zip(numbers, values, strict=True))
        return [found[number] for number in range(len(series))]

    def _continuations(self, series: Sequence[_Series], horizon: int) -> Array:  # (B, S, K)
        """Continue a batch of series: the outputs of the network become its inputs."""
        inputs = [self._inputs(each)[0] for each in series]
        mean = np.stack([each.mean for each in series])
        scale = np.stack([each.scale for each in series])
        drift = np.stack([each.drift for each in series])
        change = np.stack([each.change for each in series])
        # of each step the values of all series, (B, K): the last season, and what follows
        values = list(np.stack([each.values[-self.season_ :] for each in series], 1))
        steps = np.arange(1, horizon + 1)
        known = iter(np.stack([self._known(each, len(each.values) + steps) for each in series], 1))

        def append(outputs: Tensor) -> Tensor:
            """Add the values that follow from outputs, and return the next inputs."""
            output = outputs.double().cpu().numpy()
            values.append(values[-self.season_] + drift + output * change)
            scaled = (values[-1] - mean) / scale
            x = np.hstack([output, scaled, next(known)])
            return torch.from_numpy(x).to(outputs.device, outputs.dtype)

        device = self.model_.head.weight.device
        x = pad_sequence(inputs).to(device)
        lengths = torch.tensor([len(x) for x in inputs]).to(device)
        rollout(self.model_.eval(), x, horizon, feedback=append, lengths=lengths)
        return np.stack(values[-horizon:], 1)

    @on_cpu
    def _errors(self, horizon: int) -> Array:  # (origins, S, K)
        """Return the absolute errors of forecasts from the held-out parts, in deviations.

        Steps after the end of a series are NaN.
        """
        held_out = [len(v.values) - cut for v, cut in zip(self.series_, self.cuts_, strict=True)]
        ends = np.cumsum(held_out)
        # each step that is held out, of the first series to the last, could be an origin
        chosen = np.unique(np.linspace(0, ends[-1] - 1, _ORIGINS).round().astype(int))
        past: list[_Series] = []
        truths: list[Array] = []
        for step, number in zip(chosen, np.searchsorted(ends, chosen, side="right"), strict=True):
            each = self.series_[number]
            origin = len(each.values) - (ends[number] - step)
            past.append(each._replace(values=each.values[:origin]))
            truths.append(each.values[origin : origin + horizon])
        errors = np.full((len(past), horizon, past[0].values.shape[1]), np.nan)
        for k, forecast in enumerate(self._forecasts(past, horizon)):
            left = len(truths[k])
            errors[k, :left] = np.abs(forecast[:left] - truths[k]) / past[k].scale
        return errors

    def _distances(self, horizon: int, coverage: float) -> tuple[Array, str | None]:  # (S, K)
        """Return the distance of the ends of each step, and why some are missing."""
        errors = np.sort(self._errors(horizon), axis=0)  # NaN last
        distances = np.full(errors.shape[1:], np.nan)
        count = np.isfinite(errors[:, :, 0]).sum(0)
        for step, n in enumerate(count.tolist()):
            rank = math.ceil((n + 1) * coverage - 1e-9)  # a rounding is no further rank
            if rank <= n:
                distances[step] = errors[rank - 1, step]
        if not np.isnan(distances).any():
            return distances, None
        reach = int(np.isfinite(distances[:, 0]).sum())
        largest = math.floor(1000 * count[-1] / (count[-1] + 1)) / 1000  # itself not too large
        remedy = "give longer series, or a larger validation"
        if largest:
            remedy = f"take a coverage of at most {largest:.3g}, or {remedy}"
        return distances, (
            f"ends of coverage {coverage} reach {reach} of {horizon} steps ahead, as there are "
            f"{count[-1]} origins in the held-out parts for the last one: {remedy}"
        )


def _chunks(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the numbers of all series, few at once and of similar lengths."""
    chunk: list[int] = []
    for number in np.argsort(lengths, kind="stable").tolist():
        # beside a long series short ones would be padding for the most part
        is_long = bool(chunk) and lengths[number] > 8 * lengths[chunk[0]]
        if is_long or len(chunk) == _READ_AT_ONCE:
            yield sorted(chunk)
            chunk = []
        chunk.append(number)
    yield sorted(chunk)


def _read_all(
    y: Any, X: Any, targets: Any
) -> tuple[list[Array], list[Array], tuple[Any, Any], Form]:  # each (T, K), each (T, E)
    """Return the series, what is known ahead, the names of the columns of both, and the form.

    Raises:
        ValueError: If the two do not fit.
    """
    parts, others, form = given(y, targets, None)
    values, columns = read(parts, "y", None)
    if X is not None and others is not None:
        raise ValueError("expected X or further columns in y, got both: join them")
    if X is not None:
        others = known_ahead(X, form)
    if others is None:
        return values, [v[:, :0] for v in values], (columns, None), form
    known, known_columns = read(others, "X", None, len(values))
    for v, x in zip(values, known, strict=True):
        if len(v) != len(x):
            raise ValueError(f"expected X of {len(v)} steps, as y, got {len(x)}")
    for one, other in zip(others, parts, strict=True):
        check_same_dates(one, getattr(other, "index", None), "the index of X")
    return values, known, (columns, known_columns), form


def _scaled_error(
    forecasts: Sequence[Array], truths: Sequence[Array], scales: Sequence[Array]
) -> float:
    """Return the mean over series of the absolute errors in units of their scales."""
    of_each = [
        (np.abs(forecast - truth) / scale).mean()
        for forecast, truth, scale in zip(forecasts, truths, scales, strict=True)
    ]
    return float(np.mean(of_each))
