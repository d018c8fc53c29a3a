"""The tutorials run from top to bottom and draw the pictures that they show."""

import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.figure import Figure
from test_docs import PATH, ROOT, TUTORIALS, blocks

sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from two_themes import save_both

DRAWN = re.compile(r"^:::\{drawn\} (\S+)$", re.MULTILINE)
SAVED = ROOT / "docs" / "tutorials" / "pictures"


@pytest.fixture
def figures(monkeypatch):
    """The figures that a page saves, by name."""
    found = {}

    def savefig(self, path, **_):
        found[Path(path).stem] = self

    monkeypatch.setattr(Figure, "savefig", savefig)
    with mpl.rc_context({"backend": "agg"}):
        yield found
        plt.close("all")


@pytest.mark.tutorials
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_tutorial_runs_and_draws_its_pictures(page, tmp_path, data_root, monkeypatch, figures):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", PATH)
    monkeypatch.setenv("EIGENRNN_DATA", str(data_root.resolve()))
    namespace = {"__name__": "page"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for block in blocks(page):
            if block.language == "python":
                code = "\n" * (block.line - 1) + block.text
                exec(compile(code, str(page), "exec"), namespace)
            if block.language == "console":
                for command, _ in block.commands():
                    subprocess.run(["bash", "-c", command], check=True, timeout=600)
    assert list(figures) == DRAWN.findall(page.read_text())
    monkeypatch.undo()
    folder = os.environ.get("EIGENRNN_PICTURES")
    for name, figure in figures.items():
        save_both(figure, Path(folder or tmp_path), name)


def test_every_picture_of_the_tutorials_is_there():
    names = [name for page in TUTORIALS for name in DRAWN.findall(page.read_text())]
    expected = {f"{name}-{theme}.png" for name in names for theme in ("light", "dark")}
    assert {path.name for path in SAVED.iterdir()} == expected
