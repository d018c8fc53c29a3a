"""What a model is given, and what its recurrent layers read of it."""

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from eigenrnn.analysis.recurrence import check_model, recurrent_layers
from eigenrnn.analysis.sequences import check_read

__all__ = ["given_inputs", "layer_inputs", "run_model"]


def layer_inputs(model: nn.Module, inputs: Any) -> dict[str, Tensor | str]:
    """Run a model, and return what each of its recurrent layers is given.

    Args:
        model: A recurrent layer, ours or torch's, or a model with some of them; it stays as it is.
        inputs: A batch, as the model takes it.
    Returns:
        The sequences in double precision by the name of the layer, or why there are none.
    Raises:
        ValueError: If the model has no recurrent layer, or does not take the inputs.
    Example:
        >>> layer_inputs(eigenrnn.RNN(2, 3), torch.ones(5, 1, 2))[""].shape
        torch.Size([5, 1, 2])
    """
    check_model(model)
    exact: nn.Module = copy.deepcopy(model).to("cpu", torch.float64).eval()
    seen: dict[str, Tensor | str] = {}

    def note(path: str, layer: Any, given: tuple[Any, ...]) -> None:
        x = given[0] if given else None
        if x is None or isinstance(x, PackedSequence):
            seen[path] = "the layer reads no batch of plain sequences"
            return
        check_read(layer, x)
        lone = x.dim() == 2
        seen[path] = x.detach().unsqueeze(0 if layer.batch_first else 1) if lone else x.detach()

    for path, layer in recurrent_layers(exact).items():
        layer.register_forward_pre_hook(partial(note, path))
    with torch.no_grad():
        run_model(exact, given_inputs(inputs), {})
    return seen


def given_inputs(inputs: Any) -> Any:
    """Return inputs on the CPU, arrays as tensors and real numbers in double precision.

    Raises:
        ValueError: If a number is not finite.
    """
    if isinstance(inputs, PackedSequence):
        packed = inputs.cpu()
        return packed._replace(data=given_inputs(packed.data))
    if isinstance(inputs, np.ndarray):
        inputs = torch.as_tensor(inputs)
    if not isinstance(inputs, Tensor):
        return inputs
    inputs = inputs.detach().to("cpu")
    if not inputs.is_floating_point():
        return inputs
    if not bool(inputs.isfinite().all()):
        raise ValueError("expected finite numbers in inputs, got others")
    return inputs.to(torch.float64)


def run_model(model: nn.Module, inputs: Any, options: Mapping[str, Any]) -> Any:
    """Return what a model gives.

    Raises:
        ValueError: If it does not take the inputs.
    """
    try:
        return model(inputs, **options)
    except (TypeError, RuntimeError, LookupError, AttributeError) as error:
        kind = type(inputs).__name__
        if isinstance(inputs, Tensor):
            kind = f"{str(inputs.dtype).removeprefix('torch.')} of shape {tuple(inputs.shape)}"
        raise ValueError(
            f"expected inputs that {type(model).__name__} takes, got {kind}: {error}"
        ) from error
