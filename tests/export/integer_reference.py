"""Networks in whole numbers by definition: numpy's 64 bits, one time step at a time."""

import numpy as np
import torch
from torch.nn.utils.parametrize import type_before_parametrizations

from eigenrnn.export.c.file import _network
from eigenrnn.export.c.templates import directions_of
from eigenrnn.export.preparation import with_our_layers
from eigenrnn.layers.gru import GatedDirection
from eigenrnn.layers.linear import LRUDirection
from eigenrnn.layers.lstm import LSTMDirection
from eigenrnn.layers.rnn import RNNDirection
from eigenrnn.models import LanguageModel, SequenceModel

LARGEST = 32767


def saturated(values, largest=LARGEST):
    return np.clip(values, -largest, largest)


def rounded_shift(z, k):
    return (z + 2 ** (k - 1)) // 2**k if k > 0 else z


def add_product(z, stored, x):
    """z + A x, rounded after each 256 columns."""
    for first in range(0, len(x), 256):
        part = slice(first, first + 256)
        sums = (stored.integers[:, part] @ x[part]) // 2**stored.dropped
        z = z + (sums * stored.scales + 2**31) // 2**32
    return z


def tanh(z, places):
    """From the tangent at the nearest sixteenth, and the curvature there."""
    size = np.abs(z)
    k = (size * 16 + 2 ** (places - 1)) // 2**places
    table = np.rint(2**15 * np.tanh(np.arange(88) / 16)).astype(np.int64)
    t = table[np.minimum(k, 87)]
    d = (size - k * 2 ** (places - 4)) * 2 ** (36 - places) // 2**16
    bent = d - t * (d * d // 2**20) // 2**15
    value = t + ((2**30 - t * t) // 2**15 * bent + 2**19) // 2**20
    return np.sign(z) * np.where(k < 88, value, 2**15)


def sigmoid(z, places):
    return (tanh(z, places + 1) + 2**15) // 2


def modrelu(z, bias):
    return np.sign(z) * np.maximum(np.abs(z) + bias, 0)


def elu(z, places, to):
    t = tanh(np.maximum(-z, 0), places + 1)
    below = -(t * 2**16 // (2**15 + t) // 2 ** (15 - to))
    return np.where(z < 0, below, rounded_shift(z, places - to))


def softplus(z, places, to):
    t = tanh(np.abs(z), places + 1)
    w = (2**15 - t) * 2**15 // (3 * 2**15 + t)
    square = w * w // 2**15
    series = 2**15 + square * (10923 + square * (6554 + square * 4681 // 2**15) // 2**15) // 2**15
    return 2 * w * series // 2**15 // 2 ** (15 - to) + np.where(
        z > 0, rounded_shift(z, places - to), 0
    )


def apply(f, z, bias, places, to):
    """The nonlinearity of a name, in units of 2^-to."""
    if f == "tanh":
        return tanh(z, places)
    if f == "retanh":
        return np.maximum(tanh(z, places), 0)
    if f == "elu":
        return elu(z, places, to)
    if f == "softplus":
        return softplus(z, places, to)
    if f == "relu":
        z = np.maximum(z, 0)
    elif f == "leaky_relu":
        z = np.where(z < 0, z * round(0.01 * 2**32) // 2**32, z)
    elif f == "leaky_relu_0.1":
        z = np.where(z < 0, z * round(0.1 * 2**32) // 2**32, z)
    elif f == "modrelu" and bias is not None:
        z = modrelu(z, bias)
    return rounded_shift(z, places - to)


class Reference:
    """The steps of a network, from the constants of its file."""

    def __init__(self, model, weights, calibration, scaling=None):
        model = with_our_layers(model)
        with torch.no_grad():
            network = _network(model, "net", scaling, weights, None, calibration)
        layers = [model]
        if isinstance(model, SequenceModel):
            layers = [model.layer]
        elif isinstance(model, LanguageModel):
            layers = model.layers
        self.directions = [each for layer in layers for each in directions_of(layer)]
        self.values = network.source.values
        self.integers = network.integers
        self.states = [None] * len(self.directions)

    def run(self, x):
        """The outputs of whole inputs, (T, M), or of symbols."""
        return np.stack([self.step(x_t) for x_t in x])

    def quantised(self, x):
        """Inputs in whole numbers; half of a unit is rounded away from zero."""
        exact = x.astype(np.float64) * 2.0**self.integers.input_places
        return np.clip(np.sign(exact) * np.floor(np.abs(exact) + 0.5), -LARGEST, LARGEST).astype(
            np.int64
        )

    def vector(self, name, size):
        """A bias, or zeros if there is none."""
        return self.values.get(name, np.zeros(size, np.int64))[:size]

    def embedded(self, symbol):
        stored = self.values.get("embedding", self.values.get("head"))
        shift = stored.exponent + stored.dropped - self.values["symbol_places"]
        row = stored.integers[symbol] * stored.scales[symbol]
        return saturated((row + 2 ** (shift - 1)) // 2**shift)

    def step(self, x):
        if isinstance(x, int):
            x = self.embedded(x)
        for k, direction in enumerate(self.directions):
            step = STEPS[type_before_parametrizations(direction)]
            x, self.states[k] = step(self, f"layer{k}", direction, x, self.states[k])
        if "head" not in self.values:
            return x
        head = self.values["head"]
        places = self.values["head_places"]
        z = add_product(self.vector("head_bias", len(head.integers)), head, x)
        return saturated(rounded_shift(z, places["z"] - places["output"]))

    def elman(self, name, direction, x, h):
        N = direction.hidden_size
        places = self.values[f"{name}_places"]
        if h is None:
            h = self.vector(f"{name}_h0", N)
        z = self.vector(f"{name}_c", N)
        z = add_product(z, self.values[f"{name}_U"], x)
        z = add_product(z, self.values[f"{name}_W"], h)
        bias = self.values.get(f"{name}_b")
        if bias is not None:
            bias = bias[:N]
        h = saturated(apply(direction.nonlinearity, z, bias, places["z"], places["h"]))
        return h, h

    def gru(self, name, direction, x, h):
        N = direction.hidden_size
        places = self.values[f"{name}_places"]
        if h is None:
            h = self.vector(f"{name}_h0", N)
        z = self.vector(f"{name}_b_gates", 3 * N)
        z = add_product(z, self.values[f"{name}_U"], x)
        z[: 2 * N] = add_product(z[: 2 * N], self.values[f"{name}_W_gates"], h)
        r = sigmoid(z[:N], places["z"])
        u = sigmoid(z[N : 2 * N], places["z"])
        W = self.values[f"{name}_W_candidate"]
        if direction.reset_after:
            q = add_product(self.vector(f"{name}_b_recurrent", N), W, h)
            c = z[2 * N :] + (r * q + 2**14) // 2**15
        else:
            c = add_product(z[2 * N :], W, (r * h + 2**14) // 2**15)
        bias = self.values.get(f"{name}_b")
        if bias is not None:
            bias = bias[:N]
        c = apply(direction.nonlinearity, c, bias, places["z"], places["h"])
        if direction.nonlinearity in ("tanh", "retanh"):  # one is cut to the largest number
            c = saturated(c)
        if not direction.update_keeps:
            u = 2**15 - u
        h = saturated((u * h + (2**15 - u) * c + 2**14) // 2**15)
        return h, h

    def lstm(self, name, direction, x, state):
        N = direction.hidden_size
        places = self.values[f"{name}_places"]
        if state is None:
            state = self.vector(f"{name}_h0", N), self.vector(f"{name}_cell0", N)
        h, cell = state
        z = self.vector(f"{name}_b", 4 * N)
        z = add_product(z, self.values[f"{name}_U"], x)
        z = add_product(z, self.values[f"{name}_W"], h)
        i, f, g, o = np.split(z, 4)
        taken = sigmoid(i, places["z"]) * tanh(g, places["z"]) * 2 ** (places["cell"] - 15)
        cell = (sigmoid(f, places["z"]) * cell + taken + 2**14) // 2**15
        cell = saturated(cell, 2**30)
        h = sigmoid(o, places["z"]) * tanh(cell, places["cell"])
        h = saturated((h + 2**14) // 2**15)
        return h, (h, cell)

    def lru(self, name, direction, x, h):
        N = direction.hidden_size
        S = direction.state_size
        places = self.values[f"{name}_places"]
        if h is None:
            h = self.vector(f"{name}_h0", S)
        u = add_product(np.zeros(S, np.int64), self.values[f"{name}_B"], x)
        # in Python's own numbers, which cannot overflow
        u = [int(each) * 2 ** (30 + places["wide"]) // 2 ** places["input"] for each in u]
        h = [int(each) for each in h]
        if S > N:
            re = self.values[f"{name}_decay_re"].tolist()
            im = self.values[f"{name}_decay_im"].tolist()
            real = [a * c - b * d for a, b, c, d in zip(re, im, h[:N], h[N:], strict=True)]
            imaginary = [a * d + b * c for a, b, c, d in zip(re, im, h[:N], h[N:], strict=True)]
            moved = real + imaginary
        else:
            moved = [a * c for a, c in zip(self.values[f"{name}_decay"].tolist(), h, strict=True)]
        h = np.array([(a + b + 2**29) // 2**30 for a, b in zip(moved, u, strict=True)])
        h = saturated(h, 2**30)
        narrow = saturated(rounded_shift(h, places["wide"] - places["narrow"]))
        y = add_product(self.vector(f"{name}_b", N), self.values[f"{name}_C"], narrow)
        y = add_product(y, self.values[f"{name}_D"], x)
        return saturated(rounded_shift(y, places["z"] - places["y"])), h


STEPS = {
    RNNDirection: Reference.elman,
    GatedDirection: Reference.gru,
    LSTMDirection: Reference.lstm,
    LRUDirection: Reference.lru,
}
