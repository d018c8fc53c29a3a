"""The record of each recurrence agrees with its operators and its kernels, name by name."""

import itertools

import pytest
import torch
from recurrence_cases import FORMS, draw
from test_delta_op import operands as draw_delta
from torch.utils.flop_counter import FlopCounterMode

from eigenrnn import ops
from eigenrnn.ops import compiled
from eigenrnn.ops.arguments import Options
from eigenrnn.ops.elman import ElmanOperands
from eigenrnn.ops.elman.cpu import elman_cpu, elman_cpu_norm_zoneout
from eigenrnn.ops.elman.loop import elman_loop
from eigenrnn.ops.elman.reference import ELMAN
from eigenrnn.ops.gru import GRUOperands, GRUOptions
from eigenrnn.ops.gru.cpu import gru_cpu, gru_cpu_norm_zoneout
from eigenrnn.ops.gru.loop import gru_loop
from eigenrnn.ops.gru.reference import GRU
from eigenrnn.ops.linear import LinearOperands, LinearOptions
from eigenrnn.ops.linear.cpu import linear_cpu
from eigenrnn.ops.linear.layer import LRU_LAYER, LRUOperands, lru_cpu
from eigenrnn.ops.linear.reference import LINEAR
from eigenrnn.ops.linear.scan import linear_scan
from eigenrnn.ops.lstm import LSTMOperands, LSTMOptions
from eigenrnn.ops.lstm.cpu import lstm_cpu
from eigenrnn.ops.lstm.reference import LSTM
from kernel_testing import SpiedKernels, needs_kernels

T, B, M, N, K = 4, 3, 2, 6, 3
SIZES = [3, 2, 2, 1]


def normal(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def gated(operands, G, **more):
    return operands(
        x=normal(T, B, M), W=normal(G * N, N), h0=normal(B, N), U=normal(G * N, M), c=normal(G * N)
    )._replace(**more)


FULL = {
    "elman": (
        elman_cpu_norm_zoneout,
        gated(
            ElmanOperands,
            1,
            bias=normal(N),
            V=normal(K, N),
            d=normal(K),
            gain=normal(N),
            shift=normal(N),
            mask=normal(T, B, N) > 0,
            leak=normal(N).sigmoid(),
            v0=normal(B, N),
            resets=normal(T, B) > 0,
        ),
        Options("leaky_relu", SIZES, rate=0.5),
    ),
    "gru": (
        gru_cpu_norm_zoneout,
        gated(
            GRUOperands,
            3,
            bias=normal(N),
            recurrent_bias=normal(N),
            gain=normal(3 * N),
            shift=normal(3 * N),
            mask=normal(T, B, N) > 0,
            resets=normal(T, B) > 0,
        ),
        GRUOptions("leaky_relu", batch_sizes=SIZES, rate=0.5),
    ),
    "lstm": (
        lstm_cpu,
        LSTMOperands(
            x=normal(T, B, M),
            W=normal(4 * N, N),
            h0=normal(B, N),
            c0=normal(B, N),
            U=normal(4 * N, M),
            c=normal(4 * N),
            resets=normal(T, B) > 0,
        ),
        LSTMOptions(SIZES),
    ),
    "lru": (
        lru_cpu,
        LRUOperands(
            x=normal(T, B, M),
            decay=normal(N),
            h0=normal(B, N),
            U=normal(N, M),
            gamma_log=normal(K),
            V=normal(K, N),
            D=normal(K, M),
            d=normal(K),
            resets=normal(T, B) > 0,
            dt=normal(T, B).abs(),
        ),
        LinearOptions(SIZES),
    ),
    "linear": (
        linear_cpu,
        LinearOperands(normal(T, B, N), normal(T, B, N), normal(B, N), normal(T, B) > 0),
        LinearOptions(SIZES),
    ),
}
"""An operator, and a call with every operand and option."""

OPERATORS = {
    operator.name: operator
    for operator in (
        elman_cpu,
        elman_cpu_norm_zoneout,
        elman_loop,
        gru_cpu,
        gru_cpu_norm_zoneout,
        gru_loop,
        lstm_cpu,
        linear_cpu,
        linear_scan,
        lru_cpu,
    )
}

each_recurrence = pytest.mark.parametrize(
    "record", [ELMAN, GRU, LSTM, LINEAR, LRU_LAYER], ids=lambda r: r.name
)
each_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


@each_recurrence
def test_every_operand_has_a_shape(record):
    _, operands, _ = FULL[record.name]
    shapes = record.shapes(operands)
    assert {name: tuple(v.shape) for name, v in operands._asdict().items()} == shapes


@pytest.mark.parametrize("record", [ELMAN, GRU, LSTM, LINEAR], ids=lambda r: r.name)
def test_the_initial_states_are_operands_and_are_zero_by_default(record):
    _, operands, _ = FULL[record.name]
    missing = operands._replace(**dict.fromkeys(record.states))
    for name in record.states:
        assert torch.equal(getattr(record.with_initial_states(missing), name), torch.zeros(B, N))


@each_recurrence
def test_the_definition_returns_every_result(record):
    _, operands, options = FULL[record.name]
    results = record.define(operands, options)
    assert tuple(results) == record.results
    assert all(result is not None for result in results.values())


@pytest.mark.parametrize("d", [None, normal(K)], ids=["no bias", "bias"])
def test_the_definition_returns_the_outputs_of_its_head(d):
    _, operands, options = FULL["elman"]
    results = ELMAN.define(operands._replace(d=d), options)
    expected = results["h"] @ operands.V.T
    if d is not None:
        expected = expected + d
    torch.testing.assert_close(results["y"], expected)


@each_operator
def test_an_operator_takes_and_returns_what_its_record_names(operator):
    record = operator.recurrence
    assert set(operator.operands) <= set(record.operands._fields)
    assert set(operator.options) <= set(record.options._fields)
    assert set(operator.results) <= set(record.results)
    schema = getattr(torch.ops.eigenrnn, operator.name).default._schema
    taken = (*operator.operands, *operator.options, *(("save",) if operator.saved else ()))
    assert tuple(argument.name for argument in schema.arguments) == taken
    assert len(schema.returns) == len((*operator.results, *operator.saved))


@pytest.fixture
def spy(monkeypatch, record):
    spy = SpiedKernels(record.name)
    monkeypatch.setattr(compiled, "kernels", spy)
    return spy


def requiring_gradients(operands):
    """Return copies of the operands; all but the mask require gradients."""
    copies = operands._make(map(torch.clone, operands))
    for tensor in copies:
        tensor.requires_grad_(tensor.is_floating_point())
    return copies


def nonlinearities(options):
    """Return the options with each nonlinearity that has arguments of its own."""
    if "nonlinearity" not in options._fields:
        return [options]
    names = ["leaky_relu", "modrelu_paired"] if isinstance(options, Options) else ["leaky_relu"]
    return [options._replace(nonlinearity=name) for name in names]


@needs_kernels
@each_recurrence
def test_python_sets_every_member_of_the_arguments_of_a_kernel(record, spy):
    operator, operands, options = FULL[record.name]
    call, gradients = set(), set()
    for each in nonlinearities(options):
        results = operator(requiring_gradients(operands), each)
        sum(results[name].sum() for name in operator.results).backward()
        call |= set(spy.call)
        gradients |= set(spy.gradients)
    members = set(spy.kernels.members[record.name])
    differentiable = {n for n, v in operands._asdict().items() if v.is_floating_point()}
    differentiable -= {"d"}  # whose gradient torch computes
    expected = differentiable | set(record.results)
    if "y_stride" in members:
        expected.add("y_stride")
    assert gradients == expected
    assert call | {"y_stride"} == members | {"y_stride"}


@needs_kernels
@pytest.mark.parametrize("name", FULL)
def test_a_kernel_refuses_an_argument_that_it_does_not_have(name):
    run = getattr(compiled.kernels, f"{name}_forward")
    with pytest.raises(ValueError, match="got lamda"):
        run("float32", 1, {"T": 1, "lamda": (0, 0, 0)})


@needs_kernels
def test_a_kernel_refuses_a_nonlinearity_that_it_does_not_have():
    with pytest.raises(ValueError, match="got sine"):
        compiled.kernels.elman_forward("float32", 1, {"nonlinearity": "sine"})


def variants(record):
    """Return operands and options of calls that save different parts."""
    _, operands, options = FULL[record.name]
    if record is LSTM:
        return [(operands, options)]
    plain = operands._replace(gain=None, shift=None)
    found = list(itertools.product((operands, plain), (options, options._replace(rate=0.0))))
    if record is GRU:
        before = options._replace(reset_after=False)
        found += [(each._replace(recurrent_bias=None), before) for each in (operands, plain)]
    return found


SAVING = [
    pytest.param(record, *variant, id=f"{record.name}{i}")
    for record in (ELMAN, GRU, LSTM)
    for i, variant in enumerate(variants(record))
]


@needs_kernels
@pytest.mark.parametrize(("record", "operands", "options"), SAVING)
def test_the_kernels_save_the_parts_that_the_record_names(record, operands, options):
    call = compiled.call_arguments(operands, options)
    parts = getattr(compiled.kernels, f"{record.name}_saved_parts")(call)
    assert list(record.saved_parts(operands, options)) == parts


@needs_kernels
@pytest.mark.parametrize(("record", "operands", "options"), SAVING)
def test_the_backward_pass_reads_every_saved_part(record, operands, options):
    operator, _, _ = FULL[record.name]
    if "mask" in operands._fields:
        operands = operands._replace(mask=None)  # with it the rate is not used
    if "nonlinearity" in options._fields:
        options = options._replace(nonlinearity="tanh")  # whose derivative depends on its value
    parts = record.saved_parts(operands, options)
    returned = operator.compute(operands, options, save=True)
    grads = {name: torch.ones_like(returned[name]) for name in operator.results}
    needed = [n for n, v in operands._asdict().items() if v is not None and n != "resets"]
    lanes = compiled.kernels.vector_bytes // 4
    vectors = -(-N // lanes)
    for i, part in enumerate(parts):
        saved = returned["saved"].clone()
        of_units = saved[..., : vectors * len(parts) * lanes].unflatten(2, (vectors, -1, lanes))
        of_units[:, :, :, i] = torch.nan
        arguments = operator.backward_arguments(
            operands, options, needed, grads, {**returned, "saved": saved}
        )
        gradients = operator.call_backward(*arguments)
        assert any(gradient.isnan().any() for gradient in gradients), part


def counted(call, tensors, fixed, **options):
    """The operations that torch counts in a forward pass, and with its backward pass."""
    leaves = {name: v.detach().requires_grad_(name != fixed) for name, v in tensors.items()}
    with FlopCounterMode(display=False) as counter:
        results = call(**leaves, **options)
        forward = counter.get_total_flops()
        sum(result.sum() for result in results).backward()
    return forward, counter.get_total_flops()


HEAD = {"V": normal(2, 5).double(), "d": normal(2).double()}
MAPPED = {
    "elman": (ops.elman, draw(ELMAN, (7, 3, 5), M=2), {}),
    "elman, head": (ops.elman, draw(ELMAN, (7, 3, 5), M=2) | HEAD, {}),
    **{
        f"gru, {name}": (
            ops.gru,
            draw(GRU, (7, 3, 5), M=2),
            {"reset_after": reset_after, "update_keeps": update_keeps},
        )
        for name, (reset_after, update_keeps) in FORMS.items()
    },
    "lstm": (ops.lstm, draw(LSTM, (7, 3, 5), M=2), {}),
}
PLAIN = {
    "elman": (ops.elman, draw(ELMAN, (7, 3, 5)), {"batch_sizes": [3, 3, 2, 2, 2, 1, 1]}),
    "linear": (ops.linear, draw(LINEAR, (7, 3, 5)), {}),
    "delta": (ops.delta, draw_delta(7, R=2)._asdict(), {"batch_sizes": [3, 3, 2, 2, 2, 1, 1]}),
}


def assert_counted_as_in_the_definition(call, tensors, fixed, options):
    expected = counted(call, tensors, fixed, backend="reference", **options)
    faster = {"delta": ["cpu"], "lstm": ["cpu"], "linear": ["cpu", "scan"]}
    for backend in faster.get(call.__name__, ["cpu", "loop"]):
        assert counted(call, tensors, fixed, backend=backend, **options) == expected


@needs_kernels
@pytest.mark.parametrize("fixed", [None, "x", "h0", "W", "U"])
@pytest.mark.parametrize("name", MAPPED)
def test_operations_of_a_recurrence_with_matrices_are_those_of_its_definition(name, fixed):
    call, tensors, options = MAPPED[name]
    assert_counted_as_in_the_definition(call, tensors, fixed, options)


@needs_kernels
@pytest.mark.parametrize("fixed", [None, "x", "h0", "S0", "k", "q"])
@pytest.mark.parametrize("name", PLAIN)
def test_operations_of_states_alone_are_those_of_the_definition(name, fixed):
    call, tensors, options = PLAIN[name]
    assert_counted_as_in_the_definition(call, tensors, fixed, options)
