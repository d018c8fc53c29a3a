"""What needs a package that is not installed names it, with the command that installs it."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from benchmarks.sequences.layers import benchmarked_layers
from eigenrnn_experiments.export import export_model

from crossing import some
from eigenrnn import RNN, SequenceModel
from eigenrnn_experiments.cli.main import main
from eigenrnn_experiments.data.audio import wave_bytes
from eigenrnn_experiments.data.in_memory import from_arrays
from eigenrnn_experiments.data.series import read_series
from eigenrnn_experiments.report import write_report
from eigenrnn_experiments.tasks import Series
from eigenrnn_experiments.tasks.speech import pesq, stoi
from eigenrnn_experiments.world import Collection

PACKAGES = {
    "analysis": ["scipy", "matplotlib"],
    "estimators": ["sklearn"],
    "experiments": [
        *("filelock", "jsonargparse", "lightning", "matplotlib", "msgspec", "pandas"),
        *("pooch", "rich", "scipy", "tensorboard", "torchmetrics"),
    ],
    "report": ["jinja2", "plotly"],
    "sweep": ["ray", "optuna"],
    "world": ["gymnasium", "Box2D", "pygame", "PIL"],
    "onnx": ["onnx", "onnxscript", "onnxruntime"],
}
SOUND = torch.zeros(8_000)
MODEL = SequenceModel(RNN(2, 3), 1).eval()
ARRAYS = from_arrays([np.zeros((3, 1))] * 8, labels=[0, 1] * 4, groups=range(8))
GROUPED = Series(train=ARRAYS, validation=0.5)
FILES = {
    "mine.parquet": "PAR1",
    "sweep.yaml": ("{task: Copying, steps: 2, search: {lr: {low: 0.1, high: 0.2}}}"),
}

FUNCTIONS = {
    "wave_bytes": ("soundfile", "speech", partial(wave_bytes, SOUND)),
    "stoi": ("pystoi", "speech", partial(stoi, SOUND, SOUND)),
    "pesq": ("pesq", "speech", partial(pesq, SOUND, SOUND)),
    "read_series": ("pyarrow", "series", partial(read_series, "mine.parquet")),
    "benchmarked_layers": ("geotorch", "dev", partial(benchmarked_layers, 4, slow=True)),
    "groups": ("sklearn", "estimators", lambda: GROUPED.preprocessing),
    "folds": ("sklearn", "estimators", partial(Series, train=ARRAYS, folds=2)),
    **{
        f"write_report {name}": (name, "report", partial(write_report, ["."], "page.html"))
        for name in PACKAGES["report"]
    },
    **{
        f"export_model {name}": (name, "onnx", partial(export_model, MODEL, "model.onnx"))
        for name in PACKAGES["onnx"]
    },
    **{
        f"Collection {name}": (name, "world", lambda: Collection("out", 3, 2).record())
        for name in PACKAGES["world"]
    },
}

COMMANDS = {
    "collect car_racing": "world",
    "sweep sweep.yaml": "sweep",
    "train --task Series --task.train mine.parquet --steps 1": "series",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the current folder, which holds FILES."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run_without(package, code):
    """Run Python code in a process that cannot import a package."""
    hidden = f"import sys; sys.modules[{package!r}] = None; {code}"
    return subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, check=False
    )


IMPORTED = [("analysis", package) for package in PACKAGES["analysis"]]
IMPORTED += [("estimators", "sklearn")]
IMPORTED += [("experiments", package) for package in PACKAGES["experiments"]]


@pytest.mark.parametrize(
    "missing",
    some(
        IMPORTED, [("analysis", "scipy"), ("estimators", "sklearn"), ("experiments", "lightning")]
    ),
)
def test_an_import_names_the_missing_package(missing):
    extra, package = missing
    done = run_without(package, f"import eigenrnn.{extra}")
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: eigenrnn.{extra} needs {package}: pip install 'eigenrnn[{extra}]'"
    )


@pytest.mark.parametrize("package", PACKAGES["experiments"])
def test_the_command_names_the_missing_package(package):
    done = run_without(package, "from eigenrnn.__main__ import main; sys.exit(main())")
    assert done.returncode == 2
    assert done.stderr == (
        f"error: eigenrnn_experiments needs {package}: pip install 'eigenrnn[experiments]'\n"
    )


@pytest.mark.parametrize(("package", "extra", "call"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_names_the_missing_package_and_writes_nothing(
    package, extra, call, monkeypatch, folder
):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{package}: pip install 'eigenrnn\[{extra}\]'$"):
        call()
    assert {path.name for path in folder.iterdir()} == set(FILES)


@pytest.mark.parametrize(
    ("line", "package"),
    [
        (line, package)
        for line, extra in COMMANDS.items()
        for package in PACKAGES.get(extra, ["pyarrow"])
    ],
)
def test_a_command_names_the_missing_package_and_writes_nothing(
    line, package, monkeypatch, folder, capsys
):
    monkeypatch.setitem(sys.modules, package, None)
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    extra = COMMANDS[line]
    assert package in said
    assert said.endswith(f"pip install 'eigenrnn[{extra}]'\n")
    assert {path.name for path in folder.iterdir()} == set(FILES)
