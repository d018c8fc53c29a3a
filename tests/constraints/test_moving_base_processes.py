"""Constraints with a moving base in two processes: each moves it to the same matrix."""

import multiprocessing
import warnings
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from eigenrnn.layers import NCGRU, DtrivRNN, FullCapacityURNN
from random_constraints import assert_same_state, stream

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods() or not dist.is_gloo_available(),
    reason="needs processes that fork, and gloo",
)

LAYERS = {"dtriv": partial(DtrivRNN, period=4), "full": FullCapacityURNN, "nc-gru": NCGRU}
ADAM = partial(torch.optim.Adam, lr=0.01)


def build(layer):
    return LAYERS[layer](3, 8, generator=stream(1)).double()


def train(layer, optimiser, share, scale=1.0, steps=9):
    x = torch.randn(6, 4, 3, generator=stream(5), dtype=torch.float64)
    for k in range(steps):
        optimiser.zero_grad()
        h = layer(x[:, share])[0]
        weights = torch.randn(6, 4, h.shape[-1], generator=stream(k), dtype=torch.float64)
        (scale * (h * weights[:, share]).real.sum()).backward()
        optimiser.step()


def train_together(rank, layer, broadcast):
    module = build(layer)
    whole = DistributedDataParallel(module, broadcast_buffers=broadcast)
    train(whole, ADAM(module.parameters()), slice(2 * rank, 2 * rank + 2))
    return module.state_dict()


def work(rank, folder):
    warnings.simplefilter("ignore")  # torch warns about distributed training without a GPU
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    found = {
        f"{layer} {broadcast}": train_together(rank, layer, broadcast)
        for layer in LAYERS
        for broadcast in (False, True)
    }
    torch.save(found, folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    Process = multiprocessing.get_context("fork").Process
    processes = [Process(target=work, args=(rank, folder)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


each_layer = pytest.mark.parametrize("layer", LAYERS)
each_way = pytest.mark.parametrize("broadcast", [False, True])


@each_way
@each_layer
def test_two_processes_train_like_one(ranks, layer, broadcast):
    alone = build(layer)
    train(alone, ADAM(alone.parameters()), slice(4), scale=0.5)  # gradients are means over ranks
    for rank in ranks:
        for name, value in alone.state_dict().items():
            got = rank[f"{layer} {broadcast}"][name]
            torch.testing.assert_close(got, value, rtol=1e-9, atol=1e-9)


@each_way
@each_layer
def test_both_processes_are_equal_to_the_last_bit(ranks, layer, broadcast):
    assert_same_state(*(rank[f"{layer} {broadcast}"] for rank in ranks))
