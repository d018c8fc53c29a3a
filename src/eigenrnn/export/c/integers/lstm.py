"""The LSTM in whole numbers."""

from eigenrnn.export.c.integers.direction import IntegerLayer, RoundedDirection, places_for
from eigenrnn.export.c.integers.source import (
    IntegerSource,
    Vector,
    padded,
    places_of_sum,
    stacked,
)
from eigenrnn.export.c.source import Array, Layer, loop
from eigenrnn.layers.lstm import LSTMDirection

__all__ = ["lstm"]

_HEADROOM = 2**27  # of 32 bits: a cell may grow to 8 times its size in the calibration


def lstm(
    rounded: RoundedDirection[LSTMDirection], name: str, source: IntegerSource, x: Vector
) -> IntegerLayer:
    """Write the step of an `LSTM`, whose cell has 32 bits; gates are in units of 2^-15."""
    direction = rounded.direction
    N = direction.hidden_size
    h = Vector(f"state->{name}_h", N, 15)
    cell = f"state->{name}_cell[i]"
    cell_places = max(15, places_for(rounded.largest["cell"], _HEADROOM))
    bias = direction.input_bias
    U = source.term(source.rounded(direction.weight_ih), x.places)
    W = source.term(stacked(rounded.matrices), h.places)
    places = places_of_sum([U, W], [bias])
    source.sigmoid(places)
    source.helpers |= {"saturated", "saturated_wide"}
    rows = f"of input, forget, cell and output, ({4 * N}"
    old = f"(int64_t)sigmoid_of_integer(z[i + {N}], {places}) * {cell}"
    taken = f"sigmoid_of_integer(z[i], {places}) * tanh_of_integer(z[i + {2 * N}], {places})"
    output = (
        f"sigmoid_of_integer(z[i + {3 * N}], {places}) * tanh_of_integer({cell}, {cell_places})"
    )
    body = [
        source.at_start("z", 4 * N, bias, places, f"{name}_b", f"the biases {rows})"),
        source.product(f"{name}_U", U, "x", "z", places, f"U {rows}, {x.size})"),
        source.product(f"{name}_W", W, h.name, "z", places, f"W {rows}, {N})"),
        loop(
            N,
            f"const int64_t kept = {old};",
            f"const int64_t taken = {taken};",
            f"{cell} = saturated_wide((kept + taken * {2 ** (cell_places - 15)} + 16384) >> 15);",
            f"{h.name}[i] = saturated(({output} + 16384) >> 15);",
        ),
    ]
    source.values[f"{name}_places"] = {"z": places, "cell": cell_places}
    h0 = direction.h0
    states = [
        source.state(f"{name}_h", "h", N, None if h0 is None else h0[:N], h.places),
        source.state(
            f"{name}_cell", "c, the cell,", N, None if h0 is None else h0[N:], cell_places, 32
        ),
    ]
    layer = Layer(
        formula="an LSTM with the gates input, forget, cell and output",
        states=states,
        locals=[Array("z", padded(4 * N), kind="int32")],
        body="\n".join(body),
        output_size=N,
        arguments="const int16_t *x",
    )
    return IntegerLayer(layer, h, {"cell": 2.0 ** (30 - cell_places)})
