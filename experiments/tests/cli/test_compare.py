"""The table of several runs in the terminal, and tables as CSV and Markdown."""

import csv
import io

import pytest

from eigenrnn_experiments.cli import main
from eigenrnn_experiments.tables import NumberCell, Table, to_csv, to_markdown
from reported_runs import train_all

HOSTILE = "=HYPERLINK(1)|a_b & 50% \\ *c* <i>~^$#{}"
TABLE = Table.of(
    [
        {"network": HOSTILE, "test loss": NumberCell(0.125, "0.1250 ± 0.0100", 0.01)},
        {
            "network": "two\nlines, and a comma",
            "test loss": NumberCell(-2.0, "-2.000"),
            "steps": "9",
        },
    ]
)


def test_csv_has_unrounded_numbers_and_errors():
    head, first, second = csv.reader(io.StringIO(to_csv(TABLE)))
    assert head == ["network", "test loss", "test loss standard error", "steps"]
    assert first == [HOSTILE, "0.125", "0.01", ""]
    assert second == ["two\nlines, and a comma", "-2.0", "", "9"]


def test_markdown_escapes_what_it_would_read_as_markup():
    head, marks, first, second = to_markdown(TABLE).splitlines()
    assert head == "| network | test loss | steps |"
    assert marks == "| --- | ---: | ---: |"
    assert first == (
        r"| =HYPERLINK(1)\|a\_b \& 50% \\ \*c\* \<i\>\~^\$\#\{\} | 0.1250 ± 0.0100 |  |"
    )
    assert second == "| two lines, and a comma | -2.000 | 9 |"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return train_all(tmp_path_factory.mktemp("compare") / "runs")


def table_of(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.long
def test_the_command_prints_one_row_for_runs_that_differ_only_by_their_seed(runs, capsys):
    assert main(["compare", str(runs), "--format", "csv"]) == 0
    captured = capsys.readouterr()
    rows = table_of(captured.out)
    assert len(rows) < sum(1 for _ in runs.rglob("run.json"))
    assert all(float(row["test loss"]) > 0 and int(row["parameters"]) > 0 for row in rows)
    assert any(row["test loss standard error"] for row in rows)
    assert "The best model of each run by validation accuracy" in captured.err


@pytest.mark.parametrize(
    ("option", "first"),
    [([], "| network |"), (["--format", "csv"], "network,")],
)
def test_the_command_prints_markdown_unless_told_otherwise(runs, capsys, option, first):
    assert main(["compare", *map(str, runs.iterdir()), *option]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(first)
    assert "mean ± standard error over seeds." in " ".join(captured.err.split())


def test_the_command_writes_a_file(runs, tmp_path, capsys):
    out = tmp_path / "table.csv"
    assert main(["compare", str(runs), "--format", "csv", "--out", str(out)]) == 0
    assert table_of(out.read_text())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "expected a folder that holds runs, got nowhere"),
        (["--format", "html", "."], "html"),
        ([".", "--out", "nowhere/table.csv"], "expected a file in a folder that exists as --out"),
        ([], "runs"),
    ],
)
def test_wrong_arguments_are_named(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EIGENRNN_DEBUG", raising=False)
    assert main(["compare", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_runs_on_different_files_are_different_tasks(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("calm.txt", "wild.txt")):
        (tmp_path / name).write_text("the same words in each line\n" * 40)
        command = f"train --task Text --task.path {name} --task.window 5 --hidden_size 4"
        options = f"--steps 1 --batch_size 2 --seed {seed} --out runs/{seed}"
        assert main([*command.split(), *options.split()]) == 0
    capsys.readouterr()
    assert main(["compare", "runs", "--format", "csv"]) == 0
    tasks = [row["task"] for row in table_of(capsys.readouterr().out)]
    assert ["calm.txt" in tasks[0], "wild.txt" in tasks[1]] == [True, True]
