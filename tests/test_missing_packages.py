"""What needs a package that is not installed names it, with the command that installs it."""

import subprocess
import sys

import pytest

from eigenrnn import RNN, SequenceModel
from eigenrnn.export import export_model

PACKAGES = {
    "analysis": ["scipy", "matplotlib"],
    "estimators": ["sklearn"],
}


HIDDEN = """
import importlib, sys
for extra, package in zip(sys.argv[1::2], sys.argv[2::2]):
    before = set(sys.modules)
    sys.modules[package] = None
    try:
        importlib.import_module(f"eigenrnn.{extra}")
    except ImportError as error:
        print(type(error).__name__, error, sep=": ")
    for name in set(sys.modules) - before:
        if name.startswith("eigenrnn") or name == package:
            del sys.modules[name]
"""


def test_an_import_names_the_missing_package():
    hidden = [(extra, each) for extra, names in PACKAGES.items() for each in names]
    words = [word for pair in hidden for word in pair]
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        f"ImportError: eigenrnn.{extra} needs {package}: pip install 'eigenrnn[{extra}]'"
        for extra, package in hidden
    ]


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_an_export_names_the_missing_package_and_writes_nothing(package, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    model = SequenceModel(RNN(2, 3), 1).eval()
    with pytest.raises(ImportError, match=rf"{package}: pip install 'eigenrnn\[onnx\]'$"):
        export_model(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
