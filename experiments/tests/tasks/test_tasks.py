"""The contract of every task: shapes, random streams, splits and errors."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from draws import first
from eigenrnn_experiments import registry
from eigenrnn_experiments.tasks import (
    Batch,
    CarRacing,
    Enwik8,
    NextSymbol,
    PixelMNIST,
    Speech,
    Synthetic,
)
from eigenrnn_experiments.tasks.base import check_batch, check_task, epoch_indices, generator_for
from eigenrnn_experiments.training.objective import Objective
from synthetic_data import encoded_drives, patched_enwik8, synthetic_enwik8, write_drives
from task_cases import TASKS


@pytest.fixture(scope="module", params=TASKS.values(), ids=TASKS.keys())
def task(request, tmp_path_factory):
    if isinstance(request.param, Enwik8):
        with patched_enwik8(synthetic_enwik8(), tmp_path_factory.mktemp("enwik8")) as folder:
            yield replace(request.param, data_root=folder)
        return
    if isinstance(request.param, CarRacing):
        folder = write_drives(tmp_path_factory.mktemp("drives"), encoded_drives())
        yield replace(request.param, data_root=folder)
        return
    if isinstance(request.param, (NextSymbol, PixelMNIST, Speech)):
        request.getfixturevalue("data_root")
    yield request.param


def assert_same(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one.inputs, other.inputs)
        # missing targets are NaN
        torch.testing.assert_close(one.targets, other.targets, rtol=0, atol=0, equal_nan=True)


def perfect_outputs(targets, task):
    """The outputs of a perfectly trained network."""
    if isinstance(task, CarRacing):
        # Gaussians with a density of 1 at the mean
        certain = torch.tensor(-0.5 * math.log(math.tau)).expand_as(targets)
        mixture = torch.stack([torch.zeros_like(targets), targets, certain], -1)
        return mixture.repeat_interleave(task.mixtures, -1).flatten(-2)
    if targets.is_floating_point():
        return targets.clone()
    # a step may have several targets, each with its own classes
    several = targets.unsqueeze(-1) if targets.dim() < 3 else targets
    classes = task.output_size // several.shape[-1]
    certainty = 1.0 if getattr(task, "criterion", None) == "squared_error" else 100.0
    return certainty * F.one_hot(several, classes).float().flatten(-2)


def outputs_for(batch, task):
    shape = perfect_outputs(batch.targets, task).shape
    # a distant Gaussian with zero density would have no gradient
    scale = 0.2 if isinstance(task, CarRacing) else 1.0
    return scale * torch.randn(shape, generator=generator_for(0, "outputs"))


@pytest.mark.usefixtures("global_streams_untouched")
def test_drawing_leaves_the_global_streams_untouched(task):
    task.batch(2, generator_for(0))
    for split in task.splits:
        first(task.batches(split, 3, seed=5), 4)


def test_a_batch_has_the_shapes_and_types_that_the_task_declares(task):
    batch = task.batch(3, generator_for(0))
    assert batch.size == 3
    symbols = task.vocabulary is not None
    assert batch.inputs.shape[1:] == ((3,) if symbols else (3, task.input_size))
    assert batch.inputs.dtype == (torch.int64 if symbols else torch.float32)
    assert batch.inputs.is_contiguous()
    answers = (3,) if task.readout == "last" else (len(batch.inputs), 3)
    assert batch.targets.shape[: len(answers)] == answers
    assert batch.targets.dtype in (torch.int64, torch.float32)
    assert batch.targets_batch_dim == (0 if task.readout == "last" else 1)


def test_classes_are_indexed_from_zero(task):
    targets = task.batch(50, generator_for(0)).targets
    outputs = perfect_outputs(targets, task)
    assert outputs.shape[-1] == task.output_size
    assert targets.is_floating_point() or targets.min() >= 0


def test_a_batch_is_a_function_of_the_generator(task):
    assert_same([task.batch(4, generator_for(3))], [task.batch(4, generator_for(3))])
    assert not torch.equal(
        task.batch(4, generator_for(3)).inputs, task.batch(4, generator_for(4)).inputs
    )


def test_starting_at_a_step_equals_skipping_earlier_steps(task):
    for split in task.splits:
        all_batches = first(task.batches(split, 3, seed=1), 9)
        for start in (1, 2, 3, 7):
            resumed = first(task.batches(split, 3, seed=1, start=start), 9 - start)
            assert_same(resumed, all_batches[start:])


def test_a_late_epoch_starts_without_replaying_earlier_ones(task):
    far = 10**12
    ahead = first(task.batches("train", 3, start=far), 2)
    assert_same(first(task.batches("train", 3, start=far + 1), 1), ahead[1:])


def test_fixed_splits_are_one_pass_that_does_not_depend_on_the_seed_or_the_size(task):
    # for a text the batch size is the number of streams
    sizes = (500, 500) if task.carries else (700, 500)
    for split in task.splits[1:]:
        by_seven, by_five = (
            [*task.batches(split, size, seed=seed)] for seed, size in enumerate(sizes)
        )
        if task.carries:
            assert_same(by_seven, by_five)
            continue
        assert torch.equal(
            torch.cat([batch.inputs for batch in by_seven], 1),
            torch.cat([batch.inputs for batch in by_five], 1),
        )


def test_perfect_outputs_have_zero_loss_and_the_best_metric(task):
    batch = task.batch(5, generator_for(0))
    outputs = perfect_outputs(batch.targets, task)
    assert task.loss(outputs, batch.targets).item() == pytest.approx(0, abs=1e-6)
    best = 1 if task.higher_is_better else pytest.approx(0, abs=1e-6)
    assert task.metric(outputs, batch.targets).item() == best


def test_metric_sums_of_parts_add_up_to_the_metrics_of_the_whole(task):
    batch = task.batch(7, generator_for(0))
    outputs = outputs_for(batch, task)
    tally = sum(
        task.metric_sums(
            outputs.narrow(batch.targets_batch_dim, start, stop - start),
            batch.rows(start, stop).targets,
        ).double()
        for start, stop in ((0, 2), (2, 7))
    )
    figures = task.metrics_from_sums(tally)
    assert tuple(figures) == task.metric_names
    loss, metric = task.loss(outputs, batch.targets), task.metric(outputs, batch.targets)
    assert figures["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert figures[task.metric_name] == pytest.approx(metric.item(), rel=1e-5)


class Fixed(nn.Module):
    """A model with outputs of its own."""

    def __init__(self, outputs):
        super().__init__()
        self.outputs = outputs

    def forward(self, *_):
        return self.outputs

    def advance(self, *_):
        return self.outputs, None


def test_half_precision_rounds_no_count_and_no_class(task):
    batch = task.batch(5, generator_for(0))
    # 305 sequences, a number that bfloat16 would round
    targets = torch.cat([batch.targets] * 61, batch.targets_batch_dim)
    shape = perfect_outputs(targets, task).shape
    outputs = 0.2 * torch.randn(shape, generator=generator_for(0, "outputs"))
    outputs = outputs.bfloat16()
    batch = replace(batch, targets=targets)
    sums = Objective(Fixed(outputs), task, "bf16-true").evaluate(batch)
    expected = Objective(Fixed(outputs.double()), task, "64-true").evaluate(batch)
    torch.testing.assert_close(sums.double(), expected.double(), rtol=1e-5, atol=1e-5)


def test_loss_and_metric_are_means_over_the_batch(task):
    batch = task.batch(6, generator_for(0))
    outputs = outputs_for(batch, task)
    halves = [
        (outputs.narrow(batch.targets_batch_dim, start, 3), batch.rows(start, start + 3).targets)
        for start in (0, 3)
    ]
    # the loss is over valid targets only, a metric may include padding
    there = [half.isnan().logical_not().sum() for _, half in halves]
    scores = (task.loss, task.metric) if sum(there) == batch.targets.numel() else (task.loss,)
    for score in scores:
        pairs = zip(there, halves, strict=True)
        mean = sum(count * score(*half) for count, half in pairs) / sum(there)
        assert score(outputs, batch.targets).item() == pytest.approx(mean.item(), rel=1e-5)


def test_the_loss_sends_a_gradient_to_every_output(task):
    batch = task.batch(2, generator_for(0))
    outputs = outputs_for(batch, task).requires_grad_()
    task.loss(outputs, batch.targets).backward()
    gaps = perfect_outputs(batch.targets, task).isnan()
    assert ((outputs.grad == 0) == gaps).all()


def test_an_unknown_split_is_rejected_before_the_first_batch(task):
    with pytest.raises(ValueError, match="got 'trial'"):
        task.batches("trial", 2)


@pytest.mark.parametrize("dim", [0, 1])
def test_rows_slices_inputs_targets_and_lengths(dim):
    shape = (4,) if dim == 0 else (2, 4)
    targets = torch.arange(4).expand(shape)
    inputs = torch.arange(4.0).expand(2, 4).unsqueeze(-1)
    rows = Batch(inputs, targets, torch.arange(4), targets_batch_dim=dim).rows(1, 3)
    assert rows.inputs.tolist() == [[[1], [2]], [[1], [2]]]
    assert rows.targets.tolist() == ([1, 2] if dim == 0 else [[1, 2], [1, 2]])
    assert rows.lengths.tolist() == [1, 2]
    assert rows.targets_batch_dim == dim


def test_a_dtype_converts_real_numbers_but_not_classes_or_lengths():
    classes = torch.zeros(2, 3, dtype=torch.int64)
    moved = Batch(torch.zeros(2, 3, 1), classes, torch.tensor([1, 2, 2])).to("cpu", torch.float64)
    assert moved.inputs.dtype == torch.float64
    assert moved.targets.dtype == moved.lengths.dtype == torch.int64
    assert Batch(torch.zeros(2, 3, 1), torch.zeros(3)).to(dtype=torch.float64).lengths is None


def test_streams_of_different_seeds_keys_and_words_differ():
    streams = [
        generator_for(0),
        generator_for(1),
        generator_for(0, 0),
        generator_for(0, 0, 0),
        generator_for(0, 1),
        generator_for(1, 0),
    ]
    streams += [generator_for(0, "train"), generator_for(0, "test"), generator_for(0, "train", 0)]
    draws = {tuple(torch.randint(2**31, (4,), generator=each).tolist()) for each in streams}
    assert len(draws) == len(streams)


@pytest.mark.usefixtures("global_streams_untouched")
def test_a_stream_is_pinned():
    draw = torch.randint(1_000, (4,), generator=generator_for(7, "train", 3))
    assert draw.tolist() == [612, 773, 554, 176]


@pytest.mark.parametrize("shuffle", [True, False])
def test_an_epoch_takes_each_example_once_and_its_last_batch_may_be_smaller(shuffle):
    taken = first(epoch_indices(10, 4, seed=0, start=0, shuffle=shuffle), 6)
    assert [len(rows) for rows in taken] == [4, 4, 2, 4, 4, 2]
    for epoch in (taken[:3], taken[3:]):
        assert sorted(torch.cat(epoch).tolist()) == [*range(10)]


def test_shuffled_epochs_differ_and_ordered_ones_do_not():
    shuffled = first(epoch_indices(10, 10, seed=0, start=0, shuffle=True), 2)
    ordered = first(epoch_indices(10, 10, seed=0, start=0, shuffle=False), 2)
    assert not torch.equal(*shuffled)
    assert [rows.tolist() for rows in ordered] == [[*range(10)]] * 2


def test_every_exported_task_has_a_case():
    assert {type(task) for task in TASKS.values()} == set(registry.TASKS.values())


@dataclass(frozen=True, kw_only=True)
class Ones(Synthetic):
    """Tell whether there are more ones than zeros."""

    readout: ClassVar[str] = "last"
    metric_name: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True
    input_size: ClassVar[int] = 1
    output_size: ClassVar[int] = 2

    def _draw(self, count, generator):
        return (torch.randint(2, (count, 5), generator=generator),)

    def _collate(self, examples):
        (bits,) = examples
        targets = (bits.sum(1) > 2).long()
        return Batch(bits.T.unsqueeze(2).float(), targets, targets_batch_dim=0)

    def loss(self, outputs, targets):
        return F.cross_entropy(outputs, targets)

    metric = loss

    def baseline(self):
        return math.log(2)


@pytest.mark.parametrize("name", ["_draw", "loss", "baseline", "higher_is_better", "metric_name"])
def test_what_a_task_lacks_is_named_with_the_page(name):
    check_task(Ones)
    lacking = {key: value for key, value in vars(Ones).items() if key != name}
    kind = type(Synthetic)("Lacking", (Synthetic,), lacking)
    with pytest.raises(TypeError, match=rf"Lacking to define {name}: see docs/extending\.md"):
        check_task(kind)


def collated_with(**changes):
    class Changed(Ones):
        def _collate(self, examples):
            return replace(super()._collate(examples), **changes)

    return Changed()


def test_batches_that_do_not_fit_the_readout_are_refused():
    check_batch(Ones(), next(Ones().batches("train", 3)))
    with pytest.raises(TypeError, match="expected a Batch of Ones, got tuple"):
        check_batch(Ones(), (torch.zeros(5, 3, 1), torch.zeros(3)))
    for changes in ({"targets_batch_dim": 1}, {"targets": torch.zeros(5, 3)}):
        task = collated_with(**changes)
        with pytest.raises(ValueError, match="with 3 sequences along dimension 0"):
            check_batch(task, next(task.batches("train", 3)))
