"""Every backend of the delta rule agrees with its definition, which agrees with a second one."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from crossing import cover
from eigenrnn.linalg import tol
from eigenrnn.ops import delta
from eigenrnn.ops.delta import BACKENDS, DeltaOperands, DeltaOptions
from eigenrnn.ops.delta.cpu import delta_cpu
from kernel_testing import each_direction, each_raggedness, forward_mode, ragged_sizes

pytestmark = pytest.mark.usefixtures("fresh_memory_is_poisoned")

HERE = {name: backend for name, backend in BACKENDS.items() if backend.unavailable() is None}
each_backend = pytest.mark.parametrize("backend", HERE)
each_other_backend = pytest.mark.parametrize(
    "backend", [name for name in HERE if name != "reference"]
)
NAMES = ("o", "S_n", *(f"d{name}" for name in DeltaOperands._fields))


def operands(T, B=3, H=2, R=1, K=5, V=7, decay=-1.0, dtype=torch.float64, seed=0):
    """Return random operands; `decay` is the least logarithm, or None."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*sizes):
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    beta = 2 * torch.rand(T, B, H, R, generator=generator, dtype=torch.float64)
    log_decay = None
    if decay is not None:
        log_decay = decay * torch.rand(T, B, H, generator=generator, dtype=torch.float64)
        log_decay = log_decay.to(dtype)
    return DeltaOperands(
        q=normal(T, B, H, K).to(dtype),
        k=F.normalize(normal(T, B, H, R, K), dim=-1).to(dtype),
        v=normal(T, B, H, R, V).to(dtype),
        beta=beta.to(dtype),
        log_decay=log_decay,
        S0=normal(B, H, K, V).to(dtype),
    )


def options_of(tensors, *, reverse=False, ragged=False):
    return {
        "reverse": reverse,
        "batch_sizes": ragged_sizes(*tensors.q.shape[:2]) if ragged else None,
    }


def exact(tensors):
    return DeltaOperands(*(None if v is None else v.double() for v in tensors))


def evaluated(tensors, backend, **options):
    """Return the results and the gradients of all operands by name."""
    leaves = [None if v is None else v.detach().requires_grad_() for v in tensors]
    o, S_n = delta(*leaves, backend=backend, **options)
    weights = torch.linspace(-1, 1, o.numel(), dtype=torch.float64).view(o.shape).cos()
    loss = (o * weights.to(o.dtype)).sum() + S_n.sin().sum()
    given = [leaf for leaf in leaves if leaf is not None]
    found = iter(torch.autograd.grad(loss, given))
    gradients = [None if leaf is None else next(found) for leaf in leaves]
    return dict(zip(NAMES, (o.detach(), S_n.detach(), *gradients), strict=True))


def assert_near(got, expected, bound):
    for name, other in expected.items():
        if other is None:
            continue
        scale = max(1.0, float(other.abs().max())) if other.numel() else 1.0
        torch.testing.assert_close(
            got[name].double(),
            other.double(),
            rtol=0,
            atol=scale * bound,
            msg=lambda text, name=name: f"{name}: {text}",
        )


def assert_equals_reference(tensors, backend, bound, **options):
    got = evaluated(tensors, backend, **options)
    assert_near(got, evaluated(exact(tensors), "reference", **options), bound)


AXES = {
    "backend": list(HERE),
    "T": [1, 2, 31, 63, 65, 130],
    "B": [1, 3],
    "H": [1, 2],
    "R": [1, 2, 3, 4],
    "K": [1, 5, 16, 33],
    "V": [1, 7, 32],
    "decay": [None, 0.0, -1e-7, -1.0, -50.0],
    "dtype": [torch.float32, torch.float64, torch.bfloat16],
    "has_S0": [True, False],
    "ragged": [True, False],
    "reverse": [True, False],
    "last_only": [True, False],
}
CROSSED = cover(AXES, lambda **_: True)


@pytest.mark.parametrize("row", CROSSED, ids=lambda row: "-".join(map(str, row.values())))
def test_options_crossed_in_pairs_agree_with_the_reference(row):
    sizes = {name: row[name] for name in ("T", "B", "H", "R", "K", "V", "decay")}
    dtype = row["dtype"]
    tensors = operands(**sizes, dtype=dtype, seed=len(str(row)))
    wide = torch.float32 if dtype is torch.bfloat16 else dtype
    log_decay = None if tensors.log_decay is None else tensors.log_decay.to(wide)
    tensors = tensors._replace(log_decay=log_decay, S0=tensors.S0.to(wide))
    options = options_of(tensors, reverse=row["reverse"], ragged=row["ragged"])
    if not row["has_S0"]:
        tensors = tensors._replace(S0=None)
    # results and gradients of 16 bits are rounded once, and computed in single precision
    bound = tol(wide, row["T"]) if dtype == wide else torch.finfo(dtype).eps
    if not row["last_only"]:
        assert_equals_reference(tensors, row["backend"], bound, **options)
        return
    with torch.no_grad():
        _, S_n = delta(*tensors, backend=row["backend"], last_only=True, **options)
        _, expected = delta(*exact(tensors), backend="reference", **options)
    assert S_n.dtype == wide
    assert_near({"S_n": S_n}, {"S_n": expected}, tol(wide, row["T"]))


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("R", [1, 3])
@pytest.mark.parametrize("huge", [-1e16, -3e38, -torch.inf])
def test_decays_after_a_huge_one_are_kept(backend, R, huge):
    tensors = operands(T=130, B=2, H=2, R=R, K=5, V=7, decay=-0.3, dtype=torch.float32)
    log_decay = tensors.log_decay.clone()
    log_decay[[0, 31, 70], 0] = huge
    tensors = tensors._replace(log_decay=log_decay)
    assert_equals_reference(tensors, backend, tol(torch.float32, 130))


def by_transitions(tensors, steps, b, h):
    """Return outputs and the last state from matrices of transitions, in numpy."""
    q, k, v, beta, log_decay, S = (np.asarray(each.detach()) for each in tensors)
    R, K = k.shape[3:]
    S = S[b, h]
    outputs = {}
    for t in steps:
        # the product of all factors, and what each write becomes under the later ones
        factors = [np.eye(K) - beta[t, b, h, j] * np.outer(*2 * [k[t, b, h, j]]) for j in range(R)]
        transition = np.exp(log_decay[t, b, h]) * np.linalg.multi_dot(
            [np.eye(K), *reversed(factors), np.eye(K)]
        )
        S = transition @ S
        for j in range(R):
            write = beta[t, b, h, j] * np.outer(k[t, b, h, j], v[t, b, h, j])
            for later in factors[j + 1 :]:
                write = later @ write
            S = S + write
        outputs[t] = q[t, b, h] @ S
    return outputs, S


@each_raggedness
@each_direction
@pytest.mark.parametrize("R", [1, 3])
def test_the_reference_equals_products_of_transition_matrices(R, reverse, ragged):
    tensors = operands(9, R=R)
    options = options_of(tensors, reverse=reverse, ragged=ragged)
    T, B, H, _ = tensors.q.shape
    o = torch.zeros(T, B, H, 7, dtype=torch.float64)
    S_n = torch.zeros_like(tensors.S0)
    for b, h in itertools.product(range(B), range(H)):
        length = sum(size > b for size in options["batch_sizes"] or [B] * T)
        steps = reversed(range(length)) if reverse else range(length)
        outputs, last = by_transitions(tensors, steps, b, h)
        for t, output in outputs.items():
            o[t, b, h] = torch.as_tensor(output)
        S_n[b, h] = torch.as_tensor(last)
    got = delta(*tensors, backend="reference", **options)
    assert_near(dict(zip(NAMES, got, strict=False)), {"o": o, "S_n": S_n}, 1e-13)


def test_the_reference_has_second_derivatives():
    tensors = operands(3, B=1, H=1, R=2, K=2, V=2)
    leaves = [v.requires_grad_() for v in tensors]

    def run(*given):
        return delta(*given, backend="reference")

    assert torch.autograd.gradgradcheck(run, leaves)


# Chunks hold 32 or 64 reflections: lengths below, at and above a multiple of both.
GRID = [
    {"T": 1, "R": 1},
    {"T": 1, "R": 4, "decay": None},
    {"T": 63, "R": 1, "decay": None},
    {"T": 64, "R": 2},
    {"T": 65, "R": 1},
    {"T": 65, "R": 3, "decay": None},
    {"T": 200, "R": 1, "K": 33, "V": 18, "decay": None},
    {"T": 200, "R": 4, "K": 17, "V": 1},
    {"T": 33, "R": 1, "K": 1, "V": 65, "decay": -1e-7},
    {"T": 70, "R": 40, "B": 1, "H": 1},
    {"T": 130, "R": 1, "decay": -50.0},
    {"T": 130, "R": 2, "decay": 0.0},
    {"T": 66, "R": 1, "B": 1, "H": 1, "K": 128, "V": 96},
]
each_case = pytest.mark.parametrize(
    "case", GRID, ids=lambda case: ",".join(f"{name}{value}" for name, value in case.items())
)


@each_case
@each_other_backend
def test_a_backend_gives_the_values_and_gradients_of_the_reference(backend, case):
    assert_equals_reference(operands(**case), backend, 1e-12)
    single = operands(**case, dtype=torch.float32)
    assert_equals_reference(single, backend, tol(torch.float32, case["T"]))


@each_direction
@each_backend
def test_padding_is_not_read(backend, reverse):
    tensors = operands(40, R=2)
    sizes = ragged_sizes(40, 3)
    lengths = torch.tensor([sum(size > b for size in sizes) for b in range(3)])
    past = torch.arange(40).unsqueeze(1) >= lengths  # (T, B)
    padded = [
        v.masked_fill(past.view(40, 3, *[1] * (v.dim() - 2)), torch.nan) for v in tensors[:5]
    ]
    got = evaluated(
        DeltaOperands(*padded, tensors.S0), backend, reverse=reverse, batch_sizes=sizes
    )
    expected = evaluated(tensors, backend, reverse=reverse, batch_sizes=sizes)
    for name, other in expected.items():
        assert torch.equal(got[name], other), name
    assert not got["o"][past].any()
    assert not got["dk"][past].any()


def test_a_small_decay_after_a_large_one_is_not_rounded_off():
    # the logarithms of a chunk reach -1600, where float32 numbers are 1e-4 apart
    tensors = operands(64, decay=0.0, dtype=torch.float32)
    log_decay = tensors.log_decay.clone()
    log_decay[:32] = -50
    log_decay[32:] = -1e-3
    tensors = tensors._replace(log_decay=log_decay)
    for backend in HERE:
        assert_equals_reference(tensors, backend, 2e-6)


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
@each_other_backend
def test_strengths_at_the_ends_of_their_interval(backend, beta):
    tensors = operands(65, R=2)
    tensors = tensors._replace(beta=torch.full_like(tensors.beta, beta))
    assert_equals_reference(tensors, backend, 1e-12)


@each_other_backend
def test_without_an_initial_state_it_is_zero(backend):
    tensors = operands(35)
    zero = torch.zeros_like(tensors.S0)
    assert torch.equal(
        delta(*tensors[:5], backend=backend)[0], delta(*tensors[:5], zero, backend=backend)[0]
    )


@pytest.mark.parametrize("result", [0, 1], ids=["outputs", "last states"])
@each_other_backend
def test_a_loss_on_one_result_alone(backend, result):
    leaves = [v.requires_grad_() for v in operands(35)]
    one = delta(*leaves, backend=backend)[result]
    other = delta(*leaves, backend="reference")[result]
    # the last states do not depend on the queries
    read = leaves if result == 0 else leaves[1:]
    got = torch.autograd.grad(one.sin().sum(), read)
    expected = torch.autograd.grad(other.sin().sum(), read)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("requested", [[0], [1], [2], [3], [4], [5], [1, 3]], ids=str)
def test_only_requested_gradients_are_computed(requested):
    tensors = operands(35, R=2)
    whole = list(evaluated(tensors, None).values())[2:]
    leaves = [v.clone().requires_grad_(i in requested) for i, v in enumerate(tensors)]
    o, S_n = delta(*leaves)
    weights = torch.linspace(-1, 1, o.numel(), dtype=torch.float64).view(o.shape).cos()
    loss = (o * weights).sum() + S_n.sin().sum()
    found = torch.autograd.grad(loss, [leaves[i] for i in requested])
    for gradient, i in zip(found, requested, strict=True):
        torch.testing.assert_close(gradient, whole[i], rtol=1e-12, atol=1e-12)


@each_other_backend
def test_gradients_have_the_gradients_of_the_definition(backend):
    def second(name):
        leaves = [v.requires_grad_() for v in operands(4, R=2)]
        o, S_n = delta(*leaves, backend=name)
        loss = o.sin().sum() + S_n.square().sum()
        first = torch.autograd.grad(loss, leaves, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)

    torch.testing.assert_close(second(backend), second("reference"), rtol=1e-9, atol=1e-9)


@forward_mode
def test_transforms_of_torch_func_use_differentiable_operations():
    tensors = operands(4)

    def last_state(q, k):
        return delta(q, k, *tensors[2:])[1]

    tangent = torch.ones_like(tensors.k)
    _, moved = torch.func.jvp(lambda k: last_state(tensors.q, k), (tensors.k,), (tangent,))
    jacobian = torch.func.jacrev(lambda k: last_state(tensors.q, k))(tensors.k)
    torch.testing.assert_close(moved, jacobian.sum((4, 5, 6, 7, 8)), rtol=1e-10, atol=1e-10)


def test_the_operator_is_registered_correctly():
    tensors = DeltaOperands(*(v.requires_grad_() for v in operands(4, R=2)))
    arguments = delta_cpu.arguments(tensors, DeltaOptions(), save=True)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    there = torch.ops.eigenrnn.delta_cpu.default
    torch.library.opcheck(there, arguments, test_utils=checks)


@each_backend
def test_at_strength_two_the_transition_is_orthogonal(backend):
    tensors = operands(1000, B=1, H=1, K=6, V=6, decay=None)
    I = torch.eye(6, dtype=torch.float64).view(1, 1, 6, 6)
    _, S = delta(
        tensors.q, tensors.k, 0 * tensors.v, 0 * tensors.beta + 2, None, I, backend=backend
    )
    assert float((S[0, 0].T @ S[0, 0] - I[0, 0]).abs().max()) < tol(torch.float64, 1000)


@pytest.mark.parametrize("angle", [0.1, 1.0, 2.5])
@each_backend
def test_two_reflections_rotate_by_twice_the_angle_of_their_keys(backend, angle):
    keys = [[1.0, 0.0, 0.0], [math.cos(angle), math.sin(angle), 0.0]]
    k = torch.tensor(keys, dtype=torch.float64).view(1, 1, 1, 2, 3)
    beta = torch.full((1, 1, 1, 2), 2.0, dtype=torch.float64)
    I = torch.eye(3, dtype=torch.float64).view(1, 1, 3, 3)
    _, S = delta(k[..., 0, :], k, torch.zeros_like(k), beta, None, I, backend=backend)
    c, s = math.cos(2 * angle), math.sin(2 * angle)
    rotation = torch.tensor([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=torch.float64)
    torch.testing.assert_close(S[0, 0], rotation, rtol=0, atol=1e-15)


@each_backend
def test_swaps_of_three_things_are_kept_for_three_thousand_steps(backend):
    left_out = torch.randint(3, (3_000,), generator=torch.Generator().manual_seed(0))
    keys = torch.tensor([[0, 1, -1], [1, 0, -1], [1, -1, 0]], dtype=torch.float64) / 2**0.5
    k = keys[left_out].view(-1, 1, 1, 1, 3)
    order = [0, 1, 2]
    for other in left_out.tolist():
        i, j = {0, 1, 2} - {other}
        order[i], order[j] = order[j], order[i]
    beta = torch.full(k.shape[:-1], 2.0, dtype=torch.float64)
    I = torch.eye(3, dtype=torch.float64)
    S0 = I.view(1, 1, 3, 3)
    _, S = delta(k[..., 0, :], k, torch.zeros_like(k), beta, None, S0, backend=backend)
    torch.testing.assert_close(S[0, 0], I[order], rtol=0, atol=1e-10)


class Op(torch.nn.Module):
    """The op as a module, which torch exports."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, q, k, v, beta, log_decay, S0, lengths):
        return delta(q, k, v, beta, log_decay, S0, batch_sizes=lengths, **self.options)


@each_direction
def test_an_exported_program_takes_any_number_of_steps_and_any_lengths(reverse):
    tensors = operands(5, R=2)
    steps = {0: torch.export.Dim("T", min=2)}
    program = torch.export.export(
        Op(reverse=reverse),
        (*tensors, torch.tensor([5, 4, 2])),
        dynamic_shapes=(steps, steps, steps, steps, steps, None, None),
    )
    longer = operands(9, R=2, seed=1)
    got = program.module()(*longer, torch.tensor([9, 6, 5]))
    sizes = [3, 3, 3, 3, 3, 2, 1, 1, 1]
    expected = delta(*longer, batch_sizes=sizes, reverse=reverse)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


q, k, v, beta, log_decay, S0 = operands(4, dtype=torch.float32)
REJECTED = {
    "rank of k": ((q, k[..., 0, :], v, beta), ValueError, r"k of shape \(T, B, H, R, K\)"),
    "none": ((q, k[:, :, :, :0], v[:, :, :, :0], beta[..., :0]), ValueError, r"got .* 0, 5\)"),
    "no values": ((q, k, v[..., :0], beta), ValueError, r"v of shape .* and V, at least 1"),
    "reflections of v": ((q, k, v.expand(4, 3, 2, 2, 7), beta), ValueError, r"got .* 2, 7\)"),
    "shape of S0": ((q, k, v, beta, None, S0.mT), ValueError, r"got \(3, 2, 7, 5\)"),
    "no keys": ((q, None, v, beta), TypeError, "got NoneType"),
    "integers": ((q.long(), k, v, beta), TypeError, "got .*int64"),
    "double keys": ((q, k.double(), v, beta), TypeError, "k of torch.float32 to go with q"),
    "long keys": ((q, 3 * k, v, beta), ValueError, "got a key of norm 3 at the first"),
    "large strength": ((q, k, v, beta + 1), ValueError, "strengths beta between 0 and 2"),
    "no strength": ((q, k, v, beta * torch.nan), ValueError, "between 0 and 2, got NaN: look"),
    "no decay": ((q, k, v, beta, log_decay * torch.nan), ValueError, "got one of nan"),
    "no key": ((q, k * torch.nan, v, beta), ValueError, "got a key of norm nan"),
    "negative strength": ((q, k, v, -beta), ValueError, "strengths beta between 0 and 2"),
    "growth": ((q, k, v, beta, -log_decay), ValueError, "logarithms log_decay <= 0"),
}


@pytest.mark.parametrize(("given", "error", "message"), REJECTED.values(), ids=REJECTED)
def test_bad_input_raises_an_error_that_says_what_was_expected(given, error, message):
    with pytest.raises(error, match=message):
        delta(*given)


def test_wrong_options_raise_an_error_that_says_what_was_expected():
    with pytest.raises(ValueError, match="4 batch sizes"):
        delta(q, k, v, beta, batch_sizes=[3, 3])
    with pytest.raises(TypeError, match="got int"):
        delta(q, k, v, beta, reverse=1)
    with pytest.raises(ValueError, match="got 'scan'"):
        delta(q, k, v, beta, backend="scan")


@each_backend
def test_inputs_of_sixteen_bits_have_states_in_float32(backend):
    tensors = operands(70, dtype=torch.bfloat16)
    tensors = tensors._replace(log_decay=tensors.log_decay.float(), S0=tensors.S0.float())
    o, S_n = delta(*tensors, backend=backend)
    assert (o.dtype, S_n.dtype) == (torch.bfloat16, torch.float32)
    expected, last = delta(*exact(tensors), backend="reference")
    # only the outputs are rounded
    assert_near({"S_n": S_n}, {"S_n": last}, tol(torch.float32, 70))
    assert_near({"o": o}, {"o": expected}, torch.finfo(torch.bfloat16).eps)


@each_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_runs_the_recurrence_in_float32(dtype, backend):
    given = [each.to(dtype) for each in (q, k, v, beta)]
    with torch.autocast("cpu", torch.bfloat16):
        o, S_n = delta(*given, backend=backend)
    expected = delta(*(each.float() for each in given), backend=backend)
    assert torch.equal(o, expected[0])
    assert torch.equal(S_n, expected[1])


def test_only_the_last_states_are_returned_if_a_backend_can():
    _, expected = delta(q, k, v, beta, log_decay, S0)
    with torch.no_grad():
        for backend in HERE:
            o, S_n = delta(q, k, v, beta, log_decay, S0, last_only=True, backend=backend)
            assert len(o) == (0 if backend == "cpu" else 4)
            torch.testing.assert_close(S_n, expected)
