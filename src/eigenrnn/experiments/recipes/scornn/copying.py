"""The copying problem: figure 1."""

from dataclasses import replace
from typing import Any

from eigenrnn.experiments.recipes.recipe import Recipe, Reported, Row
from eigenrnn.experiments.recipes.scornn.paper import LSTM_BIASES, LSTM_INIT, SOURCE, THEANO
from eigenrnn.experiments.tasks import Copying
from eigenrnn.experiments.training import Settings
from eigenrnn.init import glorot_uniform_, kaiming_normal_, zeros_
from eigenrnn.layers import URNN, ExpRNN, FullCapacityURNN, ScoRNN, TorchLSTM

__all__ = ["RECIPES"]

EXPRNN = (
    "initialisation and learning rates are those of its own code for this task "
    "(https://github.com/Lezcano/expRNN), batch size and steps are those of this figure"
)


def _copying(delay: int) -> tuple[Row, ...]:
    task, quick_task = Copying.scornn(delay), Copying(delay=30, test_examples=100)
    settings = Settings(
        steps=10_000,
        batch_size=20,
        optimiser="rmsprop_tf1",
        lr=1e-3,
        lr_recurrent=1e-4,
        eval_every=50,
        eval_batch_size=100,
    )
    baseline = round(task.baseline(), 4)
    place = "figure 1, left" if delay == 1000 else "figure 1, right"

    def row(
        label: str, layer: Any, hidden_size: int, reported: Reported, **row_fields: Any
    ) -> Row:
        defaults: dict[str, Any] = {
            "settings": settings,
            "head_init": glorot_uniform_,
            "head_bias_init": glorot_uniform_,
        }
        return Row(
            label=f"{label} T={delay}",
            task=task,
            layer=layer,
            hidden_size=hidden_size,
            reported=reported,
            quick_task=quick_task,
            **defaults | row_fields,
        )

    def loss(value: float | None, note: str) -> Reported:
        reading = None if value is None else 5e-4
        return Reported(value, place, quantity="loss", rule="last", note=note, reading=reading)

    solved = loss(0.0, "the curve ends at zero")
    gradual = loss(None, "the curve leaves the baseline gradually; no number is printed")
    late = loss(
        None, "the curve stays at the baseline for thousands of steps; no number is printed"
    )
    stuck = loss(baseline, "the curve stays at the baseline")
    later = loss(None, "a network of a later paper, absent from the figure")
    return (
        row(
            "scoRNN 190",
            ScoRNN,
            190,
            solved if delay == 1000 else gradual,
            options={"negative": 95},
            parameters=21_764,
        ),
        row(
            "LSTM 68",
            TorchLSTM,
            68,
            stuck,
            options=LSTM_INIT,
            parameters=22_381,
            departures=(LSTM_BIASES,),
        ),
        row(
            "expRNN 190",
            ExpRNN,
            190,
            later,
            settings=replace(
                settings, optimiser="rmsprop", alpha=0.99, lr=2e-4, lr_recurrent=2e-5
            ),
            options={"init": "henaff"},
            parameters=21_764,
            head_init=kaiming_normal_,
            head_bias_init=zeros_,
            departures=(EXPRNN,),
        ),
        row(
            "restricted-capacity uRNN 470",
            URNN,
            470,
            stuck,
            settings=replace(settings, optimiser="rmsprop", alpha=0.9, lr_recurrent=1e-3),
            parameters=22_569,
            head_bias_init=zeros_,
            departures=(THEANO,),
        ),
        row(
            "full-capacity uRNN 128",
            FullCapacityURNN,
            128,
            solved if delay == 1000 else late,
            settings=replace(
                settings,
                optimiser="rmsprop",
                alpha=0.9,
                optimiser_recurrent="sgd",
                lr_recurrent=1e-3,
            ),
            parameters=21_641,
            head_bias_init=zeros_,
            departures=(THEANO,),
        ),
    )


RECIPES = (
    Recipe(
        name="scornn/fig1",
        summary="Copying problem with delays of 1000 and 2000: loss on 1,000 test sequences.",
        rows=(*_copying(1000), *_copying(2000)),
        source=f"{SOURCE}, section 5.1 and figure 1",
        departures=("the paper plots the loss over training and prints no number",),
    ),
)
"""One figure of two lengths."""
