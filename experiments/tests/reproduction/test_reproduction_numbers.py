"""The numbers of RESULTS.md: differences, remarks and durations; and the figures."""

import math
from dataclasses import replace

import numpy as np
import pytest
from reproduction.agreement import DIFFERENT, agreement, margin
from reproduction.archive import (
    Archive,
    comparison_of,
    current_runs,
    paper_of,
    rows_by_name,
    runs_by_row,
)
from reproduction.figures import BARS, CURVES, curve_figures, longest_runs, paper_figures
from reproduction.page import PAPERS, TEXTS, read_texts
from reproduction.recipes import RECIPES

from eigenrnn_experiments.recipes import Reported
from eigenrnn_experiments.recipes.comparison import compared_numbers, table_of
from eigenrnn_experiments.training import RunKey
from eigenrnn_experiments.training.run import Length
from recipes_for_results import FIGURE, TABLE, archived_run, of_figure, recipes, row


@pytest.mark.parametrize(
    ("ours", "paper", "difference"),
    [
        ((0.0952101, 0.0956781), 0.095, "+0.000444"),
        ((0.0949504, 0.09525), 0.0951, "0"),
        ((2.34e-5,), 2.28e-5, "+6.0e-07"),
        ((12.0873,), 12.1, "-0.01"),
    ],
)
def test_a_difference_has_the_digits_of_its_error(ours, paper, difference):
    assert cell(reported(paper, runs=ours), "difference") == difference


def test_every_number_of_ours_that_differs_has_a_remark_and_a_worse_one_what_was_tried():
    remarks = read_texts(TEXTS, RECIPES).remark
    remarked = {(remark.recipe, row): remark for remark in remarks for row in remark.rows}
    runs, changed_since = current_runs(RECIPES, Archive().runs())
    assert changed_since == {}
    rows = rows_by_name(RECIPES)
    for name, its in runs_by_row(RECIPES, runs).items():
        for reported in compared_numbers(rows[name]):
            found = agreement(comparison_of(rows[name], reported, its))
            if found in DIFFERENT:
                assert name in remarked
                assert remarked[name].tried or found != "worse here", name


def remark(rows='["exact"]', kind='"open"', recipe=f'"{TABLE}"', text='"x"'):
    return f"[[remark]]\nkind = {kind}\nrecipe = {recipe}\nrows = {rows}\ntext = {text}\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (remark('["GRU"]'), "got 'GRU'"),
        (remark(kind='"odd"'), "'odd'"),
        ('[papers]\nother = "x"', "got {'other'}"),
    ],
)
def test_a_text_about_something_unknown_is_rejected(tmp_path, content, said):
    path = tmp_path / "texts.toml"
    path.write_text(content)
    with pytest.raises(ValueError, match=said):
        read_texts(path, recipes())


def test_every_paper_has_a_text_and_a_picture():
    assert read_texts(TEXTS, RECIPES).papers.keys() == PAPERS.keys()
    assert CURVES.keys() | BARS.keys() == PAPERS.keys()
    for paper in PAPERS:
        its = {name: recipe for name, recipe in RECIPES.items() if paper_of(name) == paper}
        assert paper_figures(Archive(), its, paper)


def reported(value, error=None, runs=(1.0, 1.0), baseline=None, **fields):
    """Compare a row whose paper prints a number with its runs."""
    stated = Reported(value, "table 1", error=error, **fields)
    known = row(reported=(stated,))
    ended = [
        archived_run(known, RunKey(TABLE, known.label, seed=seed), value=value, baseline=baseline)
        for seed, value in enumerate(runs)
    ]
    return comparison_of(known, stated, ended)


def cell(compared, heading):
    """Return a cell of the table of one number."""
    table = table_of([compared])
    return dict(zip(table.headings, table.rows[0], strict=True))[heading]


@pytest.mark.parametrize(
    ("value", "error", "runs", "expected"),
    [
        (0.973, 0.2, (0.9, 1.0), 0.2),
        (0.973, 0.02, (0.9, 1.0), 0.1),
        (0.973, None, (1.0, 1.0), 0.0005),
        (0.0, None, (1.0,), 5e-4),
        (1.227, 0.0, (1.0, 1.0), 0.0005),  # an error that is printed as zero
    ],
)
def test_the_margin_follows_from_error_digits_and_runs(value, error, runs, expected):
    assert margin(reported(value, error, runs)) == pytest.approx(expected, rel=1e-12)


def test_printed_zeros_count_as_digits():
    known = reported(0.92, decimals=3)
    assert margin(known) == pytest.approx(0.0005, rel=1e-12)
    assert cell(known, "paper") == "0.920"
    assert cell(reported(5e-5, decimals=6), "paper") == "5.0e-05"
    assert margin(reported(0.92)) == pytest.approx(0.005, rel=1e-12)


def test_a_number_read_off_a_figure_has_the_accuracy_of_reading():
    assert margin(reported(0.945, reading=0.005)) == pytest.approx(0.005, rel=1e-12)
    assert margin(reported(0.9, reading=0.005)) == pytest.approx(0.05, rel=1e-12)


@pytest.mark.parametrize("name", RECIPES)
def test_a_number_read_off_a_figure_states_the_accuracy_of_reading(name):
    numbers = [each for r in RECIPES[name].rows for each in r.reported]
    assert all(each.reading is not None for each in numbers if "read off" in each.note)


def test_a_number_that_cannot_be_judged_neither_agrees_nor_differs():
    assert agreement(reported(0.5, runs=(0.5,), unjudged="too hard")) == "cannot be judged"
    assert agreement(reported(0.5, runs=(), unjudged="too hard")) is None


@pytest.mark.parametrize(
    ("paper", "ours", "quantity", "expected"),
    [
        (0.095, 0.0951, "loss", "at chance in both"),
        (0.095, 0.3, "loss", "at chance in both"),
        (0.095, 0.0891, "loss", "better here"),
        (0.084, 0.0951, "loss", "worse here"),
        (0.095, math.inf, "loss", "worse here"),
        (0.095, 0.0951, "accuracy", "agrees"),
    ],
)
def test_two_losses_at_the_chance_level_are_no_agreement(paper, ours, quantity, expected):
    known = reported(paper, runs=(ours,), baseline=0.0948, quantity=quantity)
    assert agreement(known) == expected


def test_a_loss_without_a_known_chance_level_is_compared():
    assert agreement(reported(0.095, runs=(0.0951,), quantity="loss")) == "agrees"


def bounded(at_most, runs):
    """Compare a row whose paper gives only a bound with its runs."""
    return reported(None, None, runs, quantity="loss", at_most=at_most)


@pytest.mark.parametrize(
    ("runs", "differs"),
    [
        ((0.024,), False),
        ((0.026,), True),
        ((0.001, 0.001, 0.09), False),
        ((0.001, 0.3, 0.9), True),
        ((math.nan,), True),
        ((), False),
    ],
)
def test_a_number_above_the_bound_of_a_curve_differs(runs, differs):
    expected = "worse here" if differs else "agrees"
    assert agreement(bounded(0.02, runs)) == (expected if runs else None)


def test_a_curve_without_a_bound_is_not_compared():
    assert agreement(bounded(None, (5.0,))) is None


def test_a_figure_shows_the_median_over_the_seeds(archive):
    known = recipes()
    curves = ([4.0, 2.0, 0.0], [5.0, 3.0, 1.0], [9.0, 9.0, None])
    for seed, values in enumerate(curves):
        archive.add(of_figure(known[TABLE], seed, values))
    (picture,) = curve_figures(archive, known)
    np.testing.assert_allclose(picture.series["scoRNN 6"], [5.0, 3.0, 0.5])
    np.testing.assert_allclose(picture.bands["scoRNN 6"][:, 0], [4.5, 7.0])
    assert list(picture.steps) == [10, 20, 30]


def test_a_figure_of_a_loss_shows_the_baseline(archive):
    known = recipes()
    figure = replace(known[FIGURE], rows=known[FIGURE].trained)
    archive.add(replace(of_figure(figure, 0, [4.0, 2.0, 1.0], "test_loss"), baseline=0.7))
    (picture,) = curve_figures(archive, known)
    assert list(picture.series["chance level"]) == [0.7] * 3
    assert picture.quantity == "test loss"


def test_a_figure_omits_diverged_runs(archive):
    known = recipes()
    archive.add(
        replace(of_figure(known[TABLE], 0, [4.0, 2.0, 1.0]), state="diverged", numbers=None)
    )
    assert curve_figures(archive, known) == []


def test_a_figure_shows_the_longest_run_of_a_seed(archive):
    known = recipes()
    full = of_figure(known[TABLE], 0, [4.0, 2.0, 1.0])
    archive.add(replace(full, steps=30))
    (picture,) = curve_figures(archive, known)
    assert list(picture.series["scoRNN 6"]) == [4.0, 2.0, 1.0]
    key = replace(full.key, reduced=Length("steps", 10))
    runs = [replace(full, steps=30), replace(full, steps=10, key=key)]
    assert longest_runs(runs) == runs[:1]
