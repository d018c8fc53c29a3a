"""The estimators: scikit-learn's contract on sequences of unequal lengths."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pandas
import polars
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.estimator_checks import parametrize_with_checks

from eigenrnn import GRU, RNN, LeakyRNN, MinGRU, NnRNN, ScoRNN, Stream
from eigenrnn.estimators import SequenceClassifier, SequenceRegressor, load
from eigenrnn.torch_internals import has_dispatch_mode

CLASSES = np.array(["nan", "none"])


def draw(count=40, seed=0):
    """Sequences whose first channel has the mean 2 in one of the classes, and 0 in the other."""
    generator = np.random.default_rng(seed)
    y = np.arange(count) % 2
    shift = np.array([2.0, 0.0])
    X = [generator.normal(size=(8 + k % 5, 2)) + y[k] * shift for k in range(count)]
    return X, CLASSES[y]


def classifier(layer=MinGRU, **options):
    return SequenceClassifier(layer, 8, **{"epochs": 12, "lr": 2e-2, "random_state": 0, **options})


def probabilities(estimator, X, y, **options):
    return estimator.fit(X, y, **options).predict_proba(draw(seed=1)[0])


class Recorder:
    """A scorer that keeps what it is called with, and returns given scores."""

    def __init__(self, *scores):
        self.scores = list(scores)
        self.X = []
        self.y = []

    def __call__(self, estimator, X, y, sample_weight=None):  # noqa: ARG002
        self.X = X
        self.y = y
        score = self.scores.pop(0) if self.scores else 0.0
        if score is KeyboardInterrupt:
            raise KeyboardInterrupt
        return score


CANNOT_APPLY = {
    "check_n_features_in": "a feature is a channel, and an array (n, T) has one",
    "check_n_features_in_after_fitting": "sequences to predict may have other lengths",
    "check_classifiers_train": "sequences to predict may have other lengths",
    "check_sample_weight_equivalence_on_dense_data": "a repeated sequence changes the batches",
    "check_sample_weights_pandas_series": "a single frame may be one sequence or many",
    "check_classifier_data_not_an_array": "a single frame may be one sequence or many",
    "check_regressor_data_not_an_array": "a single frame may be one sequence or many",
}


@parametrize_with_checks(
    [
        SequenceClassifier(GRU, 8, epochs=20),
        SequenceRegressor(ScoRNN, 12, epochs=20, lr=2e-2),
    ],
    expected_failed_checks=lambda _: CANNOT_APPLY,
)
def test_the_contract_of_scikit_learn(estimator, check, monkeypatch):
    # scikit-learn skips its check of the array API without it.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    # the checks of classifiers need accuracy; for the others a short training does
    if not check.func.__name__.startswith("check_classifiers"):
        estimator.set_params(epochs=3)
    check(estimator)


KINDS = {
    "texts": ["none", "nan"],
    "numbers": [10, 9],
    "fractionless": [2.0, 1],
    "truths": np.array([True, False]),
    "nullable": pandas.array([3, 2], dtype="Int64"),
    "categories": pandas.Categorical(["up", "down"]),
    "objects": np.array(["b", "a"], dtype=object),
}


@pytest.mark.parametrize("kind", KINDS)
def test_classes_keep_their_kind_and_order(kind):
    X, y = draw()
    names = pandas.Series(KINDS[kind])
    labels = names[(y == "none").astype(int)]
    fitted = classifier().fit(X, list(labels) if kind == "texts" else labels)
    assert fitted.classes_.tolist() == sorted(names.tolist())
    assert [type(each) for each in fitted.classes_.tolist()] == [type(names.tolist()[0])] * 2
    new, truth = draw(seed=1)
    p = fitted.predict_proba(new)
    np.testing.assert_allclose(p.sum(1), 1)
    assert (fitted.predict(new) == fitted.classes_[p.argmax(1)]).all()
    assert fitted.score(new, list(names[(truth == "none").astype(int)])) > 0.9


@pytest.mark.parametrize(
    "pair",
    [[1, True], [np.True_, np.int64(1)], ["1", 1], ["a", None], ["a", np.nan], [1, np.nan]],
    ids=str,
)
def test_classes_that_numpy_would_mix_up_are_refused(pair):
    X, _ = draw()
    for labels in (pair * 20, pandas.Series(pair * 20, dtype=object)):
        with pytest.raises(ValueError, match=r"one type|contains NaN"):
            classifier().fit(X, labels)


def test_all_kinds_of_inputs_give_the_same_bits():
    X, y = draw()
    array = np.stack([x[:8] for x in X])
    objects = np.empty(len(X), dtype=object)
    objects[:] = list(array)
    expected = probabilities(classifier(), list(array), y)
    for same in (array, objects, pandas.Series(list(array)), list(torch.from_numpy(array))):
        np.testing.assert_array_equal(probabilities(classifier(), same, y), expected)
    one = array[..., 0]
    fitted = classifier().fit(one, y)
    for same in (one[..., None], list(one), one.tolist()):
        np.testing.assert_array_equal(fitted.predict_proba(same), fitted.predict_proba(one))


def test_columns_with_numbers_as_names_are_found_by_them():
    X, y = draw()
    frames = [pandas.DataFrame(x, columns=[1, 0]) for x in X]
    fitted = classifier(epochs=1).fit(frames, y)
    swapped = [frame[[0, 1]] for frame in frames]
    np.testing.assert_array_equal(fitted.predict_proba(swapped), fitted.predict_proba(X))
    with pytest.raises(ValueError, match=r"columns 0 once in sequence 0, got 0, 0"):
        classifier().fit([pandas.DataFrame(x, columns=[0, 0]) for x in X], y)


@pytest.mark.parametrize("library", [pandas, polars])
def test_the_columns_of_frames_are_found_by_their_names(library):
    X, y = draw()
    frames = [library.DataFrame({"left": x[:, 0], "right": x[:, 1]}) for x in X]
    fitted = classifier().fit(frames, y)
    expected = classifier().fit(X, y).predict_proba(X)
    swapped = [frame[["right", "left"]] for frame in frames]
    for same in (frames, swapped, X):
        np.testing.assert_array_equal(fitted.predict_proba(same), expected)
    assert fitted.feature_names_in_.tolist() == ["left", "right"]
    more = [library.DataFrame({"left": x[:, 0], "up": x[:, 1]}) for x in X]
    with pytest.raises(ValueError, match="in sequence 0, got left, up"):
        fitted.predict(more)
    with pytest.raises(ValueError, match="in sequence 39"):
        classifier().fit([*frames[:-1], more[-1]], y)
    with pytest.raises(TypeError, match="groupby"):
        fitted.predict(frames[0])
    assert not hasattr(fitted.fit(X, y), "feature_names_in_")


def test_an_offset_costs_no_accuracy():
    X, y = draw()
    plain = classifier().fit(X, y)
    moved = [x + np.array([1e8, 0]) for x in X]
    fitted = classifier().fit(moved, y)
    np.testing.assert_allclose(fitted.scale_, plain.scale_, rtol=1e-7)
    assert fitted.score(moved, y) == plain.score(X, y) > 0.9
    targets = [x[-1, 0] for x in X]
    options = {"epochs": 40, "lr": 2e-2, "patience": None, "random_state": 0}
    of_targets = SequenceRegressor(MinGRU, 16, **options).fit(moved, np.add(targets, 1e8))
    assert of_targets.score(moved, np.add(targets, 1e8)) > 0.8


def test_constant_and_empty_channels_keep_their_scale():
    X, y = draw()
    X = [np.column_stack([x, np.full(len(x), 1e8 + 0.1), np.full(len(x), np.nan)]) for x in X]
    fitted = classifier(missing="mask").fit(X, y)
    assert fitted.scale_[2:].tolist() == [1, 1]
    assert fitted.mean_[2:].tolist() == [1e8 + 0.1, 0]


def is_in(x, sequences):
    return any(x is each or np.array_equal(x, each) for each in sequences)


def test_some_of_each_class_are_held_out_and_the_rest_is_scaled_by_itself():
    X, y = draw(43)
    y = np.array([*y[:40], "two", "two", "one"])
    seen = Recorder()
    fitted = classifier(scoring=seen, validation=0.15).fit(X, y)
    names, counts = np.unique(seen.y, return_counts=True)
    assert dict(zip(names, counts, strict=True)) == {"nan": 3, "none": 3, "two": 1}
    kept = np.concatenate([x for x in X if not is_in(x, seen.X)])
    np.testing.assert_allclose(fitted.mean_, kept.mean(0), rtol=1e-12)
    np.testing.assert_allclose(fitted.scale_, kept.std(0), rtol=1e-12)
    for seed in range(20):  # another part for each seed
        other = Recorder()
        classifier(scoring=other, epochs=1, random_state=seed).fit(X, y)
        if not np.array_equal(other.y, seen.y) or not is_in(other.X[0], seen.X):
            break
    else:
        pytest.fail("the same part for each seed")


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_held_out_as_a_whole_and_at_their_share(seed):
    X, y = draw(60)
    groups = np.array([f"person {k // 5}" for k in range(60)])  # both classes in each of twelve
    seen = Recorder()
    options = {"epochs": 1, "random_state": seed, "scoring": seen}
    for estimator, answers in (
        (SequenceClassifier(MinGRU, 4, **options), y),
        (SequenceRegressor(MinGRU, 4, **options), np.arange(60.0)),
    ):
        estimator.fit(X, answers, groups=groups)
        held_out = [is_in(x, seen.X) for x in X]
        assert sum(held_out) == 10
        assert len(set(groups[held_out])) == 2
    alone = np.where(np.arange(60) < 50, "both", groups)  # never all of a class
    SequenceClassifier(MinGRU, 4, **options).fit(X, [*y[:50], *["rare"] * 10], groups=alone)
    assert set(seen.y) == {"rare"}


def after(epochs, X, y):
    """Return the probabilities of an estimator that keeps its last epoch."""
    return classifier(epochs=epochs, scoring=Recorder(*range(epochs))).fit(X, y).predict_proba(X)


def test_the_best_epoch_is_kept_and_patience_ends_the_training():
    X, y = draw()
    scoring = Recorder(0.1, np.nan, 0.9, 0.5, 0.8)
    fitted = classifier(epochs=50, patience=4, scoring=scoring).fit(X, y)
    np.testing.assert_array_equal(fitted.predict_proba(X), after(3, X, y))
    assert len(fitted.history_) == 7


def test_the_loss_decides_a_tie():
    X, y = draw()
    fitted = classifier(epochs=30, lr=0.1, patience=None, scoring=Recorder()).fit(X, y)
    losses = [epoch["validation_loss"] for epoch in fitted.history_]
    assert 0 < np.argmin(losses) < 29
    one = classifier(epochs=int(np.argmin(losses)) + 1, lr=0.1, validation=0.2)
    one.set_params(scoring=Recorder(*range(30))).fit(X, y)
    np.testing.assert_array_equal(fitted.predict_proba(X), one.predict_proba(X))


def test_without_validation_the_last_epoch_is_kept():
    X, y = draw()
    fitted = classifier(validation=0, patience=1).fit(X, y)
    assert [set(epoch) for epoch in fitted.history_] == [{"loss"}] * 12
    np.testing.assert_allclose(fitted.mean_, np.concatenate(X).mean(0), rtol=1e-12)
    assert fitted.score(X, y) > 0.9


def test_the_loss_of_an_epoch_is_the_mean_over_sequences():
    X, y = draw()
    fitted = classifier(validation=0, epochs=1, lr=1e-9).fit(X, y)  # batches of 16, 16 and 8
    assert fitted.history_[0]["loss"] == pytest.approx(log_loss(y, fitted.predict_proba(X)), 1e-5)


def test_gradients_are_clipped_and_penalties_added():
    X, y = draw()
    clipped = classifier(clip_norm=1e-12).fit(X, y).history_
    assert clipped[-1]["loss"] == pytest.approx(clipped[0]["loss"], abs=0.01)
    with_decay = partial(NnRNN, gamma_penalty=1e3), partial(NnRNN, gamma_penalty=0.0)
    decayed, free = (
        probabilities(classifier(layer, clip_norm=None), X, y) for layer in with_decay
    )
    assert (decayed != free).any()


def test_a_named_metric_and_the_loss_choose():
    X, y = draw()
    fitted = classifier(scoring="neg_log_loss").fit(X, y)
    for epoch in fitted.history_:
        assert epoch["validation_score"] == pytest.approx(-epoch["validation_loss"], rel=1e-5)
    default = classifier().fit(X, y).history_
    by_name = classifier(scoring="accuracy").fit(X, y).history_
    assert default == by_name
    regressor = SequenceRegressor(MinGRU, 4, epochs=2).fit(X, np.arange(40))
    assert set(regressor.history_[0]) == {"loss", "validation_loss"}
    with pytest.raises(ValueError, match="no_such_metric"):
        classifier(scoring="no_such_metric").fit(X, y)


def test_a_regressor_predicts_several_targets_in_their_units():
    generator = np.random.default_rng(0)
    X = [generator.normal(size=(5 + k % 3, 2)) for k in range(80)]
    y = np.array([[1000 + 50 * x[-1, 0], 1e-3 * x[-1, 1], 7.0] for x in X])
    options = {"epochs": 60, "lr": 2e-2, "patience": None, "random_state": 0}
    several = SequenceRegressor(MinGRU, 16, **options).fit(X, y)
    predicted = several.predict(X)
    assert predicted.shape == (80, 3)
    assert min(r2_score(y[:, :2], predicted[:, :2], multioutput="raw_values")) > 0.8
    one = SequenceRegressor(MinGRU, 16, **options).fit(X, y[:, 0])
    assert one.predict(X).shape == (80,)
    column = SequenceRegressor(MinGRU, 16, **options).fit(X, y[:, :1])
    np.testing.assert_array_equal(column.predict(X)[:, 0], one.predict(X))
    seen = Recorder()
    fitted = SequenceRegressor(MinGRU, 4, epochs=1, scoring=seen).fit(X, y)
    kept = [answer for x, answer in zip(X, y, strict=True) if not is_in(x, seen.X)]
    np.testing.assert_allclose(fitted.target_mean_, np.mean(kept, 0), rtol=1e-12)


@pytest.mark.parametrize("layer", [GRU, torch.nn.LSTM])
def test_a_network_in_double_precision_learns(layer):
    X, y = draw()
    double = partial(layer, dtype=torch.float64)
    fitted = classifier(double).fit(X, y)
    assert fitted.model_.head.weight.dtype == torch.float64
    assert fitted.score(X, y) > 0.9
    means = np.array([x.mean() for x in X])
    regressor = SequenceRegressor(double, 8, lr=2e-2, random_state=0).fit(X, means)
    assert regressor.score(X, means) > 0.5


def test_a_sequence_of_weight_zero_is_not_there():
    X, y = draw(50)
    expected = probabilities(classifier(), X[:40], y[:40])
    weights = np.where(np.arange(50) < 40, 3.0, 0)
    X[45] = X[45] * 1e6
    found = probabilities(classifier(), X, y, sample_weight=weights)
    np.testing.assert_array_equal(found, expected)


def test_weights_count_in_the_loss_and_in_the_metric():
    X, _ = draw(200)
    generator = np.random.default_rng(0)
    y = generator.permutation(["a", "b"] * 100)  # unrelated to X
    weights = np.where(y == "a", 9.0, 1.0)
    options = {"lr": 5e-3, "scoring": "neg_log_loss", "epochs": 12}
    fitted = classifier(**options).fit(X, y, sample_weight=weights)
    assert fitted.predict_proba(X)[:, 0].mean() == pytest.approx(0.9, abs=0.04)
    for epoch in fitted.history_:
        assert epoch["validation_score"] == pytest.approx(-epoch["validation_loss"], rel=1e-5)
    by_class = classifier(class_weight={"a": 9}, **options).fit(X, y)
    np.testing.assert_array_equal(by_class.predict_proba(X), fitted.predict_proba(X))


def test_balanced_classes_are_weighted_as_in_scikit_learn():
    X, _ = draw(60)
    y = np.array([10, 9, 2, 2] * 15)
    weights = compute_sample_weight("balanced", y)
    expected = probabilities(classifier(), X, y, sample_weight=weights)
    found = probabilities(classifier(class_weight="balanced"), X, y)
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match=r"expected class_weight .* got \['10'\]"):
        classifier(class_weight={"10": 2}).fit(X, y)


BROKEN = {
    "missing value": (ValueError, 0.0, np.nan, "none"),
    "missing class": (ValueError, 0.0, 1.0, None),
    "interrupted": (KeyboardInterrupt, KeyboardInterrupt, 1.0, "none"),
    "no finite score": (FloatingPointError, np.nan, 1.0, "none"),
}


@pytest.mark.parametrize(("error", "score", "value", "label"), BROKEN.values(), ids=BROKEN)
def test_a_fit_that_fails_or_is_interrupted_changes_nothing(error, score, value, label):
    X, y = draw()
    frames = [pandas.DataFrame(x, columns=["l", "r"]) for x in X]
    unfitted = classifier(epochs=2, scoring=Recorder(0.0, 0.0, score, score))
    fitted = clone(unfitted).fit(frames, y)
    X[0][0, 0] = value
    for estimator in (fitted, unfitted.set_params(scoring=Recorder(score, score))):
        before = dict(vars(estimator))
        weights = copy.deepcopy(before.get("model_"))
        with pytest.raises(error):
            estimator.fit(X, [label, *y[1:]])
        assert vars(estimator) == before
        for weight, expected in zip(
            fitted.model_.parameters(), (weights or fitted.model_).parameters(), strict=True
        ):
            assert torch.equal(weight, expected)


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"lr": 1e30, "clip_norm": None}, "a smaller lr"),
        ({"scoring": lambda *_: np.nan}, "hold out more"),
    ],
    ids=["loss", "metric"],
)
def test_an_undefined_metric_is_told_from_a_loss_that_diverges(options, remedy):
    X, _ = draw()
    with pytest.raises(FloatingPointError, match=remedy):
        SequenceRegressor(GRU, 4, epochs=2, **options).fit(X, np.arange(40.0))


class DrawsLater(MinGRU):
    """A layer that draws nothing in its first batches."""

    calls = 0

    def forward(self, x, *args, **options):
        self.calls += self.training
        if self.calls > 2:
            x = torch.nn.functional.dropout(x, 0.3, self.training)
        return super().forward(x, *args, **options)


RANDOM_LAYERS = {
    "later": DrawsLater,
    "dropout": partial(GRU, num_layers=2, dropout=0.5),
    "zoneout": partial(RNN, zoneout=0.3),
    "noise": partial(LeakyRNN, leak=0.3, noise=0.1),
    "torch": partial(torch.nn.LSTM, num_layers=2, dropout=0.5),
}


def fit_one(name, seed):
    return probabilities(classifier(RANDOM_LAYERS[name], random_state=seed, epochs=4), *draw())


@pytest.mark.parametrize("name", RANDOM_LAYERS)
def test_the_seed_alone_decides_the_bits_in_fits_threads_and_processes(name):
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002, the caller's
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    expected = [fit_one(name, seed) for seed in range(4)]
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()  # noqa: NPY002
    torch.manual_seed(4)
    assert (expected[0] != expected[1]).any()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(partial(fit_one, name), range(4)))
    np.testing.assert_array_equal(found, expected)
    if name == "dropout":
        with ProcessPoolExecutor(1, get_context("spawn")) as processes:
            np.testing.assert_array_equal(processes.submit(fit_one, name, 2).result(), expected[2])


def test_only_the_first_batch_of_a_layer_that_draws_nothing_is_watched():
    watched = []

    def make(M, N):
        layer = MinGRU(M, N)
        layer.register_forward_pre_hook(
            lambda layer, _: watched.append(has_dispatch_mode()) if layer.training else None
        )
        return layer

    classifier(make, epochs=3).fit(*draw())
    assert watched == [1, *[0] * (len(watched) - 1)]


def test_the_network_of_a_fit_is_frozen_until_it_trains_again(tmp_path):
    X, y = draw()
    fitted = classifier(ScoRNN).fit(X, y)
    fitted.save(tmp_path / "model.pt")
    for estimator in (fitted, load(tmp_path / "model.pt")):
        assert estimator.model_.layer.is_frozen
        expected = estimator.predict_proba(X)
        estimator.model_.train()
        assert not estimator.model_.layer.is_frozen
        np.testing.assert_array_equal(estimator.predict_proba(X), expected)


def test_no_seed_means_another_network_each_time_and_leaves_the_global_generators_alone():
    X, y = draw()
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    estimator = classifier(random_state=None, epochs=1)
    assert (probabilities(estimator, X, y) != probabilities(estimator, X, y)).any()
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()  # noqa: NPY002
    one = classifier(random_state=np.random.RandomState(0), epochs=1)
    assert (probabilities(one, X, y) != probabilities(one, X, y)).any()


def test_clones_copies_and_parameters():
    X, y = draw()
    fitted = classifier(class_weight="balanced").fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    cloned = clone(fitted)
    assert cloned.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        cloned.predict(X)


def test_pipelines_searches_and_folds():
    X, y = draw()
    first_channel = FunctionTransformer(lambda X: [x[:, :1] for x in X])
    pipeline = make_pipeline(first_channel, classifier())
    assert pipeline.fit(X, y).named_steps["sequenceclassifier"].n_features_in_ == 1
    assert cross_val_score(classifier(), X, y, cv=2).mean() > 0.7
    search = GridSearchCV(classifier(), {"hidden_size": [2, 8]}, cv=GroupKFold(2))
    search.fit(X, y, groups=np.arange(40) // 2)
    assert search.best_estimator_.model_.layer.hidden_size == search.best_params_["hidden_size"]


def with_gaps(count=40, seed=0):
    """The sequences of `draw`, a third of whose values is missing."""
    X, y = draw(count, seed)
    generator = np.random.default_rng(seed + 100)
    for x in X:
        x[generator.random(x.shape) < 1 / 3] = np.nan
    return X, y


@pytest.mark.parametrize("missing", ["mask", "forward"])
def test_missing_values_are_scaled_and_filled_as_pandas_would(missing):
    X, y = with_gaps()
    fitted = classifier(missing=missing).fit(X, y)
    fitted.set_params(missing="error")  # of the next fit, not of the network that is there
    new, truth = with_gaps(seed=1)
    assert fitted.score(new, truth) > 0.8
    for x, p in zip(new, fitted.predict_proba(new), strict=True):
        frame = pandas.DataFrame((x - fitted.mean_) / fitted.scale_)
        filled = frame.ffill() if missing == "forward" else frame
        inputs = np.hstack([filled.fillna(0), frame.isna()]).astype(np.float32)
        with torch.no_grad():
            outputs = fitted.model_(torch.from_numpy(inputs))
        np.testing.assert_allclose(outputs.softmax(-1), p, rtol=0, atol=1e-6)


def test_missing_values_without_the_option_are_named():
    X, y = draw()
    fitted = classifier().fit(X, y)
    X[3][2, 1] = np.nan
    for call in (fitted.predict, fitted.predict_proba, lambda X: classifier().fit(X, y)):
        with pytest.raises(ValueError, match="sequence 3; missing='mask'"):
            call(X)
    fitted.set_params(missing="mask")
    with pytest.raises(ValueError, match="sequence 3"):
        fitted.predict(X)
    X[39][-1, 1] = np.inf
    with pytest.raises(ValueError, match="sequence 39"):
        classifier(missing="mask").fit(X, y)


@pytest.mark.parametrize("missing", ["mask", "forward"])
def test_what_a_mask_of_numpy_hides_is_missing(missing):
    X, y = with_gaps()
    array = np.stack([x[:8] for x in X])
    expected = probabilities(classifier(missing=missing), array, y)
    hidden = np.ma.masked_equal(np.where(np.isnan(array), -9999, array), -9999)
    for same in (hidden, list(hidden)):
        np.testing.assert_array_equal(
            probabilities(classifier(missing=missing), same, y), expected
        )
        with pytest.raises(ValueError, match="missing='mask'"):
            classifier().fit(same, y)
    with pytest.raises(ValueError, match="masked ones in y"):
        classifier().fit(draw()[0], np.ma.masked_equal(np.arange(40) % 3, 2))
    with pytest.raises(ValueError, match="NaN"):
        SequenceRegressor(MinGRU, 4).fit(draw()[0], np.ma.masked_equal(np.arange(40.0), 3))
    with pytest.raises(ValueError, match="sample_weight >= 0"):
        classifier().fit(*draw(), sample_weight=np.ma.masked_equal(np.arange(40.0), 3))
    with pytest.raises(ValueError, match="the group of each sequence"):
        classifier().fit(*draw(), groups=np.ma.masked_equal(np.arange(40), 3))


@pytest.mark.parametrize("unit", ["m8[s]", "M8[D]"])
def test_times_are_no_values(unit):
    X, y = draw()
    times = [np.full((5, 1), k, dtype=unit) for k in range(40)]
    times[3][2] = "NaT"
    for wrong in (times, np.stack(times), [pandas.DataFrame(x) for x in times]):
        with pytest.raises(ValueError, match="times"):
            classifier(missing="mask").fit(wrong, y)
    with pytest.raises(ValueError, match="times"):
        SequenceRegressor(MinGRU, 4).fit(X, np.stack(times)[:, 0, 0])


def test_a_panel_with_two_levels_of_index_is_its_sequences():
    X, y = draw()
    frames = {f"s{k}": pandas.DataFrame(x, columns=["l", "r"]) for k, x in enumerate(X)}
    panel = pandas.concat(frames, names=["instance", "time"])
    fitted = classifier(epochs=2).fit(panel, y)
    np.testing.assert_array_equal(fitted.predict_proba(panel), fitted.predict_proba(X))
    for nameless in (None, np.nan):
        with pytest.raises(ValueError, match="got none in row 8: name it"):
            fitted.predict(panel.rename(index={"s1": nameless}, level=0))


def named_panel(count=20):
    """Return a panel whose sequences are in no order, and their classes by name."""
    X, y = draw(count)
    order = np.random.default_rng(0).permutation(count)
    frames = {f"s{k:02}": pandas.DataFrame(X[k]).rename(columns=str) for k in order}
    classes = pandas.Series({f"s{k:02}": y[k] for k in order})
    return pandas.concat(frames), classes


@pytest.mark.parametrize("estimator", [SequenceClassifier, SequenceRegressor])
def test_what_names_the_sequences_of_a_panel_has_their_order(estimator):
    X, y = named_panel()
    if estimator is SequenceRegressor:
        y = (y == "nan").astype(float)
    weights = y.map(dict.fromkeys(set(y), 1.0))
    make = partial(estimator, MinGRU, 4, epochs=1, random_state=0)
    fit = make().fit
    by_name = y.sort_index()  # as groupby sorts
    for wrong in (
        lambda: fit(X, by_name),
        lambda: fit(X, y, sample_weight=weights.sort_index()),
        lambda: fit(X, y, groups=by_name),
        lambda: fit(X, y).score(X, by_name),
        lambda: make(validation=(X, by_name)).fit(X, y),
    ):
        with pytest.raises(
            ValueError, match=r"in the order of the sequences in X, got s\d\d in place"
        ):
            wrong()
    again = by_name.loc[X.index.unique(0)]
    numbered = pandas.concat(
        {k: pandas.DataFrame(x).rename(columns=str) for k, x in enumerate(draw(20)[0])}
    )
    with pytest.raises(ValueError, match="got 19 in place of 0"):
        fit(numbered, y.reset_index(drop=True)[::-1])
    for same in (y, again, y.reset_index(drop=True), y.to_numpy()):
        assert fit(X, same, sample_weight=weights).score(X, same) <= 1


def test_weights_of_classes_reach_validation_data_without_one_of_them():
    X, y = draw()
    held_out = [(x, c) for x, c in zip(*draw(12, seed=1), strict=True) if c == "none"]
    new, truth = zip(*held_out, strict=True)
    seen = Recorder()
    options = {"scoring": seen, "epochs": 1, "validation": (list(new), list(truth))}
    classifier(class_weight={"nan": 5}, **options).fit(X, y)
    assert seen.y.tolist() == list(truth)


def test_groups_without_a_part_to_hold_out_are_told():
    X, y = draw()
    with pytest.warns(UserWarning, match="no sequence can be held out") as told:
        fitted = classifier(epochs=2).fit(X, y, groups=["one"] * 40)
    assert told[0].filename == __file__
    assert "validation_loss" not in fitted.history_[0]
    assert len(classifier(epochs=2, validation=0).fit(X, y).history_) == 2  # and no warning


def test_the_missing_values_of_pandas_are_missing_in_an_array_of_objects():
    X, y = draw()
    gaps = [np.where(np.arange(2) == k % 2, x, np.nan) for k, x in enumerate(X)]
    objects = [x.astype(object) for x in gaps]
    for x in objects:
        x[np.isnan(x.astype(float))] = pandas.NA
    fitted = classifier(missing="mask", epochs=1).fit(gaps, y)
    np.testing.assert_array_equal(fitted.predict_proba(objects), fitted.predict_proba(gaps))


def test_complex_columns_are_refused():
    X, y = draw()
    frames = [pandas.DataFrame(x, columns=["a", "b"]).astype({"b": complex}) for x in X]
    with pytest.raises(ValueError, match=r"Complex data not supported.*column b of sequence 0"):
        classifier().fit(frames, y)


def test_predictions_draw_no_dropout_after_train():
    X, y = draw()
    layer = partial(GRU, num_layers=2, dropout=0.9)
    fitted = classifier(layer, epochs=1).fit(X, y)
    expected = fitted.predict_proba(X)
    fitted.model_.train()
    np.testing.assert_allclose(fitted.predict_proba(X), expected, atol=1e-7)


def test_given_validation_data_choose_the_epoch_and_all_others_are_trained_on():
    X, y = draw()
    new, truth = draw(11, seed=1)
    seen = Recorder()
    fitted = classifier(scoring=seen, epochs=2, validation=(new, truth)).fit(X, y)
    assert all(np.array_equal(*pair) for pair in zip(seen.X, new, strict=True))
    assert seen.y.tolist() == truth.tolist()
    np.testing.assert_allclose(fitted.mean_, np.concatenate(X).mean(0), rtol=1e-12)
    one_class = classifier(class_weight={"nan": 3}, validation=(new[::2], truth[::2]), epochs=1)
    assert len(one_class.fit(X, y).history_) == 1
    with pytest.raises(ValueError, match=r"validation of \['nan', 'none'\], got \['other'\]"):
        classifier(validation=(new[:1], ["other"])).fit(X, y)
    with pytest.raises(ValueError, match="the 2 channels"):
        classifier(validation=([x[:, :1] for x in new], truth)).fit(X, y)


def test_an_interruption_leaves_the_best_epoch_and_is_raised_on():
    X, y = draw()
    fitted = classifier(epochs=50, scoring=Recorder(0.1, 0.9, 0.5, KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X, y)
    np.testing.assert_array_equal(fitted.predict_proba(X), after(2, X, y))
    assert len(fitted.history_) == 3


def test_each_epoch_prints_a_line_if_asked(capsys):
    classifier(epochs=2).fit(*draw())
    assert capsys.readouterr().out == ""
    classifier(epochs=2, verbose=1).fit(*draw())
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("epoch   1  loss 0.")
    assert "validation_score" in second


def test_a_single_sequence_is_told_from_many_of_one_channel():
    X, y = draw()
    with pytest.raises(ValueError, match=r"three dimensions, \(n, T, 2\): .* X\[None\]"):
        classifier(epochs=1).fit(X, y).predict(X[0])


def test_an_unknown_device_is_an_early_error():
    for name in ("cuda:99", "sofa"):
        with pytest.raises(ValueError, match=f"device of this machine, got '{name}'"):
            classifier(device=name).fit(*draw())


def test_each_layer_has_its_rate_and_is_named_after_the_fit():
    X, y = draw()
    for layer, lr in {GRU: 1e-2, MinGRU: 1e-3}.items():
        fitted = classifier(layer, lr=None)
        assert "fitted" not in repr(fitted)
        expected = probabilities(classifier(layer, lr=lr), X, y)
        np.testing.assert_array_equal(probabilities(fitted, X, y), expected)
        assert fitted.layer_ is layer
        assert f"fitted with {layer.__name__}(2, 8" in repr(fitted)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_fit_needs_no_gradients_of_the_caller(mode):
    X, y = draw()
    with mode():
        found = classifier(epochs=2).fit(X, y)
        assert not torch.is_grad_enabled()
    expected = classifier(epochs=2).fit(X, y)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


def test_the_model_streams_scaled_steps():
    X, y = draw()
    fitted = classifier().fit(X, y)
    assert not fitted.model_.training
    stream = Stream(fitted.model_)
    for x_t in torch.from_numpy((X[0] - fitted.mean_) / fitted.scale_).float():
        y_t = stream(x_t)
    np.testing.assert_allclose(y_t.softmax(-1), fitted.predict_proba(X[:1])[0], atol=1e-6)


def test_shapes_and_weights_are_checked():
    X, y = draw()
    fitted = classifier().fit(X, y)
    with pytest.raises(ValueError, match="the 2 channels of the training data, got 1"):
        fitted.predict([x[:, :1] for x in X])
    with pytest.raises(ValueError, match=r"got \(0, 2\) in sequence 1"):
        fitted.predict([X[0], X[1][:0]])
    with pytest.raises(ValueError, match="40, 39"):
        classifier().fit(X, y[:-1])
    with pytest.raises(ValueError, match="at least one sequence"):
        fitted.predict([])
    X[1][0, 0] = 1e200
    with pytest.raises(ValueError, match="too large for float32 in sequence 1"):
        fitted.predict(X)
    with pytest.raises(ValueError, match=r"in y, got 1e\+200"):
        SequenceRegressor().fit(draw()[0], np.full(40, 1e200))
    X[1][0, 0] = 0.0
    for weights in (np.zeros(40), -np.ones(40), np.full(40, np.nan)):
        with pytest.raises(ValueError, match="sample_weight"):
            classifier().fit(X, y, sample_weight=weights)


def framed(times):
    return [pandas.DataFrame({"v": np.arange(5.0), "when": times}) for _ in range(40)]


X_OF_40 = draw()[0]
DATES = pandas.date_range("2000", periods=5)
REFUSED = {
    "zone": (
        framed(DATES.tz_localize("UTC")),
        {},
        {},
        "column when of .* got a Timestamp",
    ),
    "period": (framed(DATES.to_period("D")), {}, {}, "column when of .* got a Period"),
    "channels": (
        [*X_OF_40[:39], np.ones((5, 3))],
        {},
        {},
        "2 channels .* got 3 in sequence 39",
    ),
    "None": (X_OF_40, {}, {"groups": [None, *"ab" * 19, "c"]}, "got None for sequence 0"),
    "NaN": (X_OF_40, {}, {"groups": [*range(39), np.nan]}, "got nan for sequence 39"),
    "weight": (X_OF_40, {}, {"sample_weight": [np.inf] * 40}, ">= 0 and finite"),
    "text": (X_OF_40, {"validation": "x"}, {}, "got 'x'"),
    "part": (X_OF_40, {"validation": (X_OF_40,)}, {}, "or .X, y., got 1 parts"),
    "layer": (X_OF_40, {"layer": torch.nn.Linear}, {}, "recurrent layer, as GRU, got a Linear"),
    "generator": (iter(X_OF_40), {}, {}, "got a list_iterator: pass list.X."),
    "dict": (dict(enumerate(X_OF_40)), {}, {}, "got a dict: pass list.X.values"),
    "names": (
        [pandas.DataFrame(x, columns=DATES[:2]) for x in X_OF_40],
        {},
        {},
        "Timestamp: fr",
    ),
}


@pytest.mark.parametrize(("X", "options", "values", "said"), REFUSED.values(), ids=REFUSED)
def test_what_a_fit_cannot_take_is_named(X, options, values, said):
    with pytest.raises((TypeError, ValueError), match=said):
        classifier(**options).fit(X, draw()[1], **values)


def test_answers_that_a_fit_cannot_take_are_named():
    X, _ = draw()
    days = np.array(["2000-01-01", "2000-01-02"] * 20, "M8[D]")
    with pytest.raises(ValueError, match=r"classes in y .* got a date: y.astype"):
        classifier().fit(X, days)
    numbers = np.arange(40.0)
    with pytest.raises(ValueError, match=r"got \(40, 1\)"):
        SequenceRegressor(validation=(X, numbers[:, None])).fit(X, numbers)


@pytest.mark.parametrize("kind", ["object", "category", "str"])
def test_a_table_of_one_column_gives_its_rows_as_labels(kind):
    X = [np.ones((5, 1)) * (i % 2) for i in range(20)]
    labels = np.array(["up", "down"] * 10)
    table = pandas.DataFrame({"label": labels}).astype(kind)
    classifier = SequenceClassifier(hidden_size=2, epochs=1, random_state=0)
    with pytest.warns(match="column-vector"):
        classifier.fit(X, table)
    assert classifier.classes_.tolist() == ["down", "up"]
    with pytest.raises(ValueError, match="1d array"):
        classifier.fit(X, pandas.DataFrame({"label": labels, "note": labels}))


@pytest.mark.parametrize("names", [("up", "down"), ("1", "2")])
def test_class_weights_go_by_labels(names):
    X = [np.ones((5, 1)) * (i % 2) for i in range(20)]
    classifier = SequenceClassifier(class_weight={names[0]: 3.0})
    _, _, weights = classifier._answers(np.array(names * 10))
    assert weights.tolist() == [3.0, 1.0] * 10
    with pytest.raises(ValueError, match="other"):
        SequenceClassifier(class_weight={"other": 1.0}).fit(X, names * 10)
