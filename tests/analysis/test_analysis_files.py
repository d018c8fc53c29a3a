"""The files of an analysis: a figure and a table, each written atomically."""

import csv
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from eigenrnn.analysis import Analysis, plot


@dataclass(frozen=True)
class Squares(Analysis):
    values: NDArray[np.float64]

    def plot(self):
        figure, (axes,) = plot.canvas()
        plot.lines(axes, np.arange(len(self.values)), {"squares": self.values})
        plot.label(axes, "number", "square")
        return figure

    def table(self):
        return {"number": np.arange(len(self.values)), "square": self.values}


def test_table_contains_the_numbers(tmp_path):
    picture, table = Squares(np.arange(3.0) ** 2).save(tmp_path / "deep" / "squares")
    assert picture.read_bytes().startswith(b"\x89PNG")
    with table.open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"number": str(n), "square": str(n * n)} for n in range(3)
        ]


def test_dot_in_a_name_is_kept(tmp_path):
    Squares(np.ones(2)).save(tmp_path / "gamma=0.9")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gamma=0.9.csv", "gamma=0.9.png"]


def test_columns_of_unequal_length_raise_and_write_nothing(tmp_path):
    class Ragged(Squares):
        def table(self):
            return {"number": np.arange(2), "square": self.values}

    with pytest.raises(ValueError, match=r"shorter|longer"):
        Ragged(np.ones(3)).save(tmp_path / "ragged")
    assert not (tmp_path / "ragged.csv").exists()
