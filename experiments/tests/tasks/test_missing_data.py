"""The data files that a task lacks."""

import pytest

from eigenrnn_experiments.data.files import DataFile, missing_file
from eigenrnn_experiments.data.mnist import FILES
from eigenrnn_experiments.tasks import (
    CharPTB,
    Enwik8,
    PixelMNIST,
    Speech,
    Text,
    WordPTB,
)


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
