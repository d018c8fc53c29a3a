"""What a step of any recurrence may do besides its formula: LayerNorm and zoneout."""

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
    "check_option_types",
    "check_options",
    "check_rate",
    "in_float32",
    "normalised",
    "options_of",
    "zoned_out",
]

EPSILON = 1e-5
"""What LayerNorm adds to the variance, as `torch.nn.LayerNorm` does by default."""

Norm: TypeAlias = tuple[Tensor, Tensor]
"""The gain and the shift of a LayerNorm, one number per unit each."""

Zoneout: TypeAlias = Tensor | float
"""The units that keep their state, of each step and sequence, or the rate of such units."""


def normalised(
    z: Tensor,  # (B, N)
    norm: Norm | None,
) -> Tensor:  # (B, N)
    r"""Return :math:`g \odot (z - \mu) / \sqrt{\sigma^2 + \epsilon} + c` over the units."""
    return z if norm is None else F.layer_norm(z, z.shape[-1:], *norm, EPSILON)


def zoned_out(
    moved: Tensor,  # (B, N)
    h: Tensor,  # (B, N)
    zoneout: Zoneout | None,
    t: int,
) -> Tensor:  # (B, N)
    """Return the next state: the units zoned out at step t keep the last one.

    A rate gives the mean over all masks.
    """
    if isinstance(zoneout, Tensor):
        return torch.where(zoneout[t, : len(h)], h, moved)
    return moved if zoneout is None else zoneout * h + (1 - zoneout) * moved


def options_of(layer_norm: Norm | None, zoneout: Zoneout | None) -> dict[str, Any]:
    """Return what a backend is given by name; nothing where neither is asked for.

    Raises the errors of `check_rate`.
    """
    given: dict[str, Any] = {} if layer_norm is None else {"layer_norm": layer_norm}
    if zoneout is None:
        return given
    if not isinstance(zoneout, Tensor):
        check_rate(zoneout)
        if zoneout == 0:
            return given
    return given | {"zoneout": zoneout}


def in_float32(layer_norm: Norm | None) -> Norm | None:
    """Return the norm in no shorter type than float32, for autocast."""
    if layer_norm is None:
        return None
    gain, shift = (v.to(at_least_float32(v.dtype)) for v in layer_norm)
    return gain, shift


def check_options(
    options: Mapping[str, Any],
    x: Tensor,  # (T, B, .)
    W: Tensor,  # (G N, N)
) -> None:
    """Refuse options that do not go with G maps of N units.

    Raises:
        ValueError: If a shape or a device is wrong, or states to be normalised are complex.
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
    """Refuse gains and shifts whose type is not that of W.

    Raises:
        TypeError: If there is one.
    """
    for name, tensor in zip(("gain", "shift"), options.get("layer_norm", ()), strict=False):
        _check_type(f"{name} of layer_norm", tensor, W.dtype)


def check_rate(zoneout: object) -> None:
    """Refuse what is no share of units that leaves some to move.

    Raises:
        ValueError: If it is not a number in [0, 1).
    """
    rate = cast("float", zoneout)
    if isinstance(zoneout, bool) or not isinstance(zoneout, Real) or not 0 <= rate < 1:
        raise ValueError(f"expected zoneout to be a share in [0, 1), got {zoneout!r}")


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
