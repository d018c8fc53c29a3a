"""The RNNs of published papers: each class is `RNN` with a constraint and an initialisation."""

import math
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal, Unpack

import torch
from torch import Generator, Tensor

from eigenrnn.constraints import (
    BlockTriangular,
    BoundedSVD,
    Constraint,
    Exponential,
    FourierProduct,
    Givens,
    Householder,
    MovingCayley,
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
    kaiming_normal_,
    orthogonal_,
    uniform_,
    zeros_,
)
from eigenrnn.layers.options import RNNOptions
from eigenrnn.layers.rnn import RNN

__all__ = [
    "ENRNN",
    "EURNN",
    "ORNN",
    "URNN",
    "DtrivRNN",
    "ExpRNN",
    "FullCapacityURNN",
    "NnRNN",
    "RNNGlorot",
    "RNNOrth",
    "ScoRNN",
    "ScuRNN",
    "SpectralRNN",
]


class ScoRNN(RNN):
    r"""Scaled Cayley orthogonal RNN: W is orthogonal through the scaled Cayley transform.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad W = (I + A)^{-1} (I - A) D

    A is skew-symmetric and trained; D is diagonal with fixed entries 1 and -1. Because W is
    orthogonal, it neither shrinks nor amplifies gradients. Try this layer first when a task needs
    a memory of many time steps.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        num_layers: The number of stacked layers.
        negative: The number :math:`\rho` of entries -1 in D; half of N by default. The paper tunes
            it for each task.
        matrix_init: The initialisation of A, ``"unit_circle"`` or ``"zero"``; see `ScaledCayley`.
        options: Further keyword arguments of `RNN`.
    Source:
        Helfrich, Willmott and Ye, ICML 2018. https://arxiv.org/abs/1707.09520 (departures: none).
    Example:
        >>> ScoRNN(input_size=2, hidden_size=170, negative=85)
        ScoRNN(
          2, 170, nonlinearity='modrelu'
          (directions): ModuleList(
            (0): RNNDirection(
              (constraint): ScaledCayley(170, negative=85)
            )
          )
        )
    """

    sets = (ScaledCayley,)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        negative: int | None = None,
        matrix_init: Literal["unit_circle", "zero"] = "unit_circle",
        **options: Unpack[RNNOptions],
    ) -> None:
        constraint = partial(ScaledCayley, negative=negative, init=matrix_init)
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


@torch.no_grad()
def _small_(weight: Tensor, factor: float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill n numbers with uniform draws of variance factor / n."""
    # U(-b, b) has the variance b^2 / 3
    return uniform_(weight, math.sqrt(3 * factor / len(weight)), generator=generator)


_BIASES = dict.fromkeys(("bias", "input_bias"), uniform_)
_EXP_WEIGHTS = {"weight_ih": kaiming_normal_, **_BIASES}


class ExpRNN(RNN):
    r"""Exponential RNN: W is the matrix exponential of a skew-symmetric matrix.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad W = \exp(A)

    W reaches exactly the orthogonal matrices with determinant 1. Unlike `ScoRNN`, it has no
    `negative` to choose.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        num_layers: The number of stacked layers.
        matrix_init: The initialisation of W, ``"henaff"``, ``"cayley"`` or ``"haar"``;
            see `Exponential`.
        options: Further keyword arguments of `RNN`.
    Source:
        Lezcano-Casado and Martinez-Rubio, ICML 2019. https://arxiv.org/abs/1901.08428
        (departures: none).
    Example:
        >>> ExpRNN(2, 8, matrix_init="cayley").orthogonality_error() < 1e-6
        tensor([True])
    """

    sets = (Exponential,)
    published = _EXP_WEIGHTS

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        matrix_init: Literal["henaff", "cayley", "haar"] = "henaff",
        **options: Unpack[RNNOptions],
    ) -> None:
        constraint = partial(Exponential, init=matrix_init)
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class DtrivRNN(RNN):
    r"""ExpRNN with dynamic trivialisation: the base point of the exponential follows W.

    .. math:: W = B \exp(A), \qquad B \leftarrow W,\; A \leftarrow 0
        \text{ after every } K \text{ optimiser steps}

    Moving the base keeps A small, where the exponential distorts gradients least. Use it when
    `ExpRNN` trains for so long that A grows large.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        num_layers: The number of stacked layers.
        period: The number K of optimiser steps; `math.inf` sets the base once, at initialisation.
        matrix_init: The initialisation of W, ``"henaff"``, ``"cayley"`` or ``"haar"``;
            see `Exponential`.
        options: Further keyword arguments of `RNN`.
    Units:
        The period in optimiser steps.
    Source:
        Lezcano-Casado, NeurIPS 2019, algorithm 1. https://arxiv.org/abs/1909.09501 (departures:
        see `Exponential`).
    Example:
        >>> DtrivRNN(2, 8, period=100).orthogonality_error() < 1e-6
        tensor([True])
    """

    sets = (Exponential,)
    published = _EXP_WEIGHTS

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        period: int | float = 100,
        matrix_init: Literal["henaff", "cayley", "haar"] = "henaff",
        **options: Unpack[RNNOptions],
    ) -> None:
        constraint = partial(Exponential, init=matrix_init, period=period)
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


# those of oRNN, whose h0 the spectral RNN does not have
_ORNN_WEIGHTS = {"weight_ih": glorot_uniform_, "input_bias": zeros_, "h0": _small_}


class ORNN(RNN):
    r"""Orthogonal RNN by Householder reflections: W is a product of m reflections.

    .. math:: h_t = f(U x_t + b + W h_{t-1}), \qquad f(z) = \max(z, z / 10), \qquad
        W = H_1 \cdots H_m

    W is orthogonal for every m. With m = N it can reach every orthogonal matrix; a smaller m saves
    parameters and reaches fewer.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        num_layers: The number of stacked layers.
        reflections: The number m of reflections; N by default.
        options: Further keyword arguments of `RNN`.
    Source:
        Mhammedi, Hellicar, Rahman and Bailey, ICML 2017. https://arxiv.org/abs/1612.00188
        (departures: see `Householder`).
    Example:
        >>> ORNN(2, 8, reflections=4).orthogonality_error() < 1e-5
        tensor([True])
    """

    sets = (Householder,)
    published = _ORNN_WEIGHTS
    published_options: ClassVar[RNNOptions] = {
        "nonlinearity": "leaky_relu_0.1",
        "trainable_h0": True,
    }

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        reflections: int | None = None,
        **options: Unpack[RNNOptions],
    ) -> None:
        constraint = partial(Householder, reflections=reflections)
        options = ORNN.published_options | options
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


_UNITARY_WEIGHTS = {"weight_ih": glorot_uniform_, **_BIASES, "h0": uniform_}
_EVOLUTION_WEIGHTS = {**_UNITARY_WEIGHTS, "h0": partial(_small_, factor=1.0)}


class ScuRNN(RNN):
    r"""Scaled Cayley unitary RNN: W is unitary, and the phases in its scaling matrix are trained.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad
        W = (I + A)^{-1} (I - A) \operatorname{diag}(e^{i \theta}), \qquad A = -A^*

    This is `ScoRNN` with complex hidden states. Use it to avoid tuning `negative`: the trained
    :math:`\theta` takes its place.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of complex hidden units.
        num_layers: The number of stacked layers.
        matrix_init: The initialisation of A, ``"unit_circle"`` or ``"zero"``; see `ScaledCayley`.
        options: Further keyword arguments of `RNN`.
    Shape:
        output: :math:`(T, B, 2N)`, real parts first; with ``output="real"`` :math:`(T, B, N)`.
        h_n: :math:`(1, B, 2N)`.
    Source:
        Maduranga, Helfrich and Ye, AAAI 2019. https://arxiv.org/abs/1811.04142 (departures: none
        from the paper; its code adds an epsilon in modReLU. See also `ScaledCayley`).
    Example:
        >>> ScuRNN(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 16])
    """

    sets = (ScaledCayley,)
    published = _UNITARY_WEIGHTS
    published_options: ClassVar[RNNOptions] = {"trainable_h0": True}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        matrix_init: Literal["unit_circle", "zero"] = "unit_circle",
        **options: Unpack[RNNOptions],
    ) -> None:
        constraint = partial(ScaledCayley, dtype=torch.complex64, init=matrix_init)
        options = ScuRNN.published_options | options
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class URNN(RNN):
    r"""Unitary evolution RNN: W is a product of simple unitary factors.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad
        W = D_3 R_2 \mathcal F^{-1} D_2 \Pi R_1 \mathcal F D_1

    The factors are diagonal matrices of phases D, reflections R, the Fourier transform and a fixed
    permutation :math:`\Pi`. W has only 7N parameters, so it reaches few of the unitary matrices.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of complex hidden units.
        num_layers: The number of stacked layers.
        options: Further keyword arguments of `RNN`.
    Shape:
        output: :math:`(T, B, 2N)`, real parts first; with ``output="real"`` :math:`(T, B, N)`.
        h_n: :math:`(1, B, 2N)`.
    Source:
        Arjovsky, Shah and Bengio, ICML 2016. https://arxiv.org/abs/1511.06464 (departures: no
        epsilon in modReLU; see also `FourierProduct`).
    Example:
        >>> URNN(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 16])
    """

    sets = (FourierProduct,)
    published = _EVOLUTION_WEIGHTS
    published_options: ClassVar[RNNOptions] = {"trainable_h0": True}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        **options: Unpack[RNNOptions],
    ) -> None:
        options = URNN.published_options | options
        super().__init__(input_size, hidden_size, num_layers, constraint=FourierProduct, **options)


class FullCapacityURNN(RNN):
    r"""Full-capacity unitary RNN: W can reach every unitary matrix.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad
        W \leftarrow (I + \tfrac{\eta}{2} B)^{-1} (I - \tfrac{\eta}{2} B)\, W

    Each optimiser step multiplies W by a Cayley transform, which keeps it unitary. Use it where
    the few parameters of `URNN` limit the model.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of complex hidden units.
        num_layers: The number of stacked layers.
        matrix_init: The initialisation of W, ``"urnn"`` or ``"haar"``; see `MovingCayley`.
        options: Further keyword arguments of `RNN`.
    Shape:
        output: :math:`(T, B, 2N)`, real parts first; with ``output="real"`` :math:`(T, B, N)`.
        h_n: :math:`(1, B, 2N)`.
    Source:
        Wisdom, Powers, Hershey, Le Roux and Atlas, NeurIPS 2016. https://arxiv.org/abs/1611.00035
        (departures: no epsilon in modReLU, unlike the code; see also `MovingCayley`).
    Example:
        >>> FullCapacityURNN(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 16])
    """

    sets = (MovingCayley,)
    published = _EVOLUTION_WEIGHTS
    published_options: ClassVar[RNNOptions] = {"trainable_h0": True}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        matrix_init: Literal["urnn", "haar"] = "urnn",
        **options: Unpack[RNNOptions],
    ) -> None:
        constraint = partial(MovingCayley, init=matrix_init, dtype=torch.complex64)
        options = FullCapacityURNN.published_options | options
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class EURNN(RNN):
    r"""Efficient unitary RNN: W is a product of L layers of plane rotations.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad W = D F_L \cdots F_1

    The capacity L sets the number of parameters: more layers reach more of the unitary matrices.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units, complex unless `dtype` is real.
        num_layers: The number of stacked layers.
        capacity: The number L of layers of rotations; None uses the default of `Givens`.
        style: ``"tunable"`` or ``"fft"``; see `Givens`.
        options: Further keyword arguments of `RNN`. Here `dtype` is that of W,
            `torch.complex64` by default: a real dtype gives real hidden units. A dtype of double
            precision or 16 bits applies to the whole layer.
    Shape:
        output: :math:`(T, B, N)`, the real parts; with ``output="real_imag"``
        :math:`(T, B, 2N)`.
        h_n: :math:`(1, B, 2N)`, or :math:`(1, B, N)` if the hidden units are real.
    Source:
        Jing et al., ICML 2017. https://arxiv.org/abs/1612.05231 (departures: no epsilon in
        modReLU. In the released real code, the epsilon adds 0.01 to every unit at each step;
        ``init=partial(weights_, bias=partial(constant_, value=0.01))`` does the same. See also
        `Givens`).
    Example:
        >>> EURNN(2, 8, capacity=4)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    sets = (Givens,)
    published_options: ClassVar[RNNOptions] = {"output": "real"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        capacity: int | None = None,
        style: Literal["tunable", "fft"] = "tunable",
        **options: Unpack[RNNOptions],
    ) -> None:
        dtype = options.pop("dtype", None) or torch.complex64
        constraint = partial(
            Givens, layers=capacity, style=style, dtype=torch.promote_types(dtype, torch.float32)
        )
        options = EURNN.published_options | options
        if dtype in (torch.bfloat16, torch.float16):
            options["dtype"] = dtype
        if dtype in (torch.float64, torch.complex128):
            # the other weights set the precision of the states, to which W is converted
            options["dtype"] = torch.float64
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


# the initialisers that both baselines of Kerg et al. share
_KERG_WEIGHTS = {"weight_ih": glorot_normal_, "bias": uniform_, "input_bias": fan_uniform_}


_NORMAL_WEIGHTS = {"weight_ih": glorot_normal_, **_BIASES}


class NnRNN(RNN):
    r"""Non-normal RNN: W is given by its real Schur form.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad W = P \Theta P^\top

    P is orthogonal. :math:`\Theta` is block triangular: scaled rotations on its diagonal, trained
    entries below. Use it when an orthogonal W is too restrictive, for example on text.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units; must be even.
        num_layers: The number of stacked layers.
        gamma_penalty: The weight :math:`\delta` of the penalty on the distance of each
            :math:`\gamma` from 1. `eigenrnn.models.penalty` returns it, and a loop of your own
            has to add it to the loss.
        gamma: ``"trained"``, or ``"clamped"`` at `gamma_value`.
        gamma_value: The initial value of every :math:`\gamma`, or its fixed value if clamped; the
            paper clamps at 1 and at 0.958.
        orthogonal: A function of the size that returns the constraint of P; `Exponential` by
            default.
        options: Further keyword arguments of `RNN`.
    Source:
        Kerg et al., NeurIPS 2019. https://arxiv.org/abs/1905.12080 (departures: see `Schur`).
    Example:
        >>> NnRNN(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    sets = (Schur,)
    published = _NORMAL_WEIGHTS

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        gamma_penalty: float = 1.0,
        gamma: Literal["trained", "clamped"] = "trained",
        gamma_value: float = 1.0,
        orthogonal: Callable[[int], Constraint] | None = None,
        **options: Unpack[RNNOptions],
    ) -> None:
        constraint = partial(
            Schur,
            gamma_penalty=gamma_penalty,
            gamma=gamma,
            gamma_value=gamma_value,
            orthogonal=orthogonal,
        )
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class ENRNN(RNN):
    r"""Eigenvalue-normalised RNN: a long-term memory that receives input from a short-term one.

    .. math:: h_t = \operatorname{modReLU}(U x_t + W h_{t-1}), \qquad
        W = \begin{bmatrix} W_L & W_C \\ 0 & W_S \end{bmatrix}

    :math:`W_L` is orthogonal through the scaled Cayley transform; :math:`W_S` has spectral radius
    at most 1. Use it when part of the state should forget.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units of both memories together.
        num_layers: The number of stacked layers.
        short_size: The number of units of the short-term memory, which are the last ones; half of
            N by default.
        negative: The number of entries -1 in D of the long-term memory; half of its units by
            default.
        matrix_init: The initialisation of :math:`W_L`, ``"unit_circle"`` or ``"zero"``; see
            `ScaledCayley`.
        coupling: Whether there is a :math:`W_C`, from the short-term to the long-term memory.
        coupling_init: The initialiser of :math:`W_C`, which fills it in place.
        epsilon: Added to the spectral radius by which :math:`W_S` is divided.
        options: Further keyword arguments of `RNN`.
    Source:
        Helfrich and Ye, AAAI 2020. https://arxiv.org/abs/1911.07964 (departures: see
        `SpectralRadius` and `BlockTriangular`).
    Example:
        >>> layer = ENRNN(2, 160, short_size=64, negative=29)
        >>> layer.spectrum().abs().max() < 1 + 1e-5
        tensor(True)
    """

    sets = (BlockTriangular, ScaledCayley, SpectralRadius)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        short_size: int | None = None,
        negative: int | None = None,
        matrix_init: Literal["unit_circle", "zero"] = "unit_circle",
        coupling: bool = True,
        coupling_init: Initializer = glorot_uniform_,
        epsilon: float = 0.0,
        **options: Unpack[RNNOptions],
    ) -> None:
        constraint = partial(
            BlockTriangular,
            long=partial(ScaledCayley, negative=negative, init=matrix_init),
            short=partial(SpectralRadius, epsilon=epsilon),
            short_size=short_size,
            coupling=coupling,
            coupling_init=coupling_init,
        )
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class SpectralRNN(RNN):
    r"""Spectral RNN: the singular values of W stay within a margin around 1.

    .. math:: h_t = \operatorname{ReLU}(U x_t + b + W h_{t-1}), \qquad
        \sigma_i(W) \in [1 - r, 1 + r]

    W is stored as its singular value decomposition. The margin sets by how much a time step may
    shrink or amplify gradients.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        num_layers: The number of stacked layers.
        reflections: The number of Householder reflections in each orthogonal factor; see
            `BoundedSVD`.
        margin: The margin r.
        options: Further keyword arguments of `RNN`.
    Source:
        Zhang, Lei and Dhillon, ICML 2018. https://arxiv.org/abs/1803.09327 (departures: see
        `BoundedSVD`).
    Example:
        >>> SpectralRNN(2, 8, reflections=4)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    sets = (BoundedSVD,)
    published = _ORNN_WEIGHTS
    published_options: ClassVar[RNNOptions] = {"nonlinearity": "relu"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        reflections: int | None = None,
        margin: float = 0.01,
        **options: Unpack[RNNOptions],
    ) -> None:
        constraint = partial(BoundedSVD, reflections=reflections, margin=margin)
        options = SpectralRNN.published_options | options
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class RNNOrth(RNN):
    r"""RNN with an unconstrained W, initialised to an orthogonal matrix; a baseline of nnRNN.

    .. math:: h_t = \operatorname{modReLU}(U x_t + c + W h_{t-1}), \qquad W_0^\top W_0 = I

    Compare it with `ExpRNN` to see what the constraint adds to an orthogonal initialisation.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        num_layers: The number of stacked layers.
        options: Further keyword arguments of `RNN`.
    Source:
        Kerg et al., NeurIPS 2019, appendix A. https://arxiv.org/abs/1905.12080 (departures: none).
    Example:
        >>> RNNOrth(2, 8).orthogonality_error() < 1e-5
        tensor([True])
    """

    sets = (Unconstrained,)
    published = _KERG_WEIGHTS
    published_options: ClassVar[RNNOptions] = {"input_bias": True}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        **options: Unpack[RNNOptions],
    ) -> None:
        constraint = partial(Unconstrained, init=orthogonal_)
        options = RNNOrth.published_options | options
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)


class RNNGlorot(RNN):
    r"""RNN with an unconstrained W and Glorot initialisation; the baseline "RNN" of nnRNN.

    .. math:: h_t = \operatorname{modReLU}(U x_t + c + W h_{t-1}), \qquad
        W_0 \sim \mathcal N(0, 1 / N)

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        num_layers: The number of stacked layers.
        options: Further keyword arguments of `RNN`.
    Source:
        Kerg et al., NeurIPS 2019, appendix A. https://arxiv.org/abs/1905.12080 (departures: none;
        its released code cannot initialise W in this way).
    Example:
        >>> RNNGlorot(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    sets = (Unconstrained,)
    published = _KERG_WEIGHTS
    published_options: ClassVar[RNNOptions] = {"input_bias": True}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        **options: Unpack[RNNOptions],
    ) -> None:
        constraint = partial(Unconstrained, init=glorot_normal_)
        options = RNNGlorot.published_options | options
        super().__init__(input_size, hidden_size, num_layers, constraint=constraint, **options)
