"""A language model: embedded symbols, recurrent layers and a map back to symbols."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.nn import Parameter

from eigenrnn.initializers import Initializer, uniform_, zeros_
from eigenrnn.layers.norm_zoneout import dropped
from eigenrnn.layers.stacked import Stacked
from eigenrnn.layers.weight_drop import weight_drop

__all__ = ["Dropouts", "LanguageModel"]

State = Tensor | tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Dropouts:
    """What a language model silences while it is trained, as shares.

    Args:
        embedding: Of the symbols, whose vectors are then zero wherever they occur (`dropoute`).
        input: Of the numbers of an embedded symbol, the same at all steps (`dropouti`).
        hidden: Of the units between two layers, the same at all steps (`dropouth`).
        output: Of the units of the last layer, the same at all steps (`dropout`).
        weight: Of the entries of the recurrent matrices (`wdrop`).
    Raises:
        ValueError: If one is no share.
    """

    embedding: float = 0.0
    input: float = 0.0
    hidden: float = 0.0
    output: float = 0.0
    weight: float = 0.0

    def __post_init__(self) -> None:
        for name, rate in vars(self).items():
            if not 0 <= rate < 1:
                raise ValueError(f"expected 0 <= {name} < 1, got {rate}")

    @classmethod
    def all(cls, rate: float) -> "Dropouts":
        """Silence the same share everywhere."""
        return cls(rate, rate, rate, rate, rate)


class LanguageModel(nn.Module):
    r"""Guess each next symbol of a text.

    .. math:: y_t = V h_t + d, \qquad h = (\text{layer}_L \circ \dots \circ \text{layer}_1)(E x)

    The regularisation is that of AWD-LSTM: dropout of whole symbols, of the same units at all
    steps and of recurrent weights, and penalties on the last layer's states,
    :math:`\alpha \overline{(m \odot h_t)^2} + \beta \overline{(h_t - h_{t-1})^2}`.

    Args:
        vocabulary: The number K of symbols.
        embedding_size: The number of numbers that a symbol becomes.
        layers: Recurrent layers, ours or torch's, each reading the one before.
        tied: Whether V is E.
        dropouts: What is silenced while training.
        activation: The weights :math:`\alpha, \beta` of the penalties.
        embedding_init: The start of E, in place.
        head_init: The start of V, if it is not tied; that of the embedding by default.
        head_bias_init: The start of d.
        generator: The source of the starts; torch's global stream by default.
    Shape:
        inputs: :math:`(T, B)`, the numbers of symbols.
        outputs: :math:`(T, B, K)`.
    Raises:
        ValueError: If the layers do not fit, are bidirectional or put the batch first, or the
            last one has another width than a tied embedding.
    Source:
        Merity, Keskar and Socher, ICLR 2018, sections 2 to 4. https://arxiv.org/abs/1708.02182
        (departures: none).
    Example:
        >>> model = LanguageModel(50, 8, [RNN(8, 16)])
        >>> model(torch.randint(50, (5, 3))).shape
        torch.Size([5, 3, 50])
    """

    def __init__(  # noqa: PLR0913, the options are independent of each other
        self,
        vocabulary: int,
        embedding_size: int,
        layers: Sequence[Stacked[Any] | nn.RNNBase],
        *,
        tied: bool = False,
        dropouts: Dropouts | None = None,
        activation: tuple[float, float] = (0.0, 0.0),
        embedding_init: Initializer | None = None,
        head_init: Initializer | None = None,
        head_bias_init: Initializer = zeros_,
        generator: Generator | None = None,
    ) -> None:
        width = _check_fit(embedding_size, layers)
        if tied and width != embedding_size:
            raise ValueError(
                f"expected a last layer of {embedding_size} units, as wide as the tied embedding, "
                f"got {width}"
            )
        super().__init__()
        self.dropouts = dropouts or Dropouts()
        self.activation = activation
        self.layers = nn.ModuleList(layers)
        if self.dropouts.weight:  # else a layer keeps what it was given before
            for layer in layers:
                weight_drop(layer, self.dropouts.weight)
        self.embedding = Parameter(torch.empty(vocabulary, embedding_size))
        self.head = self.embedding if tied else Parameter(torch.empty(vocabulary, width))
        self.head_bias = Parameter(torch.empty(vocabulary))
        embedding_init = embedding_init or _uniform
        embedding_init(self.embedding, generator=generator)
        if not tied:
            (head_init or embedding_init)(self.head, generator=generator)
        head_bias_init(self.head_bias, generator=generator)
        self._activity: Tensor | None = None

    def forward(
        self,
        inputs: Tensor,  # (T, B)
    ) -> Tensor:  # (T, B, K)
        """Map texts to guesses, from a state of zero on."""
        return self.advance(inputs, None)[0]

    def advance(
        self,
        inputs: Tensor,  # (T, B)
        state: tuple[State, ...] | None,
    ) -> tuple[Tensor, tuple[State, ...]]:  # (T, B, K)
        """Go on reading from the state that was left; return the guesses and the state after."""
        x = dropped(self._embedded(inputs), self.dropouts.input, True, self.training)
        left: list[State] = []
        states = x
        for number, layer in enumerate(self.layers):
            states, after = layer(x, None if state is None else state[number])
            left.append(after)
            last = number == len(self.layers) - 1
            rate = self.dropouts.output if last else self.dropouts.hidden
            x = dropped(states, rate, True, self.training)
        self._note_activity(x, states)
        return F.linear(x, self.head, self.head_bias), tuple(left)

    def take_activity(self) -> Tensor | None:  # ()
        """Return the penalty on the states of the last pass in training, once."""
        activity, self._activity = self._activity, None
        return activity

    def extra_repr(self) -> str:
        shape, tied = tuple(self.embedding.shape), self.head is self.embedding
        return f"{shape}, {tied=}, {self.dropouts}, activation={self.activation}"

    def __getstate__(self) -> dict[str, Any]:
        # what a pass has left is no part of a copy, and its graph could not be copied
        return {**super().__getstate__(), "_activity": None}

    def _embedded(
        self,
        inputs: Tensor,  # (T, B)
    ) -> Tensor:  # (T, B, embedding)
        table, rate = self.embedding, self.dropouts.embedding
        if rate and self.training:
            table = table * F.dropout(table.new_ones(len(table), 1), rate)
        return F.embedding(inputs, table)

    def _note_activity(
        self,
        dropped: Tensor,  # (T, B, N)
        states: Tensor,  # (T, B, N)
    ) -> None:
        alpha, beta = self.activation
        self._activity = None
        if not self.training or not (alpha or beta):
            return
        self._activity = alpha * dropped.square().mean()
        if len(states) > 1:
            self._activity = self._activity + beta * states.diff(dim=0).square().mean()


def _uniform(weight: Tensor, *, generator: Generator | None = None) -> Tensor:
    return uniform_(weight, 0.1, generator=generator)


def _check_fit(width: int, layers: Sequence[Stacked[Any] | nn.RNNBase]) -> int:
    """Follow the widths through the layers and return the last.

    Raises:
        ValueError: If they do not fit.
    """
    if not layers:
        raise ValueError("expected at least one recurrent layer, got none")
    for number, layer in enumerate(layers, start=1):
        if layer.bidirectional or layer.batch_first:
            raise ValueError(
                f"expected layer {number} to read forwards with time first, got "
                f"bidirectional={layer.bidirectional}, batch_first={layer.batch_first}"
            )
        if layer.input_size != width:
            raise ValueError(f"expected layer {number} to read {width}, got {layer.input_size}")
        width = int(getattr(layer, "output_size", layer.proj_size or layer.hidden_size))
    return width
