"""Series in memory: arrays, aeon's layout and tables; stored with a run, which resumes."""

from functools import partial

import numpy as np
import pandas
import polars
import pytest
import torch
from torch import nn

from eigenrnn.models import SequenceModel
from eigenrnn_experiments.data.in_memory import (
    content_hash,
    from_arrays,
    from_channels_first,
    from_table,
    to_arrays,
)
from eigenrnn_experiments.data.series import read_series
from eigenrnn_experiments.data.tables import Columns, ReadOptions
from eigenrnn_experiments.tasks import Series
from eigenrnn_experiments.training import RunFolder, Settings, fit

LENGTHS = [3, 5, 2, 4, 6, 3, 2, 4]
LABELS = [True, False] * 4


def draw(seed=0):
    """Sequences of two channels and unequal lengths."""
    generator = np.random.default_rng(seed)
    return [generator.normal(size=(length, 2)) for length in LENGTHS]


def as_table(arrays, labels=LABELS):
    """The rows of all sequences in random order, with columns that are not to be read."""
    rows = [
        {"unit": 10 - n, "ms": 5 * t, "left": x[0], "right": x[1], "state": label, "index": n}
        for n, (array, label) in enumerate(zip(arrays, labels, strict=True))
        for t, x in enumerate(array)
    ]
    return pandas.DataFrame(rows).sample(frac=1, random_state=0)


def first_batch(sequences):
    task = Series(train=sequences, validation=0, scaling="none", shuffle=False)
    return task, next(task.batches("train", len(sequences)))


def test_the_batches_hold_the_arrays():
    arrays = draw()
    task, batch = first_batch(from_arrays(arrays, labels=LABELS))
    assert batch.lengths.tolist() == LENGTHS
    for number, array in enumerate(arrays):
        padded = np.zeros((max(LENGTHS), 2), np.float32)
        padded[: len(array)] = array
        np.testing.assert_array_equal(batch.inputs[:, number], padded)
    assert [task.class_names[k] for k in batch.targets] == list(map(str, LABELS))


def test_a_table_equals_the_list_of_its_sequences():
    arrays = draw()
    got = from_table(
        as_table(arrays), sequence="unit", time="ms", label="state", channels=["right", "left"]
    )
    assert got.channels == ("right", "left")
    for name, length, label in zip(got.names, got.lengths, got.labels, strict=True):
        number = 10 - int(name)
        start = sum(got.lengths[: got.names.index(name)])
        values = got.values[start : start + length]
        np.testing.assert_array_equal(values, arrays[number][:, ::-1])
        assert label == str(LABELS[number])


def test_a_table_of_polars_equals_the_same_table_of_pandas():
    table = as_table(draw())
    columns = {name: table[name].to_list() for name in table.columns}
    options = {"sequence": "unit", "time": "ms", "label": "state", "ignored": "index"}
    given = from_table(table, **options)
    got = from_table(polars.DataFrame(columns), **options)
    assert got.names == given.names
    assert got.channels == ("left", "right")
    assert got.labels == given.labels
    np.testing.assert_array_equal(got.lengths, given.lengths)
    np.testing.assert_array_equal(got.values, given.values)


def test_a_lazy_table_of_polars_is_no_table():
    lazy = polars.LazyFrame({"unit": [1], "left": [0.5]})
    with pytest.raises(TypeError, match="got LazyFrame"):
        from_table(lazy, sequence="unit")


def test_aeons_layout_has_channels_before_time():
    x = np.arange(2 * 3 * 4.0).reshape(2, 3, 4)
    got = from_channels_first(x, targets=[0.5, 1.5])
    expected = [[[x[n, m, t] for m in range(3)] for t in range(4)] for n in range(2)]
    np.testing.assert_array_equal(got.values.reshape(2, 4, 3), expected)
    assert got.targets.tolist() == [0.5, 1.5]


def train(directory, arrays, steps, **options):
    task = Series(train=from_arrays(arrays, labels=LABELS), validation=0.25)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = SequenceModel(nn.GRU(2, 4), 2, readout="last")
    settings = Settings(steps=steps, batch_size=4, eval_every=2, seed=1)
    return fit(model, task, settings, directory, **options)


def test_a_run_stores_its_data_and_resumes_with_the_same_data_alone(tmp_path):
    train(tmp_path / "whole", draw(), 4)
    train(tmp_path / "run", draw(), 2)
    train(tmp_path / "run", draw(), 4, resume=True)
    losses = [RunFolder(tmp_path / name).read_column("train_loss") for name in ("whole", "run")]
    assert losses[0] == losses[1]
    with pytest.raises(ValueError, match=r"data\.train was"):
        train(tmp_path / "run", draw(seed=1), 6, resume=True)


def test_the_stored_file_holds_the_same_sequences(tmp_path):
    given = from_arrays(draw(), labels=LABELS, channels=["left", "right"])
    RunFolder(tmp_path).write_data(Series(train=given).data_in_memory())
    stored = read_series(tmp_path / "data" / "train.npz")
    np.testing.assert_array_equal(stored.values, given.values)
    np.testing.assert_array_equal(stored.lengths, given.lengths)
    assert (stored.labels, stored.channels, stored.names) == (
        given.labels,
        given.channels,
        given.names,
    )


def test_overwriting_a_run_deletes_its_data(tmp_path):
    train(tmp_path, draw(), 2)
    train(tmp_path, draw(seed=1), 2, overwrite=True)
    stored = read_series(tmp_path / "data" / "train.npz")
    np.testing.assert_array_equal(stored.values, np.concatenate(draw(seed=1)))


WITH_NAN = draw()
WITH_NAN[1][2, 0] = np.nan
UNKNOWN = as_table(draw(), [None, *LABELS[1:]])

WRONG = {
    "one array": (lambda: from_arrays(np.zeros((2, 3, 4))), TypeError, "from_channels_first"),
    "none": (lambda: from_arrays([]), ValueError, "at least one array"),
    "widths": (lambda: from_arrays([np.zeros((2, 3)), np.zeros((3, 2))]), ValueError, "index 1"),
    "nan": (lambda: from_arrays(WITH_NAN), ValueError, "index 1, channel 1, step 3"),
    "labels": (lambda: from_arrays(draw(), labels=[1]), ValueError, "8 labels .* got 1"),
    "both": (lambda: from_arrays(draw(), labels=LABELS, targets=LABELS), ValueError, "got both"),
    "column": (lambda: from_table(as_table(draw())), ValueError, "'sequence' in the table, got"),
    "missing value": (
        lambda: from_table(pandas.DataFrame({"sequence": [1], "x": [np.nan]})),
        ValueError,
        "'x' in row 1 .*allow_missing=True",
    ),
    "index": (
        lambda: from_table(as_table(draw()).set_index(["unit", "ms"]), sequence="unit"),
        ValueError,
        "'unit' in the table, .*table.reset_index",
    ),
    "label": (
        lambda: from_table(UNKNOWN, sequence="unit", label="state", ignored="index"),
        ValueError,
        "'state' in row .* of the table, got",
    ),
}


def test_a_table_may_have_names_of_any_type():
    table = pandas.DataFrame({"unit": [7, 7, 9], 0: [0.1, 0.2, 0.3], 1: [4, 5, 6]})
    found = from_table(table, sequence="unit")
    assert found.channels == ("0", "1")
    np.testing.assert_array_equal(found.values[:, 1], [4, 5, 6])
    assert from_table(table, sequence="unit", channels=[1]).channels == ("1",)
    assert from_table(table, sequence="unit", ignored=[1]).channels == ("0",)


def test_a_list_of_frames_keeps_the_names_of_its_columns():
    arrays = draw()
    frames = [pandas.DataFrame(array, columns=["left", "right"]) for array in arrays]
    frames[1] = frames[1][["right", "left"]]
    frames[2] = polars.DataFrame(frames[2].to_dict("list"))
    read = from_arrays(frames)
    assert read.channels == ("left", "right")
    np.testing.assert_array_equal(read.values, np.concatenate(arrays))
    frames[3] = frames[3].rename(columns={"left": "up"})
    with pytest.raises(ValueError, match="got up, right"):
        from_arrays(frames)


def test_single_precision_stays_and_a_stored_run_keeps_its_hash(tmp_path):
    arrays = [array.astype(np.float32) for array in draw()]
    given = from_arrays(arrays, labels=["none", "nan"] * 4)
    assert given.values.dtype == np.float32
    RunFolder(tmp_path).write_data(Series(train=given).data_in_memory())
    stored = read_series(tmp_path / "data" / "train.npz")
    assert content_hash(to_arrays(stored)) == content_hash(to_arrays(given))


@pytest.mark.parametrize("targets", [["a", "b"]])
def test_targets_of_arrays_are_numbers(targets):
    with pytest.raises(ValueError, match="targets of the arrays"):
        from_arrays(draw()[:2], targets=targets)


@pytest.mark.parametrize("missing", [None, np.nan, ""])
def test_missing_labels_of_arrays_are_refused(missing):
    with pytest.raises(ValueError, match="'labels' in row 2"):
        from_arrays(draw(), labels=["a", missing, *"abcabc"])


@pytest.mark.parametrize(("make", "kind", "message"), WRONG.values(), ids=WRONG)
def test_wrong_data_in_memory_is_explained(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


def test_an_ignored_column_is_no_channel_and_has_to_exist():
    table = pandas.DataFrame({"unit": [7, 7, 9], "index": [0, 1, 2], "x": [0.1, 0.2, 0.3]})
    for ignored in (["index"], "index"):
        assert list(from_table(table, sequence="unit", ignored=ignored).channels) == ["x"]
    with pytest.raises(ValueError, match="'note'"):
        from_table(table, sequence="unit", ignored=["note"])


def with_column(name, values, place=0):
    """A table of two sequences in the order of the rows, with one more column."""
    table = pandas.DataFrame({"sequence": [7, 7, 9, 9], "x": [0.5, 0.1, 0.2, 0.3]})
    table.insert(place, name, values)
    return table


def read_each_way(table, folder, **options):
    """Return functions that read a table in memory, and as a file."""
    table.to_csv(folder / "a.csv", index=False)
    table.to_parquet(folder / "a.parquet", index=False)
    columns = ReadOptions(Columns(**options))
    files = [partial(read_series, folder / name, columns) for name in ("a.csv", "a.parquet")]
    return [partial(from_table, table, **options), *files]


@pytest.mark.parametrize(
    ("name", "values", "place"),
    [
        ("index", [0, 1, 2, 3], 2),
        ("index", [0, 3, 4, 9], 0),  # of a table that was filtered
        ("index", [0, 2, 1, 3], 0),  # of one that was sorted by sequence
        ("level_0", [0, 1, 2, 3], 1),
        ("Unnamed: 0", [5, 2, 8, 1], 0),
        ("nr", [1, 2, 3, 4], 0),
    ],
    ids=["reset", "filtered", "sorted", "reset twice", "written", "counted from one"],
)
def test_row_numbers_are_no_channel_by_chance(name, values, place, tmp_path):
    table = with_column(name, values, place)
    for read in read_each_way(table, tmp_path):
        with pytest.raises(ValueError, match=f"column {name!r}.*ignored"):
            read()
    for read in read_each_way(table, tmp_path, ignored=name):
        assert read().channels == ("x",)
    for read in read_each_way(table, tmp_path, channels=[name, "x"]):
        assert read().channels == (name, "x")
    for read in read_each_way(table, tmp_path, sequence=name, ignored="sequence"):
        assert read().channels == ("x",)


@pytest.mark.parametrize(
    ("name", "values", "place"),
    [("nr", [0, 1, 2, 4], 0), ("nr", [2, 3, 4, 5], 0), ("nr", [0, 1, 2, 3], 1)],
    ids=["a gap", "from two", "not first"],
)
def test_other_columns_stay_channels(name, values, place, tmp_path):
    for read in read_each_way(with_column(name, values, place), tmp_path):
        assert name in read().channels


def test_the_first_channel_of_a_single_sequence_may_rise_by_one(tmp_path):
    table = pandas.DataFrame({"steps": np.arange(9), "sequence": "a", "x": 0.5})
    assert from_table(table).channels == ("steps", "x")
    # a file to predict has the channels of the training file, whatever their values
    with_column("nr", [0, 1, 2, 3]).to_csv(tmp_path / "a.csv", index=False)
    options = ReadOptions(is_strict=False)
    assert read_series(tmp_path / "a.csv", options).channels == ("nr", "x")
    with_column("Unnamed: 0", [0, 1, 2, 3]).to_csv(tmp_path / "a.csv", index=False)
    assert read_series(tmp_path / "a.csv", options).channels == ("Unnamed: 0", "x")
