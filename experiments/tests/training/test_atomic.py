"""Files are written whole, and never through what another process left in their place."""

from eigenrnn_experiments.files import write_atomically


def test_a_link_in_place_of_the_file_is_replaced(tmp_path):
    path = tmp_path / "result.json"
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    path.symlink_to(victim)
    write_atomically(path, b"new")
    assert (victim.read_bytes(), path.read_bytes()) == (b"precious", b"new")
    assert not path.is_symlink()


def test_what_a_killed_process_left_behind_is_gone_after_the_next_call(tmp_path):
    path = tmp_path / "result.json"
    temporary = tmp_path / "result.json.tmp"
    temporary.write_bytes(b"half of it")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert not temporary.exists()
