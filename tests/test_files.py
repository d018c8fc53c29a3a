"""Exports that fail leave the earlier files, and those that links lead to."""

import resource
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from eigenrnn import GRU, SequenceModel
from eigenrnn.analysis import spectrum
from eigenrnn.export import export_model, to_c

# torch's exporter warns about itself
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")


def model():
    return SequenceModel(GRU(2, 16), 2).eval()


WRITERS = {
    "net.c": lambda path: to_c(model(), path),
    "net.h": lambda path: to_c(model(), path.with_suffix(".c")),
    "net.pt2": lambda path: export_model(model(), path),
    "net.onnx": lambda path: export_model(model(), path),
    "net.json": lambda path: export_model(model(), path.with_suffix(".pt2")),
    "net.png": lambda path: spectrum(torch.eye(9)).save(path.with_suffix("")),
    "net.csv": lambda path: spectrum(torch.eye(9)).save(path.with_suffix("")),
}


@contextmanager
def files_of_at_most_99_bytes():
    """Limit the files of a block only, because pytest may write its own report to one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (99, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_earlier_file(name, tmp_path):
    (tmp_path / name).write_text("earlier")
    first = name.replace(".h", ".c").replace(".json", ".pt2").replace(".png", ".csv")
    expected_error = pytest.raises(OSError, match=rf"File too large.*{first}")
    with expected_error, files_of_at_most_99_bytes():
        WRITERS[name](tmp_path / name)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, "earlier")]


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_is_replaced_and_its_file_stays(name, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("earlier")
    for link in (tmp_path / name, tmp_path / f"{name}.tmp"):
        link.symlink_to(precious)
    WRITERS[name](tmp_path / name)
    assert precious.read_text() == "earlier"
    assert not (tmp_path / name).is_symlink()


def test_an_export_that_computes_something_else_leaves_the_earlier_file(tmp_path, monkeypatch):
    (tmp_path / "net.pt2").write_text("earlier")
    monkeypatch.setattr("eigenrnn.export.programs._TOLERANCE", -1)
    with pytest.raises(ValueError, match="relative difference"):
        export_model(nn.GRU(2, 3).eval(), tmp_path / "net.pt2")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["earlier"]
