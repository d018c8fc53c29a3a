"""Gradients of the long and short memory by past inputs: figures 4 and 5."""

from collections.abc import Callable, Mapping, Sequence

from eigenrnn.analysis import gradient_map
from eigenrnn.init import glorot_uniform_, zeros_
from eigenrnn.layers import ENRNN
from eigenrnn_experiments.recipes.enrnn.paper import SOURCE
from eigenrnn_experiments.recipes.panels import Map
from eigenrnn_experiments.recipes.recipe import Panel, Recipe, Reported
from eigenrnn_experiments.recipes.reproduce import TrainedRow
from eigenrnn_experiments.recipes.setup import Network, Setup
from eigenrnn_experiments.tasks import Adding
from eigenrnn_experiments.training import Settings

__all__ = ["RECIPES"]

_BATCH = 50
_PLACE = "figures 4 and 5"

_ENRNN = Network(
    "ENRNN 24/16",
    ENRNN,
    40,
    parameters=1_077,
    # three tenths of the long memory, as for the only network whose number is stated
    options={"short_size": 16, "negative": 7},
)
_ADDING = Setup(
    task=Adding.enrnn(50),
    settings=Settings(
        epochs=5,
        batch_size=_BATCH,
        optimiser="rmsprop_tf1",
        lr=1e-4,
        lr_recurrent=1e-4,
        eval_every=500,
        eval_batch_size=500,
        log_every=50,
    ),
    reported=Reported(
        None,
        _PLACE,
        quantity="loss",
        rule="last",
        note="the figure shows the gradients and prints no number; we list the loss of the run",
    ),
    head_init=glorot_uniform_,
    head_bias_init=zeros_,
    quick_task=Adding(20, test_examples=100),
    quick_steps=10,
)


def _gradient_map_of(block: str, name: str) -> Callable[[Mapping[str, Sequence[TrainedRow]]], Map]:
    """Return the function that draws the gradients of one memory."""

    def draw(trained: Mapping[str, Sequence[TrainedRow]]) -> Map:
        run = trained[_ENRNN.label][0]
        per_epoch = run.row.task.steps_per_epoch(_BATCH) or 0
        epochs = run.row.settings.epochs or 0
        # the first batch of the epoch after the last one
        batches = run.row.task.batches("train", _BATCH, run.row.settings.seed, epochs * per_epoch)
        gradients = gradient_map(run.model(), next(batches).inputs, of=("input",))
        return Map(
            gradients.by_input[block],
            x_name="input, step t",
            y_name="state, step tau",
            name=f"norm of d{name}/dx",
            log=True,
            first=1,
        )

    return draw


_UNSTATED = "the paper states no settings for this network; we use those of section 5.1"

_FIGURE_4 = Recipe(
    name="enrnn/fig4",
    summary="Adding problem with 50 steps: gradients of the short memory by past inputs.",
    rows=(_ADDING.row(_ENRNN),),
    source=f"{SOURCE}, section 6.1 and figure 4",
    departures=(_UNSTATED,),
    panels=(
        Panel(
            "map",
            "The gradient of the short memory at step tau by the input of step t, mean over "
            f"{_BATCH} sequences",
            draw=_gradient_map_of("short", "h(S)"),
            required_rows=(_ENRNN.label,),
        ),
    ),
)
_FIGURE_5 = Recipe(
    name="enrnn/fig5",
    summary="Adding problem with 50 steps: gradients of the long memory by past inputs.",
    rows=_FIGURE_4.rows_at(_PLACE),
    source=f"{SOURCE}, section 6.1 and figure 5",
    departures=(_UNSTATED,),
    panels=(
        Panel(
            "map",
            "The gradient of the long memory at step tau by the input of step t, mean over "
            f"{_BATCH} sequences",
            draw=_gradient_map_of("long", "h(L)"),
            required_rows=(_ENRNN.label,),
        ),
    ),
)

RECIPES = (_FIGURE_4, _FIGURE_5)
"""One network, with a figure for each memory."""
