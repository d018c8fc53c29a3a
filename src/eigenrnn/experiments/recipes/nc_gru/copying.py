"""The copying problem: table 4, and figure 4 of the same runs."""

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
from eigenrnn.experiments.tasks import Copying
from eigenrnn.experiments.training import Settings
from eigenrnn.init import glorot_uniform_
from eigenrnn.layers import NCGRU, ScoRNN

__all__ = ["RECIPES"]

_NETWORKS = networks(
    (68, 78, 190, 100, 96),
    (22_381, 21_537, 21_764, 24_407, 27_033),
    (95, 80),
    reset_every=20,
)
# losses, in units of 1e-2
_PRINTED = {
    1000: ("2.040", "2.039", "0.002", "1.488", "0.904", "0.882"),
    2000: ("1.03", "0.89", "0.03", "0.718", "0.44", "0.496"),
}
_DEPARTURES = (
    BEST_ON_TEST,
    INIT_UNKNOWN,
    "the text states neither the encoding of symbols nor the number of sequences; we take one-hot "
    "symbols, training sequences seen once and 1,000 test sequences",
)


def _row(network: Network, delay: int, place: str, loss: str) -> Row:
    task, printed = Copying.nc_gru(delay), Decimal(loss).scaleb(-2)
    baseline = f"the chance-level baseline is a loss of {task.baseline():.4f}"
    return network.row(
        delay,
        task,
        quick_task=replace(task, delay=30, test_examples=100),
        settings=Settings(
            steps=10_000,
            batch_size=50,
            optimiser="adam",
            lr=1e-3,
            lr_recurrent=1e-4 if network.layer in (NCGRU, ScoRNN) else 1e-3,
            eval_every=50,
            eval_batch_size=100,
        ),
        head_init=glorot_uniform_,
        head_bias_init=glorot_uniform_,
        reported=Reported(
            float(printed),
            place,
            "test",
            "loss",
            "best",
            baseline if printed > Decimal("0.0102") else "",
            decimals=decimals_of(printed),
        ),
    )


def _rows(delay: int, place: str) -> tuple[Row, ...]:
    pairs = zip(_NETWORKS, _PRINTED[delay], strict=True)
    return tuple(_row(network, delay, place, value) for network, value in pairs)


RECIPES = (
    Recipe(
        name="nc_gru/table4",
        summary="Copying problem with delays of 1000 and 2000: smallest test loss.",
        rows=(*_rows(1000, "table 4"), *_rows(2000, "table 4")),
        source=f"{SOURCE}, section 4.4 and table 4",
        departures=_DEPARTURES,
    ),
    Recipe(
        name="nc_gru/fig4",
        summary="Copying problem with delays of 1000 and 2000: test loss over 10,000 steps.",
        rows=(*_rows(1000, "figure 4a"), *_rows(2000, "figure 4b")),
        source=f"{SOURCE}, section 4.4 and figure 4",
        departures=(*_DEPARTURES, CURVES),
    ),
)
"""A table and the figure of its runs."""
