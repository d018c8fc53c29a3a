"""The adding problem: figure 2."""

from dataclasses import replace

from eigenrnn.init import glorot_uniform_, zeros_
from eigenrnn_experiments.recipes.recipe import Recipe, Reported
from eigenrnn_experiments.recipes.scornn.paper import (
    SOURCE,
    full_urnn,
    lstm,
    restricted_urnn,
    scornn,
)
from eigenrnn_experiments.recipes.setup import Setup
from eigenrnn_experiments.tasks import Adding
from eigenrnn_experiments.training import Settings

__all__ = ["RECIPES"]

_NETWORKS = (
    scornn(170, parameters=15_046, negative=85),
    lstm(60, parameters=15_421),
    restricted_urnn(950, parameters=15_201, optimiser_recurrent="rmsprop", lr_recurrent=1e-3),
    full_urnn(120, parameters=15_481, optimiser_recurrent="sgd", lr_recurrent=1e-3),
)

_LENGTH_200 = Setup(
    task=Adding.scornn(200),
    settings=Settings(
        epochs=10,
        batch_size=50,
        optimiser="adam",
        lr=1e-3,
        optimiser_recurrent="rmsprop_tf1",
        lr_recurrent=1e-4,
        eval_every=100,
        eval_batch_size=500,
    ),
    reported=Reported(
        None,
        "figure 2, top",
        quantity="loss",
        rule="last",
        note="no number is printed; the curves leave the baseline in the order LSTM, "
        "full-capacity, scoRNN, uRNN",
    ),
    suffix="T=200",
    head_init=glorot_uniform_,
    head_bias_init=zeros_,
    quick_task=Adding(20, test_examples=100),
)
_LENGTH_400 = replace(
    _LENGTH_200.reported_as(place="figure 2, middle"), task=Adding.scornn(400), suffix="T=400"
)
_LENGTH_750 = replace(
    _LENGTH_200.reported_as(place="figure 2, bottom"), task=Adding.scornn(750), suffix="T=750"
)

RECIPES = (
    Recipe(
        name="scornn/fig2",
        summary="Adding problem with 200, 400 and 750 steps: error on 10,000 test sequences.",
        rows=(
            *map(_LENGTH_200.row, _NETWORKS),
            *map(_LENGTH_400.row, _NETWORKS),
            *map(_LENGTH_750.row, _NETWORKS),
        ),
        source=f"{SOURCE}, section 5.2 and figure 2",
        departures=(
            "the paper does not name the optimisers; we use those of the released code, Adam and, "
            "for A, RMSprop",
        ),
    ),
)
"""One figure of three lengths."""
