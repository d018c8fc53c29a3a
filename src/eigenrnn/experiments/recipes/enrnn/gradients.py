"""How far back each memory of an ENRNN looks: figures 4 and 5."""

from collections.abc import Callable, Mapping, Sequence

from eigenrnn.analysis import gradient_map
from eigenrnn.experiments.recipes.base import Recipe, Reported, Row
from eigenrnn.experiments.recipes.enrnn.source import SOURCE, tf1
from eigenrnn.experiments.recipes.panel import Panel, Trained
from eigenrnn.experiments.recipes.pictures import Map
from eigenrnn.experiments.tasks import Adding
from eigenrnn.init import glorot_uniform_, zeros_
from eigenrnn.layers import ENRNN

__all__ = ["RECIPES"]

_LONG, _SHORT, _STEPS = 24, 16, 50
_LABEL = f"ENRNN {_LONG}/{_SHORT}"
_EPOCHS, _BATCH = 5, 50
_NOTE = "the figure shows the gradients and prints no number; here is the loss of the run"


def _row(place: str) -> Row:
    return Row(
        label=_LABEL,
        task=Adding.enrnn(_STEPS),
        quick_task=Adding(20, test_examples=100),
        quick_steps=10,
        layer=ENRNN,
        hidden_size=_LONG + _SHORT,
        # three tenths of the long memory, as in the one network whose number is given
        options={"short_size": _SHORT, "negative": round(0.3 * _LONG)},
        parameters=1_077,
        settings=tf1(1e-4, epochs=_EPOCHS, batch_size=_BATCH, eval_every=500, eval_batch_size=500),
        head_init=glorot_uniform_,
        head_bias_init=zeros_,
        reported=Reported(None, place, "test", "loss", "last", _NOTE),
    )


def _map_of(block: str, name: str) -> Callable[[Mapping[str, Sequence[Trained]]], Map]:
    """Draw the gradients of one of the memories."""

    def draw(trained: Mapping[str, Sequence[Trained]]) -> Map:
        run = trained[_LABEL][0]
        per_epoch = run.row.task.steps_per_epoch(_BATCH) or 0
        epochs = run.row.settings.epochs or 0
        # the first batch of the epoch after the last one
        batches = run.row.task.batches("train", _BATCH, run.seed, epochs * per_epoch)
        found = gradient_map(run.model(), next(batches).inputs, of=("input",))
        return Map(
            found.by_input[block],
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
        summary=f"Adding problem with {_STEPS} steps: what the {block} memory keeps of inputs.",
        rows=(_row(f"figure {number}"),),
        source=f"{SOURCE}, section 6.1 and figure {number}",
        departures=(
            "settings are those of section 5.1, as the paper states none for this network",
        ),
        panels=(
            Panel(
                "map",
                f"The gradient of the {block} memory at step tau by the input of step t, "
                f"mean over {_BATCH} sequences",
                _map_of(block, name),
                (_LABEL,),
            ),
        ),
    )


RECIPES = (_recipe(4, "short", "S"), _recipe(5, "long", "L"))
"""One network, seen from both of its memories."""
