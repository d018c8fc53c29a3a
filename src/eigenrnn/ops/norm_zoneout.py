"""LayerNorm and zoneout, the optional features of a recurrence."""

from collections.abc import Mapping
from numbers import Real
from typing import Any, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.linalg import at_least_float32

__all__ = [
    "EPSILON",
    "Norm",
    "Zoneout",
    "apply_layer_norm",
    "apply_zoneout",
    "backend_options",
    "check_option_types",
    "check_options",
    "check_zoneout_rate",
    "norm_to_float32",
]

EPSILON = 1e-5
"""The epsilon of LayerNorm, the default of `torch.nn.LayerNorm`."""

Norm: TypeAlias = tuple[Tensor, Tensor]
"""The gain and the shift of a LayerNorm, each with one number per unit."""

Zoneout: TypeAlias = Tensor | float
"""The mask of the units that keep their state, or the zoneout rate."""


def apply_layer_norm(
    z: Tensor,  # (B, N)
    norm: Norm | None,
) -> Tensor:  # (B, N)
    r"""Return :math:`g \odot (z - \mu) / \sqrt{\sigma^2 + \epsilon} + c` over the units."""
    return z if norm is None else F.layer_norm(z, z.shape[-1:], *norm, EPSILON)


def apply_zoneout(
    h_new: Tensor,  # (B, N)
    h: Tensor,  # (B, N)
    zoneout: Zoneout | None,
    t: int,
) -> Tensor:  # (B, N)
    """Return the state after zoneout: masked units keep their previous state at step t.

    A rate gives the mean over all masks.
    """
    if isinstance(zoneout, Tensor):
        return torch.where(zoneout[t, : len(h)], h, h_new)
    return h_new if zoneout is None else zoneout * h + (1 - zoneout) * h_new


def backend_options(layer_norm: Norm | None, zoneout: Zoneout | None) -> dict[str, Any]:
    """Return the keyword arguments of a backend for the features in use.

    Raises the errors of `check_zoneout_rate`.
    """
    options: dict[str, Any] = {} if layer_norm is None else {"layer_norm": layer_norm}
    if zoneout is None:
        return options
    if not isinstance(zoneout, Tensor):
        check_zoneout_rate(zoneout)
        if zoneout == 0:
            return options
    return options | {"zoneout": zoneout}


def norm_to_float32(layer_norm: Norm | None) -> Norm | None:
    """Return the norm in at least float32, for autocast."""
    if layer_norm is None:
        return None
    gain, shift = (v.to(at_least_float32(v.dtype)) for v in layer_norm)
    return gain, shift


def check_options(
    options: Mapping[str, Any],
    x: Tensor,  # (T, B, .)
    W: Tensor,  # (G N, N)
) -> None:
    """Check the shapes and devices of LayerNorm and zoneout for G gates of N units.

    Raises:
        ValueError: If a shape or a device is wrong, or layer_norm is used with complex states.
        TypeError: If the norm is not two tensors, or the mask is not boolean.
    """
    (T, B, _), (width, N) = x.shape, W.shape
    if "layer_norm" in options:
        norm = options["layer_norm"]
        if W.is_complex():
            raise ValueError(
                f"expected real W, as layer_norm is not defined on complex states, got {W.dtype}; "
                "the bias of modReLU sets their scale"
            )
        if not isinstance(norm, tuple | list) or len(norm) != 2:
            raise TypeError(
                f"expected layer_norm to be a pair, gain and shift, got {type(norm).__name__}"
            )
        for name, tensor in zip(("gain", "shift"), norm, strict=True):
            _check(f"{name} of layer_norm", tensor, (width,), W.device)
    mask = options.get("zoneout")
    if isinstance(mask, Tensor):
        _check("the mask of zoneout", mask, (T, B, N), W.device)
        _check_type("the mask of zoneout", mask, torch.bool)


def check_option_types(options: Mapping[str, Any], W: Tensor) -> None:
    """Check that gain and shift have the dtype of W.

    Raises:
        TypeError: If one has another dtype.
    """
    for name, tensor in zip(("gain", "shift"), options.get("layer_norm", ()), strict=False):
        _check_type(f"{name} of layer_norm", tensor, W.dtype)


def check_zoneout_rate(zoneout: object) -> None:
    """Check a zoneout rate.

    Raises:
        ValueError: If it is not a number in [0, 1).
    """
    rate = cast("float", zoneout)
    if isinstance(zoneout, bool) or not isinstance(zoneout, Real) or not 0 <= rate < 1:
        raise ValueError(f"expected zoneout to be a probability in [0, 1), got {zoneout!r}")


def _check(name: str, tensor: object, shape: tuple[int, ...], device: torch.device) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"expected {name} to be a tensor, got {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise TypeError(f"expected {name} to be a dense tensor, got one of {tensor.layout}")
    if tensor.shape != shape:
        raise ValueError(f"expected {name} to have shape {shape}, got {tuple(tensor.shape)}")
    if tensor.device != device:
        raise ValueError(f"expected {name} on {device}, where W is, got {tensor.device}")


def _check_type(name: str, tensor: Tensor, dtype: torch.dtype) -> None:
    if tensor.dtype != dtype:
        raise TypeError(f"expected {name} to be of {dtype}, got {tensor.dtype}")
