"""The reference of the paper, and what the networks of its recipes share."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Generator

from eigenrnn.constraints import Unconstrained
from eigenrnn.init import constant_, uniform_, weights_, zeros_
from eigenrnn.layers import GORU, GRU, NCGRU
from eigenrnn_experiments.recipes.setup import Network

__all__ = [
    "BEST_ON_TEST",
    "CURVES",
    "INIT_UNKNOWN",
    "SOURCE",
    "TensorFlowGRU",
    "goru",
    "gru",
    "nc_gru",
    "nc_gru_options",
    "with_order",
]

SOURCE = "Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022. https://arxiv.org/abs/2208.06496"
CURVES = "the curves show the runs of the table, whose numbers are given here"
BEST_ON_TEST = (
    "the paper takes the smallest loss on its only evaluation set; our number selected on "
    "validation is beside it"
)
INIT_UNKNOWN = (
    "the code of this task was not released; the head is initialised as in scoRNN's code, the "
    "layers as in the code of the other tasks"
)


def nc_gru_options(orthogonal: tuple[str, ...], negative: int, **options: Any) -> dict[str, Any]:
    """Return the arguments of `NCGRU` as published: only the resets restore orthogonality.

    Args:
        orthogonal: The gates with an orthogonal matrix.
        negative: The number of entries -1 in D.
        options: Further arguments of `NCGRU`.
    """
    return {"orthogonal": orthogonal, "negative": negative, "max_error": math.inf, **options}


_CAPACITY = "the capacity of 4 is that of the code"
_GATES = {
    "U_c": ("candidate",),
    "U_c,U_r": ("reset", "candidate"),
    "U_r,U_u,U_c": ("reset", "update", "candidate"),
}


def gru(size: int, *, parameters: int) -> Network:
    """Return the GRU of the four small tasks."""
    return Network(f"GRU {size}", TensorFlowGRU, size, parameters)


def goru(size: int, *, parameters: int, **settings: Any) -> Network:
    """Return the GORU of the four small tasks, with its own training settings."""
    options = {"capacity": 4}
    return Network(
        f"GORU {size}", GORU, size, parameters, options, settings, departures=(_CAPACITY,)
    )


def nc_gru(
    matrices: str,
    size: int,
    *,
    parameters: int,
    negative: int,
    reset_every: int,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Network:
    """Return an NC-GRU of the four small tasks.

    Args:
        matrices: The orthogonal matrices, as the paper names them, such as ``"U_c,U_r"``.
        size: The number N of units.
        parameters: The number of trained parameters.
        negative: The number of entries -1 in D.
        reset_every: The number of optimiser steps between two exact inversions.
        settings: The training settings that differ from the other networks'.
        options: Further arguments of `NCGRU`.
    """
    options = nc_gru_options(_GATES[matrices], negative, reset_every=reset_every, **options)
    return Network(f"NC-GRU({matrices}) {size}", NCGRU, size, parameters, options, settings or {})


def with_order(network: Network, order: int | None) -> Network:
    """Return an NC-GRU with another update of the inverse.

    Args:
        network: The network.
        order: The order of the Neumann series; None for the exact inverse.
    """
    name = "inverse" if order is None else f"Neumann {order}"
    return replace(
        network,
        label=f"{network.label} {name}",
        options={**network.options, "order": order},
    )


class TensorFlowGRU(GRU):
    """The GRU of TensorFlow 1: reset before the product, one bias per gate, gate biases of 1.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        generator: The generator of the initial values.
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, generator: Generator | None = None
    ) -> None:
        # Glorot's initialisation of a matrix that multiplies the concatenated input and state
        def kernel_init(outputs: int) -> Callable[..., Any]:
            return partial(uniform_, bound=math.sqrt(6 / (input_size + hidden_size + outputs)))

        gates = kernel_init(2 * hidden_size)
        candidate = kernel_init(hidden_size)
        super().__init__(
            input_size,
            hidden_size,
            reset=partial(Unconstrained, init=gates),
            update=partial(Unconstrained, init=gates),
            candidate=partial(Unconstrained, init=candidate),
            reset_after=False,
            init=partial(
                weights_,
                weight_ih=(gates, gates, candidate),
                gate_bias=partial(constant_, value=1.0),
            ),
            generator=generator,
        )
        for direction in self.all_directions():
            if direction.input_bias is not None:
                zeros_(direction.input_bias)
