"""Pixel MNIST, against an independent reader and the published orders and splits."""

import gzip
import itertools
import math

import numpy as np
import pytest
import torch

from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.tasks import PixelMNIST
from eigenrnn_experiments.tasks.base import generator_for


@pytest.fixture(scope="module")
def files(data_root):
    """The bytes of the four files without their headers, by part and kind."""
    names = {
        ("train", "pixels"): ("train-images-idx3-ubyte.gz", 16),
        ("train", "digits"): ("train-labels-idx1-ubyte.gz", 8),
        ("test", "pixels"): ("t10k-images-idx3-ubyte.gz", 16),
        ("test", "digits"): ("t10k-labels-idx1-ubyte.gz", 8),
    }
    return {
        key: gzip.decompress((data_root / "mnist" / name).read_bytes())[header:]
        for key, (name, header) in names.items()
    }


def an_epoch(task, size):
    return itertools.islice(task.batches("train", size), task.steps_per_epoch(size))


@pytest.mark.parametrize(
    ("task", "split", "part", "first_image"),
    [
        (PixelMNIST(shuffle=False), "train", "train", 5_000),
        (PixelMNIST(shuffle=False), "validation", "train", 0),
        (PixelMNIST(permuted=True), "test", "test", 0),
        (PixelMNIST(permuted=True, split="full", shuffle=False), "train", "train", 0),
        (PixelMNIST(permuted=True, permutation_seed=3), "validation", "train", 0),
    ],
)
def test_each_step_is_the_pixel_of_the_order(files, task, split, part, first_image):
    batch = next(task.batches(split, 3))
    order = [*range(784)]
    if task.permuted:
        seed = task.permutation_seed or 92916
        order = np.random.RandomState(seed).permutation(784).tolist()
    for b, image in enumerate(range(first_image, first_image + 3)):
        assert batch.targets[b] == files[part, "digits"][image]
        read = [files[part, "pixels"][784 * image + pixel] / 255 for pixel in order]
        assert batch.inputs[:, b, 0].tolist() == pytest.approx(read, abs=1e-7)


def test_the_nnrnn_split_is_drawn_by_the_generator_of_its_permutation(files):
    task = PixelMNIST(permuted=True, split="nnrnn", shuffle=False)
    generator = np.random.RandomState(1234)
    assert task.pixel_order.tolist() == generator.permutation(784).tolist()
    images = generator.permutation(60_000)
    digits = np.frombuffer(files["train", "digits"], np.uint8)
    for split, expected in (("train", images[:50_000]), ("validation", images[50_000:])):
        batches = an_epoch(task, 1_000) if split == "train" else task.batches(split, 1_000)
        got = torch.cat([batch.targets for batch in batches])
        np.testing.assert_array_equal(got, digits[expected])


@pytest.mark.parametrize(
    ("split", "sizes"),
    [
        ("tf", {"train": 55_000, "validation": 5_000, "test": 10_000}),
        ("full", {"train": 60_000, "test": 10_000}),
        ("nnrnn", {"train": 50_000, "validation": 10_000, "test": 10_000}),
    ],
)
@pytest.mark.usefixtures("data_root")
def test_splits_have_their_published_sizes(split, sizes):
    task = PixelMNIST(split=split)
    assert task.splits == tuple(sizes)
    assert sum(batch.size for batch in an_epoch(task, 512)) == sizes.pop("train")
    for name, size in sizes.items():
        assert sum(batch.size for batch in task.batches(name, 512)) == size


def test_a_shuffled_epoch_holds_each_training_image_once(files):
    task = PixelMNIST()
    one, two = (
        torch.cat(
            [
                batch.targets
                for batch in itertools.islice(task.batches("train", 1_000, start=start), 55)
            ]
        )
        for start in (0, 55)
    )
    assert not torch.equal(one, two)
    digits = torch.frombuffer(bytearray(files["train", "digits"]), dtype=torch.uint8)[5_000:]
    assert one.bincount().tolist() == two.bincount().tolist() == digits.bincount().tolist()


@pytest.mark.parametrize(("split", "steps"), [("tf", 430), ("full", 469), ("nnrnn", 391)])
def test_the_length_of_an_epoch_is_known_without_reading_the_files(split, steps):
    assert PixelMNIST(split=split, data_root="nowhere").steps_per_epoch(128) == steps


def test_the_pixel_order_is_a_permutation_of_the_published_seed():
    order = PixelMNIST(permuted=True).pixel_order
    assert order.tolist() == np.random.RandomState(92916).permutation(784).tolist()
    assert torch.equal(PixelMNIST().pixel_order, torch.arange(784))


def test_the_baseline_is_the_loss_of_a_predictor_without_memory():
    task = PixelMNIST()
    digits = torch.randint(10, (100,), generator=generator_for(0))
    prediction = torch.zeros(100, 10)
    assert task.loss(prediction, digits).item() == pytest.approx(task.baseline(), rel=1e-6)
    assert task.baseline() == math.log(10)


def test_files_are_located_at_the_first_batch_and_not_before(tmp_path):
    task = PixelMNIST(data_root=tmp_path)
    batches = task.batches("train", 2)
    with pytest.raises(MissingDataError, match="train-images-idx3-ubyte"):
        next(batches)


@pytest.mark.usefixtures("files")
def test_few_evaluation_examples_are_the_first_of_the_whole_split():
    whole = next(PixelMNIST().batches("test", 7))
    (few,) = PixelMNIST(eval_examples=7).batches("test", 100)
    assert torch.equal(few.inputs, whole.inputs)
