"""The papers' layers by name: what each gives and takes, and one recurrence by hand."""

from functools import partial

import numpy as np
import pytest
import torch

from cases import CONSTRAINTS, NAMED, OURS, REAL, UNITARY
from eigenrnn.constraints import (
    BoundedSVD,
    Exponential,
    FourierProduct,
    Givens,
    Householder,
    ScaledCayley,
    Schur,
    SpectralRadius,
    Unconstrained,
)
from eigenrnn.layers import EURNN, AsRNN
from eigenrnn.linalg import orthogonality_error, tol


@pytest.fixture(params=NAMED, ids=list(NAMED))
def layer(request):
    return NAMED[request.param](3, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def x():
    return torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(1))


def test_it_gives_real_outputs_of_the_width_that_it_states(layer, x):
    output, _ = layer(x)
    assert (output.shape, output.dtype) == ((5, 4, layer.output_size), torch.float32)


def test_its_last_state_is_taken_as_the_next_first_one(layer, x):
    whole, _ = layer(x)
    _, middle = layer(x[:2])
    assert torch.allclose(layer(x[2:], middle)[0], whole[2:], atol=tol(torch.float32, 8))


def test_every_parameter_gets_a_gradient(layer, x):
    output, _ = layer(x)
    output.square().sum().backward()
    without = [name for name, p in layer.named_parameters() if p.grad is None]
    assert without == []


def test_it_reads_packed_sequences_as_it_reads_lengths(layer, x):
    lengths = torch.tensor([5, 2, 4, 1])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    unpacked, _ = torch.nn.utils.rnn.pad_packed_sequence(layer(packed)[0])
    assert torch.equal(unpacked, layer(x, lengths=lengths)[0])


def test_the_same_generator_gives_the_same_start(layer, request):
    make = NAMED[request.node.callspec.params["layer"]]
    again = make(3, 8, generator=torch.Generator().manual_seed(0))
    assert all(map(torch.equal, layer.state_dict().values(), again.state_dict().values()))


@pytest.mark.parametrize("make", NAMED.values(), ids=NAMED)
def test_compiled_it_agrees_without_a_break_in_its_graph(make, x):
    torch.compiler.reset()
    layer = make(3, 8, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)

    def results(run):
        output, _ = run(x)
        return output, *torch.autograd.grad(output.square().sum(), [*layer.parameters()])

    for got, expected in zip(results(compiled), results(layer), strict=True):
        scale = max(1.0, float(expected.detach().abs().max()))
        torch.testing.assert_close(got, expected, rtol=0, atol=scale * tol(torch.float32, 40))


@pytest.mark.parametrize("size", [0, -1, 2.5, "8", None])
@pytest.mark.parametrize("make", (OURS | NAMED).values(), ids=OURS | NAMED)
def test_a_number_of_units_that_is_none_is_refused(make, size):
    with pytest.raises(ValueError, match=f"expected hidden_size to be a positive .*{size!r}"):
        make(3, size)


def as_rnn_by_hand(layer, x):
    """h_t = W_f^-1 tanh(W_f (U x_t + b + W h_{t-1})), by solving for each state."""
    direction = layer.all_directions()[0]
    W, U_f = (c().detach().numpy() for c in direction.constraints())
    W_f = U_f @ np.diag(np.abs(direction.s.detach().numpy()) + direction.epsilon)
    U, b = direction.weight_ih.detach().numpy(), direction.input_bias.detach().numpy()
    h = np.zeros((x.shape[1], layer.hidden_size))
    states = []
    for x_t in x.numpy():
        z = x_t @ U.T + b + h @ W.T
        h = np.linalg.solve(W_f, np.tanh(W_f @ z.T)).T
        states.append(h)
    return np.stack(states)


def test_as_rnn_is_its_formula():
    generator = torch.Generator().manual_seed(2)
    layer = AsRNN(3, 8, scale=(0.5, 2.0), generator=generator).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator).double())
    x = torch.randn(6, 4, 3, generator=generator).double()
    expected = torch.from_numpy(as_rnn_by_hand(layer, x))
    assert torch.allclose(layer(x)[0], expected, atol=tol(torch.float64, 8) * 10)


@pytest.mark.parametrize("options", [{"epsilon": 0.0}, {"scale": (0.0, np.inf)}], ids=str)
def test_as_rnn_refuses_a_scale_that_would_not_invert(options):
    with pytest.raises(ValueError, match="epsilon > 0, got"):
        AsRNN(3, 8, **options)


ORTHOGONAL = [name for name in UNITARY if name in REAL]


@pytest.mark.parametrize("mixing", ORTHOGONAL)
@pytest.mark.parametrize("constraint", [ScaledCayley, Householder])
def test_as_rnn_is_its_formula_for_any_two_orthogonal_sets(constraint, mixing):
    generator = torch.Generator().manual_seed(2)
    make = CONSTRAINTS[mixing]
    layer = AsRNN(3, 8, constraint=constraint, mixing=make, generator=generator).double()
    direction = layer.all_directions()[0]
    assert type(direction.constraint) is constraint
    assert type(direction.mixing) is type(make(8))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator).double())
    x = torch.randn(6, 4, 3, generator=generator).double()
    expected = torch.from_numpy(as_rnn_by_hand(layer, x))
    assert torch.allclose(layer(x)[0], expected, atol=tol(torch.float64, 8) * 100)


def test_as_rnn_mixes_by_the_identity_at_the_start_where_the_set_reaches_it():
    for mixing in (Exponential, Householder, partial(ScaledCayley, negative=0)):
        U_f = AsRNN(3, 8, mixing=mixing).all_directions()[0].mixing()
        assert torch.allclose(U_f, torch.eye(8), atol=tol(torch.float32, 8))
    direction = AsRNN(3, 8, mixing=Givens).all_directions()[0]
    assert orthogonality_error(direction.mixing()) <= tol(torch.float32, 8)
    assert not torch.allclose(direction.mixing(), torch.eye(8), atol=0.1)


@pytest.mark.parametrize("name", ["constraint", "mixing"])
@pytest.mark.parametrize(
    "make", [Unconstrained, Schur, BoundedSVD, SpectralRadius, FourierProduct]
)
def test_as_rnn_refuses_sets_that_are_not_orthogonal(name, make):
    with pytest.raises(ValueError, match=f"expected {name} to make a set of real orthogonal"):
        AsRNN(3, 8, **{name: make})


def test_as_rnn_refuses_a_start_beside_a_constraint():
    with pytest.raises(ValueError, match="expected either start or constraint, got start='haar'"):
        AsRNN(3, 8, start="haar", constraint=ScaledCayley)


def test_eurnn_reads_the_real_part_alone():
    assert EURNN(3, 8)(torch.ones(2, 1, 3))[0].shape == (2, 1, 8)


def test_a_real_eurnn_has_real_states():
    assert EURNN(3, 8, dtype=torch.float32)(torch.ones(2, 1, 3))[1].shape == (1, 1, 8)


@pytest.mark.parametrize(("dtype", "width"), [(torch.float64, 8), (torch.complex128, 16)], ids=str)
def test_a_eurnn_of_double_precision_is_so_altogether(dtype, width):
    layer = EURNN(3, 8, dtype=dtype, output="real_imag")
    output, _ = layer(torch.ones(2, 1, 3, dtype=torch.float64))
    assert (output.dtype, output.shape[-1]) == (torch.float64, width)
    assert layer.orthogonality_error() <= tol(torch.float64, 8)
