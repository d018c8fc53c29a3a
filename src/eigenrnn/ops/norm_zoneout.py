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
    """Return what a backend is given by name; nothing where neither is asked for."""
    rated = isinstance(zoneout, Tensor) or zoneout
    given = {"layer_norm": layer_norm, "zoneout": zoneout if rated else None}
    return {name: option for name, option in given.items() if option is not None}


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
    """Refuse what does not go with G maps of N units.

    Raises:
        ValueError: If a shape, a device or a rate is wrong, or states to be normalised are
            complex.
        TypeError: If the type of a tensor is wrong.
    """
    (T, B, _), (width, N) = x.shape, W.shape
    if "layer_norm" in options:
        if W.is_complex():
            raise ValueError(
                f"expected real W, as layer_norm is not defined on complex states, got {W.dtype}; "
                "the bias of modReLU sets their scale"
            )
        for name, tensor in zip(("gain", "shift"), options["layer_norm"], strict=True):
            _check(f"{name} of layer_norm", tensor, (width,), W.dtype, x.device)
    zoneout = options.get("zoneout")
    if isinstance(zoneout, Tensor):
        _check("the mask of zoneout", zoneout, (T, B, N), torch.bool, x.device)
    elif zoneout is not None:
        check_rate(zoneout)


def check_rate(zoneout: object) -> None:
    """Refuse what is no share of units that leaves some to move.

    Raises:
        ValueError: If it is not a number in [0, 1).
    """
    rate = cast("float", zoneout)
    if isinstance(zoneout, bool) or not isinstance(zoneout, Real) or not 0 <= rate < 1:
        raise ValueError(f"expected zoneout to be a share in [0, 1), got {zoneout!r}")


def _check(
    name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    if tensor.shape != shape:
        raise ValueError(f"expected {name} to have shape {shape}, got {tuple(tensor.shape)}")
    if tensor.dtype != dtype:
        raise TypeError(f"expected {name} to be of {dtype}, got {tensor.dtype}")
    if tensor.device != device:
        raise ValueError(f"expected {name} on {device}, where x is, got {tensor.device}")
