"""One layer of a recurrent network, run in one direction."""

from collections.abc import Callable, Sequence
from typing import Self

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.nn import Parameter

from eigenrnn.constraints import Constraint
from eigenrnn.constraints.base import make_constraint
from eigenrnn.initializers import Initializer, fan_uniform_, uniform_, zeros_
from eigenrnn.nonlinearities import nonlinearity as look_up
from eigenrnn.ops import elman

__all__ = ["Direction"]


class Direction(nn.Module):
    r"""One layer in one direction: an input map, a recurrent matrix and their biases.

    .. math:: h_t = f(U x_t + c + W h_{t-1}), \qquad W = \text{constraint}()

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        constraint: A function of N that makes the constraint of W.
        nonlinearity: The name of f.
        bias: Whether there is a bias: inside modReLU, which owns one, else c.
        input_bias: Whether there is a bias c; by default only if f owns none.
        trainable_h0: Whether the state before the first step is trained, from zero.
        input_init: The start of U, in place.
        bias_init: The start of the bias of f, in place.
    Shape:
        weight_ih: :math:`(N, M)`, U.
        bias: :math:`(N,)`, the bias inside f, or None.
        input_bias: :math:`(N,)`, c, or None.
        h0: :math:`(N,)`, or None.
    Raises:
        ValueError: If the nonlinearity is unknown.
        TypeError: If `constraint` does not make a `Constraint`.
    """

    def __init__(  # noqa: PLR0913, it holds what RNN was given
        self,
        input_size: int,
        hidden_size: int,
        *,
        constraint: Callable[[int], Constraint],
        nonlinearity: str,
        bias: bool,
        input_bias: bool | None,
        trainable_h0: bool,
        input_init: Initializer | None,
        bias_init: Initializer | None,
    ) -> None:
        super().__init__()
        f = look_up(nonlinearity)
        with torch.random.fork_rng(devices=()):  # `reset` draws its start again
            made = make_constraint(constraint, hidden_size)
        self.nonlinearity = nonlinearity
        self.constraint = made
        self.input_init = input_init or (uniform_ if f.has_bias else fan_uniform_)
        self.bias_init = bias_init
        self.weight_ih = Parameter(torch.empty(hidden_size, input_size))
        self.bias = Parameter(torch.empty(hidden_size)) if bias and f.has_bias else None
        with_input_bias = bias and not f.has_bias if input_bias is None else input_bias
        self.input_bias = Parameter(torch.empty(hidden_size)) if with_input_bias else None
        self.h0 = Parameter(torch.zeros(hidden_size)) if trainable_h0 else None
        self.frozen: Tensor | None
        self.register_buffer("frozen", None, persistent=False)
        self.register_load_state_dict_post_hook(_thaw)

    def reset(self, generator: Generator | None = None) -> None:
        """Draw all weights anew."""
        self.frozen = None
        self.input_init(self.weight_ih, generator=generator)
        self.constraint.reset(generator)
        if self.input_bias is not None:
            fan_uniform_(self.input_bias, generator=generator)
        if self.bias is not None:
            (self.bias_init or zeros_)(self.bias, generator=generator)
        if self.h0 is not None:
            zeros_(self.h0)

    @torch.no_grad()
    def freeze(self) -> None:
        """Keep W as a plain tensor until training goes on or weights are loaded."""
        # a copy: what the constraint gives may be its raw parameter itself
        self.frozen = self.constraint().detach().to(self.weight_ih.dtype, copy=True)

    def train(self, mode: bool = True) -> Self:
        """Set training mode; training lets go of the frozen W."""
        if mode:
            self.frozen = None
        return super().train(mode)

    @property
    def weight_hh(self) -> Tensor:  # (N, N)
        """The recurrent matrix W: the frozen one, or what the constraint gives now."""
        return self.constraint() if self.frozen is None else self.frozen

    def begin(self, batch_size: int) -> Tensor:  # (B, N)
        """Return the state before the first step where the user gives none."""
        if self.h0 is not None:
            return self.h0.expand(batch_size, -1).to(self.weight_ih.dtype)
        return self.weight_ih.new_zeros(batch_size, self.weight_ih.shape[0])

    def forward(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, N)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        backend: str | None = None,
    ) -> Tensor:  # (T, B, N)
        """Run over the whole sequence."""
        W = self.weight_hh  # the constraint runs here and nowhere else
        z = F.linear(x, self.weight_ih, self.input_bias)
        return elman(
            z,
            W.to(self.weight_ih.dtype),
            h0,
            self.bias,
            nonlinearity=self.nonlinearity,
            batch_sizes=batch_sizes,
            reverse=reverse,
            backend=backend,
        )


def _thaw(direction: Direction, _keys: object) -> None:
    direction.frozen = None  # it was made from the weights before the load
