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

__all__ = ["SequenceForecaster"]

Array = NDArray[np.float64]

_STEPS_AN_EPOCH = 20
_ORIGINS = 64  # of the forecasts whose errors give an interval


class _Series(NamedTuple):
    """One series as the network sees it.

    Args:
        values: Its values, (T, K), in their own units.
        exogenous: What is known ahead of each step and of those after the end, (T + S, E).
        mean: The mean of each column, (K,).
        scale: The deviation of each column, (K,).
    """

    values: Array
    exogenous: Array
    mean: Array
    scale: Array


@dataclass(eq=False, repr=False)  # scikit-learn has its own
class SequenceForecaster(BaseEstimator):
    r"""A recurrent network that continues series, and reads its own forecasts as it does so.

    .. math:: \hat y_{t+1} = y_{t+1-s} + \delta + \sigma \odot (V h_t + d)

    h is the state after the values up to t and what is known of step t + 1. The network corrects
    the seasonal naive forecast, the value one season of s steps ago, with the mean
    :math:`\delta` and the deviation :math:`\sigma` of the seasonal differences. Beyond the end of
    a series, forecasts take the place of values. Adam minimises the squared error of one step
    ahead in random windows; the last part of each series is held out, and the epoch with the
    smallest error there is kept.

    The names are sktime's: `y` are the series, `X` exogenous values that are known ahead, and a
    horizon of S stands for its ``fh`` of 1, ..., S. Results are arrays like those that were given.

    Args:
        layer: A function of the numbers of inputs and of units that makes a recurrent layer.
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
        (departures: their calibration series are origins in the held-out parts here, whose errors
        are not exchangeable, and each step has the coverage by itself).
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

    def predict(self, horizon: int, X: Any = None, y: Any = None) -> Any:
        """Return the next S values, (S,) or (S, K), or a list of them.

        Args:
            horizon: The number S.
            X: What is known ahead of those steps, (S, E), or a list, if `fit` had X; with y, of
                its steps and the next S.
            y: Series to continue in place of those of `fit`.
        """
        check_is_fitted(self)
        check_positive_integer("horizon", horizon)
        series = self._continued(horizon, X, y)
        return self._like_given(self._forecasts(series, horizon), y)

    def predict_interval(
        self, horizon: int, coverage: float = 0.9, X: Any = None, y: Any = None
    ) -> tuple[Any, Any]:
        """Return lower and upper ends that contain each value with about the given probability.

        The distance of step k is a quantile of the absolute errors of forecasts k steps ahead,
        from up to 64 origins in the held-out parts of the series of `fit`, in deviations.

        Raises:
            ValueError: If the coverage is no probability, or the held-out parts are shorter than
                the horizon.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"expected 0 < coverage < 1, got {coverage}")
        forecasts = self.predict(horizon, X, y)
        errors = self._errors(horizon)  # (origins, S, K)
        rank = min(1.0, math.ceil((len(errors) + 1) * coverage) / len(errors))
        distance = np.quantile(errors, rank, axis=0, method="higher")
        series = self.series_ if y is None else self._continued(horizon, X, y)
        of_each = self._like_given([distance * each.scale for each in series], y)
        if isinstance(forecasts, list):
            pairs = list(zip(forecasts, of_each, strict=True))
            return [v - d for v, d in pairs], [v + d for v, d in pairs]
        return forecasts - of_each, forecasts + of_each

    def _fit(self, y: Any, X: Any) -> None:
        """Scale the series and train.

        Raises:
            ValueError: If an option is wrong, or a series is too short.
        """
        for name in ("season", "window", "epochs", "batch_size", "patience"):
            check_positive_integer(name, getattr(self, name))
        if not 0 < self.validation < 1:
            raise ValueError(f"expected 0 < validation < 1, got {self.validation}")
        values = _read(y, "y")
        self.is_list_ = isinstance(y, list)
        self.is_flat_ = np.ndim(y[0] if self.is_list_ else y) == 1
        known = _read(X, "X", len(values)) if X is not None else [v[:, :0] for v in values]
        shortest = min(map(len, values))
        if shortest < self.season + 8:
            raise ValueError(
                f"expected series of at least season + 8 = {self.season + 8} steps, got {shortest}"
            )
        for v, x in zip(values, known, strict=True):
            if len(v) != len(x):
                raise ValueError(f"expected X of {len(v)} steps, as y, got {len(x)}")
        cuts = [self._cut(len(v)) for v in values]
        of_training = np.concatenate([x[:cut] for x, cut in zip(known, cuts, strict=True)])
        self.known_mean_ = of_training.mean(0)
        self.known_scale_ = _deviation(of_training)
        self.series_ = [
            self._scaled(v, x, cut) for v, x, cut in zip(values, known, cuts, strict=True)
        ]
        changes = np.concatenate(
            [
                self._changes(each)[: cut - self.season]
                for each, cut in zip(self.series_, cuts, strict=True)
            ]
        )
        self.drift_ = changes.mean(0)
        self.change_scale_ = _deviation(changes)
        self._train(cuts)

    def _cut(self, T: int) -> int:
        """Return the number of steps before the held-out part."""
        return min(T - 1, max(self.season + 4, round(T * (1 - self.validation))))

    def _scaled(self, values: Array, known: Array, cut: int) -> _Series:
        return _Series(values, known, values[:cut].mean(0), _deviation(values[:cut]))

    def _changes(self, series: _Series) -> Array:  # (T - s, K)
        scaled = (series.values - series.mean) / series.scale
        return scaled[self.season :] - scaled[: -self.season]

    def _inputs(self, series: _Series) -> tuple[Tensor, Tensor]:  # (T - s, M), (T - s, K)
        """Return the inputs of steps s, s + 1, ..., and the changes that follow, scaled."""
        changes = (self._changes(series) - self.drift_) / self.change_scale_
        scaled = (series.values - series.mean) / series.scale
        known = (series.exogenous - self.known_mean_) / self.known_scale_
        # nothing may be known after the last step, which then is read again
        rows = np.arange(self.season, len(scaled)) + 1
        ahead = known[rows.clip(max=len(known) - 1)]
        x = np.hstack([changes, scaled[self.season :], ahead])
        return torch.from_numpy(x).float(), torch.from_numpy(changes[1:]).float()

    def _train(self, cuts: Sequence[int]) -> None:
        """Train on windows before the cuts; what follows chooses the epoch.

        Raises:
            FloatingPointError: If no epoch has a finite loss.
        """
        seed = int(check_random_state(self.random_state).randint(2**31))
        generator = torch.Generator().manual_seed(seed)
        pairs = [self._inputs(each) for each in self.series_]
        ends = [cut - self.season - 1 for cut in cuts]  # of the pairs that are trained on
        M = pairs[0][0].shape[1]
        K = pairs[0][1].shape[1]
        with DrawFrom(generator):
            model = SequenceModel(self.layer(M, self.hidden_size), K)
        nn.init.zeros_(model.head.weight)
        nn.init.zeros_(model.head.bias)
        self.model_ = model
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
        length = min(self.window, *ends)
        counts = torch.tensor([end - length + 1.0 for end in ends])
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
        return total / max(count, 1)

    def _continued(self, horizon: int, X: Any, y: Any) -> list[_Series]:
        """Return the series to continue, with what is known ahead.

        Raises:
            ValueError: If X is missing or has another number of steps, or a series is too short.
        """
        E = len(self.known_mean_)
        if (X is None) != (E == 0):
            raise ValueError(
                f"expected X with the {E} columns of fit, got {'none' if X is None else 'some'}"
            )
        if y is None:
            given = self.series_
        else:
            given = [self._scaled(v, v[:, :0], len(v)) for v in _read(y, "y")]
        shortest = min(len(each.values) for each in given)
        if shortest <= self.season:
            raise ValueError(
                f"expected series longer than season={self.season}, got {shortest} steps"
            )
        if X is None:
            return given
        ahead = _read(X, "X", len(given))
        found: list[_Series] = []
        for each, x in zip(given, ahead, strict=True):
            steps = horizon if y is None else len(each.values) + horizon
            if x.shape != (steps, E):
                raise ValueError(f"expected X of shape {(steps, E)}, got {x.shape}")
            known = np.concatenate([each.exogenous, x]) if y is None else x
            found.append(each._replace(exogenous=known))
        return found

    @torch.no_grad()
    def _forecasts(self, series: Sequence[_Series], horizon: int) -> list[Array]:  # each (S, K)
        """Continue series: the outputs of the network become its inputs."""
        inputs = [self._inputs(each)[0] for each in series]
        history = [((each.values - each.mean) / each.scale).tolist() for each in series]
        known = [(each.exogenous - self.known_mean_) / self.known_scale_ for each in series]

        def append(outputs: Tensor) -> Tensor:
            """Add the values that follow from outputs, and return the next inputs."""
            rows: list[Array] = []
            for values, x, output in zip(history, known, outputs.double().numpy(), strict=True):
                change = output * self.change_scale_ + self.drift_
                values.append((np.array(values[-self.season]) + change).tolist())
                ahead = x[min(len(values), len(x) - 1)]
                rows.append(np.concatenate([output, values[-1], ahead]))
            return torch.from_numpy(np.stack(rows)).float()

        lengths = torch.tensor([len(x) for x in inputs])
        rollout(
            self.model_.eval(), pad_sequence(inputs), horizon, feedback=append, lengths=lengths
        )
        return [
            np.array(values[-horizon:]) * each.scale + each.mean
            for values, each in zip(history, series, strict=True)
        ]

    def _errors(self, horizon: int) -> Array:  # (origins, S, K)
        """Return the absolute errors of forecasts from the held-out parts, in deviations.

        Raises:
            ValueError: If no held-out part has so many steps.
        """
        prefixes: list[_Series] = []
        truths: list[Array] = []
        for each in self.series_:
            first = self._cut(len(each.values))
            for origin in range(first, len(each.values) - horizon + 1):
                prefixes.append(each._replace(values=each.values[:origin]))
                truths.append(each.values[origin : origin + horizon])
        if not prefixes:
            raise ValueError(
                f"expected a horizon of at most the length of a held-out part, got {horizon}: "
                "give more data, or a larger validation"
            )
        chosen = np.unique(np.linspace(0, len(prefixes) - 1, _ORIGINS).round().astype(int))
        some = [prefixes[k] for k in chosen]
        forecasts = self._forecasts(some, horizon)
        return np.stack(
            [
                np.abs(forecast - truths[k]) / each.scale
                for forecast, k, each in zip(forecasts, chosen, some, strict=True)
            ]
        )

    def _like_given(self, arrays: list[Array], y: Any) -> Any:
        """Return arrays as the series were given: without columns, or a single one."""
        is_flat = self.is_flat_
        is_list = self.is_list_
        if y is not None:
            is_list = isinstance(y, list)
            is_flat = np.ndim(y[0] if is_list else y) == 1
        if is_flat:
            arrays = [each[:, 0] for each in arrays]
        return arrays if is_list else arrays[0]


def _read(series: Any, name: str, count: int | None = None) -> list[Array]:  # each (T, K)
    """Return series in double precision.

    Raises:
        ValueError: If a shape or a value is wrong, or there are not so many of them.
    """
    parts = series if isinstance(series, list) else [series]
    if not parts or (count is not None and len(parts) != count):
        raise ValueError(f"expected {count or 'some'} series in {name}, got {len(parts)}")
    found: list[Array] = []
    for part in parts:
        values = np.asarray(part)
        values = values[:, None] if values.ndim == 1 else values
        found.append(check_array(values, dtype="float64", input_name=name))
    if len({values.shape[1] for values in found}) > 1:
        raise ValueError(f"expected series of the same columns in {name}, got others")
    return found


def _deviation(rows: Array) -> Array:
    """Return the standard deviation of each column, or one in place of zero."""
    deviation = rows.std(0)
    return np.where(deviation > 0, deviation, 1.0)
