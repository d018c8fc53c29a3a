"""Penn Treebank by characters: tables 1, 4 and 7."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Generator, nn

from eigenrnn.constraints import Unconstrained
from eigenrnn.init import (
    fan_uniform_,
    kaiming_normal_,
    orthogonal_,
    uniform_,
    weights_,
    zeros_,
)
from eigenrnn.layers import RNN
from eigenrnn.models import LanguageModel
from eigenrnn_experiments.recipes.nnrnn.paper import (
    SOURCE,
    cayley_,
    eurnn,
    exprnn,
    lstm,
    nnrnn,
    rnn,
    schur_scores,
)
from eigenrnn_experiments.recipes.panels import FIGURE_NOTE
from eigenrnn_experiments.recipes.recipe import Recipe
from eigenrnn_experiments.recipes.row import Reported, Row
from eigenrnn_experiments.recipes.setup import Network, Setup
from eigenrnn_experiments.tasks import CharPTB
from eigenrnn_experiments.training import Settings

__all__ = ["RECIPES", "TABLE_1", "TABLE_7"]

_EMBEDDING = 200


def _nnrnn_language_model(row: Row, generator: Generator) -> nn.Module:
    make_layer: Any = row.layer
    layer = make_layer(_EMBEDDING, row.hidden_size, generator=generator, **row.options)
    vocabulary = row.task.output_size
    return LanguageModel(
        vocabulary, _EMBEDDING, [layer], head_bias_init=zeros_, generator=generator
    )


# the networks and their rates are those of table 5

_RNN = rnn(1024, parameters=1_316_674, weight_ih=kaiming_normal_, lr=1e-5)
_RNN_ORTH_OPTIONS = {
    "input_bias": True,
    "init": partial(weights_, weight_ih=kaiming_normal_, bias=uniform_, input_bias=fan_uniform_),
}
_RNN_ORTH_150 = Network(
    "RNN-orth 1024",
    RNN,
    1024,
    parameters=1_316_674,
    options={**_RNN_ORTH_OPTIONS, "constraint": partial(Unconstrained, init=orthogonal_)},
    settings={"lr": 1e-4},
)
_RNN_ORTH_300 = replace(
    _RNN_ORTH_150,
    options={**_RNN_ORTH_OPTIONS, "constraint": partial(Unconstrained, init=cayley_)},
)
_eurnn = partial(eurnn, capacity=188, lr=1e-3, lr_recurrent=1e-3)
_EURNN_2048 = _eurnn(2048, parameters=1_320_582)
_EURNN_1024 = _eurnn(1024, parameters=665_222)
_exprnn = partial(
    exprnn, matrix_init="cayley", weight_ih=kaiming_normal_, lr=5e-3, lr_recurrent=1e-4
)
_EXPRNN_1386 = _exprnn(1386, parameters=1_317_741)
_EXPRNN_1024 = _exprnn(1024, parameters=790_850)
_nnrnn_1024 = partial(
    nnrnn,
    1024,
    parameters=1_315_650,
    init="cayley",
    options={"init": partial(weights_, weight_ih=kaiming_normal_)},
    lr=8e-4,
    weight_decay=1e-4,
)
_NNRNN_150 = _nnrnn_1024(gamma_penalty=1.0, lr_recurrent=8e-5)
_NNRNN_300 = _nnrnn_1024(gamma_penalty=1e-4, lr_recurrent=6e-5)
_LSTM_1024 = lstm(1024, parameters=5_082_946, lr=8e-3)
_LSTM_475_150 = lstm(475, parameters=1_320_100, lr=1e-3, alpha=0.99)
_LSTM_475_300 = lstm(475, parameters=1_320_100, lr=3e-3)


def _clamped(network: Network, label: str, gamma: Mapping[str, Any]) -> Network:
    """Return an nnRNN with clamped moduli, which trains N / 2 parameters fewer."""
    return replace(
        network,
        label=label,
        parameters=network.parameters - network.hidden_size // 2,
        options={**network.options, **gamma},
    )


_GAMMA_1 = {"gamma": "clamped"}
_GAMMA_0_958 = {"gamma": "clamped", "gamma_value": 0.958}
_NNRNN_GAMMA_1_150 = _clamped(_NNRNN_150, "nnRNN 1024 gamma=1", _GAMMA_1)
_NNRNN_GAMMA_1_300 = _clamped(_NNRNN_300, "nnRNN 1024 gamma=1", _GAMMA_1)
_NNRNN_GAMMA_0_958_150 = _clamped(_NNRNN_150, "nnRNN 1024 gamma=0.958", _GAMMA_0_958)
_NNRNN_GAMMA_0_958_300 = _clamped(_NNRNN_300, "nnRNN 1024 gamma=0.958", _GAMMA_0_958)

_LENGTH_150 = Setup(
    task=CharPTB.nnrnn(150),
    settings=Settings(
        epochs=100,
        batch_size=128,
        alpha=0.9,
        lr_decay=0.5,
        lr_decay_at="plateau",
        log_every=50,
    ),
    reported=Reported(None, "table 1", split="test", quantity="bits", rule="validation"),
    suffix="T=150",
    model_factory=_nnrnn_language_model,
    quick_task=replace(CharPTB.nnrnn(150), window=20, eval_symbols=2_000),
    quick_steps=5,
)
_SCORED_150 = replace(_LENGTH_150, score=schur_scores)
_LENGTH_300 = replace(_LENGTH_150, task=CharPTB.nnrnn(300), suffix="T=300")
_CLAMPED_150 = _LENGTH_150.reported_as(place="table 7")
_CLAMPED_300 = _LENGTH_300.reported_as(place="table 7")

_BOTH = "tables 1 and 7"
_NO_LENGTH = "the text does not state the length"
_ONLY_SETTINGS = "only its settings are printed"

_PLACE = f"{SOURCE}, section 5.2, appendix A.3, table 5"
_SEEDS = (0, 1, 2, 3, 4)
_LR_DECAY = (
    "both learning rates are halved after an epoch that does not improve the validation loss"
)

# figures of trained networks, without a number
_TRAINED = {"value": None, "error": None, "quantity": "loss", "rule": "best", "note": FIGURE_NOTE}
_GRADIENTS = {
    "value": None,
    "error": None,
    "note": "the figure prints no number for its curves; we list the loss of the run",
}


def _with_accuracy(row: Row, value: float, *, error: float) -> Row:
    """Return a row of table 1 with its accuracy, which is in table 4."""
    return row.also_reported(place="table 4", quantity="accuracy", value=value, error=error)


TABLE_1 = Recipe(
    name="nnrnn/table1",
    summary="Penn Treebank by characters, 150 and 300 steps: bits per character.",
    rows=(
        _with_accuracy(_LENGTH_150.row(_RNN, 2.89, error=0.002), 0.4001, error=0.00026),
        _with_accuracy(_LENGTH_300.row(_RNN, 2.90, error=0.0016), 0.3997, error=0.00025),
        _with_accuracy(_LENGTH_150.row(_RNN_ORTH_150, 1.62, error=0.004), 0.6629, error=0.0007),
        _with_accuracy(_LENGTH_300.row(_RNN_ORTH_300, 1.66, error=0.006), 0.6553, error=0.0009),
        _with_accuracy(_LENGTH_150.row(_EURNN_2048, 1.61, error=0.001), 0.6568, error=0.00002),
        _with_accuracy(_LENGTH_300.row(_EURNN_2048, 1.62, error=0.001), 0.6555, error=0.00002),
        _with_accuracy(_LENGTH_150.row(_EURNN_1024, 1.69, error=0.001), 0.6401, error=0.00002),
        _with_accuracy(_LENGTH_300.row(_EURNN_1024, 1.68, error=0.001), 0.6420, error=0.00003),
        _with_accuracy(_LENGTH_150.row(_EXPRNN_1386, 1.49, error=0.008), 0.6807, error=0.0015),
        _with_accuracy(_LENGTH_300.row(_EXPRNN_1386, 1.52, error=0.001), 0.6758, error=0.0004),
        _with_accuracy(_LENGTH_150.row(_EXPRNN_1024, 1.51, error=0.005), 0.6751, error=0.0011),
        _with_accuracy(_LENGTH_300.row(_EXPRNN_1024, 1.55, error=0.001), 0.6689, error=0.00024),
        _with_accuracy(
            _SCORED_150.row(_NNRNN_150, 1.47, error=0.003, place=_BOTH),
            0.6878,
            error=0.000006,
        )
        .also_reported(place="figures 3b and 3c", **_TRAINED)
        .also_reported(place="figure 6", **_GRADIENTS),
        _with_accuracy(
            _LENGTH_300.row(_NNRNN_300, 1.49, error=0.002, place=_BOTH), 0.6852, error=0.000004
        ),
        _LENGTH_150.row(_LSTM_1024, 1.37, error=0.003, place="section 5.2", note=_NO_LENGTH),
        _LENGTH_300.row(_LSTM_1024, place="table 5", note=_ONLY_SETTINGS),
        _LENGTH_150.row(_LSTM_475_150, place="table 5", note=_ONLY_SETTINGS),
        _LENGTH_300.row(_LSTM_475_300, place="table 5", note=_ONLY_SETTINGS),
    ),
    source=f"{_PLACE} and table 1",
    departures=(_LR_DECAY,),
    seeds=_SEEDS,
)


_TABLE_4 = Recipe(
    name="nnrnn/table4",
    summary="Penn Treebank by characters, 150 and 300 steps: accuracy of the same models.",
    rows=TABLE_1.rows_at("table 4"),
    source=f"{_PLACE} and table 4",
    departures=(_LR_DECAY,),
    seeds=_SEEDS,
)

TABLE_7 = Recipe(
    name="nnrnn/table7",
    summary="Penn Treebank by characters: nnRNN with moduli that are free or clamped.",
    rows=(
        *TABLE_1.rows_at(_BOTH),
        _CLAMPED_150.row(
            _NNRNN_GAMMA_1_150, 1.46, error=0.005, note="one run of five failed"
        ).also_reported(place="figure 6", **_GRADIENTS),
        _CLAMPED_300.row(_NNRNN_GAMMA_1_300, 1.49, error=0.022, note="two runs of five failed"),
        _CLAMPED_150.row(_NNRNN_GAMMA_0_958_150, 1.47, error=0.005).also_reported(
            place="figure 6", **_GRADIENTS
        ),
        _CLAMPED_300.row(_NNRNN_GAMMA_0_958_300, 1.49, error=0.008),
    ),
    source=f"{_PLACE}, appendix F and table 7",
    departures=(_LR_DECAY,),
    seeds=_SEEDS,
)

RECIPES = (TABLE_1, _TABLE_4, TABLE_7)
"""Three tables of the same networks."""
