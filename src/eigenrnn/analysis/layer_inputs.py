"""What the recurrent layers of a model read."""

import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from eigenrnn.analysis.recurrence import recurrent_layers

__all__ = ["layer_inputs"]


def layer_inputs(model: nn.Module, inputs: Any) -> dict[str, Tensor | str]:
    """Run a model, and return what each of its recurrent layers is given.

    Args:
        model: A recurrent layer, ours or torch's, or a model with some of them; it stays as it is.
        inputs: A batch, as the model takes it.
    Returns:
        The sequences in double precision by the name of the layer, or why there are none.
    Raises:
        ValueError: If the model has no recurrent layer.
    Example:
        >>> layer_inputs(eigenrnn.RNN(2, 3), torch.ones(5, 1, 2))[""].shape
        torch.Size([5, 1, 2])
    """
    exact: nn.Module = copy.deepcopy(model).to("cpu", torch.float64).eval()
    seen: dict[str, Tensor | str] = {}

    def note(path: str, _layer: nn.Module, given: tuple[Any, ...]) -> None:
        match given:
            case (Tensor(ndim=3) as x, *_):
                seen[path] = x.detach()
            case _:
                seen[path] = "the layer reads no batch of plain sequences"

    for path, layer in recurrent_layers(exact).items():
        layer.register_forward_pre_hook(partial(note, path))
    floating = isinstance(inputs, Tensor) and inputs.is_floating_point()
    with torch.no_grad():
        exact(inputs.to("cpu", torch.float64) if floating else inputs)
    return seen
