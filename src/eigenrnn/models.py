"""Models around recurrent layers: a layer with a linear head, and a language model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal, Self, cast

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.nn import Parameter
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from eigenrnn.constraints import Constraint, Unconstrained
from eigenrnn.errors import check_positive_integer
from eigenrnn.init import Initializer, uniform_, zeros_
from eigenrnn.layers.direction import AbstractDirection
from eigenrnn.layers.leak import Leak
from eigenrnn.layers.regularisation import apply_dropout
from eigenrnn.layers.sequences import as_lengths, with_data
from eigenrnn.layers.stacked import Stacked
from eigenrnn.layers.step_values import given
from eigenrnn.layers.weight_drop import weight_drop
from eigenrnn.ops.time_steps import last_steps
from eigenrnn.residual_stack import (
    Mixer,
    ResidualStack,
    call_layer,
    last_output,
    new_linear,
    output_width,
)
from eigenrnn.torch_internals import hooks_of_call
from eigenrnn.tracing import check_dense

__all__ = [  # noqa: RUF022, in the order of the reference
    "SequenceModel",
    "LanguageModel",
    "ResidualStack",
    "parameter_groups",
    "constrained_parameters",
    "count_parameters",
    "penalty",
    "raw_parameters",
    "Dropouts",
    "Mixer",
]


State = Tensor | tuple[Tensor, Tensor]

RecurrentLayer = Stacked[Any] | nn.RNNBase | ResidualStack


@dataclass(frozen=True)
class Dropouts:
    """The dropout probabilities of a language model; AWD-LSTM's names are in parentheses.

    Args:
        embedding: Drops whole symbols, at all their occurrences (`dropoute`).
        input: Drops features of the embedded symbols, the same at all time steps (`dropouti`).
        hidden: Drops units between two layers, the same at all time steps (`dropouth`).
        output: Drops units of the last layer, the same at all time steps (`dropout`).
        weight: Drops entries of the recurrent matrices (`wdrop`).
    Raises:
        ValueError: If a probability is not in [0, 1).
    """

    embedding: float = 0.0
    input: float = 0.0
    hidden: float = 0.0
    output: float = 0.0
    weight: float = 0.0

    def __post_init__(self) -> None:
        for name, probability in vars(self).items():
            if not 0 <= probability < 1:
                raise ValueError(f"expected 0 <= {name} < 1, got {probability}")

    @classmethod
    def all(cls, probability: float) -> "Dropouts":
        """Return dropouts with one probability everywhere."""
        return cls(**{field.name: probability for field in fields(cls)})


class LanguageModel(nn.Module):
    r"""Language model: predicts the next symbol at each time step of a text.

    .. math:: y_t = V h_t + d, \qquad h = (\text{layer}_L \circ \dots \circ \text{layer}_1)(E x)

    The regularisation is that of AWD-LSTM. Dropout applies to whole symbols, to recurrent weights,
    and to units, with one mask for all time steps. The penalty on the states of the last layer is
    :math:`\alpha \overline{(m \odot h_t)^2} + \beta \overline{(h_t - h_{t-1})^2}`.

    Args:
        vocabulary: The number K of symbols.
        embedding_size: The number of features of an embedded symbol.
        layers: Recurrent layers, ours or torch's, or a `ResidualStack`; the output of each is the
            input of the next.
        tied: Whether the head uses the embedding matrix, V = E.
        dropouts: The dropout probabilities; all zero by default.
        activation: The weights :math:`\alpha, \beta` of the penalties.
        head_init: The initialiser of V if it is not tied, which fills it in place; by default that
            of E, U(-0.1, 0.1).
        head_bias_init: The initialiser of d.
        generator: The generator that draws E, V and d; torch's global one by default.
    Shape:
        inputs: :math:`(T, B)`, the indices of the symbols.
        outputs: :math:`(T, B, K)`, the logits.
    Raises:
        TypeError: If the layers are no list of recurrent layers.
        ValueError: If the sizes of two layers do not match, a layer is bidirectional or batch
            first, the last one has another size than a tied embedding, or weights are to be
            dropped in a `ResidualStack` or a layer without recurrent matrices.
    Source:
        Merity, Keskar and Socher, ICLR 2018, sections 2 to 4. https://arxiv.org/abs/1708.02182
        (departures: none).
    Example:
        >>> model = LanguageModel(50, 8, [RNN(8, 16)])
        >>> model(torch.randint(50, (5, 3))).shape
        torch.Size([5, 3, 50])
    """

    def __init__(
        self,
        vocabulary: int,
        embedding_size: int,
        layers: Sequence[RecurrentLayer],
        *,
        tied: bool = False,
        dropouts: Dropouts | None = None,
        activation: tuple[float, float] = (0.0, 0.0),
        head_init: Initializer | None = None,
        head_bias_init: Initializer = zeros_,
        generator: Generator | None = None,
    ) -> None:
        check_positive_integer("vocabulary", vocabulary)
        check_positive_integer("embedding_size", embedding_size)
        width = _check_layers(embedding_size, layers)
        if tied and width != embedding_size:
            raise ValueError(
                f"expected a last layer of {embedding_size} units, as many as the tied embedding "
                f"has features, got {width}"
            )
        super().__init__()
        self.dropouts = dropouts or Dropouts()
        self.activation = activation
        self.layers = nn.ModuleList(layers)
        if self.dropouts.weight:  # with 0 a layer keeps its own weight_drop
            for layer in layers:
                weight_drop(layer, self.dropouts.weight)
        self.tied = tied
        self.embedding = Parameter(torch.empty(vocabulary, embedding_size))
        self.head = self.embedding
        if not tied:
            self.head = Parameter(torch.empty(vocabulary, width))
        self.head_bias = Parameter(torch.empty(vocabulary))
        draw = partial(uniform_, bound=0.1)
        draw(self.embedding, generator=generator)
        if not tied:
            (head_init or draw)(self.head, generator=generator)
        head_bias_init(self.head_bias, generator=generator)
        self._activation_penalty: Tensor | None = None

    def forward(
        self,
        inputs: Tensor,  # (T, B)
    ) -> Tensor:  # (T, B, K)
        """Return the logits of the next symbols, with the default initial states."""
        return self.advance(inputs, None)[0]

    def advance(
        self,
        inputs: Tensor,  # (T, B)
        state: tuple[State, ...] | None,
        resets: Tensor | None = None,  # (T, B)
    ) -> tuple[Tensor, tuple[State, ...]]:  # (T, B, K)
        """Continue from the states of an earlier call; return the logits and the new states.

        Where `resets` are true, a text begins anew before the symbol, see `Stacked.forward`.

        Raises:
            ValueError: If the symbols are not of shape (T, B).
        """
        check_dense({"the symbols": inputs})
        if inputs.dim() != 2:
            raise ValueError(f"expected symbols of shape (T, B), got {tuple(inputs.shape)}")
        x = apply_dropout(self._embed(inputs), self.dropouts.input, True, self.training)
        new_state: list[State] = []
        states = x
        for number, layer in enumerate(self.layers):
            before = None if state is None else state[number]
            states, layer_state = call_layer(layer, x, before, given(resets=resets))
            new_state.append(layer_state)
            probability = self.dropouts.hidden
            if number == len(self.layers) - 1:
                probability = self.dropouts.output
            x = apply_dropout(states, probability, True, self.training)
        alpha, beta = self.activation
        self._activation_penalty = None
        if self.training and (alpha or beta):
            self._activation_penalty = alpha * x.square().mean()
            if len(states) > 1:
                difference = beta * states.diff(dim=0).square().mean()
                self._activation_penalty = self._activation_penalty + difference
        return F.linear(x, self.head, self.head_bias), tuple(new_state)

    # both replace each parameter by its name: loading with `assign`, and a move from "meta"
    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._tie()

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        super()._apply(*args, **kwargs)
        self._tie()
        return self

    def _tie(self) -> None:
        if self.tied:
            self.head = self.embedding

    def pop_activation_penalty(self) -> Tensor | None:  # ()
        """Return the penalty on the states of the last forward pass in training, and clear it."""
        value = self._activation_penalty
        self._activation_penalty = None
        return value

    def extra_repr(self) -> str:
        shape = tuple(self.embedding.shape)
        return f"{shape}, tied={self.tied}, {self.dropouts}, activation={self.activation}"

    def __getstate__(self) -> dict[str, Any]:
        # the penalty of the last forward pass has an autograd graph, which cannot be copied
        return {**super().__getstate__(), "_activation_penalty": None}

    def _embed(
        self,
        inputs: Tensor,  # (T, B)
    ) -> Tensor:  # (T, B, embedding)
        table = self.embedding
        probability = self.dropouts.embedding
        if probability and self.training:
            # one number for each symbol, so that all its occurrences are dropped together
            table = table * F.dropout(table.new_ones(len(table), 1), probability)
        return F.embedding(inputs, table)


def _check_layers(width: int, layers: Sequence[RecurrentLayer]) -> int:
    """Check that the output of each layer fits the next; return the last output size.

    Raises:
        TypeError: If they are no recurrent layers.
        ValueError: If two sizes differ, or a layer is bidirectional or batch first.
    """
    for number, layer in enumerate(layers, start=1):
        if not isinstance(cast("object", layer), Stacked | nn.RNNBase | ResidualStack):
            raise TypeError(f"expected layer {number} to be a recurrent layer, got {layer!r}")
        if layer.bidirectional or layer.batch_first:
            raise ValueError(
                f"expected layer {number} to be unidirectional with time first, got "
                f"bidirectional={layer.bidirectional}, batch_first={layer.batch_first}"
            )
        if layer.input_size != width:
            raise ValueError(
                f"expected layer {number} with input_size={width}, got {layer.input_size}"
            )
        width = output_width(layer)
    return width


class SequenceModel(nn.Module):
    r"""A recurrent layer with a linear head that maps its states to outputs.

    .. math:: y_t = V h_t + d

    Args:
        layer: A recurrent layer, time first, ours or torch's, or a `ResidualStack`.
        output_size: The number K of outputs.
        readout: ``"all"`` maps the states of all time steps, ``"last"`` the last state of each
            sequence; of a `ResidualStack`, its outputs at all time steps or the last one.
        head_init: The initialiser of V, which fills it in place; by default that of
            `torch.nn.Linear`.
        head_bias_init: The initialiser of d; by default that of `torch.nn.Linear`.
        generator: The generator that draws the head; torch's global one by default.
    Shape:
        inputs: :math:`(T, B, M)`, or :math:`(T, M)` for a single sequence.
        lengths: :math:`(B,)`, or None if all sequences have T time steps.
        resets: :math:`(T, B)`, or :math:`(T,)`, bool; None for no resets.
        dt: :math:`(T, B)`, or :math:`(T,)`; None for steps that are one unit apart.
        outputs: :math:`(T, B, K)` or, for the last state, :math:`(B, K)`. A single one has no B.
    Raises:
        ValueError: If `readout` is unknown, or the layer is batch first.
    Source:
        Helfrich, Willmott and Ye, ICML 2018, section 2.2. https://arxiv.org/abs/1707.09520
        (departures: none).
    Example:
        >>> SequenceModel(RNN(2, 8), 3, "last")(torch.randn(5, 4, 2)).shape
        torch.Size([4, 3])
    """

    def __init__(
        self,
        layer: RecurrentLayer,
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
        super().__init__()
        self.layer = layer
        self.readout = readout
        self.head = new_linear(output_width(layer), output_size, generator=generator)
        if head_init is not None:
            head_init(self.head.weight, generator=generator)
        if head_bias_init is not None:
            head_bias_init(self.head.bias, generator=generator)

    def forward(
        self,
        inputs: Tensor,  # (T, B, M) or (T, M)
        lengths: Tensor | None = None,  # (B,)
        resets: Tensor | None = None,  # (T, B) or (T,)
        dt: Tensor | None = None,  # (T, B) or (T,)
    ) -> Tensor:  # (T, B, K) or (B, K), without B for a single sequence
        """Return the outputs of a batch of sequences, or of a single one.

        Where `resets` are true, a sequence begins anew before the step, and `dt` is the time since
        the step before, see `Stacked.forward`.
        """
        lengths = as_lengths(lengths)
        values = given(resets=resets, dt=dt)
        layer = self.layer
        hooked = any(hooks_of_call(layer))  # a hook reads the states of all steps
        if self.readout == "all" and isinstance(layer, Stacked):
            if not hooked:
                return layer(inputs, None, lengths, head=self.head, **values)[0]
            outputs: Any = layer(inputs, None, lengths, **values)[0]
            if isinstance(outputs, PackedSequence):
                return cast("Any", with_data(outputs, self.head(outputs.data)))
            return self.head(outputs)
        if isinstance(layer, ResidualStack):
            last_only = self.readout == "last"
            outputs, _ = layer(inputs, None, lengths, last_only=last_only, **values)
            return self.head(outputs)
        if isinstance(layer, Stacked) and not layer.outputs_states:  # they are not in h_n
            packed = isinstance(cast("object", inputs), PackedSequence)
            if lengths is None and not layer.bidirectional and not packed:
                return self.head(last_output(layer, inputs, None, values)[0])
            outputs, _ = layer(inputs, None, lengths, **values)
            if packed:
                outputs, lengths = pad_packed_sequence(outputs)
            return self.head(_last_outputs(outputs, lengths, bidirectional=layer.bidirectional))
        if isinstance(layer, Stacked):
            states, h_n = layer(inputs, None, lengths, last_only=not hooked, **values)
        elif lengths is None or values:
            states, h_n = call_layer(layer, inputs, None, values)
        else:
            packed = pack_padded_sequence(inputs, lengths.cpu(), enforce_sorted=False)
            states, h_n = layer(packed)
            states, _ = pad_packed_sequence(states, total_length=inputs.shape[0])
        if self.readout == "all":
            return self.head(states)
        if isinstance(h_n, tuple):  # an LSTM returns (h_n, c_n)
            h_n = h_n[0]
        directions = 2 if layer.bidirectional else 1
        # a complex layer may output only the real parts, which come first in its states
        width = self.head.in_features // directions
        return self.head(torch.cat([h[..., :width] for h in h_n[-directions:]], dim=-1))


def _last_outputs(
    outputs: Tensor,  # (T, B, D N)
    lengths: Tensor | None,  # (B,)
    *,
    bidirectional: bool,
) -> Tensor:  # (B, D N)
    """Return the output of each direction after its last time step."""
    if outputs.dim() == 2:  # a single sequence, without a batch
        return _last_outputs(outputs.unsqueeze(1), lengths, bidirectional=bidirectional)[0]
    last = last_steps(outputs, lengths)
    if not bidirectional:
        return last
    # the backward direction ends at the first time step
    N = outputs.shape[2] // 2
    return torch.cat([last[:, :N], outputs[0, :, N:]], dim=1)


def constrained_parameters(model: nn.Module) -> Iterator[Parameter]:
    """Yield the raw parameters of all constraints, to give them a learning rate of their own."""
    for constraint in _constraints(model):
        yield from constraint.recurrent_parameters()


def raw_parameters(model: nn.Module) -> Iterator[Parameter]:
    """Yield the parameters that weight decay would pull to an arbitrary value.

    They are the raw parameters of all constraints except `Unconstrained`, whose raw is W, and
    those of trained leaks, which decay would pull to a leak of one half.
    """
    for constraint in _constraints(model):
        if not isinstance(constraint, Unconstrained):
            yield from constraint.parameters()
    for module in model.modules():
        if isinstance(module, Leak) and module.raw is not None:
            yield module.raw


def parameter_groups(
    model: nn.Module, *, lr: float, lr_recurrent: float | None = None, weight_decay: float = 0.0
) -> list[dict[str, Any]]:
    """Group the trained parameters of a model for an optimiser of torch.

    The constrained matrices get a learning rate of their own. Weight decay leaves the raw
    parameters of constraints alone: it would not shrink W, but pull it to the matrix whose raw
    parameters are zero. Likewise it leaves trained leaks alone, which it would pull to one half,
    and the rates of gated delta layers and of an `LRU`: `A_log`, `dt_bias` and `gamma_log`.
    A matrix that is `Unconstrained` decays like any other weight, and so do biases.

    Args:
        model: Any module, also one with `constrain` on a matrix of a torch layer.
        lr: The learning rate of all but the constrained matrices.
        lr_recurrent: The learning rate of the constrained matrices; a tenth of `lr` by default.
        weight_decay: The weight decay of all but the raw parameters of constraints, leaks and
            rates.
    Returns:
        Groups with `params`, `lr` and `weight_decay`. An empty group is left out.
    Raises:
        ValueError: If `lr_recurrent` is given for a model without a constrained matrix.
    Example:
        >>> model = SequenceModel(ScoRNN(2, 8), 3)
        >>> groups = parameter_groups(model, lr=1e-3, weight_decay=0.01)
        >>> [(group["lr"], group["weight_decay"]) for group in groups]
        [(0.0001, 0.0), (0.001, 0.01)]
        >>> optimiser = torch.optim.AdamW(groups)
    """
    recurrent = {id(p) for p in constrained_parameters(model)}
    raw = {id(p) for p in (*raw_parameters(model), *_rates(model))}
    trained = [p for p in model.parameters() if p.requires_grad]
    if lr_recurrent is not None and not any(id(p) in recurrent for p in trained):
        raise ValueError(
            "expected no lr_recurrent for a model without a constrained matrix, got "
            f"{lr_recurrent}"
        )
    if lr_recurrent is None:
        lr_recurrent = lr / 10  # as in most of the papers
    # by id, because `in` would compare the values of tensors
    matrices = [p for p in trained if id(p) in recurrent]
    others = [p for p in trained if id(p) in raw - recurrent]
    weights = [p for p in trained if id(p) not in raw | recurrent]
    groups = [
        {"params": matrices, "lr": lr_recurrent, "weight_decay": 0.0},
        {"params": others, "lr": lr, "weight_decay": 0.0},
        {"params": weights, "lr": lr, "weight_decay": weight_decay},
    ]
    return [group for group in groups if group["params"]]


def _rates(model: nn.Module) -> Iterator[Parameter]:
    """Yield the rates and logarithms of directions, those that a direction has."""
    for module in model.modules():
        if isinstance(module, AbstractDirection):
            for name in module.rates:
                parameter = getattr(module, name)
                if parameter is not None:
                    yield parameter


def count_parameters(model: nn.Module) -> int:
    """Count the trained numbers; a skew-symmetric matrix counts N (N - 1) / 2."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def penalty(model: nn.Module) -> Tensor:  # ()
    """Return what constraints and a language model's activation penalty add to the loss."""
    terms = [constraint.penalty() for constraint in _constraints(model)]
    if isinstance(model, LanguageModel):
        activation = model.pop_activation_penalty()
        if activation is not None:
            terms.append(activation)
    if not terms:
        return torch.zeros(())
    return torch.stack(terms).sum()


def _constraints(module: nn.Module) -> dict[Constraint, None]:
    """Return the constraints of a module, each once, without those nested in other constraints."""
    if isinstance(module, Constraint):
        return {module: None}
    # the keys of a dictionary: a set, but in order
    found: dict[Constraint, None] = {}
    for child in module.children():
        found.update(_constraints(child))
    return found
