"""Recurrent networks as estimators of scikit-learn, for sequences of unequal lengths."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from eigenrnn import GRU
from eigenrnn.errors import check_installed
from eigenrnn.experiments.data.in_memory import from_arrays, from_channels_first
from eigenrnn.experiments.data.sequences import Sequences, check_sequences
from eigenrnn.experiments.errors import RunExistsError
from eigenrnn.experiments.prediction import SeriesPredictions, predict_series
from eigenrnn.experiments.tasks import Series
from eigenrnn.experiments.tasks.base import model_for, stack_of_lru
from eigenrnn.experiments.tasks.preprocessing import Missing, SeriesPreprocessing
from eigenrnn.experiments.training import Result, RunFolder, Settings, fit
from eigenrnn.experiments.training.description import describe_call
from eigenrnn.experiments.training.progress import plain_console

check_installed("estimators", "eigenrnn.experiments.estimators", "sklearn")

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # noqa: E402
from sklearn.utils import check_random_state, column_or_1d  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402

__all__ = ["Layout", "SequenceClassifier", "SequenceRegressor"]

Layout = Literal["channels_first", "steps_first"]
MakeLayer = Callable[[int, int], Any]
Inputs = Sequences | Sequence[ArrayLike] | NDArray[Any]
ClassWeight = Literal["balanced"] | Mapping[Any, float]

_LONG = 200  # steps; "hundreds" on the page about choosing a layer
_SEEDS = 2**31 - 1


class _SequenceEstimator(BaseEstimator):
    """What the classifier and the regressor share: everything but the answers."""

    # scikit-learn reads the names and the defaults of the options here, and stores no others
    def __init__(
        self,
        layer: str | MakeLayer = "auto",
        hidden_size: int = 64,
        *,
        epochs: int = 50,
        batch_size: int = 16,
        lr: float | None = 1e-3,
        optimiser: str = "adam",
        clip_norm: float | None = 1.0,
        scaling: str = "z_score",
        validation: float = 0.2,
        patience: int | None = 10,
        best_by: str | None = None,
        layout: Layout | None = None,
        missing: Missing = "error",
        random_state: Any = None,
        directory: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.layer = layer
        self.hidden_size = hidden_size
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.optimiser = optimiser
        self.clip_norm = clip_norm
        self.scaling = scaling
        self.validation = validation
        self.patience = patience
        self.best_by = best_by
        self.layout = layout
        self.missing: Missing = missing
        self.random_state = random_state
        self.directory = directory
        self.verbose = verbose

    model_: nn.Module
    preprocessing_: SeriesPreprocessing
    result_: Result
    n_features_in_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def _fit(self, task_of: Callable[..., Series], sequences: Sequences) -> None:
        """Train a network on sequences that have their answers.

        Raises:
            RunExistsError: If the folder holds the run of something else.
        """
        seed = int(check_random_state(self.random_state).randint(_SEEDS))
        task = task_of(
            train=sequences,
            validation=self.validation,
            scaling=self.scaling,
            missing=self.missing,
            split_seed=seed,
        )
        make_layer = self._make_layer(sequences)
        lr = self.lr
        if lr is None:
            lr = 1e-3
            if make_layer is GRU:
                lr = 1e-2
        settings = Settings(
            epochs=self.epochs,
            batch_size=min(self.batch_size, len(sequences)),
            optimiser=self.optimiser,  # pyright: ignore[reportArgumentType], it is checked there
            lr=lr,
            clip_norm=self.clip_norm,
            patience=self.patience,
            best_by=self.best_by,
            seed=seed,
        )
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            model = model_for(task, make_layer, self.hidden_size)
        network: dict[str, Any] | None = None
        with suppress(TypeError):  # a function without a name, such as a lambda
            network = describe_call(layer=make_layer, hidden_size=self.hidden_size)
        with tempfile.TemporaryDirectory() as temporary:
            directory = Path(temporary) / "run" if self.directory is None else self.directory
            console = plain_console(stderr=True, quiet=not self.verbose)
            # the run of another estimator is not replaced
            is_own = hasattr(self, "result_") and self.result_.directory == Path(directory)
            try:
                self.result_ = fit(
                    model,
                    task,
                    settings,
                    directory,
                    overwrite=is_own,
                    console=console,
                    network=network,
                )
            except RunExistsError:
                raise RunExistsError(
                    f"expected directory={str(directory)!r} without a run, got one that this "
                    "estimator has not trained: delete that folder, name another one, or leave "
                    "directory out. A clone, as in searches and folds, has not trained the run of "
                    "its original"
                ) from None
            weights, _ = RunFolder(directory).read_weights()
        model.load_state_dict(weights)
        self.model_ = model.eval()
        self.preprocessing_ = task.preprocessing
        self.n_features_in_ = len(sequences.channels)

    def _make_layer(self, sequences: Sequences) -> MakeLayer:
        """Return the function that makes the layer.

        Raises:
            TypeError: If `layer` is neither a name nor a function.
            ValueError: If there is no layer of this name.
        """
        if callable(self.layer) and not isinstance(self.layer, nn.Module):
            return self.layer
        if not isinstance(self.layer, str):
            raise TypeError(
                "expected layer to be 'auto', the name of a layer, or a function of the numbers "
                f"of inputs and units, such as the class eigenrnn.GRU, got {self.layer!r}"
            )
        if self.layer != "auto":
            from eigenrnn.experiments.registry import LAYERS  # it imports all recipes

            if self.layer not in LAYERS:
                raise ValueError(
                    f"expected layer to be 'auto', {', '.join(LAYERS)}, or a class such as "
                    f"eigenrnn.GRU, got {self.layer!r}"
                )
            return LAYERS[self.layer]
        if np.median(sequences.lengths) < _LONG:
            return GRU
        return stack_of_lru

    def _sequences(
        self,
        X: Inputs,
        missing: Missing,
        *,
        labels: Sequence[Any] | None = None,
        targets: Sequence[float] | None = None,
    ) -> Sequences:
        """Return inputs of any kind as sequences.

        Raises:
            ValueError: If an array of three dimensions comes without a layout, or values are
                missing without the option.
            TypeError: If X is a table.
        """
        allow_missing = missing != "error"
        from_list = partial(
            from_arrays, labels=labels, targets=targets, allow_missing=allow_missing
        )
        if isinstance(X, Sequences):
            if labels is not None or targets is not None:
                raise ValueError(
                    "expected the answers in the sequences themselves, got y too: pass labels or "
                    "targets where you make them, and no y"
                )
            return check_sequences(X, allow_missing=allow_missing)
        if isinstance(X, torch.Tensor):  # as an array, it keeps its shape for the layout
            array = X.numpy(force=True)
            return self._sequences(array, missing, labels=labels, targets=targets)
        if hasattr(X, "columns"):
            raise TypeError(
                f"expected sequences, got a table, {type(X).__name__}: make sequences of it with "
                "eigenrnn.experiments.data.in_memory.from_table(table, sequence=..., label=...)"
            )
        if not isinstance(X, np.ndarray):
            return from_list(list(X))
        if X.dtype == object and X.ndim == 1:  # sequences of unequal lengths
            return from_list(list(X))
        if X.ndim == 2:  # as in aeon: one channel
            return from_list(list(X))
        if X.ndim != 3 or self.layout not in ("channels_first", "steps_first"):
            raise ValueError(
                "expected a list of arrays of shape (steps, channels), an array of shape (count, "
                "steps) for a single channel, or an array of shape (count, channels, steps) with "
                "layout='channels_first' or of shape (count, steps, channels) with "
                f"layout='steps_first', got one of shape {X.shape} with layout={self.layout!r}"
            )
        if self.layout == "channels_first":
            return from_channels_first(
                X, labels=labels, targets=targets, allow_missing=allow_missing
            )
        return from_list(list(X))

    def _predictions(self, X: Inputs) -> SeriesPredictions:
        check_is_fitted(self)
        # the option of the training: `set_params` may have changed that of the next one
        sequences = self._sequences(X, self.preprocessing_.missing)
        found = len(sequences.channels)
        if found != self.n_features_in_:
            raise ValueError(
                f"expected the {self.n_features_in_} channels of the training data, got {found}: "
                "each sequence has the shape (steps, channels), and a list of one is [x]"
            )
        numbers = tuple(map(str, range(1, found + 1)))  # the channels of arrays without names
        if numbers not in (sequences.channels, self.preprocessing_.channels):
            sequences = self.preprocessing_.in_order(sequences)
        return predict_series(self.model_, self.preprocessing_, sequences)


class SequenceClassifier(ClassifierMixin, _SequenceEstimator):
    r"""A recurrent network that tells the class of a sequence, as scikit-learn's estimators do.

    .. math:: p = \operatorname{softmax}(V h_T + d)

    with the state :math:`h_T` after the last step of a sequence. Training is that of
    `eigenrnn.experiments.fit`: the best epoch on the validation part is kept.

    Args:
        layer: A name that ``eigenrnn list layers`` prints, such as ``"gru"``; or a function of the
            numbers of inputs and of units that makes a recurrent layer, such as the class
            `eigenrnn.ScoRNN` or `torch.nn.LSTM`. ``"auto"`` takes a `GRU` if half of the sequences
            have fewer than 200 steps, else a `ResidualStack` of two `LRU`.
        hidden_size: The number N of units.
        epochs: The largest number of passes over the training data.
        batch_size: The number of sequences in a step.
        lr: The learning rate; that of constrained matrices is a tenth of it. None takes 0.01 for a
            `GRU` and 0.001 for any other layer, as the page on choosing a layer measures.
        optimiser: One of those of `Settings`.
        clip_norm: The largest norm of a gradient; None for any.
        class_weight: The weights of classes in the loss, as in scikit-learn: None gives each
            sequence the same weight, ``"balanced"`` each class, and a dictionary has the weight of
            a sequence of each class, above zero, which is one for a class that it leaves out.
        scaling: ``"z_score"`` scales each channel to mean 0 and variance 1, ``"none"`` does not.
        validation: The fraction of each class that is held out to choose the best epoch, at least
            one sequence of a class that has two.
        patience: Training ends after this number of epochs without improvement; None for never.
        best_by: The metric of the validation part that chooses the best epoch: ``"accuracy"``, the
            default, ``"f1"``, ``"auc"``, ``"log_loss"``, ``"calibration_error"`` or ``"loss"``.
        layout: What the axes of an array of three dimensions are: ``"channels_first"`` for (count,
            channels, steps), as in aeon, or ``"steps_first"`` for (count, steps, channels).
        missing: What happens to NaN among the values of X: an ``"error"``, or ``"mask"`` and
            ``"forward"``, with which the network has a mask of each channel as a further input. A
            missing value is then the mean of its channel, or with ``"forward"`` the last value of
            its sequence.
        random_state: The seed of weights, batches and the validation part.
        directory: The folder of the run, which `eigenrnn report` reads; by default a temporary
            one. A second `fit` of this estimator replaces the run. Clones need folders of their
            own, so searches and folds do without.
        verbose: Whether to show the progress.
    Attributes:
        classes_: The classes, sorted.
        model_: The trained network, a `SequenceModel`; `Stream(model_)` processes one step at a
            time.
        preprocessing_: Its scaling and classes, see `predict_series`. Its `steps()` prepares one
            time step at a time for a stream, missing values too.
        result_: The result of `fit`.
        n_features_in_: The number M of channels.
    Raises:
        ValueError: If a shape, a number of labels or an option is wrong, or a value is infinite,
            or NaN without the option.
        RunExistsError: If `directory` holds the run of something else.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = np.array([0, 1] * 20)
        >>> X = [rng.normal(size=(length, 2)) + 2 * y[k] for k, length in enumerate(range(10, 50))]
        >>> classifier = SequenceClassifier(hidden_size=8, epochs=20, random_state=0).fit(X, y)
        >>> classifier.predict(X[:4]).tolist()
        [0, 1, 0, 1]
    """

    def __init__(
        self,
        layer: str | MakeLayer = "auto",
        hidden_size: int = 64,
        *,
        epochs: int = 50,
        batch_size: int = 16,
        lr: float | None = None,
        optimiser: str = "adam",
        clip_norm: float | None = 1.0,
        class_weight: ClassWeight | None = None,
        scaling: str = "z_score",
        validation: float = 0.2,
        patience: int | None = 10,
        best_by: str | None = None,
        layout: Layout | None = None,
        missing: Missing = "error",
        random_state: Any = None,
        directory: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            layer,
            hidden_size,
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
            optimiser=optimiser,
            clip_norm=clip_norm,
            scaling=scaling,
            validation=validation,
            patience=patience,
            best_by=best_by,
            layout=layout,
            missing=missing,
            random_state=random_state,
            directory=directory,
            verbose=verbose,
        )
        self.class_weight: ClassWeight | None = class_weight

    classes_: NDArray[Any]

    def fit(self, X: Inputs, y: ArrayLike | None = None) -> Self:
        """Train a network.

        Args:
            X: A list of arrays, or of frames whose columns are the channels, or an array of
                objects that holds them; an array of three dimensions; an array of two, (count,
                steps), whose sequences have one channel, as in aeon; or `Sequences`, for example
                those that `from_table` makes of a table.
            y: The class of each sequence; None if `Sequences` have labels.

        Shape:
            X: :math:`(T, M)` each.

        Raises:
            ValueError: If a shape, an option or the number of labels is wrong.
        """
        if y is None:
            sequences = self._sequences(X, self.missing)
            if sequences.labels is None:
                raise ValueError("expected a class of each sequence, got y=None and no labels")
            classes = np.asarray(sequences.labels)
        else:
            # an array first: scikit-learn turns the nullable integers of pandas into floats
            classes = column_or_1d(np.asarray(y))
            sequences = self._sequences(X, self.missing, labels=list(classes))
        self.classes_ = np.unique(classes)
        self._fit(partial(Series, class_weights=self._weights_by_name()), sequences)
        return self

    def _weights_by_name(self) -> Any:
        """Return `class_weight` as the task has it, whose classes are texts.

        Raises:
            ValueError: If it is of another kind, or names a class that does not occur and leaves
                another one out.
        """
        weights = cast("object", self.class_weight)
        if weights is None:
            return "none"
        if isinstance(weights, str) and weights == "balanced":
            return weights
        if not isinstance(weights, Mapping):
            raise ValueError(
                "expected class_weight to be None, 'balanced' or a dictionary of the weight of "
                f"each class, got {weights!r}"
            )
        classes = self.classes_.tolist()
        by_name: dict[str, Any] = {}
        unknown: list[Any] = []
        for label, weight in cast("Mapping[Any, Any]", weights).items():
            if label in classes:
                # 1 and 1.0 are the same class, but different texts
                by_name[str(classes[classes.index(label)])] = weight
            else:
                unknown.append(label)
        # as in scikit-learn: a class may be absent from a fold, if all others have weights
        if unknown and len(by_name) < len(classes):
            raise ValueError(
                f"expected class_weight of the classes {', '.join(map(str, classes))}, got "
                f"{unknown[0]!r}"
            )
        return by_name

    def predict_proba(self, X: Inputs) -> NDArray[np.float64]:
        """Return the probability of each class, in the order of `classes_`.

        Shape:
            returned: :math:`(count, K)`.
        """
        predictions = self._predictions(X)
        columns = [predictions.columns.index(str(name)) for name in self.classes_.tolist()]
        return predictions.values.double().numpy()[:, columns]

    def predict(self, X: Inputs) -> NDArray[Any]:
        """Return the most probable class of each sequence."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]


class SequenceRegressor(RegressorMixin, _SequenceEstimator):
    r"""A recurrent network that tells a number for a sequence, as scikit-learn's estimators do.

    .. math:: \hat y = \sigma (v^T h_T + d) + \mu

    with the state :math:`h_T` after the last step, and the mean and the deviation of the numbers
    of the training part. The loss is the mean squared error.

    Args:
        layer: See `SequenceClassifier`, as for all other arguments and attributes.
        hidden_size: The number N of units.
        epochs: The largest number of passes over the training data.
        batch_size: The number of sequences in a step.
        lr: The learning rate.
        optimiser: One of those of `Settings`.
        clip_norm: The largest norm of a gradient; None for any.
        scaling: ``"z_score"`` also scales the numbers, ``"none"`` does not.
        validation: The fraction of the sequences that is held out to choose the best epoch.
        patience: Training ends after this number of epochs without improvement; None for never.
        best_by: The metric that chooses the best epoch: ``"mse"``, the default, ``"r2"`` or
            ``"loss"``.
        layout: What the axes of an array of three dimensions are.
        missing: What happens to NaN among the values of X.
        random_state: The seed of weights, batches and the validation part.
        directory: The folder of the run; by default a temporary one.
        verbose: Whether to show the progress.
    Raises:
        ValueError: If a shape, a number of targets or an option is wrong.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = [rng.normal(size=(length, 1)) for length in range(5, 45)]
        >>> y = [float(x[-1, 0]) for x in X]
        >>> regressor = SequenceRegressor(hidden_size=8, epochs=5, random_state=0).fit(X, y)
        >>> regressor.predict(X[:3]).shape
        (3,)
    """

    def fit(self, X: Inputs, y: ArrayLike | None = None) -> Self:
        """Train a network.

        Args:
            X: As for `SequenceClassifier.fit`.
            y: The number of each sequence; None if `Sequences` have targets.

        Shape:
            X: :math:`(T, M)` each.

        Raises:
            ValueError: If a shape, an option or the number of targets is wrong.
        """
        targets = None if y is None else [float(number) for number in column_or_1d(y)]
        sequences = self._sequences(X, self.missing, targets=targets)
        if sequences.targets is None:
            raise ValueError("expected a number of each sequence, got y=None and no targets")
        self._fit(partial(Series, answer="number"), sequences)
        return self

    def predict(self, X: Inputs) -> NDArray[np.float64]:
        """Return the number of each sequence, in the units of y."""
        return self._predictions(X).values.double().numpy()[:, 0]
