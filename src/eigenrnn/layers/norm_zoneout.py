"""LayerNorm, zoneout and dropout as the layers apply them."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import Parameter

__all__ = ["PLAIN", "NormZoneout", "asked_of", "dropped"]

PLAIN = {"layer_norm": False, "zoneout": 0.0}
"""The options of a layer that computes its formula and nothing besides."""


def asked_of(layer: object) -> list[str]:
    """Return which of the options a layer has that is not plain."""
    return [name for name, plain in PLAIN.items() if getattr(layer, name) != plain]


class NormZoneout(nn.Module):
    r"""LayerNorm and zoneout of one layer in one direction, for its recurrence to compute.

    .. math:: \tilde h_t = f(g \odot \mathrm{LN}(z_t) + c), \qquad
        h_t = m_t \odot h_{t-1} + (1 - m_t) \odot \tilde h_t

    LN is over the units and :math:`z_t` the argument of f without it. While training, each unit of
    m is one with the probability of the rate, drawn anew for each step and sequence; in evaluation
    it is the rate.

    Args:
        hidden_size: The number N of units.
        gates: The number G of nonlinearities, each with a LayerNorm of its own.
        layer_norm: Whether there is LayerNorm.
        zoneout: The rate.
        is_complex: Whether the states are complex.
    Shape:
        gain: :math:`(G N,)`, g, or None; ones at the start.
        shift: :math:`(G N,)`, c, or None; zeros at the start.
    Raises:
        ValueError: If states to be normalised are complex, or of one unit.
    Source:
        Ba, Kiros and Hinton, 2016, equation 4. https://arxiv.org/abs/1607.06450 (departures:
        none). Krueger et al., ICLR 2017. https://arxiv.org/abs/1606.01305 (departures: none).
    """

    def __init__(
        self, hidden_size: int, gates: int, layer_norm: bool, zoneout: float, is_complex: bool
    ) -> None:
        if layer_norm and is_complex:
            raise ValueError(
                "expected layer_norm=False, as LayerNorm is not defined on complex states; choose "
                "a set of real matrices, or let modReLU's bias set the scale"
            )
        if layer_norm and hidden_size == 1:
            raise ValueError(
                "expected hidden_size > 1 with layer_norm, as one unit is always its own mean"
            )
        super().__init__()
        self.hidden_size = hidden_size
        self.zoneout = zoneout
        self.gain = Parameter(torch.empty(gates * hidden_size)) if layer_norm else None
        self.shift = Parameter(torch.empty(gates * hidden_size)) if layer_norm else None
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        """Let the norm be the plain one again."""
        if self.gain is not None and self.shift is not None:
            self.gain.fill_(1)
            self.shift.zero_()

    def forward(
        self,
        x: Tensor,  # (T, B, M)
    ) -> dict[str, Any]:
        """Return what the recurrence is told, by name; a mask is drawn for each call."""
        options: dict[str, Any] = {}
        if self.gain is not None:
            options["layer_norm"] = (self.gain, self.shift)
        if self.zoneout:
            options["zoneout"] = self._draw(x) if self.training else self.zoneout
        return options

    def _draw(self, x: Tensor) -> Tensor:  # (T, B, N)
        T, B, _ = x.shape
        mask = torch.empty(T, B, self.hidden_size, dtype=torch.bool, device=x.device)
        return mask.bernoulli_(self.zoneout)

    def extra_repr(self) -> str:
        return f"layer_norm={self.gain is not None}, zoneout={self.zoneout}"


def dropped(
    x: Tensor,  # (T, B, D N)
    rate: float,
    locked: bool,
    training: bool,
) -> Tensor:  # (T, B, D N)
    """Drop units out; those of one mask for all steps of a sequence, if locked."""
    if not locked:
        return F.dropout(x, rate, training)
    return x * F.dropout(torch.ones_like(x[:1]), rate, training)
