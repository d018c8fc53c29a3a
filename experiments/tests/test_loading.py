"""Rebuilding the trained model of a run from its folder."""

import importlib
import json
import math
import shlex
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from eigenrnn import (
    ENRNN,
    GRU,
    LRU,
    LSTM,
    RNN,
    DtrivRNN,
    LeakyRNN,
    ScoRNN,
    SequenceModel,
    __version__,
)
from eigenrnn.analysis import analyse
from eigenrnn.constraints import (
    BlockTriangular,
    Exponential,
    Householder,
    Masked,
    ScaledCayley,
    Unconstrained,
)
from eigenrnn.export import export_model
from eigenrnn.init import haar_
from eigenrnn_experiments.cli import main
from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.loading import load
from eigenrnn_experiments.registry import RECIPES
from eigenrnn_experiments.tasks import Adding, Copying
from eigenrnn_experiments.tasks.base import model_for
from eigenrnn_experiments.training import RunFolder, Settings, checkpoint, fit
from eigenrnn_experiments.training.description import describe_call
from eigenrnn_experiments.training.run import RunKey
from training_run import QUIET, one_thread

TINY = (
    "train --task Copying --task.delay 3 --task.symbols 2 --task.test_examples 10 --steps 4 "
    "--hidden_size 6 --batch_size 2 --accelerator cpu"
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command line in an empty folder; return the folder of the run."""
    monkeypatch.chdir(tmp_path)

    def call(line=TINY):
        with one_thread():
            assert main(shlex.split(f"{line} --out here")) == 0
        return tmp_path / "here"

    return call


def edited(folder, change):
    """Change the config.json of a run."""
    file = folder / "run.json"
    config = json.loads(file.read_text())
    change(config)
    file.write_text(json.dumps(config))
    return folder


def weights(path):
    state = checkpoint.load(path)
    return state["train_step"]["model"] if "train_step" in state else state["model"]


def same(model, stored):
    return all(torch.equal(value, stored[name]) for name, value in model.state_dict().items())


# models that are rebuilt


@pytest.mark.parametrize(
    "options",
    [
        "--layer ScoRNN --layer.negative 2",
        "--layer RNN --layer.constraint Exponential --layer.num_layers 2",
        "--layer GRU --layer.reset NeumannCayley --layer.bidirectional true",
        "--layer ScuRNN",
        "--layer LRU --layer.r_min 0.99 --layer.r_max 0.999",
        "--layer LSTM",
        "--precision 64-true",
    ],
)
def test_the_model_has_the_weights_of_the_run(run, options):
    folder = run(f"{TINY} {options}")
    found = load(folder)
    assert same(found.model, weights(folder / "best.pt"))
    assert str(found.model) == json.loads((folder / "run.json").read_text())["modules"]
    assert found.task == Copying(delay=3, symbols=2, test_examples=10)


def test_the_rebuilt_model_has_the_recorded_loss(run):
    folder = run()
    found = load(folder)
    (batch,) = found.task.batches("test", 10)
    loss = found.task.loss(found.model(batch.inputs), batch.targets).detach().item()
    reported = json.loads((folder / "run.json").read_text())["best"]["test"]["loss"]
    assert loss == pytest.approx(reported, rel=1e-6)


def test_the_best_model_is_loaded_which_the_last_checkpoint_holds_too(run):
    folder = run(f"{TINY} --eval_every 2 --lr 1")
    best = checkpoint.load(folder / "best.pt")
    assert load(folder).step == best["step"] < 4
    (folder / "best.pt").unlink()
    found = load(folder)
    assert found.step == best["step"]
    assert same(found.model, best["model"])


def test_without_evaluations_the_last_model_is_loaded(run):
    folder = run(f"{TINY} --lr 1")
    last = checkpoint.load(folder / "last.pt")
    assert load(folder).step == last["state"]["step"]


@pytest.mark.parametrize("name", ["best.pt", "last.pt"])
def test_a_checkpoint_can_be_named(run, name):
    folder = run(f"{TINY} --eval_every 2 --lr 1")
    found = load(folder / name)
    assert found.checkpoint == folder / name
    assert same(found.model, weights(folder / name))


def test_the_model_is_in_evaluation_mode(run):
    assert not load(run()).model.training


def test_a_batch_comes_from_the_split_that_selected_the_model(run):
    found = load(run())
    expected = next(found.task.batches("validation", 3))
    assert torch.equal(found.batch(3).inputs, expected.inputs)


def test_the_longest_sequences_of_a_batch_are_used(run):
    found = load(run("train --task Parenthesis --hidden_size 4 --steps 1 --accelerator cpu"))
    batch = found.batch(4)
    assert batch.lengths is None


ROW = '--rows "scoRNN 190 T=1000" --quick'


@pytest.fixture(scope="module")
def of_a_recipe(tmp_path_factory):
    """Run a row of a recipe; return the folder of the recipe."""
    folder = tmp_path_factory.mktemp("recipe")
    with one_thread():
        assert main(shlex.split(f"reproduce scornn/fig1 {ROW} --out {folder}")) == 0
    return folder


def test_a_run_of_a_recipe_can_be_rebuilt(of_a_recipe):
    (folder,) = of_a_recipe.glob("**/seed-0")
    found = load(folder)
    (row,) = RECIPES["scornn/fig1"].select(["scoRNN 190 T=1000"])
    assert same(found.model, weights(folder / "best.pt"))
    assert (found.task, found.step) == (row.quick_task, row.quick_steps)


def test_the_record_of_a_recipe_run_identifies_it(of_a_recipe):
    (folder,) = of_a_recipe.glob("**/seed-0")
    (row,) = RECIPES["scornn/fig1"].select(["scoRNN 190 T=1000"])
    stored = RunFolder(folder).run
    assert stored.key == RunKey("scornn/fig1", "scoRNN 190 T=1000", "", 0, quick=True)
    assert stored.network == json.loads(json.dumps(row.quick().describe()["network"]))


# registered classes only

LAYER = ("network", "layer")
FOREIGN = {
    "the task": (("task", "class"), "foreign.Task"),
    "the layer": ((*LAYER, "function"), "foreign.Layer"),
    "the layer as a text": (LAYER, "foreign.Layer"),
    "a constraint": ((*LAYER, "options", "constraint", "function"), "foreign.Set"),
    "a constraint as a text": ((*LAYER, "options", "constraint"), "foreign.Set"),
    "what a constraint is made of": (
        (*LAYER, "options", "constraint"),
        {"function": "Schur", "options": {"orthogonal": {"function": "foreign.Set"}}},
    ),
    "an initialisation": ((*LAYER, "options", "init"), "foreign.init_"),
    "a nonlinearity": ((*LAYER, "options", "nonlinearity"), {"function": "foreign.relu"}),
    "an argument": ((*LAYER, "arguments"), [{"function": "foreign.relu"}]),
    "the number of units": (("network", "hidden_size"), {"function": "foreign.size"}),
    "a standard module": ((*LAYER, "function"), "antigravity.fly"),
    "a function of this library": ((*LAYER, "function"), "main"),
    "the preprocessing": (("preprocessing",), {"class": "foreign.Scaling"}),
    "an option of training": (("settings", "lr"), {"function": "foreign.Rate"}),
}


def put(options, path, value):
    *above, last = path
    for name in above:
        options = options[name]
    options[last] = value


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train a network once; return the folder of the run."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    with one_thread():
        layer = "--layer RNN --layer.constraint ScaledCayley --layer.constraint.negative 2"
        assert main(shlex.split(f"{TINY} {layer} --out {folder}")) == 0
    return folder


@pytest.fixture
def foreign(trained, tmp_path, monkeypatch):
    """Return a run in a folder with a module that writes a file when it is imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "foreign", raising=False)
    (tmp_path / "foreign.py").write_text("open('imported', 'w').close()")
    return shutil.copytree(trained, tmp_path / "run")


@pytest.mark.parametrize(("path", "value"), FOREIGN.values(), ids=FOREIGN)
def test_nothing_that_is_not_registered_is_imported(foreign, path, value):
    modules = set(sys.modules)
    folder = edited(foreign, lambda config: put(config, path, value))
    with pytest.raises(ValueError, match=r"cannot be built|damaged"):
        load(folder)
    assert not (foreign.parent / "imported").exists()
    assert set(sys.modules) <= modules


@pytest.mark.parametrize("command", ["report", "analyse"])
def test_the_commands_import_no_unregistered_class(foreign, capsys, command):
    change = FOREIGN["the layer"]
    folder = edited(foreign, lambda config: put(config, *change))
    status = main([command, str(folder)])
    said = capsys.readouterr().err if command == "analyse" else Path("report.html").read_text()
    assert (status, "foreign.Layer" in said) == (2 * (command == "analyse"), True)
    assert not (foreign.parent / "imported").exists()


# networks made in Python

MADE = {
    "GRU": partial(GRU, num_layers=2, bidirectional=True),
    "ScoRNN": partial(ScoRNN, negative=1),
    "sets of gates": partial(LSTM, cell=ScaledCayley),
    "a set": partial(RNN, constraint=partial(Householder, reflections=2)),
    "ENRNN": partial(ENRNN, short_size=3, matrix_init="zero", coupling=False, epsilon=0.1),
    "blocks": partial(
        RNN,
        constraint=partial(
            BlockTriangular,
            long=partial(Exponential, init="cayley"),
            short=Householder,
            short_size=2,
        ),
    ),
    "complex": partial(RNN, constraint=partial(ScaledCayley, dtype=torch.complex64)),
    "an initialiser": partial(RNN, constraint=partial(Unconstrained, init=haar_)),
    "a base that never moves": partial(DtrivRNN, period=math.inf),
    "a leak": partial(
        LeakyRNN,
        nonlinearity="modrelu",
        constraint=ScaledCayley,
        leak=0.3,
        trainable_leak=True,
        noise=0.1,
        state="current",
    ),
    "LRU": partial(LRU, r_min=0.5),
    "torch.nn.LSTM": nn.LSTM,
}


ADDING = Adding(6, test_examples=4)


def fit_in_python(folder, model, network=None):
    settings = Settings(steps=2, batch_size=4)
    with one_thread():
        fit(model, ADDING, settings, folder, console=QUIET, network=network)
    return folder


@pytest.mark.parametrize("layer", MADE.values(), ids=MADE)
def test_a_network_is_built_again_from_the_call_that_made_it(tmp_path, layer):
    model = model_for(ADDING, layer, 6)
    network = describe_call(layer=layer, hidden_size=6)
    found = load(fit_in_python(tmp_path, model, network))
    batch = next(ADDING.batches("train", 12))
    with torch.no_grad():
        expected = model.eval()(batch.inputs)
        assert torch.equal(found.model(batch.inputs), expected)
    assert found.settings.steps == 2
    again = next(found.task.batches("train", 12))
    assert torch.equal(again.inputs, batch.inputs)


def test_a_default_that_has_changed_since_is_named(tmp_path):
    network = describe_call(layer=LRU, hidden_size=6)
    fit_in_python(tmp_path, model_for(ADDING, LRU, 6), network)
    edited(tmp_path, lambda c: c["network"]["defaults"]["DiagonalDisc"].update(r_min=0.9))
    with pytest.raises(ValueError, match=r"r_min was 0\.9, now 0\.0"):
        load(tmp_path)


OWN_SET = """
import torch
from eigenrnn.constraints import Constraint
from eigenrnn_experiments.tasks import Copying

class Triangular(Constraint):
    def __init__(self, size: int):
        super().__init__(size)
        self.raw = torch.nn.Parameter(torch.zeros(size, size))
    def reset(self, generator=None): torch.nn.init.normal_(self.raw, 0, 0.1, generator)
    def residual(self, W): return float(W.detach().tril(-1).norm())
    def _matrix(self): return self.raw.triu()
    def _assign(self, W): self.raw.copy_(W)

class Mine(Copying):
    pass
"""


@pytest.mark.parametrize("task", ["Copying", "own_set.Mine"])
def test_a_set_and_a_task_of_your_own_train_and_are_loaded_and_exported(
    run, tmp_path, monkeypatch, task
):
    (tmp_path / "own_set.py").write_text(OWN_SET)
    monkeypatch.syspath_prepend(tmp_path)
    folder = run(
        f"train --task {task} --task.delay 3 --task.test_examples 10 --layer RNN "
        "--layer.constraint own_set.Triangular --hidden_size 4 --steps 2 --accelerator cpu"
    )
    own = importlib.import_module("own_set")
    made = model_for(own.Mine(delay=3), partial(RNN, constraint=own.Triangular), 4)
    with pytest.raises(ValueError, match=r"own_set\..*model=model"):
        load(folder)
    options = {} if task == "Copying" else {"task": own.Mine(delay=3, test_examples=10)}
    found = load(folder, model=made, **options)
    assert same(found.model, weights(found.checkpoint))
    assert found.batch(2).inputs.shape[1] == 2
    assert analyse(found.model, found.batch(2).inputs).results
    export_model(found.model, tmp_path / "own.pt2")
    assert (tmp_path / "own.pt2").exists()


def made_in_python():
    return SequenceModel(GRU(2, 4), 1, "last")


class Own(nn.Module):
    """A network that no call of `model_for` makes."""

    def __init__(self):
        super().__init__()
        self.inner = made_in_python()

    def forward(self, inputs):
        return -self.inner(inputs)


def masked():
    """A model whose mask is in no description."""
    mask = torch.eye(4, dtype=torch.bool)
    return SequenceModel(RNN(2, 4, constraint=partial(Masked, mask=mask)), 1, "last")


@pytest.mark.parametrize("make", [made_in_python, Own, masked])
def test_a_network_of_your_own_is_passed(tmp_path, make):
    model = make()
    fit_in_python(tmp_path, model)
    with pytest.raises(ValueError, match="model=model"):
        load(tmp_path)
    found = load(tmp_path, model=make()).model
    for name, value in model.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], value)
    with pytest.raises(ValueError, match="cannot be built: "):
        load(tmp_path, model=nn.Linear(2, 3))


def test_a_run_of_an_unknown_recipe_is_loaded_into_what_is_passed(of_a_recipe, tmp_path):
    (folder,) = of_a_recipe.glob("**/seed-0")
    for name in ("run.json", "best.pt"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    edited(tmp_path, lambda config: config["key"].update(recipe="mine/fig1"))
    (row,) = RECIPES["scornn/fig1"].select(["scoRNN 190 T=1000"])
    found = load(tmp_path, model=row.quick().build(0))
    assert same(found.model, weights(folder / "best.pt"))
    assert found.task == row.quick_task


CHANGES = {
    "a recipe": ({"recipe": "scornn/fig0"}, "there is no recipe scornn/fig0"),
    "a row": ({"row": "scoRNN 1"}, "expected a row of scornn/fig1 .*got 'scoRNN 1'"),
    "a point": ({"point": "lr=1"}, "expected a point of scoRNN 190 T=1000 .*got 'lr=1'"),
}


@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
def test_a_removed_row_is_named_with_the_version(tmp_path, of_a_recipe, change, said):
    (folder,) = of_a_recipe.glob("**/seed-0")
    for name in ("run.json", "best.pt"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())

    def other(config):
        config["key"] |= change
        config["versions"]["eigenrnn"] = "9.9"

    with pytest.raises(
        ValueError, match=f"written by eigenrnn 9.9, this is {__version__}: {said}"
    ):
        load(edited(tmp_path, other))


def test_missing_data_is_an_error_only_when_a_batch_is_needed(run, monkeypatch, tmp_path):
    folder = run()

    def other(config):
        config["task"] = {"class": "PixelMNIST"}

    monkeypatch.setattr(torch.nn.Module, "load_state_dict", lambda *_: None)
    found = load(edited(folder, other), data_root=str(tmp_path))
    with pytest.raises(MissingDataError, match="there is no"):
        found.batch(2)
