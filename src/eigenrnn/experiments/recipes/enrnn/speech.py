"""Prediction of the next frame of speech: figure 3 and table 2."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import nn

from eigenrnn.experiments.recipes.enrnn.paper import LSTM_BIASES, SOURCE, lstm_init, tf1
from eigenrnn.experiments.recipes.recipe import Recipe, Reported, Row
from eigenrnn.experiments.tasks import Speech
from eigenrnn.experiments.training import Callback, Settings
from eigenrnn.experiments.training.resynthesis import Resynthesis, resynthesise
from eigenrnn.init import glorot_uniform_, zeros_
from eigenrnn.layers import ENRNN, ScoRNN, TorchLSTM

__all__ = ["RECIPES"]

_TIMIT, _FREE_CORPUS = Speech(corpus="timit"), Speech()
_SCHEDULE: dict[str, Any] = {"epochs": 300, "batch_size": 28, "log_every": 20}
_SCORES_NOTE = "; SegSNR {} dB, STOI {}, PESQ {}"
_SCORE_PACKAGES = {"segsnr": "eigenrnn", "stoi": "pystoi", "pesq": "pesq"}


def _write_sounds() -> Callback:
    """Return a callback that writes predicted recordings of the free corpus as sound files."""
    return Resynthesis(_FREE_CORPUS, limit=4)


def _speech_scores(model: nn.Module, task: Speech, folder: Path) -> dict[str, float]:
    """Compute the speech scores of the predicted test recordings, as far as installed."""
    installed = [name for name, package in _SCORE_PACKAGES.items() if find_spec(package)]
    return resynthesise(model, task, "test", folder, scores=installed)


def _rows(place: str, *, free: bool = False) -> tuple[Row, ...]:
    """Return the rows of the four networks; figure 3 reports the validation error."""
    by_validation = place == "figure 3"

    def row(
        label: str,
        layer: Any,
        size: int,
        parameters: int,
        errors: tuple[float, float],
        scores: tuple[float, float, float],
        settings: Settings,
        **row_fields: Any,
    ) -> Row:
        value = errors[0] if by_validation else errors[1]
        rule_note = "the lowest of the curve, from table 2" if by_validation else "best epoch"
        split, rule = ("validation", "best") if by_validation else ("test", "validation")
        note = "the paper has other data" if free else rule_note + _SCORES_NOTE.format(*scores)
        return Row(
            label=label,
            task=_FREE_CORPUS if free else _TIMIT,
            quick_task=_FREE_CORPUS,
            quick_steps=5,
            layer=layer,
            hidden_size=size,
            parameters=parameters,
            settings=settings,
            reported=Reported(
                None if free else value,
                place,
                split,
                "padded_mse",
                rule,
                note,
                decimals=None if free else 2,
            ),
            head_init=glorot_uniform_,
            head_bias_init=zeros_,
            callback_factory=_write_sounds if free else None,
            score=None if by_validation else _speech_scores,
            **row_fields,
        )

    lstm: dict[str, Any] = {"options": lstm_init(-4.0), "departures": (LSTM_BIASES,)}
    return (
        row(
            "ENRNN 374/94",
            ENRNN,
            468,
            199_928,
            (0.13, 0.13),
            (4.84, 0.83, 2.75),
            Settings(optimiser="adam", lr=1e-4, lr_recurrent=1e-4, **_SCHEDULE),
            options={"short_size": 94, "negative": 374, "coupling": False},
        ),
        row(
            "scoRNN 425",
            ScoRNN,
            425,
            200_304,
            (1.56, 1.52),
            (4.55, 0.82, 2.72),
            Settings(
                optimiser="adam",
                lr=1e-3,
                optimiser_recurrent="rmsprop_tf1",
                lr_recurrent=1e-4,
                **_SCHEDULE,
            ),
            options={"negative": 43},
        ),
        row(
            "LSTM 158",
            TorchLSTM,
            158,
            203_159,
            (8.53, 8.27),
            (4.00, 0.79, 2.51),
            tf1(1e-3, clip_norm=1.0, epochs=300, batch_size=28),
            **lstm,
        ),
        row(
            "LSTM 468",
            TorchLSTM,
            468,
            1_181_829,
            (5.60, 5.42),
            (4.82, 0.81, 2.75),
            tf1(1e-4, clip_norm=1.0, epochs=300, batch_size=28),
            **lstm,
        ),
    )


_SPOKEN = "STOI and PESQ are measured only if the extra `speech` is installed"
_PADDING = (
    "the error averages over padded frames too, as the text says, so it depends on the longest "
    "recording; the error over valid frames is beside it"
)
_CONTRADICTION = (
    "the code was never released, and the table contradicts itself: errors of 0.13 and 5.42 have "
    "the same SegSNR, so compare ratios and the sound"
)

RECIPES = (
    Recipe(
        name="enrnn/fig3",
        summary="Next spectral frame of TIMIT: validation error over 300 epochs.",
        rows=_rows("figure 3"),
        source=f"{SOURCE}, section 5.3, table 1 and figure 3",
        departures=(_PADDING, _CONTRADICTION),
    ),
    Recipe(
        name="enrnn/table2",
        summary="Next spectral frame of TIMIT: test error at the best validation epoch.",
        rows=_rows("table 2"),
        source=f"{SOURCE}, section 5.3, table 1 and table 2",
        departures=(_PADDING, _CONTRADICTION, _SPOKEN),
    ),
    Recipe(
        name="enrnn/table2-free",
        summary="The networks of table 2 on the freely available Free Spoken Digit Dataset.",
        rows=_rows("table 2", free=True),
        source=f"{SOURCE}, section 5.3; the data are others",
        departures=("digits at 8 kHz in place of TIMIT, which must be bought", _SPOKEN),
    ),
)
"""A figure and a table of TIMIT, and the same on free recordings."""
