"""Predictions of a trained network for the user's texts."""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eigenrnn.closed_loop import draw_symbols
from eigenrnn_experiments.tasks.preprocessing import TextPreprocessing

__all__ = ["bits_per_symbol", "continue_text"]

_WINDOW = 1000  # steps of a text at once: the logits of all may not fit into memory


@torch.no_grad()
def bits_per_symbol(model: nn.Module, preprocessing: TextPreprocessing, text: str) -> float | None:
    """Return the mean number of bits that the network needs for each symbol after the first.

    Args:
        model: The trained network, in evaluation mode.
        preprocessing: Its preprocessing, see `eigenrnn_experiments.load`.
        text: The text.

    Returns:
        The number; None for a text without a second symbol.

    Raises:
        ValueError: If a symbol is unknown.
    """
    nats = 0.0
    codes = torch.from_numpy(preprocessing.encode(text)).unsqueeze(1)
    if len(codes) < 2:
        return None
    outputs = (logits for logits, _ in _windows(model, codes[:-1]))
    for logits, targets in zip(outputs, codes[1:].split(_WINDOW), strict=True):
        errors = F.cross_entropy(logits[:, 0].double(), targets[:, 0], reduction="sum")
        nats += errors.item()
    return nats / (len(codes) - 1) / math.log(2)


@torch.no_grad()
def continue_text(
    model: nn.Module,
    preprocessing: TextPreprocessing,
    text: str,
    length: int,
    *,
    temperature: float = 1.0,
    seed: int = 0,
) -> str:
    r"""Continue a text by symbols that are drawn from the predicted probabilities.

    .. math:: p(s) \propto \exp(y_s / \tau)

    with the logits y of the network.

    Args:
        model: The trained network, in evaluation mode.
        preprocessing: Its preprocessing, see `eigenrnn_experiments.load`.
        text: The beginning.
        length: The number of symbols to draw.
        temperature: The temperature :math:`\tau`; with 0 the most probable symbol is taken.
        seed: The seed of the draws.

    Returns:
        The new symbols only.

    Raises:
        ValueError: If a symbol is unknown, the text is empty, or a number is negative.
    """
    if length < 0:
        raise ValueError(f"expected length >= 0, got {length}")
    draw = draw_symbols(temperature, torch.Generator().manual_seed(seed))
    codes = torch.from_numpy(preprocessing.encode(text)).unsqueeze(1)
    if not len(codes):
        raise ValueError("expected a text of at least one symbol, got none")
    *_, (logits, state) = _windows(model, codes)
    network: Any = model
    drawn: list[Tensor] = []
    for _ in range(length):
        symbol = draw(logits[-1])
        drawn.append(symbol)
        logits, state = network.advance(symbol.unsqueeze(0), state)
    if not drawn:
        return ""
    return preprocessing.decode(torch.cat(drawn).numpy())


def _windows(
    model: nn.Module,
    codes: Tensor,  # (T, 1)
) -> Iterator[tuple[Tensor, Any]]:
    """Yield the logits and the last states of consecutive windows of a text."""
    network: Any = model
    state = None
    for window in codes.split(_WINDOW):
        logits, state = network.advance(window, state)
        yield logits, state
