"""What needs a package that is not installed names it, with the command that installs it."""

import sys
from functools import partial

import pytest
import torch

from eigenrnn_experiments.cli import main
from eigenrnn_experiments.data.audio import wave_bytes
from eigenrnn_experiments.report import write_report
from eigenrnn_experiments.tasks.speech import pesq, stoi
from eigenrnn_experiments.world import Collection

PACKAGES = {
    "report": ["jinja2", "plotly"],
    "sweep": ["ray", "optuna"],
    "world": ["gymnasium", "Box2D", "pygame", "PIL"],
}
SOUND = torch.zeros(8_000)
FILES = {
    "sweep.yaml": ("{task: Copying, steps: 2, search: {lr: {low: 0.1, high: 0.2}}}"),
}

FUNCTIONS = {
    "wave_bytes": ("soundfile", "speech", partial(wave_bytes, SOUND)),
    "stoi": ("pystoi", "speech", partial(stoi, SOUND, SOUND)),
    "pesq": ("pesq", "speech", partial(pesq, SOUND, SOUND)),
    **{
        f"write_report {name}": (name, "report", partial(write_report, ["."], "page.html"))
        for name in PACKAGES["report"]
    },
    **{
        f"Collection {name}": (name, "world", lambda: Collection("out", 3, 2).record())
        for name in PACKAGES["world"]
    },
}

COMMANDS = {
    "collect car_racing": "world",
    "sweep sweep.yaml": "sweep",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the current folder, which holds FILES."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(("package", "extra", "call"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_names_the_missing_package_and_writes_nothing(
    package, extra, call, monkeypatch, folder
):
    monkeypatch.setitem(sys.modules, package, None)
    command = rf"{package}: pip install 'eigenrnn-experiments\[{extra}\]'$"
    with pytest.raises(ImportError, match=command):
        call()
    assert {path.name for path in folder.iterdir()} == set(FILES)


@pytest.mark.parametrize(
    ("line", "package"),
    [(line, package) for line, extra in COMMANDS.items() for package in PACKAGES[extra]],
)
def test_a_command_names_the_missing_package_and_writes_nothing(
    line, package, monkeypatch, folder, capsys
):
    monkeypatch.setitem(sys.modules, package, None)
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert package in said
    assert said.endswith(f"pip install 'eigenrnn-experiments[{COMMANDS[line]}]'\n")
    assert {path.name for path in folder.iterdir()} == set(FILES)
