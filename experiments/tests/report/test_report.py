"""The HTML report: the files it reads, the numbers it computes and the page."""

import json
import math
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from eigenrnn.analysis.state_map import recurrent_weights
from eigenrnn_experiments.registry import RECIPES
from eigenrnn_experiments.report import read_records, write_report
from eigenrnn_experiments.report.chart_data import Styles, learning_curve_chart
from eigenrnn_experiments.report.learning_curves import MAX_POINTS, averaged_over, curve, group
from eigenrnn_experiments.report.network_analyses import gradient_charts, training_dynamics
from eigenrnn_experiments.report.records import Records, task_name
from eigenrnn_experiments.report.rounding import block_maxima, log10_or_none, rounded_positive
from eigenrnn_experiments.report.tables import machines
from eigenrnn_experiments.statistics import rounded, spaced_indices
from eigenrnn_experiments.training import Settings, fit
from eigenrnn_experiments.training.dynamics import Dynamics
from eigenrnn_experiments.training.run import Description, Run, RunKey, RunNumber
from eigenrnn_experiments.training.run_folder import RunFolder
from reported_runs import (
    STEPS,
    TASK,
    WITH_DYNAMICS,
    build,
    rebuild,
    train_all,
    write_recipe,
)
from training_run import QUIET, one_thread

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
    """Collects the tags, the table cells and the chart data of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self.headings, self.data, self.inside = [], [], [], "", ()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = (tag, dict(attrs).get("id"))

    def handle_endtag(self, _):
        self.inside = ()

    def handle_data(self, data):
        if self.inside == ("script", "data"):
            self.data += data
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


def data_of(text):
    return json.loads(Page(text).data)


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


def test_metrics_are_read_as_they_were_written(runs):
    text = (runs / "lstm-0" / "metrics.csv").read_text().splitlines()
    run = read_records([runs / "lstm-0"]).runs[0]
    row = dict(zip(text[0].split(","), text[1].split(","), strict=True))
    assert run.metrics["train_loss"][0] == float(row["train_loss"])
    assert np.isnan(run.metrics["test_loss"][0])  # nothing was evaluated so early


def test_folder_without_runs_is_rejected_by_name(tmp_path):
    with pytest.raises(
        ValueError, match=re.escape(f"in {tmp_path} or its subfolders, got no run.json")
    ):
        read_records([tmp_path])


def test_an_empty_list_of_folders_is_rejected():
    with pytest.raises(ValueError, match="got none"):
        read_records([])


def test_incomplete_last_row_is_ignored(runs):
    file = runs / "lstm-1" / "metrics.csv"
    whole = read_records([runs / "lstm-1"]).runs[0].metrics["step"]
    file.write_text(file.read_text() + "35,0.1,0")
    assert np.array_equal(read_records([runs / "lstm-1"]).runs[0].metrics["step"], whole)


def test_damaged_dynamics_are_rejected_by_line(runs):
    file = runs / WITH_DYNAMICS / "dynamics.jsonl"
    file.write_text("{}\n" + file.read_text())
    file_name = "scornn-0/dynamics.jsonl"
    assert re.search(
        f"expected an object with a step in line 1 of .*{file_name}", unreadable(runs)
    )


def test_last_record_of_a_repeated_step_is_used(tmp_path):
    looks = [{"step": s, "spectrum": {"hh_l0": [[x, 0.0]]}} for s, x in ((1, 0.1), (1, 0.2))]
    run = RunFolder(tmp_path)
    run.dynamics = looks
    assert training_dynamics(run)["spectra"]["hh_l0"] == [{"re": [0.2], "im": [0.0]}]


def test_eigenvalues_over_training_equal_the_recorded_ones(runs):
    found = training_dynamics(read_records([runs / WITH_DYNAMICS]).runs[0])
    lines = (runs / WITH_DYNAMICS / "dynamics.jsonl").read_text().splitlines()
    expected = np.array(json.loads(lines[2])["spectrum"]["hh_l0"])
    given = found["spectra"]["hh_l0"][2]
    assert found["steps"] == list(STEPS)
    np.testing.assert_allclose(np.array([given["re"], given["im"]]).T, expected, atol=1e-4)
    assert found["measures"]["spectral radius"]["hh_l0"] == pytest.approx([1] * 4, abs=1e-5)


def test_dynamics_recorded_by_training_are_read(tmp_path):
    settings = Settings(steps=4, batch_size=2, accelerator="cpu", eval_every=2)
    with one_thread():
        watching = {"callbacks": [Dynamics(every=2)], "console": QUIET}
        fit(build("scornn"), TASK, settings, tmp_path / "run", **watching)
    found = training_dynamics(read_records([tmp_path]).runs[0])
    assert found["steps"] == [0, 2, 4]
    assert list(found["measures"]) == [
        *("spectral radius", "orthogonality error", "departure from normality")
    ]
    assert [len(found["gradients"]["l0"]["norms"][0])] == [len(found["gradients"]["l0"]["time"])]


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
    (series,) = learning_curve_chart([each], Styles([each]))["series"]
    assert series["label"] == (f"{each.label} ({count})" if count else each.label)


def test_runs_on_other_data_of_one_seed_are_averaged_as_runs(tmp_path):
    pair = [record(tmp_path / f"run-{n}", loss=[1.0, 2.0]) for n in (1, 2)]
    pair[1].run.task.options["data_seed"] = 1
    (each,) = group(records(*pair))
    assert averaged_over([each]) == "runs"
    (series,) = learning_curve_chart([each], Styles([each]))["series"]
    assert series["label"] == "run (2 runs)"


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
    np.testing.assert_array_equal(found.low[:3], drawn[:, :3].min(0))
    np.testing.assert_array_equal(found.high[:3], drawn[:, :3].max(0))
    assert (found.count[3], found.mean[3]) == (2, pytest.approx(drawn[:2, 3].mean()))
    np.testing.assert_array_equal(found.step, step)


def test_single_run_has_no_standard_error(tmp_path):
    assert np.isnan(curve([record(tmp_path, loss=[1, 2])], "loss").error).all()


def test_runs_logged_at_different_steps_count_where_they_have_values(tmp_path):
    one, other = record(tmp_path, loss=[1, 2]), record(tmp_path, 1, step=(2, 3), loss=[4, 6])
    found = curve([one, other], "loss")
    assert (found.step.tolist(), found.mean.tolist()) == ([1, 2, 3], [1, 3, 6])


def test_long_curve_is_averaged_over_blocks_and_keeps_its_range(tmp_path):
    n = 3 * MAX_POINTS
    values = np.random.default_rng(1).normal(size=n)
    found = curve([record(tmp_path, step=range(1, n + 1), loss=values)], "loss")
    blocks = values.reshape(MAX_POINTS, 3)
    np.testing.assert_allclose(found.mean, blocks.mean(1), atol=20 * EPS)
    np.testing.assert_array_equal(found.high, blocks.max(1))
    np.testing.assert_array_equal(found.step, np.arange(2, n + 1, 3))


def test_quantity_without_finite_values_is_not_offered(tmp_path):
    (found,) = group(records(record(tmp_path, loss=[1, 2], penalty=[np.nan, np.nan])))
    assert found.quantities == ["loss"]


def test_values_that_are_not_finite_become_none():
    assert rounded([1 / 3, math.nan, math.inf], 3) == [0.333, None, None]


def test_thinning_keeps_first_and_last():
    assert spaced_indices(101, 5) == [0, 25, 50, 75, 100]
    assert spaced_indices(3, 5) == [0, 1, 2]


def test_matrix_shrinks_to_block_maxima():
    values = np.arange(35.0).reshape(5, 7)
    cells, rows, columns = block_maxima(values, 3)
    assert (rows, columns) == (2, 3)
    np.testing.assert_array_equal(cells, [[9, 12, 13], [23, 26, 27], [30, 33, 34]])


def test_logarithms_are_blank_below_the_floor():
    assert log10_or_none([[100.0, 0.0], [1e-9, np.nan]], 1e-8) == [[2.0, None], [None, None]]
    assert rounded_positive([2.0, 1e-9, np.inf], 1e-8) == [2.0, None, None]


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


def test_machines_are_counted_by_run(runs):
    found = read_records([runs])
    table = machines(found.runs)
    assert [row[table.headings.index("runs")] for row in table.rows] == ["4"]


def test_task_name_has_the_main_options():
    assert task_name(Description("Copying", {"delay": 10, "symbols": 3})) == "Copying (delay 10)"


def test_page_loads_nothing(page):
    loading = {"src", "href", "srcset", "action", "data", "poster"}
    loaded = [
        value
        for _, attributes in Page(page).tags
        for name, value in attributes.items()
        if name in loading and not (value or "").startswith("#")
    ]
    assert loaded == []
    assert "@import" not in page.partition("</style>")[0]
    assert not re.search(r"url\((?!#)", page.partition("</style>")[0])


def test_page_forbids_the_browser_to_load_anything(page):
    policies = [a["content"] for tag, a in Page(page).tags if "http-equiv" in a]
    assert [policy.split(";")[0] for policy in policies] == ["default-src 'none'"]


def test_page_has_every_section(page):
    assert [heading for heading in Page(page).headings if heading] == [
        *("Runs on Copying", "Results", "Runs on Copying (delay 10)"),
        *("Learning curves", "Copying (delay 10)", "Eigenvalues", "Schur form", "Gradient map"),
        *("Fisher memory", "Configuration", "Copying (delay 10)", "Versions and machine"),
    ]


def test_data_of_the_charts_is_json_without_nan(page):
    def reject(word):
        raise AssertionError(word)

    data = json.loads(Page(page).data, parse_constant=reject)
    assert {len(data[name]) for name in ("spectrum", "schur", "gradient")} == {2}


def test_every_gate_has_a_spectrum_and_the_cell_is_the_main_matrix(page):
    lstm = next(one for one in data_of(page)["spectrum"] if one["label"].startswith("lstm"))
    assert list(lstm["matrices"]) == ["input_l0", "forget_l0", "cell_l0", "output_l0"]
    assert lstm["main"] == "cell_l0"


def test_without_recorded_dynamics_the_eigenvalues_are_those_of_the_trained_network(page, trained):
    lstm = next(one for one in data_of(page)["spectrum"] if one["label"] == "lstm, seed 0")
    layer = rebuild(trained / "lstm-0")[0].layer
    W = layer.weight_hh_l0.detach().double().numpy()[2 * 8 : 3 * 8]
    plane = lstm["matrices"]["cell_l0"][0]
    given = np.sort_complex(np.array(plane["re"]) + 1j * np.array(plane["im"]))
    np.testing.assert_allclose(given, np.sort_complex(np.linalg.eigvals(W)), atol=1e-4)


def test_orthogonal_network_has_constant_fisher_memory(page):
    # C is the sum of 200 identities, so that J(k) = 1 / 200
    scornn = next(one for one in data_of(page)["fisher"] if one["label"].startswith("scornn"))
    assert scornn["values"] == pytest.approx([1 / 200] * 200, rel=1e-3)


def test_colour_of_a_network_is_the_same_in_all_charts(page):
    data = data_of(page)
    curves = {s["label"].split(" (")[0]: s["colour"] for s in data["curves"]["task-1"]["series"]}
    for name in ("spectrum", "schur", "gradient"):
        assert {one["label"].split(",")[0]: one["colour"] for one in data[name]} == curves


def test_labels_from_files_stay_text(runs, tmp_path, monkeypatch):
    for folder in runs.iterdir():
        known = RunFolder(folder).run
        hostile = replace(known, name=HOSTILE, modules=HOSTILE, layer=HOSTILE)
        RunFolder(folder).write(hostile)
    write_recipe(runs / "r", monkeypatch, HOSTILE, note=HOSTILE)
    text = write_report([runs], tmp_path / "p.html", rebuild=rebuild, title=HOSTILE).read_text()
    found = Page(text)
    assert not any(tag == "img" for tag, _ in found.tags)
    assert HOSTILE in found.cells
    assert "\u2028" not in found.data  # a script would end its line there
    assert any(HOSTILE in s["label"] for s in json.loads(found.data)["curves"]["task-1"]["series"])


def test_network_that_cannot_be_rebuilt_has_a_reason(runs, tmp_path):
    def reject(_):
        raise ValueError("the task's files are gone")

    text = write_report([runs], tmp_path / "p.html", rebuild=reject).read_text()
    assert "lstm, seed 0; scornn, seed 0: the task&#39;s files are gone." in text
    assert [one["label"] for one in json.loads(Page(text).data)["spectrum"]] == ["scornn, seed 0"]


def test_unreadable_run_is_named_and_the_rest_is_shown(runs, tmp_path):
    (runs / "lstm-1" / "run.json").write_text("{")
    text = write_report([runs], tmp_path / "p.html").read_text()
    assert "lstm-1/run.json is truncated or damaged" in text
    assert {one["label"] for one in data_of(text)["curves"]["task-1"]["series"]} == {
        *("lstm-0", "scornn (2 seeds)")
    }


def test_failing_analysis_is_named_and_the_rest_is_shown(runs, tmp_path, monkeypatch):
    def broken(model):
        if "LSTM" in str(model):
            raise IndexError("of another shape")
        return recurrent_weights(model)

    monkeypatch.setattr("eigenrnn_experiments.report.network_analyses.recurrent_weights", broken)
    text = write_report([runs], tmp_path / "p.html", rebuild=rebuild).read_text()
    assert "lstm, seed 0: IndexError: of another shape." in text
    assert [one["label"] for one in data_of(text)["schur"]] == ["scornn, seed 0"]


def test_damaged_spectra_are_named_and_the_rest_is_shown(runs, tmp_path):
    look = '{"step": 1, "spectrum": {"hh_l0": [["a", 1]]}}\n'
    (runs / WITH_DYNAMICS / "dynamics.jsonl").write_text(look)
    text = write_report([runs], tmp_path / "p.html", rebuild=rebuild).read_text()
    assert "dynamics.jsonl is damaged or of another version" in text
    assert [one["label"] for one in data_of(text)["spectrum"]] == ["lstm, seed 0"]


def test_recipe_without_runs_has_a_page(tmp_path, monkeypatch):
    write_recipe(tmp_path / "r", monkeypatch, "chain")
    text = write_report([tmp_path / "r"], tmp_path / "p.html").read_text()
    assert "Reproduction of scornn/copying" in text
    assert "Batches are drawn anew." in text


def test_file_that_is_not_a_report_is_not_replaced(runs, tmp_path):
    out = tmp_path / "p.html"
    out.write_text("<html>mine</html>")
    with pytest.raises(FileExistsError, match=r"p.html"):
        write_report([runs], out)
    assert out.read_text() == "<html>mine</html>"


@pytest.mark.parametrize("place", ["nowhere/p.html", "."])
def test_invalid_output_path_is_rejected_before_reading(tmp_path, place):
    with pytest.raises(ValueError, match="expected a file"):
        write_report([tmp_path / "nothing"], tmp_path / place)


def test_the_gradients_of_a_small_network_are_of_its_first_steps_only():
    layer = torch.nn.RNN(1, 2)
    charts = gradient_charts(layer, torch.zeros(310, 1, 1))
    assert all("Only the first 300 of 310 steps" in chart["note"] for chart in charts.values())


def test_the_captions_of_the_page_say_what_is_averaged(runs, tmp_path):
    over_seeds = write_report([runs], tmp_path / "a.html").read_text()
    assert "mean ± standard error over seeds<" in over_seeds
    assert "The mean over seeds, with a band" in over_seeds
    alone = write_report([runs / WITH_DYNAMICS], tmp_path / "c.html").read_text()
    assert "mean ± standard error" not in alone
    assert "with a band of one standard error" not in alone
