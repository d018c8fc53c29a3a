"""The paper, and the six networks that it compares on four made-up problems."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, Literal

from torch import Generator

from eigenrnn.constraints import Unconstrained
from eigenrnn.experiments.recipes.base import Row
from eigenrnn.experiments.tasks import Task
from eigenrnn.init import constant_, uniform_, zeros_
from eigenrnn.layers import GORU, GRU, LSTM, NCGRU, ScoRNN

__all__ = [
    "BEST_ON_TEST",
    "CURVES",
    "LSTM_BIASES",
    "RELEASED_STARTS",
    "SOURCE",
    "STARTS_UNKNOWN",
    "Network",
    "TensorFlowGRU",
    "decimals_of",
    "gates_of",
    "networks",
    "neumann",
    "released",
]

SOURCE = "Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022. https://arxiv.org/abs/2208.06496"
LSTM_BIASES = "torch's LSTM has two bias vectors a gate where TensorFlow's has one"
CURVES = "the curves are those of the runs of the table, whose numbers stand here"
BEST_ON_TEST = (
    "the paper takes the smallest loss on its only evaluation set; ours by validation is beside it"
)
STARTS_UNKNOWN = (
    "the code of this problem was not released: the head starts as in scoRNN's code, the layers "
    "as in the code of the other problems"
)
RELEASED_STARTS = (
    "the gates of its second cell start with other random numbers in the code than those of its "
    "first one; here they start alike"
)
_CAPACITY = "the capacity of 4 is that of the code"

_Gates = tuple[str, ...]


@dataclass(frozen=True)
class Network:
    """One of the networks, whatever it is trained on.

    Args:
        label: Its name and size.
        layer: The class of its layer.
        size: The number N of units.
        parameters: How many it trains.
        options: Those of the layer.
        departures: Where we do otherwise.
    """

    label: str
    layer: Any
    size: int
    parameters: int
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    departures: tuple[str, ...] = ()

    def row(self, length: int, task: Task, **facts: Any) -> Row:
        """Make its row of a comparison over sequences of a length."""
        return Row(
            label=f"{self.label} T={length}",
            task=task,
            layer=self.layer,
            hidden_size=self.size,
            options=self.options,
            parameters=self.parameters,
            departures=self.departures,
            **facts,
        )


def networks(
    sizes: tuple[int, int, int, int, int],
    parameters: tuple[int, int, int, int, int],
    negative: tuple[int, int],
    **options: Any,
) -> tuple[Network, ...]:
    """List the six networks in the order of the tables.

    Args:
        sizes: The units of LSTM, GRU, scoRNN, GORU and NC-GRU.
        parameters: How many LSTM, GRU, scoRNN, GORU and NC-GRU(U_c) train.
        negative: The number of entries -1 in D, of scoRNN and of NC-GRU.
        options: Further ones of NC-GRU.
    """
    lstm, gru, scornn, goru, nc_gru = sizes
    # each free matrix that becomes orthogonal is N (N + 1) / 2 numbers less
    fewer = nc_gru * (nc_gru + 1) // 2
    one = neumann(("candidate",), negative[1], **options)
    two = neumann(("reset", "candidate"), negative[1], **options)
    start = {"start": "glorot", "forget_bias": 1.0}
    return (
        Network(f"LSTM {lstm}", LSTM, lstm, parameters[0], start, (LSTM_BIASES,)),
        Network(f"GRU {gru}", TensorFlowGRU, gru, parameters[1]),
        Network(f"scoRNN {scornn}", ScoRNN, scornn, parameters[2], {"negative": negative[0]}),
        Network(f"GORU {goru}", GORU, goru, parameters[3], {"capacity": 4}, (_CAPACITY,)),
        Network(f"NC-GRU(U_c) {nc_gru}", NCGRU, nc_gru, parameters[4], one),
        Network(f"NC-GRU(U_c,U_r) {nc_gru}", NCGRU, nc_gru, parameters[4] - fewer, two),
    )


def decimals_of(printed: Decimal) -> int:
    """Count the digits after the point."""
    return max(0, -int(printed.as_tuple().exponent))


def neumann(orthogonal: _Gates, negative: int, **options: Any) -> dict[str, Any]:
    """Choose NC-GRU's orthogonal matrices, which nothing but the resets makes exact, as published.

    Args:
        orthogonal: The gates whose matrices they are.
        negative: The number of entries -1 in D.
        options: What else `NCGRU` takes.
    """
    return {"orthogonal": orthogonal, "negative": negative, "max_error": math.inf, **options}


def released(
    network: Network, code: Literal["tensorflow", "torch"], lr: float, **options: Any
) -> Network:
    """Take an NC-GRU as the released code computes it.

    Args:
        network: As the paper defines it.
        code: Which code.
        lr: The learning rate, by which it updates the inverse.
        options: What else it has otherwise.
    """
    two = len(network.options["orthogonal"]) > 1
    chosen = {"as_released": code, "gradient_rate": lr, "faithful_bugs": two, **options}
    return replace(
        network,
        label=f"{network.label} as released",
        options={**network.options, **chosen},
        departures=(*network.departures, *((RELEASED_STARTS,) if two else ())),
    )


def gates_of(network: Network) -> _Gates:
    """Name what holds a free recurrent matrix that the code of the counting problem lets decay."""
    if network.layer is GORU:
        return "reset_gate", "update_gate"
    # the cell with two orthogonal matrices has a variable for each, the other has one for both
    return ("update_gate",) if len(network.options.get("orthogonal", ())) == 2 else ()


class TensorFlowGRU(GRU):
    """A GRU as TensorFlow 1 has it: the reset first, one bias a gate, and gates that start open.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        generator: The source of the starting values.
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, generator: Generator | None = None
    ) -> None:
        def kernel(outputs: int) -> Callable[..., Any]:  # Glorot's, of inputs and states as one
            return partial(uniform_, bound=math.sqrt(6 / (input_size + hidden_size + outputs)))

        gates, candidate = kernel(2 * hidden_size), kernel(hidden_size)
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
