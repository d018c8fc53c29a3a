"""Every backend of the LSTM agrees with the reference in values and gradients."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.special import expit as sigmoid
from test_elman import assert_near

from eigenrnn.init import haar_
from eigenrnn.ops import lstm
from eigenrnn.ops.lstm import BACKENDS, LSTMOperands, LSTMOptions
from eigenrnn.ops.lstm.cpu import lstm_cpu
from kernel_testing import each_direction, each_raggedness, ragged_sizes

pytestmark = [pytest.mark.usefixtures("fresh_memory_is_poisoned"), pytest.mark.pairs]

SIXTEEN = (torch.bfloat16, torch.float16)
NO_KERNEL = ("cpu", torch.float16)
each_backend = pytest.mark.parametrize("backend", BACKENDS)


def operands(T, B, N, dtype=torch.float64, *, seed=0):
    """Return x, W, h0 and c0."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def orthogonal():
        return haar_(torch.empty(N, N, dtype=torch.float64), generator=generator)

    W = torch.cat([orthogonal() for _ in range(4)])
    tensors = normal(T, B, 4 * N), W, normal(B, N), normal(B, N)
    return [tensor.to(dtype).requires_grad_() for tensor in tensors]


def options_of(T, B, *, reverse=False, ragged=False):
    return {"reverse": reverse, "batch_sizes": ragged_sizes(T, B) if ragged else None}


def weights_like(tensor, seed=7):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor.dtype)


def weights_of(results):
    return [weights_like(each, seed) for seed, each in enumerate(results, start=7)]


def values_and_gradients(tensors, **options):
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    results = lstm(*leaves, **options)
    gradients = torch.autograd.grad(results, leaves, weights_of(results))
    return *(each.detach() for each in results), *gradients


def one_step(x, W, h, c):
    """Evaluate the formula of torch's documentation."""
    i, f, g, o = np.split(x + W @ h, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


@each_raggedness
@each_direction
def test_the_reference_runs_each_sequence_independently(reverse, ragged):
    T, B, N = 7, 3, 4
    tensors, options = operands(T, B, N), options_of(T, B, reverse=reverse, ragged=ragged)
    x, W, h0, c0 = (tensor.detach().numpy() for tensor in tensors)
    states, last, cells = np.zeros((T, B, N)), np.zeros((B, N)), np.zeros((B, N))
    sizes = options["batch_sizes"] or [B] * T
    for k in range(B):
        length = sum(size > k for size in sizes)
        h, c = h0[k], c0[k]
        for t in reversed(range(length)) if reverse else range(length):
            h, c = one_step(x[t, k], W, h, c)
            states[t, k] = h
        last[k], cells[k] = h, c
    got = [each.detach() for each in lstm(*tensors, backend="reference", **options)]
    assert_near(got, map(torch.as_tensor, (states, last, cells)), torch.float64, T * N)


@each_raggedness
@each_direction
@each_backend
def test_it_equals_the_lstm_of_torch(backend, reverse, ragged):
    T, B, M, N = 7, 3, 2, 4
    theirs = torch.nn.LSTM(M, N, dtype=torch.float64)
    x, (h0, c0) = torch.randn(T, B, M, dtype=torch.float64), operands(1, B, N)[2:]
    U, W, b, c = theirs.all_weights[0]
    sizes = torch.tensor(ragged_sizes(T, B) if ragged else [B] * T)
    lengths = (sizes.unsqueeze(1) > torch.arange(B)).sum(0)
    x_theirs = x.clone()
    for k, length in enumerate(lengths):
        x_theirs[:length, k] = x[:length, k].flip(0) if reverse else x[:length, k]
    packed = torch.nn.utils.rnn.pack_padded_sequence(x_theirs, lengths)
    _, ends = theirs(packed, (h0[None], c0[None]))
    options = options_of(T, B, reverse=reverse, ragged=ragged)
    _, *got = lstm(x, W, h0, c0, U=U, c=b + c, backend=backend, **options)
    assert_near([v.detach() for v in got], [v[0].detach() for v in ends], torch.float64, T * N)


# the compiled kernels leave what they save uninitialised past the end of a sequence
OP_CASES = {
    "cpu": ("lstm_cpu", torch.float32, None, False),
    "cpu-reverse": ("lstm_cpu", torch.float64, None, True),
}

each_op_case = pytest.mark.parametrize(
    ("name", "dtype", "sizes", "reverse"), OP_CASES.values(), ids=OP_CASES.keys()
)


@each_op_case
def test_the_operator_passes_opcheck(name, dtype, sizes, reverse):
    inputs, options = LSTMOperands(*operands(4, 3, 2, dtype)), LSTMOptions(sizes, reverse)
    torch.library.opcheck(getattr(torch.ops.eigenrnn, name).default, (*inputs, *options, True))


@each_op_case
def test_the_operator_of_the_backward_pass_passes_opcheck(name, dtype, sizes, reverse):
    inputs = LSTMOperands(*(tensor.detach() for tensor in operands(4, 3, 2, dtype)))
    options = LSTMOptions(sizes, reverse)
    returned = lstm_cpu(inputs, options, save=True)
    results = [returned[result] for result in lstm_cpu.results]
    grads = dict(zip(lstm_cpu.results, weights_of(results), strict=True))
    needed = [name for name, v in inputs._asdict().items() if v is not None]
    arguments = lstm_cpu.backward_arguments(inputs, options, needed, grads, returned)
    backward = getattr(torch.ops.eigenrnn, f"{name}_backward").default
    torch.library.opcheck(backward, arguments)


# along random directions, because all of them take seconds
gradgradcheck = partial(torch.autograd.gradgradcheck, fast_mode=True)


def check_gradients(check, **options):
    options = options_of(3, 2, **options)
    assert check(lambda *leaves: lstm(*leaves, **options), operands(3, 2, 2))


@each_raggedness
@each_direction
def test_its_gradients_are_those_of_finite_differences(reverse, ragged):
    check_gradients(torch.autograd.gradcheck, reverse=reverse, ragged=ragged)


@each_raggedness
@each_direction
def test_it_can_be_differentiated_twice(reverse, ragged):
    check_gradients(gradgradcheck, reverse=reverse, ragged=ragged)


x, W, h0, c0 = (tensor.detach() for tensor in operands(4, 3, 2, torch.float32))
REJECTED = {
    "quarters": ((x[..., :7], W), {}, ValueError, r"got \(4, 3, 7\)"),
    "size of c0": ((x, W, h0, c0[:2]), {}, ValueError, r"got \(2, 2\)"),
    "c alone": ((x, W), {"c": W[:, 0]}, ValueError, "got c alone"),
    "complex": ((x.cfloat(), W.cfloat()), {}, TypeError, "got torch.complex64"),
}


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"), REJECTED.values(), ids=REJECTED.keys()
)
def test_bad_input_raises_an_error_that_says_what_was_expected(arguments, options, error, message):
    with pytest.raises(error, match=message):
        lstm(*arguments, **options)


def test_autocast_runs_the_recurrence_in_float32():
    x, *others = operands(5, 3, 4, torch.float32)
    rounded = x.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        h, *_ = lstm(rounded, *others)
    assert torch.equal(h, lstm(rounded.float(), *others)[0])


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [(name, dtype) for name in BACKENDS for dtype in SIXTEEN if (name, dtype) != NO_KERNEL],
    ids=str,
)
def test_sixteen_bits_agree_with_double_precision_up_to_rounding(backend, dtype):
    tensors = [tensor.detach() for tensor in operands(3, 2, 4, dtype)]
    got = values_and_gradients(tensors, backend=backend)
    expected = values_and_gradients([v.double() for v in tensors], backend="reference")
    assert got[0].dtype == dtype
    assert_near(got, expected, dtype, 3)
