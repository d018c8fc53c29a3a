"""What every test may ask for."""

import importlib.util
import os
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch

from crossing import pair_cover

if not torch.cuda.is_available():
    # Triton asks when its functions are decorated, eigenrnn when it is imported
    os.environ["TRITON_INTERPRET"] = "1"


def pytest_addoption(parser):
    parser.addoption("--kernels", metavar="FILE", help="test this build of the compiled kernels")
    parser.addoption("--every", type=int, default=1, metavar="N", help="run every N-th test alone")


def pytest_configure(config):
    file = config.getoption("--kernels")
    if file is None:
        return
    # what is imported already is not looked for
    spec = importlib.util.spec_from_file_location("eigenrnn._cpu", file)
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[spec.name])


# Around what pytest itself deselects by markers.
@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Of the product of options of a test marked `pairs`, all but a cover of pairs is long."""
    products = defaultdict(list)
    for item in items:
        crossed = item.get_closest_marker("pairs") and hasattr(item, "callspec")
        if crossed and not item.get_closest_marker("long"):
            products[item.parent, item.originalname].append(item)
    for product in products.values():
        # values need not be comparable, but each is one object in all items
        rows = [{name: id(v) for name, v in item.callspec.params.items()} for item in product]
        chosen = pair_cover(rows)
        for place in set(range(len(product))) - set(chosen):
            product[place].add_marker("long")
    yield
    items[:] = items[:: config.getoption("--every")]


@pytest.fixture(scope="session")
def data_root():
    """The folder of real data; a test that needs it is skipped where there is none."""
    named = os.environ.get("EIGENRNN_DATA")
    if not named:
        pytest.skip("needs real data files: set EIGENRNN_DATA to the folder that holds them")
    return Path(named)


@pytest.fixture(autouse=True)
def same_weights_each_time():
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        yield


@pytest.fixture
def default_dtype():
    """Sets torch's default type until the test ends."""
    yield torch.set_default_dtype
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def global_streams_untouched():
    """Fails a test that draws from the random streams of torch or numpy."""
    torch_state = torch.random.get_rng_state()
    numpy_state = np.random.get_state()  # noqa: NPY002  (the legacy stream is what is guarded)
    yield
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    np.testing.assert_equal(np.random.get_state(), numpy_state)  # noqa: NPY002


@pytest.fixture
def fresh_memory_is_poisoned(monkeypatch):
    """Uninitialised memory is NaN."""
    new_empty, empty_like = torch.Tensor.new_empty, torch.empty_like

    def poisoned(tensor):
        floating = tensor.is_floating_point() or tensor.is_complex()
        return tensor.fill_(torch.nan) if floating else tensor

    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *a, **k: poisoned(new_empty(*a, **k)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: poisoned(empty_like(*a, **k)))


@pytest.fixture
def threads():
    """Sets the number of threads during a test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
