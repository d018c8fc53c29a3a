"""Estimated training times of recipe rows, and the data files that a task lacks."""

from dataclasses import replace

import pytest
from reproduction.archive import Archive
from reproduction.cost import estimated_seconds
from shrunken import TRAINED

from eigenrnn_experiments.data.files import DataFile, missing_file
from eigenrnn_experiments.data.mnist import FILES
from eigenrnn_experiments.tasks import (
    CharPTB,
    Copying,
    Enwik8,
    PixelMNIST,
    Speech,
    Text,
    WordPTB,
)
from eigenrnn_experiments.training import RunKey

COPYING = TRAINED["scornn/fig1: scoRNN 190 T=1000"]


def data_file(name):
    return DataFile(f"set/{name}", "0" * 64, ())


def test_a_file_is_absent_until_it_exists(tmp_path):
    file = data_file("a.txt")
    assert missing_file([file], tmp_path) == "set/a.txt"
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.txt").touch()
    assert missing_file([file], tmp_path) is None


def test_one_of_several_alternative_files_is_enough(tmp_path):
    alternatives = (data_file("a.txt"), data_file("a.txt.gz"))
    assert missing_file([alternatives], tmp_path) == "set/a.txt"
    (tmp_path / "a.txt.gz").touch()
    assert missing_file([alternatives], tmp_path) is None


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (PixelMNIST, FILES["train", "images"].path),
        (CharPTB, "ptb/ptb.char.train.txt"),
        (WordPTB, "ptb/ptb.train.txt"),
        (Enwik8, "enwik8"),
        (Text, "tinyshakespeare/input.txt"),
        (Speech, "fsdd/fsdd-recordings.zip"),
    ],
)
def test_a_task_names_its_missing_file(task, expected, tmp_path):
    assert expected in task(data_root=tmp_path).missing_data()


def test_a_missing_commercial_corpus_is_named(tmp_path):
    assert "LDC93S1" in Speech("timit", data_root=tmp_path).missing_data()


def test_an_evaluation_batch_takes_a_third_of_an_optimiser_step():
    task = Copying(delay=4, test_examples=30, validation_examples=30)
    settings = replace(COPYING.settings, steps=90, batch_size=10, eval_batch_size=None)
    once, three_times = (
        replace(COPYING, task=task, settings=replace(settings, eval_every=every))
        for every in (90, 30)
    )
    ratio = estimated_seconds(three_times) / estimated_seconds(once)
    assert ratio == pytest.approx((90 + 3 * 6 / 3) / (90 + 6 / 3))


def test_the_last_step_is_evaluated_too():
    short = replace(COPYING, settings=replace(COPYING.settings, steps=10, eval_every=4))
    thrice = replace(COPYING, settings=replace(COPYING.settings, steps=10, eval_every=5))
    alone = replace(COPYING, settings=replace(COPYING.settings, steps=10, eval_every=10))
    evaluation = estimated_seconds(thrice) - estimated_seconds(alone)
    assert estimated_seconds(short) - estimated_seconds(alone) == pytest.approx(2 * evaluation)


def test_an_estimate_is_close_to_the_recorded_processor_time():
    row = TRAINED["scornn/fig1: expRNN 190 T=2000"]
    key = RunKey("scornn/fig1", "expRNN 190 T=2000", seed=0)
    (run,) = [run for run in Archive().runs() if run.key == key]
    assert estimated_seconds(row) == pytest.approx(run.processor_seconds, rel=0.25)


def test_a_row_with_missing_data_has_no_estimate(tmp_path):
    task = PixelMNIST(data_root=tmp_path)
    row = replace(TRAINED["scornn/table1: scoRNN 170"], task=task)
    assert estimated_seconds(row) is None
