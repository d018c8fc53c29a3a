"""Checkpoints are whole, verified and harmless."""

import contextlib
import copy
import pickle
import resource
import zipfile

import pytest
import torch

from eigenrnn.errors import CheckpointError
from eigenrnn.experiments.training import checkpoint

STATE = {"step": 7, "name": "x", "weights": {"W": torch.arange(64.0)}, "last": [1.5, None]}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "last.pt"
    checkpoint.save(path, STATE)
    return path


def test_what_was_saved_comes_back(path):
    state = checkpoint.load(path)
    assert torch.equal(state["weights"]["W"], STATE["weights"]["W"])
    assert {k: v for k, v in state.items() if k != "weights"} == {
        "step": 7,
        "name": "x",
        "last": [1.5, None],
        "format": checkpoint.FORMAT,
    }


def test_saving_leaves_no_other_file(path):
    checkpoint.save(path, STATE)
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no checkpoint .*absent\.pt"):
        checkpoint.load(tmp_path / "absent.pt")


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_named(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CheckpointError, match=r"last\.pt is truncated or damaged"):
        checkpoint.load(path)


def test_a_flipped_bit_in_the_weights_is_found(path):
    content = bytearray(path.read_bytes())
    weights = STATE["weights"]["W"].numpy().tobytes()
    content[content.index(weights) + 100] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"last\.pt is damaged: the checksum of .*data/0"):
        checkpoint.load(path)


def test_no_flipped_byte_passes_for_other_numbers(path):
    content = path.read_bytes()
    refused = 0
    for position in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        state = None
        with contextlib.suppress(CheckpointError):
            state = checkpoint.load(path)
        if state is None:
            refused += 1
        else:  # the byte was padding
            assert torch.equal(state["weights"]["W"], STATE["weights"]["W"])
            assert state["step"] == STATE["step"]
    assert refused > 0


def test_a_foreign_file_is_refused(path):
    path.write_text("a letter")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        checkpoint.load(path)


def test_a_file_of_torch_that_is_no_checkpoint_is_refused(path):
    torch.save([1, 2], path)
    with pytest.raises(CheckpointError, match="no format number"):
        checkpoint.load(path)


def compressed(path, size):
    """Write a part that is inflated to this many bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(size))


def overlapping(path, size):
    """Write a part that the directory of the archive names many times."""
    part = size // 100
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", bytes(part))
        (info,) = archive.filelist
        for number in range(100):
            other = copy.copy(info)
            other.filename = f"archive/data/{number}"
            archive.filelist.append(other)
        archive._didModify = True


@pytest.mark.parametrize("write", [compressed, overlapping])
def test_a_file_that_is_larger_inside_is_refused_before_it_is_inflated(path, monkeypatch, write):
    write(path, 1_000_000)
    monkeypatch.setattr(zipfile.ZipFile, "testzip", pytest.fail)
    with pytest.raises(CheckpointError, match=r"last\.pt is no checkpoint: its \d+ bytes are"):
        checkpoint.load(path)


def test_a_newer_format_is_refused(path):
    torch.save({"format": checkpoint.FORMAT + 1}, path)
    with pytest.raises(CheckpointError, match=r"expected .* format <= 1, got 2 in .*last\.pt"):
        checkpoint.load(path)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("code of the file was run",))


def test_code_in_a_file_is_never_run(path):
    torch.save({"format": 1, "bomb": Bomb()}, path, pickle_module=pickle)
    with pytest.raises(CheckpointError, match="is not a readable checkpoint"):
        checkpoint.load(path)


def test_a_full_disk_leaves_the_old_file(path):
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            checkpoint.save(path, {"W": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
