"""The copying problem: figure 1."""

from dataclasses import replace

from eigenrnn.init import glorot_uniform_, kaiming_normal_, zeros_
from eigenrnn.layers import ExpRNN
from eigenrnn_experiments.recipes.recipe import Recipe, Reported
from eigenrnn_experiments.recipes.scornn.paper import (
    SOURCE,
    full_urnn,
    lstm,
    restricted_urnn,
    scornn,
)
from eigenrnn_experiments.recipes.setup import Network, Setup
from eigenrnn_experiments.tasks import Copying
from eigenrnn_experiments.training import Settings

__all__ = ["RECIPES"]

_EXPRNN_CODE = (
    "initialisation and learning rates are those of its own code for this task "
    "(https://github.com/Lezcano/expRNN), batch size and steps are those of this figure"
)

_SCORNN = scornn(190, parameters=21_764, negative=95)
_LSTM = lstm(68, parameters=22_381)
_EXPRNN = Network(
    "expRNN 190",
    ExpRNN,
    190,
    parameters=21_764,
    options={"matrix_init": "henaff"},
    settings={"optimiser": "rmsprop", "alpha": 0.99, "lr": 2e-4, "lr_recurrent": 2e-5},
    head_init=kaiming_normal_,
    head_bias_init=zeros_,
    departures=(_EXPRNN_CODE,),
)
_RESTRICTED_URNN = restricted_urnn(
    470, parameters=22_569, head_bias_init=zeros_, lr_recurrent=1e-3
)
_FULL_URNN = full_urnn(
    128,
    parameters=21_641,
    head_bias_init=zeros_,
    optimiser_recurrent="sgd",
    lr_recurrent=1e-3,
)

_DELAY_1000 = Setup(
    task=Copying.scornn(1000),
    settings=Settings(
        steps=10_000,
        batch_size=20,
        optimiser="rmsprop_tf1",
        lr=1e-3,
        lr_recurrent=1e-4,
        eval_every=50,
        eval_batch_size=100,
    ),
    reported=Reported(None, "figure 1, left", quantity="loss", rule="last"),
    suffix="T=1000",
    head_init=glorot_uniform_,
    head_bias_init=glorot_uniform_,
    quick_task=Copying(delay=30, test_examples=100),
)
_DELAY_2000 = replace(
    _DELAY_1000.reported_as(place="figure 1, right"), task=Copying.scornn(2000), suffix="T=2000"
)

_READING = 5e-4  # of a loss, off the figure
_SOLVED = "the curve ends at zero"
_GRADUAL = "the curve leaves the baseline gradually; no number is printed"
_LATE = "the curve stays at the baseline for thousands of steps; no number is printed"
_STUCK = "the curve stays at the baseline"
_ABSENT = "a network of a later paper, absent from the figure"

RECIPES = (
    Recipe(
        name="scornn/fig1",
        summary="Copying problem with delays of 1000 and 2000: loss on 1,000 test sequences.",
        rows=(
            _DELAY_1000.row(_SCORNN, 0.0, note=_SOLVED, reading=_READING),
            _DELAY_1000.row(_LSTM, 0.0204, note=_STUCK, reading=_READING),
            _DELAY_1000.row(_EXPRNN, note=_ABSENT),
            _DELAY_1000.row(_RESTRICTED_URNN, 0.0204, note=_STUCK, reading=_READING),
            _DELAY_1000.row(_FULL_URNN, 0.0, note=_SOLVED, reading=_READING),
            _DELAY_2000.row(_SCORNN, note=_GRADUAL),
            _DELAY_2000.row(_LSTM, 0.0103, note=_STUCK, reading=_READING),
            _DELAY_2000.row(_EXPRNN, note=_ABSENT),
            _DELAY_2000.row(_RESTRICTED_URNN, 0.0103, note=_STUCK, reading=_READING),
            _DELAY_2000.row(_FULL_URNN, note=_LATE),
        ),
        source=f"{SOURCE}, section 5.1 and figure 1",
        departures=("the paper plots the loss over training and prints no number",),
    ),
)
"""One figure of two lengths."""
