"""Memory of chains and of normal matrices: figures 1 and 2."""

from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import Generator, Tensor, empty

from eigenrnn.analysis import fisher_memory, linear_decodability
from eigenrnn.init import chain_, feedback_chain_, orthogonal_
from eigenrnn_experiments.recipes.nonnormal.paper import SOURCE
from eigenrnn_experiments.recipes.panels import Curves, SideBySide
from eigenrnn_experiments.recipes.recipe import Panel, Recipe
from eigenrnn_experiments.recipes.reproduce import Trained
from eigenrnn_experiments.recipes.row import Computed, Reported

__all__ = ["RECIPES", "matrices"]

_UNITS = 100
_STEPS = 120
_NORMAL_GAIN = 0.95
_ALPHA = 1.02
_FEEDBACK = 0.99
_BETA = 0.005
_DELAYS = tuple(range(0, 100, 2))
_SAMPLES = 20_000
_SOURCE_UNIT = np.eye(_UNITS)[0]


def matrices() -> dict[str, Tensor]:  # (N, N) each
    """Return the recurrent matrices of the four networks of 100 units."""
    generator = Generator().manual_seed(0)
    size = (_UNITS, _UNITS)
    orthogonal = orthogonal_(empty(size).double(), generator=generator)
    identity = empty(size).double().fill_(0)
    identity.diagonal().fill_(_NORMAL_GAIN)
    return {
        "identity": identity,
        "orthogonal": _NORMAL_GAIN * orthogonal,
        "chain": chain_(empty(size).double(), _ALPHA),
        "feedback chain": feedback_chain_(empty(size).double(), _FEEDBACK, _BETA),
    }


def _memory(_: Trained) -> Curves:
    return Curves(
        np.arange(_STEPS),
        {name: fisher_memory(W, _SOURCE_UNIT, _STEPS).curve for name, W in matrices().items()},
        x_name="steps ago",
        y_name="Fisher information",
        log=True,
    )


def _amplification(_: Trained) -> Curves:
    return Curves(
        np.arange(_STEPS),
        {name: _norms(W.numpy()) for name, W in matrices().items()},
        x_name="step after the input",
        y_name="norm of the state",
        log=True,
    )


def _norms(W: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the norm of the state after one input; NaN where it is zero."""
    states = [_SOURCE_UNIT]
    for _ in range(_STEPS - 1):
        states.append(W @ states[-1])
    norms = np.linalg.norm(states, axis=1)
    return np.where(norms > 0, norms, np.nan)


def _decoding(_: Trained) -> SideBySide:
    chosen = {name: W for name, W in matrices().items() if name in ("orthogonal", "chain")}
    linear = {name: _decoded(W, "identity", noise=0.1) for name, W in chosen.items()}
    elu = {name: _decoded(W, "elu", noise=0.0) for name, W in chosen.items()}
    curves = partial(Curves, _DELAYS, x_name="steps ago", y_name="fraction of variance decoded")
    return SideBySide(
        [curves(linear, title="linear, with noise"), curves(elu, title="ELU, without noise")]
    )


def _decoded(W: Tensor, nonlinearity: str, *, noise: float) -> NDArray[np.float64]:
    return linear_decodability(
        W,
        _DELAYS,
        nonlinearity=nonlinearity,
        noise=noise,
        source=_SOURCE_UNIT,
        samples=_SAMPLES,
        generator=np.random.default_rng(0),
    ).r_squared


def _total(name: str, *, at_most: float) -> Computed:
    """Return the row of a matrix, with the largest total Fisher memory of its kind."""
    return Computed(
        label=name,
        compute=lambda: fisher_memory(matrices()[name], _SOURCE_UNIT, 3_000).total,
        reported=(
            Reported(
                None,
                "figure 1b",
                quantity="total Fisher memory",
                note="the curve prints no number; at most 1 for a normal matrix, and at most N",
                at_most=at_most,
            ),
        ),
    )


def _decoded_from(name: str) -> Computed:
    return Computed(
        label=f"{name} ELU",
        compute=lambda: float(_decoded(matrices()[name], "elu", noise=0.0).sum()),
        reported=(
            Reported(
                None,
                "figure 2c",
                quantity="sum of the shares",
                note="the curve prints no number",
            ),
        ),
    )


_UNSTATED = (
    f"the numbers of figure 1 are not stated; we take {_NORMAL_GAIN} times the identity and times "
    f"an orthogonal matrix, alpha = {_ALPHA}, and {_FEEDBACK} forward with {_BETA} back"
)

RECIPES = (
    Recipe(
        name="nonnormal/fig1",
        summary="Linear networks of 100 units: Fisher memory, and the amplification of a signal.",
        rows=(
            _total("identity", at_most=1.0),
            _total("orthogonal", at_most=1.0),
            _total("chain", at_most=100.0),
            _total("feedback chain", at_most=100.0),
        ),
        source=f"{SOURCE}, section 2 and figure 1",
        departures=(_UNSTATED,),
        panels=(
            Panel("b", "Fisher memory of past inputs", draw=_memory),
            Panel("c", "Amplification of one input to the source unit", draw=_amplification),
        ),
    ),
    Recipe(
        name="nonnormal/fig2",
        summary="Networks of 100 units: how well a linear decoder recovers past inputs from the "
        "state.",
        rows=(_decoded_from("orthogonal"), _decoded_from("chain")),
        source=f"{SOURCE}, section 2 and figure 2",
        departures=(
            _UNSTATED,
            "noise, signal and samples are not stated; we take normal inputs and normal noise "
            "with a tenth of their standard deviation, and measure on held-out samples",
        ),
        panels=(
            Panel("b-c", "Fraction of a past input's variance that is decoded", draw=_decoding),
        ),
    ),
)
"""The two theoretical figures."""
