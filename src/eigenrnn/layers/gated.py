"""The gated layers of the papers: constructors that only choose."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Generator, Tensor

from eigenrnn.constraints import Constraint, Givens, NeumannCayley, Unconstrained
from eigenrnn.constraints.borrowed_inverse import BorrowingCayley, LendingCayley
from eigenrnn.errors import check_positive_integer
from eigenrnn.init import constant_, fan_uniform_, glorot_uniform_, uniform_, zeros_
from eigenrnn.layers.gru import GRU

__all__ = ["GORU", "NCGRU"]

_GATES = ("reset", "update", "candidate")


class NCGRU(GRU):
    r"""Neumann-Cayley orthogonal GRU: some of the recurrent matrices are orthogonal.

    .. math::
        r_t &= \sigma(U_r x_t + b_r + W_r h_{t-1}), \qquad
        u_t = \sigma(U_u x_t + b_u + W_u h_{t-1}) \\
        c_t &= \operatorname{modReLU}(U_c x_t + W_c (r_t \odot h_{t-1})), \qquad
        h_t = (1 - u_t) \odot h_{t-1} + u_t \odot c_t

    The paper writes W for the input maps and U for the recurrent matrices. As published with one
    orthogonal matrix, NC-GRU(U_c), by default; with two it is NC-GRU(U_r, U_c).

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        num_layers: How many layers are stacked.
        orthogonal: Which of the matrices of ``"reset"``, ``"update"`` and ``"candidate"`` are.
        negative: The number :math:`\rho` of entries -1 in D; half of N by default.
        start: ``"unit_circle"`` or ``"zero"``, see `ScaledCayley`.
        order: The order of the Neumann series, see `NeumannCayley`.
        reset_every: The number of optimiser steps between two exact inversions.
        max_error: The inverse is also exact where the orthogonality error would pass this.
        gradient_rate: None updates the inverse by what the optimiser did; the released code by the
            learning rate times the gradient, see `NeumannCayley`.
        as_released: None computes the paper's formulas. The released code differs from them and
            from itself: ``"tensorflow"`` (parenthesis and denoise) updates by
            :math:`h_t = u_t \odot h_{t-1} + (1 - u_t) \odot c_t`; ``"torch"`` (characters)
            does, and takes :math:`r_t \odot (W_c h_{t-1})` for the product in the candidate.
        faithful_bugs: Whether two orthogonal matrices, of ``("reset", "candidate")``, are trained
            as by a mistake of the released code: the gradient of :math:`W_r` trains both, and
            :math:`W_r` is made with the stored inverse of :math:`W_c`. It is far from orthogonal
            between two exact inversions.
        options: Everything else that `GRU` takes.
    Raises:
        ValueError: If `orthogonal` names no gate, `as_released` is unknown, or `faithful_bugs` is
            asked for with other gates than the two.
    Source:
        Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022, equations 19 and 20.
        https://arxiv.org/abs/2208.06496 (departures: starts, of which the paper gives A alone, are
        those of the released TensorFlow cell, the gates' matrices from :math:`U(-a, a)` with
        :math:`a^2 = 6 / (M + N)`, or of the PyTorch cell where `as_released` says so, with one
        bias a gate in place of two; both of its orthogonal matrices get their own gradient, where
        the code is as with ``faithful_bugs=True``; the PyTorch code's main optimiser also steps W
        itself before A gets its gradient, which is not offered; those of `NeumannCayley`).
    Example:
        >>> layer = NCGRU(2, 8, orthogonal=("reset", "candidate"), negative=3)
        >>> layer.confined, layer.orthogonality_error() < 1e-5
        (['reset', 'candidate'], tensor([[True, True]]))
    """

    def __init__(  # noqa: PLR0913, the choices of the paper
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        orthogonal: Sequence[str] = ("candidate",),
        negative: int | None = None,
        start: Literal["unit_circle", "zero"] = "unit_circle",
        order: int | None = 2,
        reset_every: int = 50,
        max_error: float = 0.01,
        gradient_rate: float | None = None,
        as_released: Literal["tensorflow", "torch"] | None = None,
        faithful_bugs: bool = False,
        **options: Any,
    ) -> None:
        if isinstance(orthogonal, str) or not set(orthogonal) <= set(_GATES):
            raise ValueError(
                f"expected orthogonal to be gates out of {_GATES}, got {orthogonal!r}"
            )
        if as_released not in (None, "tensorflow", "torch"):
            raise ValueError(
                f"expected as_released to be 'tensorflow', 'torch' or None, got {as_released!r}"
            )
        if faithful_bugs and set(orthogonal) != {"reset", "candidate"}:
            raise ValueError(
                "expected orthogonal=('reset', 'candidate') with faithful_bugs, as the released "
                f"code has them, got {orthogonal!r}"
            )
        check_positive_integer("input_size", input_size)
        check_positive_integer("hidden_size", hidden_size)
        confined = partial(
            NeumannCayley,
            negative=negative,
            start=start,
            order=order,
            reset_every=reset_every,
            max_error=max_error,
            gradient_rate=gradient_rate,
        )
        # one kernel for inputs and states
        free = partial(uniform_, bound=math.sqrt(6 / (input_size + hidden_size)))
        starts = {
            "input_init": glorot_uniform_,  # for a square of M + N inputs it is He's
            "candidate_init": _he_uniform_,
            "reset_bias_init": zeros_,
            "update_bias_init": zeros_,
            "bias_init": partial(uniform_, bound=0.1),
        }
        if as_released == "torch":
            free, starts = fan_uniform_, {"candidate_init": uniform_}
        constraints: dict[str, Callable[[int], Constraint]] = {
            gate: confined if gate in orthogonal else partial(Unconstrained, init=free)
            for gate in _GATES
        }
        if faithful_bugs:
            constraints["reset"] = partial(BorrowingCayley, **confined.keywords)
            constraints["candidate"] = partial(LendingCayley, **confined.keywords)
        chosen = {
            "nonlinearity": "modrelu",
            "reset_after": as_released == "torch",
            "update_keeps": as_released is not None,
        }
        options = {**starts, **chosen, **options}
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            reset=constraints["reset"],
            update=constraints["update"],
            candidate=constraints["candidate"],
            **options,
        )
        for direction in self.all_directions():
            if isinstance(direction.reset_gate, BorrowingCayley):
                direction.reset_gate.borrow_from(cast("LendingCayley", direction.candidate))


class GORU(GRU):
    r"""Gated orthogonal recurrent unit: the candidate turns the state by an orthogonal matrix.

    .. math::
        r_t &= \sigma(U_r x_t + b_r + W_r h_{t-1}), \qquad
        g_t = \sigma(U_g x_t + b_g + W_g h_{t-1}) \\
        c_t &= \operatorname{modReLU}(U_c x_t + r_t \odot (Q h_{t-1})), \qquad
        h_t = g_t \odot h_{t-1} + (1 - g_t) \odot c_t

    Q is a product of layers of rotations, the real matrix of an EUNN. The reset comes after it.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units; even.
        num_layers: How many layers are stacked.
        capacity: The number of layers of rotations; None takes the default of `Givens`.
        style: ``"tunable"``, or ``"fft"`` for :math:`\log_2 N` layers, see `Givens`.
        options: Everything else that `GRU` takes.
    Raises:
        ValueError: If N is odd in the tunable or no power of two in the FFT style, or `capacity`
            not what the FFT style has.
    Source:
        Jing et al., Neural Computation 31, 2019. https://arxiv.org/abs/1706.02761 (departures: the
        code's modReLU adds 0.001 to the modulus and starts its bias at 0.01, for which the bias
        starts at 0.011 here; the code's default is the FFT style; those of `Givens`).
    Example:
        >>> layer = GORU(2, 8, capacity=4)
        >>> layer.confined, layer.orthogonality_error() < 1e-5
        (['candidate'], tensor([[True]]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        capacity: int | None = None,
        style: Literal["tunable", "fft"] = "tunable",
        **options: Any,
    ) -> None:
        small = partial(Unconstrained, init=uniform_)
        options = {
            "nonlinearity": "modrelu",
            "input_init": uniform_,
            "reset_bias_init": partial(constant_, value=2.0),
            "update_bias_init": glorot_uniform_,
            "bias_init": partial(constant_, value=0.011),
        } | options
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            reset=small,
            update=small,
            candidate=partial(Givens, layers=capacity, style=style),
            **options,
        )


@torch.no_grad()
def _he_uniform_(
    weight: Tensor,  # (N, M)
    *,
    generator: Generator | None = None,
) -> Tensor:
    bound = math.sqrt(6 / weight.shape[1])
    return weight.uniform_(-bound, bound, generator=generator)
