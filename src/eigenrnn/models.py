"""Models around a recurrent layer: with a linear head, and for language."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.nn import Parameter
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from eigenrnn.constraints import Constraint
from eigenrnn.init import Initializer, uniform_, zeros_
from eigenrnn.layers.norm_zoneout import dropped
from eigenrnn.layers.stacked import Stacked
from eigenrnn.layers.weight_drop import weight_drop

__all__ = [
    "Dropouts",
    "LanguageModel",
    "SequenceModel",
    "constrained_parameters",
    "count_parameters",
    "penalty",
]

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


class SequenceModel(nn.Module):
    r"""A recurrent layer and a linear map of its states to the outputs.

    .. math:: y_t = V h_t + d

    Args:
        layer: A recurrent layer, time first, ours or torch's.
        output_size: The number K of outputs.
        readout: ``"all"`` maps the states of all steps, ``"last"`` each sequence's last.
        head_init: The start of V, in place; by default that of `torch.nn.Linear`.
        head_bias_init: The start of d, likewise.
        generator: The source of the head's start; torch's global stream by default.
    Shape:
        inputs: :math:`(T, B, M)`.
        lengths: :math:`(B,)`, or None where all sequences have T steps.
        outputs: :math:`(T, B, K)` or, for the last state, :math:`(B, K)`.
    Raises:
        ValueError: If `readout` is unknown, or the layer puts the batch first or projects its
            states.
    Source:
        Helfrich, Willmott and Ye, ICML 2018, section 2.2. https://arxiv.org/abs/1707.09520
        (departures: none).
    Example:
        >>> SequenceModel(RNN(2, 8), 3, "last")(torch.randn(5, 4, 2)).shape
        torch.Size([4, 3])
    """

    def __init__(
        self,
        layer: Stacked[Any] | nn.RNNBase,
        output_size: int,
        readout: Literal["all", "last"] = "all",
        *,
        head_init: Initializer | None = None,
        head_bias_init: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        if readout not in ("all", "last"):
            raise ValueError(f"expected readout to be 'all' or 'last', got {readout!r}")
        if layer.batch_first:
            raise ValueError("expected a layer with time first, got batch_first=True")
        if getattr(layer, "proj_size", 0):
            raise ValueError(
                f"expected a layer without projection, got proj_size={layer.proj_size}"
            )
        super().__init__()
        self.layer = layer
        self.readout = readout
        directions = 2 if layer.bidirectional else 1
        width = int(getattr(layer, "output_size", directions * layer.hidden_size))
        self.head = nn.Linear(width, output_size, device="meta")
        self.head.to_empty(device=torch.get_default_device())
        bound = width**-0.5
        for weight in self.head.parameters():
            uniform_(weight, bound, generator=generator)
        if head_init is not None:
            head_init(self.head.weight, generator=generator)
        if head_bias_init is not None:
            head_bias_init(self.head.bias, generator=generator)

    def forward(
        self,
        inputs: Tensor,  # (T, B, M)
        lengths: Tensor | None = None,  # (B,)
    ) -> Tensor:  # (T, B, K) or (B, K)
        """Map sequences to outputs."""
        if self.readout == "all" and isinstance(self.layer, Stacked):
            return self.layer(inputs, None, lengths, head=self.head)[0]
        states, last = self._run(inputs, lengths)
        return self.head(states if self.readout == "all" else last)

    def _run(
        self, inputs: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor | None, Tensor]:  # (T, B, D N), (B, D N)
        """Return the states of all steps, if they are read, and the last layer's last ones."""
        if isinstance(self.layer, Stacked):
            states, h_n = self.layer(inputs, None, lengths, last_only=True)
        elif lengths is None:
            states, h_n = self.layer(inputs)
        else:
            packed = pack_padded_sequence(inputs, lengths.cpu(), enforce_sorted=False)
            states, h_n = self.layer(packed)
            states, _ = pad_packed_sequence(states, total_length=inputs.shape[0])
        h_n = h_n[0] if isinstance(h_n, tuple) else h_n  # an LSTM gives (h_n, c_n)
        directions = 2 if self.layer.bidirectional else 1
        # a complex layer may give the real parts alone, which come first in its states
        width = self.head.in_features // directions
        return states, torch.cat([h[:, :width] for h in h_n[-directions:]], dim=1)


def constrained_parameters(model: nn.Module) -> Iterator[Parameter]:
    """Yield the raw parameters of all constraints that get the recurrent optimiser."""
    for constraint in _constraints(model):
        yield from constraint.recurrent_parameters()


def count_parameters(model: nn.Module) -> int:
    """Count the numbers that are trained; a skew-symmetric matrix counts N (N - 1) / 2."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def penalty(model: nn.Module) -> Tensor:  # ()
    """Sum what the constraints, and a language model's states, add to the loss."""
    terms = [constraint.penalty() for constraint in _constraints(model)]
    if isinstance(model, LanguageModel) and (activity := model.take_activity()) is not None:
        terms.append(activity)
    return torch.stack(terms).sum() if terms else torch.zeros(())


def _constraints(module: nn.Module) -> dict[Constraint, None]:
    """Return the constraints of a module, each once, without those inside of others."""
    if isinstance(module, Constraint):
        return {module: None}
    return {found: None for child in module.children() for found in _constraints(child)}
