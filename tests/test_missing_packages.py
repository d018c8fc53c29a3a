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


@pytest.mark.parametrize(
    ("extra", "package"), [(extra, each) for extra, names in PACKAGES.items() for each in names]
)
def test_an_import_names_the_missing_package(extra, package):
    hidden = f"import sys; sys.modules[{package!r}] = None; import eigenrnn.{extra}"
    done = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: eigenrnn.{extra} needs {package}: pip install 'eigenrnn[{extra}]'"
    )


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_an_export_names_the_missing_package_and_writes_nothing(package, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    model = SequenceModel(RNN(2, 3), 1).eval()
    with pytest.raises(ImportError, match=rf"{package}: pip install 'eigenrnn\[onnx\]'$"):
        export_model(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
