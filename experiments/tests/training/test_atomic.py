"""Files are written whole, and never through what another process left in their place."""

import pytest

from eigenrnn_experiments.files import write_atomically


@pytest.fixture
def path(tmp_path):
    return tmp_path / "result.json"


@pytest.fixture
def temporary(tmp_path):
    """The name under which the content is written before it is complete."""
    return tmp_path / "result.json.tmp"


def test_a_link_in_place_of_the_file_is_replaced(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    path.symlink_to(victim)
    write_atomically(path, b"new")
    assert (victim.read_bytes(), path.read_bytes()) == (b"precious", b"new")
    assert not path.is_symlink()


def test_what_a_killed_process_left_behind_is_gone_after_the_next_call(path, temporary):
    temporary.write_bytes(b"half of it")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert not temporary.exists()
