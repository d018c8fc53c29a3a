"""What a release would build, and what the README says before and after it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHONS = ["cp311", "cp312", "cp313", "cp314"]


@pytest.mark.parametrize(
    ("platform", "machine", "wheel"),
    [
        ("linux", "x86_64", "manylinux_x86_64"),
        ("linux", "aarch64", "manylinux_aarch64"),
        ("macos", "arm64", "macosx_arm64"),
    ],
)
def test_a_release_has_four_wheels_for_each_machine(platform, machine, wheel):
    pytest.importorskip("cibuildwheel")
    options = "--print-build-identifiers", "--platform", platform, "--archs", machine
    done = subprocess.run(
        [sys.executable, "-m", "cibuildwheel", *options],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [f"{python}-{wheel}" for python in PYTHONS]


def test_the_readme_installs_from_the_index_as_soon_as_the_changelog_has_a_release():
    released = re.search(r"^## \[\d", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    shown = re.sub(r"<!--.*?-->", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert ("pip install eigenrnn`" in shown) == (released is not None)


def test_only_the_readme_says_that_there_is_no_release():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("experiments/*.md")]
    assert [p.name for p in pages if "not on PyPI yet" in p.read_text()] in ([], ["README.md"])
