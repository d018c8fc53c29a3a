"""Gradients of the long and short memory by past inputs: figures 4 and 5."""

from collections.abc import Callable, Mapping, Sequence

from eigenrnn.analysis import gradient_map
from eigenrnn.experiments.recipes.enrnn.paper import SOURCE, tf1
from eigenrnn.experiments.recipes.panels import Map
from eigenrnn.experiments.recipes.recipe import Panel, Recipe, Reported, Row
from eigenrnn.experiments.recipes.runs import Run
from eigenrnn.experiments.tasks import Adding
from eigenrnn.init import glorot_uniform_, zeros_
from eigenrnn.layers import ENRNN

__all__ = ["RECIPES"]

_LONG, _SHORT, _STEPS = 24, 16, 50
_LABEL = f"ENRNN {_LONG}/{_SHORT}"
_EPOCHS, _BATCH = 5, 50
_NOTE = "the figure shows the gradients and prints no number; we list the loss of the run"


def _row(place: str) -> Row:
    return Row(
        label=_LABEL,
        task=Adding.enrnn(_STEPS),
        quick_task=Adding(20, test_examples=100),
        quick_steps=10,
        layer=ENRNN,
        hidden_size=_LONG + _SHORT,
        # three tenths of the long memory, as for the only network whose number is stated
        options={"short_size": _SHORT, "negative": round(0.3 * _LONG)},
        parameters=1_077,
        settings=tf1(1e-4, epochs=_EPOCHS, batch_size=_BATCH, eval_every=500, eval_batch_size=500),
        head_init=glorot_uniform_,
        head_bias_init=zeros_,
        reported=Reported(None, place, "test", "loss", "last", _NOTE),
    )


def _gradient_map_of(block: str, name: str) -> Callable[[Mapping[str, Sequence[Run]]], Map]:
    """Return the function that draws the gradients of one memory."""

    def draw(trained: Mapping[str, Sequence[Run]]) -> Map:
        run = trained[_LABEL][0]
        per_epoch = run.row.task.steps_per_epoch(_BATCH) or 0
        epochs = run.row.settings.epochs or 0
        # the first batch of the epoch after the last one
        batches = run.row.task.batches("train", _BATCH, run.key.seed, epochs * per_epoch)
        gradients = gradient_map(run.model(), next(batches).inputs, of=("input",))
        return Map(
            gradients.by_input[block],
            "input, step t",
            "state, step tau",
            f"norm of d{name}/dx",
            log=True,
            first=1,
        )

    return draw


def _recipe(number: int, block: str, letter: str) -> Recipe:
    name = f"h({letter})"
    return Recipe(
        name=f"enrnn/fig{number}",
        summary=f"Adding problem with {_STEPS} steps: gradients of the {block} memory by past "
        "inputs.",
        rows=(_row(f"figure {number}"),),
        source=f"{SOURCE}, section 6.1 and figure {number}",
        departures=("the paper states no settings for this network; we use those of section 5.1",),
        panels=(
            Panel(
                "map",
                f"The gradient of the {block} memory at step tau by the input of step t, "
                f"mean over {_BATCH} sequences",
                _gradient_map_of(block, name),
                (_LABEL,),
            ),
        ),
    )


RECIPES = (_recipe(4, "short", "S"), _recipe(5, "long", "L"))
"""One network, with a figure for each memory."""
