"""The complex layers of the papers: constructors that only choose."""

import math
from functools import partial
from typing import Any, Literal

import torch

from eigenrnn.constraints import FourierProduct, Givens, MovingCayley, ScaledCayley
from eigenrnn.errors import check_positive_integer
from eigenrnn.init import glorot_uniform_, uniform_
from eigenrnn.layers.rnn import RNN

__all__ = ["EURNN", "URNN", "FullCapacityURNN", "ScuRNN"]


def _trained_h0(hidden_size: int) -> dict[str, Any]:
    """Choose the trained first state of uRNN: 2N real numbers of variance 1 / (2N).

    Raises:
        ValueError: If `hidden_size` is not a positive integer.
    """
    check_positive_integer("hidden_size", hidden_size)
    bound = math.sqrt(3 / (2 * hidden_size))
    return {"trainable_h0": True, "h0_init": partial(uniform_, bound=bound)}


class ScuRNN(RNN):
    r"""Scaled Cayley unitary recurrent network: modReLU, and W unitary with trained phases.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad
        W = (I + A)^{-1} (I - A) \operatorname{diag}(e^{i \theta}), \qquad A = -A^*

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of complex units.
        num_layers: How many layers are stacked.
        start: ``"unit_circle"`` or ``"zero"``, see `ScaledCayley`.
        options: Everything else that `RNN` takes.
    Shape:
        output: :math:`(T, B, 2N)`, real parts first; with ``output="real"`` :math:`(T, B, N)`.
        h_n: :math:`(1, B, 2N)`.
    Source:
        Maduranga, Helfrich and Ye, AAAI 2019. https://arxiv.org/abs/1811.04142 (departures: no
        epsilon in modReLU, as in the paper but not its code; those of `ScaledCayley`).
    Example:
        >>> ScuRNN(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 16])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        start: Literal["unit_circle", "zero"] = "unit_circle",
        **options: Any,
    ) -> None:
        constraint = partial(ScaledCayley, dtype=torch.complex64, start=start)
        chosen = {"trainable_h0": True, "h0_init": uniform_, "input_init": glorot_uniform_}
        options = {**chosen, "bias_init": uniform_, **options}
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class URNN(RNN):
    r"""Unitary evolution recurrent network: modReLU and W a product of simple unitary factors.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad
        W = D_3 R_2 \mathcal F^{-1} D_2 \Pi R_1 \mathcal F D_1

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of complex units.
        num_layers: How many layers are stacked.
        permutation_seed: The seed of :math:`\Pi`, see `FourierProduct`.
        options: Everything else that `RNN` takes.
    Shape:
        output: :math:`(T, B, 2N)`, real parts first; with ``output="real"`` :math:`(T, B, N)`.
        h_n: :math:`(1, B, 2N)`.
    Source:
        Arjovsky, Shah and Bengio, ICML 2016. https://arxiv.org/abs/1511.06464 (departures: no
        epsilon in modReLU; those of `FourierProduct`).
    Example:
        >>> URNN(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 16])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        permutation_seed: int = 1234,
        **options: Any,
    ) -> None:
        constraint = partial(FourierProduct, permutation_seed=permutation_seed)
        chosen = {**_trained_h0(hidden_size), "input_init": glorot_uniform_}
        options = {**chosen, "bias_init": uniform_, **options}
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class FullCapacityURNN(RNN):
    r"""Full-capacity unitary recurrent network: modReLU and W any unitary matrix.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad
        W \leftarrow (I + \tfrac{\eta}{2} B)^{-1} (I - \tfrac{\eta}{2} B)\, W

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of complex units.
        num_layers: How many layers are stacked.
        start: ``"urnn"`` or ``"haar"``, see `MovingCayley`.
        options: Everything else that `RNN` takes.
    Shape:
        output: :math:`(T, B, 2N)`, real parts first; with ``output="real"`` :math:`(T, B, N)`.
        h_n: :math:`(1, B, 2N)`.
    Source:
        Wisdom, Powers, Hershey, Le Roux and Atlas, NeurIPS 2016. https://arxiv.org/abs/1611.00035
        (departures: no epsilon in modReLU, unlike the code; those of `MovingCayley`).
    Example:
        >>> FullCapacityURNN(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 16])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        start: Literal["urnn", "haar"] = "urnn",
        **options: Any,
    ) -> None:
        constraint = partial(MovingCayley, start=start, dtype=torch.complex64)
        chosen = {**_trained_h0(hidden_size), "input_init": glorot_uniform_}
        options = {**chosen, "bias_init": uniform_, **options}
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class EURNN(RNN):
    r"""Efficient unitary recurrent network: modReLU and W a product of layers of rotations.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad W = D F_L \cdots F_1

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units, complex ones unless `dtype` is real.
        num_layers: How many layers are stacked.
        capacity: The number L of layers of rotations; None takes the default of `Givens`.
        style: ``"tunable"`` or ``"fft"``, see `Givens`.
        dtype: The type of W: complex, or real for real units; one of double precision makes the
            whole layer one.
        options: Everything else that `RNN` takes.
    Shape:
        output: :math:`(T, B, N)`, the real parts; with ``output="real_imag"``
        :math:`(T, B, 2N)`.
        h_n: :math:`(1, B, 2N)`, or :math:`(1, B, N)` if the units are real.
    Source:
        Jing et al., ICML 2017. https://arxiv.org/abs/1612.05231 (departures: no epsilon in
        modReLU, which in the released real code adds 0.01 to every unit at each step, as
        ``bias_init=partial(constant_, value=0.01)`` does; those of `Givens`).
    Example:
        >>> EURNN(2, 8, capacity=4)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        capacity: int | None = None,
        style: Literal["tunable", "fft"] = "tunable",
        dtype: torch.dtype = torch.complex64,
        **options: Any,
    ) -> None:
        constraint = partial(Givens, layers=capacity, style=style, dtype=dtype)
        double = dtype in (torch.float64, torch.complex128)
        options = {"output": "real", "dtype": torch.float64 if double else None, **options}
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)
