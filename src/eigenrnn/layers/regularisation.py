"""LayerNorm, zoneout and dropout, as the layers apply them."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import Parameter

__all__ = ["NORM_ZONEOUT_DEFAULTS", "NormZoneout", "apply_dropout", "non_default_options"]

NORM_ZONEOUT_DEFAULTS = {"layer_norm": False, "zoneout": 0.0}
"""The options of a layer with neither LayerNorm nor zoneout."""


def non_default_options(layer: object) -> list[str]:
    """Return the names of the options among `NORM_ZONEOUT_DEFAULTS` that a layer changes."""
    return [n for n, default in NORM_ZONEOUT_DEFAULTS.items() if getattr(layer, n) != default]


class NormZoneout(nn.Module):
    r"""LayerNorm and zoneout of one layer in one direction.

    .. math:: \tilde h_t = f(g \odot \mathrm{LN}(z_t) + c), \qquad
        h_t = m_t \odot h_{t-1} + (1 - m_t) \odot \tilde h_t

    LN normalises over the units; :math:`z_t` is the argument of f without it. This module only
    holds the parameters and draws the masks; the recurrence applies both. While training, each
    entry of m is one with the zoneout probability, drawn for each time step and sequence; in
    evaluation every entry equals that probability.

    Args:
        hidden_size: The number N of hidden units.
        gates: The number G of nonlinearities, each with its own LayerNorm.
        layer_norm: Whether there is LayerNorm.
        zoneout: The zoneout probability.
        is_complex: Whether the states are complex.
    Shape:
        gain: :math:`(G N,)`, g, or None; initialised to one.
        shift: :math:`(G N,)`, c, or None; initialised to zero.
    Raises:
        ValueError: If LayerNorm is set with complex states or a single unit.
    Source:
        Ba, Kiros and Hinton, 2016, equation 4. https://arxiv.org/abs/1607.06450 (departures:
        none). Krueger et al., ICLR 2017. https://arxiv.org/abs/1606.01305 (departures: none).
    """

    def __init__(
        self, hidden_size: int, gates: int, layer_norm: bool, zoneout: float, is_complex: bool
    ) -> None:
        if layer_norm and is_complex:
            raise ValueError(
                "expected layer_norm=False, because LayerNorm is not defined on complex states; "
                "choose a set of real matrices, or let modReLU's bias set the scale"
            )
        if layer_norm and hidden_size == 1:
            raise ValueError(
                "expected hidden_size > 1 with layer_norm, because a single unit is its own mean"
            )
        super().__init__()
        self.hidden_size = hidden_size
        self.zoneout = zoneout
        self.gain: Parameter | None = None
        self.shift: Parameter | None = None
        if layer_norm:
            self.gain = Parameter(torch.empty(gates * hidden_size))
            self.shift = Parameter(torch.empty(gates * hidden_size))

    @torch.no_grad()
    def reset(self) -> None:
        """Initialise the gain to one and the shift to zero."""
        if self.gain is not None and self.shift is not None:
            self.gain.fill_(1)
            self.shift.zero_()

    def forward(
        self,
        x: Tensor,  # (T, B, M)
    ) -> dict[str, Any]:
        """Return the keyword arguments of the recurrence; each call in training draws a mask."""
        options = self.in_evaluation()
        if self.zoneout and self.training:
            options["zoneout"] = self._draw_mask(x)
        return options

    def in_evaluation(self) -> dict[str, Any]:
        """Return the keyword arguments of the recurrence in evaluation, with a zoneout rate."""
        options: dict[str, Any] = {}
        if self.gain is not None:
            options["layer_norm"] = (self.gain, self.shift)
        if self.zoneout:
            options["zoneout"] = self.zoneout
        return options

    def _draw_mask(self, x: Tensor) -> Tensor:  # (T, B, N)
        T, B, _ = x.shape
        mask = torch.empty(T, B, self.hidden_size, dtype=torch.bool, device=x.device)
        return mask.bernoulli_(self.zoneout)

    def extra_repr(self) -> str:
        return f"layer_norm={self.gain is not None}, zoneout={self.zoneout}"


def apply_dropout(
    x: Tensor,  # (T, B, D N)
    probability: float,
    locked: bool,
    training: bool,
) -> Tensor:  # (T, B, D N)
    """Apply dropout to units; if locked, with one mask for all time steps of a sequence."""
    if not locked:
        return F.dropout(x, probability, training)
    # dropout of ones is a scaled mask, here of one time step, which is then repeated
    return x * F.dropout(torch.ones_like(x[:1]), probability, training)
