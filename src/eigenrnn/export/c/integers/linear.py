"""The linear recurrence in whole numbers."""

import math

import numpy as np
import torch
from torch import Tensor

from eigenrnn.export.c.integers.direction import IntegerLayer, RoundedDirection, places_for
from eigenrnn.export.c.integers.source import (
    IntegerSource,
    Vector,
    as_array,
    padded,
    places_of_sum,
)
from eigenrnn.export.c.source import Array, Layer, loop
from eigenrnn.layers.linear import LRUDirection

__all__ = ["lru"]

_HEADROOM = 2**27  # of 32 bits: a state may grow to 8 times its size in the calibration


def lru(
    rounded: RoundedDirection[LRUDirection], name: str, source: IntegerSource, x: Vector
) -> IntegerLayer:
    """Write the step of an `LRU`; its states have 32 bits, its eigenvalues are in 2^-30."""
    direction = rounded.direction
    N = direction.hidden_size
    S = direction.state_size
    decay = direction.weight_hh.detach()
    output_weights = direction.weight_out
    if S > N:
        # Re(C h) is a product of real numbers: Re(C) Re(h) - Im(C) Im(h)
        real, imaginary = output_weights.chunk(2, 1)
        output_weights = torch.cat([real, -imaginary], 1)
    B = source.term(source.rounded(direction.scaled_input.flatten(0, 1)), x.places)
    input_places = places_of_sum([B])
    # twice a state, and its input, fit into 64 bits with the 30 of the eigenvalues
    wide = min(
        places_for(rounded.largest["state"], _HEADROOM),
        math.floor(30 - math.log2(max(B.most, 1e-9))),
    )
    narrow = min(wide, rounded.places("state"))
    C = source.term(source.rounded(output_weights), narrow)
    D = source.term(source.rounded(direction.weight_skip), x.places)
    places = places_of_sum([C, D], [direction.output_bias])
    y = Vector(f"{name}_y", N, min(places, rounded.places("output")))
    source.helpers |= {"saturated", "saturated_wide", "rounded_shift"}
    h = f"state->{name}_h"
    shift = 30 + wide - input_places
    term = f"* INT64_C({2**shift})"
    if shift < 0:
        term = f"/ {2**-shift}"
    half = 2**29
    if S > N:
        re = _eigenvalues(f"{name}_decay_re", decay.real, f"Re(lambda) in 2^-30, ({N})", source)
        im = _eigenvalues(f"{name}_decay_im", decay.imag, f"Im(lambda) in 2^-30, ({N})", source)
        update = loop(
            N,
            f"const int64_t re = {h}[i];",
            f"const int64_t im = {h}[i + {N}];",
            f"const int64_t u_re = z[i] {term} + {half};",
            f"const int64_t u_im = z[i + {N}] {term} + {half};",
            f"{h}[i] = saturated_wide(({re}[i] * re - {im}[i] * im + u_re) >> 30);",
            f"{h}[i + {N}] = saturated_wide(({re}[i] * im + {im}[i] * re + u_im) >> 30);",
        )
    else:
        factor = _eigenvalues(f"{name}_decay", decay, f"lambda in 2^-30, ({N})", source)
        update = loop(
            N,
            f"const int64_t u = z[i] {term} + {half};",
            f"{h}[i] = saturated_wide(((int64_t){factor}[i] * {h}[i] + u) >> 30);",
        )
    body = [
        source.at_start("z", S, None, input_places, "", ""),
        source.product(f"{name}_B", B, "x", "z", input_places, f"gamma B, ({S}, {x.size})"),
        update,
        loop(S, f"narrow[i] = saturated(rounded_shift({h}[i], {wide - narrow}));"),
        source.at_start(
            "z", N, direction.output_bias, places, f"{name}_b", f"the bias of outputs, ({N})"
        ),
        source.product(f"{name}_C", C, "narrow", "z", places, f"Re(C) and -Im(C), ({N}, {S})"),
        source.product(f"{name}_D", D, "x", "z", places, f"D, ({N}, {x.size})"),
        loop(N, f"y[i] = saturated(rounded_shift(z[i], {places - y.places}));"),
    ]
    source.values[f"{name}_places"] = {
        "input": input_places,
        "wide": wide,
        "narrow": narrow,
        "z": places,
        "y": y.places,
    }
    layer = Layer(
        formula="a linear recurrence, h = lambda h + gamma B x, y = Re(C h) + D x + b",
        states=[source.state(f"{name}_h", "h", S, direction.h0, wide, 32)],
        locals=[Array("z", padded(S), kind="int32"), Array("narrow", S, kind="int16")],
        body="\n".join(body),
        output_size=N,
        arguments="const int16_t *x, int16_t *y",
    )
    limits = {"state": 32767 * 2.0**-narrow, "output": y.largest}
    return IntegerLayer(layer, y, limits)


def _eigenvalues(name: str, values: Tensor, comment: str, source: IntegerSource) -> str:
    numbers = np.rint(as_array(values) * 2**30).astype(np.int64)
    return source.vector_of_integers(name, numbers, comment, "int32")
