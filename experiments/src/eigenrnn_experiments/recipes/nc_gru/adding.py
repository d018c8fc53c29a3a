"""The adding problem: table 3, and figure 3 of the same runs."""

from dataclasses import replace

from eigenrnn.init import glorot_uniform_, zeros_
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
from eigenrnn_experiments.tasks import Adding
from eigenrnn_experiments.training import Settings

__all__ = ["RECIPES"]

_LSTM = lstm(68, parameters=19_653)
_GRU = gru(70, parameters=15_401)
_SCORNN = scornn(190, parameters=18_716, negative=95)
_GORU = goru(128, parameters=34_303)
_NC_GRU_ONE = nc_gru("U_c", 80, parameters=16_761, negative=43, reset_every=50)
_NC_GRU_TWO = nc_gru("U_c,U_r", 80, parameters=13_521, negative=43, reset_every=50)

_LENGTH_200 = Setup(
    task=Adding.nc_gru(200),
    settings=Settings(
        epochs=10,
        batch_size=50,
        optimiser="adam",
        lr=1e-3,
        lr_recurrent=1e-3,
        eval_every=100,
        eval_batch_size=500,
    ),
    reported=Reported(None, "table 3 and figure 3a", quantity="loss"),
    suffix="T=200",
    head_init=glorot_uniform_,
    head_bias_init=zeros_,
    quick_task=replace(Adding.nc_gru(200), length=20, test_examples=100),
)
_LENGTH_400 = replace(
    _LENGTH_200.reported_as(place="table 3 and figure 3b"), task=Adding.nc_gru(400), suffix="T=400"
)
# the longest sequences of scornn/fig2, as a comparison of the gated networks
_LENGTH_750 = replace(
    _LENGTH_200,
    task=Adding.nc_gru(750),
    suffix="T=750",
    reported=Reported(
        None, "beside table 3", quantity="loss", note="the paper stops at 400 steps"
    ),
)

_BASELINE = "the chance-level baseline is a loss of 0.167"
_DEPARTURES = (BEST_ON_TEST, INIT_UNKNOWN)


_TABLE_3 = Recipe(
    name="nc_gru/table3",
    summary="Adding problem with 200 and 400 steps, and 750 steps for gated networks: "
    "smallest error on 10,000 sequences.",
    rows=(
        _LENGTH_200.row(_LSTM, 2.2829e-5, decimals=9),
        _LENGTH_200.row(_GRU, 1.776e-5, decimals=8),
        _LENGTH_200.row(_SCORNN, 51.49e-5, decimals=7),
        _LENGTH_200.row(_GORU, 2.758e-5, decimals=8),
        _LENGTH_200.row(_NC_GRU_ONE, 1.022e-5, decimals=8),
        _LENGTH_200.row(_NC_GRU_TWO, 5.0e-5, decimals=6),
        _LENGTH_400.row(_LSTM, 269.7e-5, decimals=6),
        _LENGTH_400.row(_GRU, 1.2976e-5, decimals=9),
        _LENGTH_400.row(_SCORNN, 16295.05e-5, decimals=7, note=_BASELINE),
        _LENGTH_400.row(_GORU, 2.3067e-5, decimals=9),
        _LENGTH_400.row(_NC_GRU_ONE, 0.81e-5, decimals=7),
        _LENGTH_400.row(_NC_GRU_TWO, 4.93e-5, decimals=7),
        _LENGTH_750.row(_GRU),
        _LENGTH_750.row(_NC_GRU_ONE),
        _LENGTH_750.row(_NC_GRU_TWO),
    ),
    source=f"{SOURCE}, section 4.3 and table 3",
    departures=_DEPARTURES,
)

RECIPES = (
    _TABLE_3,
    Recipe(
        name="nc_gru/fig3",
        summary="Adding problem with 200 and 400 steps: error on 10,000 sequences.",
        rows=_TABLE_3.rows_at("table 3 and figure 3a", "table 3 and figure 3b"),
        source=f"{SOURCE}, section 4.3 and figure 3",
        departures=(*_DEPARTURES, CURVES),
    ),
)
"""A table and the figure of its runs."""
