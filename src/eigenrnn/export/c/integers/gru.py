"""The gated recurrence in whole numbers."""

import torch

from eigenrnn.export.c.integers.direction import IntegerLayer, RoundedDirection
from eigenrnn.export.c.integers.nonlinearity import BOUNDED, call, state_places
from eigenrnn.export.c.integers.source import (
    IntegerSource,
    UnsupportedError,
    Vector,
    padded,
    places_of_sum,
    stacked,
)
from eigenrnn.export.c.source import Array, Layer, loop
from eigenrnn.layers.gru import GatedDirection

__all__ = ["gru"]


def gru(
    rounded: RoundedDirection[GatedDirection], name: str, source: IntegerSource, x: Vector
) -> IntegerLayer:
    """Write the step of a `GRU` in one of its forms; gates are in units of 2^-15.

    Raises:
        UnsupportedError: If there is LayerNorm or zoneout.
    """
    direction = rounded.direction
    if direction.norm_zoneout is not None:
        raise UnsupportedError("LayerNorm or zoneout")
    N = direction.hidden_size
    f = direction.nonlinearity
    biases = None
    if direction.gate_bias is not None:
        candidate = direction.input_bias
        if candidate is None:
            candidate = torch.zeros(N)
        biases = torch.cat([direction.gate_bias, candidate])
    all_biases = [biases, direction.recurrent_bias, direction.bias]
    U = source.term(source.rounded(direction.weight_ih), x.places)
    gates = stacked(rounded.matrices[:2])

    def places_of_sums(to: int) -> int:
        of_gates = places_of_sum([U, source.term(gates, to)], all_biases)
        of_candidate = places_of_sum([U, source.term(rounded.matrices[2], to)], all_biases)
        return min(of_gates, of_candidate)

    to, places = state_places(f, rounded.places("state"), places_of_sums)
    W = source.term(gates, to)
    W_c = source.term(rounded.matrices[2], to)
    h = Vector(f"state->{name}_h", N, to)
    bias = None
    if direction.bias is not None:
        bias = source.bias(f"{name}_b", direction.bias, places, f"the bias inside f, ({N})")
    source.sigmoid(places)
    source.helpers.add("saturated")
    comment = f"the biases of reset, update and candidate, ({3 * N})"
    shape = f"({3 * N}, {x.size})"
    body = [
        source.at_start("z", 3 * N, biases, places, f"{name}_b_gates", comment),
        source.product(
            f"{name}_U", U, "x", "z", places, f"U of reset, update, candidate, {shape}"
        ),
        source.product(
            f"{name}_W_gates", W, h.name, "z", places, f"W of reset and update, ({2 * N}, {N})"
        ),
    ]
    candidate_matrix = f"{name}_W_candidate", W_c
    comment = f"W of candidate, ({N}, {N})"
    local_arrays = [Array("z", max(padded(3 * N), 2 * N + padded(N)), kind="int32")]
    argument = f"z[i + {2 * N}]"
    if direction.reset_after:
        bias_name = f"{name}_b_recurrent"
        of_bias = f"the bias that the reset gate multiplies, ({N})"
        local_arrays.append(Array("q", padded(N), kind="int32"))
        body += [
            source.at_start("q", N, direction.recurrent_bias, places, bias_name, of_bias),
            source.product(*candidate_matrix, h.name, "q", places, comment),
        ]
        first = [
            f"const int64_t product = (int64_t)sigmoid_of_integer(z[i], {places}) * q[i];",
            f"const int32_t c = {argument} + (int32_t)((product + 16384) >> 15);",
        ]
        argument = "c"
    else:
        local_arrays.append(Array("q", N, kind="int16"))
        reset = f"(sigmoid_of_integer(z[i], {places}) * {h.name}[i] + 16384) >> 15"
        body += [
            loop(N, f"q[i] = (int16_t)({reset});"),
            source.product(*candidate_matrix, "q", f"z + {2 * N}", places, comment),
        ]
        first = []
    kept = "u"
    taken = "(32768 - u)"
    if not direction.update_keeps:
        kept, taken = taken, kept
    candidate = call(f, argument, bias, places, to, source)
    if f in BOUNDED:
        last = [
            f"const int32_t sum = {kept} * {h.name}[i] + {taken} * saturated({candidate});",
            f"{h.name}[i] = (int16_t)((sum + 16384) >> 15);",
        ]
    else:  # beside a slow gate, it may be larger than all states
        last = [
            f"const int64_t candidate = {candidate};",
            f"const int64_t sum = (int64_t){kept} * {h.name}[i] + {taken} * candidate;",
            f"{h.name}[i] = saturated((int32_t)((sum + 16384) >> 15));",
        ]
    body.append(
        loop(
            N,
            *first,
            f"const int32_t u = sigmoid_of_integer(z[i + {N}], {places});",
            *last,
        )
    )
    source.values[f"{name}_places"] = {"z": places, "h": to}
    layer = Layer(
        formula="a gated recurrence with reset, update and candidate",
        states=[source.state(f"{name}_h", "h", N, direction.h0, to)],
        locals=local_arrays,
        body="\n".join(body),
        output_size=N,
        arguments="const int16_t *x",
    )
    return IntegerLayer(layer, h, {"state": h.largest})
