"""A recurrent layer with a linear head, as the tasks need it."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Generator, Tensor, nn
from torch.nn import Parameter
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from eigenrnn.constraints import Constraint
from eigenrnn.initializers import Initializer, uniform_
from eigenrnn.language_model import LanguageModel
from eigenrnn.layers.stacked import Stacked

if TYPE_CHECKING:
    from eigenrnn.tasks.base import Task

__all__ = [
    "SequenceModel",
    "constrained_parameters",
    "count_parameters",
    "model_for",
    "penalty",
]


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


def model_for(
    task: "Task",
    make_layer: Callable[..., Any],
    hidden_size: int,
    *,
    embedding_size: int | None = None,
    generator: Generator | None = None,
) -> nn.Module:
    """Put a layer into the model that a task needs.

    Args:
        task: What it is to learn.
        make_layer: A class of recurrent layers.
        hidden_size: The number N of units.
        embedding_size: For a task that reads symbols, the number of numbers that each becomes; N
            by default, and the map back to symbols is then that of the embedding.
        generator: The source of all starts; torch's global stream by default.
    Raises:
        ValueError: If an embedding is asked for where no symbols are read.
    """
    if task.vocabulary is None:
        if embedding_size is not None:
            raise ValueError(
                f"expected embedding_size for a task that reads symbols only, got {embedding_size}"
            )
        layer = make_layer(task.input_size, hidden_size, generator=generator)
        return SequenceModel(layer, task.output_size, task.readout, generator=generator)
    width = embedding_size or hidden_size
    layer = make_layer(width, hidden_size, generator=generator)
    tied = getattr(layer, "output_size", hidden_size) == width
    return LanguageModel(task.vocabulary, width, [layer], tied=tied, generator=generator)


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
