"""What every export does first: torch's layers become ours, and the scaling is checked."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from eigenrnn.constraints import Unconstrained
from eigenrnn.layers import GRU, LSTM, RNN, Layer
from eigenrnn.layers.leak import Leak
from eigenrnn.torch_internals import hooks_of_call

__all__ = ["Scaling", "check_no_hooks", "check_no_scaling", "checked_scaling", "with_our_layers"]

Scaling = tuple[Sequence[float], Sequence[float]]
"""The mean and the standard deviation of each input."""


def checked_scaling(scaling: Scaling, M: int) -> tuple[Tensor, Tensor]:
    """Return the means and the deviations of the inputs, in double precision.

    Raises:
        ValueError: If there are not M of each, one is not finite, or a deviation not positive.
    """
    if len(scaling) != 2:
        raise ValueError(f"expected scaling to be means and deviations, got {scaling}")
    mean, deviation = [torch.as_tensor(each, dtype=torch.double) for each in scaling]
    is_usable = mean.isfinite().all() and deviation.isfinite().all() and (deviation > 0).all()
    if mean.shape != (M,) or deviation.shape != (M,) or not is_usable:
        raise ValueError(
            f"expected scaling to be {M} finite means and {M} deviations > 0, got {scaling}"
        )
    return mean, deviation


def check_no_scaling(scaling: Scaling | None) -> None:
    """Check that an estimator, which has a scaling, is given none.

    Raises:
        ValueError: If there is one.
    """
    if scaling is not None:
        raise ValueError(f"expected no scaling, which the estimator has itself, got {scaling}")


def check_no_hooks(name: str, module: nn.Module) -> None:
    """Check that nothing watches or changes the calls of a module, which are not exported.

    Raises:
        ValueError: If there is a hook.
    """
    if any(hooks_of_call(module)):
        raise ValueError(
            f"expected a network without hooks, got one on {name or type(module).__name__}: "
            "remove it; torch.nn.utils.prune.remove and remove_weight_norm remove theirs"
        )


def with_our_layers(model: Any) -> Any:
    """Return a copy of a layer or a model in which our layers replace torch's.

    Raises:
        ValueError: If a layer of torch has a hook, which would be lost, or one draws noise.
    """
    for name, layer in model.named_modules():
        if isinstance(layer, nn.RNNBase):
            check_no_hooks(name, layer)
        if isinstance(layer, Leak) and layer.is_noisy:
            raise ValueError(
                "expected no noise in evaluation, got noise_in_eval=True: an exported network "
                "draws none"
            )
    model = copy.deepcopy(model)
    if isinstance(model, nn.RNNBase):
        return _ours(model)
    for name, layer in model.named_modules():
        if isinstance(layer, nn.RNNBase):
            model.set_submodule(name, _ours(layer))
    return model


def _ours(layer: nn.RNNBase) -> Layer:
    """Return our layer with the weights of torch's."""
    options: dict[str, Any] = {
        name: getattr(layer, name)
        for name in ("num_layers", "bias", "batch_first", "bidirectional")
    }
    kind: Any = RNN
    if isinstance(layer, nn.LSTM):
        kind = LSTM
    elif isinstance(layer, nn.GRU):
        kind = GRU
    else:
        options |= {"nonlinearity": layer.nonlinearity, "constraint": Unconstrained}
    # the weights that our layer draws are replaced at once: the caller's draws must not shift
    with torch.random.fork_rng(devices=()):
        ours = kind(layer.input_size, layer.hidden_size, **options)
    return ours.to(layer.weight_ih_l0.dtype).load_torch(layer).eval()
