"""Constraints with a moving base in two processes: each moves it to the same matrix."""

import multiprocessing
import warnings
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from eigenrnn.layers import NCGRU, DtrivRNN, FullCapacityURNN
from random_constraints import assert_same_state, stream

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods() or not dist.is_gloo_available(),
    reason="needs processes that fork, and gloo",
)

LAYERS = {"dtriv": partial(DtrivRNN, period=4), "full": FullCapacityURNN, "nc-gru": NCGRU}
ADAM = partial(torch.optim.Adam, lr=0.01)


def sharded(parameters):
    from torch.distributed.optim import ZeroRedundancyOptimizer  # warns when imported

    return ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=0.01)


OPTIMISERS = {"plain": ADAM, "sharded": sharded}


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


def train_together(rank, layer, optimiser):
    module = build(layer)
    whole = DistributedDataParallel(module, broadcast_buffers=optimiser != "plain")
    train(whole, OPTIMISERS[optimiser](module.parameters()), slice(2 * rank, 2 * rank + 2))
    return module.state_dict()


def step_on_shards(rank, shard):
    layer = shard(build("full"))
    with pytest.raises(ValueError, match="reads and sets") as rejection:
        train(layer, ADAM(layer.parameters()), slice(2 * rank, 2 * rank + 2), steps=1)
    return str(rejection.value)


def step_on_own_part(rank, shard):
    """The same where one process owns all of W and waits until the other has failed."""
    layer = shard(build("full"))
    optimiser = ADAM(layer.parameters())
    whole = [p.numel() > 0 for name, p in layer.named_parameters() if name.endswith("raw")]
    if whole == [False]:
        train_one = pytest.raises(ValueError, match="expected all of 'raw' of MovingCayley")
        with train_one as rejection:
            train(layer, optimiser, slice(2 * rank, 2 * rank + 2), steps=1)
        return str(rejection.value)
    train(layer, optimiser, slice(2 * rank, 2 * rank + 2), steps=1)
    return None


def work(rank, folder):
    warnings.simplefilter("ignore")  # torch warns about distributed training without a GPU
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    found = {
        f"{layer} {optimiser}": train_together(rank, layer, optimiser)
        for layer in LAYERS
        for optimiser in OPTIMISERS
    }
    mesh = init_device_mesh("cpu", (2,))
    device = torch.device("cpu")
    found["fully_shard"] = step_on_shards(rank, partial(fully_shard, mesh=mesh))
    flat = partial(FullyShardedDataParallel, device_id=device)
    found["flat"] = step_on_shards(rank, flat)
    found["parts"] = step_on_own_part(rank, partial(flat, use_orig_params=True))
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
each_optimiser = pytest.mark.parametrize("optimiser", OPTIMISERS)


@each_optimiser
@each_layer
def test_two_processes_train_like_one(ranks, layer, optimiser):
    alone = build(layer)
    train(alone, ADAM(alone.parameters()), slice(4), scale=0.5)  # gradients are means over ranks
    for rank in ranks:
        for name, value in alone.state_dict().items():
            got = rank[f"{layer} {optimiser}"][name]
            torch.testing.assert_close(got, value, rtol=1e-9, atol=1e-9)


@each_optimiser
@each_layer
def test_both_processes_are_equal_to_the_last_bit(ranks, layer, optimiser):
    assert_same_state(*(rank[f"{layer} {optimiser}"] for rank in ranks))


def test_sharded_raw_parameters_are_rejected_in_every_process(ranks):
    for rank in ranks:
        assert "expected all of 'raw' of MovingCayley, got a DTensor" in rank["fully_shard"]
        assert "expected 'raw' of MovingCayley to be a parameter of its own" in rank["flat"]
    assert sorted(rank["parts"] is None for rank in ranks) == [False, True]
