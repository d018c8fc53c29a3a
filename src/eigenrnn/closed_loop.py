"""Closed loops: a model reads a sequence, and then its own outputs."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from eigenrnn.errors import check_not_negative, check_positive_integer
from eigenrnn.layers.sequences import as_lengths
from eigenrnn.models import LanguageModel, SequenceModel
from eigenrnn.ops.time_steps import last_steps

__all__ = ["Feedback", "Rollout", "checked_feedback", "closed_loop", "draw_symbols", "rollout"]

Feedback = Callable[[Tensor], Tensor]
"""Maps the outputs (B, K) of a step to the inputs of the next one: (B, M), or (B,) symbols."""


class Rollout(NamedTuple):
    """What a closed loop computed.

    Args:
        outputs: The outputs; the first is that of the last step that was read.
        inputs: What was fed back: the input that followed each output.
    Shape:
        outputs: :math:`(S, B, K)` for S steps; without B for a single sequence.
        inputs: :math:`(S, B, M)`, or :math:`(S, B)` symbols.
    """

    outputs: Tensor
    inputs: Tensor


def rollout(
    model: nn.Module,
    x: Tensor,  # (T, B, M), (T, M), or symbols (T, B)
    steps: int,
    *,
    feedback: Feedback | None = None,
    state: Any = None,
    lengths: Tensor | None = None,
) -> Rollout:
    r"""Let a model read a sequence, and then its own outputs.

    .. math:: (y_s, h_{T + s}) = \text{step}(\tilde x_s, h_{T + s - 1}), \qquad
        \tilde x_s = g(y_{s - 1})

    The first output :math:`y_0` is that of the last input that was read. All steps are
    differentiable, also through what is fed back, unless it is a symbol.

    Args:
        model: A recurrent layer of one direction, a `ResidualStack`, a `SequenceModel`, whose head
            is applied at every step, or a `LanguageModel`.
        x: What it reads first, time first, at least one step.
        steps: The number S of outputs.
        feedback: The function g from the outputs of a step to the next inputs: the identity by
            default, and for a `LanguageModel` the most probable symbol. `draw_symbols` draws
            symbols.
        state: The initial states, as of the layer.
        lengths: The number of steps of each sequence in a padded batch of vectors.
    Raises:
        ValueError: If `steps` is not a positive integer, the model reads backwards too or has its
            batch first, or an output does not fit the input.
        TypeError: If the model is none of these.
    Example:
        >>> model = SequenceModel(ScoRNN(2, 8), 2)
        >>> forecast = rollout(model, torch.randn(50, 4, 2), steps=10)
        >>> forecast.outputs.shape
        torch.Size([10, 4, 2])
    """
    check_positive_integer("steps", steps)
    if isinstance(model, LanguageModel):
        if lengths is not None:
            raise ValueError("expected no lengths for a model of symbols, got some")
        logits, state = model.advance(x, state)
        y = logits[-1]

        def step_of_symbols(symbols: Tensor, state: Any) -> tuple[Tensor, Any]:
            logits, state = model.advance(symbols.unsqueeze(0), state)
            return logits[0], state

        return closed_loop(y, state, steps, feedback or draw_symbols(0), step_of_symbols)
    layer: Any = model.layer if isinstance(model, SequenceModel) else model
    if not hasattr(layer, "step"):
        raise TypeError(
            "expected a recurrent layer of eigenrnn, a ResidualStack, a SequenceModel or a "
            f"LanguageModel, got {type(layer).__name__}"
        )
    if layer.bidirectional or layer.batch_first:
        raise ValueError("expected a layer of one direction, time first")
    head: nn.Module = nn.Identity()
    if isinstance(model, SequenceModel):
        head = model.head
    feedback = checked_feedback(feedback, layer, head)
    lengths = as_lengths(lengths)
    h, state = layer(x, state, lengths=lengths)
    y = head(last_steps(h, lengths))

    def step(x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        h, state = layer.step(x_t, state)
        return head(h), state

    return closed_loop(y, state, steps, feedback, step)


def draw_symbols(temperature: float = 1.0, generator: Generator | None = None) -> Feedback:
    r"""Return a `feedback` that draws symbols from the probabilities of logits y.

    .. math:: p(s) \propto \exp(y_s / \tau)

    Args:
        temperature: The temperature :math:`\tau`; with 0 the most probable symbol is taken.
        generator: The generator of the draws; torch's global one by default.
    Raises:
        ValueError: If the temperature is negative or not finite.
    Example:
        >>> draw = draw_symbols(0.7, torch.Generator().manual_seed(0))
        >>> draw(torch.tensor([[0.0, 9.0], [9.0, 0.0]]))
        tensor([1, 0])
    """
    check_not_negative("temperature", temperature)
    if temperature == 0:
        return partial(torch.argmax, dim=-1)

    def draw(logits: Tensor) -> Tensor:  # (B, K) -> (B,)
        # Apple's GPUs have no float64
        dtype = torch.float32 if logits.device.type == "mps" else torch.float64
        logits = logits.detach().to(dtype)
        divisor = max(temperature, torch.finfo(dtype).tiny)
        # the maximum goes first: the quotient could overflow
        scaled = (logits - logits.amax(-1, keepdim=True)) / divisor
        return torch.multinomial(scaled.softmax(-1), 1, generator=generator).squeeze(-1)

    return draw


def checked_feedback(feedback: Feedback | None, layer: Any, head: nn.Module | None) -> Feedback:
    """Return what feeds outputs back, the identity by default.

    Raises:
        ValueError: If outputs are to be inputs and have another size.
    """
    if feedback is not None:
        return feedback
    size = layer.input_size  # of another head unknown: the first step that does not fit raises
    if isinstance(head, nn.Linear):
        size = head.out_features
    elif isinstance(head, nn.Identity | None):
        size = layer.output_size
    if size != layer.input_size:
        raise ValueError(
            f"expected outputs of {layer.input_size} numbers, which the input takes, got {size}: "
            "pass feedback="
        )
    return nn.Identity()


def closed_loop(
    y: Tensor,
    state: Any,
    steps: int,
    feedback: Feedback,
    step: Callable[[Tensor, Any], tuple[Tensor, Any]],
) -> Rollout:
    """Feed outputs back, from the first output y and the state after it.

    Args:
        y: The first output.
        state: The state after it.
        steps: The number of outputs.
        feedback: The function from outputs to inputs.
        step: Returns the output and the state after an input and a state.
    """
    outputs = [y]
    inputs = [feedback(y)]
    for _ in range(steps - 1):
        y, state = step(inputs[-1], state)
        outputs.append(y)
        inputs.append(feedback(y))
    return Rollout(torch.stack(outputs), torch.stack(inputs))
