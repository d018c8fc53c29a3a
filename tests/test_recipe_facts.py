"""What a recipe tells before it is run: how long it takes, and whether its data is there."""

import json
from dataclasses import replace

import pytest

from eigenrnn.experiments.cli.main import main
from eigenrnn.experiments.data.files import DataFile, absent
from eigenrnn.experiments.data.mnist import FILES
from eigenrnn.experiments.recipes.cost import ONE_GPU, estimated_seconds
from eigenrnn.experiments.tasks import (
    CharPTB,
    Copying,
    Enwik8,
    PixelMNIST,
    Series,
    Speech,
    Text,
    WordPTB,
)
from shrunken import TRAINED

COPYING = TRAINED["scornn/fig1: scoRNN 190 T=1000"]


def a_file(name):
    return DataFile(f"set/{name}", "0" * 64, ())


def test_a_file_is_absent_until_it_is_there(tmp_path):
    file = a_file("a.txt")
    assert absent([file], tmp_path) == "set/a.txt"
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.txt").touch()
    assert absent([file], tmp_path) is None


def test_one_of_several_forms_of_a_file_will_do(tmp_path):
    forms = (a_file("a.txt"), a_file("a.txt.gz"))
    assert absent([forms], tmp_path) == "set/a.txt"
    (tmp_path / "a.txt.gz").touch()
    assert absent([forms], tmp_path) is None


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        (PixelMNIST, FILES["train", "images"].path),
        (CharPTB, "ptb/ptb.char.train.txt"),
        (WordPTB, "ptb/ptb.train.txt"),
        (Enwik8, "enwik8"),
        (Text, "tinyshakespeare/input.txt"),
        (Speech, "fsdd/fsdd-recordings.zip"),
    ],
)
def test_a_task_names_the_file_that_is_missing(task, wanted, tmp_path):
    assert wanted in task(data_root=tmp_path).missing_data()


def test_a_corpus_that_must_be_bought_is_missing_too(tmp_path):
    assert "LDC93S1" in Speech("timit", data_root=tmp_path).missing_data()


def test_ones_own_files_are_looked_for_where_they_are_said_to_be(tmp_path):
    mine = tmp_path / "mine.csv"
    assert Series(train=mine).missing_data() == str(mine)
    mine.touch()
    assert Series(train=mine).missing_data() is None


def test_what_is_drawn_is_never_missing():
    assert Copying(delay=3).missing_data() is None


def test_a_run_of_twice_the_steps_takes_twice_as_long():
    longer = replace(COPYING, settings=replace(COPYING.settings, steps=20_000))
    assert estimated_seconds(longer) == pytest.approx(2 * estimated_seconds(COPYING))


def test_each_batch_of_an_evaluation_takes_a_third_of_a_step():
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


def test_the_copying_problem_takes_some_minutes():
    assert 60 < estimated_seconds(COPYING) < 600


def test_an_lstm_takes_longer_than_a_network_with_one_matrix():
    lstm = replace(TRAINED["scornn/fig1: LSTM 68 T=1000"], hidden_size=190)
    assert estimated_seconds(lstm) > 2 * estimated_seconds(COPYING)


def test_on_a_gpu_a_step_takes_the_launches_of_its_kernels():
    settings = replace(COPYING.settings, steps=90, batch_size=10, eval_every=90)
    settings = replace(settings, eval_batch_size=None)
    short, long = (
        replace(
            COPYING,
            task=Copying(delay, test_examples=30, validation_examples=30),
            settings=settings,
        )
        for delay in (100, 1_100)
    )
    more = estimated_seconds(long, ONE_GPU) - estimated_seconds(short, ONE_GPU)
    assert more == pytest.approx((90 + 6 / 3) * 1_000 * 10 * 8e-6)


def test_what_depends_on_missing_data_is_not_estimated(tmp_path):
    task = PixelMNIST(data_root=tmp_path)
    row = replace(TRAINED["scornn/table1: scoRNN 170"], task=task)
    assert estimated_seconds(row) is None


@pytest.mark.usefixtures("data_root")
def test_the_list_tells_it_of_every_row(capsys):
    assert main(["list", "recipes", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["recipes"]
    rows = {f"{name}: {row['label']}": row for name, r in listed.items() for row in r["rows"]}
    for name in TRAINED:
        known = rows[name]["missing_data"] is None
        for machine in ("seconds_per_run", "gpu_seconds_per_run"):
            assert (rows[name][machine] is not None) == known, (name, machine)
    assert all(recipe["seeds"] for recipe in listed.values())
