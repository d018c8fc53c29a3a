"""The adding problem: table 3, and figure 3 of the same runs."""

from dataclasses import replace
from decimal import Decimal

from eigenrnn.experiments.recipes.nc_gru.paper import (
    BEST_ON_TEST,
    CURVES,
    INIT_UNKNOWN,
    SOURCE,
    Network,
    decimals_of,
    networks,
)
from eigenrnn.experiments.recipes.recipe import Recipe, Reported, Row
from eigenrnn.experiments.tasks import Adding
from eigenrnn.experiments.training import Settings
from eigenrnn.init import glorot_uniform_, zeros_

__all__ = ["RECIPES"]

_NETWORKS = networks(
    (68, 70, 190, 128, 80),
    (19_653, 15_401, 18_716, 34_303, 16_761),
    (95, 43),
    reset_every=50,
)
# losses, in units of 1e-5
_PRINTED = {
    200: ("2.2829", "1.776", "51.49", "2.758", "1.022", "5.0"),
    400: ("269.7", "1.2976", "16295.05", "2.3067", "0.81", "4.93"),
}
_OUTSIDE_TABLE = "beside table 3"
_DEPARTURES = (BEST_ON_TEST, INIT_UNKNOWN)


def _reported(loss: str, place: str) -> Reported:
    printed = Decimal(loss).scaleb(-5)
    note = "the chance-level baseline is a loss of 0.167" if printed > Decimal("0.1") else ""
    return Reported(
        float(printed), place, "test", "loss", "best", note, decimals=decimals_of(printed)
    )


def _row(network: Network, length: int, reported: Reported) -> Row:
    task = Adding.nc_gru(length)
    return network.row(
        length,
        task,
        quick_task=replace(task, length=20, test_examples=100),
        settings=Settings(
            epochs=10,
            batch_size=50,
            optimiser="adam",
            lr=1e-3,
            lr_recurrent=1e-3,
            eval_every=100,
            eval_batch_size=500,
        ),
        head_init=glorot_uniform_,
        head_bias_init=zeros_,
        reported=reported,
    )


def _rows(length: int, place: str) -> tuple[Row, ...]:
    pairs = zip(_NETWORKS, _PRINTED[length], strict=True)
    return tuple(_row(network, length, _reported(value, place)) for network, value in pairs)


def _longer() -> tuple[Row, ...]:
    """Add the gated networks at the longest sequences of scornn/fig2, as a comparison."""
    reported = Reported(
        None, _OUTSIDE_TABLE, "test", "loss", "best", "the paper stops at 400 steps"
    )
    gated = (n for n in _NETWORKS if n.label.startswith(("GRU", "NC-GRU")))
    return tuple(_row(network, 750, reported) for network in gated)


RECIPES = (
    Recipe(
        name="nc_gru/table3",
        summary="Adding problem with 200 and 400 steps, and 750 steps for gated networks: "
        "smallest error on 10,000 sequences.",
        rows=(*_rows(200, "table 3"), *_rows(400, "table 3"), *_longer()),
        source=f"{SOURCE}, section 4.3 and table 3",
        departures=_DEPARTURES,
    ),
    Recipe(
        name="nc_gru/fig3",
        summary="Adding problem with 200 and 400 steps: error on 10,000 sequences.",
        rows=(*_rows(200, "figure 3a"), *_rows(400, "figure 3b")),
        source=f"{SOURCE}, section 4.3 and figure 3",
        departures=(*_DEPARTURES, CURVES),
    ),
)
"""A table and the figure of its runs."""
