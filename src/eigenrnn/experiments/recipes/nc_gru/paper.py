"""The reference of the paper, and the six networks that it compares on synthetic tasks."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

from torch import Generator

from eigenrnn.constraints import Unconstrained
from eigenrnn.experiments.recipes.recipe import Row
from eigenrnn.experiments.tasks import Task
from eigenrnn.init import constant_, uniform_, zeros_
from eigenrnn.layers import GORU, GRU, NCGRU, ScoRNN, TorchLSTM

__all__ = [
    "BEST_ON_TEST",
    "CURVES",
    "INIT_UNKNOWN",
    "LSTM_BIASES",
    "SOURCE",
    "Network",
    "TensorFlowGRU",
    "decayed_gates",
    "decimals_of",
    "nc_gru_options",
    "networks",
]

SOURCE = "Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022. https://arxiv.org/abs/2208.06496"
LSTM_BIASES = "torch's LSTM has two bias vectors per gate, TensorFlow's has one"
CURVES = "the curves show the runs of the table, whose numbers are given here"
BEST_ON_TEST = (
    "the paper takes the smallest loss on its only evaluation set; our number selected on "
    "validation is beside it"
)
INIT_UNKNOWN = (
    "the code of this task was not released; the head is initialised as in scoRNN's code, the "
    "layers as in the code of the other tasks"
)
_CAPACITY = "the capacity of 4 is that of the code"

_Gates = tuple[str, ...]


@dataclass(frozen=True)
class Network:
    """One of the compared networks, without its task.

    Args:
        label: The name and size of the network.
        layer: The class of the layer.
        size: The number N of units.
        parameters: The number of trained parameters.
        options: Further arguments of the layer.
        departures: Differences from the paper.
    """

    label: str
    layer: Any
    size: int
    parameters: int
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    departures: tuple[str, ...] = ()

    def row(self, length: int, task: Task, **row_fields: Any) -> Row:
        """Return the row of this network for a task with sequences of this length."""
        return Row(
            label=f"{self.label} T={length}",
            task=task,
            layer=self.layer,
            hidden_size=self.size,
            options=self.options,
            parameters=self.parameters,
            departures=self.departures,
            **row_fields,
        )


def networks(
    sizes: tuple[int, int, int, int, int],
    parameters: tuple[int, int, int, int, int],
    negative: tuple[int, int],
    **options: Any,
) -> tuple[Network, ...]:
    """Return the six networks in the order of the tables.

    Args:
        sizes: The numbers of units of LSTM, GRU, scoRNN, GORU and NC-GRU.
        parameters: The numbers of trained parameters of LSTM, GRU, scoRNN, GORU and NC-GRU(U_c).
        negative: The numbers of entries -1 in D, of scoRNN and of NC-GRU.
        options: Further arguments of `NCGRU`.
    """
    lstm, gru, scornn, goru, nc_gru = sizes
    # an orthogonal matrix has N (N + 1) / 2 parameters fewer than a free one
    fewer = nc_gru * (nc_gru + 1) // 2
    one = nc_gru_options(("candidate",), negative[1], **options)
    two = nc_gru_options(("reset", "candidate"), negative[1], **options)
    lstm_init = {"init": "glorot", "forget_bias": 1.0}
    return (
        Network(f"LSTM {lstm}", TorchLSTM, lstm, parameters[0], lstm_init, (LSTM_BIASES,)),
        Network(f"GRU {gru}", TensorFlowGRU, gru, parameters[1]),
        Network(f"scoRNN {scornn}", ScoRNN, scornn, parameters[2], {"negative": negative[0]}),
        Network(f"GORU {goru}", GORU, goru, parameters[3], {"capacity": 4}, (_CAPACITY,)),
        Network(f"NC-GRU(U_c) {nc_gru}", NCGRU, nc_gru, parameters[4], one),
        Network(f"NC-GRU(U_c,U_r) {nc_gru}", NCGRU, nc_gru, parameters[4] - fewer, two),
    )


def decimals_of(printed: Decimal) -> int:
    """Return the number of decimals of a printed number."""
    return max(0, -int(printed.as_tuple().exponent))


def nc_gru_options(orthogonal: _Gates, negative: int, **options: Any) -> dict[str, Any]:
    """Return the arguments of `NCGRU` as published: only the resets restore orthogonality.

    Args:
        orthogonal: The gates with an orthogonal matrix.
        negative: The number of entries -1 in D.
        options: Further arguments of `NCGRU`.
    """
    return {"orthogonal": orthogonal, "negative": negative, "max_error": math.inf, **options}


def decayed_gates(network: Network) -> _Gates:
    """Return the gates whose free recurrent matrix has weight decay in the parenthesis code."""
    if network.layer is GORU:
        return "reset_gate", "update_gate"
    # the cell with two orthogonal matrices has one variable per gate, the other cell one for both
    return ("update_gate",) if len(network.options.get("orthogonal", ())) == 2 else ()


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

        gates, candidate = kernel_init(2 * hidden_size), kernel_init(hidden_size)
        super().__init__(
            input_size,
            hidden_size,
            reset=partial(Unconstrained, init=gates),
            update=partial(Unconstrained, init=gates),
            candidate=partial(Unconstrained, init=candidate),
            reset_after=False,
            input_init=gates,
            candidate_init=candidate,
            reset_bias_init=partial(constant_, value=1.0),
            update_bias_init=partial(constant_, value=1.0),
            generator=generator,
        )
        for direction in self.all_directions():
            if direction.input_bias is not None:
                zeros_(direction.input_bias)
