"""The base class of a single layer in one direction, and how it fuses with a linear head."""

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
from eigenrnn.layers.regularisation import NormZoneout
from eigenrnn.linalg import at_least_float32

__all__ = ["AbstractDirection", "construct_constraint", "head_kwargs"]


class AbstractDirection(nn.Module, ABC):
    """One layer in one direction: an input map, constrained matrices and an initial state.

    A subclass implements `constraints`, `forward`, `load_biases` and `_reset`.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        gates: The number G of input maps, and of recurrent matrices.
        trainable_h0: Whether the initial state is trained.
        h0_init: The initialiser of that state, which fills it in place; zero by default.
        state_size: The number S of real numbers in a state; N by default.
        output_size: The number of real numbers in the output of a time step; S by default.
    Shape:
        weight_ih: :math:`(G N, M)`; :math:`(S, M)` if the states are complex.
        weight_hh: :math:`(G N, N)`, the rows of all recurrent matrices.
        input_bias: the bias added to the input map, or None.
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
        self.norm_zoneout: NormZoneout | None = None  # see add_norm_zoneout
        self.weight_drop = 0.0
        self.frozen: Tensor | None
        self.register_buffer("frozen", None, persistent=False)
        self.register_load_state_dict_post_hook(_unfreeze)

    def reset(self, generator: Generator | None = None) -> None:
        """Initialise all weights again."""
        self.frozen = None
        self._reset(generator)
        if self.h0 is not None:
            self.h0_init(self.h0, generator=generator)
        if self.norm_zoneout is not None:
            self.norm_zoneout.reset()

    @torch.inference_mode(False)
    @torch.no_grad()
    def freeze(self) -> None:
        """Store the recurrent matrices as a plain tensor until training mode is set."""
        # a copy: a constraint may return its raw parameter itself
        self.frozen = self._cast(self._compute_matrices().detach().clone())

    def train(self, mode: bool = True) -> Self:
        """Set training mode; this discards the frozen matrices."""
        if mode:
            self.frozen = None
        return super().train(mode)

    @property
    def weight_hh(self) -> Tensor:  # (G N, N)
        """The recurrent matrices of a forward pass: the frozen ones, or those of the constraints.

        While training with `weight_drop`, dropout is applied to their entries.
        """
        return self._compute_matrices() if self.frozen is None else self.frozen

    def _cast(self, W: Tensor) -> Tensor:
        """Cast the recurrent matrices to the precision of the other weights.

        Complex matrices stay in complex64 or better, because torch has no 16-bit complex kernels.
        """
        dtype = self.weight_ih.dtype
        if not W.is_complex():
            return W.to(dtype)
        wide = at_least_float32(dtype)
        return torch.complex(W.real.to(wide), W.imag.to(wide))

    def matrices(self) -> list[Tensor]:
        """Return each recurrent matrix, without dropout, in the order of `constraints`."""
        W = self._concatenated() if self.frozen is None else self.frozen
        return [W] if len(W) == self.hidden_size else list(W.split(self.hidden_size))

    def initial_state(self, batch_size: int) -> Tensor:  # (B, S)
        """Return the default initial state: the trained one, or zero."""
        if self.h0 is not None:
            return self.h0.expand(batch_size, -1).to(self.weight_ih.dtype)
        return self.weight_ih.new_zeros(batch_size, self.state_size)

    def add_norm_zoneout(self, layer_norm: bool, zoneout: float) -> None:
        """Add LayerNorm or zoneout to the recurrence.

        Raises the errors of `NormZoneout`.
        """
        is_complex = any(constraint.is_complex for constraint in self.constraints())
        gates = len(self.weight_ih) // self.state_size
        self.norm_zoneout = NormZoneout(self.hidden_size, gates, layer_norm, zoneout, is_complex)

    def norm_zoneout_kwargs(
        self,
        x: Tensor,  # (T, B, M)
    ) -> dict[str, Any]:
        """Return the arguments `layer_norm` and `zoneout` of the recurrence, if they are set."""
        return {} if self.norm_zoneout is None else self.norm_zoneout(x)

    @abstractmethod
    def constraints(self) -> list[Constraint]:
        """Return the constraints of the recurrent matrices, in the order of weight_hh."""

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
        """Run over the whole sequence; return the states of all time steps and the last states.

        With `last_only` and no gradient, the states of all time steps are not stored.
        """

    def fuses_head(self) -> bool:
        """Whether `forward` also takes V and d, and then returns outputs instead of all states."""
        return False

    def as_output(
        self,
        h: Tensor,  # (T, B, N)
    ) -> Tensor:  # (T, B, output size)
        """Convert states to the output of the layer."""
        return h

    def as_state(
        self,
        h: Tensor,  # (B, N)
    ) -> Tensor:  # (B, S)
        """Convert a state to the real numbers that `forward` takes as h0."""
        return h

    @abstractmethod
    def load_biases(self, bias_ih: Tensor, bias_hh: Tensor) -> None:
        """Copy the two biases of a torch layer."""

    @abstractmethod
    def _reset(self, generator: Generator | None) -> None: ...

    def _concatenated(self) -> Tensor:
        matrices = [constraint() for constraint in self.constraints()]
        return matrices[0] if len(matrices) == 1 else torch.cat(matrices)

    def _compute_matrices(self) -> Tensor:
        W = self._concatenated()
        if not (self.weight_drop and self.training):
            return W
        # torch's dropout does not accept complex tensors
        return W * F.dropout(torch.ones_like(W.real), self.weight_drop)


def construct_constraint(factory: Callable[[int], object], size: int) -> Constraint:
    """Construct a constraint without advancing the global generator; `reset` draws it later."""
    with torch.random.fork_rng(devices=()):
        return make_constraint(factory, size)


def _unfreeze(direction: AbstractDirection, _keys: object) -> None:
    direction.frozen = None  # the frozen matrices belong to the weights before the load


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def head_kwargs(head: nn.Linear | None, direction: AbstractDirection) -> dict[str, Tensor | None]:
    """Return the arguments with which a direction computes the outputs of a linear head.

    Empty if the direction cannot, or if calling the head does more than the linear map: it has
    hooks, parametrisations or its own `forward`.
    """
    if head is None or type(head) is not nn.Linear or not direction.fuses_head():
        return {}
    if "forward" in vars(head) or any(getattr(head, name) for name in _HOOKS):
        return {}
    return {"V": head.weight, "d": head.bias}
