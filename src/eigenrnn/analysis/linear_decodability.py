"""How well a linear decoder recovers past inputs from the state of a network."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import (
    Matrix,
    NumberArray,
    as_matrix,
    as_vector,
    check_numpy_generator,
)
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.recurrence import recurrences
from eigenrnn.errors import check_positive_integer
from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.nonlinearities import nonlinearity as named_nonlinearity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LinearDecodability", "linear_decodability"]

_SAMPLES_PER_FEATURE, _MIN_SAMPLES = 40, 4_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LinearDecodability(Analysis):
    """The share of the variance of past inputs that a linear decoder of the state explains.

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

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        order = np.argsort(self.delays)
        curve = {"R squared": self.r_squared[order]}
        plot.lines(axes, self.delays[order], curve, marker="." if len(order) < 50 else None)
        axes.axhline(0, color="0.6", linewidth=0.8)
        title = f"linear decoding, mean $R^2$ {self.r_squared.mean():.3g}"
        plot.label(axes, "delay in steps", "$R^2$ on held-out sequences", title)
        return figure

    def table(self) -> Table:
        return {"delay": self.delays, "r_squared": self.r_squared}

    def headline(self) -> dict[str, float]:
        return {"mean R squared": float(self.r_squared.mean())}


@dataclass(frozen=True)
class _Network:
    """A network under a scalar signal: its step, and the features for the decoder."""

    size: int
    begin: Callable[[int], Tensor]
    step: Callable[[Tensor, Tensor], Tensor]
    features: Callable[[Tensor], Tensor]


def linear_decodability(
    layer_or_W: nn.Module | Matrix,
    delays: int | ArrayLike,
    *,
    nonlinearity: str | None = None,
    noise: float = 0.0,
    source: Tensor | ArrayLike | None = None,
    samples: int | None = None,
    generator: np.random.Generator,
) -> LinearDecodability:
    r"""Drive a network with a random signal, and decode its past values from the last state.

    .. math:: h_t = f(W h_{t-1} + v s_t) + \sigma \xi_t, \qquad s_t, \xi_t \sim \mathcal N(0, 1),
        \qquad R^2(k) = 1 - \frac{\sum (s_{T-k} - \hat s_{T-k})^2}{\sum (s_{T-k} - \bar s)^2}

    Each sequence starts from the initial state of the network, which is zero for a matrix. It has
    as many steps as the longest delay requires, as in the paper, which decodes :math:`s_1` from
    :math:`h_{100}`. The decoder, with an intercept, is fitted by least squares to one half of the
    sequences and evaluated on the other.

    Args:
        layer_or_W: A matrix, or a recurrent layer. The signal enters the first input of the
            first layer; all other inputs are zero.
        delays: The delays k; an integer means all delays below it.
        nonlinearity: The function f for a matrix, by name; None is the identity. A layer has its
            own.
        noise: The standard deviation of the noise in each real entry of a state.
        source: The vector v for a matrix; by default the signal enters at the first unit.
        samples: The number n of sequences; None takes 40 per feature, but at least 4000. With 40,
            overfitting increases the unexplained variance by about a twentieth. Between draws the
            standard deviation of :math:`R^2` is at most :math:`1.1 / \sqrt n`, 0.017 for 4000.
        generator: NumPy's generator of the signal and the noise.
    Shape:
        layer_or_W: :math:`(N, N)`; source: :math:`(N,)`.
    Raises:
        ValueError: If a shape is wrong, a number is out of range or not finite, a layer comes
            with a nonlinearity or a source, or the states overflow.
        TypeError: If the generator is not NumPy's.
    Source:
        Orhan and Pitkow, ICLR 2020, section 2 and figure 2. https://arxiv.org/abs/1905.13715
        (departures: the paper specifies neither the distribution of the signal, nor the noise, nor
        the number of sequences; here they are normal, an argument, and at least 40 N).
    Example:
        >>> chain = np.diag(np.ones(3), -1)
        >>> result = linear_decodability(chain, 6, generator=np.random.default_rng(0))
        >>> result.r_squared.round(6)[:4]
        array([1., 1., 1., 1.])
    """
    check_numpy_generator(generator, optional=False)
    lags = _as_delays(delays)
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"expected a finite noise >= 0, got {noise}")
    if isinstance(layer_or_W, nn.Module):
        if nonlinearity is not None or source is not None:
            raise ValueError(
                "expected no nonlinearity and no source with a layer, which has its own, got one; "
                "pass its matrix to choose them"
            )
        network = _layer_network(layer_or_W)
    else:
        network = _matrix_network(as_matrix(layer_or_W), nonlinearity or "identity", source)
    minimum = 2 * (network.size + 2)  # each half needs one more than the decoder has weights
    if samples is None:
        samples = max(_SAMPLES_PER_FEATURE * network.size, _MIN_SAMPLES)
    check_positive_integer("samples", samples)
    if samples < minimum:
        raise ValueError(f"expected samples >= {minimum} for {network.size} units, got {samples}")
    signal, states = _simulate(network, int(lags.max()) + 1, samples, noise, generator)
    r_squared = _r_squared(states, signal[len(signal) - 1 - lags].T)
    return LinearDecodability(lags, r_squared, samples)


def _as_delays(delays: int | ArrayLike) -> NDArray[np.int64]:
    """Return the delays as an array.

    Raises:
        ValueError: If the list is empty, or an entry is not an integer >= 0.
    """
    try:
        lags = np.asarray(delays)
    except ValueError:  # a ragged list
        lags = np.empty(0)
    if isinstance(delays, int | np.integer) and lags.dtype.kind in "iu":
        lags = np.arange(int(delays))
    if lags.ndim != 1 or not lags.size or lags.dtype.kind not in "iu" or lags.min() < 0:
        raise ValueError(
            f"expected delays to be a positive number of steps, or a list of integers >= 0, got "
            f"{delays}"
        )
    return lags.astype(np.int64)


def _matrix_network(
    W: NumberArray,  # (N, N)
    name: str,
    source: Tensor | ArrayLike | None,  # (N,)
) -> _Network:
    """Return the network that a matrix defines.

    Raises:
        ValueError: If the nonlinearity or the source does not fit.
    """
    f = named_nonlinearity(name)
    is_complex = np.iscomplexobj(W)
    if f.has_bias or (is_complex and not f.takes_complex):
        allowed = [
            each.name
            for each in NONLINEARITIES.values()
            if not each.has_bias and (each.takes_complex or not is_complex)
        ]
        raise ValueError(f"expected a nonlinearity among {', '.join(allowed)}, got {name!r}")
    v = np.eye(len(W))[0] if source is None else as_vector(source, len(W), "source")
    dtype = torch.complex128 if is_complex or np.iscomplexobj(v) else torch.float64
    rows, source_row = torch.tensor(W.T, dtype=dtype), torch.tensor(v, dtype=dtype)

    def step(s: Tensor, h: Tensor) -> Tensor:
        return f.forward(h @ rows + s[:, None] * source_row, None)

    def features(h: Tensor) -> Tensor:
        return torch.cat([h.real, h.imag], dim=-1) if h.is_complex() else h

    return _Network(
        size=len(W) * (2 if dtype.is_complex else 1),
        begin=lambda count: torch.zeros(count, len(W), dtype=dtype),
        step=step,
        features=features,
    )


def _layer_network(layer: nn.Module) -> _Network:
    recurrence = recurrences(layer)[0]

    def step(s: Tensor, state: Tensor) -> Tensor:
        x = s.new_zeros(len(s), recurrence.input_size)
        x[:, 0] = s
        return recurrence.step(x, state)

    size = recurrence.output(recurrence.begin(1)).shape[-1]
    return _Network(size=size, begin=recurrence.begin, step=step, features=recurrence.output)


@torch.no_grad()
def _simulate(
    network: _Network,
    steps: int,
    count: int,
    noise: float,
    generator: np.random.Generator,
) -> tuple[Floats, Floats]:  # (steps, count), (count, K)
    """Return the signal, and the features of the last states.

    Raises:
        ValueError: If the states overflow.
    """
    signal = generator.standard_normal((steps, count))
    state = network.begin(count)
    for s in torch.from_numpy(signal):
        state = network.step(s, state)
        if noise:
            sample = generator.standard_normal((*state.shape, 2 if state.is_complex() else 1))
            xi = torch.from_numpy(sample)
            state = state + noise * (
                torch.view_as_complex(xi) if state.is_complex() else xi[..., 0]
            )
    if not state.isfinite().all():
        raise ValueError(
            f"expected states that stay finite for {steps} steps, got others; scale W down, or "
            "use shorter delays"
        )
    return signal, network.features(state).numpy()


def _r_squared(
    states: Floats,  # (count, K)
    signals: Floats,  # (count, delays)
) -> Floats:  # (delays,)
    """Return the share of variance explained on the second half of the sequences."""
    half = len(states) // 2
    features = np.concatenate([states, np.ones((len(states), 1))], axis=1)
    weights = np.linalg.lstsq(features[:half], signals[:half], rcond=None)[0]
    held_out = signals[half:]
    squared_error = ((held_out - features[half:] @ weights) ** 2).sum(0)
    return 1 - squared_error / ((held_out - held_out.mean(0)) ** 2).sum(0)
