"""One layer of a gated recurrent network, run in one direction."""

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints import Constraint
from eigenrnn.init import Initializer, fan_uniform_, zeros_
from eigenrnn.layers.abstract_direction import AbstractDirection, make_unseen
from eigenrnn.nonlinearities import nonlinearity as look_up
from eigenrnn.ops import gru

__all__ = ["GatedDirection"]


class GatedDirection(AbstractDirection):
    r"""One gated layer in one direction: three input maps, recurrent matrices and their biases.

    .. math::
        r_t = \sigma(U_r x_t + b_r + W_r h_{t-1}), \qquad u_t = \sigma(U_u x_t + b_u + W_u h_{t-1})

    Candidate and state follow as in `GRU`.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        reset: A function of N that makes the constraint of :math:`W_r`.
        update: Likewise of :math:`W_u`.
        candidate: Likewise of :math:`W_c`.
        nonlinearity: The name of f.
        bias: Whether the gates have biases, and the candidate one: inside modReLU, which owns one,
            else :math:`b_c`.
        reset_after: Whether the reset comes after :math:`W_c`.
        update_keeps: Whether an update gate of one keeps the state.
        trainable_h0: Whether the state before the first step is trained.
        input_init: The start of :math:`U_r` and :math:`U_u`, in place.
        candidate_init: The start of :math:`U_c`; `input_init` by default.
        reset_bias_init: The start of :math:`b_r`.
        update_bias_init: The start of :math:`b_u`.
        bias_init: The start of the bias inside f.
        h0_init: The start of the trained state.
    Shape:
        weight_ih: :math:`(3 N, M)`, :math:`U_r, U_u, U_c`, one below the other.
        gate_bias: :math:`(2 N,)`, :math:`b_r` and :math:`b_u`, or None.
        input_bias: :math:`(N,)`, :math:`b_c`, or None.
        recurrent_bias: :math:`(N,)`, the bias beside :math:`W_c`, or None.
        bias: :math:`(N,)`, the bias inside f, or None.
        h0: :math:`(N,)`, or None.
    Raises:
        ValueError: If the nonlinearity is unknown, or a constraint gives complex matrices.
        TypeError: If a function does not make a `Constraint`.
    """

    def __init__(  # noqa: PLR0913, it holds what GRU was given
        self,
        input_size: int,
        hidden_size: int,
        *,
        reset: Callable[[int], Constraint],
        update: Callable[[int], Constraint],
        candidate: Callable[[int], Constraint],
        nonlinearity: str,
        bias: bool,
        reset_after: bool,
        update_keeps: bool,
        trainable_h0: bool,
        input_init: Initializer | None,
        candidate_init: Initializer | None,
        reset_bias_init: Initializer | None,
        update_bias_init: Initializer | None,
        bias_init: Initializer | None,
        h0_init: Initializer | None,
    ) -> None:
        f = look_up(nonlinearity)
        super().__init__(input_size, hidden_size, 3, trainable_h0=trainable_h0, h0_init=h0_init)
        self.nonlinearity = nonlinearity
        self.reset_after = reset_after
        self.update_keeps = update_keeps
        self.reset_gate = _make_real("reset", reset, hidden_size)
        self.update_gate = _make_real("update", update, hidden_size)
        self.candidate = _make_real("candidate", candidate, hidden_size)
        self.input_init = input_init or fan_uniform_
        self.candidate_init = candidate_init or self.input_init
        self.reset_bias_init = reset_bias_init or fan_uniform_
        self.update_bias_init = update_bias_init or fan_uniform_
        self.bias_init = bias_init or zeros_
        N, outside = hidden_size, bias and not f.has_bias
        self.gate_bias = _vector(2 * N, bias)
        self.input_bias = _vector(N, outside)
        self.recurrent_bias = _vector(N, outside and reset_after)
        self.bias = _vector(N, bias and f.has_bias)

    def constraints(self) -> list[Constraint]:
        return [self.reset_gate, self.update_gate, self.candidate]

    def forward(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, N)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        backend: str | None = None,
        last_only: bool = False,
    ) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
        W = self._typed(self.weight_hh)  # the constraints run here and nowhere else
        return gru(
            x,
            W,
            h0,
            self.bias,
            self.recurrent_bias,
            U=self.weight_ih,
            c=self._biases(),
            nonlinearity=self.nonlinearity,
            reset_after=self.reset_after,
            update_keeps=self.update_keeps,
            batch_sizes=batch_sizes,
            reverse=reverse,
            backend=backend,
            last_only=last_only,
            **self.options(x),
        )

    def load_biases(self, bias_ih: Tensor, bias_hh: Tensor) -> None:
        if self.gate_bias is None or self.input_bias is None or self.recurrent_bias is None:
            return
        N = self.hidden_size
        self.gate_bias.copy_((bias_ih + bias_hh)[: 2 * N])
        self.input_bias.copy_(bias_ih[2 * N :])
        self.recurrent_bias.copy_(bias_hh[2 * N :])

    def _biases(self) -> Tensor | None:  # (3 N,)
        """Return the biases that go with the inputs."""
        if self.gate_bias is None:
            return None
        zero = self.gate_bias.new_zeros(self.hidden_size)  # where f owns the candidate's
        return torch.cat([self.gate_bias, zero if self.input_bias is None else self.input_bias])

    def _reset(self, generator: Generator | None) -> None:
        *gates, candidate = self.weight_ih.detach().split(self.hidden_size)
        for U in gates:
            self.input_init(U, generator=generator)
        self.candidate_init(candidate, generator=generator)
        for constraint in self.constraints():
            constraint.reset(generator)
        if self.gate_bias is not None:
            reset, update = self.gate_bias.detach().split(self.hidden_size)
            self.reset_bias_init(reset, generator=generator)
            self.update_bias_init(update, generator=generator)
        for bias in (self.input_bias, self.recurrent_bias):
            if bias is not None:
                fan_uniform_(bias, generator=generator)
        if self.bias is not None:
            self.bias_init(self.bias, generator=generator)


def _vector(size: int, wanted: bool) -> Parameter | None:
    return Parameter(torch.empty(size)) if wanted else None


def _make_real(gate: str, make: Callable[[int], object], size: int) -> Constraint:
    """Make the constraint of a gate.

    Raises:
        ValueError: If it gives complex matrices.
    """
    made = make_unseen(make, size)
    if made.is_complex:
        raise ValueError(
            f"expected a set of real matrices for {gate}, as gates need real states, got complex "
            f"{made}; use RNN for complex states"
        )
    return made
