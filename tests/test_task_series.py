"""The user's own series: independent readers, splits, scaling, metrics and errors."""

import gzip
import math
import re
import tracemalloc
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas
import pytest
import torch
from torch import nn

from eigenrnn.experiments.data import series
from eigenrnn.experiments.data.in_memory import from_arrays
from eigenrnn.experiments.data.series import read_series
from eigenrnn.experiments.data.tables import Columns, ReadOptions
from eigenrnn.experiments.data.ts import ARCHIVE
from eigenrnn.experiments.evaluation import evaluate_series
from eigenrnn.experiments.tasks import Series
from eigenrnn.experiments.tasks.sampling import generator_for
from eigenrnn.experiments.tasks.series import ClassificationMetrics, RegressionMetrics
from eigenrnn.experiments.training import Settings, fit
from eigenrnn.models import SequenceModel

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
        with pytest.raises(ValueError, match=r"zero byte in line 1.*iconv -f utf-16"):
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


@pytest.mark.parametrize("form", ["csv", "parquet", "padded.npz", "joined.npz", "ts"])
def test_every_format_gives_the_same_sequences(tmp_path, form):
    x = np.array([[1, 4], [2, 5], [3, 6], [-1.5, 20]])
    path = tmp_path / f"mine.{form}"
    if form == "csv":
        path.write_text(CSV)
    elif form == "parquet":
        table = pytest.importorskip("pyarrow.csv").read_csv(put(tmp_path, "mine.csv", CSV))
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    elif form == "ts":
        path.write_text(TS)
    elif form == "padded.npz":
        padded = np.zeros((2, 3, 2))
        padded[0], padded[1, 0] = x[:3], x[3]
        np.savez(path, x=padded, lengths=np.array([3, 1]), label=np.array(["cat", "dog"]))
    else:
        np.savez(path, x=x, lengths=np.array([3, 1]), label=np.array(["cat", "dog"]))
    read = read_series(path)
    np.testing.assert_array_equal(read.values[:4], x)
    assert read.lengths[:2].tolist() == [3, 1]
    assert read.labels[:2] == ("cat", "dog")


def test_sequences_print_their_sizes_in_place_of_their_values(tmp_path):
    path = tmp_path / "short.csv"
    path.write_text("sequence,a,b\n1,0,1\n1,2,3\n2,4,5\n")
    assert repr(read_series(path)) == (
        f"<Sequences in {path}: 2 with 2 channels, of 1 to 2 steps>"
    )


def test_parquet_may_hold_times_as_text_as_csv_does(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"sequence": ["b", "b", "a", "b"], "left": [3.0, 1.0, -1.5, 2.0]}
    for times in (["10", "8", "0", "9"], ["2024-10", "2024-08", "2024-01", "2024-09"]):
        path = tmp_path / "mine.parquet"
        parquet.write_table(pyarrow.table({**columns, "time": times}), path)
        assert read_series(path).values[:, 0].tolist() == [1, 2, 3, -1.5]


@pytest.mark.parametrize("kind", ["list", "binary"])
def test_a_column_of_parquet_without_numbers_texts_or_times_is_rejected(tmp_path, kind):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = {"list": [[1], [2]], "binary": [b"1", b"2"]}[kind]
    path = tmp_path / "mine.parquet"
    parquet.write_table(pyarrow.table({"sequence": values, "left": [1.0, 2.0]}), path)
    with pytest.raises(ValueError, match=r"in the column 'sequence' of .*mine.parquet, got"):
        read_series(path)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"__index_level_0__": [0, 1]}, r"got '__index_level_0__' for column 3, .* row numbers"),
        ({"city": ["1.5", "Rome"]}, r"column 'city' in row 2 of .*a.parquet, got the text 'Rome'"),
        ({"label": ["a", "b"], "target": [0.5, 2.0]}, r"either 'label' .*, got both"),
    ],
    ids=["row numbers", "text", "both"],
)
def test_a_table_in_parquet_is_checked_as_one_in_csv_is(tmp_path, column, message):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"sequence": ["a", "b"], "left": [1.0, 2.0], **column})
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=message):
        read_series(tmp_path / "a.parquet")


def test_a_long_label_does_not_take_its_memory_for_every_row(tmp_path):
    rows = [f"{k},{k},label" for k in range(1_000)]
    rows[500] = f"500,1,{'x' * 100_000}"
    path = put(tmp_path, "mine.csv", "\n".join(["sequence,left,label", *rows]))
    tracemalloc.start()
    read_series(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


@pytest.mark.parametrize("shape", [(4, 0), (0,), (2, 0, 3)])
def test_an_array_without_numbers_is_rejected(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.zeros(shape, np.float32))
    with pytest.raises(ValueError, match=re.escape(f"float32 of the shape {shape}")):
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


def test_a_pickled_array_is_rejected(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.array([[1, "two"]], object), lengths=np.array([1]))
    with pytest.raises(ValueError, match=r"array x.npy in .*mine.npz, got: pickled objects"):
        read_series(path)


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
    ("name", "content", "message"),
    [
        ("a.ts", b"", r"expected series in .*a.ts, got an empty file"),
        ("a.ts", TS.split("@data")[0], r"expected a line @data in .*a.ts, got none among its 8"),
        ("a.ts", "1,2:cat\n", r"expected a header .* got values in line 1 of .*a.ts"),
        ("a.ts", TS.split("1,2,3")[0], r"expected a series after the line @data of .*a.ts"),
        ("a.ts", TS[:-6], r"expected 2 channels in line 13 of .*a.ts, got 1; .*truncated"),
        ("a.ts", TS[:-2], r"class among cat, dog last in line 13 of .*a.ts, got 'do'"),
        (
            "a.ts",
            TS.encode().replace(b"8:", b"\xff:"),
            r"UTF-8 in .*a.ts, got the byte 0xff at col.* 3 of line 12",
        ),
        ("a.ts", NAN, r"finite values in .*a.ts, got nan in line 12, channel 1, step 2"),
        (
            "a.ts",
            TS.replace("8:", "?:"),
            r"numbers .* in channel 1 of line 12 of .*a.ts, got '\?'",
        ),
        ("a.ts", TS.replace("8:", "8,8:"), r"equal length in line 12 of .*a.ts, got \[2, 3\]"),
        ("a.ts", TS.replace(":dog", ":cat"), r"at least two classes in .*a.ts, got only cat"),
        (
            "a.ts",
            TS.replace("7,8:9,10:cat\n0,0:1,1:dog\n", ""),
            r"two sequences of a class in .*a.ts, .* validation=0",
        ),
        ("a.csv", b"", r"expected series in .*a.csv, got an empty file"),
        (
            "a.csv",
            "x,y\n1,2\n",
            r"expected a column 'sequence' and .* in .*a.csv, got the columns x, y",
        ),
        (
            "a.csv",
            CSV.replace("a,0,-1.5,20", "a,0,,20"),
            r"column 'left' in line 4 of .*a.csv, got ''",
        ),
        ("a.csv", CSV[:-5], r"expected 5 fields in line 5 of .*a.csv, got 4; .*truncated"),
        (
            "a.csv",
            CSV.replace("b,1,2", "b,2,2"),
            r"each time once in .*a.csv, got one in line 2 and in line 5",
        ),
        (
            "a.csv",
            CSV.replace("5,cat", "5,dog"),
            r"one label or target .* of .*a.csv, got dog and cat in line 5",
        ),
        ("a.csv", CSV.encode().replace(b"-1.5", b"\xe9"), r"UTF-8 in .*a.csv, .* of line 4"),
        (
            "a.csv",
            CSV.replace("-1.5", "9" * 200_000),
            r"values in .*a.csv, got .* in line 4: field",
        ),
        (
            "a.csv",
            ",sequence,left,label\n0,a,1.5,cat\n1,b,2.5,dog\n",
            r"name for each column of .*a.csv, got '' for column 1, .* pandas .* index=False",
        ),
        (
            "a.csv",
            CSV.replace("left", "Unnamed: 0"),
            r"of .*a.csv, got 'Unnamed: 0' for column 3, .* row numbers .* index=False",
        ),
        (
            "a.csv",
            CSV.replace("right", "Label"),
            r"'label' in lower case in .*a.csv, got the column 'Label', .* rename or remove it",
        ),
        (
            "a.csv",
            CSV.replace("right", " "),
            r"of .*a.csv, got ' ' for column 4: name the column or remove it",
        ),
        (
            "a.csv",
            CSV.replace("right", "target"),
            r"either 'label' .* or 'target' .* in .*a.csv, got both: remove",
        ),
        (
            "a.csv",
            CSV.replace(",", ";"),
            r"by commas in .*a.csv, got a first line that seems to be separated by ';': set sep",
        ),
        (
            "a.csv",
            CSV.replace(",", ";").replace("-1.5", "-1,5"),
            r"by commas in .*a.csv, got a first line that seems to be separated by ';': set sep",
        ),
        (
            "a.csv",
            CSV.replace(",", "\t"),
            r"by commas in .*a.csv, .* separated by tabs: set sep",
        ),
        (
            "a.csv",
            CSV.replace("-1.5", "Paris"),
            r"a number in the column 'left' in line 4 of .*a.csv, got the text 'Paris': remove",
        ),
        (
            "a.csv",
            CSV.replace("-1.5", '"-1,5"'),
            r"column 'left' in line 4 of .*a.csv, got the text '-1,5': .* decimal point",
        ),
        (
            "a.csv",
            CSV.replace("-1.5", "NaN"),
            r"column 'left' in line 4 of .*a.csv, got 'NaN'; fill in or remove missing values",
        ),
        (
            "a.ts",
            TS.replace("@data", "@targetLabel true\n@data"),
            r"either @classLabel true or @targetLabel true in the header of .*a.ts, got both",
        ),
        ("a.npz", b"PK", r"expected a complete zip archive in .*a.npz"),
        ("a.parquet", b"PAR1", r"expected a complete Parquet file in .*a.parquet"),
        ("a.txt", b"1", r"expected a file that ends in .ts, .npz, .npy, .csv, .*, got .*a.txt"),
    ],
)
def test_bad_files_are_rejected_with_the_position(tmp_path, name, content, message):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    task = Series(train=put(tmp_path, name, content))
    with pytest.raises(ValueError, match=message):
        task.batches("train", 2)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": np.zeros(3)}, r"as x in .*a.npz, .* as X, got no such array"),
        ({"x": np.zeros((4, 1))}, r"expected lengths for the two-dimensional x in .*a.npz"),
        ({"x": np.zeros((4, 1)), "lengths": np.array([2, 3])}, r"with the sum 5"),
        ({"x": np.zeros((2, 3, 1)), "label": np.array(["a"])}, r"expected 2 of label in .*a.npz"),
        (
            {"x": np.zeros((2, 3, 1))},
            r"a label of each sequence in .*, got neither label nor targ.*add the array label, or",
        ),
        (
            {"x": np.zeros((2, 3, 1)), "label": np.array(["a", "b"]), "target": np.zeros(2)},
            r"expected either 'label' .* or 'target' .* in .*a.npz, got both",
        ),
        ({"x": np.full((2, 3, 1), np.inf)}, r"finite .*, got inf in the sequence with index 0"),
        ({"x": np.full((2, 3, 1), 1e39)}, r"finite .*, got inf in the sequence with index 0"),
        ({"x": np.zeros((2, 3, 0))}, r"at least one channel in .*a.npz, got none"),
        (
            {"x": np.zeros((2, 3, 1)), "lengths": np.array(["3", "2"])},
            r"expected lengths as whole numbers in one dimension in .*a.npz, got <U1",
        ),
        (
            {"x": np.zeros((3, 1)), "lengths": np.array([2**63, 2**63, 3], np.uint64)},
            rf"fit x .* in .*a.npz, got 3 of them with the sum {2**64 + 3}",
        ),
    ],
)
def test_inconsistent_arrays_are_rejected(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        Series(train=tmp_path / "a.npz").batches("train", 2)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (COW, r"classes of .*train.ts, cat, dog, in .*test.ts, got 'cow' in line 13"),
        (
            TS.replace(":dog", ":cat"),
            r"expected each class of .*train.ts in .*test.ts, got none of dog",
        ),
        (NARROW, r"the 2 channels of .*train.ts in .*test.ts, 1, 2, got 1"),
    ],
    ids=["unseen class", "class left out", "channels"],
)
def test_inconsistent_files_are_rejected(tmp_path, test, message):
    train, test = put(tmp_path, "train.ts", TS), put(tmp_path, "test.ts", test)
    with pytest.raises(ValueError, match=message):
        Series(train=train, test=test, validation=0).batches("test", 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {},
            r"expected either train, a file, or dataset, a name, got train=None and dataset=None",
        ),
        ({"dataset": "Iris"}, r"expected dataset to be 'ACSF1' or .*, got 'Iris'"),
        ({"train": "a.ts", "validation": 1}, r"expected 0 <= validation < 1, got 1"),
        ({"train": "a.ts", "answer": "word"}, r"answer to be 'class' or 'number' or 'next'"),
        (
            {"train": "a.ts", "answer": "next", "class_weights": "balanced"},
            r"only with answer='class'",
        ),
        ({"train": "a.ts", "class_weights": {"a": 0}}, r"weight of the class 'a' > 0, got 0"),
        ({"dataset": "ACSF1", "test": "a.ts"}, r"expected no test .* with dataset"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        Series(**options)


@pytest.mark.usefixtures("data_root")
def test_weights_of_unknown_classes_are_rejected():
    task = Series(dataset="JapaneseVowels", class_weights={"10": 2.0})
    with pytest.raises(ValueError, match=r"class_weights of the classes 1, .*, 9, got '10'"):
        _ = task.preprocessing


def test_the_name_of_a_class_may_be_a_number():
    task = Series(dataset="JapaneseVowels", class_weights={3: 2.0})
    assert task.class_weights == {"3": 2.0}


def test_a_file_without_answers_says_where_its_format_has_them(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 3, 1)))
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "a.npy", np.zeros((3, 1)))
    put(tmp_path, "a.csv", "sequence,x\na,1\nb,2\n")
    in_memory = from_arrays([np.zeros((3, 1))] * 4)
    remedies = [
        (tmp_path / "a.npy", r"write an .npz file with the arrays x and label, or for classes"),
        (tmp_path / "a.csv", r"name its column in columns.label"),
        (tmp_path / "folder", r"put the files of each class in a folder of its name, name its"),
        (in_memory, r"pass labels= to the function for arrays, or label= to from_table"),
    ]
    for train, remedy in remedies:
        with pytest.raises(ValueError, match=rf"got neither label nor target: .*{remedy}"):
            _ = Series(train=train).preprocessing


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected a file of series, got .*a.ts"):
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


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "without arrow.csv"])
def test_columns_separators_and_decimals_have_names_of_your_own(tmp_path, name, monkeypatch):
    options, text = GERMAN, RENAMED
    if name.startswith("without"):
        monkeypatch.setattr(series, "find_spec", lambda _: None)
    if name.endswith(".tsv"):
        options, text = replace(GERMAN, separator=None), RENAMED.replace(";", "\t")
    content = gzip.compress(text.encode()) if name.endswith(".gz") else text
    read = read_series(put(tmp_path, name, content), options)
    np.testing.assert_array_equal(read.values, X.astype(np.float32))
    assert (read.names, read.labels) == (("b", "a"), ("cat", "dog"))
    assert read.channels == ("links", "rechts")


def test_chosen_channels_ignore_all_other_columns(tmp_path):
    path = put(tmp_path, "a.csv", CSV)
    read = read_series(path, ReadOptions(Columns(channels=["right"])))
    assert read.channels == ("right",)
    assert read.values.ravel().tolist() == [4, 5, 6, 20]


def test_both_readers_of_csv_agree_on_a_table_of_several_blocks(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    which = draw.permutation(np.repeat(np.arange(40), 25))
    table = pandas.DataFrame(
        {"sequence": which, "x": draw.normal(size=1000), "time": draw.permutation(1000)}
    )
    table["label"] = which % 3
    path = put(tmp_path, "a.csv", table.to_csv(index=False))
    monkeypatch.setattr(series, "_ARROW_BLOCK", 2**12)
    monkeypatch.setattr(series, "_BLOCK", 64)
    options = ReadOptions(separator=",")
    fast = series._read_with_arrow(path, options, is_one_sequence=False)
    slow = series._read_with_python(path, options, None, is_one_sequence=False)
    names = [str(name) for name in dict.fromkeys(which.tolist())]
    for read in (fast, slow):
        assert read.names == tuple(names)
        for name, piece in zip(names, np.split(read.values[:, 0], 40), strict=True):
            rows = table[table["sequence"] == int(name)].sort_values("time")
            np.testing.assert_array_equal(piece, rows["x"].to_numpy(np.float32))
        assert read.labels == tuple(str(int(name) % 3) for name in names)


@pytest.mark.parametrize(
    ("times", "order"),
    [
        (["0.5", "10", "9"], [0, 2, 1]),
        (["2024-03-01T00:00:01", "2024-03-01T00:00:00", "2023-12-31T23:59:59"], [2, 1, 0]),
        (["b", "c", "a"], [2, 0, 1]),
        (["3", "1", "1e1"], [1, 0, 2]),
    ],
    ids=["numbers", "dates", "words", "whole numbers, then another"],
)
def test_rows_are_ordered_by_numbers_dates_and_words(tmp_path, times, order):
    rows = "".join(f"a,{time},{k}\n" for k, time in enumerate(times))
    read = read_series(put(tmp_path, "a.csv", f"sequence,time,x\n{rows}"))
    assert read.values[:, 0].tolist() == order


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
    np.testing.assert_array_equal(read.values, X.astype(np.float32))
    assert read.lengths.tolist() == [3, 1]
    assert read.labels == (("cat", "dog") if in_classes else None)
    assert read.names == (("cat/one", "dog/two") if in_classes else ("one", "two"))


def test_a_folder_of_other_things_is_refused(tmp_path):
    with pytest.raises(ValueError, match="one for each sequence, got none"):
        read_series(tmp_path)
    put(tmp_path, "train.csv", CSV)
    with pytest.raises(ValueError, match=r"got 2 sequences in .*train.csv: name that file"):
        read_series(tmp_path)
    (tmp_path / "train.csv").unlink()
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    np.save(tmp_path / "b.npy", np.zeros((3, 1)))
    with pytest.raises(ValueError, match=r"expected the channels 1, 2 of .*a.npy in .*b.npy"):
        read_series(tmp_path)
    (tmp_path / "more").mkdir()
    np.save(tmp_path / "more" / "c.npy", np.zeros((3, 2)))
    with pytest.raises(ValueError, match="got some of both"):
        read_series(tmp_path)


def test_a_link_out_of_a_folder_is_not_followed(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    np.save(folder / "a.npy", np.zeros((3, 2)))
    (folder / "b.npy").symlink_to(folder / "a.npy")
    assert len(read_series(folder)) == 2
    np.save(tmp_path / "secret.npy", np.ones((3, 2)))
    (folder / "c.npy").symlink_to(tmp_path / "secret.npy")
    with pytest.raises(ValueError, match="files inside the folder"):
        read_series(folder)


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
    with pytest.raises(ValueError, match="got: pickled objects"):
        read_series(tmp_path / "c.npz")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros((2, 2, 2, 2)), r"\(count, steps, channels\) in .*a.npy, got float64 of the"),
        (np.array(["a"]), r"in .*a.npy, got <U1"),
        (np.array([{}], object), r"in .*a.npy, got: pickled objects"),
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
        ({"label": None}, r"expected a number in the column 'label' in line 2"),
        ({"label": "left"}, r"'label' in lower case in .*got the column 'label', which would be"),
    ],
)
def test_columns_that_do_not_fit_are_named(tmp_path, options, message):
    path = put(tmp_path, "a.csv", CSV)
    with pytest.raises(ValueError, match=message):
        read_series(path, ReadOptions(Columns(**options)))


def test_a_damaged_gzip_file_is_named(tmp_path):
    path = put(tmp_path, "a.csv.gz", gzip.compress(CSV.encode())[:-6])
    with pytest.raises(ValueError, match=r"expected a complete file in .*a.csv.gz, got:"):
        read_series(path)


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
    with pytest.raises(ValueError, match=r"one group in all rows .*a.csv, got r and q in line 4"):
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
