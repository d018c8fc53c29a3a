"""The folder of a sweep, and trials that fail; no cluster is needed."""

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from eigenrnn.experiments.cli import main
from eigenrnn.experiments.cli.rebuild import load
from eigenrnn.experiments.errors import RunExistsError
from eigenrnn.experiments.recipes import reproduce
from eigenrnn.experiments.registry import RECIPES
from eigenrnn.experiments.report.records import read_records
from eigenrnn.experiments.report.tables import paper_and_ours
from eigenrnn.experiments.sweep import Criterion, Trial
from eigenrnn.experiments.sweep.folder import check_folder, open_folder
from eigenrnn.experiments.sweep.progress import write_table
from eigenrnn.experiments.sweep.search_space import Range, Search
from eigenrnn.experiments.sweep.study import propose, read_points
from eigenrnn.experiments.sweep.worker import train as train_trial
from eigenrnn.experiments.training import checkpoint
from small_sweep import TINY, open_sweep, read_content, train, train_two_seeds
from training_run import QUIET, one_thread, read_metrics

# the folder

NEITHER = {"resume": False, "overwrite": False}
OPTIONS = [{"resume": True}, {"overwrite": True}, {}]


def test_a_folder_that_holds_a_sweep_raises_and_names_both_options(tmp_path):
    open_folder(tmp_path, TINY, overwrite=False)
    with pytest.raises(RunExistsError, match=r"already holds a sweep.*--resume.*--overwrite"):
        check_folder(tmp_path, TINY, resume=False, overwrite=False)


def test_a_sweep_of_another_file_raises_and_is_kept(tmp_path):
    open_folder(tmp_path, TINY, overwrite=False)
    before = (tmp_path / "sweep.json").read_bytes()
    with pytest.raises(ValueError, match=r"another file: steps was 8, now 9;"):
        check_folder(tmp_path, TINY | {"steps": 9}, resume=True, overwrite=False)
    assert (tmp_path / "sweep.json").read_bytes() == before


@pytest.mark.parametrize("options", OPTIONS)
def test_a_sweep_of_another_version_raises_and_is_kept(tmp_path, options):
    open_folder(tmp_path, TINY, overwrite=False)
    file = tmp_path / "sweep.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eigenrnn": "0.0.7"}))
    with pytest.raises(ValueError, match=r"a sweep of eigenrnn 0\.0\.7 \(format 3\), and this is"):
        check_folder(tmp_path, TINY, **NEITHER | options)


@pytest.mark.parametrize(
    "content",
    ['{"format": 1, "eigen', "[]", "{}", '{"format": 1, "eigenrnn": "0.1.0", "file": ["task"]}'],
)
def test_a_sweep_with_a_damaged_description_raises_and_can_be_overwritten(tmp_path, content):
    open_folder(tmp_path, TINY, overwrite=False)
    (tmp_path / "sweep.json").write_text(content)
    for options in ({"resume": True}, {}):
        with pytest.raises(ValueError, match=r"sweep\.json.*--overwrite"):
            check_folder(tmp_path, TINY, **NEITHER | options)
    check_folder(tmp_path, TINY, resume=False, overwrite=True)
    open_folder(tmp_path, TINY, overwrite=True)
    check_folder(tmp_path, TINY, resume=True, overwrite=False)


@pytest.mark.parametrize("below", ["", "below/it"])
def test_a_file_in_place_of_the_folder_raises(tmp_path, below):
    (tmp_path / "afile").write_text("mine")
    with pytest.raises(ValueError, match=r"to be a folder or not to exist, got the file .*afile"):
        check_folder(tmp_path / "afile" / below, TINY, resume=False, overwrite=False)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_folder_with_runs_of_another_command_raises(tmp_path, options):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    with pytest.raises(RunExistsError, match="runs that are not of a sweep"):
        check_folder(tmp_path, TINY, **NEITHER | options)


def test_the_resources_of_a_trial_may_change_on_resuming(tmp_path):
    open_folder(tmp_path, TINY, overwrite=False)
    check_folder(tmp_path, TINY | {"cpus_per_trial": 2}, resume=True, overwrite=False)


def test_overwriting_keeps_files_that_are_not_of_the_sweep(tmp_path):
    sweep, (trial,) = open_sweep(tmp_path)
    train(sweep, [trial], tmp_path)
    (tmp_path / "out" / "mine.txt").write_text("mine")
    open_folder(tmp_path / "out", TINY, overwrite=True)
    assert sorted(p.name for p in (tmp_path / "out").rglob("*") if p.is_file()) == [
        *["mine.txt", "sweep.json"]
    ]


# trials


def test_a_trial_reports_its_evaluations(tmp_path):
    sweep, trials = open_sweep(tmp_path)
    events = []
    train(sweep, trials, tmp_path, events.append)
    found = [(path, step, set(metrics)) for path, step, metrics in events]
    evaluations = [(trials[0].path, step, {"validation", "test"}) for step in (2, 4, 6, 8)]
    assert found == [(trials[0].path, None, set()), *evaluations]


def test_a_full_disk_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    sweep, (trial,) = open_sweep(tmp_path)
    folder, room = tmp_path / "out" / trial.path, [True]
    write = Path.open

    def limited(path, mode="r", *args, **options):
        if ("w" in mode or "x" in mode) and folder in path.parents and not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, mode, *args, **options)

    def fill(event):
        room[0] = event[1] is None or event[1] < 6

    monkeypatch.setattr(Path, "open", limited)
    (status,) = train(sweep, [trial], tmp_path, fill)
    assert status.state == "failed"
    assert f"the disk of {folder} is full" in status.message
    assert status.message.endswith(f"the last good checkpoint is {folder / 'last.pt'}")
    assert checkpoint.load(folder / "last.pt")["state"]["step"] == 4

    room[0] = True
    (status,) = train(sweep, [trial], tmp_path)
    assert (status.state, status.attempts) == ("ended", 2)
    assert [row["step"] for row in read_metrics(folder)] == [str(n) for n in range(1, 9)]


DAMAGED = {
    "status.json": ['{"parameters": {"l', "[]", '{"state": "well"}', ""],
    "result.json": ["", '{"steps": 8, "seco', "{}"],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_two_seeds(tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize(
    ("name", "content"), [(name, text) for name, texts in DAMAGED.items() for text in texts]
)
def test_a_damaged_file_affects_its_own_trial_only(tmp_path, trained, name, content):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    sweep, out = read_content(tmp_path, TINY | {"seeds": [0, 1]}), tmp_path / "out"
    trials = sweep.source.trials(0, {})
    before = [trial.read(out) for trial in trials]
    rows, file = read_metrics(out / trials[0].path), out / trials[0].path / name
    file.write_text(content)

    found = [trial.read(out) for trial in trials]
    assert [trial.state for trial in found] == ["waiting", "ended"]
    assert str(file) in found[0].message
    assert found[0].message.endswith("the trial is trained again from its checkpoint")
    after = train(sweep, trials, tmp_path)
    assert [trial.state for trial in after] == ["ended", "ended"]
    assert [t.result.best for t in after] == [t.result.best for t in before]
    assert read_metrics(out / trials[0].path) == rows, "no step was repeated"


STATUS = {"state": "ended", "message": "", "attempts": 1, "node": "", "owner": ""}
RESULT = {"steps": 8, "seconds": 1, "train_loss": 0.5, "best_step": 8, "best_by": "test loss"}
RESULT |= {"last": {"test": {"loss": 0.5}}, "best": {"test": {"loss": 0.5}}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("status.json", "[" * 100_000),
        ("status.json", "1" * 5_000),
        ("status.json", json.dumps(STATUS | {"attempts": -1})),
        ("status.json", json.dumps(STATUS | {"state": ["ended"]})),
        ("status.json", json.dumps(STATUS | {"scores": [1]})),
        ("result.json", json.dumps(RESULT | {"seconds": "1"})),
        ("result.json", json.dumps(RESULT | {"last": {"test": 0.5}})),
        ("result.json", json.dumps(RESULT | {"best": {"test": {"loss": "0.5"}}})),
    ],
)
def test_values_of_the_wrong_type_are_treated_as_damage(tmp_path, name, content):
    trial = Trial(0, {}, 0, "seed-0")
    files = {"status.json": json.dumps(STATUS), "result.json": json.dumps(RESULT)}
    (tmp_path / trial.path).mkdir()
    for file, text in files.items():
        (tmp_path / trial.path / file).write_text(text)
    assert trial.read(tmp_path).state == "ended"
    (tmp_path / trial.path / name).write_text(content)
    status = trial.read(tmp_path)
    assert status.state == "waiting"
    assert f"{tmp_path / trial.path / name} is " in status.message
    assert "damaged" in status.message


@pytest.mark.parametrize(
    "content", ['{"points": [', '{"points": [{}]}', '{"points": [1]}', '{"points": [{"a": 1}]}']
)
def test_damaged_suggestions_raise(tmp_path, content):
    (tmp_path / "points.json").write_text(content)
    with pytest.raises(ValueError, match=r"points\.json is .*damaged"):
        read_points(tmp_path, Search({"lr": Range(0.1, 1)}))


def test_a_resumed_search_proposes_the_points_of_an_uninterrupted_one():
    search = Search({"lr": Range(0.001, 0.1, log=True), "units": Range(1, 9)}, trials=14)
    points, restored = [], []
    for number in range(14):  # beyond the first ten, which Optuna draws at random
        results = [(point, point["lr"]) for point in points]
        points.append(propose(search, "min", number, results))
        restored.append(propose(search, "min", number, json.loads(json.dumps(results))))
    assert points == restored
    assert len({point["lr"] for point in points}) == 14
    other = [propose(Search(search.space, seed=1), "min", number, []) for number in range(5)]
    assert not {point["lr"] for point in other} & {point["lr"] for point in points}


def test_a_machine_that_comes_back_stops_writing(tmp_path):
    sweep, (trial,) = open_sweep(tmp_path)
    out = tmp_path / "out"

    def take_over(event):
        if event[1] == 4:
            replace(trial, state="running", attempts=2, owner="another").write(out)

    (status,) = train(sweep, [trial], tmp_path, take_over)
    assert "another worker has taken over" in status.message
    assert trial.read(out).owner == "another"
    assert checkpoint.load(out / trial.path / "last.pt")["state"]["step"] == 4


def test_a_machine_without_the_folder_fails(tmp_path):
    sweep, trials = open_sweep(tmp_path)
    status = train_trial(trials[0], sweep.source, tmp_path / "elsewhere", "fingerprint", 1, print)
    assert status.state == "failed"
    assert "a folder that all machines share" in status.message


def test_an_error_affects_its_own_trial_only(tmp_path):
    sweep = read_content(tmp_path, TINY | {"seeds": [0, 1]})
    open_folder(tmp_path / "out", sweep.description, overwrite=False)

    def fail(event):
        if event[0].endswith("seed-0"):
            raise RuntimeError("a fault")

    finished = train(sweep, sweep.source.trials(0, {}), tmp_path, fail)
    assert [(s.state, s.message) for s in finished] == [
        *[("failed", "RuntimeError: a fault"), ("ended", "")]
    ]


def test_a_trial_that_diverges_is_recorded_and_the_others_continue(tmp_path):
    content = TINY | {"layer": "tanhrnn", "optimiser": "sgd", "grid": {"lr": [1e38, 0.01]}}
    sweep = read_content(tmp_path, content)
    open_folder(tmp_path / "out", sweep.description, overwrite=False)
    trials = [sweep.source.trials(n, point)[0] for n, point in enumerate(sweep.plan.points)]
    finished = train(sweep, trials, tmp_path)
    assert [trial.state for trial in finished] == ["diverged", "ended"]
    assert "largest gradient norms" in finished[0].message
    assert trials[0].read(tmp_path / "out") == finished[0]
    write_table(tmp_path / "out", finished, sweep.criterion())
    lines = (tmp_path / "out" / "results.csv").read_text().splitlines()
    assert [line.split(",")[:3] for line in lines[1:]] == [
        *[["1e+38", "0", "diverged"], ["0.01", "0", "ended"]]
    ]


def test_a_point_with_a_diverged_trial_has_no_objective(tmp_path):
    sweep, (trial,) = open_sweep(tmp_path)
    (ended,) = train(sweep, [trial], tmp_path)
    criterion = Criterion("test accuracy", "max")
    assert criterion.objective([ended, replace(trial, state="diverged")]) is None
    assert criterion.objective([ended, ended]) == ended.result.best["test"]["accuracy"]


def test_a_row_that_a_sweep_changes_is_not_compared_with_the_paper(tmp_path, capsys):
    content = {"recipe": "nnrnn/fig2", "rows": ["LSTM 128 copying"], "seeds": [0], "quick": True}
    (row,) = (r for r in RECIPES["nnrnn/fig2"].rows if r.label == "LSTM 128 copying")
    grid = {"task.delay": [5], "steps": [2], "lr": [row.settings.lr]}  # the rate is the paper's
    sweep = read_content(tmp_path, content | {"grid": grid})
    open_folder(tmp_path / "out", sweep.description, overwrite=False)
    trials = sweep.source.trials(0, sweep.plan.points[0])
    with one_thread():
        sweep.source.summarise(tmp_path / "out", train(sweep, trials, tmp_path))
    changed = "task.delay=5, steps=2"
    assert sweep.source.changes(trials) == {row.label: f"changed by the sweep: {changed}"}
    (result,) = json.loads((tmp_path / "out/results.json").read_text())["rows"]
    assert result["reported"] == row.reported.value
    assert result["difference"] is None
    assert changed in result["unjudged"]
    page = (tmp_path / "out/results.md").read_text()
    assert "| not comparable |" in page
    assert f"- {row.label}: changed by the sweep: {changed}." in page
    (found,) = read_records([tmp_path / "out"]).recipes
    (cells,) = paper_and_ours(found).cells
    assert cells["difference"] == "not comparable"
    assert main(["compare", str(tmp_path / "out")]) == 0
    assert "(not comparable with the paper)" in capsys.readouterr().out


def test_a_sweep_of_a_recipe_has_the_summary_of_reproduce(tmp_path):
    content = {"rows": ["identity copying", "chain copying"], "seeds": [0, 1], "quick": True}
    sweep = read_content(tmp_path, {"recipe": "nonnormal/fig3", **content})
    open_folder(tmp_path / "out", sweep.description, overwrite=False)
    points = enumerate(sweep.plan.points)
    trials = [trial for n, point in points for trial in sweep.source.trials(n, point)]
    with one_thread():
        sweep.source.summarise(tmp_path / "out", train(sweep, trials, tmp_path), is_over=True)
        reproduce(RECIPES["nonnormal/fig3"], tmp_path / "reproduced", console=QUIET, **content)
    swept, reproduced = (
        json.loads((tmp_path / name / "results.json").read_text())
        for name in ("out", "reproduced")
    )
    untimed = [
        {**record, "rows": [{**row, "seconds": None} for row in record["rows"]]}
        for record in (swept, reproduced)
    ]
    assert untimed[0] == untimed[1]
    assert swept["rows"][0]["quantity"].endswith("success")
    assert {len(row["values"]) for row in swept["rows"]} == {2}
    for run in (tmp_path / "out").glob("**/seed-*"):
        assert load(run).settings.steps == 30
    (run / "config.json").write_text('{"parameters":')
    final = [replace(trial, state="diverged") for trial in trials]
    with pytest.raises(ValueError, match=r"config\.json is truncated or damaged"):
        sweep.source.summarise(tmp_path / "out", final)
