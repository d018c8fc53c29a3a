"""What older versions called the options of layers: one table for stored descriptions of calls."""

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["current_call"]

_WEIGHTS = {
    "input_init": ["weight_ih"],
    "bias_init": ["bias", "input_bias"],
    "input_bias_init": ["input_bias"],
    "h0_init": ["h0"],
}
"""The weights that an initialiser of an `RNN` filled."""

_GATED_WEIGHTS = {"input_init": ["weight_ih"], "bias_init": ["bias"], "h0_init": ["h0"]}
_GATED_BLOCKS = {
    "candidate_init": ("weight_ih", 2, 3),
    "reset_bias_init": ("gate_bias", 0, 2),
    "update_bias_init": ("gate_bias", 1, 2),
}
"""The weight of a `GRU` that an initialiser fills in part, the index of its block, the count."""

_MATRIX_INITS = ("unit_circle", "zero", "henaff", "cayley", "haar", "urnn")

_LEAK = {
    "leak": 1.0,
    "trainable_leak": False,
    "noise": 0.0,
    "noise_in_eval": False,
    "state": "rate",
}
"""The options of an `RNN` that made it a `LeakyRNN`, and their defaults."""


def current_call(
    layer: str, options: Mapping[str, Any], call: Callable[..., Any]
) -> tuple[str, dict[str, Any]]:
    """Return the layer and the options by which a call of an older version is written now.

    A call of this version stays as it is. The defaults of an older version are written in the same
    way.

    Args:
        layer: The name of the layer.
        options: The keyword arguments, as data or as Python objects.
        call: Returns a function of `eigenrnn` with options, by its name, in the form in which the
            options are: ``call("weights_", weight_ih=...)``.
    """
    found = dict(options)
    if found.get("init") in _MATRIX_INITS:
        found["matrix_init"] = found.pop("init")
    weights = _weights(found, gated="GRU" in layer or layer == "GORU")
    if weights:
        found["init"] = call("weights_", **weights)
    leak = {name: found.pop(name) for name in _LEAK if layer == "RNN" and name in found}
    if any(value != _LEAK[name] for name, value in leak.items()):
        layer = "LeakyRNN"
        replaced = {"leak": 1.0, "nonlinearity": "modrelu", "constraint": call("ScaledCayley")}
        found = replaced | found | leak
        found.pop("output", None)  # of complex states, which have no leak
        if not found.get("zoneout"):
            found.pop("zoneout", None)
    is_published = layer in ("GatedDeltaNet", "DeltaProduct")
    if found.get("silu") == bool(found.get("convolution", is_published)):
        del found["silu"]
    return layer, found


def _weights(options: dict[str, Any], gated: bool) -> dict[str, Any]:
    """Take the initialisers out of the options; return them by the names of the weights."""
    weights: dict[str, Any] = {}
    for option, names in (_GATED_WEIGHTS if gated else _WEIGHTS).items():
        value = options.pop(option, None)
        if value is not None:
            weights |= dict.fromkeys(names, value)
    for option, (name, block, count) in _GATED_BLOCKS.items():
        value = options.pop(option, None)
        if value is not None:
            blocks = weights.get(name)
            if not isinstance(blocks, list):
                blocks = [blocks] * count
            blocks[block] = value
            weights[name] = blocks
    return weights
