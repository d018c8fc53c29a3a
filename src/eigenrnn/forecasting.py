"""Forecasts of series by a recurrent network that reads its own outputs."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from eigenrnn.closed_loop import rollout
from eigenrnn.errors import check_installed, check_positive_integer
from eigenrnn.layers import GRU
from eigenrnn.models import SequenceModel, parameter_groups, penalty
from eigenrnn.torch_internals import DrawFrom

check_installed("eigenrnn[estimators]", "eigenrnn.forecasting", "sklearn")

from sklearn.base import BaseEstimator  # noqa: E402
from sklearn.utils import check_array, check_random_state  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402

__all__ = ["LARGEST", "SequenceForecaster", "check_size", "with_columns"]

Array = NDArray[np.float64]

LARGEST = float(np.finfo(np.float32).max)
"""The largest value of a series. The square of one, in its deviation, is finite in float64."""

_STEPS_AN_EPOCH = 20
_ORIGINS = 64  # of the forecasts whose errors give an interval


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
            _deviation(first),
            changes.mean(0),
            _deviation(changes),
        )


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
    is several. Rows are consecutive steps. The columns of frames are found by their names.

    The names are sktime's: `y` are the series, `X` exogenous values that are known ahead, and a
    horizon of S stands for its ``fh`` of 1, ..., S. Results are arrays like those that were given.

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
    Attributes:
        model_: The trained `SequenceModel`.
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
        >>> lower, upper = forecaster.predict_interval(10, coverage=0.8)
        >>> bool((lower <= upper).all())
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

    def fit(self, y: Any, X: Any = None) -> Self:
        """Train a network. If that fails, the forecaster stays as it was.

        Args:
            y: A series, (T,) or (T, K), or a list of series of any lengths.
            X: What is known ahead of each step, (T, E), or a list as y.
        """
        fitted = copy.copy(self)
        fitted._fit(y, X)  # noqa: SLF001, its own
        self.__dict__ = fitted.__dict__
        return self

    def predict(self, horizon: int, *, X: Any = None, y: Any = None) -> Any:
        """Return the next S values, (S,) or (S, K), or a list of them.

        Args:
            horizon: The number S.
            X: What is known ahead of those steps, (S, E), or a list, if `fit` had X; with y, of
                its steps and the next S.
            y: Series to continue in place of those of `fit`. If there are as many, they are those
                of `fit` with later values, and keep their statistics.
        """
        check_is_fitted(self)
        check_positive_integer("horizon", horizon)
        series = self._continued(horizon, X, y)
        return self._like_given(self._forecasts(series, horizon), y)

    def predict_interval(
        self, horizon: int, coverage: float = 0.9, *, X: Any = None, y: Any = None
    ) -> tuple[Any, Any]:
        r"""Return lower and upper ends that contain each value with about the given probability.

        The distance of step k is the m-th smallest absolute error of forecasts k steps ahead, from
        n origins in the held-out parts of the series of `fit`, at most 64, with
        :math:`m = \lceil (n + 1) \, \text{coverage} \rceil`. Errors are in deviations of their
        series.

        Raises:
            ValueError: If the coverage is no probability, or needs more origins than there are.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"expected 0 < coverage < 1, got {coverage}")
        check_is_fitted(self)
        check_positive_integer("horizon", horizon)
        series = self._continued(horizon, X, y)
        errors = self._errors(horizon)  # (origins, S, K)
        rank = math.ceil((len(errors) + 1) * coverage)
        if rank > len(errors):
            raise ValueError(
                f"expected a coverage of at most {len(errors) / (len(errors) + 1):.3g} for a "
                f"horizon of {horizon}, as there are {len(errors)} origins in the held-out parts, "
                f"got {coverage}: give longer series, or a larger validation"
            )
        distance = np.sort(errors, axis=0)[rank - 1]
        forecasts = self._forecasts(series, horizon)
        pairs = list(zip(forecasts, series, strict=True))
        lower = [values - distance * each.scale for values, each in pairs]
        upper = [values + distance * each.scale for values, each in pairs]
        return self._like_given(lower, y), self._like_given(upper, y)

    def _fit(self, y: Any, X: Any) -> None:
        """Scale the series and train.

        Raises:
            ValueError: If an option is wrong, or a series is too short.
        """
        for name in ("season", "window", "epochs", "batch_size", "patience"):
            check_positive_integer(name, getattr(self, name))
        if not 0 < self.validation < 1:
            raise ValueError(f"expected 0 < validation < 1, got {self.validation}")
        if not 0 < self.lr < math.inf:
            raise ValueError(f"expected a positive lr, got {self.lr}")
        # the names of columns, if y and X are frames
        values, self.columns_ = _read(y, "y", None)
        known = [v[:, :0] for v in values]
        self.known_columns_ = None
        if X is not None:
            known, self.known_columns_ = _read(X, "X", None, len(values))
        shortest = min(map(len, values))
        if shortest < self.season + 8:
            raise ValueError(
                f"expected series of at least season + 8 = {self.season + 8} steps, got {shortest}"
            )
        for v, x in zip(values, known, strict=True):
            if len(v) != len(x):
                raise ValueError(f"expected X of {len(v)} steps, as y, got {len(x)}")
        # what a later `set_params` must not change
        self.season_: int = self.season
        self.cuts_ = [
            min(len(v) - 1, max(self.season + 4, round(len(v) * (1 - self.validation))))
            for v in values
        ]
        self.is_flat_ = _is_flat(y)
        self.is_several_ = _is_several(y)
        self.series_ = [
            _Series.of(v, x, self.season, cut)
            for v, x, cut in zip(values, known, self.cuts_, strict=True)
        ]
        of_training = np.concatenate([x[:cut] for x, cut in zip(known, self.cuts_, strict=True)])
        self.known_mean_ = of_training.mean(0)
        self.known_scale_ = _deviation(of_training)
        self._train()

    def _inputs(self, series: _Series) -> tuple[Tensor, Tensor]:  # (T - s, M), (T - s - 1, K)
        """Return the inputs of steps s, s + 1, ..., and the scaled changes that follow."""
        s = self.season_
        values = series.values
        changes = (values[s:] - values[:-s] - series.drift) / series.change
        # nothing may be known after the last step, which then is read again
        rows = np.arange(s, len(values)) + 1
        ahead = self._known(series)[rows.clip(max=len(series.exogenous) - 1)]
        x = np.hstack([changes, (values[s:] - series.mean) / series.scale, ahead])
        dtype = self.model_.head.weight.dtype
        return torch.from_numpy(x).to(dtype), torch.from_numpy(changes[1:]).to(dtype)

    def _known(self, series: _Series) -> Array:
        return (series.exogenous - self.known_mean_) / self.known_scale_

    def _train(self) -> None:
        """Train on windows before the cuts; what follows chooses the epoch.

        Raises:
            FloatingPointError: If no epoch has a finite loss.
        """
        if self.random_state is None:  # numpy's global generator is the caller's
            seed = int(np.random.default_rng().integers(2**31))
        else:
            seed = int(check_random_state(self.random_state).randint(2**31))
        generator = torch.Generator().manual_seed(seed)
        K = self.series_[0].values.shape[1]
        M = 2 * K + len(self.known_mean_)
        with DrawFrom(generator):
            model = SequenceModel(self.layer(M, self.hidden_size), K)
        model.head.to(next(model.layer.parameters()).dtype)
        nn.init.zeros_(model.head.weight)
        nn.init.zeros_(model.head.bias)
        self.model_ = model
        # a layer that cannot forecast raises here, and not after the training
        blank = model.head.weight.new_zeros(2, 1, M)
        rollout(model, blank, 2, feedback=lambda _: blank[0])
        pairs = [self._inputs(each) for each in self.series_]
        ends = [cut - self.season_ - 1 for cut in self.cuts_]  # of what is trained on
        optimiser = torch.optim.Adam(parameter_groups(model, lr=self.lr))
        self.history_: list[dict[str, float]] = []
        best = math.inf
        best_epoch = 0
        best_weights = None
        for epoch in range(1, self.epochs + 1):
            model.train()
            total = 0.0
            for _ in range(_STEPS_AN_EPOCH):
                x, target = self._windows(pairs, ends, generator)
                optimiser.zero_grad()
                with DrawFrom(generator):
                    loss = (model(x) - target).square().mean()
                (loss + penalty(model)).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                total += loss.item() / _STEPS_AN_EPOCH
            found = self._held_out_loss(pairs, ends)
            self.history_.append({"loss": total, "validation_loss": found})
            if found < best:
                best = found
                best_epoch = epoch
                best_weights = copy.deepcopy(model.state_dict())
            if epoch - best_epoch >= self.patience:
                break
        if best_weights is None:
            raise FloatingPointError("expected a finite loss, got none: take a smaller lr")
        model.load_state_dict(best_weights)
        model.zero_grad()

    def _windows(
        self,
        pairs: Sequence[tuple[Tensor, Tensor]],
        ends: Sequence[int],
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:  # (L, B, M), (L, B, K)
        """Draw windows of one length, each from a series in proportion to its length."""
        length = min(self.window, max(ends))
        counts = torch.tensor([max(0.0, end - length + 1.0) for end in ends])
        chosen = counts.multinomial(self.batch_size, replacement=True, generator=generator)
        starts = (torch.rand(self.batch_size, generator=generator) * counts[chosen]).long()
        parts = [
            (pairs[i][0][a : a + length], pairs[i][1][a : a + length])
            for i, a in zip(chosen.tolist(), starts.tolist(), strict=True)
        ]
        inputs, targets = zip(*parts, strict=True)
        return torch.stack(inputs, 1), torch.stack(targets, 1)

    @torch.no_grad()
    def _held_out_loss(self, pairs: Sequence[tuple[Tensor, Tensor]], ends: Sequence[int]) -> float:
        """Return the mean squared error of one step ahead in the held-out parts."""
        self.model_.eval()
        total = 0.0
        count = 0
        for (x, target), end in zip(pairs, ends, strict=True):
            errors = (self.model_(x[: len(target)]) - target)[end:].square()
            total += float(errors.sum())
            count += errors.numel()
        return total / count

    def _continued(self, horizon: int, X: Any, y: Any) -> list[_Series]:
        """Return the series to continue, with what is known ahead.

        Raises:
            ValueError: If X is missing or has another shape, or a series is too short or has
                other columns than those of `fit`.
        """
        E = len(self.known_mean_)
        if (X is None) != (E == 0):
            got = "none" if X is None else "some"
            raise ValueError(f"expected X with the {E} columns of fit, got {got}")
        given = self.series_
        if y is not None:
            given = self._with_values(_read(y, "y", self.columns_)[0])
        if X is None:
            return given
        found: list[_Series] = []
        rows, _ = _read(X, "X", self.known_columns_, len(given))
        for each, x in zip(given, rows, strict=True):
            steps = horizon if y is None else len(each.values) + horizon
            if x.shape != (steps, E):
                raise ValueError(f"expected X of shape {(steps, E)}, got {x.shape}")
            known = np.concatenate([each.exogenous, x]) if y is None else x
            found.append(each._replace(exogenous=known))
        return found

    def _with_values(self, values: list[Array]) -> list[_Series]:
        """Return other series: those of `fit` with later values, if there are as many.

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
        if len(values) == len(self.series_):
            pairs = zip(self.series_, values, strict=True)
            return [each._replace(values=v, exogenous=v[:, :0]) for each, v in pairs]
        return [_Series.of(v, v[:, :0], self.season_, len(v)) for v in values]

    @torch.no_grad()
    def _forecasts(self, series: Sequence[_Series], horizon: int) -> list[Array]:  # each (S, K)
        """Continue series: the outputs of the network become its inputs."""
        inputs = [self._inputs(each)[0] for each in series]
        history = [list(each.values) for each in series]
        known = [self._known(each) for each in series]

        def append(outputs: Tensor) -> Tensor:
            """Add the values that follow from outputs, and return the next inputs."""
            rows: list[Array] = []
            for each, values, x, output in zip(
                series, history, known, outputs.double().numpy(), strict=True
            ):
                values.append(values[-self.season_] + each.drift + output * each.change)
                scaled = (values[-1] - each.mean) / each.scale
                rows.append(np.concatenate([output, scaled, x[min(len(values), len(x) - 1)]]))
            return torch.from_numpy(np.stack(rows)).to(outputs.dtype)

        lengths = torch.tensor([len(x) for x in inputs])
        rollout(
            self.model_.eval(), pad_sequence(inputs), horizon, feedback=append, lengths=lengths
        )
        return [np.stack(values[-horizon:]) for values in history]

    def _errors(self, horizon: int) -> Array:  # (origins, S, K)
        """Return the absolute errors of forecasts from the held-out parts, in deviations.

        Raises:
            ValueError: If no held-out part has so many steps.
        """
        prefixes: list[_Series] = []
        truths: list[Array] = []
        for each, cut in zip(self.series_, self.cuts_, strict=True):
            for origin in range(cut, len(each.values) - horizon + 1):
                prefixes.append(each._replace(values=each.values[:origin]))
                truths.append(each.values[origin : origin + horizon])
        if not prefixes:
            raise ValueError(
                f"expected a horizon of at most the length of a held-out part, got {horizon}: "
                "give longer series, or a larger validation"
            )
        chosen = np.unique(np.linspace(0, len(prefixes) - 1, _ORIGINS).round().astype(int))
        some = [prefixes[k] for k in chosen]
        errors: list[Array] = []
        for k, forecast in zip(chosen, self._forecasts(some, horizon), strict=True):
            errors.append(np.abs(forecast - truths[k]) / prefixes[k].scale)
        return np.stack(errors)

    def _like_given(self, arrays: list[Array], y: Any) -> Any:
        """Return arrays as the series were given: without columns, or a single one."""
        is_flat = self.is_flat_ if y is None else _is_flat(y)
        is_several = self.is_several_ if y is None else _is_several(y)
        if is_flat:
            arrays = [each[:, 0] for each in arrays]
        return arrays if is_several else arrays[0]


def _is_several(series: Any) -> bool:
    """Whether these are several series, in a list or a tuple, and not one of numbers."""
    return isinstance(series, list | tuple) and (len(series) == 0 or np.ndim(series[0]) > 0)


def _is_flat(series: Any) -> bool:
    """Whether the series have no axis of columns."""
    return np.ndim(series[0] if _is_several(series) else series) == 1


def check_size(values: Array, name: str) -> None:
    """Check that no value is too large for float32.

    Raises:
        ValueError: If one is.
    """
    largest = np.abs(values).max(initial=0.0)
    if largest > LARGEST:
        raise ValueError(f"expected values up to {LARGEST:.3g} in {name}, got {largest:.3g}")


def with_columns(part: Any, names: Any, place: str) -> tuple[Any, Any]:
    """Return the columns of these names, in their order, as an array, and the names.

    Args:
        part: A frame, or anything else, which is returned as it is.
        names: The names of the columns; None for those of the frame.
        place: Names the frame in errors.
    Raises:
        ValueError: If the frame has not each of these columns once and no others.
    """
    found = np.asarray(getattr(part, "columns", None), dtype=object)
    if found.ndim != 1:  # no frame, or a table of Arrow, whose columns are arrays
        return part, names
    if names is None:
        names = found
    if set(found) != set(names) or len(found) != len(set(found)):
        expected = ", ".join(map(str, dict.fromkeys(names)))
        got = ", ".join(map(str, found))
        raise ValueError(f"expected each of the columns {expected} once in {place}, got {got}")
    # missing values of pandas become NaN
    array = check_array(
        part[list(names)], dtype="float64", ensure_all_finite=False, ensure_min_samples=0
    )
    return array, names


def _read(
    series: Any, name: str, columns: Any, count: int | None = None
) -> tuple[list[Array], Any]:  # each (T, K)
    """Return series in double precision, and the names of their columns.

    Raises:
        ValueError: If a shape, a column or a value is wrong, or there are not so many of them.
    """
    parts = series if _is_several(series) else [series]
    if not parts or (count is not None and len(parts) != count):
        raise ValueError(f"expected {count or 'some'} series in {name}, got {len(parts)}")
    found: list[Array] = []
    for number, part in enumerate(parts):
        array, columns = with_columns(part, columns, f"{name}, series {number}")
        values = np.asarray(array)
        values = values[:, None] if values.ndim == 1 else values
        found.append(check_array(values, dtype="float64", copy=True, input_name=name))
        check_size(found[-1], name)
    if len({values.shape[1] for values in found}) > 1:
        raise ValueError(f"expected series of the same columns in {name}, got others")
    return found, columns


def _deviation(rows: Array) -> Array:
    """Return the standard deviation of each column, or one where it is only rounding."""
    deviation = rows.std(0)
    rounding = np.finfo(rows.dtype).eps * np.abs(rows).max(0, initial=0.0)
    return np.where(deviation > 8 * rounding, deviation, 1.0)
