"""The steps of gated layers in NumPy, as their papers write them."""

import numpy as np
import torch
from scipy.special import expit as sigmoid

from draws import normal
from eigenrnn.linalg import tol


def randomise(layer):
    """Fill the biases with random numbers; zero biases would hide errors."""
    for k, direction in enumerate(layer.all_directions()):
        for bias in (direction.gate_bias, direction.input_bias, direction.recurrent_bias):
            if bias is not None:
                bias.data.copy_(normal(*bias.shape, seed=k))
    return layer


def modrelu(z, b):
    return np.sign(z) * np.maximum(np.abs(z) + b, 0)


def nc_gru_cell(x, h, p):
    """Equation 19 of the paper, which writes W for our U."""
    r = sigmoid(p["U_r"] @ x + p["W_r"] @ h + p["b_r"])
    u = sigmoid(p["U_u"] @ x + p["W_u"] @ h + p["b_u"])
    c = modrelu(p["U_c"] @ x + p["W_c"] @ (r * h), p["b"])
    return (1 - u) * h + u * c


def goru_cell(x, h, p):
    """The released cell, whose modReLU adds 0.001 to the modulus."""
    r = sigmoid(p["U_r"] @ x + p["W_r"] @ h + p["b_r"])
    g = sigmoid(p["U_u"] @ x + p["W_u"] @ h + p["b_u"])
    z = r * (p["W_c"] @ h) + p["U_c"] @ x
    c = np.sign(z) * np.maximum(np.abs(z) + 0.001 + (p["b"] - 0.001), 0)
    return g * h + (1 - g) * c


def parameters_of(direction):
    named = {"b": direction.bias}
    for letter, U, W in zip(
        "ruc", direction.weight_ih.chunk(3), direction.matrices(), strict=True
    ):
        named |= {f"U_{letter}": U, f"W_{letter}": W}
    named["b_r"], named["b_u"] = direction.gate_bias.chunk(2)
    return {name: tensor.detach().numpy() for name, tensor in named.items()}


def assert_computes(cell, layer, T=6, B=3):
    """Compare a layer with a step (x, h, parameters) -> h."""
    randomise(layer)
    x = normal(T, B, layer.input_size)
    named = parameters_of(layer.all_directions()[0])
    h = np.zeros((B, layer.hidden_size))
    expected = []
    for x_t in x.numpy():
        h = np.stack([cell(x_t[b], h[b], named) for b in range(B)])
        expected.append(h)
    allowed = {"rtol": 0, "atol": tol(torch.float64, T * layer.hidden_size)}
    torch.testing.assert_close(layer(x)[0], torch.as_tensor(np.stack(expected)), **allowed)
