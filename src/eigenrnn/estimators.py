"""Recurrent networks as estimators of scikit-learn, for sequences of unequal lengths.

`SequenceForecaster` is in a module of its own.
"""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from eigenrnn.errors import check_installed, check_positive_integer
from eigenrnn.fitted_network import FittedNetwork, Missing
from eigenrnn.fitting import (
    Loop,
    check_layer,
    check_plain,
    checked_device,
    drawing,
    drawing_batches,
    read_file,
    seed_of,
    write_file,
)
from eigenrnn.layers import GRU
from eigenrnn.linalg import on_cpu
from eigenrnn.models import SequenceModel
from eigenrnn.values import (
    LARGEST,
    Array,
    check_order,
    check_size,
    numbers,
    parts_of_panel,
    with_columns,
)

check_installed("eigenrnn[estimators]", "eigenrnn.estimators", "sklearn")

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # noqa: E402
from sklearn.metrics import check_scoring  # noqa: E402
from sklearn.utils import (  # noqa: E402
    assert_all_finite,
    check_array,
    check_consistent_length,
    column_or_1d,
)
from sklearn.utils.class_weight import compute_sample_weight  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402

from eigenrnn.forecasting import Backtest, Forecast, SequenceForecaster  # noqa: E402

__all__ = [
    "Backtest",
    "Forecast",
    "SequenceClassifier",
    "SequenceForecaster",
    "SequenceRegressor",
    "load",
]

Indices = NDArray[np.int64]

_RATES = {GRU: 1e-2}  # those of other layers are 1e-3
_PREDICTED_AT_ONCE = 64  # sequences


def load(path: str | Path, *, layer: Any = None, device: Any = None) -> Any:
    """Load a fitted estimator that `save` wrote. Nothing in the file is executed.

    Args:
        path: The file, which may be someone else's.
        layer: The function that makes the layer, if it is none of eigenrnn's or torch's classes
            with plain options, which alone are in the file.
        device: Where the network computes, such as ``"cuda"``; by default the CPU.
    Returns:
        The classifier, regressor or forecaster, fitted. Options of a later `fit` that are no
        plain values (a scorer, a `RandomState`, validation data) have their defaults.
    Raises:
        ValueError: If it is no such file, is of another format, or its network cannot be made.
    Example:
        >>> load("vowels.pt").predict(X)  # doctest: +SKIP
        array(['1', '4', '1'], dtype='<U1')
    """
    kinds = {
        kind.__name__: kind for kind in (SequenceClassifier, SequenceRegressor, SequenceForecaster)
    }
    estimator, attributes = read_file(path, kinds, layer, device)
    return estimator.restored(attributes)


@dataclass(eq=False, repr=False)  # scikit-learn has its own
class _SequenceEstimator(BaseEstimator):
    """What the classifier and the regressor share: everything but the answers."""

    layer: Callable[[int, int], Any] = GRU
    hidden_size: int = 64
    _: KW_ONLY
    epochs: int = 50
    batch_size: int = 16
    lr: float | None = 1e-3
    clip_norm: float | None = 1.0
    validation: float | tuple[Any, Any] = 0.2
    patience: int | None = 15
    scoring: str | Callable[..., float] | None = None
    missing: Missing = "error"
    random_state: Any = None
    device: str | None = None
    verbose: int = 0

    _default_scoring: ClassVar[str | None] = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train a network. If that fails, the estimator stays as it was.

        Ctrl-C leaves the best epoch so far, and is raised on; before the first epoch has ended the
        estimator stays as it was.

        Args:
            X: An array (n, T, M), or (n, T) of one channel; or a list of arrays or frames of shape
                (T, M), whose T may differ; or a frame of pandas with two levels of index: the
                first one tells the sequence. The columns of a frame are its channels. What a
                masked array hides is missing.
            y: The answer of each sequence. If the index of y, or of the other two, names the
                sequences of a panel, it has to have their order.
            sample_weight: The weight of each sequence in the loss and the metric. A sequence of
                weight zero is left out.
            groups: The group of each sequence, such as its person. No group is divided between
                training and validation.

        Raises:
            ValueError: If a shape or an option is wrong, or a value is infinite or missing.
            FloatingPointError: If no epoch has a finite loss and metric.
        """
        fitted = copy.copy(self)
        interruption = fitted._fit(X, y, sample_weight, groups)  # noqa: SLF001, its own
        self.__dict__ = fitted.__dict__  # all at once
        if interruption is not None:
            raise interruption
        return self

    def save(self, path: str | Path) -> None:
        """Write what `load` needs to predict as now: weights, options, classes and scaling.

        Raises:
            ValueError: If the folder does not exist.
        """
        check_is_fitted(self)
        write_file(path, self)

    def restored(self, attributes: Mapping[str, Any]) -> Self:
        """Take what the fit of a file had found; used by `load`."""
        vars(self).update(attributes)
        return self

    def fitted_network(self) -> FittedNetwork:
        """Return a module that maps unscaled sequences to probabilities, or to numbers."""
        check_is_fitted(self)
        return FittedNetwork(
            self.model_,
            torch.from_numpy(self.mean_),
            torch.from_numpy(self.scale_),
            missing=self.missing_,
            **self._around_outputs(),
        )

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = super().__repr__(N_CHAR_MAX)
        if hasattr(self, "model_"):
            text += f", fitted with {type(self.model_.layer).__name__}{self.sizes_[:2]}"
        return text

    @torch.inference_mode(False)  # the caller's may be on
    @torch.enable_grad()
    @on_cpu
    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> KeyboardInterrupt | None:
        """Divide and scale the data, and train; return Ctrl-C, if it ended the training.

        Raises:
            TypeError: If `layer` is no function.
            ValueError: If another option, a weight or a length is wrong.
        """
        self._check_options()
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        self.missing_: Missing = self.missing
        vars(self).pop("feature_names_in_", None)  # of an earlier fit
        sequences, names = _read(X, None, self.missing)
        if names is not None:
            check_plain(names.tolist(), "the columns of X", "frame.rename(columns=str)")
            self.feature_names_in_: NDArray[Any] = names
        self.n_features_in_: int = sequences[0].shape[1]
        check_consistent_length(sequences, y, sample_weight, groups)
        check_order(X, y=y, sample_weight=sample_weight, groups=groups)
        _check_groups(groups)
        answers, strata, weights = self._answers(y)
        if sample_weight is not None:
            given_weights = column_or_1d(numbers(sample_weight, "sample_weight"), dtype="float64")
            weights = weights * given_weights
        if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
            raise ValueError(
                "expected each sample_weight >= 0 and finite, and one above zero, got others"
            )
        used = np.flatnonzero(weights)
        seed = seed_of(self.random_state)
        if isinstance(self.validation, tuple | list):
            X_given, y_given = self.validation
            others = self._checked(X_given)
            check_consistent_length(others, y_given)
            check_order(X_given, y=y_given)
            more = self._more_answers(y_given)
            if more.shape[1:] != answers.shape[1:]:
                raise ValueError(
                    f"expected y of validation in the shape of that of fit, {answers.shape} but "
                    f"for the count, got {more.shape}"
                )
            kept = used
            held_out = np.arange(len(sequences), len(sequences) + len(others))
            sequences += others
            answers = np.concatenate([answers, more])
            weights = np.concatenate([weights, self._weights_of(more)])
        else:
            members = np.arange(len(used))
            if groups is not None:
                _, members = np.unique(column_or_1d(groups)[used], return_inverse=True)
            is_held_out = _hold_out(strata[used], members, self.validation, seed)
            kept = used[~is_held_out]
            held_out = used[is_held_out]
            if self.validation and not len(held_out):
                warnings.warn(
                    "no sequence can be held out without all of a class or of the groups, so all "
                    f"{self.epochs} epochs are trained and the last one is kept",
                    stacklevel=6,  # of `fit`, below three decorators
                )
        self.mean_, self.scale_ = _mean_and_scale(np.concatenate([sequences[k] for k in kept]))
        return self._train(sequences, answers, weights, kept, held_out, seed)

    def _check_options(self) -> None:
        """Raise for an option that training would only meet later.

        Raises:
            TypeError: If `layer` is no function.
            ValueError: If `batch_size`, `validation` or `missing` is wrong.
        """
        check_positive_integer("batch_size", self.batch_size)
        if isinstance(self.validation, tuple | list):
            is_right = len(self.validation) == 2
            got = f"{len(self.validation)} parts"
        else:
            is_right = isinstance(self.validation, Real) and 0 <= float(self.validation) < 1
            got = repr(self.validation)
        if not is_right:
            raise ValueError(f"expected 0 <= validation < 1, or (X, y), got {got}")
        if self.missing not in ("error", "mask", "forward"):
            raise ValueError(
                f"expected missing to be 'error', 'mask' or 'forward', got {self.missing!r}"
            )
        check_layer(self.layer)

    def _train(
        self,
        sequences: list[Array],
        answers: NDArray[Any],
        weights: Array,
        kept: Indices,
        held_out: Indices,
        seed: int,
    ) -> KeyboardInterrupt | None:
        """Train on the kept sequences; the held-out ones choose the epoch.

        Raises:
            TypeError: If `layer` makes no recurrent layer.
        """
        device = checked_device(self.device)
        generator = torch.Generator().manual_seed(seed)
        targets, output_size = self._targets(answers, kept)
        input_size = self.n_features_in_
        if self.missing_ != "error":
            input_size *= 2  # with the masks
        with drawing(generator, torch.device("cpu")):
            layer = self.layer(input_size, self.hidden_size)
            if not hasattr(layer, "batch_first"):  # as all recurrent layers have
                made = type(layer).__name__
                raise TypeError(f"expected layer to make a recurrent layer, as GRU, got a {made}")
            model = SequenceModel(layer, output_size, "last")
        dtype = next(layer.parameters()).dtype
        model.head.to(dtype)
        self.layer_ = self.layer
        self.sizes_ = input_size, self.hidden_size, output_size
        self.model_: SequenceModel = model.to(device)
        inputs = self._inputs(sequences)
        targets = targets.to(device)
        lr = self.lr
        if lr is None:
            lr = _RATES.get(type(layer), 1e-3)
        loss_weights = torch.from_numpy(weights / weights[kept].mean()).to(device, dtype)
        scoring = self.scoring or self._default_scoring
        scorer: Any = None
        if scoring is not None:
            scorer = check_scoring(self, scoring)
        score_options: dict[str, Any] = {}
        if np.ptp(weights) > 0:  # else a scorer of the user need not take them
            score_options["sample_weight"] = weights[held_out]
        held_out_X = [sequences[k] for k in held_out]

        drawing_batch = drawing_batches(model, generator, device)

        def losses() -> Iterator[tuple[Tensor, int]]:
            order = torch.randperm(len(kept), generator=generator).numpy()
            for rows in torch.from_numpy(kept[order]).split(self.batch_size):
                batch = _padded([inputs[k] for k in rows.tolist()], device)
                with drawing_batch():
                    outputs = model(*batch)
                of_each = self._losses(outputs, targets[rows.to(device)])
                yield (of_each * loss_weights[rows.to(device)]).mean(), len(rows)

        def judge(epoch: int, record: dict[str, float]) -> tuple[float, ...]:
            if not held_out_X:  # the last epoch counts
                return float(epoch), -record["loss"]
            outputs = _outputs(model, [inputs[k] for k in held_out])
            of_each = self._losses(outputs, targets[held_out].cpu()).numpy()
            record["validation_loss"] = float(np.average(of_each, weights=weights[held_out]))
            if scorer is None:
                return (-record["validation_loss"],)
            score = float(scorer(self, held_out_X, answers[held_out], **score_options))
            record["validation_score"] = score
            return score, -record["validation_loss"]  # which decides a tie

        patience = self.patience
        if not held_out_X:
            patience = None
        loop = Loop(self.epochs, patience, lr, self.clip_norm, self.verbose)
        training = loop.run(model, losses, judge)
        self.history_: list[dict[str, float]] = training.history
        return training.interruption

    def _inputs(self, sequences: list[Array]) -> list[Tensor]:
        network = self.fitted_network()
        return [network.prepared(torch.from_numpy(x)) for x in sequences]

    def _checked(self, X: Any) -> list[Array]:
        """Return sequences with the channels of the training data.

        Raises:
            ValueError: If X has others.
        """
        # `missing_`, because `set_params` may have changed the option for the next fit
        sequences, _ = _read(X, getattr(self, "feature_names_in_", None), self.missing_)
        M = self.n_features_in_
        found = sequences[0].shape[1]
        if found != M:
            hint = ""
            if not isinstance(X, list) and np.ndim(X) == 2 and np.shape(X)[1] == M:
                hint = f"; an array has three dimensions, (n, T, {M}): one sequence is X[None]"
            raise ValueError(f"expected the {M} channels of the training data, got {found}{hint}")
        return sequences

    @on_cpu
    def _predict(self, X: Any) -> Array:  # (n, K)
        """Return the answers of the network."""
        check_is_fitted(self)
        outputs = _outputs(self.model_.eval(), self._inputs(self._checked(X)))
        return self.fitted_network().answers(outputs).numpy()

    @abstractmethod
    def _around_outputs(self) -> dict[str, Any]:
        """Return what `FittedNetwork` makes answers with."""

    @abstractmethod
    def _more_answers(self, y: Any) -> NDArray[Any]:
        """Return the answers of validation data, checked by those of `fit`."""

    def _weights_of(self, answers: NDArray[Any]) -> Array:
        """Return the weights of validation data."""
        return np.ones(len(answers))

    @abstractmethod
    def _answers(self, y: Any) -> tuple[NDArray[Any], Indices, Array]:
        """Return y as an array, the classes as numbers, and the weights of the sequences."""

    @abstractmethod
    def _targets(self, answers: NDArray[Any], kept: Indices) -> tuple[Tensor, int]:
        """Return what the loss compares with the outputs, and the number of outputs."""

    @abstractmethod
    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (B,)
        """Return the loss of each sequence."""


@dataclass(eq=False, repr=False, kw_only=True)
class SequenceClassifier(ClassifierMixin, _SequenceEstimator):
    r"""A recurrent network that tells the class of a sequence, as scikit-learn's estimators do.

    .. math:: p = \operatorname{softmax}(V h_T + d)

    with the state :math:`h_T` after the last step of a sequence. Adam minimises the weighted mean
    of the cross-entropy. Some sequences of each class are held out, and the epoch with the best
    metric on them is kept. Channels are scaled by the mean and the deviation of the others.

    `random_state` alone decides the bits of the result for a given number of threads: initial
    weights, batches and dropout masks are drawn from a generator of the fit. Python's `logging`
    has a line for each epoch, at the level INFO.

    Args:
        layer: A function of the numbers of inputs and of units that makes a recurrent layer, such
            as the class `eigenrnn.ScoRNN` or `torch.nn.LSTM`.
        hidden_size: The number N of units.
        epochs: The largest number of passes over the training data.
        batch_size: The number of sequences in a step.
        lr: The learning rate; that of constrained matrices is a tenth of it. None takes 0.01 for a
            `GRU` and 0.001 for any other layer, as the page on choosing a layer measures.
        clip_norm: The largest norm of a gradient; None for any.
        validation: The fraction of each class that is held out, at least one sequence of a class
            that has two. With zero, all sequences are trained on for all epochs. Or the sequences
            and their classes, (X, y), that choose the epoch; then all others are trained on.
        patience: Training ends after this number of epochs without improvement; None for never.
        scoring: The metric that chooses the epoch: one of scikit-learn's names, such as
            ``"f1_macro"``, or a scorer; ``"accuracy"`` by default. The loss decides ties. If
            weights differ, the scorer is called with ``sample_weight=``.
        missing: What happens to NaN among the values of X: an ``"error"``; or ``"mask"`` and
            ``"forward"``, with which the network has a mask of each channel as a further input. A
            missing value is then the mean of its channel, or with ``"forward"`` the last value of
            its sequence.
        random_state: The seed, or a `numpy.random.RandomState` that each fit advances.
        device: Where the network computes, such as ``"cuda"``; by default the CPU. The initial
            weights and the batches are those of the CPU, dropout masks are drawn on the device.
        verbose: With 1, each epoch prints a line.
        class_weight: The weights of classes, as in scikit-learn: None gives each sequence the same
            weight, ``"balanced"`` each class; a dictionary has the weight of a sequence of each
            class, which is one for a class that it leaves out.
    Attributes:
        classes_: The classes, sorted.
        model_: The trained `SequenceModel` of scaled inputs, frozen; `model_.train()` ends that.
        layer_: The function that made its layer.
        sizes_: The numbers of its inputs, units and outputs.
        mean_: The mean of each channel.
        scale_: The standard deviation of each channel, or one if it is constant.
        history_: The losses and the metric of each epoch.
        n_features_in_: The number M of channels.
        feature_names_in_: The columns of the frames, if X has any. In `predict` they may have
            another order.
    Raises:
        ValueError: If a shape or an option is wrong, or a value is infinite or missing.
    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = np.array(["left", "right"] * 20)
        >>> X = [rng.normal(size=(10 + k, 2)) + 2 * (y[k] == "left") for k in range(40)]
        >>> classifier = SequenceClassifier(hidden_size=8, epochs=20, random_state=0).fit(X, y)
        >>> classifier.predict(X[:4]).tolist()
        ['left', 'right', 'left', 'right']
    """

    lr: float | None = None
    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None

    _default_scoring = "accuracy"

    def predict_proba(self, X: Any) -> Array:  # (n, K)
        """Return the probability of each class, in the order of `classes_`."""
        return self._predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy."""
        check_order(X, y=y, sample_weight=sample_weight)
        return super().score(X, y, sample_weight)

    def predict(self, X: Any) -> NDArray[Any]:  # (n,)
        """Return the most probable class of each sequence."""
        best = self._predict(X).argmax(1)
        return self.classes_[best]

    def _answers(self, y: Any) -> tuple[NDArray[Any], Indices, Array]:
        labels = self._labels(y)
        self.classes_, strata = np.unique(labels, return_inverse=True)
        return labels, strata, self._class_weights(strata)

    def _labels(self, y: Any) -> NDArray[Any]:
        """Return the label of each sequence.

        Raises:
            ValueError: If the labels are of several types, are numbers with fractions, or missing.
        """
        if np.ma.is_masked(y):
            raise ValueError("expected a class of each sequence, got masked ones in y")
        labels: Any = y
        if not isinstance(y, list | tuple):
            labels = column_or_1d(np.asarray(y), warn=True)  # the rows of a table, not its names
        if isinstance(y, list | tuple) or labels.dtype == object:
            labels = list(labels)
            kinds = {np.asarray(label).dtype.kind for label in labels}
            # numpy would turn [1, True] into ones, and [1, "1"] into texts
            if len(kinds) > 1 and not kinds <= set("iuf"):
                types = sorted({type(label).__name__ for label in labels})
                raise ValueError(f"expected classes of one type, got {' and '.join(types)}")
        labels = column_or_1d(np.asarray(labels), warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        check_plain(labels.tolist(), "the classes in y", "y.astype(str)")
        return labels

    def _around_outputs(self) -> dict[str, Any]:
        return {"classes": tuple(map(str, self.classes_.tolist()))}

    def _more_answers(self, y: Any) -> NDArray[Any]:
        labels = self._labels(y)
        unknown = np.setdiff1d(labels, self.classes_).tolist()
        if unknown:
            raise ValueError(f"expected validation of {self.classes_.tolist()}, got {unknown}")
        return labels

    def _weights_of(self, answers: NDArray[Any]) -> Array:
        return self._class_weights(np.searchsorted(self.classes_, answers))

    def _class_weights(self, strata: Indices) -> Array:  # (n,)
        """Return the weight of each sequence by its class.

        By the numbers of classes: scikit-learn reads labels such as "1" as numbers.

        Raises:
            ValueError: If a weight is for a label that is no class.
        """
        weights = self.class_weight
        if isinstance(weights, Mapping):
            places = {label: place for place, label in enumerate(self.classes_.tolist())}
            unknown = [label for label in weights if label not in places]
            if unknown:
                raise ValueError(f"expected class_weight of {list(places)}, got {unknown}")
            of_class = np.ones(len(places))
            for label, weight in weights.items():
                of_class[places[label]] = weight
            return of_class[strata]
        return compute_sample_weight(weights, strata)

    def _targets(self, answers: NDArray[Any], kept: Indices) -> tuple[Tensor, int]:  # noqa: ARG002
        return torch.from_numpy(np.searchsorted(self.classes_, answers)), len(self.classes_)

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (B,)
        return F.cross_entropy(outputs, targets, reduction="none")


@dataclass(eq=False, repr=False)
class SequenceRegressor(RegressorMixin, _SequenceEstimator):
    r"""A recurrent network that tells numbers for a sequence, as scikit-learn's estimators do.

    .. math:: \hat y = \sigma \odot (V h_T + d) + \mu

    with the state :math:`h_T` after the last step, and the mean and deviation of each target in
    the training part. The loss is the mean squared error of scaled targets, and without `scoring`
    it chooses the epoch. Any fraction of the sequences is held out, and `lr` is 0.001. All else is
    as in `SequenceClassifier`.

    Attributes:
        target_mean_: The mean of each target.
        target_scale_: The standard deviation of each target.
    Shape:
        y: :math:`(n,)`, or :math:`(n, K)` for several targets.
    Raises:
        ValueError: If a shape or an option is wrong, or a value is infinite or missing.
    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = [rng.normal(size=(length, 1)) for length in range(5, 45)]
        >>> y = [x[-1, 0] for x in X]
        >>> regressor = SequenceRegressor(hidden_size=8, epochs=5, random_state=0).fit(X, y)
        >>> regressor.predict(X[:3]).shape
        (3,)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination, :math:`R^2`."""
        check_order(X, y=y, sample_weight=sample_weight)
        return super().score(X, y, sample_weight)

    def predict(self, X: Any) -> Array:  # (n,) or (n, K), as y
        """Return the numbers of each sequence, in the units of y."""
        answers = self._predict(X)
        return answers.reshape(len(answers), *self.target_mean_.shape)

    def _around_outputs(self) -> dict[str, Any]:
        mean = torch.from_numpy(np.atleast_1d(self.target_mean_))
        return {"targets": (mean, torch.from_numpy(np.atleast_1d(self.target_scale_)))}

    def _more_answers(self, y: Any) -> NDArray[Any]:
        return self._answers(y)[0]

    def _answers(self, y: Any) -> tuple[NDArray[Any], Indices, Array]:
        answers = check_array(numbers(y, "y"), dtype="float64", ensure_2d=False, input_name="y")
        check_size(answers, "y")
        return answers, np.zeros(len(answers), np.int64), np.ones(len(answers))

    def _targets(self, answers: NDArray[Any], kept: Indices) -> tuple[Tensor, int]:
        mean, scale = _mean_and_scale(answers[kept])
        self.target_mean_ = np.asarray(mean)
        self.target_scale_ = np.asarray(scale)
        scaled = (answers - self.target_mean_) / self.target_scale_
        targets = torch.from_numpy(scaled.reshape(len(scaled), -1))
        return targets, targets.shape[1]

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (B,)
        return (outputs - targets.to(outputs.dtype)).square().mean(1)


def _read(X: Any, names: Any, missing: Missing) -> tuple[list[Array], NDArray[Any] | None]:
    """Return the sequences of X, (T, M) each, and the names of the columns of frames.

    Raises:
        TypeError: If X is a single frame, a dictionary or a generator.
        ValueError: If a shape, a name or a value is wrong.
    """
    parts = X
    panel = parts_of_panel(X)
    if panel is not None:
        _, parts = panel
    if hasattr(parts, "columns"):
        raise TypeError(
            "expected a list of frames, got a single one: divide it into sequences, as in "
            "[part[channels] for _, part in frame.groupby('sequence')]"
        )
    if isinstance(X, Mapping | Iterator | Set) and not hasattr(X, "shape"):  # not sparse
        remedy = "list(X.values())" if isinstance(X, Mapping) else "list(X)"
        raise TypeError(f"expected a list of sequences, got a {type(X).__name__}: pass {remedy}")
    if isinstance(parts, np.ndarray):
        parts = numbers(parts, "X")
    if not isinstance(parts, list | tuple):
        array = np.asarray(parts)
        if array.dtype != object or array.ndim != 1:
            parts = check_array(parts, dtype="float64", allow_nd=True, ensure_all_finite=False)
    if not len(parts):
        raise ValueError("expected at least one sequence in X, got none")
    arrays: list[Any] = []
    for number, part in enumerate(parts):
        array, names = with_columns(part, names, f"sequence {number}")
        x = np.asarray(array)
        if x.ndim == 1:
            x = x[:, None]
        if x.ndim != 2 or x.size == 0:
            raise ValueError(
                "expected sequences of shape (steps, channels), with at least one of each, got "
                f"{x.shape} in sequence {number}"
            )
        if arrays and x.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"expected the {arrays[0].shape[1]} channels of sequence 0 in each, got "
                f"{x.shape[1]} in sequence {number}"
            )
        arrays.append(x)
    steps = check_array(np.concatenate(arrays), dtype="float64", ensure_all_finite=False)
    ends = np.cumsum([len(x) for x in arrays])
    is_wrong = (steps > LARGEST) | (steps < -LARGEST)  # moduli would be another copy
    if missing == "error":
        is_wrong |= np.isnan(steps)
    if is_wrong.any():
        number = np.searchsorted(ends, is_wrong.any(1).argmax(), side="right")
        raise ValueError(
            "Input X contains NaN, infinity or a value too large for float32 in sequence "
            f"{number}; missing='mask' and missing='forward' take NaN for missing values"
        )
    return np.split(steps, ends[:-1]), names


def _check_groups(groups: Any) -> None:
    """Check that each sequence has a group.

    Raises:
        ValueError: If one has none.
    """
    if groups is None:
        return
    if np.ma.is_masked(groups):
        raise ValueError("expected the group of each sequence, got masked ones")
    for number, group in enumerate(np.asarray(groups, dtype=object).ravel()):
        is_nan = isinstance(group, float) and np.isnan(group)
        if group is None or is_nan or type(group).__name__ in ("NAType", "NaTType"):
            raise ValueError(
                f"expected the group of each sequence, got {group} for sequence {number}: "
                "give it a group of its own"
            )


def _mean_and_scale(
    rows: Array,  # (S, ...), NaN where missing
) -> tuple[Array, Array]:
    """Return the mean and the deviation over rows, or one in place of a deviation of zero."""
    known = ~np.isnan(rows)
    first = np.take_along_axis(rows, known.argmax(0)[None], 0)[0]
    count = np.maximum(known.sum(0), 1)
    shifted = np.where(known, rows - first, 0)  # so that a large offset costs no digits
    mean = shifted.sum(0) / count
    deviation = np.sqrt(np.where(known, (shifted - mean) ** 2, 0).sum(0) / count)
    return np.nan_to_num(first) + mean, np.where(deviation > 0, deviation, 1.0)


def _hold_out(strata: Indices, groups: Indices, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Choose whole groups with about a fraction of each class, and never all of a class."""
    counts = np.zeros((groups.max() + 1, strata.max() + 1))
    np.add.at(counts, (groups, strata), 1)
    left = counts.sum(0)
    wanted = np.maximum(np.round(fraction * left), fraction > 0)
    lacking = wanted.copy()
    chosen = np.zeros(len(counts), bool)
    for group in np.random.default_rng(seed).permutation(len(counts)):
        count = counts[group]
        takes_all = ((count > 0) & (count == left)).any()
        is_first = ((count > 0) & (lacking == wanted) & (wanted > 0)).any()
        # of a large group, more than half must be wanted
        is_wanted = 2 * np.minimum(count, lacking.clip(0)).sum() > count.sum()
        if (is_first or is_wanted) and not takes_all:
            chosen[group] = True
            left -= count
            lacking -= count
    return chosen[groups]


def _padded(
    inputs: list[Tensor], device: torch.device
) -> tuple[Tensor, Tensor | None]:  # (T, B, M), (B,)
    """Return a batch of sequences on a device, and their lengths if they differ."""
    lengths = torch.tensor([len(x) for x in inputs])
    if (lengths == lengths[0]).all():
        return torch.stack(inputs, 1).to(device), None
    return pad_sequence(inputs).to(device), lengths.to(device)


@torch.no_grad()
def _outputs(model: SequenceModel, inputs: list[Tensor]) -> Tensor:  # (n, K)
    """Return the outputs of any number of sequences, in batches of similar lengths."""
    order = torch.tensor([len(x) for x in inputs]).argsort(stable=True)
    outputs: list[Tensor] = []
    for rows in order.split(_PREDICTED_AT_ONCE):
        batch = _padded([inputs[k] for k in rows.tolist()], model.head.weight.device)
        outputs.append(model(*batch).cpu())
    return torch.cat(outputs)[order.argsort()]
