"""What becomes of a fitted estimator: a file, ONNX, C and a stream, with the same answers."""

import ctypes
import subprocess
from functools import partial

import numpy as np
import onnx
import onnxruntime
import pandas
import polars
import pytest
import torch
from sklearn.exceptions import NotFittedError

from crossing import few
from eigenrnn import GRU, LRU, LSTM, LeakyRNN, MinGRU, ResidualStack, ScoRNN, Stream
from eigenrnn.constraints import ScaledCayley
from eigenrnn.estimators import (
    SequenceClassifier,
    SequenceForecaster,
    SequenceRegressor,
    load,
)
from eigenrnn.export import export_model, to_c
from eigenrnn.init import uniform_, weights_
from eigenrnn.layers import Layer

NAMES = ["links", 'quote " \\', "größer"]


def data(dtype=np.float64, gaps=False, count=30):
    """Sequences of three classes; channels have offsets and scales of their own."""
    rng = np.random.default_rng(0)
    y = np.arange(count) % 3
    X = []
    for k in range(count):
        x = rng.normal(size=(5 + k % 4, 2)) + y[k]
        x = (x * [1e-3, 40.0] + [7.0, 1e5]).astype(dtype)
        if gaps:
            x[rng.random(x.shape) < 0.3] = np.nan
        X.append(x)
    return X, np.array(NAMES)[y]


def fitted(missing="error", dtype=np.float64, layer=GRU):
    X, y = data(dtype, missing != "error")
    options = {"missing": missing, "epochs": 4, "random_state": 0, "lr": 1e-2}
    return SequenceClassifier(layer, 8, **options).fit(X, y), X


def of_onnx(path, X):
    session = onnxruntime.InferenceSession(str(path))
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(x).double() for x in X])
    lengths = np.array([len(x) for x in X])
    return session.run(None, {"inputs": padded.numpy(), "lengths": lengths})[0]


def compiled(path):
    library = path.with_suffix(".so")
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wconversion", "-Wshadow"]
    command = ["gcc", "-O2", "-std=c99", *warnings, "-fPIC", "-shared", str(path), "-lm"]
    subprocess.run([*command, "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def of_c(network, X, size):
    """Return the outputs of a compiled network after the last step of each sequence."""
    state = ctypes.create_string_buffer(1 << 14)
    found = []
    for x in X:
        output = (ctypes.c_float * size)()
        network.net_reset(state)
        for row in x.astype(np.float64):
            network.net_step(state, (ctypes.c_double * len(row))(*row), output)
        if hasattr(network, "net_probabilities"):
            network.net_probabilities(output, output)
        found.append(list(output))
    return np.array(found)


def of_stream(estimator, X):
    stream = Stream(estimator)
    found = []
    for x in X:
        stream.reset()
        for x_t in torch.tensor(x):
            answer = stream(x_t)
        found.append(answer.numpy())
    return np.stack(found)


@pytest.mark.parametrize(
    ("missing", "dtype"),
    [
        pytest.param("error", np.float64, marks=pytest.mark.long),
        pytest.param("error", np.float32, marks=pytest.mark.long),
        ("mask", np.float32),
        pytest.param("mask", np.float64, marks=pytest.mark.long),
        ("forward", np.float64),
        pytest.param("forward", np.float32, marks=pytest.mark.long),
    ],
)
def test_all_ways_out_give_the_probabilities(tmp_path, missing, dtype):
    estimator, X = fitted(missing, dtype)
    expected = estimator.predict_proba(X)
    export_model(estimator, tmp_path / "net.onnx")
    to_c(estimator, tmp_path / "net.c")
    network = compiled(tmp_path / "net.c")
    estimator.save(tmp_path / "model.pt")
    np.testing.assert_array_equal(load(tmp_path / "model.pt").predict_proba(X), expected)
    np.testing.assert_allclose(of_onnx(tmp_path / "net.onnx", X), expected, atol=1e-6)
    np.testing.assert_allclose(of_c(network, X, 3), expected, atol=1e-6)
    np.testing.assert_allclose(of_stream(estimator, X), expected, atol=1e-6)
    network.net_class.restype = ctypes.c_char_p
    assert [network.net_class(k).decode() for k in range(3)] == sorted(NAMES)


@pytest.mark.parametrize("missing", ["mask", "forward"])
def test_a_network_of_whole_numbers_gives_the_probabilities(tmp_path, missing):
    estimator, X = fitted(missing)
    calibration = [torch.tensor(x) for x in X]
    to_c(estimator, tmp_path / "net.c", weights="int16", calibration=calibration)
    found = of_c(compiled(tmp_path / "net.c"), X, 3)
    np.testing.assert_allclose(found, estimator.predict_proba(X), atol=1e-3)


@few("targets", {str(each): each for each in (0, slice(1), slice(2))}, ["0", str(slice(2))])
def test_all_ways_out_give_a_regressor_its_units(tmp_path, targets):
    X, _ = data()
    y = np.array([[1000 + x[-1, 0], x[-1, 1]] for x in X])[:, targets]
    estimator = SequenceRegressor(MinGRU, 8, epochs=4, random_state=0).fit(X, y)
    expected = estimator.predict(X)
    description = export_model(estimator, tmp_path / "net.onnx")
    assert description["outputs"][0]["name"] == "numbers"
    to_c(estimator, tmp_path / "net.c")
    estimator.save(tmp_path / "model.pt")
    np.testing.assert_array_equal(load(tmp_path / "model.pt").predict(X), expected)
    for found in (
        of_onnx(tmp_path / "net.onnx", X),
        of_c(compiled(tmp_path / "net.c"), X, y[:1].size),
        of_stream(estimator, X),
    ):
        np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-6)


def subclasses(kind):
    direct = kind.__subclasses__()
    return [*direct, *(each for one in direct for each in subclasses(one))]


def test_onnx_names_its_dimensions_and_takes_any_sizes(tmp_path):
    estimator, X = fitted()
    export_model(estimator, tmp_path / "net.onnx")
    # the command line finds a layer by its name among the subclasses
    assert [kind.__name__ for kind in subclasses(Layer)].count("GRU") == 1
    graph = onnx.load(tmp_path / "net.onnx").graph
    dimensions = [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in (*graph.input, *graph.output)
    ]
    assert dimensions == [["T", "B", 2], ["B"], ["B", 3]]
    for part in (X[:1], X[:7]):
        expected = estimator.predict_proba(part)
        np.testing.assert_allclose(of_onnx(tmp_path / "net.onnx", part), expected, atol=1e-6)


def test_a_stream_of_several_sequences_begins_each_anew():
    estimator, X = fitted("forward")
    array = torch.from_numpy(np.stack([x[:5] for x in X[:4]]))
    stream = Stream(estimator, 4)
    for t in range(5):
        stream(array[:, t])
    stream.reset([1, 3])
    for t in range(5):
        answers = stream(array[:, t])
    single = of_stream(estimator, array.numpy())
    np.testing.assert_allclose(answers[[1, 3]], single[[1, 3]], atol=1e-6)
    assert (answers[[0, 2]] - torch.from_numpy(single[[0, 2]])).abs().max() > 1e-4


@pytest.mark.parametrize("missing", ["error", "mask", "forward"])
@pytest.mark.parametrize("layer", [GRU, LSTM])
def test_a_stream_continues_from_a_state_with_the_last_known_values(missing, layer):
    estimator, X = fitted(missing, layer=layer)
    first, second = (torch.from_numpy(np.nan_to_num(X[k][0])) for k in (0, 1))
    gap = first if missing == "error" else torch.full_like(first, torch.nan)
    stream = Stream(estimator)
    stream(first)
    state = stream.state
    expected = stream(gap)
    stream.reset()
    stream(second)
    stream.state = state
    torch.testing.assert_close(stream(gap), expected, rtol=0, atol=0)


def test_a_state_without_the_last_known_values_is_refused():
    stream = Stream(fitted("forward")[0])
    state, last = stream.state
    with pytest.raises(ValueError, match="the state and the last known values, got a Tensor"):
        stream.state = state
    with pytest.raises(ValueError, match=r"shape \(2,\), got \(3,\)"):
        stream.state = state, torch.zeros(3, dtype=last.dtype)


class Stranger(GRU):
    pass


def stack(inputs, units):
    return ResidualStack(partial(LRU, hidden_size=units), units, 2, input_size=inputs)


@pytest.mark.parametrize(
    "layer",
    [
        GRU,
        torch.nn.LSTM,
        partial(ScoRNN, negative=2),
        partial(LSTM, dtype=torch.float64),
        partial(MinGRU, num_layers=2),
    ],
    ids=str,
)
def test_a_file_has_the_call_that_makes_the_layer(tmp_path, layer):
    estimator, X = fitted(layer=layer)
    estimator.save(tmp_path / "model.pt")
    before = torch.get_rng_state()
    again = load(tmp_path / "model.pt")
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(again.predict_proba(X), estimator.predict_proba(X))
    assert again.get_params()["hidden_size"] == 8
    assert again.fit(*data()).predict(X).dtype == estimator.predict(X).dtype


WITH_OPTIONS = {
    "a leak": partial(LeakyRNN, leak=0.3, nonlinearity="modrelu", constraint=ScaledCayley),
    "an initialiser": partial(GRU, init=partial(weights_, weight_ih=(None, None, uniform_))),
}


@pytest.mark.parametrize("layer", WITH_OPTIONS.values(), ids=WITH_OPTIONS)
def test_a_file_has_the_layer_with_its_options(tmp_path, layer):
    estimator, X = fitted(layer=layer)
    estimator.save(tmp_path / "model.pt")
    again = load(tmp_path / "model.pt")
    np.testing.assert_array_equal(again.predict_proba(X), estimator.predict_proba(X))
    assert again.layer_.keywords.keys() == layer.keywords.keys()


@pytest.mark.parametrize("layer", [Stranger, stack, partial(stack)])
def test_a_layer_of_a_stranger_is_given_at_loading(tmp_path, layer):
    estimator, X = fitted(layer=layer)
    estimator.save(tmp_path / "model.pt")
    with pytest.raises(ValueError, match="layer="):
        load(tmp_path / "model.pt")
    again = load(tmp_path / "model.pt", layer=layer)
    np.testing.assert_array_equal(again.predict_proba(X), estimator.predict_proba(X))


class Hostile:
    """What unpickling would turn into a call."""

    def __reduce__(self):
        return print, ("executed",)


@pytest.mark.parametrize("change", [{"kind": Hostile()}, {"attributes": {"a": Hostile()}}])
def test_nothing_of_a_file_is_executed(tmp_path, capsys, change):
    estimator, _ = fitted()
    path = tmp_path / "model.pt"
    estimator.save(path)
    torch.save({**torch.load(path, weights_only=True), **change}, path)
    with pytest.raises(ValueError, match=r"expected a file of estimator\.save, got .*model\.pt"):
        load(path)
    assert "executed" not in capsys.readouterr().out


WRONG = {
    "another format": ({"format": 99}, "a file of eigenrnn"),
    "an unknown class": ({"layer": {"name": "os.system"}}, "there is no os"),
    "other sizes": ({"sizes": (2, 9, 3)}, "size mismatch"),
    "no weights": ({"weights": {}}, "cannot be made"),
}


@pytest.mark.parametrize(("change", "found"), WRONG.values(), ids=WRONG)
def test_files_that_do_not_fit_say_why(tmp_path, change, found):
    estimator, _ = fitted()
    path = tmp_path / "model.pt"
    estimator.save(path)
    torch.save({**torch.load(path, weights_only=True), **change}, path)
    with pytest.raises(ValueError, match=found):
        load(path)


def test_files_that_are_none_and_files_of_another_version_say_so(tmp_path):
    path = tmp_path / "model.pt"
    for content in (b"", b"month,sales", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"expected a file of estimator\.save"):
            load(path)
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match=r"expected a file of estimator\.save"):
        load(path)
    estimator, X = fitted()
    estimator.save(path)
    torch.save({**torch.load(path, weights_only=True), "eigenrnn": "0.0.1"}, path)
    with pytest.warns(UserWarning, match=r"written by eigenrnn 0\.0\.1"):
        again = load(path)
    np.testing.assert_array_equal(again.predict(X), estimator.predict(X))


def test_a_save_that_fails_leaves_the_earlier_file(tmp_path, monkeypatch):
    estimator, _ = fitted()
    path = tmp_path / "model.pt"
    estimator.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(torch, "save", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        estimator.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_has_the_options_and_what_is_known_of_the_data(tmp_path):
    X, y = data()
    frames = [pandas.DataFrame(x, columns=["a", ("b", 1)]) for x in X]
    weights = {name: k + 1.0 for k, name in enumerate(NAMES)}
    estimator = SequenceClassifier(
        GRU,
        8,
        epochs=1,
        class_weight=weights,
        random_state=np.int64(3),
        scoring=lambda *_, **__: 1.0,
    ).fit(frames, pandas.Series(y, dtype="category"))
    estimator.save(tmp_path / "model.pt")
    again = load(tmp_path / "model.pt")
    swapped = [frame[frame.columns[::-1]] for frame in frames]
    np.testing.assert_array_equal(again.predict(swapped), estimator.predict(frames))
    assert again.get_params() == {**estimator.get_params(), "scoring": None}
    assert again.classes_.dtype == estimator.classes_.dtype
    assert again.feature_names_in_.tolist() == ["a", ("b", 1)]


class Derived(SequenceClassifier):
    pass


def test_a_class_of_a_stranger_is_not_written(tmp_path):
    X, y = data()
    with pytest.raises(TypeError, match="expected an estimator of eigenrnn, got Derived"):
        Derived(GRU, 4, epochs=1).fit(X, y).save(tmp_path / "model.pt")
    assert not (tmp_path / "model.pt").exists()


def test_labels_of_another_machine_are_written(tmp_path):
    X, y = data()
    numbers = np.unique(y, return_inverse=True)[1].astype(">i4")
    estimator = SequenceClassifier(GRU, 4, epochs=1, random_state=0).fit(X, numbers)
    estimator.save(tmp_path / "model.pt")
    found = load(tmp_path / "model.pt")
    np.testing.assert_array_equal(found.predict(X), estimator.predict(X))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_file_is_read_under_any_default_dtype(tmp_path, dtype):
    def under(dtype, call, *arguments):
        default = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            return call(*arguments)
        finally:
            torch.set_default_dtype(default)

    other = {torch.float32: torch.float64, torch.float64: torch.float32}[dtype]
    estimator, X = under(dtype, fitted)
    estimator.save(tmp_path / "model.pt")
    again = under(other, load, tmp_path / "model.pt")
    np.testing.assert_array_equal(
        under(other, again.predict_proba, X), under(dtype, estimator.predict_proba, X)
    )


def test_forecasters_and_unfitted_estimators_are_refused(tmp_path):
    forecaster = SequenceForecaster(epochs=1, hidden_size=4).fit(np.sin(np.arange(40.0)))
    calls = (
        Stream,
        lambda e: to_c(e, tmp_path / "a.c"),
        lambda e: export_model(e, tmp_path / "a.pt2"),
    )
    for call in calls:
        with pytest.raises(TypeError, match="pass its model_"):
            call(forecaster)
        with pytest.raises(NotFittedError):
            call(SequenceClassifier())
    estimator, _ = fitted()
    for call in (to_c, export_model):
        with pytest.raises(ValueError, match="the estimator has itself"):
            call(
                estimator,
                tmp_path / "a.c" if call is to_c else tmp_path / "a.pt2",
                scaling=([0], [1]),
            )
    assert not list(tmp_path.iterdir())


def one_table(X, y):
    parts = [pandas.DataFrame(x, columns=["l", "r"]).assign(unit=k) for k, x in enumerate(X)]
    table = pandas.concat(parts).rename_axis("ms").reset_index()
    table = table.assign(label=np.asarray(y)[table["unit"]]).sample(frac=1, random_state=0)
    groups = table.sort_values(["unit", "ms"]).groupby("unit")
    return [part[["l", "r"]] for _, part in groups], groups["label"].first().to_numpy()


def folder_of_files(folder, X, y):
    for k, (x, label) in enumerate(zip(X, y, strict=True)):
        pandas.DataFrame(x, columns=["l", "r"]).to_csv(folder / f"{k:02}.{label[:1]}.csv")
    files = sorted(folder.glob("*.csv"))
    return [pandas.read_csv(file, index_col=0) for file in files], [f.name[3] for f in files]


def polars_frame(X, y):
    columns = {"unit": np.repeat(np.arange(len(X)), [len(x) for x in X])}
    frame = polars.DataFrame({**columns, **dict(zip("lr", np.concatenate(X).T, strict=True))})
    parts = frame.partition_by("unit", maintain_order=True)
    return [part[["l", "r"]] for part in parts], y


def panel(X, y):
    frames = [pandas.DataFrame(x, columns=["l", "r"]) for x in X]
    return pandas.concat(frames, keys=range(len(X)), names=["instance", "time"]), y


LAYOUTS = {
    "a table with ids and times": lambda _, X, y: one_table(X, y),
    "a folder of files": folder_of_files,
    "an array of aeon": lambda _, X, y: (
        np.stack([x[:5].T for x in X]).transpose(0, 2, 1),
        y,
    ),
    "a list of arrays": lambda _, X, y: (X, y),
    "a panel of sktime": lambda _, X, y: panel(X, y),
    "a polars frame": lambda _, X, y: polars_frame(X, y),
}


@few("layout", LAYOUTS, ["a table with ids and times"])
def test_each_layout_of_people_goes_from_data_to_file_onnx_c_and_stream(tmp_path, layout):
    arrays, names = data()
    X, y = layout(tmp_path, arrays, names)
    estimator = SequenceClassifier(GRU, 8, epochs=2, random_state=0).fit(X, y)
    read = np.stack([x[:5] for x in arrays]) if isinstance(X, np.ndarray) else arrays
    expected = estimator.predict_proba(read)
    estimator.save(tmp_path / "model.pt")
    export_model(estimator, tmp_path / "net.onnx")
    to_c(estimator, tmp_path / "net.c")
    for found in (
        load(tmp_path / "model.pt").predict_proba(X),
        of_onnx(tmp_path / "net.onnx", read),
        of_c(compiled(tmp_path / "net.c"), read, 3),
        of_stream(estimator, read),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)
