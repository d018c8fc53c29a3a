"""LayerNorm, zoneout and the leak, the optional features of a recurrence."""

from numbers import Real
from typing import Any, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops.arguments import check_tensor

__all__ = [
    "EPSILON",
    "Norm",
    "Zoneout",
    "apply_layer_norm",
    "apply_zoneout",
    "check_leak",
    "check_norm_zoneout",
    "check_zoneout_rate",
]

EPSILON = 1e-5
"""The epsilon of LayerNorm, the default of `torch.nn.LayerNorm`."""

Norm: TypeAlias = tuple[Tensor, Tensor]
"""The gain and the shift of a LayerNorm, each with one number per unit."""

Zoneout: TypeAlias = Tensor | float
"""The mask of the units that keep their state, or the zoneout rate."""


def apply_layer_norm(
    z: Tensor,  # (B, N)
    gain: Tensor | None,  # (N,)
    shift: Tensor | None,  # (N,)
) -> Tensor:  # (B, N)
    r"""Return :math:`g \odot (z - \mu) / \sqrt{\sigma^2 + \epsilon} + c` over the units."""
    if gain is None:
        return z
    return F.layer_norm(z, z.shape[-1:], gain, shift, EPSILON)


def apply_zoneout(
    h_new: Tensor,  # (B, N)
    h: Tensor,  # (B, N)
    mask: Tensor | None,  # (B, N), bool
    rate: float,
) -> Tensor:  # (B, N)
    """Return the state after zoneout: masked units keep their previous state.

    A rate gives the mean over all masks.
    """
    if mask is not None:
        # a product with the mask would make an infinite candidate NaN
        return torch.where(mask, h, h_new)
    if rate:
        return rate * h + (1 - rate) * h_new
    return h_new


def check_norm_zoneout(
    layer_norm: Norm | None,
    zoneout: Zoneout | None,
    x: Tensor,  # (T, B, .)
    W: Tensor,  # (G N, N)
) -> tuple[Tensor | None, Tensor | None, Tensor | None, float]:
    """Check LayerNorm and zoneout for G gates of N units; return gain, shift, mask and rate.

    Raises:
        ValueError: If a shape, a device or the rate is wrong, or layer_norm is used with complex
            states.
        TypeError: If the norm is not two tensors, or the mask is not boolean.
    """
    gain: Tensor | None = None
    shift: Tensor | None = None
    mask: Tensor | None = None
    rate = 0.0
    if isinstance(zoneout, Tensor):
        mask = zoneout
    elif zoneout is not None:
        check_zoneout_rate(zoneout)
        rate = float(zoneout)
    T, B, _ = x.shape
    width, N = W.shape
    if layer_norm is not None:
        if W.is_complex():
            raise ValueError(
                f"expected real W, as layer_norm is not defined on complex states, got {W.dtype}; "
                "the bias of modReLU sets their scale"
            )
        pair: Any = layer_norm
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"expected layer_norm to be a pair, gain and shift, got {type(pair).__name__}"
            )
        gain, shift = layer_norm
        check_tensor("gain of layer_norm", gain, (width,), W.device, beside="W is")
        check_tensor("shift of layer_norm", shift, (width,), W.device, beside="W is")
    if mask is not None:
        check_tensor("the mask of zoneout", mask, (T, B, N), W.device, beside="W is")
        if mask.dtype != torch.bool:
            raise TypeError(f"expected the mask of zoneout of torch.bool, got {mask.dtype}")
    return gain, shift, mask, rate


def check_zoneout_rate(zoneout: object) -> None:
    """Check a zoneout rate.

    Raises:
        ValueError: If it is not a number in [0, 1).
    """
    rate = cast("float", zoneout)
    if isinstance(zoneout, bool) or not isinstance(zoneout, Real) or not 0 <= rate < 1:
        raise ValueError(f"expected zoneout to be a probability in [0, 1), got {zoneout!r}")


def check_leak(
    leak: object,
    state: object,
    x: Tensor,  # (T, B, .)
    W: Tensor,  # (N, N)
) -> Tensor | None:  # (N,) or (T, B, N)
    """Check a leak and which state it mixes; return one number for each unit, or None.

    Currents always have a leak, one where none is given.

    Raises:
        ValueError: If the state is unknown, the leak is outside (0, 1] or has another shape, or
            the states are complex.
        TypeError: If the leak is not a number or a dense tensor.
    """
    if state not in ("rate", "current"):
        raise ValueError(f"expected state to be 'rate' or 'current', got {state!r}")
    if leak is None and state == "rate":
        return None
    if W.is_complex():
        raise ValueError(
            f"expected real W, as the leak and state='current' need real states, got {W.dtype}"
        )
    N = len(W)
    if isinstance(leak, Tensor):
        shape = (*x.shape[:2], N) if leak.dim() == 3 else (N,)
        return check_tensor("leak", leak, shape, W.device, beside="W is")
    number = 1.0
    if leak is not None:
        number = cast("float", leak)
    if isinstance(leak, bool) or not isinstance(number, Real):
        raise TypeError(f"expected leak to be a number or a tensor, got {type(leak).__name__}")
    if not 0 < number <= 1:
        raise ValueError(f"expected 0 < leak <= 1, got {number!r}")
    return W.new_full((N,), float(number))
