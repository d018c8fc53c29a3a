"""The names of torch that have no public twin mean what `torch_internals` says."""

import inspect
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn.utils import parametrizations, prune
from torch.utils.flop_counter import FlopCounterMode

import eigenrnn
from eigenrnn import torch_internals
from eigenrnn.tracing import has_memory

SOURCES = Path(eigenrnn.__file__).parent
PRIVATE = re.compile(
    r"torch(\.\w+)*\._(?!_)|from torch(\.\w+)*\._|_current_level|\._version\b"
    r"|\b_(parameters|buffers|modules|flat_weights_names)\"\]|_(pre_)?hooks\"\]"
)


def test_nothing_private_of_torch_is_used_elsewhere():
    found = [
        f"{path.relative_to(SOURCES)}: {line.strip()}"
        for path in SOURCES.rglob("*.py")
        if path.name != "torch_internals.py"
        for line in path.read_text().splitlines()
        if PRIVATE.search(line)
    ]
    assert found == []


def test_each_function_has_a_test():
    tests = "".join(inspect.getsource(f) for name, f in globals().items() if name[:5] == "test_")
    assert [name for name in torch_internals.__all__ if f"{name}(" not in tests] == []


def test_a_generator_is_drawn_from_in_one_thread_alone():
    def draws():
        dropped = torch.nn.functional.dropout(torch.ones(9))
        return torch.stack([torch.randn(9), torch.randn_like(dropped), torch.rand(9), dropped])

    torch.manual_seed(3)
    expected = draws()
    torch.manual_seed(4)
    before = torch.get_rng_state()
    with torch_internals.DrawFrom(torch.Generator().manual_seed(3)):
        assert torch.equal(draws(), expected)
        of_its_own = torch.randn(9, generator=torch.Generator().manual_seed(5))
        assert torch.equal(torch.get_rng_state(), before)
        with ThreadPoolExecutor(1) as thread:
            other = thread.submit(torch.randn, 9).result()
    torch.manual_seed(4)
    assert torch.equal(other, torch.randn(9))
    torch.manual_seed(5)
    assert torch.equal(of_its_own, torch.randn(9))


@pytest.mark.parametrize("part", ["rnn", "matmul"])
def test_the_precision_of_a_part_of_torch_is_what_was_set(part):
    switch = getattr(torch.backends.mkldnn, part)
    try:
        for value in ("bf16", "tf32", "ieee"):
            switch.fp32_precision = value
            assert torch_internals.fp32_precision("mkldnn", part) == switch.fp32_precision == value
    finally:
        switch.fp32_precision = "none"
    others = torch.backends.cuda.matmul.fp32_precision  # which another test may have set
    assert torch_internals.fp32_precision("cuda", "matmul") == others


def test_only_autograds_own_batching_is_legacy():
    seen = []

    class Seen(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x.clone()

        @staticmethod
        def backward(_, g):
            seen.append(torch_internals.is_legacy_batched(g))
            return g

    x = torch.ones(3, requires_grad=True)
    y = Seen.apply(x)
    torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True, retain_graph=True)
    torch.autograd.grad(y, x, torch.ones(3))
    assert seen == [True, False]


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own jvp
@pytest.mark.parametrize(
    "transform",
    [torch.vmap, torch.func.grad, lambda f: lambda x: torch.func.jvp(f, (x,), (x,))],
    ids=["vmap", "grad", "jvp"],
)
def test_transforms_are_active_inside_only(transform):
    seen = []

    def f(x):
        seen.append(torch_internals.transform_is_active())
        return (x**2).sum()

    transform(f)(torch.ones(3))
    assert seen == [True]
    assert not torch_internals.transform_is_active()


def test_forward_mode_is_active_inside_a_level_only():
    assert not torch_internals.forward_mode_is_active()
    with forward_ad.dual_level():
        assert torch_internals.forward_mode_is_active()
    assert not torch_internals.forward_mode_is_active()


def test_dispatch_modes_are_counted():
    assert not torch_internals.has_dispatch_mode()
    with FlopCounterMode(display=False):
        assert torch_internals.has_dispatch_mode()
    assert not torch_internals.has_dispatch_mode()


WATCHERS = {
    "torch.func": lambda f: torch.func.vmap(f)(torch.ones(2)),
    "torch.jit": lambda f: torch.jit.trace(f, torch.ones(2), check_trace=False),
    "torch.compile": lambda f: torch.compile(f, backend="eager")(torch.ones(2)),
}
BLOCKS = {
    "forward mode": forward_ad.dual_level,
    "autocast": lambda: torch.autocast("cpu"),
    "a dispatch mode": lambda: FlopCounterMode(display=False),
}


@pytest.mark.filterwarnings("ignore:.torch.jit")
@pytest.mark.parametrize("watch", WATCHERS.values(), ids=WATCHERS)
def test_a_function_that_torch_traces_or_transforms_is_not_eager(watch):
    seen = []

    def f(x):
        seen.append(torch_internals.is_eager())
        return x * 2

    watch(f)
    assert seen
    assert not any(seen)
    assert torch_internals.is_eager()


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_a_block_that_changes_operations_is_not_eager(block):
    with block():
        assert not torch_internals.is_eager()
    assert torch_internals.is_eager()


@pytest.mark.parametrize("keeps", [True, False])
def test_a_backward_pass_knows_whether_its_graph_is_kept(keeps):
    seen = []
    x = torch.ones(3, requires_grad=True)
    x.register_hook(lambda _: seen.append(torch_internals.graph_is_kept()))
    (x**2).sum().backward(retain_graph=keeps)
    assert seen == [keeps]


def test_a_functional_tensor_stands_for_another_even_if_it_is_empty():
    found = []

    def record(x):
        found.append((torch_internals.stands_for_another(x), has_memory(x)))
        return x

    for size in (0, 3):
        torch.func.functionalize(record)(torch.zeros(size))
        assert has_memory(torch.zeros(size))
    assert found == [(True, False)] * 2


def test_writes_are_counted():
    tensor = torch.zeros(3)
    before = torch_internals.write_count(tensor)
    tensor.add_(1)
    assert torch_internals.write_count(tensor) == before + 1
    with torch.inference_mode():
        inference = torch.zeros(3)
    assert torch_internals.write_count(inference) == 0


def test_a_scan_carries_the_state_from_step_to_step():
    def step(state, x):
        after = state + x
        return [after, after * 2]

    x = torch.arange(4.0).unsqueeze(1)
    last, doubled = torch_internals.record_scan(step, [torch.zeros(1)], [x], ())
    assert last.item() == 6
    assert doubled.flatten().tolist() == [0, 2, 6, 12]


def test_the_original_of_a_fake_tensor_is_the_parameter_itself():
    found = []

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            found.append(torch_internals.original_of(self.weight))
            return x * self.weight

    module = Reads()
    torch.export.export(module, (torch.ones(2),), strict=False)
    assert any(each is module.weight for each in found)
    assert torch_internals.original_of(module.weight) is module.weight


def test_the_direct_parts_of_a_module_are_its_own():
    module = nn.Sequential(nn.Linear(2, 3))
    module.register_buffer("mean", torch.zeros(3))
    module.register_parameter("scale", nn.Parameter(torch.ones(3)))
    parameters, buffers, parts = torch_internals.contents(module)
    assert list(parameters) == ["scale"]
    assert list(buffers) == ["mean"]
    assert parts["0"] is module[0]
    module[0] = other = nn.Linear(2, 3)
    assert parts["0"] is other  # the dictionary itself, not a copy


def test_the_parts_of_a_list_are_those_of_its_iterator():
    module = nn.Module()
    module.layers = nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 3)])
    assert torch_internals.listed_parts(module, "layers") == list(module.layers)


def test_autocast_is_active_for_any_device():
    assert not torch_internals.autocast_is_active()
    for device in ("cpu", "xpu"):
        torch.set_autocast_enabled(device, True)
        assert torch_internals.autocast_is_active()
        torch.set_autocast_enabled(device, False)


def test_the_first_parameter_is_that_of_the_iterator():
    inner = nn.Linear(2, 3)
    module = nn.Sequential(inner)
    assert torch_internals.first_tensor(module) is inner.weight
    module.register_parameter("absent", None)
    module.register_parameter("scale", nn.Parameter(torch.ones(3)))
    assert torch_internals.first_tensor(module) is next(module.parameters()) is module.scale


def test_the_first_tensor_of_a_copy_without_parameters_is_an_attribute_and_else_a_buffer():
    inner = nn.Linear(2, 3)
    copied = nn.Sequential(inner._replicate_for_data_parallel())
    copied[0].table = torch.arange(2)
    copied[0].weight = inner.weight.clone()  # as `torch.nn.parallel.replicate` does
    assert torch_internals.first_tensor(copied) is copied[0].weight
    norm = nn.BatchNorm1d(2, affine=False)
    assert torch_internals.first_tensor(norm) is norm.running_mean


COMPUTED = {
    "prune": lambda module: prune.l1_unstructured(module, "weight", amount=0.5),
    "norm": lambda module: nn.utils.weight_norm(module, "weight"),
    "spectral norm": lambda module: nn.utils.spectral_norm(module, "weight"),
    "parametrisation": lambda module: parametrizations.weight_norm(module, "weight"),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize("way", COMPUTED)
def test_a_weight_that_is_computed_from_others_is_found(way):
    module = nn.Sequential(nn.Linear(2, 3))
    torch_internals.check_own_weights(module)
    COMPUTED[way](module[0])
    with pytest.raises(ValueError, match=r"got weight that torch\.nn\.utils computes"):
        torch_internals.check_own_weights(module)
    if way == "parametrisation":  # it is computed when it is read
        assert torch_internals.hooked_weights(module[0]) == []
        torch_internals.check_own_weights(module, written=False)
    else:
        assert torch_internals.hooked_weights(module[0]) == ["weight"]


def test_hooks_are_found_by_kind():
    module = nn.Linear(2, 3)
    assert not any(torch_internals.hooks_of_call(module))
    registering = [
        module.register_forward_hook,
        module.register_forward_pre_hook,
        module.register_full_backward_hook,
        module.register_full_backward_pre_hook,
    ]
    for register in registering:
        handle = register(print)
        assert any(torch_internals.hooks_of_call(module))
        handle.remove()


class Inherits(nn.Linear):
    pass


class Doubles(nn.Linear):
    def forward(self, input):
        return 2 * super().forward(input)


def test_the_package_of_a_forward_is_that_of_its_class():
    for module in (nn.Linear(2, 3), Inherits(2, 3), eigenrnn.LSTM(2, 3)):
        assert not torch_internals.has_own_forward(module)
    assert torch_internals.has_own_forward(Doubles(2, 3))


def test_torchs_layers_name_their_weights():
    layer = nn.LSTM(2, 3, num_layers=2, bidirectional=True, proj_size=2)
    names = torch_internals.weight_names(layer)
    assert set(names) == {name for name, _ in layer.named_parameters()}
    listed = [weight for weights in layer.all_weights for weight in weights]
    assert all(getattr(layer, n) is w for n, w in zip(names, listed, strict=True))


@pytest.mark.parametrize("strict", [False, True])
def test_an_export_differs_from_a_compilation(strict):
    class AddsOneInAnExport(nn.Module):
        def forward(self, x):
            return x + torch_internals.is_exporting()

    module, x = AddsOneInAnExport(), torch.zeros(2)
    assert not torch.compile(module, backend="eager", fullgraph=True)(x).any()
    assert torch.export.export(module, (x,), strict=strict).module()(x).all()
    assert not module(x).any()


def test_a_value_is_kept_while_torch_compiles():
    calls = []

    def number():
        calls.append(1)
        return len(calls)

    assert torch_internals.constant_while_compiling(number) is number
    compiled = torch.compile(lambda x: x + number(), backend="eager", fullgraph=True)
    assert [compiled(torch.zeros(())).item() for _ in range(3)] == [1, 1, 1]
    assert number() == 2
