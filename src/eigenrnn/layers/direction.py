"""One layer of a recurrent network, run in one direction."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import torch
from torch import Generator, Tensor, nn
from torch.nn import Parameter

from eigenrnn.constraints import Constraint
from eigenrnn.constraints.base import make_constraint
from eigenrnn.initializers import Initializer, fan_uniform_, uniform_, zeros_
from eigenrnn.layers.norm_zoneout import NormZoneout
from eigenrnn.nonlinearities import nonlinearity as look_up
from eigenrnn.ops import elman

__all__ = ["AbstractDirection", "Direction", "make_unseen"]


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
        """The recurrent matrices: the frozen ones, or what the constraints give now."""
        return self._build() if self.frozen is None else self.frozen

    def _typed(self, W: Tensor) -> Tensor:
        """Cast what the constraints give to the precision of the other weights."""
        if not W.is_complex():
            return W.to(self.weight_ih.dtype)
        return torch.complex(W.real.to(self.weight_ih.dtype), W.imag.to(self.weight_ih.dtype))

    def matrices(self) -> list[Tensor]:
        """Return each recurrent matrix, in the order of `constraints`."""
        W = self.weight_hh
        return [W] if len(W) == self.hidden_size else list(W.split(self.hidden_size))

    def begin(self, batch_size: int) -> Tensor:  # (B, S)
        """Return the state before the first step where the user gives none."""
        if self.h0 is not None:
            return self.h0.expand(batch_size, -1).to(self.weight_ih.dtype)
        return self.weight_ih.new_zeros(batch_size, self.state_size)

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
    ) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
        """Run over the whole sequence and give all states and the last ones."""

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

    def _build(self) -> Tensor:
        matrices = [constraint() for constraint in self.constraints()]
        return matrices[0] if len(matrices) == 1 else torch.cat(matrices)


def make_unseen(make: Callable[[int], object], size: int) -> Constraint:
    """Make a constraint whose first draw, soon drawn again, leaves the global stream alone."""
    with torch.random.fork_rng(devices=()):
        return make_constraint(make, size)


def _thaw(direction: AbstractDirection, _keys: object) -> None:
    direction.frozen = None  # it was made from the weights before the load


class Direction(AbstractDirection):
    r"""One layer in one direction: an input map, a recurrent matrix and their biases.

    .. math:: h_t = f(U x_t + c + W h_{t-1}), \qquad W = \text{constraint}()

    Where W is complex, so are U, c and the states; weights and states are kept as real numbers,
    real parts first, then imaginary parts.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        constraint: A function of N that makes the constraint of W.
        nonlinearity: The name of f.
        bias: Whether there is a bias: inside modReLU, which owns one, else c.
        input_bias: Whether there is a bias c; by default only if f owns none.
        trainable_h0: Whether the state before the first step is trained.
        input_init: The start of U, in place.
        bias_init: The start of the biases, in place: zero inside f and that of
            `torch.nn.RNN` for c by default.
        h0_init: The start of the trained state, in place.
        output: What complex states give: ``"real_imag"`` both parts, ``"real"`` the real part.
    Shape:
        weight_ih: :math:`(N, M)`, U; :math:`(2N, M)` if W is complex.
        bias: :math:`(N,)`, the bias inside f, or None.
        input_bias: :math:`(N,)`, c, or :math:`(2N,)`, or None.
        h0: :math:`(N,)`, or :math:`(2N,)`, or None.
    Raises:
        ValueError: If the nonlinearity is unknown, or is not defined on complex states.
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
        h0_init: Initializer | None,
        output: Literal["real_imag", "real"],
    ) -> None:
        f = look_up(nonlinearity)
        made = make_unseen(constraint, hidden_size)
        if made.is_complex and not f.takes_complex:
            raise ValueError(
                f"expected modrelu or identity, as {type(made).__name__} is complex, "
                f"got {nonlinearity!r}"
            )
        if output not in ("real_imag", "real"):
            raise ValueError(f"expected output to be 'real_imag' or 'real', got {output!r}")
        super().__init__(
            input_size,
            hidden_size,
            1,
            trainable_h0=trainable_h0,
            h0_init=h0_init,
            state_size=2 * hidden_size if made.is_complex else None,
            output_size=hidden_size if output == "real" else None,
        )
        self.nonlinearity = nonlinearity
        self.constraint = made
        self.input_init = input_init or (uniform_ if f.has_bias else fan_uniform_)
        self.bias_init = bias_init or zeros_
        self.input_bias_init = bias_init or fan_uniform_
        self.bias = Parameter(torch.empty(hidden_size)) if bias and f.has_bias else None
        with_input_bias = bias and not f.has_bias if input_bias is None else input_bias
        self.input_bias = Parameter(torch.empty(self.state_size)) if with_input_bias else None

    def constraints(self) -> list[Constraint]:
        return [self.constraint]

    def forward(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, S)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        backend: str | None = None,
    ) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
        W = self._typed(self.weight_hh)  # the constraint runs here and nowhere else
        typed = _as_complex if W.is_complex() else _as_real
        return elman(
            x,
            W,
            typed(h0),
            self.bias,
            U=typed(self.weight_ih.T).T,
            c=None if self.input_bias is None else typed(self.input_bias),
            nonlinearity=self.nonlinearity,
            batch_sizes=batch_sizes,
            reverse=reverse,
            backend=backend,
            **self.options(x),
        )

    def as_output(self, h: Tensor) -> Tensor:
        if not h.is_complex():
            return h
        return h.real if self.output_size == self.hidden_size else self.as_state(h)

    def as_state(self, h: Tensor) -> Tensor:
        return torch.cat([h.real, h.imag], dim=-1) if h.is_complex() else h

    def load_biases(self, bias_ih: Tensor, bias_hh: Tensor) -> None:
        if self.input_bias is not None:
            self.input_bias.copy_(bias_ih + bias_hh)

    def _reset(self, generator: Generator | None) -> None:
        self.input_init(self.weight_ih, generator=generator)
        self.constraint.reset(generator)
        if self.input_bias is not None:
            self.input_bias_init(self.input_bias, generator=generator)
        if self.bias is not None:
            self.bias_init(self.bias, generator=generator)


def _as_real(parts: Tensor) -> Tensor:
    return parts


def _as_complex(
    parts: Tensor,  # (..., 2N)
) -> Tensor:  # (..., N)
    real, imaginary = parts.chunk(2, dim=-1)
    return torch.complex(real, imaginary)
