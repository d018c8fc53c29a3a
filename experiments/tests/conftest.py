"""What the tests of the experiments may ask for, besides what all tests may."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def reproduced_once(tmp_path_factory):
    """Both seeds of the tiny table's network, as `reproduce` leaves them."""
    from recipes_for_results import TABLE, recipes, run

    folder = tmp_path_factory.mktemp("runs") / "tiny-table1"
    run(recipes()[TABLE], folder)
    return folder


@pytest.fixture
def reproduced(reproduced_once, tmp_path):
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(reproduced_once, tmp_path / "runs" / reproduced_once.name))


@pytest.fixture
def archive(tmp_path):
    """An archive of runs without any."""
    from reproduction.archive import Archive

    return Archive(tmp_path / "results")
