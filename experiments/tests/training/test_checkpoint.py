"""Checkpoints are complete, verified and run no code."""

import contextlib
import pickle

import pytest
import torch

from eigenrnn_experiments.errors import CheckpointError
from eigenrnn_experiments.training import checkpoint

STATE = {"step": 7, "name": "x", "weights": {"W": torch.arange(64.0)}, "last": [1.5, None]}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "last.pt"
    checkpoint.save(path, STATE)
    return path


def test_no_flipped_byte_changes_the_loaded_numbers(path):
    content = path.read_bytes()
    rejected = 0
    for position in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        state = None
        with contextlib.suppress(CheckpointError):
            state = checkpoint.load(path)
        if state is None:
            rejected += 1
        else:  # the byte was padding
            assert torch.equal(state["weights"]["W"], STATE["weights"]["W"])
            assert state["step"] == STATE["step"]
    assert rejected > 0


def test_another_torch_file_raises(path):
    torch.save([1, 2], path)
    with pytest.raises(CheckpointError, match="no format number"):
        checkpoint.load(path)


def test_a_file_of_a_newer_layout_raises(path):
    torch.save({"format": checkpoint.FORMAT + 1}, path)
    with pytest.raises(CheckpointError, match="of a newer eigenrnn"):
        checkpoint.load(path)


class Exploit:
    def __reduce__(self):
        return (pytest.fail, ("code in the file was run",))


def test_code_in_a_file_is_never_run(path):
    torch.save({"format": 1, "exploit": Exploit()}, path, pickle_module=pickle)
    with pytest.raises(CheckpointError, match="not a readable"):
        checkpoint.load(path)
