"""The command line, called as a user would."""

import gc
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import yaml

from crossing import few, some
from eigenrnn import __version__
from eigenrnn.layers import GRU
from eigenrnn_experiments import recipes, registry
from eigenrnn_experiments.cli.commands import arguments_of, parser_of
from eigenrnn_experiments.cli.main import COMMANDS, main
from eigenrnn_experiments.cli.train import DEFAULT_LAYERS, row_to_train
from eigenrnn_experiments.data.mnist import FILES
from eigenrnn_experiments.errors import RunExistsError, StoppedError
from eigenrnn_experiments.loading import load
from eigenrnn_experiments.training.train_step import TrainStep
from training_run import one_thread, read_metrics

TINY = "--task Copying --task.delay 3 --task.symbols 2 --task.test_examples 10 --steps 4"
SMALL = f"{TINY} --hidden_size 6 --batch_size 2 --log_every 1 --accelerator cpu"
ROW = '--rows "scoRNN 190 T=1000" --quick'


@dataclass
class Completed:
    """The exit status and the output of a command."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="module", autouse=True)
def no_copies_of_classes():
    """Drop what torch made of classes in earlier tests: the parser would see them twice."""
    gc.collect()


@pytest.fixture
def eigenrnn(tmp_path, monkeypatch, capsys):
    """Run the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EIGENRNN_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def call(line):
        with one_thread():
            status = main(shlex.split(line))
        return Completed(status, *capsys.readouterr())

    return call


@pytest.fixture
def error_of(eigenrnn):
    """Run a command that fails; return its one-line error message."""

    def call(line):
        done = eigenrnn(line)
        assert (done.status, done.out) == (2, "")
        (said,) = done.err.splitlines()
        assert said.startswith("error: ")
        return said.removeprefix("error: ")

    return call


@pytest.fixture
def printed_by(eigenrnn, capsys):
    """Run a command that exits after printing, such as help; return its output."""

    def call(line):
        with pytest.raises(SystemExit, match="0"):
            eigenrnn(line)
        return capsys.readouterr().out

    return call


def write(path, text):
    path.write_text(text)
    return path.name


def seeded():
    return torch.Generator().manual_seed(0)


def config(directory):
    """Read the run.json of a run."""
    return json.loads((directory / "run.json").read_text())


def test_a_terminal_that_knows_ascii_alone_gets_escapes(tmp_path):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "eigenrnn_experiments", "compare", "ü"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "error: " in done.stderr
    assert "\\xfc" in done.stderr


# list


def test_list_shows_every_registered_name(eigenrnn):
    out = eigenrnn("list").out
    names = [*registry.CONSTRAINTS, *registry.LAYERS, *registry.TASKS, *registry.RECIPES]
    assert [name for name in names if f" {name} " not in out] == []


def test_list_fits_a_narrow_terminal(eigenrnn):
    assert max(map(len, eigenrnn("list").out.splitlines())) <= 80


# help


def test_help_names_the_commands(eigenrnn):
    done = eigenrnn("--help")
    assert done.status == 0
    assert all(f"    {command}" in done.out for command in COMMANDS)


def imports_of(arguments, folder):
    """The modules that a command imports, and what it prints."""
    command = [sys.executable, "-X", "importtime", "-m", "eigenrnn_experiments", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}, done.stdout


def test_help_imports_neither_torch_nor_the_recipes(tmp_path):
    imported, said = imports_of(["--help"], tmp_path)
    assert "eigenrnn_experiments.cli.main" in imported
    assert imported.isdisjoint({"torch", "eigenrnn_experiments.recipes"})
    assert "usage: eigenrnn" in said


def test_listing_names_imports_no_package_that_only_other_commands_need(tmp_path):
    imported, said = imports_of(["list"], tmp_path)
    assert "eigenrnn_experiments.registry" in imported
    for package in ("scipy", "matplotlib", "lightning", "tensorboard", "ray", "optuna", "plotly"):
        assert package not in imported
    assert "Copying" in said


def test_version_is_printed(eigenrnn):
    assert eigenrnn("--version").out == f"eigenrnn {__version__}\n"


def test_train_help_names_tasks_and_layers(printed_by):
    said = " ".join(printed_by("train --help").split())
    assert said.startswith("usage: eigenrnn train ")
    assert all(name in said for name in (*registry.TASKS, *registry.LAYERS))


def test_options_of_a_layer_are_shown_by_its_name(printed_by):
    said = printed_by("train --layer.help ScoRNN")
    assert "--layer.negative" in said
    assert "--layer.zoneout" in said, "an option of the layer that it is passed on to"


# train


def test_a_run_can_be_configured_by_flags(eigenrnn, tmp_path):
    done = eigenrnn(f"train {SMALL} --layer ScoRNN --layer.negative 2 --lr 0.01")
    assert done.status == 0
    written = config(tmp_path / "runs" / "copying-scornn-6")
    assert written["task"]["options"].items() >= {"delay": 3, "symbols": 2}.items()
    assert written["network"]["layer"]["options"]["negative"] == 2
    assert written["network"]["hidden_size"] == 6
    assert written["settings"]["lr"] == 0.01


def test_a_run_prints_its_result_and_its_folder(eigenrnn, tmp_path):
    done = eigenrnn(f"train {SMALL} --out here")
    last = config(tmp_path / "here")["last"]["test"]
    assert "144 parameters, 4 steps" in done.out
    assert f"last: test loss {last['loss']:.4g}, accuracy {last['accuracy']:.4g}" in done.out
    assert done.out.endswith("in here\n")


def test_user_text_is_printed_without_markup(eigenrnn):
    assert "in run:x:[red]\n" in eigenrnn(f"train {SMALL} --out 'run:x:[red]'").out


def test_user_text_in_errors_is_printed_without_markup(error_of):
    assert "got :x:[red]" in error_of("report ':x:[red]'")


def test_progress_goes_to_stderr(eigenrnn):
    assert "copying-scornn-6: step 4/4, loss" in eigenrnn(f"train {SMALL}").err


@few("layer", {name: name for name in registry.LAYERS}, ["ScoRNN", "LSTM", "URNN"])
def test_every_layer_trains_by_its_name(eigenrnn, layer):
    assert eigenrnn(f"train {SMALL} --layer {layer}").status == 0


@pytest.mark.parametrize("name", registry.LAYERS)
def test_a_layer_has_the_options_and_the_weights_of_the_python_class(name):
    words = f"--task Adding --layer {name} --hidden_size 16 --steps 1".split()
    ours = row_to_train(**arguments_of(parser_of(row_to_train), words)).build(0).layer
    same = registry.LAYERS[name](2, 16, generator=seeded())
    assert str(ours) == str(same)
    weights = ours.state_dict(), same.state_dict()
    assert all(map(torch.equal, *(each.values() for each in weights)))


@few("constraint", {name: name for name in registry.CONSTRAINTS}, ["Schur", "Masked"])
def test_every_constraint_can_be_named(eigenrnn, constraint, tmp_path):
    assert eigenrnn(f"train {SMALL} --layer RNN --layer.constraint {constraint}").status == 0
    written = config(tmp_path / "runs" / "copying-rnn-6")
    assert f"{constraint}(" in written["modules"]


def test_the_output_of_a_complex_layer_is_a_word(eigenrnn):
    assert eigenrnn(f"train {SMALL} --layer ScuRNN --layer.output real --out here").status == 0


def test_train_reads_from_data_root(eigenrnn, data_root, monkeypatch, tmp_path):
    monkeypatch.setenv("EIGENRNN_DATA", str(tmp_path / "elsewhere"))
    done = eigenrnn(
        f"train --task Text --hidden_size 2 --steps 1 --eval_batch_size 500 --accelerator cpu "
        f"--data_root {data_root}"
    )
    assert done.status == 0


@pytest.mark.parametrize("name", registry.TASKS)
def test_the_default_layer_of_a_task_is_the_one_in_the_documentation(name):
    page = (Path(__file__).parents[3] / "docs/experiments.md").read_text()
    rows = [row for row in page.splitlines() if row.startswith("| ") and f"`{name}`" in row]
    layer = rows[-1].split("|")[2].strip(" `")
    assert DEFAULT_LAYERS.get(registry.TASKS[name], GRU).__name__ == layer


@pytest.mark.parametrize("from_file", [True, False])
def test_train_takes_the_layer_of_the_task(eigenrnn, data_root, tmp_path, from_file):
    line = "--task PixelMNIST --task.eval_examples 2"
    if from_file:
        text = "task: {class_path: PixelMNIST, init_args: {eval_examples: 2}}\n"
        line = f"--config {write(tmp_path / 'run.yaml', text)}"
    eigenrnn(f"train {line} --data_root {data_root} --hidden_size 4 --steps 1 --accelerator cpu")
    assert config(tmp_path / "runs/pixelmnist-lru-4")["layer"] == "LRU"


def test_the_seed_determines_the_initialisation(eigenrnn, tmp_path):
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        eigenrnn(f"train {SMALL} --seed {seed} --out {name}")
    a, b, c = (read_metrics(tmp_path / name)[0]["train_loss"] for name in "abc")
    assert a == b != c


YAML = {
    "names": "task: Copying\nlayer: ScoRNN\n",
    "names with options": (
        "task: {class_path: Copying, init_args: {delay: 5}}\n"
        "layer: {class_path: RNN, init_args: {constraint: {class_path: Exponential}}}\n"
    ),
    "class paths": (
        "task: {class_path: eigenrnn_experiments.tasks.Copying, init_args: {delay: 5}}\n"
        "layer: {class_path: eigenrnn.layers.NnRNN, init_args: {gamma: clamped}}\n"
    ),
}


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_a_run_can_be_configured_by_a_file(eigenrnn, tmp_path, text):
    file = write(tmp_path / "run.yaml", text + "hidden_size: 6\nsteps: 2\naccelerator: cpu\n")
    assert eigenrnn(f"train --config {file} --out here").status == 0
    assert config(tmp_path / "here")["settings"]["steps"] == 2


def test_flags_override_the_file(eigenrnn, tmp_path):
    task = "task: {class_path: Copying, init_args: {delay: 5, symbols: 3}}"
    text = f"{task}\nlayer: LSTM\nhidden_size: 6\nsteps: 9\n"
    file = write(tmp_path / "run.yaml", text)
    eigenrnn(f"train --config {file} --layer GRU --steps 2 --task.delay 4 --out here")
    written = config(tmp_path / "here")
    assert written["task"]["options"].items() >= {"delay": 4, "symbols": 3}.items()
    assert written["layer"] == "GRU"
    assert written["settings"]["steps"] == 2


def test_the_configuration_is_printed_and_nothing_is_trained(printed_by, tmp_path):
    options = yaml.safe_load(printed_by(f"train {SMALL} --lr 0.5 --print_config"))
    assert options["lr"] == 0.5
    assert options["task"]["init_args"]["delay"] == 3
    assert not (tmp_path / "runs").exists()


def test_the_printed_configuration_can_be_used_as_a_file(eigenrnn, printed_by, tmp_path):
    printed = printed_by(f"train {SMALL} --layer GRU --print_config")
    eigenrnn(f"train --config {write(tmp_path / 'run.yaml', printed)} --out by-file")
    eigenrnn(f"train {SMALL} --layer GRU --out by-flags")
    by_file, by_flags = (config(tmp_path / name) for name in ("by-file", "by-flags"))
    asked = ("task", "network", "settings", "modules")
    assert [by_file[name] for name in asked] == [by_flags[name] for name in asked]


OWN_LAYER = """
from eigenrnn import GRU

class Plain(GRU):
    def __init__(self, input_size: int, hidden_size: int, **options):
        super().__init__(input_size, hidden_size, **options)

def make(input_size: int, hidden_size: int, generator=None) -> GRU:
    return GRU(input_size, hidden_size, generator=generator)
"""


@pytest.mark.parametrize("layer", ["own_layer.Plain", "own_layer.make"])
def test_a_class_or_a_function_of_your_own_is_a_layer(eigenrnn, tmp_path, monkeypatch, layer):
    write(tmp_path / "own_layer.py", OWN_LAYER)
    monkeypatch.syspath_prepend(tmp_path)
    assert eigenrnn(f"train {SMALL} --layer {layer} --out here").status == 0
    stored = config(tmp_path / "here")["network"]["layer"]
    assert layer in (stored, stored["function"] if isinstance(stored, dict) else "")


def test_a_task_of_your_own_is_refused_with_all_that_it_lacks(error_of, tmp_path, monkeypatch):
    write(
        tmp_path / "own_task.py",
        "from eigenrnn_experiments.tasks import Synthetic\nclass Half(Synthetic):\n    pass",
    )
    monkeypatch.syspath_prepend(tmp_path)
    said = error_of("train --task own_task.Half --steps 1")
    assert {"_draw,", "baseline,", "loss,", "metric_name,"} <= set(said.split())


@pytest.mark.parametrize("named", ["", "--layer ScoRNN", "--layer ScoRNN --layer.bias true"])
def test_a_network_has_one_description_however_it_is_named(eigenrnn, tmp_path, named):
    eigenrnn(f"train {SMALL} --out default")
    eigenrnn(f"train {SMALL} {named} --out named")
    networks = [config(tmp_path / name)["network"] for name in ("default", "named")]
    assert networks[0] == networks[1]


def test_an_existing_run_is_refused_with_both_options(eigenrnn, error_of):
    eigenrnn(f"train {SMALL}")
    said = error_of(f"train {SMALL}")
    assert "runs/copying-scornn-6 already holds a run" in said
    assert "--resume" in said
    assert "--overwrite" in said


# errors

REFUSED = {
    # names
    "": "expected a command",
    "trian": "'trian' (did you mean train?)",
    "list layer": "'layer' (did you mean layers?)",
    "train --task copyng --steps 1": "copyng",
    f"train {TINY} --layer scorn": "scorn",
    f"train {TINY} --layer torch.nn.LSTM": "torch.nn.LSTM",
    f"train {TINY} --layer RNN --layer.constraint exponental": "exponental",
    "reproduce scornn/tabel2": "'scornn/tabel2' (did you mean scornn/table2",
    "collect car_racin": "Got value: car_racin;",
    # options
    f"train {TINY} --task.dely 3": "'dely'",
    f"train {TINY} --layer.negative 3": "expected --layer",
    f"train {TINY} --layer ScoRNN --layer.batch_first true": "batch_first=True",
    f"train {TINY} --hiden_size 3": "--hiden_size",
    # values
    f"train {TINY} --lr fast": "fast",
    f"train {TINY} --optimiser adamm": "adamm",
    f"train {TINY} --layer ScoRNN --layer.negative 300": "got 300",
    f"train {TINY} --task.delay 0": "expected delay >= 1, got 0",
    f"train {TINY} --epochs 3": "got 4 and 3",
    f"train {TINY} --data_root here": "expected no --data_root: Copying reads no files",
}


@pytest.mark.parametrize(("line", "named"), REFUSED.items(), ids=REFUSED)
def test_invalid_arguments_are_refused_in_one_line(error_of, line, named):
    assert named in error_of(line)


@pytest.mark.parametrize("line", [line for line in REFUSED if line.startswith("train")])
def test_refused_arguments_leave_no_files(eigenrnn, tmp_path, line):
    eigenrnn(line)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["--layer RNN", "--config run.yaml"])
def test_a_named_layer_has_its_own_defaults_and_not_those_of_the_layer_of_its_task(
    eigenrnn, tmp_path, given
):
    write(tmp_path / "run.yaml", "layer: RNN\n")
    train = "train --task StateTracking --task.length 4 --task.test_lengths [4]"
    options = "--task.test_examples 4 --hidden_size 4 --steps 1 --batch_size 2 --out run"
    assert eigenrnn(f"{train} {given} {options}").status == 0
    assert load(tmp_path / "run").model.layer.nonlinearity == "modrelu"


def test_an_allocation_that_fails_ends_in_one_line(error_of, tmp_path):
    assert "you tried to allocate" in error_of(f"train {TINY} --hidden_size 10000000")
    assert list(tmp_path.iterdir()) == []


WRONG_FILES = {
    "an unknown option": ("task: Copying\nstepz: 3\n", "stepz"),
    "no YAML": ("task: [\n", "line 2"),
    "a key twice": ("task: Copying\nsteps: 3\nsteps: 4\n", "each key once, got steps 2 times"),
    "a decay at no": ("task: Copying\nlr_decay_at: no\n", "lr_decay_at"),
}


@pytest.mark.parametrize(("text", "said"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_an_invalid_file_is_refused_in_one_line(error_of, tmp_path, text, said):
    file = write(tmp_path / "run.yaml", text)
    assert said in error_of(f"train --config {file} --steps 1")


def test_a_missing_file_is_refused(error_of):
    assert "nowhere.yaml" in error_of("train --config nowhere.yaml")


def test_debugging_raises_the_error(eigenrnn, monkeypatch):
    eigenrnn(f"train {SMALL}")
    monkeypatch.setenv("EIGENRNN_DEBUG", "1")
    with pytest.raises(RunExistsError):
        eigenrnn(f"train {SMALL}")


# data

PIXELS = "--task PixelMNIST --hidden_size 2 --steps 1"


@pytest.mark.parametrize("command", [f"train {PIXELS}", "reproduce scornn/table1"])
def test_missing_data_names_the_file_the_addresses_and_the_variable(error_of, command):
    file = FILES["train", "images"]
    said = error_of(f"{command} --data_root nowhere")
    assert f"nowhere/{file.path}" in said
    assert all(url in said for url in file.urls)
    assert len(file.urls) == 2
    assert "$EIGENRNN_DATA" in said


@pytest.mark.parametrize("command", [f"train {PIXELS}", "reproduce scornn/table1"])
def test_a_run_whose_data_is_missing_leaves_no_folder(eigenrnn, tmp_path, command):
    assert eigenrnn(f"{command} --data_root nowhere").status == 2
    assert list(tmp_path.iterdir()) == []


# reproduce


def test_a_recipe_prints_its_table(eigenrnn, tmp_path):
    done = eigenrnn(f"reproduce scornn/fig1 {ROW}")
    written = (tmp_path / "runs" / "scornn-fig1-quick" / "results.md").read_text()
    assert done.status == 0
    assert "| scoRNN 190 T=1000 | 21,764 | last test loss | 0 |" in done.out
    assert done.out.startswith(written)


def test_a_recipe_prints_where_its_results_are(eigenrnn):
    done = eigenrnn(f"reproduce scornn/fig1 {ROW}")
    assert done.out.endswith("in runs/scornn-fig1-quick: results.md\n")


@pytest.mark.long
def test_on_a_terminal_that_is_wide_enough_the_table_is_drawn(eigenrnn, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    done = eigenrnn("reproduce scornn/fig1 --rows uRNN --quick")
    lines = re.sub(r"\x1b\[[\d;]*m", "", done.out).splitlines()
    assert "full-capacity" in done.out
    assert not any(line.startswith("|") for line in lines)
    assert max(map(len, lines)) <= 200


def test_a_run_or_a_recipe_stops_after_max_minutes(eigenrnn, tmp_path):
    run = "train --task Copying --task.delay 4 --steps 1000 --max_minutes 1e-9 --out run"
    assert eigenrnn(run).status == 0
    assert eigenrnn(f"reproduce scornn/fig1 {ROW} --max_minutes 1e-9 --out recipe").status == 0
    for ended in ("run", "recipe/scornn-190-t-1000/seed-0"):
        assert (tmp_path / ended / "last.pt").exists()
        assert config(tmp_path / ended)["state"] == "unfinished"


def test_an_interrupted_recipe_has_the_exit_status_of_the_signal(eigenrnn, monkeypatch):
    def stop(*_, **__):
        raise StoppedError(signal.SIGTERM)

    monkeypatch.setattr(recipes, "reproduce", stop)
    assert eigenrnn(f"reproduce scornn/fig1 {ROW}").status == 143


# stopping


INTERRUPT_AT_TORCH = """
import sys

class Interrupt:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt)
from eigenrnn_experiments.cli import main
sys.exit(main())
"""


def test_an_interrupt_during_the_imports_ends_without_a_traceback():
    command = [sys.executable, "-c", INTERRUPT_AT_TORCH, "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: stopped\n")


@pytest.mark.parametrize("number", some([signal.SIGINT, signal.SIGTERM], [signal.SIGTERM]))
@pytest.mark.parametrize(
    "line", [f"train {SMALL} --out here", f"reproduce scornn/fig1 {ROW} --seeds 0 1 --out here"]
)
def test_a_signal_in_the_final_evaluation_ends_the_command(eigenrnn, monkeypatch, line, number):
    measure, sent = TrainStep.evaluate, []

    def signalled(train_step):
        if not sent:
            signal.raise_signal(number)
        sent.append(number)
        return measure(train_step)

    monkeypatch.setattr(TrainStep, "evaluate", signalled)
    done = eigenrnn(line)
    assert done.status == 128 + number
    assert len(sent) == 1, "one run"
    assert "--resume" in done.err
    assert eigenrnn(f"{line} --resume").status == 0


ENDLESS = """
from eigenrnn_experiments.cli import commands

def endless() -> int:
    while True:
        print("a line")

commands.function_of = lambda name: endless
raise SystemExit(commands.run(["list"]))
"""


def test_output_that_nobody_reads_any_more_is_no_error():
    command = [sys.executable, "-c", ENDLESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()  # as `head -1` does
        assert process.wait() == 128 + signal.SIGPIPE
        assert process.stderr.read() == b""
