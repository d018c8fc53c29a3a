"""The papers' layers whose matrices need not be orthogonal: constructors that only choose."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch import Generator, Tensor

from eigenrnn.constraints import (
    BlockTriangular,
    BoundedSVD,
    Constraint,
    ScaledCayley,
    Schur,
    SpectralRadius,
    Unconstrained,
)
from eigenrnn.init import (
    Initializer,
    fan_uniform_,
    glorot_normal_,
    glorot_uniform_,
    identity_,
    orthogonal_,
    uniform_,
    zeros_,
)
from eigenrnn.layers.rnn import RNN

__all__ = ["ENRNN", "IRNN", "NnRNN", "RNNGlorot", "RNNOrth", "SpectralRNN"]

# what both baselines of Kerg et al. start with, beside W
_KERG = {
    "input_init": glorot_normal_,
    "input_bias": True,
    "bias_init": uniform_,
    "input_bias_init": fan_uniform_,
}


class NnRNN(RNN):
    r"""Non-normal recurrent network: modReLU and W by its Schur form.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad W = P \Theta P^\top

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units, even.
        num_layers: How many layers are stacked.
        gamma_penalty: The weight :math:`\delta` of the pull of the moduli towards one.
        decay: The weight of the pull of the triangle towards zero, as a penalty.
        gamma: ``"trained"``, or ``"clamped"`` at `gamma_value`.
        gamma_value: Where every modulus starts or stays; the paper clamps at 1 and at 0.958.
        in_block: Whether the triangle has entries inside of the 2 x 2 blocks; it has by default.
        orthogonal: A function of the size that makes the constraint of P; by default
            `Exponential`.
        options: Everything else that `RNN` takes.
    Source:
        Kerg et al., NeurIPS 2019. https://arxiv.org/abs/1905.12080 (departures: those of `Schur`).
    Example:
        >>> NnRNN(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    def __init__(  # noqa: PLR0913, the choices of the paper
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        gamma_penalty: float = 1.0,
        decay: float = 0.0,
        gamma: Literal["trained", "clamped"] = "trained",
        gamma_value: float = 1.0,
        in_block: bool | None = None,
        orthogonal: Callable[[int], Constraint] | None = None,
        **options: Any,
    ) -> None:
        constraint = partial(
            Schur,
            gamma_penalty=gamma_penalty,
            decay=decay,
            gamma=gamma,
            gamma_value=gamma_value,
            in_block=in_block,
            orthogonal=orthogonal,
        )
        options = {"input_init": glorot_normal_, "bias_init": uniform_, **options}
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class ENRNN(RNN):
    r"""Eigenvalue-normalised recurrent network: a long memory that hears a short one.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad
        W = \begin{bmatrix} W_L & W_C \\ 0 & W_S \end{bmatrix}

    :math:`W_L` is orthogonal by the scaled Cayley transform, :math:`W_S` has spectral radius one
    at most.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units of both memories together.
        num_layers: How many layers are stacked.
        short_size: The number of units of the short memory, the last ones; half of N by default.
        negative: The number of entries -1 of the long memory's D; half of its units by default.
        start: The start of :math:`W_L`, ``"unit_circle"`` or ``"zero"``, see `ScaledCayley`.
        coupling: Whether the long memory hears the short one.
        coupling_init: The start of :math:`W_C`, in place.
        epsilon: Added to the spectral radius that :math:`W_S` is divided by.
        options: Everything else that `RNN` takes.
    Source:
        Helfrich and Ye, AAAI 2020. https://arxiv.org/abs/1911.07964 (departures: those of
        `SpectralRadius` and `BlockTriangular`).
    Example:
        >>> layer = ENRNN(2, 160, short_size=64, negative=29)
        >>> layer.spectrum().abs().max() < 1 + 1e-5
        tensor(True)
    """

    def __init__(  # noqa: PLR0913, the choices of the paper
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        short_size: int | None = None,
        negative: int | None = None,
        start: Literal["unit_circle", "zero"] = "unit_circle",
        coupling: bool = True,
        coupling_init: Initializer = glorot_uniform_,
        epsilon: float = 0.0,
        **options: Any,
    ) -> None:
        constraint = partial(
            BlockTriangular,
            long=partial(ScaledCayley, negative=negative, start=start),
            short=partial(SpectralRadius, epsilon=epsilon),
            short_size=short_size,
            coupling=coupling,
            coupling_init=coupling_init,
        )
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class SpectralRNN(RNN):
    r"""Spectral recurrent network: ReLU and W with singular values near one.

    .. math:: h_t = \operatorname{ReLU}(U x_t + b + W h_{t-1}), \qquad
        \sigma_i(W) \in [1 - r, 1 + r]

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        num_layers: How many layers are stacked.
        reflections: The number of reflections on either side, see `BoundedSVD`.
        margin: The number r.
        options: Everything else that `RNN` takes.
    Source:
        Zhang, Lei and Dhillon, ICML 2018. https://arxiv.org/abs/1803.09327 (departures: those of
        `BoundedSVD`).
    Example:
        >>> SpectralRNN(2, 8, reflections=4)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        reflections: int | None = None,
        margin: float = 0.01,
        **options: Any,
    ) -> None:
        constraint = partial(BoundedSVD, reflections=reflections, margin=margin)
        chosen = {"nonlinearity": "relu", "input_init": glorot_uniform_, "bias_init": zeros_}
        options = {**chosen, **options}
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class IRNN(RNN):
    r"""Identity-initialised recurrent network: ReLU and a free W that starts at the identity.

    .. math:: h_t = \operatorname{ReLU}(U x_t + b + W h_{t-1}), \qquad W_0 = \lambda I

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        num_layers: How many layers are stacked.
        scale: The number :math:`\lambda`.
        options: Everything else that `RNN` takes.
    Source:
        Le, Jaitly and Hinton, 2015. https://arxiv.org/abs/1504.00941 (departures: none).
    Example:
        >>> IRNN(2, 3).recurrent_matrices()[0].diagonal().tolist()
        [1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        scale: float = 1.0,
        **options: Any,
    ) -> None:
        constraint = partial(Unconstrained, init=partial(identity_, scale=scale))
        chosen = {"nonlinearity": "relu", "input_init": _small_normal_, "bias_init": zeros_}
        options = {**chosen, **options}
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class RNNOrth(RNN):
    r"""Recurrent network with a free W that starts orthogonal, nnRNN's baseline.

    .. math:: h_t = \operatorname{modReLU}(U x_t + c + W h_{t-1}), \qquad W_0^\top W_0 = I

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        num_layers: How many layers are stacked.
        options: Everything else that `RNN` takes.
    Source:
        Kerg et al., NeurIPS 2019, appendix A. https://arxiv.org/abs/1905.12080 (departures: none).
    Example:
        >>> RNNOrth(2, 8).orthogonality_error() < 1e-5
        tensor([True])
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, **options: Any
    ) -> None:
        constraint = partial(Unconstrained, init=orthogonal_)
        options = {**_KERG, **options}
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class RNNGlorot(RNN):
    r"""Recurrent network with a free W that starts as Glorot does, nnRNN's baseline "RNN".

    .. math:: h_t = \operatorname{modReLU}(U x_t + c + W h_{t-1}), \qquad
        W_0 \sim \mathcal N(0, 1 / N)

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        num_layers: How many layers are stacked.
        options: Everything else that `RNN` takes.
    Source:
        Kerg et al., NeurIPS 2019, appendix A. https://arxiv.org/abs/1905.12080 (departures: none;
        its released code cannot start W so).
    Example:
        >>> RNNGlorot(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, **options: Any
    ) -> None:
        constraint = partial(Unconstrained, init=glorot_normal_)
        options = {**_KERG, **options}
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


@torch.no_grad()
def _small_normal_(weight: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Fill with draws from N(0, 0.001), by standard deviation, as section 4 of the paper."""
    return weight.normal_(0, 0.001, generator=generator)
