"""The Elman recurrence in whole numbers."""

from eigenrnn.export.c.elman import formula
from eigenrnn.export.c.integers.direction import IntegerLayer, RoundedDirection
from eigenrnn.export.c.integers.nonlinearity import call, state_places
from eigenrnn.export.c.integers.source import (
    IntegerSource,
    UnsupportedError,
    Vector,
    padded,
    places_of_sum,
)
from eigenrnn.export.c.source import Array, Layer, loop
from eigenrnn.layers.rnn import RNNDirection

__all__ = ["elman"]


def elman(
    rounded: RoundedDirection[RNNDirection], name: str, source: IntegerSource, x: Vector
) -> IntegerLayer:
    """Write the step of an `RNN`, whose output is its state.

    Raises:
        UnsupportedError: If there is LayerNorm, zoneout or a leak.
    """
    direction = rounded.direction
    if direction.norm_zoneout is not None:
        raise UnsupportedError("LayerNorm or zoneout")
    if direction.leak is not None:
        raise UnsupportedError("a leak")
    N = direction.hidden_size
    f = direction.nonlinearity
    biases = [direction.input_bias, direction.bias]
    U = source.term(source.rounded(direction.weight_ih), x.places)
    to, places = state_places(
        f,
        rounded.places("state"),
        lambda to: places_of_sum([U, source.term(rounded.matrices[0], to)], biases),
    )
    W = source.term(rounded.matrices[0], to)
    h = Vector(f"state->{name}_h", N, to)
    bias = None
    if direction.bias is not None:
        bias = source.bias(f"{name}_b", direction.bias, places, f"the bias inside f, ({N})")
    body = [
        source.at_start("z", N, direction.input_bias, places, f"{name}_c", f"c, ({N})"),
        source.product(f"{name}_U", U, "x", "z", places, f"U, ({N}, {x.size})"),
        source.product(f"{name}_W", W, h.name, "z", places, f"W, ({N}, {N})"),
        loop(N, f"{h.name}[i] = saturated({call(f, 'z[i]', bias, places, to, source)});"),
    ]
    source.helpers.add("saturated")
    source.values[f"{name}_places"] = {"z": places, "h": to}
    layer = Layer(
        formula=f"an Elman recurrence, {formula(direction)}",
        states=[source.state(f"{name}_h", "h", N, direction.h0, to)],
        locals=[Array("z", padded(N), kind="int32")],
        body="\n".join(body),
        output_size=N,
        arguments="const int16_t *x",
    )
    return IntegerLayer(layer, h, {"state": h.largest})
