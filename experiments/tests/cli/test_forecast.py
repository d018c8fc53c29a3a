"""Forecasts of a file from the command line."""

import csv
import io
import math

import numpy as np
import pytest

from eigenrnn.estimators import SequenceForecaster
from eigenrnn_experiments.cli import main
from training_run import one_thread


def sales(t, k=0):
    return 100 + t + 10 * math.sin((t + k) * math.pi / 6) + (t * 7 + k) % 3


@pytest.fixture
def file(tmp_path):
    lines = ["shop,day,sales"]
    for k, name in enumerate("ab"):
        lines += [f"{name},{t},{sales(t, k)}" for t in range(60)]
    path = tmp_path / "sales.csv"
    path.write_text("\n".join(lines))
    return path


def test_the_series_of_a_file_are_continued(file, capsys):
    columns = ["--columns.sequence", "shop", "--columns.time", "day"]
    with one_thread():
        assert main(["forecast", str(file), "--horizon", "3", "--season", "12", *columns]) == 0
        y = [np.array([[sales(t, k)] for t in range(60)]) for k in range(2)]
        forecaster = SequenceForecaster(season=12, random_state=0).fit(y)
        values, (lower, upper) = forecaster.predict(3), forecaster.predict_interval(3, 0.9)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["sequence"] for row in rows] == ["a", "a", "a", "b", "b", "b"]
    assert [row["step"] for row in rows] == ["1", "2", "3", "1", "2", "3"]
    for heading, expected in (("sales", values), ("sales lower", lower), ("sales upper", upper)):
        found = [float(row[heading]) for row in rows]
        np.testing.assert_allclose(found, np.concatenate(expected)[:, 0], rtol=1e-5)


def test_a_file_is_one_series_by_default(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("\n".join(["sales", *(str(sales(t)) for t in range(80))]))
    out = tmp_path / "out.csv"
    with one_thread():
        assert main(["forecast", str(path), "--horizon", "2", "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 3


@pytest.mark.parametrize("arguments", [["--horizon", "0"], ["--horizon", "2", "--coverage", "2"]])
def test_a_wrong_option_is_an_error(file, capsys, arguments):
    columns = ["--columns.sequence", "shop", "--columns.time", "day"]
    assert main(["forecast", str(file), *arguments, *columns]) == 2
    assert arguments[-1] in capsys.readouterr().err


def test_separators_and_decimals_are_options(file, tmp_path, capsys):
    german = tmp_path / "german.csv"
    german.write_text(file.read_text().replace(",", ";").replace(".", ","))
    columns = ["--columns.sequence", "shop", "--columns.time", "day"]
    arguments = ["--horizon", "2", "--separator", ";", "--decimal", ",", *columns]
    with one_thread():
        assert main(["forecast", str(file), *arguments[:2], *columns]) == 0
        expected = capsys.readouterr().out
        assert main(["forecast", str(german), *arguments]) == 0
    assert capsys.readouterr().out == expected


def test_a_large_offset_costs_no_digits(tmp_path, capsys):
    path = tmp_path / "offset.csv"
    path.write_text("\n".join(["sales", *(f"{1.7e9 + sales(t) / 100}" for t in range(80))]))
    with one_thread():
        assert main(["forecast", str(path), "--horizon", "2"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    for row in rows:
        assert float(row["sales lower"]) < float(row["sales"]) < float(row["sales upper"])


def test_a_column_called_sequence_tells_series_apart(file, tmp_path, capsys):
    named = tmp_path / "named.csv"
    named.write_text(file.read_text().replace("shop", "sequence").replace("day", "time"))
    with one_thread():
        assert main(["forecast", str(named), "--horizon", "1"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["sequence"] for row in rows] == ["a", "b"]


def test_columns_named_like_answers_are_forecast(tmp_path, capsys):
    path = tmp_path / "target.csv"
    path.write_text("\n".join(["target", *(str(sales(t)) for t in range(80))]))
    with one_thread():
        assert main(["forecast", str(path), "--horizon", "1"]) == 0
    assert "target lower" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "option"),
    [
        ("shop;sales\na;1\n", "(--separator)"),
        ("shop,sales\na,1\n", "sequence or time, or ignore it (ignored, --columns.ignored"),
        ("time,sales\nMay,1\n", "(--columns.time_format"),
        ("sales,price\n,1\n", "fill it in"),
    ],
)
def test_errors_name_options_of_this_command(tmp_path, capsys, content, option):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    assert main(["forecast", str(path), "--horizon", "1"]) == 2
    error = capsys.readouterr().err
    assert option in error
    assert "--task" not in error
    assert "missing=" not in error
