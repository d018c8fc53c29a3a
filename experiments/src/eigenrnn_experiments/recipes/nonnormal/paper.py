"""The reference of the paper, and the networks and grids that its recipes share."""

from dataclasses import replace
from typing import Any

from torch import Generator

from eigenrnn.constraints import Unconstrained
from eigenrnn.init import ChainDirection, Kind, recurrent_
from eigenrnn.layers import RNN
from eigenrnn_experiments.baselines import TorchLSTM
from eigenrnn_experiments.recipes.row import Axis, Row

__all__ = ["FINE_BETAS", "FINE_GAINS", "GAINS", "SOURCE", "InitLSTM", "PlainRNN", "init_axis"]

SOURCE = "Orhan and Pitkow, ICLR 2020. https://arxiv.org/abs/1905.13715"

GAINS: dict[Kind, str] = {
    "identity": "lambda",
    "ortho": "lambda",
    "chain": "alpha",
    "feedback_chain": "beta",
}
"""The four compared initialisations, with the paper's symbol for the searched number."""

FINE_GAINS = tuple(round(0.05 * k, 2) for k in range(1, 22))
"""The values of alpha and lambda in the searches on texts and on CarRacing."""

FINE_BETAS = tuple(round(0.01 * k, 2) for k in range(1, 22))
"""The values of beta in these searches."""


class PlainRNN(RNN):
    """An unconstrained RNN with one of the paper's initialisations; see `recurrent_`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        kind: Kind,
        gain: float | None = None,
        beta: float = 0.01,
        direction: ChainDirection = "forward",
        nonlinearity: str = "tanh",
        generator: Generator | None = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            nonlinearity=nonlinearity,
            constraint=Unconstrained,
            generator=generator,
        )
        recurrent_(self, kind, gain=gain, beta=beta, direction=direction, generator=generator)


class InitLSTM(TorchLSTM):
    """An LSTM with one of the paper's initialisations; see `recurrent_`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        kind: Kind,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, generator=generator)
        recurrent_(self, kind, generator=generator)


def init_axis(kind: Kind, values: tuple[float, ...]) -> Axis:
    """Return the grid axis over the number that the paper searches for an initialisation."""
    option = "beta" if kind == "feedback_chain" else "gain"

    def with_value(row: Row, value: float) -> Row:
        options: dict[str, Any] = {**row.options, option: value}
        return replace(row, options=options)

    return Axis(GAINS[kind], values, with_value)
