"""The estimators: scikit-learn's contract on sequences of unequal lengths."""

import json
import pickle

import numpy as np
import pandas
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from eigenrnn import GRU, LRU, MinGRU, ResidualStack, ScoRNN, Stream
from eigenrnn.experiments.data.in_memory import from_arrays, from_table
from eigenrnn.experiments.errors import RunExistsError
from eigenrnn.experiments.estimators import SequenceClassifier, SequenceRegressor
from eigenrnn.experiments.prediction import predict_series
from eigenrnn.layers import TorchLSTM

CLASSES = np.array(["left", "right"])


def draw(count=40, seed=0):
    """Sequences whose first channel has the mean 2 in one of the classes, and 0 in the other."""
    generator = np.random.default_rng(seed)
    y = np.arange(count) % 2
    shift = np.array([2.0, 0.0])
    X = [generator.normal(size=(8 + k % 5, 2)) + y[k] * shift for k in range(count)]
    return X, CLASSES[y]


def classifier(**options):
    return SequenceClassifier(MinGRU, 8, epochs=6, lr=2e-2, random_state=0, **options)


def test_a_classifier_learns_and_names_the_classes_as_given():
    X, y = draw()
    fitted = classifier().fit(X, y)
    new, truth = draw(seed=1)
    assert fitted.classes_.tolist() == ["left", "right"]
    assert fitted.score(new, truth) > 0.9
    p = fitted.predict_proba(new)
    np.testing.assert_allclose(p.sum(1), 1)
    assert (fitted.predict(new) == CLASSES[p.argmax(1)]).all()


@pytest.mark.parametrize(
    ("layer", "options", "expected"),
    [("auto", {}, 1e-2), (GRU, {}, 1e-2), ("MinGRU", {}, 1e-3), ("auto", {"lr": 0.5}, 0.5)],
)
def test_the_learning_rate_is_that_of_the_layer(tmp_path, layer, options, expected):
    fitted = SequenceClassifier(layer, 4, epochs=1, directory=tmp_path / "run", **options)
    fitted.fit(*draw())
    stored = json.loads((tmp_path / "run/config.json").read_text())
    assert stored["settings"]["lr"] == expected
    assert fitted.get_params()["lr"] == options.get("lr")


def test_a_rare_class_is_trained_on_and_the_chosen_metric_selects():
    X, y = draw()
    y = np.array([*y[:-2], "rare", "rare"])
    fitted = classifier(best_by="f1").fit(X, y)
    assert fitted.classes_.tolist() == ["left", "rare", "right"]
    assert fitted.result_.best_by == "validation f1"
    grid = GridSearchCV(classifier(), {"hidden_size": [4, 8]}, cv=3, error_score="raise")
    with pytest.warns(UserWarning, match="least populated class"):
        grid.fit(X, y)
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()


def test_the_order_of_numeric_classes_is_theirs_and_not_that_of_their_texts():
    X, _ = draw(60)
    y = np.array([10, 9, 2] * 20)
    fitted = classifier().fit(X, y)
    assert fitted.classes_.tolist() == [2, 9, 10]
    predictions = predict_series(fitted.model_, fitted.preprocessing_, from_arrays(X))
    of_ten = predictions.columns.index("10")
    np.testing.assert_array_equal(fitted.predict_proba(X)[:, 2], predictions.values[:, of_ten])
    assert set(fitted.predict(X).tolist()) <= {2, 9, 10}


def test_a_regressor_predicts_in_the_units_of_its_targets():
    generator = np.random.default_rng(0)
    X = [generator.normal(size=(5 + k % 3, 1)) for k in range(60)]
    y = [1000 + 50 * x[-1, 0] for x in X]
    fitted = SequenceRegressor(MinGRU, 16, epochs=30, lr=2e-2, patience=None, random_state=0)
    assert fitted.fit(X, y).score(X, y) > 0.8
    assert fitted.predict(X).shape == (60,)


def test_equal_seeds_give_equal_networks_and_the_global_generator_is_left_alone():
    X, y = draw()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = classifier().fit(X, y).predict_proba(X)
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(first, classifier().fit(X, y).predict_proba(X))
    other = classifier().set_params(random_state=1).fit(X, y)
    assert (first != other.predict_proba(X)).any()


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
    search = GridSearchCV(classifier(), {"hidden_size": [2, 8]}, cv=2).fit(X, y)
    assert search.best_estimator_.model_.layer.hidden_size == search.best_params_["hidden_size"]


@pytest.mark.parametrize("layout", ["channels_first", "steps_first"])
def test_arrays_of_three_dimensions_need_a_layout(layout):
    X, y = draw()
    array = np.stack([x[:8] for x in X])  # (count, steps, channels)
    expected = classifier().fit(list(array), y).predict_proba(list(array))
    if layout == "channels_first":
        array = array.transpose(0, 2, 1)
    with pytest.raises(ValueError, match="layout='channels_first'"):
        classifier().fit(array, y)
    fitted = classifier(layout=layout).fit(array, y)
    np.testing.assert_array_equal(fitted.predict_proba(array), expected)


def test_an_array_of_objects_is_a_list():
    X, y = draw()
    expected = classifier().fit(X, y).predict_proba(X)
    objects = np.empty(len(X), dtype=object)
    objects[:] = X
    np.testing.assert_array_equal(classifier().fit(objects, y).predict_proba(objects), expected)
    search = GridSearchCV(classifier(), {"epochs": [1]}, cv=2).fit(objects, y)
    assert search.best_estimator_.n_features_in_ == 2
    with pytest.raises(TypeError, match="got object"):
        classifier().fit([x.astype(object) for x in X], y)


def test_an_array_of_two_dimensions_has_one_channel():
    X, y = draw()
    array = np.stack([x[:8, 0] for x in X])  # (count, steps)
    expected = classifier().fit([x[:8, :1] for x in X], y).predict_proba(array)
    for layout in (None, "channels_first", "steps_first"):
        fitted = classifier(layout=layout).fit(array, y)
        np.testing.assert_array_equal(fitted.predict_proba(array), expected)


def test_a_dictionary_has_the_weights_of_classes():
    X, _ = draw(60)
    y = np.array([10, 9, 2] * 20)
    fitted = classifier(class_weight={9: 5.0, 10.0: 2}).fit(X, y)
    often = fitted.predict_proba(X).mean(0)
    without = classifier().fit(X, y).predict_proba(X).mean(0)
    assert often[fitted.classes_.tolist().index(9)] > without[1] + 0.2
    balanced = classifier(class_weight="balanced").fit(X, y).predict_proba(X)
    ones = classifier(class_weight={2: 1, 9: 1.0}).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(balanced, ones, rtol=0, atol=1e-5)  # classes of equal size
    # as in scikit-learn, a class may be absent from a fold, if all others have weights
    more = classifier(class_weight={2: 1, 9: 1, 10: 1, 11: 4}).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(more, ones)


def test_nullable_classes_of_pandas_keep_their_type():
    X, _ = draw()
    y = pandas.Series([0, 1] * 20, dtype="Int64")
    fitted = classifier(class_weight={1: 2.0}).fit(X, y)
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.predict(X).dtype == np.int64


@pytest.mark.parametrize(
    ("name", "kind"), [("GRU", GRU), ("ScoRNN", ScoRNN), ("TorchLSTM", TorchLSTM)]
)
def test_a_layer_has_the_name_of_the_command_line(name, kind):
    X, y = draw()
    named = classifier().set_params(layer=name, epochs=1).fit(X, y)
    assert type(named.model_.layer) is kind
    assert clone(named).layer == name


def test_sequences_bring_their_own_labels():
    X, y = draw()
    labelled = from_arrays(X, labels=y)
    expected = classifier().fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(classifier().fit(labelled).predict_proba(labelled), expected)
    with pytest.raises(ValueError, match="no y"):
        classifier().fit(labelled, y)
    with pytest.raises(ValueError, match="no labels"):
        classifier().fit(from_arrays(X))
    with pytest.raises(ValueError, match="no targets"):
        SequenceRegressor().fit(X)


def test_auto_takes_a_stack_for_long_sequences():
    generator = np.random.default_rng(0)
    long = [generator.normal(size=(250, 1)) for _ in range(10)]
    options = {"epochs": 1, "hidden_size": 4, "random_state": 0}
    fitted = SequenceClassifier(**options).fit(long, [0, 1] * 5)
    assert isinstance(fitted.model_.layer, ResidualStack)
    short = SequenceClassifier(**options).fit([x[:20] for x in long], [0, 1] * 5)
    assert type(short.model_.layer).__name__ == "GRU"


def test_the_run_stays_in_its_folder_and_the_model_streams(tmp_path):
    X, y = draw()
    fitted = classifier(directory=tmp_path / "run").fit(X, y)
    assert (tmp_path / "run" / "result.json").is_file()
    fitted.fit(X, y)  # replaces the run
    for other in (clone(fitted), classifier().fit(X, y).set_params(directory=tmp_path / "run")):
        with pytest.raises(RunExistsError, match="delete that folder") as caught:
            other.fit(X, y)
        assert "resume" not in str(caught.value)
    model = fitted.model_
    scaled, lengths = next(fitted.preprocessing_.batches(from_arrays(X[:1]), 1))
    stream = Stream(model)
    for x_t in scaled[:, 0]:
        y_t = stream(x_t)
    torch.testing.assert_close(y_t, model(scaled, lengths)[0])


def test_channels_and_options_are_checked_early():
    X, y = draw()
    fitted = classifier().fit(X, y)
    with pytest.raises(ValueError, match="expected the 2 channels"):
        fitted.predict([x[:, :1] for x in X])
    with pytest.raises(TypeError, match="such as the class"):
        classifier().set_params(layer=LRU(2, 8)).fit(X, y)
    with pytest.raises(ValueError, match="class_weight"):
        classifier(class_weight="some").fit(X, y)
    with pytest.raises(ValueError, match="got 'up'"):
        classifier(class_weight={"up": 2}).fit(X, y)
    with pytest.raises(ValueError, match="got 'gur'"):
        classifier().set_params(layer="gur").fit(X, y)
    table = pandas.DataFrame(X[0])
    with pytest.raises(TypeError, match="got a table, DataFrame"):
        classifier().fit(table, y)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        SequenceRegressor().fit(X, np.zeros((40, 2)))
    with pytest.raises(ValueError, match="got 39"):
        classifier().fit(X, y[:-1])
    assert isinstance(classifier().set_params(layer=LRU).fit(X, y).model_.layer, LRU)


def test_the_columns_of_frames_are_found_by_their_names():
    X, y = draw()
    frames = [pandas.DataFrame(x, columns=["left", "right"]) for x in X]
    fitted = classifier().fit(frames, y)
    expected = classifier().fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(fitted.predict_proba(frames), expected)
    swapped = [frame[["right", "left"]] for frame in frames]
    np.testing.assert_array_equal(fitted.predict_proba(swapped), expected)
    np.testing.assert_array_equal(fitted.predict_proba(X), expected)  # by their places
    with pytest.raises(ValueError, match="got 2: 'left', 'up'"):
        fitted.predict([frame.rename(columns={"right": "up"}) for frame in frames])


def with_gaps(count=40, seed=0):
    """The sequences of `draw`, a third of whose values is missing."""
    X, y = draw(count, seed)
    generator = np.random.default_rng(seed + 100)
    for x in X:
        x[generator.random(x.shape) < 1 / 3] = np.nan
    return X, y


each_missing = pytest.mark.parametrize("missing", ["mask", "forward"])


@each_missing
def test_missing_values_are_learnt_from_and_predicted(missing):
    X, y = with_gaps()
    fitted = classifier(missing=missing).fit(X, y)
    new, truth = with_gaps(seed=1)
    assert fitted.score(new, truth) > 0.8
    assert fitted.n_features_in_ == 2
    p = fitted.predict_proba(new)
    prepared, lengths = next(
        fitted.preprocessing_.batches(from_arrays(new, allow_missing=True), 40)
    )
    assert prepared.shape[2] == 4
    with torch.no_grad():
        outputs = fitted.model_(prepared, lengths)
    np.testing.assert_allclose(outputs.softmax(-1), p, rtol=0, atol=1e-5)


def test_missing_values_without_the_option_are_an_early_error(tmp_path):
    X, y = draw()
    fitted = classifier().fit(X, y)
    X[3][2, 1] = np.nan
    message = r"got nan in the sequence with index 3, channel 2, step 3; .*missing='mask'"
    unfitted = classifier(directory=tmp_path / "run")
    with pytest.raises(ValueError, match=message):
        unfitted.fit(X, y)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match=message):
        SequenceRegressor().fit(X, np.arange(40.0))
    for predict in (fitted.predict, fitted.predict_proba):
        with pytest.raises(ValueError, match=message):
            predict(X)
    with pytest.raises(ValueError, match=message):
        fitted.score(X, y)
    with pytest.raises(ValueError, match=message):
        fitted.predict(from_arrays(X, allow_missing=True))
    fitted.set_params(missing="mask")  # of the next fit, not of the network that is there
    with pytest.raises(ValueError, match=message):
        fitted.predict(X)
    X[3][2, 1] = np.inf
    with pytest.raises(ValueError, match="infinite values"):
        classifier(missing="mask").fit(X, y)
    with pytest.raises(ValueError, match="expected missing"):
        classifier(missing="drop").fit(*draw())


@pytest.mark.parametrize("layout", ["channels_first", "steps_first"])
def test_arrays_and_tables_may_have_missing_values(layout):
    X, y = with_gaps()
    array = np.stack([x[:8] for x in X])
    expected = classifier(missing="mask").fit(list(array), y).predict_proba(list(array))
    rows = pandas.DataFrame(array.reshape(-1, 2), columns=["1", "2"])
    rows["sequence"] = np.repeat(np.arange(40), 8)
    rows["label"] = np.repeat(y, 8)
    table = from_table(rows, label="label", allow_missing=True)
    from_rows = classifier(missing="mask").fit(table).predict_proba(table)
    np.testing.assert_array_equal(from_rows, expected)
    if layout == "channels_first":
        array = array.transpose(0, 2, 1)
    fitted = classifier(missing="mask", layout=layout).fit(array, y)
    np.testing.assert_array_equal(fitted.predict_proba(array), expected)


def test_a_regressor_takes_missing_values():
    X, _ = with_gaps(60)
    y = np.array([np.isnan(x).mean() for x in X])  # only the masks tell it
    options = {"epochs": 60, "lr": 2e-2, "patience": None, "random_state": 0}
    fitted = SequenceRegressor(MinGRU, 16, missing="mask", **options).fit(X, y)
    assert fitted.score(X, y) > 0.5
