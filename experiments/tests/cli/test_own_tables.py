"""The commands on tables of the user: `fit`, `predict` and `forecast`."""

import datetime
import gzip
import io
import os
import pathlib
import re
import threading
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from eigenrnn.estimators import SequenceClassifier, SequenceForecaster, load
from eigenrnn_experiments.cli import main
from training_run import one_thread

FIT = "--sequence unit --time ms --ignore note --epochs 4 --hidden_size 8 --out model.pt"


def readings(count=24):
    """Rows in random order; the mean of a channel tells the activity."""
    rng = np.random.default_rng(0)
    rows = []
    for unit in range(count):
        kind = unit % 2
        for step in range(6 + unit % 3):
            ax, ay = rng.normal(2 * kind, 1, 2)
            rows.append(
                (f"u{unit}", 10 * step, ax, ay, "=x", "walk" if kind else "rest", kind + 0.5)
            )
    columns = ["unit", "ms", "ax", "ay", "note", "activity", "load"]
    return pd.DataFrame(rows, columns=columns).sample(frac=1, random_state=0)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder; return what it prints, or its error with `fails`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EIGENRNN_DEBUG", raising=False)

    def call(line, *, fails=False):
        capsys.readouterr()
        with one_thread():
            assert main(line.split()) == (2 if fails else 0)
        printed = capsys.readouterr()
        return printed.err if fails else printed.out

    return call


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_is_fitted_and_predicted_as_in_python(run, tmp_path, suffix):
    table = readings()
    file = tmp_path / f"a.{suffix}"
    table.to_csv(file, index=False) if suffix == "csv" else table.to_parquet(file)
    table = pd.read_csv(file) if suffix == "csv" else table
    line = f"fit {file} --target activity {FIT.replace('note', 'note load')}"
    assert "fitted with GRU(2, 8) on 24" in run(line)
    printed = run(f"predict model.pt {file} --out out.csv")
    found = pd.read_csv("out.csv")
    groups = table.sort_values("ms", kind="stable").groupby("unit", sort=False)
    parts = [part for _, part in groups]
    X = [part[["ax", "ay"]] for part in parts]
    y = [part["activity"].iloc[0] for part in parts]
    with one_thread():
        expected = SequenceClassifier(hidden_size=8, epochs=4, random_state=0).fit(X, y)
    np.testing.assert_allclose(
        found[["probability rest", "probability walk"]], expected.predict_proba(X), atol=1e-6
    )
    assert found["prediction"].tolist() == expected.predict(X).tolist()
    assert f"accuracy {expected.score(X, y):.4g}" in printed
    table[["unit", "ms", "ay", "ax"]].to_csv("bare.csv", index=False)
    assert "accuracy" not in run("predict model.pt bare.csv --out bare-out.csv")
    pd.testing.assert_frame_equal(pd.read_csv("bare-out.csv"), found)


def test_numbers_with_fractions_make_a_regressor(run):
    readings().to_csv("a.csv", index=False)
    run(f"fit a.csv --target load {FIT.replace('note', 'note activity')}")
    assert load("model.pt").target_mean_.shape == ()
    assert "R2" in run("predict model.pt a.csv --out out.csv")


def test_an_option_that_is_repeated_is_refused(run):
    """The last one alone would count, and a label could stay among the channels."""
    readings().to_csv("a.csv", index=False)
    said = run(f"fit a.csv --target activity --ignore load {FIT}", fails=True)
    assert "expected --ignore once, got it twice" in said
    assert not pathlib.Path("model.pt").exists()


def test_an_index_of_parquet_with_a_name_is_a_column_if_it_is_asked_for(run):
    table = readings()
    line = f"fit a.parquet --target activity {FIT.replace('note', 'note load')}"
    table.to_parquet("a.parquet")
    expected = run(line)
    for index in (["unit"], ["unit", "ms"]):
        table.set_index(index).to_parquet("a.parquet")
        assert run(line) == expected
    assert "GRU(2, 8)" in expected
    table.set_index("ms", drop=False).to_parquet("a.parquet")
    assert run(line) == expected
    table.rename_axis("row").to_parquet("a.parquet")  # a name alone makes no channel
    assert run(line) == expected


def test_decimals_of_parquet_are_numbers_and_dates_no_answers(run):
    table = readings()
    table["load"] = table["load"].map(lambda value: Decimal(str(value)))
    table["day"] = datetime.date(2026, 11, 30)
    table.to_parquet("a.parquet")
    line = f"fit a.parquet --target load {FIT.replace('note', 'note activity day')}"
    assert "SequenceRegressor" in run(line)
    said = run(line.replace("load", "day", 1).replace("activity day", "activity load"), fails=True)
    assert "expected numbers or texts in column day, got date" in said


WRONG = {
    "fit a.csv --target activty --out m.pt": "did you mean activity",
    "fit a.csv --target activity --out m.pt": "--sequence",
    "fit a.csv --target ax --sequence unit --out m.pt": "one value of ax in each sequence",
    "fit a.csv --target activity --sequence unit --out m.pt": "note of sequence 0, got",
    "fit a.csv --target activity --sequence unit --layer GRUU --out m.pt": "did you mean GRU",
    "fit b.csv --target activity --sequence unit --time ms --out m.pt": "ISO dates such as",
    "fit d.csv --target activity --sequence unit --time ms --out m.pt": "got '2000-13'",
    "fit a.csv --target activity --sequence unit --out no/m.pt": "a folder that exists",
    "fit a.csv --target unit --sequence unit --out m.pt": "unit as --target and as --sequence",
    "fit k.csv --target activity --sequence unit --out m.pt": "column of a channel beside",
    "fit e.csv --target activity --sequence unit --ignore note --out m.pt": "'Unnamed: 0'",
    "fit f.csv --target activity --sequence unit --out m.pt": "column unit, got none in row 1",
    "fit g.csv --target activity --sequence unit --out m.pt": "the header for each cell",
    "fit h.csv.gz --target activity --sequence unit --out m.pt": "h.csv.gz cannot be read",
    "fit a.csv --target activity --sequence unit --out pipe": "expected a file",
    "predict a.csv a.csv": "expected a file of estimator.save",
    "forecast a.csv --horizon 3 --target ax --time ax": "ax as --target and as --time",
    "forecast i.csv --horizon 3 --time year": "got 1929 before 1931",
    "forecast j.csv --horizon 3": "got step twice",
    "forecast a.csv --horizon 3 --target ax --time when": "'when'",
    "forecast a.csv --horizon 3 --target ax --coverage 2": "got 2",
    "forecast c.csv --horizon 3 --time month": "none for 2020-03-01",
}


@pytest.mark.parametrize(("line", "said"), WRONG.items(), ids=WRONG)
def test_what_does_not_fit_is_named_in_one_line(run, tmp_path, line, said):
    table = readings(6)
    table.to_csv("a.csv", index=False)
    table.assign(ms="5 o'clock").to_csv("b.csv", index=False)
    table.assign(ms="2000-13").to_csv("d.csv", index=False)
    table.to_csv("e.csv")  # the numbers of the rows come first, without a name
    table.assign(unit=None).to_csv("f.csv", index=False)
    table[["unit", "activity"]].to_csv("k.csv", index=False)
    os.mkfifo("pipe")
    rows = pathlib.Path("a.csv").read_text().splitlines()
    pathlib.Path("g.csv").write_text("\n".join([rows[0], *(f"{row},1" for row in rows[1:])]))
    pathlib.Path("h.csv.gz").write_bytes(gzip.compress("\n".join(rows).encode())[:-20])
    months = pd.date_range("2020-01-01", periods=30, freq="MS").delete(2)
    pd.DataFrame({"month": months, "sales": range(29)}).to_csv("c.csv", index=False)
    years = np.delete(np.arange(1900, 1960), 30)
    pd.DataFrame({"year": years, "sales": range(59)}).to_csv("i.csv", index=False)
    pd.DataFrame({"step": range(60), "sales": range(60)}).to_csv("j.csv", index=False)
    assert said in run(line, fails=True)
    assert not (tmp_path / "m.pt").exists()


@pytest.mark.parametrize(
    "times",
    [
        ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T04:00:00+01:00"],
        ["1999-12", "2000-01", "2000-02"],
        ["00:00:09", "00:00:10", "1 days"],
        ["9", "10", "1e3"],
    ],
    ids=["summer time", "months", "durations", "numbers"],
)
def test_times_are_no_texts(run, times):
    rows = [f"{k},{t},{9 * number},{k % 2}" for k in range(8) for number, t in enumerate(times)]
    for name, order in (("ordered", 1), ("reversed", -1)):
        with pathlib.Path(f"{name}.csv").open("w") as file:
            file.write("\n".join(["unit,when,x,y", *rows[::order]]))
        run(f"fit {name}.csv --target y --sequence unit --time when --epochs 1 --out {name}.pt")
        run(f"predict {name}.pt ordered.csv --out {name}-out.csv")
    steps = pd.read_csv("ordered-out.csv").sort_values("sequence")
    run("predict ordered.pt reversed.csv --out same.csv")
    same = pd.read_csv("same.csv").sort_values("sequence")
    np.testing.assert_allclose(steps.to_numpy(), same.to_numpy(), atol=1e-7)


def test_leading_zeros_are_kept_and_other_numbers_stay_numbers(run):
    k, step = np.divmod(np.arange(72), 3)
    units = [f"{number:03}" for number in k]
    kinds = np.array(["01", "1", "12"])[k % 3]
    table = pd.DataFrame({"unit": units, "x": k % 4 + step, "kind": kinds})
    table.to_csv("a.csv", index=False)
    table[table["kind"] == "12"].to_csv("some.csv", index=False)
    table.replace({"kind": {"01": "3"}}).to_csv("whole.csv", index=False)
    table.replace({"kind": {"01": "01.5"}}).to_csv("numbers.csv", index=False)
    found = {}
    for name in ("a", "whole", "numbers"):
        run(f"fit {name}.csv --target kind --sequence unit --epochs 1 --out {name}.pt")
        run(f"predict {name}.pt {name}.csv --out out.csv")
        found[name] = pd.read_csv("out.csv", dtype=str)
        assert found[name]["sequence"].tolist() == [f"{k:03}" for k in range(24)]
    assert list(found["a"])[2:] == ["probability 01", "probability 1", "probability 12"]
    assert "accuracy" in run("predict a.pt some.csv --out out.csv")
    assert load("whole.pt").classes_.tolist() == [1, 3, 12]
    assert load("numbers.pt").target_mean_.shape == ()


@pytest.mark.parametrize("piped", [False, True])
def test_names_such_as_that_of_namibia_are_not_missing(run, monkeypatch, piped):
    rows = [f"{k},{t},{k % 2 + t},{('NA', 'None')[k % 2]}" for k in range(11) for t in range(3)]
    rows += ["NA,0,1,None"]  # a sequence called NA
    text = "\n".join(["land,when,x,kind", *rows])
    pathlib.Path("a.csv").write_text(text)
    run("fit a.csv --target kind --sequence land --time when --epochs 1 --out a.pt")
    assert load("a.pt").classes_.tolist() == ["NA", "None"]
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    run(f"predict a.pt {'-' if piped else 'a.csv'} --out out.csv")
    found = pd.read_csv("out.csv", keep_default_na=False)
    assert found["sequence"].tolist() == [*map(str, range(11)), "NA"]


LABELS = {
    "integers": ("1", "2"),
    "zeros": ("01", "02"),
    "texts": ("a", "b"),
    "truths": ("True", "False"),
    "numbers": ("0.5", "3.5"),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_scores_are_those_of_the_sequences_with_an_answer(run, labels):
    unit, step = np.divmod(np.arange(96), 4)
    table = pd.DataFrame({"unit": unit, "x": 3 * (unit % 2) + unit * step % 7 / 10})
    table["y"] = np.array(labels)[unit % 2]
    table.to_csv("a.csv", index=False)
    run("fit a.csv --target y --sequence unit --hidden_size 4 --epochs 9 --lr 0.02 --out a.pt")
    every = run("predict a.pt a.csv --out all.csv")
    table[unit % 5 > 0].to_csv("answered.csv", index=False)
    expected = run("predict a.pt answered.csv --out out.csv")
    assert "on 19 sequences" in expected
    assert {"accuracy 1," in every, "R2" in every} == {True, False}
    table.loc[unit % 5 == 0, "y"] = None
    table.to_csv("some.csv", index=False)
    assert run("predict a.pt some.csv --out out.csv") == expected
    assert pathlib.Path("out.csv").read_text() == pathlib.Path("all.csv").read_text()
    table.assign(y=None).to_csv("none.csv", index=False)
    assert run("predict a.pt none.csv --out out.csv") == "wrote out.csv\n"


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch):
    """A forecaster trains for less time; its tests have the accuracy of the default."""
    monkeypatch.setitem(SequenceForecaster.__init__.__kwdefaults__, "epochs", 2)


def sales(count, **columns):
    t = np.arange(count)
    return pd.DataFrame({**columns, "sales": 100 + t + 10 * np.sin(t / 2) + t * 7 % 3})


def test_a_forecast_has_the_dates_that_follow_and_the_numbers_of_python(run):
    months = pd.date_range("2020-01-01", periods=60, freq="MS")
    sales(60, month=months, note=1).to_csv("a.csv", index=False)
    line = "forecast a.csv --target sales --time month --horizon 3 --season 12"
    found = pd.read_csv(io.StringIO(run(line)))
    assert found["month"].tolist() == ["2025-01-01", "2025-02-01", "2025-03-01"]
    with one_thread():
        expected = SequenceForecaster(season=12, random_state=0).fit(sales(60)["sales"].to_numpy())
    np.testing.assert_allclose(found["sales"], expected.predict(3), rtol=1e-7)
    ends = expected.forecast(3, 0.9)
    np.testing.assert_allclose(found["sales lower"], ends.lower, rtol=1e-7)
    np.testing.assert_allclose(found["sales upper"], ends.upper, rtol=1e-7)


def test_several_series_of_a_table_are_counted_in_steps(run):
    table = pd.concat([sales(40, shop="a"), sales(50, shop="b")])
    table.to_csv("a.csv", index=False)
    found = pd.read_csv(io.StringIO(run("forecast a.csv --sequence shop --horizon 2")))
    assert found["shop"].tolist() == ["a", "a", "b", "b"]
    assert found["step"].tolist() == [1, 2, 1, 2]


def test_a_column_of_times_called_step_goes_on(run):
    sales(60, step=range(1000, 1060)).to_csv("a.csv", index=False)
    found = pd.read_csv(io.StringIO(run("forecast a.csv --time step --horizon 2")))
    assert found["step"].tolist() == [1060, 1061]


@pytest.mark.parametrize("at_the_end_of", ["rows", "rows and header"])
def test_commas_at_the_end_of_lines_shift_no_column(run, at_the_end_of):
    sales(60, shop="01").to_csv("a.csv", index=False)
    expected = run("forecast a.csv --horizon 2 --sequence shop")
    header, *rows = pathlib.Path("a.csv").read_text().splitlines()
    if at_the_end_of != "rows":
        header += ","
    pathlib.Path("b.csv").write_text("\n".join([header, *(f"{row}," for row in rows)]))
    assert run("forecast b.csv --horizon 2 --sequence shop") == expected


TIMES = {
    "30 Hz in milliseconds": (np.arange(60) / 30).round(3),
    "single precision": np.arange(60, dtype=np.float32) * np.float32(0.1),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_rounded_times_are_equally_far_apart(run, times):
    sales(60, second=times).to_parquet("a.parquet")
    found = pd.read_csv(io.StringIO(run("forecast a.parquet --time second --horizon 2")))
    step = times[1] - times[0]
    np.testing.assert_allclose(found["second"], times[-1] + step * np.arange(1, 3), rtol=1e-2)


def test_the_place_of_a_gap_is_named(run):
    times = np.delete(np.arange(60) * 0.1, 7)
    sales(59, second=times).to_csv("a.csv", index=False)
    said = run("forecast a.csv --time second --horizon 2", fails=True)
    assert re.search(r"got 0\.6\d* before 0\.8", said)


def test_a_table_is_read_from_a_pipe(run):
    sales(60, shop="a").to_csv("a.csv", index=False)
    os.mkfifo("pipe")
    text = pathlib.Path("a.csv").read_text()
    writer = threading.Thread(target=pathlib.Path("pipe").write_text, args=[text])
    writer.start()
    piped = run("forecast pipe --sequence shop --horizon 2")
    writer.join()
    assert piped == run("forecast a.csv --sequence shop --horizon 2")


def test_numbers_are_printed_in_plain_digits(run):
    sales(60).mul(1e-3).add(1.7e6).to_csv("a.csv", index=False)
    cell = run("forecast a.csv --horizon 1 --target sales").splitlines()[1].split(",")[1]
    assert len(cell.replace(".", "")) <= 12
    assert "e" not in cell
