"""The HTML report: the files it reads, the numbers it computes and the page."""

import math
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from eigenrnn.analysis.state_map import recurrent_weights
from eigenrnn_experiments.registry import RECIPES
from eigenrnn_experiments.report import read_records, write_report
from eigenrnn_experiments.report.figures import learning_curves
from eigenrnn_experiments.report.learning_curves import MAX_POINTS, averaged_over, curve, group
from eigenrnn_experiments.report.records import Records
from eigenrnn_experiments.report.tables import results
from eigenrnn_experiments.statistics import rounded, spaced_indices
from eigenrnn_experiments.tables import to_csv
from eigenrnn_experiments.training.run import (
    Description,
    Length,
    Run,
    RunFolder,
    RunKey,
    RunNumber,
)
from reported_runs import (
    STEPS,
    WITH_DYNAMICS,
    rebuild,
    train_all,
    write_recipe,
)

HOSTILE = '</script><img src=x onerror="alert(1)"> & \u2028 <b>'
EPS = np.finfo(np.float64).eps


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_all(tmp_path_factory.mktemp("report") / "runs")


@pytest.fixture
def runs(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "runs")


@pytest.fixture(scope="module")
def page(trained):
    return write_report([trained], trained.parent / "page.html", rebuild=rebuild).read_text()


class Page(HTMLParser):
    """Collects the tags, the table cells and the headings of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self.headings, self.inside = [], [], [], ()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = (tag, dict(attrs).get("id"))

    def handle_endtag(self, _):
        self.inside = ()

    def handle_data(self, data):
        if self.inside[:1] in {("td",), ("th",)}:
            self.cells.append(data)
        if self.inside[:1] in {("h1",), ("h2",), ("h3",)}:
            self.headings.append(data)


def record(folder, seed=0, *, name=None, step=(1, 2), settings=None, **columns):
    """Return the record of a run without training it."""
    known = Run(
        key=RunKey(seed=seed),
        name=name or "",
        task=Description("Copying", {"delay": 10, "data_seed": 0}),
        layer="ScoRNN",
        parameters=7,
        settings={"steps": 1, "lr": 0.1, "seed": seed, **(settings or {})},
    )
    metrics = {name: np.array(values, dtype=float) for name, values in columns.items()}
    run = RunFolder(folder)
    run.run, run.dynamics = known, []
    run.metrics = {"step": np.array(step, dtype=float), **metrics}
    return run


def records(*runs):
    return Records(tuple(runs))


def drawn(text):
    """Return the names of the curves, and the labels of the pictures of each section."""
    tags = Page(text).tags
    labels = [found["aria-label"] for _, found in tags if found.get("role") == "img"]
    curves = re.findall(r'"name":"([^"]*)"', text.rpartition("</head>")[2])
    return set(curves), labels


def unreadable(runs):
    """Read a folder in which one run is damaged; return the reason."""
    found = read_records([runs])
    ((_, why),) = found.unreadable.items()
    assert len(found.runs) == 3
    return why


def test_runs_are_found_at_any_depth_and_only_once(runs):
    found = read_records([runs.parent, runs, runs / WITH_DYNAMICS])
    assert sorted(run.path.name for run in found.runs) == [
        *("lstm-0", "lstm-1"),
        *("scornn-0", "scornn-1"),
    ]


def test_folder_without_runs_is_rejected_by_name(tmp_path):
    with pytest.raises(
        ValueError, match=re.escape(f"in {tmp_path} or its subfolders, got no run.json")
    ):
        read_records([tmp_path])


def test_an_empty_list_of_folders_is_rejected():
    with pytest.raises(ValueError, match="got none"):
        read_records([])


def test_damaged_dynamics_are_rejected_by_line(runs):
    file = runs / WITH_DYNAMICS / "dynamics.jsonl"
    file.write_text("{}\n" + file.read_text())
    file_name = "scornn-0/dynamics.jsonl"
    assert re.search(
        f"expected an object with a step in line 1 of .*{file_name}", unreadable(runs)
    )


def test_runs_that_differ_only_by_their_seed_are_one_curve(runs):
    found = {
        each.label: [run.run.key.seed for run in each.runs] for each in group(read_records([runs]))
    }
    assert found == {"lstm": [0, 1], "scornn": [0, 1]}


def test_runs_that_differ_by_a_setting_have_it_in_their_label(tmp_path):
    pair = [record(tmp_path / f"a{n}", name="net", settings={"lr": n}) for n in (1, 2)]
    assert [each.label for each in group(records(*pair))] == ["net, lr=1", "net, lr=2"]


def test_data_seeds_do_not_separate_runs(tmp_path):
    pair = [record(tmp_path / f"run-{n}", n) for n in (10, 11)]
    pair[1].run.task.options["data_seed"] = 1
    assert [each.label for each in group(records(*pair))] == ["run"]


@pytest.mark.parametrize(
    ("seeds", "expected", "count"), [([0, 1], "seeds", "2 seeds"), ([3], "", "")]
)
def test_what_is_averaged_is_named(tmp_path, seeds, expected, count):
    runs = [record(tmp_path / str(seed), seed, loss=[1.0, 2.0]) for seed in seeds]
    (each,) = group(records(*runs))
    assert averaged_over([each]) == expected
    names, _ = drawn(learning_curves([each], [each.network], "c"))
    assert names == {f"{each.label} ({count})" if count else each.label}


def test_the_table_says_how_many_runs_diverged():
    runs = [record(Path(str(seed)), seed) for seed in range(4)]
    for run, state in zip(runs, ("ended", "diverged", "unfinished", "diverged"), strict=True):
        run.run = replace(run.run, state=state)
    text = to_csv(results(group(records(*runs))))
    assert "2 of 4 diverged, 1 of 4 unfinished" in text


def test_runs_on_other_data_of_one_seed_are_averaged_as_runs(tmp_path):
    pair = [record(tmp_path / f"run-{n}", loss=[1.0, 2.0]) for n in (1, 2)]
    pair[1].run.task.options["data_seed"] = 1
    (each,) = group(records(*pair))
    assert averaged_over([each]) == "runs"
    assert drawn(learning_curves([each], [each.network], "c"))[0] == {"run (2 runs)"}


def test_runs_of_one_name_and_seed_are_told_apart_by_their_folders(tmp_path):
    places = [("old/net", 0), ("old/net-1", 1), ("net", 0)]
    alike = [record(tmp_path / place, seed, name="net") for place, seed in places]
    found = {each.label: [run.path for run in each.runs] for each in group(records(*alike))}
    assert found == {
        "net (old/net)": [run.path for run in alike[:2]],
        "net (net)": [alike[2].path],
    }


@pytest.mark.parametrize("names", [("net, seed 0", "net, seed 1"), ("net-seed-3", "net-seed-12")])
def test_label_omits_the_seed(tmp_path, names):
    pair = [record(tmp_path / str(n), n, name=name) for n, name in enumerate(names)]
    assert [each.label for each in group(records(*pair))] == ["net"]


def test_mean_and_standard_error_are_over_the_runs_with_that_step(tmp_path):
    drawn = np.random.default_rng(0).normal(size=(3, 4))
    drawn[2, 3] = np.nan  # the third run is shorter
    step = (5, 10, 15, 20)
    runs = [record(tmp_path, n, step=step, loss=row) for n, row in enumerate(drawn)]
    found = curve(runs, "loss")
    np.testing.assert_allclose(found.mean[:3], drawn[:, :3].mean(0), atol=10 * EPS)
    expected = np.sqrt(((drawn - np.nanmean(drawn, 0)) ** 2)[:, :3].sum(0) / 2 / 3)
    np.testing.assert_allclose(found.error[:3], expected, atol=10 * EPS)
    assert found.mean[3] == pytest.approx(drawn[:2, 3].mean())
    np.testing.assert_array_equal(found.step, step)


def test_a_band_is_closed_around_each_stretch_of_steps_that_two_runs_have(tmp_path):
    steps = (1, 2, 3, 4, 5)
    one = record(tmp_path, name="run", step=steps, loss=[1, 1, 1, 1, 1])
    other = record(tmp_path, 1, name="run", step=steps, loss=[3, 3, np.nan, 3, 3])
    text = learning_curves(group(records(one, other)), ["run"], "c")
    (band,) = re.findall(r'\{[^{}]*"fill":"toself"[^{}]*(?:\{[^{}]*\}[^{}]*)*\}', text)
    found = {axis: re.search(rf'"{axis}":\[([^]]*)\]', band)[1].split(",") for axis in "xy"}
    assert found["x"] == ["1.0", "2.0", "2.0", "1.0", "null", "4.0", "5.0", "5.0", "4.0", "null"]
    assert found["y"] == ["3.0", "3.0", "1.0", "1.0", "null"] * 2


def test_runs_logged_at_different_steps_count_where_they_have_values(tmp_path):
    one, other = record(tmp_path, loss=[1, 2]), record(tmp_path, 1, step=(2, 3), loss=[4, 6])
    found = curve([one, other], "loss")
    assert (found.step.tolist(), found.mean.tolist()) == ([1, 2, 3], [1, 3, 6])


def test_long_curve_shows_evenly_spaced_points(tmp_path):
    n = 3 * MAX_POINTS - 2
    values = np.random.default_rng(1).normal(size=n)
    found = curve([record(tmp_path, step=range(1, n + 1), loss=values)], "loss")
    np.testing.assert_array_equal(found.mean, values[::3])
    np.testing.assert_array_equal(found.step, np.arange(1, n + 1, 3))


def test_quantity_without_finite_values_is_not_offered(tmp_path):
    (found,) = group(records(record(tmp_path, loss=[1, 2], penalty=[np.nan, np.nan])))
    assert found.quantities == ["loss"]


def test_values_that_are_not_finite_become_none():
    assert rounded([1 / 3, math.nan, math.inf], 3) == [0.333, None, None]


def test_thinning_keeps_first_and_last():
    assert spaced_indices(101, 5) == [0, 25, 50, 75, 100]
    assert spaced_indices(3, 5) == [0, 1, 2]


def copy_for_recipe(run, folder, row, point="", loss=1.0, **settings):
    """Copy a run as one of a row of `nonnormal/fig4`."""
    shutil.copytree(run, folder)
    known = RunFolder(run).run
    key = RunKey("nonnormal/fig4", row, point, known.key.seed)
    measure = RECIPES[key.recipe].row(row).reported[0].measure
    numbers = {measure: RunNumber(loss)}
    best = {"validation": {**known.best["test"], "loss": loss}}
    settings = {**known.settings, **settings}
    RunFolder(folder).write(replace(known, key=key, settings=settings, numbers=numbers, best=best))


def test_runs_of_a_recipe_have_the_labels_and_order_of_its_rows(runs, tmp_path):
    rows = {row.label: next(iter(row.points())) for row in RECIPES["nonnormal/fig4"].trained[:2]}
    for name, (row, point) in zip(("lstm", "scornn"), reversed(rows.items()), strict=True):
        for seed in (0, 1):
            copy_for_recipe(runs / f"{name}-{seed}", tmp_path / "r" / row / str(seed), row, point)
    assert [each.network for each in group(read_records([tmp_path / "r"]))] == list(rows)


def test_only_the_best_point_of_a_search_is_shown_initially(runs, tmp_path):
    row = RECIPES["nonnormal/fig4"].trained[0]
    first, second = list(row.points())[:2]
    for point, loss in ((first, 2.0), (second, 1.0)):
        copy_for_recipe(runs / "lstm-0", tmp_path / "r" / point, row.label, point, loss, lr=loss)
    found = {each.label: each.shown for each in group(read_records([tmp_path / "r"]))}
    assert found == {f"{row.label}, {first}": False, f"{row.label}, {second}": True}


def test_page_loads_nothing(page):
    loading = {"src", "href", "srcset", "action", "data", "poster"}
    loaded = [
        value
        for _, attributes in Page(page).tags
        for name, value in attributes.items()
        if name in loading and not (value or "").startswith(("#", "data:"))
    ]
    assert loaded == []
    assert "@import" not in page.partition("</style>")[0]
    assert not re.search(r"url\((?!#)", page.partition("</style>")[0])


def test_page_forbids_the_browser_to_load_anything(page):
    policies = [a["content"] for tag, a in Page(page).tags if "http-equiv" in a]
    assert [policy.split(";")[0] for policy in policies] == ["default-src 'none'"]


def test_page_has_every_section(page):
    assert [heading for heading in Page(page).headings if heading] == [
        *("Runs", "Results", "Runs on Copying (delay 10)"),
        *("Learning curves", "Copying (delay 10)", "Eigenvalues", "Schur form", "Gradient map"),
        *("Fisher memory", "Configuration", "Copying (delay 10)", "Versions and machine"),
    ]


def test_labels_from_files_stay_text(runs, tmp_path, monkeypatch):
    for seed in (0, 1):  # the pictures of one network have the labels of all
        shutil.rmtree(runs / f"lstm-{seed}")
    for folder in runs.iterdir():
        known = RunFolder(folder).run
        hostile = replace(known, name=HOSTILE, modules=HOSTILE, layer=HOSTILE)
        RunFolder(folder).write(hostile)
    write_recipe(runs / "r", monkeypatch, HOSTILE, note=HOSTILE)
    text = write_report([runs], tmp_path / "p.html", rebuild=rebuild, title=HOSTILE).read_text()
    found = Page(text)
    assert not any(tag == "img" for tag, _ in found.tags)
    assert HOSTILE in found.cells


def test_network_that_cannot_be_rebuilt_has_a_reason(runs, tmp_path):
    def reject(_):
        raise ValueError("the task's files are gone")

    text = write_report([runs], tmp_path / "p.html", rebuild=reject).read_text()
    assert "lstm, seed 0; scornn, seed 0: the task&#39;s files are gone." in text
    assert drawn(text)[1] == ["scornn, seed 0: hh_l0, during training"]


def test_unreadable_run_is_named_and_the_rest_is_shown(runs, tmp_path):
    (runs / "lstm-1" / "run.json").write_text("{")
    text = write_report([runs], tmp_path / "p.html").read_text()
    assert "lstm-1/run.json is truncated or damaged" in text
    assert drawn(text)[0] == {"lstm-0", "scornn (2 seeds)"}


def test_a_record_of_another_program_does_not_end_the_report(runs):
    other = runs / "other"
    other.mkdir()
    (other / "run.json").write_text('{"id": "of another program"}')
    (other / "metrics.csv").write_text("step,loss\n1,2.0\n")
    found = read_records([runs])
    assert "expected the record of a training" in found.unreadable[other]
    assert len(found.runs) == 4


def test_failing_analysis_is_named_and_the_rest_is_shown(runs, tmp_path, monkeypatch):
    def broken(model):
        if "LSTM" in str(model):
            raise IndexError("of another shape")
        return recurrent_weights(model)

    monkeypatch.setattr("eigenrnn_experiments.report.network_analyses.recurrent_weights", broken)
    text = write_report([runs], tmp_path / "p.html", rebuild=rebuild).read_text()
    assert "lstm, seed 0: IndexError: of another shape." in text
    assert all(label.startswith("scornn, seed 0") for label in drawn(text)[1])


def test_damaged_spectra_are_named_and_the_rest_is_shown(runs, tmp_path):
    look = '{"step": 1, "spectrum": {"hh_l0": [["a", 1]]}}\n'
    (runs / WITH_DYNAMICS / "dynamics.jsonl").write_text(look)
    text = write_report([runs], tmp_path / "p.html", rebuild=rebuild).read_text()
    assert "scornn, seed 0: could not convert string to float" in text
    assert "lstm, seed 0: cell_l0" in drawn(text)[1]


def test_a_page_says_that_runs_are_reduced(runs, tmp_path):
    row = RECIPES["nonnormal/fig4"].trained[0]
    folder = tmp_path / "r" / "reduced"
    copy_for_recipe(runs / "lstm-0", folder, row.label, next(iter(row.points())))
    found = RunFolder(folder).run
    RunFolder(folder).write(replace(found, key=replace(found.key, reduced=Length("epochs", 4))))
    page = write_report([folder], tmp_path / "page.html", rebuild=rebuild).read_text()
    assert "Reduced runs of 4 epochs: the paper trains for longer." in page


def test_recipe_without_runs_has_a_page(tmp_path, monkeypatch):
    write_recipe(tmp_path / "r", monkeypatch, "chain")
    text = write_report([tmp_path / "r"], tmp_path / "p.html").read_text()
    assert "scornn/copying" in text
    assert "Batches are drawn anew." in text


def test_every_gate_has_its_eigenvalues_and_no_fisher_memory(page):
    _, labels = drawn(page)
    gates = [label for label in labels if label.startswith("lstm, seed 0: ")]
    assert {f"lstm, seed 0: {gate}_l0" for gate in ("input", "forget", "cell", "output")} <= {
        *gates
    }
    assert "lstm, seed 0: its matrices belong to gates" in page
    assert labels.count("scornn, seed 0: hh_l0") == 3, "eigenvalues, Schur form and memory"


def test_the_eigenvalues_of_a_run_with_dynamics_are_those_of_the_first_and_last_record(page):
    assert f">step {STEPS[0]}<" in page
    assert f">step {STEPS[-1]}<" in page


def test_the_identifiers_of_all_pictures_differ(page):
    found = re.findall(r'<clipPath id="([^"]*)"', page)
    assert len(found) == len(set(found)) > 5


def test_a_network_has_one_colour_in_all_charts(tmp_path):
    runs = [record(tmp_path / name, name=name, loss=[1.0, 2.0]) for name in ("a", "b")]
    one, other = group(records(*runs))
    both = learning_curves([one, other], ["a", "b"], "c")
    alone = learning_curves([other], ["a", "b"], "c")
    colours = [re.findall(r'"color":"(#\w+)","dash"', text) for text in (both, alone)]
    assert colours[0][1:] == colours[1]
