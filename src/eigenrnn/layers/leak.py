"""The network of neuroscience: an Elman RNN with a leak and noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import ConstantBuffers
from eigenrnn.errors import check_not_negative
from eigenrnn.tracing import autocasts, is_traced

__all__ = ["Leak", "LeakOptions", "LeakValues"]

LeakValues = float | Sequence[float] | Tensor
"""One leak for all units, or one for each."""


@dataclass(frozen=True)
class LeakOptions:
    """The leak and the noise of a layer, as `LeakyRNN` describes them.

    Args:
        leak: The leak, in double precision.
        trainable: Whether it is trained.
        noise: The standard deviation of the noise.
        noise_in_eval: Whether there is noise in evaluation too.
        state: Whether the state is the value of f or its argument.
    Shape:
        leak: :math:`()` or :math:`(N,)`.
    Raises:
        ValueError: If the leak is outside (0, 1], or outside (0, 1) where it is trained, the state
            is unknown, or the noise is negative or not finite.
    """

    leak: Tensor
    trainable: bool
    noise: float
    noise_in_eval: bool
    state: Literal["rate", "current"]

    def __post_init__(self) -> None:
        if self.state not in ("rate", "current"):
            raise ValueError(f"expected state to be 'rate' or 'current', got {self.state!r}")
        check_not_negative("noise", self.noise)
        low = float(self.leak.min())
        high = float(self.leak.max())
        if not (low > 0 and high <= 1):
            raise ValueError(f"expected 0 < leak <= 1, got {low:.6g} to {high:.6g}")
        if self.trainable and high == 1:  # it is the logistic function of a parameter
            raise ValueError("expected leak < 1 with trainable_leak, got 1")


class Leak(ConstantBuffers):
    r"""The leak and the noise of one layer in one direction.

    .. math:: \alpha = \operatorname{sigmoid}(a), \qquad
        \eta_t = \sqrt{2 / \alpha}\, \sigma\, \xi_t, \qquad \xi_t \sim \mathcal N(0, I)

    It only holds the leak and draws the noise. The recurrence adds the noise :math:`\eta_t` to the
    argument of f.

    Args:
        hidden_size: The number N of hidden units.
        options: The leak and the noise.
    Shape:
        raw: :math:`(N,)`, a, or None if the leak is not trained.
        values: :math:`(N,)`, the leak, or None if it is trained.
    Source:
        Song, Yang and Wang, PLoS Computational Biology 12, 2016, equation 5.
        https://doi.org/10.1371/journal.pcbi.1004792 (departures: none).
    """

    values: Tensor | None

    def __init__(self, hidden_size: int, options: LeakOptions) -> None:
        super().__init__()
        self.options = options
        empty = torch.empty(hidden_size)
        self.raw: Parameter | None = None
        if options.trainable:
            self.raw = Parameter(empty)
        self.register_buffer("values", None if options.trainable else empty)
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        """Set the leak to its initial values."""
        initial = self.options.leak
        if self.raw is not None:
            # the inverse of the sigmoid in `alpha`
            self.raw.copy_(initial.logit().expand_as(self.raw))
        elif self.values is not None:
            initial = initial.expand_as(self.values)
            self.register_constant("values", initial, self.values, persistent=True)

    def alpha(self) -> Tensor:  # (N,)
        """Return the leak of each unit."""
        if self.raw is not None:
            return self.raw.sigmoid()
        return cast("Tensor", self.values)

    @property
    def is_noisy(self) -> bool:
        """Whether the present mode has noise."""
        return self.options.noise > 0 and (self.training or self.options.noise_in_eval)

    def kwargs(
        self,
        dt: Tensor | None = None,  # (T, B)
    ) -> dict[str, Any]:
        r"""Return the keyword arguments of the recurrence.

        After a gap, :math:`1 - (1 - \alpha)^{\Delta t}` takes the place of the leak.

        Raises:
            ValueError: If a gap is zero and there is noise, on the CPU and unless something
                traces the call.
        """
        alpha = self.alpha()
        if dt is not None:
            # the scale of the noise divides by the leak, which is zero after a gap of zero
            if self.is_noisy and dt.device.type == "cpu" and not is_traced() and not dt.all():
                raise ValueError("expected gaps dt > 0 in a layer with noise, got 0")
            gap = dt.to(alpha.dtype).unsqueeze(2)
            # A leak of one jumps from 0 to 1 behind a gap of zero. Its derivative by the gap is
            # zero everywhere, as that of torch.pow at a base of zero.
            is_full = alpha == 1
            log = torch.log1p(-alpha.masked_fill(is_full, 0))
            alpha = torch.where(is_full, (gap > 0).to(alpha.dtype), -torch.expm1(gap * log))
        return {"leak": alpha, "state": self.options.state}

    def noisy_inputs(
        self,
        x: Tensor,  # (T, B, M)
        U: Tensor,  # (N, M)
        c: Tensor | None,  # (N,)
        alpha: Tensor | None,  # (N,) or (T, B, N)
    ) -> Tensor:  # (T, B, N)
        """Return the mapped inputs with the noise of all time steps.

        Torch's global generator draws it, as it does dropout: so training that is resumed, and
        `torch.utils.checkpoint`, which computes a forward pass twice, draw the same noise.
        """
        if autocasts(x.device.type):  # the recurrence keeps the precision of its weights
            with torch.autocast(x.device.type, enabled=False):
                inputs = F.linear(x.to(U.dtype), U, c)
        else:
            inputs = F.linear(x, U, c)
        xi = torch.randn_like(inputs)
        if alpha is None:
            alpha = self.alpha()
        scale = self.options.noise * (2 / alpha).sqrt()
        return torch.addcmul(inputs, scale.to(inputs.dtype), xi)

    def extra_repr(self) -> str:
        options = self.options
        leak = options.leak
        values = f"{leak.item():g}" if leak.dim() == 0 else f"{len(leak)} values"
        trained = ", trained" if options.trainable else ""
        return f"leak={values}{trained}, noise={options.noise:g}, state={options.state!r}"
