"""Language modelling tasks, against slow references and the published protocols."""

import itertools
import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch

from draws import first
from eigenrnn.layers import ScoRNN
from eigenrnn_experiments.tasks import CharPTB, Enwik8, Text, WordPTB
from eigenrnn_experiments.tasks.base import generator_for, model_for
from eigenrnn_experiments.tasks.text import random_windows
from synthetic_data import SIZE, patched_enwik8, synthetic_enwik8
from training_run import losses, small_fit, small_settings

LINES = ["to be", "or not to be", "x", "", "that is", "the question"]
SHARES = (0.2, 0.2)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(line + "\n" for line in LINES * 20))
    return path


def read_out(task, numbers):
    return [task.symbols[number] for number in numbers]


def assert_same(got, expected):
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.targets, other.targets)
        assert (one.carry, one.lr_scale) == (other.carry, other.lr_scale)


def slow_windows(symbols, size, window):
    """Each batch of a pass as lists of input and target symbols, stream by stream."""
    length = len(symbols) // size
    streams = [symbols[b * length : (b + 1) * length] for b in range(size)]
    batches, begin = [], 0
    while begin < length - 1:
        end = min(begin + window, length - 1)
        read = [each[begin:end] for each in streams]
        labels = [each[begin + 1 : end + 1] for each in streams]
        batches.append((read, labels))
        begin = end
    return batches


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize(("size", "window"), [(1, 7), (3, 10), (4, 1_000)])
def test_windows_equal_a_construction_stream_by_stream(path, split, size, window):
    task = Text(path, held_out=SHARES, window=window)
    text = list(path.read_text())
    held_out = int(0.2 * len(text))
    cuts = {"train": 0, "validation": len(text) - 2 * held_out, "test": len(text) - held_out}
    begin = cuts[split]
    end = min([cut for cut in cuts.values() if cut > begin], default=len(text))
    expected = slow_windows(text[begin:end], size, window)
    batches = first(task.batches(split, size), len(expected) + 1)
    for number, (batch, (read, labels)) in enumerate(zip(batches, expected, strict=False)):
        assert [read_out(task, row) for row in batch.inputs.T] == read
        assert [read_out(task, row) for row in batch.targets.T] == labels
        assert (batch.carry, batch.lr_scale) == (number > 0, 1.0)
    if split == "train":
        assert task.steps_per_epoch(size) == len(expected)
        assert_same(batches[-1:], batches[:1])
    else:
        assert len(batches) == len(expected)


@pytest.mark.usefixtures("data_root")
def test_each_batch_continues_the_previous_one():
    task = Text(cut="random", window=25)
    one, two = first(task.batches("train", 4, seed=2, start=3), 2)
    assert two.carry
    assert torch.equal(one.targets[-1], two.inputs[0])


def test_a_fixed_number_of_streams_does_not_depend_on_the_batch_size(path):
    task = Text(path, held_out=SHARES, window=10, validation_streams=3, test_streams=1)
    assert_same(task.batches("validation", 50), task.batches("validation", 2))
    assert next(task.batches("validation", 50)).size == 3
    assert next(task.batches("test", 50)).size == 1
    assert next(task.batches("train", 5)).size == 5


def awd_lengths(total, window, generator):
    """The window lengths of a pass, drawn one by one until the text ends."""
    lengths = []
    while sum(lengths) < total:
        base = window if generator.random() < 0.95 else window / 2
        lengths.append(max(5, int(generator.normal(base, 5))))
    return lengths


@pytest.mark.parametrize(("total", "window"), [(39_198, 150), (46_478, 70), (7_000, 20)])
def test_random_lengths_fill_the_text_and_have_the_spread_of_awd_lstm(total, window):
    passes = [np.diff(random_windows(total, window, 0, number)) for number in range(40)]
    assert all(lengths.sum() == total and lengths.min() >= 5 for lengths in passes)
    generator = np.random.default_rng(0)
    slow = [awd_lengths(total, window, generator) for _ in range(40)]
    (count,) = {len(lengths) for lengths in passes}
    assert count == pytest.approx(np.mean([*map(len, slow)]), rel=0.005)
    ours, theirs = np.concatenate(passes), np.concatenate(slow)
    near = max(1, 0.03 * window)
    for share in (0.02, 0.25, 0.5, 0.75, 0.95):
        assert np.quantile(ours, share) == pytest.approx(np.quantile(theirs, share), abs=near)
    halved = 0.75 * window
    if window > 40:
        share, expected = (ours < halved).mean(), (theirs < halved).mean()
        assert share == pytest.approx(expected, abs=4 * (0.05 / len(ours)) ** 0.5)


@pytest.mark.parametrize("total", [1, 4, 9, 30, 41])
def test_short_texts_have_random_lengths_too(total):
    lengths = np.diff(random_windows(total, 20, 0, 0))
    assert lengths.sum() == total
    assert lengths.min() >= 1


@pytest.mark.usefixtures("data_root")
def test_random_windows_depend_on_seed_and_epoch_and_scale_the_learning_rate():
    task = Text(cut="random", window=30)
    steps = task.steps_per_epoch(64)
    one, two, other = (
        first(task.batches("train", 64, seed=seed, start=start), steps)
        for seed, start in ((0, 0), (0, steps), (1, 0))
    )
    for epoch in (one, two, other):
        assert [batch.carry for batch in epoch] == [False] + [True] * (steps - 1)
        assert sum(len(batch.inputs) for batch in epoch) == 1_003_856 // 64 - 1
        assert all(batch.lr_scale == len(batch.inputs) / 30 for batch in epoch)
    lengths = [[len(batch.inputs) for batch in epoch] for epoch in (one, two, other)]
    assert lengths[0] != lengths[1] != lengths[2] != lengths[0]
    assert all(batch.lr_scale == 1 for batch in task.batches("test", 64))
    assert_same(first(task.batches("train", 64, start=steps - 2), 2), one[-2:])


@pytest.mark.parametrize("task", [CharPTB(), WordPTB()], ids=str)
@pytest.mark.usefixtures("data_root")
def test_sizes_stated_without_the_files_match_them(task):
    read = task._read()
    assert task.vocabulary == len(task.symbols) == len(read.symbols)
    assert {name: len(part) for name, part in read.parts.items()} == {
        split: task._text_length(split) for split in task.splits
    }


@pytest.mark.parametrize(
    ("task", "size", "steps"),
    [
        (CharPTB.nnrnn(), 128, 262),
        (CharPTB.nnrnn(300), 128, 131),
        (CharPTB.enrnn(), 32, 3_136),
        (WordPTB(), 20, 664),
        (Enwik8(), 128, 3_516),
    ],
)
def test_the_length_of_an_epoch_is_known_without_reading_the_files(task, size, steps):
    assert replace(task, data_root="nowhere").steps_per_epoch(size) == steps


@pytest.mark.parametrize("options", [{}, {"unit": "words"}], ids=str)
def test_the_baseline_is_the_loss_of_the_symbol_frequencies(path, options):
    task = Text(path, held_out=SHARES, **options)
    text = task._corpus.to_indices(task._corpus.parts["train"])
    text = torch.from_numpy(text[text < task.vocabulary])
    prediction = (text.bincount(minlength=task.vocabulary) / len(text)).log()
    measured = task.loss(prediction.expand(len(text), 1, -1), text[:, None]).item()
    assert measured == pytest.approx(task.baseline(), rel=1e-5)


@pytest.mark.usefixtures("data_root")
def test_the_symbol_frequencies_have_the_baseline_loss_in_an_epoch():
    task = Text()
    frequencies = torch.from_numpy(task._corpus.counts("train") / 1_003_856).float()
    prediction = frequencies.log()
    epoch = first(task.batches("train", 8), task.steps_per_epoch(8))
    tallies = [
        task.metric_sums(prediction.expand(*b.targets.shape, -1), b.targets).double()
        for b in epoch
    ]
    figures = task.metrics_from_sums(sum(tallies))
    assert figures["loss"] == pytest.approx(task.baseline(), rel=1e-4)
    assert figures["accuracy"] == pytest.approx(frequencies.max().item(), rel=1e-3)


@pytest.mark.parametrize(("task", "bits"), [(CharPTB(), 4.334), (WordPTB(), 9.4198)], ids=str)
@pytest.mark.usefixtures("data_root")
def test_the_baseline_of_ptb_is_its_entropy(task, bits):
    symbols, counts = np.unique(task._corpus.parts["train"], return_counts=True)
    counts = counts[symbols < task.vocabulary]
    entropy = -sum(n / counts.sum() * math.log2(n / counts.sum()) for n in counts.tolist())
    assert task.baseline() / math.log(2) == pytest.approx(entropy, rel=1e-9)
    assert entropy == pytest.approx(bits, abs=5e-5)


def test_metrics_are_means_over_symbols(path):
    task = Text(path, unit="words", window=5, held_out=SHARES)
    batch = next(task.batches("train", 6))
    outputs = torch.randn(*batch.targets.shape, task.vocabulary, generator=generator_for(0))
    nats, right = [], []
    for b in range(batch.size):
        for t in range(5):
            scores, symbol = outputs[t, b].tolist(), int(batch.targets[t, b])
            nats.append(math.log(sum(map(math.exp, scores))) - scores[symbol])
            right.append(max(scores) == scores[symbol])
    expected = {
        "loss": np.mean(nats),
        "bits": np.mean(nats) / math.log(2),
        "accuracy": np.mean(right),
        "perplexity": math.exp(np.mean(nats)),
    }
    halves = [
        task.metric_sums(outputs[:, rows], batch.targets[:, rows]).double()
        for rows in (slice(0, 2), slice(2, 6))
    ]
    assert task.metrics_from_sums(sum(halves)) == pytest.approx(expected, rel=1e-5)
    assert task.loss(outputs, batch.targets).item() == pytest.approx(expected["loss"], rel=1e-5)
    assert task.metric(outputs, batch.targets).item() == pytest.approx(expected["bits"], rel=1e-5)
    assert task.metric_names == tuple(expected)


def test_a_diverged_network_has_an_infinite_perplexity():
    figures = WordPTB().metrics_from_sums(torch.tensor([1e6, 0, 1], dtype=torch.float64))
    assert figures["perplexity"] == math.inf


def test_training_resumes_in_the_middle_of_a_random_window_epoch(path, tmp_path):
    task = Text(path, cut="random", window=20, held_out=SHARES)

    def run(directory, steps, **options):
        model = model_for(task, ScoRNN, 8, generator=torch.Generator().manual_seed(0))
        settings = small_settings(steps, eval_every=4)
        small_fit(tmp_path / directory, settings, model=model, task=task, **options)

    per_epoch = task.steps_per_epoch(4)
    run("whole", 2 * per_epoch)
    run("halves", per_epoch + 2)
    run("halves", 2 * per_epoch, resume=True)
    assert losses(tmp_path / "halves") == losses(tmp_path / "whole")


def test_training_on_a_large_text_takes_little_memory(tmp_path):
    size = 8_000_000
    task = Enwik8(length=size, data_root=tmp_path)
    with patched_enwik8(synthetic_enwik8(size), tmp_path):
        tracemalloc.start()
        for _ in first(task.batches("train", 16, start=50), 20):
            pass
        for _ in task.batches("test", 16):
            pass
        task.baseline()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < size / 4


def test_enwik8_is_read_byte_by_byte(tmp_path):
    content = synthetic_enwik8()
    task = Enwik8(length=SIZE, window=40, data_root=tmp_path)
    with patched_enwik8(content, tmp_path):
        assert task.vocabulary == len(set(content))
        held_out = content[180_000:190_000].decode("latin1")
        batches = [*task.batches("validation", 1)]
    text = list(held_out)
    got = [read_out(task, batch.targets[:, 0]) for batch in batches]
    assert list(itertools.chain(*got)) == text[1:]


def test_a_text_too_short_for_its_streams_is_rejected(path):
    with pytest.raises(ValueError, match="got 172"):
        next(Text(path, held_out=SHARES).batches("test", 100))
