"""The nonlinearities in whole numbers."""

from collections.abc import Callable

from eigenrnn.export.c.integers.source import IntegerSource, UnsupportedError
from eigenrnn.nonlinearities import LEAKY_SLOPES

__all__ = ["BOUNDED", "call", "state_places"]

BOUNDED = ("tanh", "retanh")  # in size by one: values have 15 places
_OF_TANH = ("elu", "softplus")  # values have at most 15 places


def state_places(
    name: str, calibrated: int, places_of_sum: Callable[[int], int]
) -> tuple[int, int]:
    """Return the places of the values of f, which are a state, and of its argument.

    Args:
        name: The name of f.
        calibrated: The places that the calibration allows.
        places_of_sum: The places of the argument by those of the state.

    Raises:
        UnsupportedError: If the recurrent weights are too large.
    """
    if name in BOUNDED:
        return 15, places_of_sum(15)
    places = calibrated
    if name in _OF_TANH:
        places = min(places, 15)
    # values have no more places than the argument
    while places_of_sum(places) < places:
        if places < -30:
            raise UnsupportedError("such large recurrent weights")
        places -= 1
    return places, places_of_sum(places)


def call(name: str, z: str, bias: str | None, places: int, to: int, source: IntegerSource) -> str:
    """Return the expression f(z) in units of 2^-to, of z in units of 2^-places.

    Raises:
        UnsupportedError: If it has no form in whole numbers.
    """
    value = z
    match name:
        case "tanh":
            source.tanh(places)
            if "sigmoid_of_integer" in source.helpers:
                # that calls it with one place more: of a constant the compiler makes less code
                return f"tanh_of_integer(2 * {z}, {places + 1})"
            return f"tanh_of_integer({z}, {places})"
        case "retanh":
            source.tanh(places)
            return f"{z} < 0 ? 0 : tanh_of_integer({z}, {places})"
        case "elu" | "softplus":
            source.tanh(places)
            source.helpers |= {"rounded_shift", f"{name}_of_integer"}
            return f"{name}_of_integer({z}, {places}, {to})"
        case "modrelu" if bias is not None:
            source.helpers.add("modrelu_of_integer")
            value = f"modrelu_of_integer({z}, {bias})"
        case "modrelu" | "identity":
            pass
        case "relu":
            value = f"({z} < 0 ? 0 : {z})"
        case "leaky_relu" | "leaky_relu_0.1":
            source.helpers.add("leaky_relu_of_integer")
            value = f"leaky_relu_of_integer({z}, {round(LEAKY_SLOPES[name] * 2**32)})"
        case _:
            raise UnsupportedError(f"nonlinearity={name!r}")
    source.helpers.add("rounded_shift")
    return f"rounded_shift({value}, {places - to})"
