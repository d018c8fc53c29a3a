"""The user's own series: independent readers, splits, scaling, metrics and errors."""

import gzip
import io
import math
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas
import pytest
import torch
from torch import nn

from eigenrnn.models import SequenceModel
from eigenrnn_experiments.data import series, tables
from eigenrnn_experiments.data.in_memory import from_arrays, from_table
from eigenrnn_experiments.data.series import read_series
from eigenrnn_experiments.data.tables import Columns, ReadOptions
from eigenrnn_experiments.data.ts import ARCHIVE
from eigenrnn_experiments.evaluation import evaluate_series
from eigenrnn_experiments.tasks import Series
from eigenrnn_experiments.tasks.sampling import generator_for
from eigenrnn_experiments.tasks.series_metrics import ClassificationMetrics, RegressionMetrics
from eigenrnn_experiments.training import Settings, fit

TS = """#two channels
@problemName mine
@timeStamps false
@missing false
@univariate false
@dimensions 2
@equalLength false
@classLabel true cat dog
@data
1,2,3:4,5,6:cat
-1.5:2e1:dog
7,8:9,10:cat
0,0:1,1:dog
"""
CSV = """sequence,time,left,right,label
b,2,3,6,cat
b,0,1,4,cat
a,0,-1.5,20,dog
b,1,2,5,cat
"""


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def parse_ts(path):
    """Read a .ts file independently, value by value."""
    body = path.read_text().split("@data\n")[1].split()
    for line in body:
        *channels, label = line.split(":")
        yield [list(map(float, channel.split(","))) for channel in channels], label


@pytest.mark.parametrize(("name", "text"), [("mine.csv", CSV), ("mine.ts", TS)])
def test_a_file_may_have_any_line_ends_but_not_utf16(tmp_path, name, text):
    expected = read_series(put(tmp_path, name, text))
    for end in ("\r\n", "\r"):
        found = read_series(put(tmp_path, name, text.replace("\n", end)))
        assert np.array_equal(found.values, expected.values)
        assert found.labels == expected.labels
    for encoding in ("utf-16", "utf-16-le"):
        with pytest.raises(ValueError, match="zero byte in line 1"):
            read_series(put(tmp_path, name, text.encode(encoding)))


@pytest.mark.parametrize("name", ARCHIVE)
def test_the_sets_of_the_archive_agree_with_a_second_parser(data_root, name):
    task = Series(dataset=name, validation=0, scaling="none", shuffle=False)
    for split, file in zip(("train", "test"), ARCHIVE[name], strict=True):
        expected = [*parse_ts(data_root / file.path)]
        batch = next(task.batches(split, len(expected)))
        assert batch.size == len(expected)
        for b, (channels, label) in enumerate(expected):
            length = int(batch.lengths[b])
            read = torch.tensor(channels).T
            assert torch.equal(batch.inputs[:length, b], read)
            assert not batch.inputs[length:, b].any()
            assert task.class_names[batch.targets[b]] == label


@pytest.mark.usefixtures("data_root")
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("ACSF1", (1, 10, 1460, 80, 20, 100)),
        ("BasicMotions", (6, 4, 100, 32, 8, 40)),
        ("ItalyPowerDemand", (1, 2, 24, 53, 14, 1029)),
        ("JapaneseVowels", (12, 9, 29, 216, 54, 370)),
    ],
)
def test_the_archives_sets_have_their_published_sizes(name, shape):
    task = Series(dataset=name)
    whole = {split: next(task.batches(split, 5_000)) for split in task.splits}
    longest = max(len(batch.inputs) for batch in whole.values())
    sizes = [batch.size for batch in whole.values()]
    assert (task.input_size, task.output_size, longest, *sizes) == shape


@pytest.mark.usefixtures("data_root")
def test_the_validation_part_holds_the_same_share_of_each_class():
    task = Series(dataset="JapaneseVowels", validation=0.3)
    (held_out,) = task.batches("validation", 1_000)
    kept = next(task.batches("train", 1_000))
    assert held_out.targets.bincount().tolist() == [9] * 9
    assert kept.targets.bincount().tolist() == [21] * 9
    # nothing is in both, and another seed holds out others
    rows = {tuple(x[:, 0].tolist()) for x in kept.inputs[:7].unbind(1)}
    assert not rows & {tuple(x[:, 0].tolist()) for x in held_out.inputs[:7].unbind(1)}
    (other,) = Series(dataset="JapaneseVowels", validation=0.3, split_seed=1).batches(
        "validation", 1_000
    )
    assert not torch.equal(held_out.lengths, other.lengths)


@pytest.mark.usefixtures("data_root")
def test_scaling_is_fitted_on_what_is_trained_on_alone():
    task = Series(dataset="JapaneseVowels", shuffle=False)
    raw = Series(dataset="JapaneseVowels", shuffle=False, scaling="none")
    one, other = next(task.batches("train", 216)), next(raw.batches("train", 216))
    steps = [x[:length] for x, length in zip(other.inputs.unbind(1), other.lengths, strict=True)]
    values = torch.cat(steps).double().numpy()
    mean, deviation = values.mean(0), values.std(0)
    for split in task.splits:
        one, other = next(task.batches(split, 16)), next(raw.batches(split, 16))
        for b, length in enumerate(one.lengths):
            expected = (other.inputs[:length, b].numpy() - mean) / deviation
            np.testing.assert_allclose(one.inputs[:length, b], expected, atol=1e-5)


@pytest.mark.usefixtures("data_root")
def test_next_values_follow_their_inputs():
    task = Series(dataset="JapaneseVowels", answer="next", shuffle=False)
    batch = next(task.batches("test", 9))
    for b, length in enumerate(batch.lengths.tolist()):
        assert torch.equal(batch.targets[: length - 1, b], batch.inputs[1:length, b])
        assert batch.targets[length:, b].isnan().all()
        assert not batch.targets[:length, b].isnan().any()


FORMS = ["csv", "csv.gz", "parquet", "padded.npz", "joined.npz", "aeon.npz", "ts", "table"]


@pytest.mark.parametrize("form", [*FORMS, "arrays", "frames", "folder"])
def test_every_format_gives_the_same_sequences(tmp_path, form):
    x = np.array([[1, 4], [2, 5], [3, 6], [-1.5, 20]])
    path = tmp_path / f"mine.{form}"
    table = pandas.read_csv(io.StringIO(CSV))
    read = None
    if form == "csv":
        path.write_text(CSV)
    elif form == "csv.gz":
        table.to_csv(path, index=False)
    elif form == "parquet":
        table.to_parquet(path)
    elif form == "table":
        read = from_table(table, time="time", label="label")
    elif form == "arrays":
        read = from_arrays([x[:3], x[3:]], labels=["cat", "dog"])
    elif form == "frames":
        frame = pandas.DataFrame(x, columns=["left", "right"])
        read = from_arrays([frame[:3], frame[3:]], labels=["cat", "dog"])
    elif form == "folder":
        path = tmp_path / "animals"
        for label, steps in (("cat", x[:3]), ("dog", x[3:])):
            (path / label).mkdir(parents=True)
            pandas.DataFrame(steps).to_csv(path / label / "1.csv", index=False)
    elif form == "aeon.npz":
        np.savez(path, X=x[:3].T[None], y=np.array(["cat"]))
    elif form == "ts":
        path.write_text(TS)
    elif form == "padded.npz":
        padded = np.zeros((2, 3, 2))
        padded[0], padded[1, 0] = x[:3], x[3]
        np.savez(path, x=padded, lengths=np.array([3, 1]), label=np.array(["cat", "dog"]))
    else:
        np.savez(path, x=x, lengths=np.array([3, 1]), label=np.array(["cat", "dog"]))
    if read is None:
        read = read_series(path)
    count = 1 if form == "aeon.npz" else 2  # whose sequences have one length
    np.testing.assert_array_equal(read.values[:4], x[: len(read.values)])
    assert read.lengths[:2].tolist() == [3, 1][:count]
    assert read.labels[:2] == ("cat", "dog")[:count]


def written(path, table):
    """Write a table in the format of a file name, or return it for a name without one."""
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix:
        table.to_csv(path, index=False)
    else:
        return table
    return path


FORMATS = ["a.csv", "a.csv.gz", "a.parquet", "in memory"]


def read_table(source, **columns):
    """Read a table, from a file or from memory."""
    if isinstance(source, pandas.DataFrame):
        return from_table(source, **columns)
    return read_series(source, ReadOptions(Columns(**columns)))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("times", "order", "time_format"),
    [
        (["0.5", "10", "9"], [0, 2, 1], None),
        (["3", "1", "1e1"], [1, 0, 2], None),
        (["1700000000000000002", "1700000000000000001"], [1, 0], None),
        (["2024-10", "2024-08", "2024-01", "2024-09"], [2, 1, 3, 0], None),
        (
            ["2024-03-01T00:00:01", "2024-03-01 00:00:00.5", "2023-12-31T23:59:59"],
            [2, 1, 0],
            None,
        ),
        (["2024-10-27T02:30:00+01:00", "2024-10-27T02:59:00+02:00"], [1, 0], None),
        (["9:00", "10:00"], [0, 1], "%H:%M"),
        (["1.2.2024", "31.1.2024", "15.12.2023"], [2, 1, 0], "%d.%m.%Y"),
        (["9:00 +0200", "8:30 +0100", "9:00 +0100"], [0, 1, 2], "%H:%M %z"),
    ],
)
def test_rows_are_in_the_order_of_times_and_never_of_texts(
    tmp_path, form, times, order, time_format
):
    table = pandas.DataFrame({"sequence": "a", "time": times, "x": np.arange(len(times)) * 2.0})
    source = written(tmp_path / form, table)
    read = read_table(source, time="time", time_format=time_format)
    assert read.values[:, 0].tolist() == [2.0 * k for k in order]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("times", "time_format", "row", "value"),
    [
        (["9:00", "10:00"], None, 1, "9:00"),
        (["1.2.2024", "31.1.2024"], None, 1, "1.2.2024"),
        (["9 days", "10 days"], None, 1, "9 days"),
        (["b", "a"], None, 1, "b"),
        (["now", "today"], None, 1, "now"),
        (["1", "", "3"], None, 2, ""),
        (["1", "inf"], None, 2, "inf"),
        (["2024-01-01", "3"], None, 2, "3"),
        (["2024-01-01T00:00+02:00", "2024-01-01T00:00"], None, 2, "2024-01-01T00:00"),
        (["31.1.2024", "31.2.2024"], "%d.%m.%Y", 2, "31.2.2024"),
        (["1.1.2024", "2024-01-31"], "%d.%m.%Y", 2, "2024-01-31"),
    ],
)
def test_other_times_are_refused(tmp_path, form, times, time_format, row, value):
    table = pandas.DataFrame({"sequence": "a", "time": times, "x": 0.5})
    with pytest.raises(ValueError, match=rf"'time' in row {row} .*got '({value}|nan)'"):
        read_table(written(tmp_path / form, table), time="time", time_format=time_format)


@pytest.mark.parametrize("form", ["a.parquet", "in memory"])
@pytest.mark.parametrize(
    "times",
    [
        pandas.to_timedelta([10, 9, 100], "D"),
        pandas.to_datetime(["2024-02-01", "2024-01-31", "2024-10-01"]),
        pandas.to_datetime(["2024-02-01", "2024-01-31", "2024-10-01"]).tz_localize("Asia/Tokyo"),
        pandas.to_datetime(["2024-02-01", "2024-01-31", "2024-10-01"]).date,
        pandas.array([10, 9, 100], "Int64"),
    ],
    ids=["durations", "dates", "zone", "days", "nullable"],
)
def test_times_may_have_a_type_of_their_own(tmp_path, form, times):
    table = pandas.DataFrame({"sequence": "a", "time": times, "x": [0.0, 2.0, 4.0]})
    read = read_table(written(tmp_path / form, table), time="time")
    assert read.values[:, 0].tolist() == [2, 0, 4]


def test_numbers_have_lost_the_zeros_that_a_format_needs():
    table = pandas.DataFrame({"sequence": "a", "time": [1022024, 31012024], "x": 0.5})
    with pytest.raises(ValueError, match=r"'%d%m%Y' .*got '1022024'"):
        from_table(table, time="time", time_format="%d%m%Y")


def test_a_column_is_a_time_by_name_and_the_console_says_so(tmp_path, caplog):
    table = pandas.DataFrame({"sequence": "a", "time": [2, 1], "t": [3, 4], "x": [0.5, 1.5]})
    path = written(tmp_path / "a.csv", table)
    assert read_series(path).values[:, 1].tolist() == [1.5, 0.5]
    (record,) = caplog.records
    assert "'time'" in record.getMessage()
    assert str(path) in record.getMessage()
    caplog.clear()
    options = ReadOptions(Columns(time="t", ignored="time"))
    assert read_series(path, options).values[:, 0].tolist() == [0.5, 1.5]
    assert read_series(path, ReadOptions(Columns(time=None))).channels == ("time", "t", "x")
    assert not caplog.records


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("role", ["sequence", "label", "group"])
@pytest.mark.parametrize("missing", [None, " "])
def test_missing_names_are_refused(tmp_path, form, role, missing):
    table = pandas.DataFrame({"sequence": ["a", "b"], "x": 0.5, "label": ["u", "v"]})
    table["group"] = ["g", "h"]
    table.loc[1, role] = missing
    with pytest.raises(ValueError, match=rf"'{role}' in row 2 of "):
        read_table(written(tmp_path / form, table), label="label", group="group")


@pytest.mark.parametrize("form", FORMATS)
def test_classes_may_have_the_names_of_missing_numbers(tmp_path, form):
    names = ["none", "None", "nan", "NA", "01", "1"]
    table = pandas.DataFrame({"sequence": names, "x": 0.5, "label": names})
    read = read_table(written(tmp_path / form, table), label="label")
    assert read.labels == read.names == tuple(names)


def test_values_are_in_double_precision_until_they_are_scaled(tmp_path):
    rng = np.random.default_rng(0)
    values = 1e8 + rng.normal(size=40) / 8
    table = pandas.DataFrame({"sequence": np.arange(40) // 4, "x": values})
    path = written(tmp_path / "a.csv", table.assign(label=table["sequence"] % 2))
    np.testing.assert_array_equal(read_series(path).values[:, 0], values)
    task = Series(train=path, validation=0, shuffle=False)
    x = next(task.batches("train", 10)).inputs.numpy()[..., 0].T.ravel()
    np.testing.assert_allclose(x, (values - values.mean()) / values.std(), atol=1e-5)


@pytest.mark.parametrize("kind", ["list", "binary"])
def test_a_column_of_parquet_without_numbers_texts_or_times_is_rejected(tmp_path, kind):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = {"list": [[1], [2]], "binary": [b"1", b"2"]}[kind]
    path = tmp_path / "mine.parquet"
    parquet.write_table(pyarrow.table({"sequence": values, "left": [1.0, 2.0]}), path)
    with pytest.raises(ValueError, match=r"the column 'sequence' .*mine.parquet, got"):
        read_series(path)


@pytest.mark.parametrize("shape", [(4, 0), (0,), (2, 0, 3)])
def test_an_array_without_numbers_is_rejected(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.zeros(shape, np.float32))
    with pytest.raises(ValueError, match=r"a\.npy"):
        read_series(tmp_path / "a.npy")


@pytest.mark.parametrize(("rare", "held_out"), [(1, 0), (2, 1), (3, 1), (8, 2)])
def test_a_sequence_of_each_class_with_two_is_held_out(rare, held_out):
    labels = ["a"] * 20 + ["b"] * rare
    data = from_arrays([np.full((2, 1), float(k)) for k in range(len(labels))], labels=labels)
    task = Series(train=data)
    (validation,) = task.batches("validation", 100)
    (train,) = [next(task.batches("train", 100))]
    assert validation.targets.bincount(minlength=2).tolist() == [4, held_out]
    assert train.targets.bincount(minlength=2).tolist() == [16, rare - held_out]


def test_parts_of_groups_have_as_many_sequences_of_a_class():
    data = from_arrays([*np.zeros((6, 3, 1))], labels=["a", "b"] * 3, groups=list(range(6)))
    task = Series(train=data, folds=2, validation=1 / 3)
    said = r"at least 3 sequences of one class .* validation=0.333333, one of 3 parts .* got 2"
    with pytest.raises(ValueError, match=said):
        _ = task.preprocessing


def test_targets_are_scaled_and_mse_is_in_their_own_units(tmp_path):
    x = torch.randn(40, 5, 1, generator=generator_for(0))
    y = 10 + 3 * x.mean(1)[:, 0]
    path = tmp_path / "mine.npz"
    np.savez(path, x=x.numpy(), target=y.numpy())
    task = Series(train=path, test=path, answer="number", validation=0.25)
    (batch,) = task.batches("test", 100)
    train = next(task.batches("train", 100)).targets
    assert train.mean().item() == pytest.approx(0, abs=1e-6)
    assert task.baseline() == pytest.approx(1, rel=1e-5)
    prediction = torch.full_like(batch.targets, 0.5)
    figures = task.metrics_from_sums(task.metric_sums(prediction, batch.targets).double())
    figures |= task.metrics_from_rows(task.metric_rows(prediction, batch.targets))
    scale = (y.std() / batch.targets.std()).item()
    error = prediction * scale - batch.targets * scale
    assert figures["mse"] == pytest.approx(error.square().mean().item(), rel=1e-5)
    expected = 1 - (error.square().sum() / (y - y.mean()).square().sum()).item()
    assert figures["r2"] == pytest.approx(expected, rel=1e-4)
    assert task.metric(prediction, batch.targets).item() == pytest.approx(figures["mse"], rel=1e-5)


def metrics_in_parts(metrics, outputs, targets):
    """The metrics of two batches, as an evaluation computes them."""
    parts = [slice(0, 70), slice(70, None)]
    sums = sum(metrics.metric_sums(outputs[part], targets[part]).double() for part in parts)
    rows = torch.cat([metrics.metric_rows(outputs[part], targets[part]) for part in parts])
    return metrics.metrics_from_sums(sums) | metrics.metrics_from_rows(rows.double())


def test_metrics_of_classes_equal_their_definitions():
    generator = generator_for(0)
    outputs = torch.randn(200, 5, generator=generator)
    outputs[:, 4] = -9  # never guessed, and never right
    targets = torch.randint(4, (200,), generator=generator)
    metrics = ClassificationMetrics(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    figures = metrics_in_parts(metrics, outputs, targets)
    assert tuple(figures) == metrics.metric_names
    predictions = outputs.argmax(-1).tolist()
    pairs = Counter(zip(targets.tolist(), predictions, strict=True))
    p = outputs.double().softmax(1)
    scores, areas = [], []
    for k in range(4):
        right = pairs[k, k]
        precision = right / predictions.count(k)
        recall = right / targets.tolist().count(k)
        scores.append(2 * precision * recall / (precision + recall))
        own, others = p[targets == k, k], p[targets != k, k]
        areas.append((own.unsqueeze(1) > others).double().mean().item())
    assert figures["f1"] == pytest.approx(sum(scores) / 4)
    assert figures["auc"] == pytest.approx(sum(areas) / 4)
    assert figures["accuracy"] == sum(pairs[k, k] for k in range(5)) / 200
    assert figures["loss"] == pytest.approx(metrics.loss(outputs, targets).item(), rel=1e-5)
    of_truth = p[torch.arange(200), targets]
    assert figures["log_loss"] == pytest.approx(-of_truth.log().mean().item(), rel=1e-5)
    confidence, guess = p.max(1)
    gaps = []
    for tenth in range(10):
        inside = (confidence * 10).floor() == tenth
        right = (guess == targets)[inside].double().sum()
        gaps.append(abs(right - confidence[inside].sum()).item())
    assert figures["calibration_error"] == pytest.approx(sum(gaps) / 200, rel=1e-5)


def test_one_class_alone_has_no_area_and_diverged_outputs_have_no_number():
    outputs = torch.randn(100, 3, generator=generator_for(0))
    metrics = ClassificationMetrics(torch.ones(3))
    alone = metrics_in_parts(metrics, outputs, torch.ones(100, dtype=torch.long))
    assert alone.keys() == set(metrics.metric_names) - {"auc"}
    outputs[3, 1] = math.inf
    diverged = metrics_in_parts(metrics, outputs, torch.arange(100) % 3)
    assert all(math.isnan(diverged[name]) for name in metrics.metric_names[2:])


def test_a_probability_of_one_is_in_the_last_tenth():
    # a margin of 40: the softmax is 1 in double precision, too
    outputs = torch.tensor([[40.0, 0.0]] * 20 + [[3.0, 0.0]] * 20)
    targets = torch.tensor([0, 1] * 10 + [0] * 20)
    metrics = ClassificationMetrics(torch.ones(2))
    found = metrics_in_parts(metrics, outputs, targets)["calibration_error"]
    # all are in the last tenth, and 30 of 40 are right
    certain = 1 / (1 + math.exp(-3.0))
    assert found == pytest.approx((20 + 20 * certain) / 40 - 30 / 40)


@pytest.mark.parametrize("mean", [0.0, 1e6])
def test_the_coefficient_of_determination_is_that_of_scikit_learn(mean):
    from sklearn.metrics import r2_score

    generator = generator_for(0)
    targets = mean + torch.randn(100, 4, generator=generator, dtype=torch.float64)
    outputs = mean + torch.randn(100, 4, generator=generator, dtype=torch.float64)
    targets[:, 2:] = 0.1 + mean  # two channels are stuck
    outputs[:, 3] = 0.1 + mean  # one of them is exact
    expected = [r2_score(targets[:, k], outputs[:, k]) for k in range(2)]
    found = metrics_in_parts(RegressionMetrics(torch.ones(4)), outputs, targets)["r2"]
    assert found == pytest.approx(sum([*expected, 0.0, 1.0]) / 4, rel=1e-9)


def test_a_stuck_channel_gives_a_finite_score_in_training_and_evaluation(tmp_path):
    generator = np.random.default_rng(0)
    arrays = [np.stack([generator.normal(size=8), np.full(8, 5.1)], 1) for _ in range(12)]
    task = Series(train=from_arrays(arrays), answer="next", scaling="none", validation=0.25)
    model = SequenceModel(nn.GRU(2, 4), 2, "all")
    result = fit(model, task, Settings(steps=2), tmp_path / "run")
    found = evaluate_series(model.eval(), task.preprocessing, from_arrays(arrays))
    assert -50 < result.best["validation"]["r2"] < 1
    assert -50 < found.metrics["R2"] < 1


def test_missing_targets_are_ignored():
    outputs = torch.randn(6, 3, 2, generator=generator_for(0), requires_grad=True)
    targets = torch.randn(6, 3, 2, generator=generator_for(1))
    targets[4:, 1] = math.nan
    kept = [(t, b, k) for t in range(6) for b in range(3) for k in range(2) if t < 4 or b != 1]
    errors = [(outputs[i] - targets[i]).item() ** 2 for i in kept]
    scores = RegressionMetrics(torch.ones(2))
    loss = scores.loss(outputs, targets)
    assert loss.item() == pytest.approx(sum(errors) / len(errors), rel=1e-5)
    loss.backward()
    assert outputs.grad.isfinite().all()


@pytest.mark.parametrize(
    ("answer", "weights"),
    [("class", "none"), ("class", "balanced"), ("class", {"b": 3.0}), ("next", "none")],
)
def test_the_baseline_is_the_loss_of_the_best_constant(tmp_path, answer, weights):
    lengths = torch.arange(2, 32).numpy()
    label = np.array(["a"] * 24 + ["b"] * 6)
    x = torch.randn(int(lengths.sum()), 2, generator=generator_for(0)).numpy()
    np.savez(tmp_path / "mine.npz", x=x, lengths=lengths, label=label)
    path = tmp_path / "mine.npz"
    task = Series(train=path, answer=answer, class_weights=weights, shuffle=False)
    batch = next(task.batches("train", 100))
    constant = torch.zeros(task.output_size, requires_grad=True)
    optimiser = torch.optim.LBFGS([constant], max_iter=100, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        outputs = constant.expand(*batch.targets.shape[: 2 if answer == "next" else 1], -1)
        loss = task.loss(outputs, batch.targets)
        loss.backward()
        return loss

    optimiser.step(closure)
    assert closure().item() == pytest.approx(task.baseline(), rel=1e-4)


@pytest.mark.usefixtures("data_root")
def test_japanese_vowels_are_learnt(tmp_path):
    task = Series(dataset="JapaneseVowels", class_weights="balanced")
    model = SequenceModel(nn.GRU(12, 32), 9, "last")
    settings = Settings(steps=120, batch_size=27, optimiser="adam", lr=1e-2, eval_every=120)
    result = fit(model, task, settings, tmp_path / "run")
    assert result.last["test"]["accuracy"] > 0.9
    assert result.last["test"]["f1"] > 0.9
    assert result.last["test"]["auc"] > 0.98


COW = TS.replace("0,0:1,1:dog", "0,0:1,1:cow").replace("cat dog", "cat dog cow")
NARROW = re.sub(r":[\d.,e]+:(cat|dog)", r":\1", TS).replace("dimensions 2", "dimensions 1")
NAN = TS.replace("7,8:9,10", "7,NaN:9,10")


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (TS.split("@data")[0], ["@data"]),
        ("1,2:cat\n", ["@data", "line 1"]),
        (TS.split("1,2,3")[0], ["got none"]),
        (TS[:-6], ["line 13", "'1,'"]),
        (TS[:-2], ["line 13", "'do'"]),
        (TS.encode().replace(b"8:", b"\xff:"), ["0xff", "line 12"]),
        (NAN, ["nan", "line 12", "channel 1", "step 2"]),
        (TS.replace("8:", "?:"), ["nan", "line 12", "channel 1", "step 2"]),
        (TS.replace("8:", "x:"), ["channel 1", "line 12", "'7,x'"]),
        (TS.replace("8:", "8,8:"), ["line 12"]),
        (TS.replace("7,8:", ""), ["2 channels", "line 12", "1"]),
        (TS.replace("equalLength false", "equalLength true\n@seriesLength 3"), ["3 steps", "1"]),
        (TS.replace(":dog", ":cat"), ["classes", "only cat"]),
        (TS.replace("7,8:9,10:cat\n0,0:1,1:dog\n", ""), ["validation=0"]),
        (TS.replace("@data", "@targetLabel true\n@data"), ["classlabel", "targetlabel"]),
        (TS.replace("timeStamps false", "timeStamps true"), ["timestamps"]),
    ],
)
def test_a_bad_file_of_the_archives_is_rejected_with_the_line(tmp_path, content, values):
    task = Series(train=put(tmp_path, "a.ts", content))
    with pytest.raises(ValueError, match=r"a\.ts") as error:
        task.batches("train", 2)
    for value in values:
        assert value in str(error.value)


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("x,y\n1,2\n", ["'sequence'", "x, y"]),
        ("sequence,x\n", ["row"]),
        (CSV.replace("a,0,-1.5,20", "a,0,,20"), ["'left'", "row 3", "missing="]),
        (CSV.replace("-1.5", "NaN"), ["'left'", "row 3", "missing="]),
        (CSV[:-5], ["'label'", "row 4"]),
        (CSV.replace("b,2,3,6", "b,2,3,0,6"), ["5 names"]),
        (CSV.replace("b,1,2", "b,2,2"), ["'time'", "row 1", "row 4"]),
        (CSV.replace("5,cat", "5,dog"), ["'label'", "row 4", "row 1"]),
        (CSV.replace("-1.5", "9" * 200_000), ["'left'", "row 3"]),
        (CSV.replace("-1.5", "-inf"), ["'left'", "row 3", "-inf"]),
        (CSV.replace("-1.5", "Paris"), ["'left'", "row 3", "'Paris'", "ignored"]),
        (CSV.replace("-1.5", '"-1,5"'), ["'left'", "row 3", "'-1,5'", "decimal=','"]),
        (CSV.replace("-1.5", '"1,234.5"'), ["'left'", "row 3", "without thousands"]),
        ("sequence,x,target\na,1,\n", ["'target'", "row 1", "remove the sequence"]),
        (",sequence,left,label\n0,a,1.5,cat\n", ["''", "number 1", "index=False"]),
        (CSV.replace("left", "Unnamed: 0"), ["'Unnamed: 0'", "number 3", "index=False"]),
        (CSV.replace("right", " "), ["' '", "number 4"]),
        (CSV.replace("right", "Label"), ["'Label'", "number 4"]),
        (CSV.replace("right", "left"), ["left, left"]),
        (CSV.replace("right", "target"), ["'label'", "'target'"]),
        (CSV.replace(",", ";"), ["separator=';'", "decimal=','"]),
        (CSV.replace(",", "\t"), [r"separator='\t'"]),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_bad_table_is_rejected_with_the_place(tmp_path, name, content, values):
    encoded = content.encode()
    if name.endswith("gz"):
        encoded = gzip.compress(encoded, mtime=0)
    with pytest.raises(ValueError, match=name) as error:
        read_series(put(tmp_path, name, encoded))
    for value in values:
        assert value in str(error.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.ts", b""),
        ("a.csv", b""),
        ("a.npz", b"PK"),
        ("a.parquet", b"PAR1"),
        ("a.txt", b"1"),
        ("a.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:-6]),
    ],
)
def test_a_damaged_or_unknown_file_is_named(tmp_path, name, content):
    with pytest.raises(ValueError, match=name):
        read_series(put(tmp_path, name, content))


LETTERS = np.array(["a", "b"])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": np.zeros(3)}, r"a.npz, .*got none"),
        ({"x": np.zeros((4, 1))}, r"\(4, 1\) in .*a.npz"),
        ({"x": np.zeros((4, 1)), "lengths": np.array([2, 3])}, r"got \[2, 3\]"),
        ({"x": np.zeros((2, 3, 1)), "label": np.array(["a"])}, "got 1"),
        ({"x": np.zeros((2, 3, 1))}, "got neither label nor target"),
        ({"x": np.zeros((2, 3, 1)), "label": LETTERS, "target": np.zeros(2)}, "got both"),
        ({"x": np.full((2, 3, 1), np.inf)}, r"got inf .* index 0"),
        ({"x": np.full((2, 3, 1), 1e39)}, r"got 1e\+39 .* index 0"),
        ({"x": np.zeros((2, 3, 0))}, "channel in .*a.npz, got none"),
    ],
)
def test_inconsistent_arrays_are_rejected(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        Series(train=tmp_path / "a.npz").batches("train", 2)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (COW, "test.ts, got 'cow' in line 13"),
        (NARROW, "test.ts, 1, 2, got 1"),
    ],
    ids=["unseen class", "channels"],
)
def test_inconsistent_files_are_rejected(tmp_path, test, message):
    train, test = put(tmp_path, "train.ts", TS), put(tmp_path, "test.ts", test)
    with pytest.raises(ValueError, match=message):
        Series(train=train, test=test, validation=0).batches("test", 2)


def test_a_test_file_may_lack_a_class(tmp_path):
    train = put(tmp_path, "train.ts", TS)
    test = put(tmp_path, "test.ts", TS.replace(":dog", ":cat"))
    task = Series(train=train, test=test, validation=0)
    assert task.class_names == ("cat", "dog")
    assert next(task.batches("test", 4)).targets.tolist() == [0] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "got train=None"),
        ({"dataset": "Iris"}, "got 'Iris'"),
        ({"train": "a.ts", "validation": 1}, "got 1"),
        ({"train": "a.ts", "answer": "word"}, "got 'word'"),
        ({"train": "a.ts", "answer": "next", "class_weights": "balanced"}, "answer='class'"),
        ({"train": "a.ts", "class_weights": {"a": 0}}, "'a' > 0, got 0"),
        ({"dataset": "ACSF1", "test": "a.ts"}, "no test .* with dataset"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        Series(**options)


@pytest.mark.usefixtures("data_root")
def test_weights_of_unknown_classes_are_rejected():
    task = Series(dataset="JapaneseVowels", class_weights={"10": 2.0})
    with pytest.raises(ValueError, match="got '10'"):
        _ = task.preprocessing


def test_the_name_of_a_class_may_be_a_number():
    task = Series(dataset="JapaneseVowels", class_weights={3: 2.0})
    assert task.class_weights == {"3": 2.0}


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a\.ts"):
        Series(train=tmp_path / "a.ts").batches("train", 1)


# other names, separators, files and missing values

RENAMED = """id;ms;links;rechts;zustand;fehler
b;2;3;6,5;cat;x
b;0;1;4;cat;y
a;0;-1,5;20;dog;
b;1;2;5;cat;z
"""
GERMAN = ReadOptions(
    Columns(sequence="id", time="ms", label="zustand", ignored=("fehler",)), ";", ","
)
X = np.array([[1, 4], [2, 5], [3, 6.5], [-1.5, 20]])


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv"])
def test_columns_separators_and_decimals_have_names_of_your_own(tmp_path, name):
    options, text = GERMAN, RENAMED
    if name.endswith(".tsv"):
        options, text = replace(GERMAN, separator=None), RENAMED.replace(";", "\t")
    content = gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text
    read = read_series(put(tmp_path, name, content), options)
    np.testing.assert_array_equal(read.values, X)
    assert (read.names, read.labels) == (("b", "a"), ("cat", "dog"))
    assert read.channels == ("links", "rechts")


@pytest.mark.parametrize("number", ["1.234,5", "1.234"])
@pytest.mark.parametrize("name", ["links", "ms"])
def test_points_of_thousands_are_no_decimal_points(tmp_path, number, name):
    text = RENAMED.replace("a;0;-1,5", f"a;0;{number}" if name == "links" else f"a;{number};1")
    with pytest.raises(ValueError, match=f"'{name}' in row 3 of .* got '{number}'"):
        read_series(put(tmp_path, "a.csv", text), GERMAN)


def test_a_decimal_comma_needs_another_separator(tmp_path):
    path = put(tmp_path, "a.csv", "sequence,x\na,1,5\n")
    with pytest.raises(ValueError, match="got ','"):
        read_series(path, ReadOptions(decimal=","))


def test_chosen_channels_ignore_all_other_columns(tmp_path):
    path = put(tmp_path, "a.csv", CSV)
    read = read_series(path, ReadOptions(Columns(channels=["right"])))
    assert read.channels == ("right",)
    assert read.values.ravel().tolist() == [4, 5, 6, 20]


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_of_several_blocks_is_that_of_pandas(tmp_path, form, monkeypatch):
    draw = np.random.default_rng(0)
    which = draw.permutation(np.repeat(np.arange(40), 25))
    table = pandas.DataFrame(
        {"sequence": which, "x": draw.normal(size=1000), "time": draw.permutation(1000)}
    )
    table["label"] = which % 3
    for module in (series, tables):
        monkeypatch.setattr(module, "_BLOCK", 64)
    read = read_table(written(tmp_path / form, table), time="time", label="label")
    names = [str(name) for name in dict.fromkeys(which.tolist())]
    assert read.names == tuple(names)
    for name, piece in zip(names, np.split(read.values[:, 0], 40), strict=True):
        rows = table[table["sequence"] == int(name)].sort_values("time")
        np.testing.assert_array_equal(piece, rows["x"])
    assert read.labels == tuple(str(int(name) % 3) for name in names)


def test_names_of_several_types_are_the_same_in_all_blocks(monkeypatch):
    monkeypatch.setattr(tables, "_BLOCK", 2)
    names = [1, 2, "1", "b", 2.0, None]
    table = pandas.DataFrame({"sequence": pandas.Series(names, dtype=object), "x": range(6)})
    assert from_table(table[:4]).names == ("1", "2", "b")
    with pytest.raises(ValueError, match="'sequence' in row 6 of the table, got 'None'"):
        from_table(table)


@pytest.mark.parametrize("form", FORMATS)
def test_a_fault_in_a_later_block_names_its_row(tmp_path, form, monkeypatch):
    for module in (series, tables):
        monkeypatch.setattr(module, "_BLOCK", 4)
    table = pandas.DataFrame({"sequence": "a", "time": np.arange(10), "x": 0.5})
    # alone in its block, or the whole block, which is right by itself
    faults = [("x", "Paris", [8]), ("time", "2024-01-01", [9]), ("time", "2024-01-01", [8, 9])]
    for name, value, rows in faults:
        wrong = table.astype({name: object})
        wrong.loc[rows, name] = value
        if form == "a.parquet":
            wrong[name] = wrong[name].astype(str)
        with pytest.raises(ValueError, match=rf"'{name}' in row {rows[0] + 1} .*'{value}"):
            read_table(written(tmp_path / form, wrong), time="time")


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "npy"])
@pytest.mark.parametrize("in_classes", [True, False], ids=["classes", "flat"])
def test_a_folder_holds_a_file_for_each_sequence(tmp_path, ending, in_classes):
    pieces = {"one": X[:3], "two": X[3:]}
    for (name, piece), label in zip(pieces.items(), ["cat", "dog"], strict=True):
        folder = tmp_path / label if in_classes else tmp_path
        folder.mkdir(exist_ok=True)
        table = pandas.DataFrame(piece, columns=["1", "2"])
        if ending == "npy":
            np.save(folder / f"{name}.npy", piece)
        elif ending == "parquet":
            table.to_parquet(folder / f"{name}.parquet")
        else:
            table.to_csv(folder / f"{name}.{ending}", index=False)
    put(tmp_path, "notes.txt", "not read")
    read = read_series(tmp_path)
    np.testing.assert_array_equal(read.values, X)
    assert read.lengths.tolist() == [3, 1]
    assert read.labels == (("cat", "dog") if in_classes else None)
    assert read.names == (("cat/one", "dog/two") if in_classes else ("one", "two"))


def test_a_folder_of_other_things_is_refused(tmp_path):
    with pytest.raises(ValueError, match="got 0 files"):
        read_series(tmp_path)
    put(tmp_path, "train.csv", CSV)
    with pytest.raises(ValueError, match="got 2 of left, right"):
        read_series(tmp_path)
    (tmp_path / "train.csv").unlink()
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    np.save(tmp_path / "b.npy", np.zeros((3, 1)))
    with pytest.raises(ValueError, match=r"b\.npy.* got 1 of 1"):
        read_series(tmp_path)
    (tmp_path / "more").mkdir()
    np.save(tmp_path / "more" / "c.npy", np.zeros((3, 2)))
    with pytest.raises(ValueError, match="got 3 files at 2 depths"):
        read_series(tmp_path)


def test_aeons_archive_has_channels_before_steps(tmp_path):
    x = np.arange(24.0).reshape(4, 3, 2)
    np.savez(tmp_path / "a.npz", X=x, y=np.array(["u", "v", "u", "v"]))
    read = read_series(tmp_path / "a.npz")
    assert read.values.reshape(4, 2, 3)[1, 1].tolist() == x[1, :, 1].tolist()
    assert read.labels == ("u", "v", "u", "v")
    np.savez(tmp_path / "b.npz", X=x, y=np.array([1.0, 2.0, 1.0, 2.0]))
    both = Series(train=tmp_path / "b.npz", validation=0)
    assert both.class_names == ("1.0", "2.0")
    numbers = Series(train=tmp_path / "b.npz", validation=0, answer="number", scaling="none")
    assert next(numbers.batches("train", 4)).targets.sort(0).values.ravel().tolist() == [
        1,
        1,
        2,
        2,
    ]
    np.savez(tmp_path / "c.npz", X=np.array([[None]], object))
    with pytest.raises(ValueError, match="allow_pickle"):
        read_series(tmp_path / "c.npz")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros((2, 2, 2, 2)), r"in .*a.npy, .*got float64 of the shape \(2, 2, 2, 2\)"),
        (np.array(["a"]), r"in .*a.npy, .*got <U1"),
        (np.array([{}], object), r"in .*a.npy, got: .*allow_pickle"),
    ],
    ids=["dimensions", "texts", "pickled"],
)
def test_other_arrays_are_refused(tmp_path, content, message):
    np.save(tmp_path / "a.npy", content, allow_pickle=True)
    with pytest.raises(ValueError, match=message):
        read_series(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence": "unit"}, r"expected a column 'unit' in .*a.csv, got the columns sequence,"),
        ({"label": "state"}, r"expected a column 'state' in .*a.csv"),
        ({"ignored": ("lefty",)}, r"expected a column 'lefty' in .*a.csv"),
        ({"channels": ("up",)}, r"expected a column 'up' in .*a.csv"),
        ({"label": None}, "the column 'label' in row 1 .*'cat'"),
        ({"label": "left"}, "got the column 'label', number 5"),
    ],
)
def test_columns_that_do_not_fit_are_named(tmp_path, options, message):
    path = put(tmp_path, "a.csv", CSV)
    with pytest.raises(ValueError, match=message):
        read_series(path, ReadOptions(Columns(**options)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReadOptions(separator=",,"), "expected separator to be one character, got ',,'"),
        (lambda: ReadOptions(separator=",", decimal=","), "separator and decimal to differ"),
        (lambda: Columns(sequence="a", time="a"), r"one meaning of each column, got .* a"),
    ],
    ids=["separator", "decimal", "twice"],
)
def test_invalid_formats_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# folds


def in_memory(count=40, **options):
    """Sequences of one step, whose value is the number of the sequence."""
    labels = [k % 4 == 0 for k in range(count)]
    arrays = [np.full((1, 1), float(k)) for k in range(count)]
    return from_arrays(arrays, labels=labels, **options)


def members(task):
    """The numbers of the sequences of each split."""
    found = {}
    for split in task.splits:
        inputs = next(task.batches(split, 1_000)).inputs
        found[split] = sorted(inputs[0, :, 0].round().int().tolist())
    return found


def folds_of(data, **options):
    common = {"train": data, "folds": 4, "scaling": "none"} | options
    return [members(Series(**common, fold=fold)) for fold in range(4)]


def test_folds_divide_the_sequences_and_stratify_the_classes():
    found = folds_of(in_memory())
    assert sorted(k for each in found for k in each["test"]) == [*range(40)]
    for each in found:
        assert len(each["test"]) == 10
        assert sum(k % 4 == 0 for k in each["test"]) in (2, 3)
        assert sorted(each["train"] + each["validation"] + each["test"]) == [*range(40)]
    assert found == folds_of(in_memory())
    assert found != folds_of(in_memory(), split_seed=1)


@pytest.mark.parametrize("answer", ["class", "next"])
def test_no_group_is_divided_by_folds_and_validation(answer):
    groups = [k // 3 for k in range(60)]
    data = in_memory(60, groups=groups)
    if answer == "next":
        data = from_arrays([np.full((2, 1), float(k)) for k in range(60)], groups=groups)
    found = folds_of(data, answer=answer)
    assert sorted(k for each in found for k in each["test"]) == [*range(60)]
    for each in found:
        of_split = [{k // 3 for k in numbers} for numbers in each.values()]
        assert len(of_split) == 3
        assert sum(map(len, of_split)) == len(set().union(*of_split)) == 20


def test_groups_are_a_column_of_a_table(tmp_path):
    path = put(tmp_path, "a.csv", "sequence,x,patient\n" + "a,1,p\nb,2,q\nb,3,q\n")
    assert read_series(path, ReadOptions(Columns(group="patient"))).groups == ("p", "q")
    put(tmp_path, "a.csv", "sequence,x,patient\n" + "a,1,p\nb,2,q\nb,3,r\n")
    with pytest.raises(ValueError, match=r"one group .*a.csv, .*'patient' of row 3 and of row 2"):
        read_series(path, ReadOptions(Columns(group="patient")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fold": 1}, "expected fold only with folds"),
        ({"folds": 3, "fold": 3}, "expected fold < folds=3, got 3"),
        ({"folds": 1}, "expected folds >= 2, got 1"),
        ({"folds": 2, "test": "b.csv"}, "expected neither test nor dataset with folds"),
        ({"folds": 11}, "at least 11 sequences of the class 'True' in the arrays .*, got 10"),
    ],
)
def test_folds_that_cannot_be_are_explained(options, message):
    with pytest.raises(ValueError, match=message):
        Series(train=in_memory(), **options).batches("train", 1)


def test_a_class_in_one_group_alone_cannot_be_divided():
    data = in_memory(40, groups=["a" if k % 4 == 0 else str(k % 7) for k in range(40)])
    with pytest.raises(ValueError, match=r"of the class 'True' .* on both sides"):
        Series(train=data, folds=3).batches("train", 1)
