"""The adding problem of 750 steps: figures 1, 6 and 7."""

from dataclasses import replace
from functools import partial
from typing import Any

from eigenrnn.constraints import SpectralRadius
from eigenrnn.experiments.recipes.enrnn.paper import LSTM_BIASES, SOURCE, THEANO, lstm_init, tf1
from eigenrnn.experiments.recipes.recipe import Recipe, Reported, Row
from eigenrnn.experiments.tasks import Adding
from eigenrnn.experiments.training import Settings
from eigenrnn.init import glorot_uniform_, zeros_
from eigenrnn.layers import ENRNN, ORNN, RNN, FullCapacityURNN, ScoRNN, SpectralRNN, TorchLSTM

__all__ = ["RECIPES"]

_SCHEDULE: dict[str, Any] = {
    "epochs": 6,
    "batch_size": 50,
    "eval_every": 100,
    "eval_batch_size": 500,
}
_ADAM = Settings(optimiser="adam", lr=1e-2, lr_recurrent=1e-2, log_every=50, **_SCHEDULE)
_CURVE = "the paper shows only the curve"


def _row(
    place: str,
    label: str,
    layer: Any,
    hidden_size: int,
    parameters: int,
    settings: Settings,
    note: str = _CURVE,
    **row_fields: Any,
) -> Row:
    return Row(
        label=label,
        task=Adding.enrnn(750),
        quick_task=Adding(20, test_examples=100),
        quick_steps=10,
        layer=layer,
        hidden_size=hidden_size,
        parameters=parameters,
        settings=settings,
        reported=Reported(None, place, "test", "loss", "last", note),
        head_init=glorot_uniform_,
        head_bias_init=zeros_,
        **row_fields,
    )


def _enrnn(place: str, long: int, short: int, parameters: int, note: str = _CURVE) -> Row:
    """Return the row of an ENRNN with these numbers of long-memory and short-memory units."""
    label, settings = f"ENRNN {long}/{short}", tf1(1e-4, **_SCHEDULE)
    # three tenths of the long memory, as for the only network whose number is stated
    negative, units = round(0.3 * long), long + short
    if short == 0:
        options = {"negative": negative}
        return _row(place, label, ScoRNN, units, parameters, settings, note, options=options)
    if long == 0:
        options = {"constraint": SpectralRadius}
        return _row(place, label, RNN, units, parameters, settings, note, options=options)
    options = {"short_size": short, "negative": negative}
    return _row(place, label, ENRNN, units, parameters, settings, note, options=options)


def _comparison() -> tuple[Row, ...]:
    row = partial(_row, "figure 1")
    reflections = {"reflections": 16}
    return (
        _enrnn("figure 1", 96, 64, 15_441, "the first curve to come near zero"),
        row(
            "LSTM 60",
            TorchLSTM,
            60,
            15_421,
            replace(_ADAM, lr_recurrent=None),
            options=lstm_init(0.0),
            departures=(LSTM_BIASES,),
        ),
        row(
            "Spectral RNN 60",
            SpectralRNN,
            60,
            1_981,
            replace(_ADAM, lr_decay=0.99, lr_decay_at="epoch"),
            note="the curve ends slightly below that of ENRNN",
            options={**reflections, "margin": 0.01},
            departures=(
                "table 1 says about 15k parameters, which no number of reflections gives; the 16 "
                "of section 5.1 give 1,981",
            ),
        ),
        row(
            "scoRNN 170",
            ScoRNN,
            170,
            15_046,
            Settings(
                optimiser="adam",
                lr=1e-3,
                optimiser_recurrent="rmsprop_tf1",
                lr_recurrent=1e-4,
                log_every=50,
                **_SCHEDULE,
            ),
            options={"negative": 119},
        ),
        row("oRNN 128", ORNN, 128, 2_569, _ADAM, options=reflections),
        row(
            "full-capacity uRNN 120",
            FullCapacityURNN,
            120,
            15_481,
            Settings(lr=1e-5, lr_recurrent=1e-5, alpha=0.9, log_every=50, **_SCHEDULE),
            departures=(THEANO,),
        ),
    )


# 15,441 parameters for 96/64: long skew + short^2 + coupling + 2 n + n + n + 1
def _parameters(long: int, short: int) -> int:
    return long * (long - 1) // 2 + short**2 + long * short + 4 * (long + short) + 1


_SHORT_SIZES = (0, 16, 32, 48, 64, 80, 96)
_SPLITS = ((160, 0), (128, 32), (96, 64), (64, 96), (32, 128), (0, 160))
_NOTES = {
    (96, 0): "the loss falls below the baseline near the sixth epoch, if at all",
    (160, 0): "the loss falls below the baseline near the sixth epoch, if at all",
    (96, 48): "the curve is near the best one",
    (96, 64): "the curve is about the best one",
    (96, 80): "the curve is near the best one",
    (96, 96): "the curve is near the best one",
    (64, 96): "the curve is about the best one",
    (0, 160): "the curve never reaches zero",
}
_SIZES = "the sizes are stated only in the legend of the picture; those here are our choice"
_NEGATIVE = (
    "three tenths of the entries of D are -1 in the long memory, as in section 5.1 for 96 units"
)

RECIPES = (
    Recipe(
        name="enrnn/fig1",
        summary="Adding problem with 750 steps: error on 10,000 test sequences over 6 epochs.",
        rows=_comparison(),
        source=f"{SOURCE}, section 5.1, table 1 and figure 1",
        departures=("the paper plots the error over training and prints no number",),
    ),
    Recipe(
        name="enrnn/fig6",
        summary="Adding problem with 750 steps: 96 long-memory and 0 to 96 short-memory units.",
        rows=tuple(
            _enrnn("figure 6", 96, short, _parameters(96, short), _NOTES.get((96, short), _CURVE))
            for short in _SHORT_SIZES
        ),
        source=f"{SOURCE}, section 6.2 and figure 6",
        departures=(_SIZES, _NEGATIVE),
    ),
    Recipe(
        name="enrnn/fig7",
        summary="Adding problem with 750 steps: 160 units split between long and short memory.",
        rows=tuple(
            _enrnn(
                "figure 7",
                long,
                short,
                _parameters(long, short),
                _NOTES.get((long, short), _CURVE),
            )
            for long, short in _SPLITS
        ),
        source=f"{SOURCE}, section 6.2 and figure 7",
        departures=(_SIZES, _NEGATIVE),
    ),
)
"""One comparison with other networks, and two of the sizes of an ENRNN."""
