"""The options of layers, which their constructors take as further keyword arguments.

They are typed dictionaries (PEP 692), so an editor completes them and the command line knows
their types. What they mean, and their defaults, is said by the layer that they are passed on to;
a notebook's tooltip and `help` list them too, through `FullSignature`.
"""

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypedDict, Unpack, get_args, get_origin

import torch
from torch import Generator

__all__ = ["DeltaNetOptions", "FullSignature", "GRUOptions", "LayerOptions", "RNNOptions"]


class FullSignature:
    """The `__signature__` of a class: its options by name, in place of `**options`.

    A class that gives an option another default than its base does has it in `published_options`,
    which no subclass changes.
    """

    def __get__(self, instance: object | None, owner: type) -> inspect.Signature:
        """Return the signature of a class.

        Raises:
            AttributeError: For an instance, whose call takes other arguments.
        """
        if instance is not None:
            raise AttributeError("__signature__")
        return inspect.Signature(_parameters(owner.__mro__))


def _parameters(classes: tuple[type, ...]) -> list[inspect.Parameter]:
    """Return the parameters of the first of some classes that has a constructor of its own."""
    first, *bases = classes
    if "__init__" not in vars(first):
        return _parameters(tuple(bases))
    _self, *parameters = inspect.signature(first.__init__).parameters.values()
    options = parameters[-1:]
    if not options or get_origin(options[0].annotation) is not Unpack:
        return parameters
    (dictionary,) = get_args(options[0].annotation)
    named = parameters[:-1]
    taken = dictionary.__annotations__.keys() - {each.name for each in named}
    published = vars(first).get("published_options", {})
    for each in _parameters(tuple(bases)):
        if each.name in taken:
            default = published.get(each.name, each.default)
            named.append(each.replace(kind=each.KEYWORD_ONLY, default=default))
    return named


class LayerOptions(TypedDict, total=False):
    """Options of all layers, see `Stacked`."""

    trainable_h0: bool
    locked_dropout: bool
    backend: str | None
    generator: Generator | None


class _PaperOptions(LayerOptions, total=False):
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    device: torch.device | str | None
    dtype: torch.dtype | None


class _RegularisedOptions(_PaperOptions, total=False):
    nonlinearity: str
    init: Callable[..., Any] | None
    layer_norm: bool
    zoneout: float


class RNNOptions(_RegularisedOptions, total=False):
    """Options of `RNN`."""

    input_bias: bool | None
    output: Literal["real_imag", "real"]


class GRUOptions(_RegularisedOptions, total=False):
    """Options of `GRU`."""

    reset_after: bool
    update_keeps: bool


class DeltaNetOptions(_PaperOptions, total=False):
    """Options of `DeltaNet`."""

    gated: bool
    convolution: int
    output_gate: bool
