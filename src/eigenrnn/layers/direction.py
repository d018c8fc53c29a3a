"""One layer of a recurrent network, run in one direction."""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints import Constraint
from eigenrnn.init import Initializer, fan_uniform_, uniform_, zeros_
from eigenrnn.layers.abstract_direction import AbstractDirection, make_unseen
from eigenrnn.linalg import at_least_float32
from eigenrnn.nonlinearities import nonlinearity as look_up
from eigenrnn.ops import elman

__all__ = ["Direction"]


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
        input_bias_init: The start of c, in place; that of `bias_init` by default.
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
        input_bias_init: Initializer | None,
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
        self.input_bias_init = input_bias_init or bias_init or fan_uniform_
        self.bias = Parameter(torch.empty(hidden_size)) if bias and f.has_bias else None
        with_input_bias = bias and not f.has_bias if input_bias is None else input_bias
        self.input_bias = Parameter(torch.empty(self.state_size)) if with_input_bias else None

    def constraints(self) -> list[Constraint]:
        return [self.constraint]

    def forward(  # noqa: PLR0913, what all directions take, and an output map
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, S)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        backend: str | None = None,
        last_only: bool = False,
        V: Tensor | None = None,  # (K, N)
        d: Tensor | None = None,  # (K,)
    ) -> tuple[Tensor, Tensor]:  # (T, B, N) or (T, B, K), (B, N)
        W = self._typed(self.weight_hh)  # the constraint runs here and nowhere else
        typed = _as_complex if W.is_complex() else _as_real
        bias = self.bias
        if W.is_complex():
            x = x.to(at_least_float32(x.dtype))
            bias = None if bias is None else bias.to(at_least_float32(bias.dtype))
        return elman(
            x,
            W,
            typed(h0),
            bias,
            U=typed(self.weight_ih.T).T,
            c=None if self.input_bias is None else typed(self.input_bias),
            V=V,
            d=d,
            nonlinearity=self.nonlinearity,
            batch_sizes=batch_sizes,
            reverse=reverse,
            backend=backend,
            last_only=last_only,
            **self.options(x),
        )

    def reads_out(self) -> bool:
        return not self.constraint.is_complex

    def as_output(self, h: Tensor) -> Tensor:
        if not h.is_complex():
            return h
        if self.output_size == self.hidden_size:
            return h.real.to(self.weight_ih.dtype)
        return self.as_state(h)

    def as_state(self, h: Tensor) -> Tensor:
        if not h.is_complex():
            return h
        return torch.cat([h.real, h.imag], dim=-1).to(self.weight_ih.dtype)

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
    real, imaginary = parts.to(at_least_float32(parts.dtype)).chunk(2, dim=-1)
    return torch.complex(real, imaginary)
