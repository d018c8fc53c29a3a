"""What the layers of all recurrences share, one layer in one direction each."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.nn import Parameter

from eigenrnn.constraints import Constraint
from eigenrnn.constraints.base import make_constraint
from eigenrnn.init import Initializer, zeros_
from eigenrnn.layers.norm_zoneout import NormZoneout
from eigenrnn.linalg import at_least_float32

__all__ = ["AbstractDirection", "make_unseen"]


class AbstractDirection(nn.Module, ABC):
    """What all recurrences share: an input map, constrained matrices and a first state.

    A recurrence writes `constraints`, `forward`, `load_biases` and `_reset`.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        gates: The number G of maps that inputs and states go through.
        trainable_h0: Whether the state before the first step is trained.
        h0_init: The start of that state, in place; zero by default.
        state_size: How many real numbers S make a state; N by default.
        output_size: How many real numbers a step gives; S by default.
    Shape:
        weight_ih: :math:`(G N, M)`; :math:`(S, M)` if the states are complex.
        weight_hh: :math:`(G N, N)`, the recurrent matrices, one below the other.
        input_bias: the bias of the inputs, or None.
        h0: :math:`(S,)`, or None.
    """

    input_bias: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        gates: int,
        *,
        trainable_h0: bool,
        h0_init: Initializer | None = None,
        state_size: int | None = None,
        output_size: int | None = None,
    ) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.state_size = state_size or hidden_size
        self.output_size = output_size or self.state_size
        self.weight_ih = Parameter(torch.empty(gates * self.state_size, input_size))
        self.h0_init = h0_init or zeros_
        self.h0 = Parameter(torch.empty(self.state_size)) if trainable_h0 else None
        self.norm_zoneout: NormZoneout | None = None  # the layer adds it where it is asked for
        self.weight_drop = 0.0
        self.frozen: Tensor | None
        self.register_buffer("frozen", None, persistent=False)
        self.register_load_state_dict_post_hook(_thaw)

    def reset(self, generator: Generator | None = None) -> None:
        """Draw all weights anew."""
        self.frozen = None
        self._reset(generator)
        if self.h0 is not None:
            self.h0_init(self.h0, generator=generator)
        if self.norm_zoneout is not None:
            self.norm_zoneout.reset()

    @torch.inference_mode(False)
    @torch.no_grad()
    def freeze(self) -> None:
        """Keep the recurrent matrices as a plain tensor until training goes on."""
        # a copy: what the constraint gives may be its raw parameter itself
        self.frozen = self._typed(self._build().detach().clone())

    def train(self, mode: bool = True) -> Self:
        """Set training mode; training lets go of the frozen matrices."""
        if mode:
            self.frozen = None
        return super().train(mode)

    @property
    def weight_hh(self) -> Tensor:  # (G N, N)
        """What a sequence goes by: the frozen matrices, or what the constraints give now.

        While training, with some entries silenced where there is `weight_drop`.
        """
        return self._build() if self.frozen is None else self.frozen

    def _typed(self, W: Tensor) -> Tensor:
        """Cast what the constraints give to the precision of the other weights.

        There are no complex numbers of 16 bits to compute in: those stay in complex64.
        """
        dtype = self.weight_ih.dtype
        if not W.is_complex():
            return W.to(dtype)
        wide = at_least_float32(dtype)
        return torch.complex(W.real.to(wide), W.imag.to(wide))

    def matrices(self) -> list[Tensor]:
        """Return each recurrent matrix, whole, in the order of `constraints`."""
        W = self._joined() if self.frozen is None else self.frozen
        return [W] if len(W) == self.hidden_size else list(W.split(self.hidden_size))

    def begin(self, batch_size: int) -> Tensor:  # (B, S)
        """Return the state before the first step where the user gives none."""
        if self.h0 is not None:
            return self.h0.expand(batch_size, -1).to(self.weight_ih.dtype)
        return self.weight_ih.new_zeros(batch_size, self.state_size)

    def add_norm_zoneout(self, layer_norm: bool, zoneout: float) -> None:
        """Let the recurrence normalise its arguments, or let units keep their states.

        Raises the errors of `NormZoneout`.
        """
        is_complex = any(constraint.is_complex for constraint in self.constraints())
        gates = len(self.weight_ih) // self.state_size
        made = NormZoneout(self.hidden_size, gates, layer_norm, zoneout, is_complex)
        self.norm_zoneout = made

    def options(
        self,
        x: Tensor,  # (T, B, M)
    ) -> dict[str, Any]:
        """Return what the recurrence does besides its formula."""
        return {} if self.norm_zoneout is None else self.norm_zoneout(x)

    @abstractmethod
    def constraints(self) -> list[Constraint]:
        """Return the constraints of the recurrent matrices, from the top of weight_hh."""

    @abstractmethod
    def forward(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, S)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        backend: str | None = None,
        last_only: bool = False,
    ) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
        """Run over the whole sequence and give all states and the last ones.

        Those alone, if they are all that is wanted and no gradient is.
        """

    def reads_out(self) -> bool:
        """Whether `forward` takes V and d too, and then gives outputs in place of all states."""
        return False

    def as_output(
        self,
        h: Tensor,  # (T, B, N)
    ) -> Tensor:  # (T, B, output size)
        """Write the states as what the layer gives."""
        return h

    def as_state(
        self,
        h: Tensor,  # (B, N)
    ) -> Tensor:  # (B, S)
        """Write a state as what the next call may be given."""
        return h

    @abstractmethod
    def load_biases(self, bias_ih: Tensor, bias_hh: Tensor) -> None:
        """Copy the biases of torch's layer."""

    @abstractmethod
    def _reset(self, generator: Generator | None) -> None: ...

    def _joined(self) -> Tensor:
        matrices = [constraint() for constraint in self.constraints()]
        return matrices[0] if len(matrices) == 1 else torch.cat(matrices)

    def _build(self) -> Tensor:
        W = self._joined()
        if not (self.weight_drop and self.training):
            return W
        # torch's dropout does not take complex numbers
        return W * F.dropout(torch.ones_like(W.real), self.weight_drop)


def make_unseen(make: Callable[[int], object], size: int) -> Constraint:
    """Make a constraint whose first draw, soon drawn again, leaves the global stream alone."""
    with torch.random.fork_rng(devices=()):
        return make_constraint(make, size)


def _thaw(direction: AbstractDirection, _keys: object) -> None:
    direction.frozen = None  # it was made from the weights before the load
