"""Nothing is deleted or changed behind links that a stranger planted in a folder."""

import faulthandler
import random
import shlex
import shutil
import sys

import pytest

from eigenrnn_experiments.cli.main import main
from training_run import one_thread

FEW, MANY = 5, 400
"""The number of folders with planted links: in the suite, and by hand."""

HANGS_AFTER_S = 120

FILES = [
    "run.json",
    "metrics.csv",
    "dynamics.jsonl",
    "last.pt",
    "best.pt",
    ".lock",
    "report.html",
    "results.csv",
    "summary.json",
]
PLACES = [
    *FILES,
    "tensorboard",
    "tensorboard/events.out.tfevents.0",
    "analysis",
    "analysis/summary.json",
    "analysis/eigenvalues.csv",
]
TEMPORARY = [*(f"{name}.tmp" for name in FILES), "analysis/summary.json.tmp"]
"""Files that a killed process leaves behind, so that links in their place stop no command."""

TARGETS = ["file", "folder", "folder/new", "loop"]


TRAIN = shlex.split(
    "train --task Copying --task.delay 3 --task.symbols 2 --task.test_examples 10 --hidden_size 6 "
    "--batch_size 2 --eval_every 2 --dynamics_every 2 --accelerator cpu --out"
)
ACTIONS = {
    "resume": lambda run: [*TRAIN, run, "--steps", "4", "--resume"],
    "overwrite": lambda run: [*TRAIN, run, "--steps", "2", "--overwrite"],
    "analyse": lambda run: ["analyse", run],
    "report": lambda run: ["report", run, "--out", run / "report.html"],
    "compare": lambda run: ["compare", run, "--out", run / "results.csv"],
}


def command(arguments):
    """Run the command line; return its exit status."""
    with one_thread():
        return main(list(map(str, arguments)))


@pytest.fixture(autouse=True)
def watched():
    """Print the traceback of a command that waits for a pipe."""
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run of two steps, with its analysis."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert command([*TRAIN, folder, "--steps", "2"]) == 0
    assert command(["analyse", folder]) == 0
    return folder


UNCHANGED = {"file": "precious", "folder": None, "folder/kept": "kept"}
"""The content of each file of someone else."""


def make_victims(folder):
    """Create the files and the folder of someone else."""
    (folder / "folder").mkdir(parents=True)
    (folder / "folder/kept").write_text("kept")
    (folder / "file").write_text("precious")


def contents(folder):
    """Return the content of each file in a folder, and None for what is no file."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else None
        for path in folder.rglob("*")
    }


def plant(run, victims, place, target):
    """Replace a file of the run by a link."""
    path = run / place
    if path.parent.is_symlink():
        return
    path.parent.mkdir(exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(path if target == "loop" else victims / target)


def check_folder(trained, tmp_path, rng, capsys):
    """Plant links in a copy of the run, use it in one way, and check the victims."""
    run, victims = tmp_path / "run", tmp_path / "victims"
    shutil.copytree(trained, run)
    make_victims(victims)
    places = [*TEMPORARY, *rng.sample(PLACES, rng.randrange(3))]
    planted = {place: rng.choice(TARGETS) for place in places}
    for place, target in planted.items():
        plant(run, victims, place, target)
    action = rng.choice(list(ACTIONS))
    faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True, file=sys.__stderr__)
    status = command(ACTIONS[action](run))
    printed = capsys.readouterr().err
    described = f"{action} with {planted}: {printed[-300:]}"
    assert status == 0 or (status == 2 and str(run) in printed), described
    assert UNCHANGED.items() <= contents(victims).items(), described
    return status


@pytest.mark.parametrize(
    ("seed", "count"),
    [(5, FEW), pytest.param(1, MANY, marks=pytest.mark.slow)],
    ids=["few", "many"],
)
def test_nothing_of_others_behind_a_link_changes(trained, tmp_path, capsys, seed, count):
    rng = random.Random(seed)
    statuses = [check_folder(trained, tmp_path / str(n), rng, capsys) for n in range(count)]
    assert {0, 2} == set(statuses)
