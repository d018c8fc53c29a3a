"""How well a linear reading of the state tells what the input was some steps ago."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.generators import check_numpy_generator
from eigenrnn.analysis.matrices import Matrix, NumberArray, given_matrix, given_vector
from eigenrnn.analysis.recurrence import recurrences
from eigenrnn.errors import check_positive_integer
from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.nonlinearities import nonlinearity as named_nonlinearity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LinearDecodability", "linear_decodability"]

_SAMPLES_PER_NUMBER, _FEWEST_SAMPLES = 40, 4_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LinearDecodability(Analysis):
    """How much of an old input's variance a linear reading of the state explains.

    Args:
        delays: How many steps ago the input came; 0 is the one that led to the state.
        r_squared: The share of the variance, of sequences that were not used for the reading;
            below zero where the mean would have been a better guess.
        samples: The number of sequences, of which one half was used for the reading.
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
    """What is driven: a step of states under a scalar signal, and what is read of a state."""

    size: int
    begin: Callable[[int], Tensor]
    step: Callable[[Tensor, Tensor], Tensor]
    read: Callable[[Tensor], Tensor]


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
    r"""Drive a network with a random signal, and read old values of it from the last state.

    .. math:: h_t = f(W h_{t-1} + v s_t) + \sigma \xi_t, \qquad s_t, \xi_t \sim \mathcal N(0, 1),
        \qquad R^2(k) = 1 - \frac{\sum (s_{T-k} - \hat s_{T-k})^2}{\sum (s_{T-k} - \bar s)^2}

    Each sequence starts from the first state of the network, zero for a matrix, and lasts until
    the oldest value is as old as the longest delay, as in the paper, which reads :math:`s_1` from
    :math:`h_{100}`; a longer delay among the others makes it last longer. The reading, a constant
    included, is fitted by least squares to one half of the sequences and judged on the other.

    Args:
        layer_or_W: A layer, of which the first is driven through its first input, while others are
            zero; or a matrix.
        delays: The delays k; a number means all below it.
        nonlinearity: The function f of a matrix, by name, as a layer takes it; None is the
            identity. A layer has its own.
        noise: The standard deviation of the noise in each number of a state.
        source: The vector v of a matrix; None lets the signal in at the first unit.
        samples: The number n of sequences; None takes 40 for each number that is read, so that the
            fit loses about a twentieth of what is not explained, and 4000 at least. Drawn anew,
            an :math:`R^2` differs with a standard deviation of up to :math:`1.1 / \sqrt n`,
            0.017 for 4000.
        generator: NumPy's; draws the signal and the noise.
    Shape:
        layer_or_W: :math:`(N, N)`; source: :math:`(N,)`.
    Raises:
        ValueError: If a shape is wrong, a number is out of its range or not finite, a layer comes
            with a nonlinearity or a source, or the states grow beyond all numbers.
        TypeError: If the generator is of another kind.
    Source:
        Orhan and Pitkow, ICLR 2020, section 2 and figure 2. https://arxiv.org/abs/1905.13715
        (departures: it tells neither the law of the signal, nor the noise, nor the number of
        sequences; a normal law, a choice and at least 40 N stand for them).
    Example:
        >>> chain = np.diag(np.ones(3), -1)
        >>> found = linear_decodability(chain, 6, generator=np.random.default_rng(0))
        >>> found.r_squared.round(6)[:4]
        array([1., 1., 1., 1.])
    """
    check_numpy_generator(generator, optional=False)
    lags = _checked_delays(delays)
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"expected a finite noise >= 0, got {noise}")
    if isinstance(layer_or_W, nn.Module):
        if nonlinearity is not None or source is not None:
            raise ValueError(
                "expected no nonlinearity and no source with a layer, which has its own, got one; "
                "give its matrix to choose them"
            )
        network = _of_layer(layer_or_W)
    else:
        network = _of_matrix(given_matrix(layer_or_W), nonlinearity or "identity", source)
    fewest = 2 * (network.size + 2)  # one more than is fitted, in each half
    if samples is None:
        samples = max(_SAMPLES_PER_NUMBER * network.size, _FEWEST_SAMPLES)
    check_positive_integer("samples", samples)
    if samples < fewest:
        raise ValueError(f"expected samples >= {fewest} for {network.size} units, got {samples}")
    signal, states = _driven(network, int(lags.max()) + 1, samples, noise, generator)
    r_squared = _judged(states, signal[len(signal) - 1 - lags].T)
    return LinearDecodability(lags, r_squared, samples)


def _checked_delays(delays: int | ArrayLike) -> NDArray[np.int64]:
    """Return the delays.

    Raises:
        ValueError: If there are none, or one is no whole number from 0 on.
    """
    try:
        lags = np.asarray(delays)
    except ValueError:  # a ragged list
        lags = np.empty(0)
    if isinstance(delays, int | np.integer) and lags.dtype.kind in "iu":
        lags = np.arange(int(delays))
    if lags.ndim != 1 or not lags.size or lags.dtype.kind not in "iu" or lags.min() < 0:
        raise ValueError(
            f"expected delays to be a positive number of steps, or a list of such from 0 on, got "
            f"{delays}"
        )
    return lags.astype(np.int64)


def _of_matrix(
    W: NumberArray,  # (N, N)
    name: str,
    source: Tensor | ArrayLike | None,  # (N,)
) -> _Network:
    """Return the network of a matrix.

    Raises:
        ValueError: If the nonlinearity or the source does not fit.
    """
    f = named_nonlinearity(name)
    is_complex = np.iscomplexobj(W)
    if f.has_bias or (is_complex and not f.takes_complex):
        fitting = [
            each.name
            for each in NONLINEARITIES.values()
            if not each.has_bias and (each.takes_complex or not is_complex)
        ]
        raise ValueError(f"expected a nonlinearity among {', '.join(fitting)}, got {name!r}")
    v = np.eye(len(W))[0] if source is None else given_vector(source, len(W), "source")
    dtype = torch.complex128 if is_complex or np.iscomplexobj(v) else torch.float64
    rows, enters = torch.tensor(W.T, dtype=dtype), torch.tensor(v, dtype=dtype)

    def step(s: Tensor, h: Tensor) -> Tensor:
        return f.forward(h @ rows + s[:, None] * enters, None)

    def read(h: Tensor) -> Tensor:
        return torch.cat([h.real, h.imag], dim=-1) if h.is_complex() else h

    return _Network(
        size=len(W) * (2 if dtype.is_complex else 1),
        begin=lambda count: torch.zeros(count, len(W), dtype=dtype),
        step=step,
        read=read,
    )


def _of_layer(layer: nn.Module) -> _Network:
    recurrence = recurrences(layer)[0]

    def step(s: Tensor, state: Tensor) -> Tensor:
        x = s.new_zeros(len(s), recurrence.input_size)
        x[:, 0] = s
        return recurrence.step(x, state)

    size = recurrence.output(recurrence.begin(1)).shape[-1]
    return _Network(size=size, begin=recurrence.begin, step=step, read=recurrence.output)


@torch.no_grad()
def _driven(
    network: _Network,
    steps: int,
    count: int,
    noise: float,
    generator: np.random.Generator,
) -> tuple[Floats, Floats]:  # (steps, count), (count, K)
    """Return the signal, and what can be read of the last states.

    Raises:
        ValueError: If the states grow beyond all numbers.
    """
    signal = generator.standard_normal((steps, count))
    state = network.begin(count)
    for s in torch.from_numpy(signal):
        state = network.step(s, state)
        if noise:
            drawn = generator.standard_normal((*state.shape, 2 if state.is_complex() else 1))
            kicks = torch.from_numpy(drawn)
            state = state + noise * (
                torch.view_as_complex(kicks) if state.is_complex() else kicks[..., 0]
            )
    if not state.isfinite().all():
        raise ValueError(
            f"expected states that stay finite for {steps} steps, got others; scale W down, or "
            "ask for shorter delays"
        )
    return signal, network.read(state).numpy()


def _judged(
    states: Floats,  # (count, K)
    signals: Floats,  # (count, delays)
) -> Floats:  # (delays,)
    """Return the share of variance that is explained on the second half of the sequences."""
    half = len(states) // 2
    features = np.concatenate([states, np.ones((len(states), 1))], axis=1)
    weights = np.linalg.lstsq(features[:half], signals[:half], rcond=None)[0]
    held_out = signals[half:]
    wrong = ((held_out - features[half:] @ weights) ** 2).sum(0)
    return 1 - wrong / ((held_out - held_out.mean(0)) ** 2).sum(0)
