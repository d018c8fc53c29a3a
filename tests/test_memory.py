"""Tests of `keep_freed_memory`."""

import ctypes
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest

from eigenrnn import keep_freed_memory

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4  # of malloc.h
FAULTS = """
from resource import RUSAGE_SELF, getrusage
import torch
from eigenrnn import keep_freed_memory

def faults():
    before = getrusage(RUSAGE_SELF).ru_minflt
    for _ in range(3):
        torch.ones(12_000_000).add(1)  # 48 MB each
    return getrusage(RUSAGE_SELF).ru_minflt - before

before = faults()
supported = keep_freed_memory()
print(supported, before, min(faults() for _ in range(6)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only of the C library of GNU")
def test_that_the_next_tensors_get_the_memory_of_freed_ones():
    # in a process of its own, because this one would keep its memory too
    command = [sys.executable, "-c", FAULTS]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    supported, before, after = ended.stdout.split()
    assert supported == "True"
    assert int(before) > 3 * 48_000_000 / 2**21  # a page has at most 2 MB
    assert int(after) < int(before) / 20


@pytest.mark.parametrize("takes_threshold", [True, False])
def test_that_old_libraries_map_no_tensor(takes_threshold, monkeypatch):
    calls = []

    def mallopt(parameter, value):
        calls.append((parameter, value))
        return parameter != MMAP_THRESHOLD or takes_threshold

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=mallopt))
    assert keep_freed_memory()
    assert ((MMAP_MAX, 0) in calls) != takes_threshold
    assert calls[-1] == (TRIM_THRESHOLD, -1)


def _refuse(_):
    raise TypeError


@pytest.mark.parametrize("library", [_refuse, lambda _: SimpleNamespace()])
def test_other_c_libraries(library, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", library)
    assert not keep_freed_memory()
