"""The way of a user's own data in six layouts, from the file to a stream."""

import numpy as np
import pytest
from benchmarks.six_layouts import ACTIVITIES, FILES, IN_MEMORY, STAGES, draw, main, table


def test_both_parts_have_all_classes_and_unequal_lengths():
    parts = draw(48)
    assert [len(part.arrays) for part in parts.values()] == [36, 12]
    for part in parts.values():
        assert set(part.labels) == set(ACTIVITIES)
        lengths = [len(array) for array in part.arrays]
        assert min(lengths) >= 200
        assert max(lengths) <= 600
        assert len(set(lengths)) > 1
    rows = table(parts["test"])
    assert rows.groupby("unit").size().tolist() == [len(a) for a in parts["test"].arrays]
    assert rows.loc[rows.unit == "u0001", "activity"].unique() == parts["test"].labels[1]


@pytest.mark.long
def test_all_ways_end_with_the_same_classes(tmp_path, capsys):
    # the script itself compares the classes of prediction, ONNX Runtime and stream
    walks = main([str(tmp_path), "--sequences", "64", "--epochs", "20"])
    assert [walk.name for walk in walks] == [*FILES, *IN_MEMORY]
    for walk in walks:
        assert list(walk.seconds) == STAGES
        assert 0 < walk.accuracy <= 1
        assert len(np.unique(walk.classes["stream"])) > 1
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2 + len(walks)
    assert printed[2].endswith(f"| {walks[0].accuracy:.3f} |")
