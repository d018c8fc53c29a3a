"""The rows of `metrics.csv` and TensorBoard, and the rows kept on resuming."""

import time

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from eigenrnn_experiments.training.log import RunLog
from eigenrnn_experiments.training.run import RunFolder

COLUMNS = ["train_loss", "test_loss"]


def write_steps(folder, steps, *, after=0, columns=COLUMNS):
    folder.mkdir(exist_ok=True)
    with RunLog(RunFolder(folder), columns, step=after) as log:
        for step in steps:
            log.write(step, {columns[0]: 1 / step})
        log.sync()


def test_each_row_is_written_at_once(tmp_path):
    with RunLog(RunFolder(tmp_path), COLUMNS) as log:
        log.write(1, {"train_loss": 0.1, "test_loss": 2})
        log.write(2, {"train_loss": 1 / 3})
        text = (tmp_path / "metrics.csv").read_text()
    assert text == "step,train_loss,test_loss\n1,0.1,2.0\n2,0.3333333333333333,\n"


def test_rows_after_the_step_are_discarded(tmp_path):
    write_steps(tmp_path / "whole", range(1, 7))
    write_steps(tmp_path / "halves", range(1, 6))
    with (tmp_path / "halves" / "metrics.csv").open("a") as file:
        file.write("6,0.1")  # a row truncated by a crash
    write_steps(tmp_path / "halves", range(4, 7), after=3)
    one, two = (tmp_path / name / "metrics.csv" for name in ("whole", "halves"))
    assert one.read_bytes() == two.read_bytes()


def test_tensorboard_shows_each_step_once(tmp_path):
    write_steps(tmp_path, range(1, 6))
    # TensorBoard reads the files in the order of their names, which begin with the second. Within
    # one second, file 10 of a process comes before file 9. A resumed run starts seconds later.
    time.sleep(1)
    write_steps(tmp_path, range(4, 7), after=3)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2, 3, 4, 5, 6]


def test_a_file_without_steps_first_is_refused(tmp_path):
    write_steps(tmp_path, range(1, 3))
    file = tmp_path / "metrics.csv"
    file.write_text(file.read_text().replace("step", "time"))
    with pytest.raises(ValueError, match=r"expected the column step first in .* got time"):
        write_steps(tmp_path, [3], after=2)


def test_columns_may_be_appended(tmp_path):
    write_steps(tmp_path, range(1, 3))
    write_steps(tmp_path, [3], after=2, columns=[*COLUMNS, "radius_l0"])
    text = (tmp_path / "metrics.csv").read_text()
    assert (
        text == "step,train_loss,test_loss,radius_l0\n1,1.0,,\n2,0.5,,\n3,0.3333333333333333,,\n"
    )


def test_last_columns_may_be_omitted(tmp_path):
    write_steps(tmp_path, range(1, 3))
    write_steps(tmp_path, [3], after=2, columns=COLUMNS[:1])
    text = (tmp_path / "metrics.csv").read_text()
    assert text == "step,train_loss,test_loss\n1,1.0,\n2,0.5,\n3,0.3333333333333333,\n"


def test_an_array_is_a_histogram_and_not_a_column(tmp_path):
    with RunLog(RunFolder(tmp_path), COLUMNS) as log:
        log.write(1, {"train_loss": 0.5, "modulus_l0": np.array([1.0, 2.0, 3.0])})
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Histograms("modulus/l0")[0].histogram_value.sum == 6
    text = (tmp_path / "metrics.csv").read_text()
    assert text == "step,train_loss,test_loss\n1,0.5,\n"
