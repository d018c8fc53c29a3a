"""The journal keeps what it should and forgets what came after a step."""

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from eigenrnn.experiments.training.journal import Journal

COLUMNS = ["train_loss", "test_loss"]


def keep(folder, steps, *, after=0, columns=COLUMNS):
    folder.mkdir(exist_ok=True)
    with Journal(folder / "metrics.csv", folder / "board", columns, step=after) as journal:
        for step in steps:
            journal.write(step, {columns[0]: 1 / step})
        journal.sync()


def test_rows_are_on_file_at_once(tmp_path):
    with Journal(tmp_path / "metrics.csv", tmp_path / "board", COLUMNS) as journal:
        journal.write(1, {"train_loss": 0.1, "test_loss": 2})
        journal.write(2, {"train_loss": 1 / 3})
        text = (tmp_path / "metrics.csv").read_text()
    assert text == "step,train_loss,test_loss\n1,0.1,2.0\n2,0.3333333333333333,\n"


def test_what_came_after_the_step_is_forgotten(tmp_path):
    keep(tmp_path / "whole", range(1, 7))
    keep(tmp_path / "halves", range(1, 6))
    with (tmp_path / "halves" / "metrics.csv").open("a") as file:
        file.write("6,0.1")  # a row that a crash cut off
    keep(tmp_path / "halves", range(4, 7), after=3)
    one, two = (tmp_path / name / "metrics.csv" for name in ("whole", "halves"))
    assert one.read_bytes() == two.read_bytes()


def test_the_board_shows_each_step_once(tmp_path):
    keep(tmp_path, range(1, 6))
    keep(tmp_path, range(4, 7), after=3)
    board = EventAccumulator(str(tmp_path / "board")).Reload()
    assert [event.step for event in board.Scalars("train/loss")] == [1, 2, 3, 4, 5, 6]


def test_other_columns_are_refused(tmp_path):
    keep(tmp_path, range(1, 3))
    with pytest.raises(ValueError, match=r"expected the columns step, a in .*, got step, train_l"):
        keep(tmp_path, [3], after=2, columns=["a"])


def test_columns_that_come_last_may_be_added(tmp_path):
    keep(tmp_path, range(1, 3))
    keep(tmp_path, [3], after=2, columns=[*COLUMNS, "radius_l0"])
    text = (tmp_path / "metrics.csv").read_text()
    assert (
        text == "step,train_loss,test_loss,radius_l0\n1,1.0,,\n2,0.5,,\n3,0.3333333333333333,,\n"
    )


def test_columns_that_come_last_may_be_left_out(tmp_path):
    keep(tmp_path, range(1, 3))
    keep(tmp_path, [3], after=2, columns=COLUMNS[:1])
    text = (tmp_path / "metrics.csv").read_text()
    assert text == "step,train_loss,test_loss\n1,1.0,\n2,0.5,\n3,0.3333333333333333,\n"


def test_several_numbers_are_a_histogram_and_no_column(tmp_path):
    with Journal(tmp_path / "metrics.csv", tmp_path / "board", COLUMNS) as journal:
        journal.write(1, {"train_loss": 0.5, "modulus_l0": np.array([1.0, 2.0, 3.0])})
    board = EventAccumulator(str(tmp_path / "board")).Reload()
    assert board.Histograms("modulus/l0")[0].histogram_value.sum == 6
    text = (tmp_path / "metrics.csv").read_text()
    assert text == "step,train_loss,test_loss\n1,0.5,\n"
