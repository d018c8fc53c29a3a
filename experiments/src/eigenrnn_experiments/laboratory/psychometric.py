"""The psychometric curve: how responses depend on the stimulus."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eigenrnn.analysis import Analysis, Table, plot
from eigenrnn_experiments.laboratory.arguments import as_real_array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PsychometricCurve", "psychometric_curve"]

_STEPS = 1000  # of Newton's method; a steep curve takes up to a hundred
_FLAT = 1e-9  # change of the log odds over all stimuli that counts as none


@dataclass(frozen=True)
class PsychometricCurve(Analysis):
    """Responses by stimulus, for each group of trials.

    Args:
        groups: The value of each group, also of one without responses; a single zero without
            groups.
        stimuli: The different stimuli, in rising order, also those without responses.
        responses: The mean response to each stimulus, NaN if a group has none of it.
        errors: The standard error of each mean; NaN for fewer than two trials.
        counts: The number of trials.
        bias: The stimulus at which both choices are equally likely; NaN if the responses are no
            choices, or do not depend on the stimulus.
        slope: The slope k of the logistic function, NaN if the responses are no choices or all the
            same; positive or negative infinity if a stimulus separates the choices.
    Shape:
        groups, bias, slope: :math:`(G,)`; stimuli: :math:`(S,)`; responses, errors, counts:
        :math:`(G, S)`.
    """

    groups: NDArray[np.float64]
    stimuli: NDArray[np.float64]
    responses: NDArray[np.float64]
    errors: NDArray[np.float64]
    counts: NDArray[np.int64]
    bias: NDArray[np.float64]
    slope: NDArray[np.float64]

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        several = len(self.groups) > 1
        names = [f"group {group:g}" if several else "responses" for group in self.groups]
        curves = dict(zip(names, self.responses, strict=True))
        bands = dict(zip(names, self.errors, strict=True))
        plot.lines(axes, self.stimuli, curves, bands=bands, marker="o")
        s = np.linspace(self.stimuli[0], self.stimuli[-1], 200)
        for line, bias, slope in zip(axes.lines[: len(names)], self.bias, self.slope, strict=True):
            if np.isfinite(bias):  # else there is no fit
                with np.errstate(over="ignore", invalid="ignore"):
                    fit = 1 / (1 + np.exp(-slope * (s - bias)))
                axes.plot(s, fit, color=line.get_color(), linewidth=2, alpha=0.5)
        plot.label(axes, "stimulus", "mean response")
        return figure

    def table(self) -> Table:
        G, S = self.responses.shape
        return {
            "group": np.repeat(self.groups, S),
            "stimulus": np.tile(self.stimuli, G),
            "response": self.responses.ravel(),
            "error": self.errors.ravel(),
            "count": self.counts.ravel(),
        }

    def headline(self) -> dict[str, float]:
        numbers: dict[str, float] = {"trials": float(self.counts.sum())}
        for group, bias, slope in zip(self.groups, self.bias, self.slope, strict=True):
            if not np.isnan(bias):
                numbers[f"bias of group {group:g}"] = float(bias)
                numbers[f"slope of group {group:g}"] = float(slope)
        return numbers


def psychometric_curve(
    stimulus: Tensor | ArrayLike,  # (n,)
    response: Tensor | ArrayLike,  # (n,)
    group: Tensor | ArrayLike | None = None,  # (n,)
) -> PsychometricCurve:
    r"""Average the responses to each stimulus, and fit a logistic function to choices.

    .. math:: P(\text{choice} = \text{upper} \mid s) =
        \frac{1}{1 + \exp(-k (s - b))}

    The bias b and the slope k maximise the likelihood of the choices, without lapses. Other
    responses, such as produced intervals, have no fit. A missing response, NaN, is left out. The
    mean of two choices is the share of the upper one.

    Args:
        stimulus: The stimulus of each trial, such as a signed coherence.
        response: The response of each trial: a choice, -1 or 1, 0 or 1, or a boolean; or any other
            number.
        group: The group of each trial, such as its context.
    Shape:
        :math:`(n,)` each.
    Raises:
        ValueError: If the shapes differ, there is no trial with a response, a stimulus or a group
            is not finite, or a response is infinite.
        RuntimeError: If the fit does not converge.
    Source:
        Wichmann and Hill, Perception and Psychophysics 63, 2001.
        https://doi.org/10.3758/BF03194544 (departures: a logistic function, no lapse rate).
    Example:
        >>> curve = psychometric_curve([-1, -1, 1, 1], [0, 1, 1, 1])
        >>> curve.responses.tolist()
        [[0.5, 1.0]]
    """
    s = as_real_array(stimulus, "stimulus")
    r = as_real_array(response, "response")
    if group is None:
        g = np.zeros_like(s)
    else:
        g = as_real_array(group, "group")
    if s.ndim != 1 or not len(s) or r.shape != s.shape or g.shape != s.shape:
        raise ValueError(
            "expected one stimulus, one response and one group for each trial, got shapes "
            f"{s.shape}, {r.shape} and {g.shape}"
        )
    if not np.isfinite(s).all() or not np.isfinite(g).all():
        raise ValueError("expected finite stimuli and groups, got NaN or infinity")
    answered = ~np.isnan(r)
    if not answered.any() or np.isinf(r).any():
        raise ValueError("expected finite responses, or NaN for some that are missing")
    values = set(np.unique(r[answered]))
    is_choice = values <= {-1.0, 1.0} or values <= {0.0, 1.0}
    upper = (r == 1.0).astype(np.float64)
    shown = upper if is_choice else r
    groups = np.unique(g)
    stimuli = np.unique(s)
    shape = len(groups), len(stimuli)
    means = np.full(shape, np.nan)
    errors = np.full(shape, np.nan)
    counts = np.zeros(shape, np.int64)
    bias = np.full(len(groups), np.nan)
    slope = np.full(len(groups), np.nan)
    for i, one in enumerate(groups):
        for j, level in enumerate(stimuli):
            chosen = shown[answered & (g == one) & (s == level)]
            counts[i, j] = len(chosen)
            if len(chosen):
                means[i, j] = chosen.mean()
            if len(chosen) > 1:
                errors[i, j] = chosen.std(ddof=1) / np.sqrt(len(chosen))
        trials = answered & (g == one)
        if is_choice and trials.any():
            bias[i], slope[i] = _logistic_fit(s[trials], upper[trials])
    return PsychometricCurve(groups, stimuli, means, errors, counts, bias, slope)


def _logistic_fit(s: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """Return the bias and the slope of greatest likelihood, by Newton's method."""
    # a single choice, or a single stimulus, determines neither the bias nor the slope
    if y.min() == y.max() or s.min() == s.max():
        return np.nan, np.nan
    upper = s[y == 1]
    lower = s[y == 0]
    # the steeper the function, the better it fits, where at most one stimulus has both choices
    if lower.max() <= upper.min():
        return float((lower.max() + upper.min()) / 2), np.inf
    if upper.max() <= lower.min():
        return float((upper.max() + lower.min()) / 2), -np.inf
    # both columns of similar size, whatever the offset and the unit of the stimuli
    centre = s.mean()
    scale = s.std()
    X = np.stack([np.ones_like(s), (s - centre) / scale], axis=1)
    weights = _maximum_likelihood(X, y)
    # w_0 + w_1 (s - centre) / scale = k (s - b)
    slope = weights[1] / scale
    if abs(weights[1]) < _FLAT:
        return np.nan, float(slope)
    return float(centre - weights[0] / slope), float(slope)


def _maximum_likelihood(
    X: NDArray[np.float64],  # (n, 2)
    y: NDArray[np.float64],  # (n,)
) -> NDArray[np.float64]:  # (2,)
    """Return the weights of the log odds by Newton's method, with a step that always improves.

    Raises:
        RuntimeError: If the steps do not converge.
    """

    def log_likelihood(weights: NDArray[np.float64]) -> float:
        odds = X @ weights
        return float(np.sum(y * odds - np.logaddexp(0, odds)))

    weights = np.zeros(2)
    for _ in range(_STEPS):
        p = np.exp(-np.logaddexp(0, -X @ weights))
        gradient = X.T @ (y - p)
        curvature = X.T @ (X * (p * (1 - p))[:, None])
        step = np.linalg.solve(curvature, gradient)
        # the error is squared with each step, so the next one would change nothing
        if np.abs(step).max() <= 1e-7 * (1 + np.abs(weights).max()):
            return weights + step
        # the likelihood is concave, so a step that is short enough increases it
        now = log_likelihood(weights)
        rounding = 1e-14 * abs(now)
        while log_likelihood(weights + step) < now - rounding:
            step /= 2
        weights += step
    raise RuntimeError(
        f"expected a logistic fit to converge within {_STEPS} steps, got weights {weights}"
    )
