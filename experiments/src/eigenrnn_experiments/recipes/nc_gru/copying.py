"""The copying problem: table 4, and figure 4 of the same runs."""

from dataclasses import replace

from eigenrnn.init import glorot_uniform_
from eigenrnn_experiments.recipes.nc_gru.paper import (
    BEST_ON_TEST,
    CURVES,
    INIT_UNKNOWN,
    SOURCE,
    goru,
    gru,
    nc_gru,
)
from eigenrnn_experiments.recipes.recipe import Recipe, Reported
from eigenrnn_experiments.recipes.scornn import lstm, scornn
from eigenrnn_experiments.recipes.setup import Setup
from eigenrnn_experiments.tasks import Copying
from eigenrnn_experiments.training import Settings

__all__ = ["RECIPES"]

_SLOW = {"lr_recurrent": 1e-4}
_LSTM = lstm(68, parameters=22_381)
_GRU = gru(78, parameters=21_537)
_SCORNN = scornn(190, parameters=21_764, negative=95, **_SLOW)
_GORU = goru(100, parameters=24_407)
_NC_GRU_ONE = nc_gru("U_c", 96, parameters=27_033, negative=80, reset_every=20, settings=_SLOW)
_NC_GRU_TWO = nc_gru("U_c,U_r", 96, parameters=22_377, negative=80, reset_every=20, settings=_SLOW)

_DELAY_1000 = Setup(
    task=Copying.nc_gru(1000),
    settings=Settings(
        steps=10_000,
        batch_size=50,
        optimiser="adam",
        lr=1e-3,
        lr_recurrent=1e-3,
        eval_every=50,
        eval_batch_size=100,
    ),
    reported=Reported(None, "table 4 and figure 4a", quantity="loss"),
    suffix="T=1000",
    head_init=glorot_uniform_,
    head_bias_init=glorot_uniform_,
    quick_task=replace(Copying.nc_gru(1000), delay=30, test_examples=100),
)
_DELAY_2000 = replace(
    _DELAY_1000.reported_as(place="table 4 and figure 4b"),
    task=Copying.nc_gru(2000),
    suffix="T=2000",
)

_BASELINE_1000 = "the chance-level baseline is a loss of 0.0204"
_BASELINE_2000 = "the chance-level baseline is a loss of 0.0103"
_DEPARTURES = (
    BEST_ON_TEST,
    INIT_UNKNOWN,
    "the text states neither the encoding of symbols nor the number of sequences; we take one-hot "
    "symbols, training sequences seen once and 1,000 test sequences",
)


_TABLE_4 = Recipe(
    name="nc_gru/table4",
    summary="Copying problem with delays of 1000 and 2000: smallest test loss.",
    rows=(
        _DELAY_1000.row(_LSTM, 2.040e-2, decimals=5, note=_BASELINE_1000),
        _DELAY_1000.row(_GRU, 2.039e-2, decimals=5, note=_BASELINE_1000),
        _DELAY_1000.row(_SCORNN, 0.002e-2, decimals=5),
        _DELAY_1000.row(_GORU, 1.488e-2, decimals=5, note=_BASELINE_1000),
        _DELAY_1000.row(_NC_GRU_ONE, 0.904e-2, decimals=5),
        _DELAY_1000.row(_NC_GRU_TWO, 0.882e-2, decimals=5),
        _DELAY_2000.row(_LSTM, 1.03e-2, decimals=4, note=_BASELINE_2000),
        _DELAY_2000.row(_GRU, 0.89e-2, decimals=4),
        _DELAY_2000.row(_SCORNN, 0.03e-2, decimals=4),
        _DELAY_2000.row(_GORU, 0.718e-2, decimals=5),
        _DELAY_2000.row(_NC_GRU_ONE, 0.44e-2, decimals=4),
        _DELAY_2000.row(_NC_GRU_TWO, 0.496e-2, decimals=5),
    ),
    source=f"{SOURCE}, section 4.4 and table 4",
    departures=_DEPARTURES,
)

RECIPES = (
    _TABLE_4,
    Recipe(
        name="nc_gru/fig4",
        summary="Copying problem with delays of 1000 and 2000: test loss over 10,000 steps.",
        rows=_TABLE_4.rows_at("table 4 and figure 4a", "table 4 and figure 4b"),
        source=f"{SOURCE}, section 4.4 and figure 4",
        departures=(*_DEPARTURES, CURVES),
    ),
)
"""A table and the figure of its runs."""
