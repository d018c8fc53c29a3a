"""The gated layers of published papers: each is `GRU` with constraints and an initialisation."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Literal, Unpack

from eigenrnn.constraints import Constraint, Givens, NeumannCayley, Unconstrained
from eigenrnn.errors import check_positive_integer
from eigenrnn.init import constant_, glorot_uniform_, kaiming_uniform_, uniform_, zeros_
from eigenrnn.layers.gru import GATES, GRU
from eigenrnn.layers.options import GRUOptions

__all__ = ["GORU", "NCGRU"]


_NC_GRU_WEIGHTS = {
    # that of the gates as He initialisation with M + N inputs
    "weight_ih": (glorot_uniform_, glorot_uniform_, kaiming_uniform_),
    "gate_bias": zeros_,
    "bias": partial(uniform_, bound=0.1),
}


class NCGRU(GRU):
    r"""Neumann-Cayley GRU: some of the three recurrent matrices are orthogonal.

    .. math::
        r_t &= \sigma(U_r x_t + b_r + W_r h_{t-1}), \qquad
        u_t = \sigma(U_u x_t + b_u + W_u h_{t-1}) \\
        c_t &= \operatorname{modReLU}(U_c x_t + W_c (r_t \odot h_{t-1})), \qquad
        h_t = (1 - u_t) \odot h_{t-1} + u_t \odot c_t

    The default, with an orthogonal :math:`W_c`, is the paper's NC-GRU(U_c); with two orthogonal
    matrices it is NC-GRU(U_r, U_c). The paper writes W for the input maps and U for the recurrent
    matrices. Use it when a task needs gates as well as a long memory.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        num_layers: The number of stacked layers.
        orthogonal: The gates with an orthogonal matrix, out of ``"reset"``, ``"update"`` and
            ``"candidate"``.
        negative: The number :math:`\rho` of entries -1 in D; half of N by default.
        matrix_init: The initialisation of A, ``"unit_circle"`` or ``"zero"``; see `ScaledCayley`.
        order: The order of the Neumann series; see `NeumannCayley`.
        reset_every: The number of optimiser steps between two exact inversions.
        max_error: The orthogonality error above which the inverse is also computed exactly.
        gradient_rate: None updates the stored inverse by the actual change of A. A number updates
            it as if A had changed by this number times the gradient, as in the released code. See
            `NeumannCayley`.
        options: Further keyword arguments of `GRU`.
    Raises:
        ValueError: If a name in `orthogonal` is not that of a gate.
    Source:
        Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022, equations 19 and 20.
        https://arxiv.org/abs/2208.06496 (departures: the paper gives only the
        initialisation of A. All other weights are initialised as in the released TensorFlow cell,
        with gate matrices from :math:`U(-a, a)`, :math:`a^2 = 6 / (M + N)`. The departures of
        `NeumannCayley` also apply. The released code computes another formula).
    Example:
        >>> layer = NCGRU(2, 8, orthogonal=("reset", "candidate"), negative=3)
        >>> layer.constrained_gates, layer.orthogonality_error() < 1e-5
        (['reset', 'candidate'], tensor([[True, True]]))
    """

    sets = (NeumannCayley, Unconstrained)
    published = _NC_GRU_WEIGHTS
    published_options: ClassVar[GRUOptions] = {
        "nonlinearity": "modrelu",
        "reset_after": False,
        "update_keeps": False,
    }

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        orthogonal: Sequence[str] = ("candidate",),
        negative: int | None = None,
        matrix_init: Literal["unit_circle", "zero"] = "unit_circle",
        order: int | None = 2,
        reset_every: int = 50,
        max_error: float = 0.01,
        gradient_rate: float | None = None,
        **options: Unpack[GRUOptions],
    ) -> None:
        if isinstance(orthogonal, str) or not set(orthogonal) <= set(GATES):
            raise ValueError(f"expected orthogonal to be gates out of {GATES}, got {orthogonal!r}")
        check_positive_integer("input_size", input_size)
        check_positive_integer("hidden_size", hidden_size)
        orthogonal_set = partial(
            NeumannCayley,
            negative=negative,
            init=matrix_init,
            order=order,
            reset_every=reset_every,
            max_error=max_error,
            gradient_rate=gradient_rate,
        )
        # the bound of one Glorot kernel for inputs and states
        gate_init = partial(uniform_, bound=math.sqrt(6 / (input_size + hidden_size)))
        free_set = partial(Unconstrained, init=gate_init)
        constraints: dict[str, Callable[[int], Constraint]] = dict.fromkeys(GATES, free_set)
        for gate in orthogonal:
            constraints[gate] = orthogonal_set
        options = NCGRU.published_options | options
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            reset=constraints["reset"],
            update=constraints["update"],
            candidate=constraints["candidate"],
            **options,
        )


_GORU_WEIGHTS = {
    "weight_ih": uniform_,
    "gate_bias": (partial(constant_, value=2.0), glorot_uniform_),
    "bias": partial(constant_, value=0.011),
}


class GORU(GRU):
    r"""Gated orthogonal recurrent unit: a GRU whose candidate rotates the state.

    .. math::
        r_t &= \sigma(U_r x_t + b_r + W_r h_{t-1}), \qquad
        g_t = \sigma(U_g x_t + b_g + W_g h_{t-1}) \\
        c_t &= \operatorname{modReLU}(U_c x_t + r_t \odot (Q h_{t-1})), \qquad
        h_t = g_t \odot h_{t-1} + (1 - g_t) \odot c_t

    Q is an orthogonal product of layers of plane rotations, the real case of `EURNN`. The reset
    gate is applied after Q. Use it when a task needs a long memory that can also forget.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units; must be even.
        num_layers: The number of stacked layers.
        capacity: The number of layers of rotations; None uses the default of `Givens`.
        style: ``"tunable"``, or ``"fft"`` for :math:`\log_2 N` layers; see `Givens`.
        options: Further keyword arguments of `GRU`.
    Raises:
        ValueError: If N is odd in the tunable style or not a power of two in the FFT style, or
            `capacity` differs from the number of layers of the FFT style.
    Source:
        Jing et al., Neural Computation 31, 2019. https://arxiv.org/abs/1706.02761 (departures: the
        code's modReLU adds 0.001 to the modulus and initialises its bias to 0.01; here the bias is
        initialised to 0.011, which is the same. The code's default is the FFT style. See also
        `Givens`).
    Example:
        >>> layer = GORU(2, 8, capacity=4)
        >>> layer.constrained_gates, layer.orthogonality_error() < 1e-5
        (['candidate'], tensor([[True]]))
    """

    sets = (Givens, Unconstrained)
    published = _GORU_WEIGHTS
    published_options: ClassVar[GRUOptions] = {"nonlinearity": "modrelu"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        capacity: int | None = None,
        style: Literal["tunable", "fft"] = "tunable",
        **options: Unpack[GRUOptions],
    ) -> None:
        small = partial(Unconstrained, init=uniform_)
        options = GORU.published_options | options
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            reset=small,
            update=small,
            candidate=partial(Givens, layers=capacity, style=style),
            **options,
        )
