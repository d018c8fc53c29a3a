"""Training through the rounding, beside the definition in NumPy."""

from functools import partial

import numpy as np
import pytest
import torch

from draws import stream
from eigenrnn import RNN, constrain
from eigenrnn.constraints import DiagonalRing, MovingCayley, Rounded, ScaledCayley, Unconstrained
from eigenrnn.export import nearest


def trained(inner, bits, n=9, dtype=torch.float64):
    constraint = Rounded(n, inner=inner, bits=bits).to(dtype)
    constraint.reset(stream(1))
    optimiser = torch.optim.SGD(constraint.parameters(), lr=0.3)
    goal = torch.randn(n, n, dtype=dtype, generator=stream(2))
    for _ in range(3):
        optimiser.zero_grad()
        (constraint() - goal).abs().square().sum().backward()
        optimiser.step()
    return constraint


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
@pytest.mark.parametrize(
    "inner", [ScaledCayley, Unconstrained, partial(MovingCayley, dtype=torch.complex128)], ids=repr
)
def test_w_is_the_nearest_matrix_on_the_grid(inner, bits):
    constraint = trained(inner, bits)
    exact, W = constraint.inner().detach(), constraint().detach()
    if W.is_complex():  # a row has one grid for its real and its imaginary parts
        exact, W = (torch.cat([matrix.real, matrix.imag], dim=1) for matrix in (exact, W))
    expected = nearest(exact, bits).matrix()
    np.testing.assert_allclose(W.numpy(), expected, rtol=0, atol=1e-12)


def test_the_gradient_is_that_of_the_inner_set():
    constraint = trained(ScaledCayley, 8)
    weights = torch.randn(9, 9, dtype=torch.float64, generator=stream(3))
    (through,) = torch.autograd.grad((constraint() * weights).sum(), constraint.inner.raw)
    (expected,) = torch.autograd.grad((constraint.inner() * weights).sum(), constraint.inner.raw)
    torch.testing.assert_close(through, expected)


def test_a_set_that_moves_goes_on_moving():
    rounded, plain = Rounded(5, inner=MovingCayley), MovingCayley(5)
    rounded.inner.load_state_dict(plain.state_dict())
    for constraint in (rounded, plain):
        optimiser = torch.optim.SGD(constraint.parameters(), lr=0.1)
        constraint()[0].sum().backward()
        optimiser.step()
    assert rounded.inner.raw.abs().max() == 0
    torch.testing.assert_close(rounded.inner(), plain(), atol=0.02, rtol=0)


def test_the_residual_is_that_of_the_rounding():
    constraint = trained(ScaledCayley, 4)
    W = constraint().detach()
    assert constraint.residual(W) == constraint.inner.residual(W) > 0.01


def test_rows_of_zeros_stay_zero():
    constraint = Rounded(4, inner=Unconstrained)
    torch.nn.init.zeros_(constraint.inner.raw)
    assert torch.equal(constraint(), torch.zeros(4, 4))


def test_layers_and_gates_take_it():
    gate = partial(Rounded, inner=ScaledCayley, bits=4)
    lstm = constrain(torch.nn.LSTM(3, 6), "weight_hh_l0", gate, rows="g")
    layer = RNN(3, 6, constraint=gate)
    for W in (lstm.weight_hh_l0[12:18], layer.weight_hh_l0):
        q = nearest(W.detach(), 4)
        np.testing.assert_allclose(q.matrix(), W.detach(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"bits": 1}, "2 <= bits <= 16, got 1"), ({"inner": DiagonalRing}, "full matrices")],
    ids=["bits", "diagonal"],
)
def test_what_cannot_be_rounded_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Rounded(4, **options)
