"""Missing values: the same inputs in training, prediction, an exported network and a stream."""

import ctypes
import json
import shlex
import subprocess

import numpy as np
import onnxruntime
import pandas
import pytest
import torch

from crossing import some
from eigenrnn import Stream
from eigenrnn_experiments import load
from eigenrnn_experiments.cli import main
from eigenrnn_experiments.data.in_memory import from_arrays
from eigenrnn_experiments.data.series import read_series
from eigenrnn_experiments.prediction import predict_series
from eigenrnn_experiments.tasks import Series
from eigenrnn_experiments.tasks.preprocessing import SeriesPreprocessing
from training_run import one_thread

NAN = np.nan
LENGTHS = [6, 9, 4, 7, 5, 8, 6, 9]
KINDS = ["mask", "forward"]
each_kind = pytest.mark.parametrize("missing", KINDS)


def draw():
    """Sequences of two channels, a quarter of whose values is missing, at both ends too."""
    generator = np.random.default_rng(0)
    arrays = [generator.normal(3.0, 2.0, (length, 2)) for length in LENGTHS]
    for array in arrays:
        array[generator.random(array.shape) < 0.25] = NAN
    arrays[0][0, 0] = arrays[1][-1, 1] = NAN
    return arrays


def expected(arrays, missing):
    """The inputs of each sequence, value by value."""
    columns = np.concatenate(arrays)
    mean, deviation = np.nanmean(columns, 0), np.nanstd(columns, 0)
    found = []
    for array in arrays:
        rows = np.zeros((len(array), 4))
        last = [0.0, 0.0]
        for t, step in enumerate(array):
            for m, value in enumerate(step):
                if np.isnan(value):
                    rows[t, m] = last[m] if missing == "forward" else 0.0
                    rows[t, 2 + m] = 1.0
                else:
                    rows[t, m] = last[m] = (value - mean[m]) / deviation[m]
        found.append(rows)
    return found


def task(missing, **options):
    sequences = from_arrays(draw(), labels=[0, 1] * 4, allow_missing=True)
    return Series(train=sequences, missing=missing, validation=0, shuffle=False, **options)


@each_kind
def test_the_inputs_are_scaled_values_and_masks(missing):
    batch = next(task(missing).batches("train", 8))
    for number, rows in enumerate(expected(draw(), missing)):
        length = LENGTHS[number]
        np.testing.assert_allclose(batch.inputs[:length, number], rows, atol=1e-5)
        assert not batch.inputs[length:, number].any()


@each_kind
def test_missing_next_values_are_no_targets(missing):
    batch = next(task(missing, answer="next").batches("train", 8))
    assert batch.targets.shape[2] == 2
    for number, array in enumerate(draw()):
        length = LENGTHS[number]
        targets = batch.targets[: length - 1, number].numpy()
        np.testing.assert_array_equal(np.isnan(targets), np.isnan(array[1:]))
        known = ~np.isnan(targets)
        rows = expected(draw(), missing)[number][1:, :2]
        np.testing.assert_allclose(targets[known], rows[known], atol=1e-5)
    assert batch.targets[LENGTHS[2] - 1 :, 2].isnan().all()


@each_kind
def test_single_steps_give_the_inputs_of_whole_sequences(missing):
    given = task(missing)
    batch = next(given.batches("train", 8))
    steps = given.preprocessing.steps()
    for number, array in enumerate(draw()):
        steps.reset()
        rows = [steps(row) for row in torch.from_numpy(array)]
        torch.testing.assert_close(torch.stack(rows), batch.inputs[: len(array), number])


def test_sequences_side_by_side_have_their_own_last_values():
    fitted = SeriesPreprocessing("next", ("x",), (0.0,), (1.0,), missing="forward")
    steps = fitted.steps()
    steps(torch.tensor([[1.0], [2.0]]))
    assert steps(torch.tensor([[NAN], [3.0]])).tolist() == [[1.0, 1.0], [3.0, 0.0]]


def test_a_channel_without_a_value_is_named():
    arrays = [np.full((3, 1), NAN)] * 4
    sequences = from_arrays(arrays, labels=[0, 1] * 2, channels=["broken"], allow_missing=True)
    with pytest.raises(ValueError, match="'broken'"):
        Series(train=sequences, missing="mask", validation=0).batches("train", 1)


def test_missing_values_in_memory_need_the_option():
    with pytest.raises(ValueError, match="missing='mask' or 'forward'"):
        task("error").batches("train", 1)
    with pytest.raises(ValueError, match="got inf"):
        from_arrays([np.array([NAN, np.inf])], allow_missing=True)


WORDS = ["", "NA", "nan", "NaN", "?", "null", "None", "n/a", "-"]


@pytest.mark.parametrize("ending", ["csv", "parquet", "ts", "npz"])
def test_every_format_may_have_missing_values(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    expected = [1.0, *[NAN] * len(WORDS), 2.0]
    if ending == "csv":
        rows = "".join(f"a,{word},0\n" for word in ["1", *WORDS, "2"])
        path.write_text(f"sequence,x,y\n{rows}")
    elif ending == "parquet":
        table = pandas.DataFrame({"sequence": ["a"] * len(expected), "x": expected, "y": 0.0})
        table.loc[1, "x"] = None
        table.to_parquet(path, index=False)
    elif ending == "ts":
        values = ",".join(["1", *(["?", "NaN"] * 5)[: len(WORDS)], "2"])
        path.write_text(f"@classLabel false\n@data\n{values}:{','.join(['0'] * len(expected))}\n")
    else:
        x = np.array([expected, [0.0] * len(expected)]).T
        np.savez(path, x=x[None])
    options = Series(train=path, missing="mask", answer="next").read_options
    np.testing.assert_array_equal(read_series(path, options).values[:, 0], expected)
    with pytest.raises(ValueError, match="missing='mask' or 'forward'"):
        read_series(path)


@pytest.fixture(scope="module", params=some(KINDS, ["mask"]))
def run(request, tmp_path_factory):
    """A run on a table with missing values, and the table."""
    folder = tmp_path_factory.mktemp(request.param)
    rows = [
        {"unit": f"u{n}", "left": x[0], "right": x[1], "state": "ab"[n % 2]}
        for n, array in enumerate(draw())
        for x in array
    ]
    pandas.DataFrame(rows).to_csv(folder / "a.csv", index=False, sep=";")
    line = (
        f"train --task Series --task.train {folder / 'a.csv'} --task.separator ; "
        f"--task.columns.sequence unit --task.columns.label state --task.missing {request.param} "
        f"--task.validation 0 --layer GRU --hidden_size 4 --steps 3 --out {folder / 'run'}"
    )
    with one_thread():
        assert main(shlex.split(line.replace(" ; ", " ';' "))) == 0
    return folder / "run", folder / "a.csv"


# torch's exporter asks torch's pytree a question that torch has deprecated
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_prediction_export_and_stream_agree(run, tmp_path):
    folder, table = run
    loaded = load(folder)
    fitted = loaded.preprocessing
    sequences = fitted.read(table)
    predicted = predict_series(loaded.model, fitted, sequences)
    rows = expected(draw(), fitted.missing)
    stream, steps = Stream(loaded.model), fitted.steps()
    for number, array in enumerate(draw()):
        outputs = loaded.model(torch.from_numpy(rows[number]).float().unsqueeze(1))[0]
        p = outputs.softmax(-1)
        torch.testing.assert_close(p.double(), predicted.values[number], rtol=0, atol=1e-5)
        stream.reset()
        steps.reset()
        for x_t in torch.from_numpy(array):
            y_t = stream(steps(x_t))
        torch.testing.assert_close(y_t, outputs, rtol=0, atol=1e-5)
    model = tmp_path / "model.onnx"
    assert main(["export", str(folder), str(model)]) == 0
    description = json.loads(model.with_suffix(".json").read_text())["preprocessing"]
    assert description["input_channels"][2:] == ["left is missing", "right is missing"]
    assert description["missing"] == fitted.missing
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    # the exported file scales: it gets the mean where the network gets zero
    scale = np.concatenate([fitted.deviation, [1, 1]])
    mean = np.concatenate([fitted.mean, [0, 0]])
    inputs = {"inputs": (rows[1] * scale + mean)[:, None], "lengths": np.array([LENGTHS[1]])}
    logits = torch.from_numpy(session.run(None, inputs)[0]).double()
    torch.testing.assert_close(logits.softmax(-1)[0], predicted.values[1], rtol=0, atol=1e-5)
    assert main(["export", str(folder), str(tmp_path / "net.c")]) == 0
    assert np.abs(steps_in_c(tmp_path, inputs["inputs"][:, 0]) - logits[0].numpy()).max() < 1e-5
    described = json.loads((tmp_path / "net.json").read_text())
    assert described["preprocessing"] == description


def steps_in_c(folder, rows):
    """Return the outputs after the last row, of a network in C."""
    command = ["gcc", "-shared", "-fPIC", "-o", folder / "net.so", folder / "net.c", "-lm"]
    subprocess.run(command, check=True)
    network = ctypes.CDLL(str(folder / "net.so"))
    state = ctypes.create_string_buffer(1 << 16)
    output = (ctypes.c_float * 2)()
    network.net_reset(state)
    for row in rows:
        network.net_step(state, (ctypes.c_float * len(row))(*row), output)
    return np.array(output)
