"""The layers of the papers: constructors that only choose."""

import math
from functools import partial
from typing import Any, Literal

from eigenrnn.constraints import Exponential, Householder, ScaledCayley
from eigenrnn.errors import check_positive_integer
from eigenrnn.init import glorot_uniform_, kaiming_normal_, uniform_, zeros_
from eigenrnn.layers.rnn import RNN

__all__ = ["ORNN", "DtrivRNN", "ExpRNN", "ScoRNN"]


class ScoRNN(RNN):
    r"""Scaled Cayley orthogonal recurrent network: modReLU and W by the scaled Cayley transform.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad W = (I + A)^{-1} (I - A) D

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        num_layers: How many layers are stacked.
        negative: The number :math:`\rho` of entries -1 in D; half of N by default.
        start: ``"unit_circle"`` or ``"zero"``, see `ScaledCayley`.
        options: Everything else that `RNN` takes.
    Source:
        Helfrich, Willmott and Ye, ICML 2018. https://arxiv.org/abs/1707.09520 (departures: none).
    Example:
        >>> ScoRNN(input_size=2, hidden_size=170, negative=85)
        ScoRNN(
          2, 170, nonlinearity='modrelu'
          (directions): ModuleList(
            (0): Direction(
              (constraint): ScaledCayley(170, negative=85)
            )
          )
        )
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        negative: int | None = None,
        start: Literal["unit_circle", "zero"] = "unit_circle",
        **options: Any,
    ) -> None:
        constraint = partial(ScaledCayley, negative=negative, start=start)
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class ExpRNN(RNN):
    r"""Exponential recurrent network: modReLU and W by the exponential of a skew matrix.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad W = \exp(A)

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        num_layers: How many layers are stacked.
        start: ``"henaff"``, ``"cayley"`` or ``"haar"``, see `Exponential`.
        options: Everything else that `RNN` takes.
    Source:
        Lezcano-Casado and Martinez-Rubio, ICML 2019. https://arxiv.org/abs/1901.08428
        (departures: none).
    Example:
        >>> ExpRNN(2, 8, start="cayley").orthogonality_error() < 1e-6
        tensor([True])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        start: Literal["henaff", "cayley", "haar"] = "henaff",
        **options: Any,
    ) -> None:
        constraint = partial(Exponential, start=start)
        options = {"input_init": kaiming_normal_, "bias_init": uniform_} | options
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class DtrivRNN(RNN):
    r"""ExpRNN by dynamic trivialisation: the exponential's base follows W.

    .. math:: W = B \exp(A), \qquad B \leftarrow W,\; A \leftarrow 0
        \text{ after every } K \text{ optimiser steps}

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        num_layers: How many layers are stacked.
        period: The number K; `math.inf` sets the base once, at the start.
        start: ``"henaff"``, ``"cayley"`` or ``"haar"``, see `Exponential`.
        options: Everything else that `RNN` takes.
    Units:
        The period in optimiser steps.
    Source:
        Lezcano-Casado, NeurIPS 2019, algorithm 1. https://arxiv.org/abs/1909.09501 (departures:
        those of `Exponential`).
    Example:
        >>> DtrivRNN(2, 8, period=100).orthogonality_error() < 1e-6
        tensor([True])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        period: int | float = 100,
        start: Literal["henaff", "cayley", "haar"] = "henaff",
        **options: Any,
    ) -> None:
        constraint = partial(Exponential, start=start, period=period)
        options = {"input_init": kaiming_normal_, "bias_init": uniform_} | options
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class ORNN(RNN):
    r"""Orthogonal recurrent network by Householder reflections: leaky ReLU and W = H_1 ... H_m.

    .. math:: h_t = f(U x_t + b + W h_{t-1}), \qquad f(z) = \max(z, z / 10)

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        num_layers: How many layers are stacked.
        reflections: The number m; N by default.
        projected: False takes the released code's gradient, see `Householder`.
        options: Everything else that `RNN` takes.
    Source:
        Mhammedi, Hellicar, Rahman and Bailey, ICML 2017. https://arxiv.org/abs/1612.00188
        (departures: those of `Householder`).
    Example:
        >>> ORNN(2, 8, reflections=4).orthogonality_error() < 1e-5
        tensor([True])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        reflections: int | None = None,
        projected: bool = True,
        **options: Any,
    ) -> None:
        check_positive_integer("hidden_size", hidden_size)
        constraint = partial(Householder, reflections=reflections, projected=projected)
        h0_init = partial(uniform_, bound=math.sqrt(3 / (2 * hidden_size)))
        chosen = {"nonlinearity": "leaky_relu_0.1", "trainable_h0": True, "h0_init": h0_init}
        options = {**chosen, "input_init": glorot_uniform_, "bias_init": zeros_, **options}
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)
