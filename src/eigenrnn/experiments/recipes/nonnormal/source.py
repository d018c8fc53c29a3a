"""The paper, and what its networks have in common in all experiments."""

from dataclasses import replace
from typing import Any

from torch import Generator

from eigenrnn.constraints import Unconstrained
from eigenrnn.experiments.recipes.base import Axis, Row
from eigenrnn.init import Kind, recurrent_
from eigenrnn.init.chains import ChainDirection
from eigenrnn.layers import LSTM, RNN

__all__ = ["FINE_BETAS", "FINE_GAINS", "GAINS", "SOURCE", "PlainRNN", "StartedLSTM", "vary"]

SOURCE = "Orhan and Pitkow, ICLR 2020. https://arxiv.org/abs/1905.13715"

GAINS: dict[Kind, str] = {
    "identity": "lambda",
    "ortho": "lambda",
    "chain": "alpha",
    "feedback_chain": "beta",
}
"""The four starts that are compared, and what the paper calls the number that is searched."""

FINE_GAINS = tuple(round(0.05 * k, 2) for k in range(1, 22))
"""The values of alpha and lambda that were tried on texts and on CarRacing."""

FINE_BETAS = tuple(round(0.01 * k, 2) for k in range(1, 22))
"""The values of beta, likewise."""


class PlainRNN(RNN):
    """A network without constraints that starts as the paper says; see `recurrent_`."""

    def __init__(  # noqa: PLR0913, those of the layer and those of its start
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


class StartedLSTM(LSTM):
    """An LSTM whose gates all start alike, or mixed; see `recurrent_`."""

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


def vary(kind: Kind, values: tuple[float, ...]) -> Axis:
    """Search the number that the paper searches for a start."""
    option = "beta" if kind == "feedback_chain" else "gain"

    def varied(row: Row, value: float) -> Row:
        options: dict[str, Any] = {**row.options, option: value}
        return replace(row, options=options)

    return Axis(GAINS[kind], values, varied)
