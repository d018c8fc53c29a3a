"""Layers with complex recurrent matrices: outputs, states, gradients, dtypes and errors."""

from functools import partial

import numpy as np
import pytest
import torch

from cases import COMPLEX
from draws import normal, stream
from eigenrnn.layers import RNN
from eigenrnn.linalg import tol

T, B, M, N = 6, 3, 4, 8
NAMES = ["scaled-cayley-complex", "fourier-product", "givens-5-complex", "moving-cayley-complex"]

each_set = pytest.mark.parametrize("constraint", [COMPLEX[name] for name in NAMES], ids=NAMES)
each_output = pytest.mark.parametrize(("output", "width"), [("real_imag", 2 * N), ("real", N)])


def near(dtype=torch.float64, n=T * N):
    return {"rtol": 0, "atol": tol(dtype, n)}


def make_layer(constraint, *sizes, **options):
    """A layer in double precision with nonzero biases of modReLU."""
    layer = RNN(M, N, *sizes, constraint=constraint, **{"dtype": torch.float64} | options)
    for direction in layer.all_directions():
        if direction.bias is not None:
            torch.nn.init.uniform_(direction.bias, -0.01, 0.01, generator=stream(5))
    return layer


def as_complex(parts):
    real, imaginary = np.split(parts.detach().numpy(), 2, axis=-1)
    return real + 1j * imaginary


def reference_states(direction, x, h0):
    """The states of one direction, by a loop over sequences and time steps."""
    W, U = direction.weight_hh.detach().numpy(), as_complex(direction.weight_ih.T).T
    states = np.zeros((T, B, N), dtype=complex)
    for b in range(B):
        h = as_complex(h0[b])
        for t in range(T):
            z = U @ x[t, b].numpy() + W @ h
            if direction.input_bias is not None:
                z = z + as_complex(direction.input_bias)
            if direction.nonlinearity == "modrelu":
                modulus = np.abs(z)
                z = z / modulus * np.maximum(modulus + direction.bias.detach().numpy(), 0)
            states[t, b] = h = z
    return states


@pytest.mark.parametrize(
    "options", [{}, {"input_bias": True}, {"nonlinearity": "identity"}], ids=str
)
@each_output
@each_set
def test_a_layer_computes_its_formula_in_complex_numbers(constraint, output, width, options):
    layer = make_layer(constraint, output=output, **options)
    x, h0 = normal(T, B, M), normal(1, B, 2 * N, seed=2)
    got, h_n = layer(x, h0)
    h = reference_states(layer.all_directions()[0], x, h0[0])
    both = np.concatenate([h.real, h.imag], axis=-1)
    torch.testing.assert_close(got, torch.as_tensor(both[..., :width]), **near())
    torch.testing.assert_close(h_n[0], torch.as_tensor(both[-1]), **near())


@pytest.mark.parametrize("directions", [1, 2])
@each_output
@each_set
def test_the_output_has_the_chosen_width_and_the_state_both_parts(
    constraint, output, width, directions
):
    layer = make_layer(constraint, 2, output=output, bidirectional=directions == 2)
    got, h_n = layer(normal(T, B, M))
    assert got.shape == (T, B, directions * width)
    assert layer.output_size == directions * width
    assert h_n.shape == (2 * directions, B, 2 * N)


@each_output
@each_set
def test_single_steps_equal_the_whole_sequence(constraint, output, width):
    layer, x = make_layer(constraint, 2, output=output, trainable_h0=True), normal(T, B, M)
    h, outputs = None, []
    for x_t in x:
        y, h = layer.step(x_t, h)
        outputs.append(y)
    expected, h_n = layer(x)
    assert y.shape == (B, width)
    torch.testing.assert_close(torch.stack(outputs), expected, **near())
    torch.testing.assert_close(h, h_n, **near())


@each_set
def test_a_bidirectional_layer_equals_two_directions(constraint):
    layer, x = make_layer(constraint, bidirectional=True), normal(T, B, M)
    forward, backward = layer(x)[0].split(2 * N, dim=-1)
    for k, (sequence, states) in enumerate([(x, forward), (x.flip(0), backward.flip(0))]):
        h = reference_states(layer.all_directions()[k], sequence, torch.zeros(B, 2 * N))
        both = np.concatenate([h.real, h.imag], axis=-1)
        torch.testing.assert_close(states, torch.as_tensor(both), **near())


@each_set
def test_h0_with_only_real_parts_raises(constraint):
    with pytest.raises(ValueError, match=r"got \(1, 3, 8\)"):
        make_layer(constraint)(normal(T, B, M), normal(1, B, N))


def test_the_output_option_has_no_effect_on_a_real_layer():
    x = normal(T, B, M, dtype=torch.float32)
    one, other = (
        partial(RNN, output=output)(M, N, generator=stream())(x)[0]
        for output in ("real", "real_imag")
    )
    assert torch.equal(one, other)
