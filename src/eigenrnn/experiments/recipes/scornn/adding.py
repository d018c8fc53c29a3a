"""The adding problem: figure 2."""

from dataclasses import replace
from typing import Any

from eigenrnn.experiments.recipes.recipe import Recipe, Reported, Row
from eigenrnn.experiments.recipes.scornn.paper import LSTM_BIASES, LSTM_INIT, SOURCE, THEANO
from eigenrnn.experiments.tasks import Adding
from eigenrnn.experiments.training import Settings
from eigenrnn.init import glorot_uniform_, zeros_
from eigenrnn.layers import URNN, FullCapacityURNN, ScoRNN, TorchLSTM

__all__ = ["RECIPES"]

_PLACES = {200: "figure 2, top", 400: "figure 2, middle", 750: "figure 2, bottom"}
_ORDER = (
    "no number is printed; the curves leave the baseline in the order LSTM, full-capacity, "
    "scoRNN, uRNN"
)


def _adding(length: int) -> tuple[Row, ...]:
    task = Adding.scornn(length)
    settings = Settings(
        epochs=10,
        batch_size=50,
        optimiser="adam",
        lr=1e-3,
        optimiser_recurrent="rmsprop_tf1",
        lr_recurrent=1e-4,
        eval_every=100,
        eval_batch_size=500,
    )
    theano = replace(
        settings, optimiser="rmsprop", optimiser_recurrent="rmsprop", lr_recurrent=1e-3, alpha=0.9
    )

    def row(label: str, layer: Any, hidden_size: int, parameters: int, **row_fields: Any) -> Row:
        defaults: dict[str, Any] = {"settings": settings}
        return Row(
            label=f"{label} {hidden_size} T={length}",
            task=task,
            quick_task=Adding(20, test_examples=100),
            layer=layer,
            hidden_size=hidden_size,
            parameters=parameters,
            reported=Reported(None, _PLACES[length], "test", "loss", "last", _ORDER),
            head_init=glorot_uniform_,
            head_bias_init=zeros_,
            **defaults | row_fields,
        )

    return (
        row("scoRNN", ScoRNN, 170, 15_046, options={"negative": 85}),
        row("LSTM", TorchLSTM, 60, 15_421, options=LSTM_INIT, departures=(LSTM_BIASES,)),
        row(
            "restricted-capacity uRNN",
            URNN,
            950,
            15_201,
            settings=theano,
            departures=(THEANO,),
        ),
        row(
            "full-capacity uRNN",
            FullCapacityURNN,
            120,
            15_481,
            settings=replace(theano, optimiser_recurrent="sgd"),
            departures=(THEANO,),
        ),
    )


RECIPES = (
    Recipe(
        name="scornn/fig2",
        summary="Adding problem with 200, 400 and 750 steps: error on 10,000 test sequences.",
        rows=tuple(row for length in _PLACES for row in _adding(length)),
        source=f"{SOURCE}, section 5.2 and figure 2",
        departures=(
            "the paper does not name the optimisers; we use those of the released code, Adam and, "
            "for A, RMSprop",
        ),
    ),
)
"""One figure of three lengths."""
