"""Memory of past inputs: Fisher information in the state, and accuracy of a linear decoder."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import (
    Matrix,
    NumberArray,
    as_matrix,
    as_real_tensor,
    as_step_matrix,
    as_vector,
    leaky_matrix,
)
from eigenrnn.analysis.base import Analysis, Figure, Table
from eigenrnn.analysis.state_map import (
    Network,
    RecurrentWeights,
    StateMap,
    state_maps,
)
from eigenrnn.analysis.trajectory import InitialState, initial_states
from eigenrnn.errors import check_not_negative, check_positive_integer
from eigenrnn.linalg import as_numpy, on_cpu
from eigenrnn.nonlinearities import nonlinearity as named_nonlinearity

__all__ = [
    "FisherMemory",
    "LinearDecodability",
    "fisher_memory",
    "is_ungated",
    "linear_decodability",
    "network_memory",
]

_EPSILON = float(np.finfo(np.float64).eps)
_MAX_DOUBLINGS = 60  # (1 - eps) to the power of 2^60 is zero
_NETWORK_STEPS = 200  # of `network_memory`
_UNIT_CIRCLE_ROUNDING = 1e-6  # the error of a modulus of one in single precision

# samples for a linear decoder
_SAMPLES_PER_FEATURE = 40
_MIN_SAMPLES = 4_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FisherMemory(Analysis):
    """A Fisher memory curve.

    Args:
        curve: J(k) for k = 0, 1, ...: the information in the state about the input k steps ago.
    Shape:
        curve: (steps,)
    """

    curve: NDArray[np.float64]

    @property
    def total(self) -> float:
        """The sum of the curve.

        For a source of norm one, with the noise of all steps, it is at most 1 if W is normal, else
        at most N.
        """
        return float(self.curve.sum())

    def plot(self) -> Figure:
        figure, (axes,) = plot.canvas()
        plot.lines(axes, np.arange(len(self.curve)), {"J": self.curve})
        title = f"Fisher memory, total {self.total:.4g}"
        plot.label(axes, "age k of the input (steps)", "Fisher information J(k)", title)
        return figure

    def table(self) -> Table:
        return {"age": np.arange(len(self.curve)), "fisher_memory": self.curve}

    def headline(self) -> dict[str, float]:
        return {"total Fisher memory": self.total}


def fisher_memory(
    W: Matrix,  # (N, N)
    source: Tensor | ArrayLike,  # (N,)
    steps: int,
    *,
    noise_steps: int | None = None,
) -> FisherMemory:
    r"""Compute the Fisher memory curve of a linear network with noise in every unit.

    .. math:: h_t = W h_{t-1} + v s_t + \xi_t, \qquad \xi_t \sim \mathcal N(0, I), \qquad
        J(k) = v^* (W^k)^* C^{-1} W^k v, \qquad C = \sum_{k \ge 0} W^k (W^k)^*

    C solves the Lyapunov equation :math:`C = W C W^* + I` but is never formed. Instead, its
    triangular root L is computed by doubling the number m of terms:
    :math:`[L_m, W^m L_m] = L_{2 m} Q`. The condition number of L is the square root of that of C.
    For the matrices in table 6 of the nnRNN paper, the condition number of C reaches 1e27. Each
    total computed here has seven correct digits. Summing or solving for C itself leaves only one.

    Args:
        W: The recurrent matrix, real or complex, or a layer with one. Of a layer with a leak
            :math:`\alpha` it is :math:`I - \operatorname{diag} \alpha +
            \operatorname{diag}(\alpha) W`.
        source: The input weights v, a vector or a matrix of one column.
        steps: The number of points of the curve.
        noise_steps: The number of steps whose noise is summed. None sums all noise, whose
            covariance must then be finite.
    Shape:
        W: :math:`(N, N)`; source: :math:`(N,)`; curve: (steps,).
    Raises:
        ValueError: If a shape is wrong, a number is not finite, the noise accumulates without
            bound, or powers of W leave double precision.
    Source:
        Ganguli, Huh and Sompolinsky, PNAS 105(48), 2008. https://doi.org/10.1073/pnas.0804451105;
        Kerg et al., NeurIPS 2019, section 3.2. https://arxiv.org/abs/1905.12080
        (departures: none).
    Example:
        >>> round(fisher_memory(0.5 * np.eye(3), [1.0, 0.0, 0.0], 60).total, 6)
        1.0
    """
    import scipy.linalg

    matrix = as_step_matrix(W)
    v = as_vector(source, len(matrix), "source")
    check_positive_integer("steps", steps)
    if noise_steps is not None:
        check_positive_integer("noise_steps", noise_steps)
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        root = _noise_root(matrix, noise_steps)
        states = np.empty((len(v), steps), np.result_type(matrix, v))  # after a unit pulse
        states[:, 0] = v
        for k in range(1, steps):
            states[:, k] = matrix @ states[:, k - 1]
    if not (np.isfinite(root).all() and np.isfinite(states).all()):
        raise ValueError(
            "expected noise and signal within double precision, got numbers above 1e308 at a "
            f"spectral radius of {_spectral_radius(matrix):.6g}"
        )
    # with C = L L*: J(k) = |L^-1 W^k v|^2
    solve: Any = scipy.linalg.solve_triangular
    white: NumberArray = solve(root, states, lower=True, check_finite=False)
    return FisherMemory(np.square(np.abs(white)).sum(0))


def network_memory(
    W: NumberArray,  # (N, N)
    weights: RecurrentWeights,
) -> FisherMemory:
    r"""Compute the Fisher memory of a trained network without its nonlinearity, over 200 steps.

    With a leak :math:`\alpha` a step multiplies the state by
    :math:`(I - \operatorname{diag} \alpha) + \operatorname{diag}(\alpha)\, W`, else by W. The
    source is the column of weights of the first input, scaled to norm one. If noise would
    accumulate without bound, at a spectral radius of one or more, that of the last 200 steps
    counts.

    Args:
        W: The recurrent matrix in double precision.
        weights: The same matrix with its input weights and leak, in the precision of the run.
    Raises:
        ValueError: If powers of W leave double precision.
    """
    matrix = leaky_matrix(W, weights.leak)
    source = weights.U[:, 0].cpu()
    if weights.leak is not None:
        source = weights.leak.cpu() * source
    noise_steps = None
    if _spectral_radius(matrix) > 1 - _UNIT_CIRCLE_ROUNDING:
        noise_steps = _NETWORK_STEPS
    return fisher_memory(matrix, source / source.norm(), _NETWORK_STEPS, noise_steps=noise_steps)


def is_ungated(name: str) -> bool:
    """Whether a name is that of an ungated layer's matrix, which defines a linear network."""
    return name.split(".")[-1].startswith("hh_")


def _noise_root(W: NumberArray, terms: int | None) -> NumberArray:  # (N, N)
    """Return the lower triangular L with L L* = C, for the first terms of C or for all.

    Raises:
        ValueError: If the sum of all terms does not converge.
    """
    I = np.eye(len(W))
    # the root of m terms, and W^m, with m = 1
    root = I
    power = W
    # as in exponentiation by squaring, the bits after the first say how m grows to all terms
    if terms is None:
        remaining_bits = "0" * 2 * _MAX_DOUBLINGS
    else:
        remaining_bits = f"{terms:b}"[1:]
    for bit in remaining_bits:  # m becomes 2 m, or 2 m + 1
        more = power @ root
        if not np.isfinite(more).all():
            return more  # the caller reports it
        if np.linalg.norm(more) ** 2 <= _EPSILON:  # C is at least I: later terms change nothing
            return root
        root = _root_of_sum(root, more)
        power = power @ power
        if bit == "1":  # one more term: C becomes I + W C W*
            root = _root_of_sum(I, W @ root)
            power = W @ power
    if terms is None:
        radius = _spectral_radius(W)
        raise ValueError(f"expected a spectral radius below 1, or noise_steps, got {radius:.6g}")
    return root


def _spectral_radius(W: NumberArray) -> float:
    return float(np.abs(np.linalg.eigvals(W)).max())


def _root_of_sum(K: NumberArray, L: NumberArray) -> NumberArray:  # (N, N)
    """Return a lower triangular root of K K* + L L*."""
    # [K, L]* = Q R, so K K* + L L* = R* R. The sum itself, whose condition number is the square
    # of that of its root, is never formed.
    R: Any = np.linalg.qr(np.hstack([K, L]).conj().T, mode="r")
    return R.conj().T


@dataclass(frozen=True)
class LinearDecodability(Analysis):
    r"""The share of the variance of past inputs that a linear decoder of the state explains.

    Its sum over the delays is the memory capacity of Jaeger (2001), if they reach as far back as
    the network remembers:

    .. math:: \sum_k \max(R^2(k), 0)

    Args:
        delays: The age of the input in steps; 0 is the input of the last step.
        r_squared: The share of the variance on held-out sequences; negative where the decoder is
            worse than predicting the mean.
        samples: The number of sequences; one half was used to fit the decoder.
    Shape:
        delays, r_squared: (delays,).
    """

    delays: NDArray[np.int64]
    r_squared: Floats
    samples: int

    def plot(self) -> Figure:
        figure, (axes,) = plot.canvas()
        order = np.argsort(self.delays)
        curve = {"R squared": self.r_squared[order]}
        marker = "." if len(order) < 50 else None  # more would run into each other
        plot.lines(axes, self.delays[order], curve, marker=marker)
        axes.axhline(0, color="0.6", linewidth=0.8)
        title = f"linear decoding, mean $R^2$ {self.r_squared.mean():.3g}"
        plot.label(axes, "delay in steps", "$R^2$ on held-out sequences", title)
        return figure

    def table(self) -> Table:
        return {"delay": self.delays, "r_squared": self.r_squared}

    def headline(self) -> dict[str, float]:
        capacity = float(self.r_squared.clip(min=0).sum())
        return {"mean R squared": float(self.r_squared.mean()), "memory capacity": capacity}


@on_cpu
@torch.no_grad()
def linear_decodability(
    network_or_W: Network | Matrix,
    delays: int | ArrayLike,
    *,
    h0: InitialState = None,
    nonlinearity: str | None = None,
    noise: float = 0.0,
    source: Tensor | ArrayLike | None = None,
    samples: int | None = None,
    generator: np.random.Generator | None = None,
) -> LinearDecodability:
    r"""Drive a network with a random signal, and decode its past values from the last state.

    .. math:: h_t = f(W h_{t-1} + v s_t) + \sigma \xi_t, \qquad s_t, \xi_t \sim \mathcal N(0, 1),
        \qquad R^2(k) = 1 - \frac{\sum (s_{T-k} - \hat s_{T-k})^2}{\sum (s_{T-k} - \bar s)^2}

    Each sequence starts from the initial state of the network, which is zero for a matrix. It has
    as many steps as the longest delay requires, as in the paper, which decodes :math:`s_1` from
    :math:`h_{100}`. The decoder, with an intercept, is fitted by least squares to one half of the
    sequences and evaluated on the other.

    Args:
        network_or_W: A real matrix, or a recurrent layer, cell, or state map. The signal enters
            the first input of the first layer; all other inputs are zero.
        delays: The delays k; an integer means all delays below it.
        h0: The initial state of the first layer, :math:`(S,)`; by default its own, which is zero
            for a matrix.
        nonlinearity: The function f for a matrix, by name, without a bias; None is the identity.
            A layer has its own.
        noise: The standard deviation of the noise in each entry of a state.
        source: The vector v for a matrix; by default the signal enters at the first unit.
        samples: The number n of sequences; None takes 40 per feature, but at least 4000. With 40,
            overfitting increases the unexplained variance by about a twentieth. Between draws the
            standard deviation of :math:`R^2` is at most :math:`1.1 / \sqrt n`, 0.017 for 4000.
        generator: NumPy's generator of the signal and the noise; by default a new one, with a
            seed of its own.
    Shape:
        network_or_W: :math:`(N, N)`; source: :math:`(N,)`.
    Raises:
        ValueError: If a shape is wrong, a number is out of range or not finite, a layer comes
            with a nonlinearity or a source, or the states overflow.
    Source:
        Orhan and Pitkow, ICLR 2020, section 2 and figure 2. https://arxiv.org/abs/1905.13715
        (departures: the paper does not specify the signal, the noise or the number of sequences.
        Here the signal is normal, `noise` is an argument, and there are at least 40 sequences per
        feature by default).
    Example:
        >>> chain = np.diag(np.ones(3), -1)
        >>> result = linear_decodability(chain, 6, generator=np.random.default_rng(0))
        >>> result.r_squared.round(6)[:4]
        array([1., 1., 1., 1.])
    """
    if generator is None:
        generator = np.random.default_rng()
    if isinstance(delays, int | np.integer):
        delays = range(int(delays))
    lags = as_numpy(delays, "delays")
    if lags.ndim != 1 or not lags.size or lags.dtype.kind not in "iu" or lags.min() < 0:
        raise ValueError(f"expected delays to be integers >= 0, got {delays}")
    check_not_negative("noise", noise)
    if isinstance(network_or_W, nn.Module | StateMap):
        if nonlinearity is not None or source is not None:
            raise ValueError(
                "expected no nonlinearity and no source with a layer, which has its own, got one; "
                "pass its matrix to choose them"
            )
        state_map = state_maps(network_or_W)[0]
    else:
        W = as_matrix(cast("Matrix", network_or_W))
        N = len(W)
        f = named_nonlinearity(nonlinearity or "identity")
        v = np.eye(N)[0] if source is None else as_vector(source, N, "source")
        rows = as_real_tensor(W.T, "W")
        source_row = as_real_tensor(v, "source")

        def step(x: Tensor, h: Tensor) -> Tensor:
            return f.forward(h @ rows + x * source_row, None)

        state_map = StateMap.from_step(step, 1, N)
    decoded = state_map.blocks.get("hidden", slice(0, state_map.state_size))  # no cell of an LSTM
    size = int(decoded.stop - decoded.start)
    minimum = 2 * (size + 2)  # each half needs one more than the decoder has weights
    if samples is None:
        samples = max(_SAMPLES_PER_FEATURE * size, _MIN_SAMPLES)
    check_positive_integer("samples", samples)
    if samples < minimum:
        raise ValueError(f"expected samples >= {minimum} for {size} units, got {samples}")
    (state,) = initial_states([state_map], h0, samples)
    steps = int(lags.max()) + 1
    signal = generator.standard_normal((steps, samples))
    x = state.new_zeros(samples, state_map.input_size)
    for s in torch.from_numpy(signal):
        x[:, 0] = s
        state = state_map.step(x, state)
        if noise:
            state = state + noise * torch.from_numpy(generator.standard_normal(state.shape))
    if not state.isfinite().all():
        raise ValueError(
            f"expected states that stay finite for {steps} steps, got NaN or infinity; "
            "scale W down, or use shorter delays"
        )
    past = signal[steps - 1 - lags].T  # s_(T - k) for each delay k
    features = np.concatenate([state.numpy()[:, decoded], np.ones((samples, 1))], axis=1)
    # the decoder of the first half, with its intercept, is judged on the second
    half = samples // 2
    weights = np.linalg.lstsq(features[:half], past[:half], rcond=None)[0]
    held_out = past[half:]
    squared_error = ((held_out - features[half:] @ weights) ** 2).sum(0)
    r_squared = 1 - squared_error / ((held_out - held_out.mean(0)) ** 2).sum(0)
    return LinearDecodability(lags.copy(), r_squared, samples)
