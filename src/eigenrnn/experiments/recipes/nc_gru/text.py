"""Penn Treebank by characters and by words: tables 5 and 6, and the timings of figure 6."""

import statistics
import time
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from torch import Generator, nn

from eigenrnn.experiments.recipes.nc_gru.paper import SOURCE, Network, nc_gru_options
from eigenrnn.experiments.recipes.nc_gru.released import released
from eigenrnn.experiments.recipes.recipe import Computed, Quoted, Recipe, Reported, Row
from eigenrnn.experiments.tasks import CharPTB, WordPTB
from eigenrnn.experiments.training import Settings
from eigenrnn.experiments.training.train_step import TrainStep
from eigenrnn.init import fan_uniform_, uniform_, zeros_
from eigenrnn.layers import NCGRU, ScoRNN, TorchGRU, TorchLSTM
from eigenrnn.models import Dropouts, LanguageModel

__all__ = ["RECIPES"]

_SEEDS = (1111,)  # as in the code
_QUICK_STEPS = 5

# the initialisers of the released PyTorch cells
_NC_GRU_INIT: dict[str, Any] = {
    "input_init": fan_uniform_,
    "candidate_init": uniform_,
    "reset_bias_init": fan_uniform_,
    "update_bias_init": fan_uniform_,
    "bias_init": zeros_,
}
_SCORNN_INIT = {"input_init": uniform_, "bias_init": zeros_}


def _language_model(
    row: Row,
    generator: Generator,
    *,
    embedding: int | None = None,
    dropouts: Dropouts | None = None,
    activation: tuple[float, float] = (0.0, 0.0),
) -> nn.Module:
    """Build one layer as wide as the embedding, or a wide layer and one of that width."""
    make_layer: Any = row.layer
    n = row.hidden_size
    pairs = [(n, n)] if embedding is None else [(embedding, n), (n, embedding)]
    layers = [make_layer(*pair, **row.options, generator=generator) for pair in pairs]
    return LanguageModel(
        row.task.output_size,
        embedding or n,
        layers,
        tied=True,
        dropouts=dropouts,
        activation=activation,
        generator=generator,
    )


def _nc_gru(label: str, size: int, parameters: int, **options: Any) -> Network:
    chosen = nc_gru_options(("candidate",), 50, reset_every=100, **_NC_GRU_INIT, **options)
    return Network(f"NC-GRU(U_c) {label}", NCGRU, size, parameters, chosen)


def _scornn(label: str, size: int, parameters: int, *departures: str) -> Network:
    options = {"negative": 50, **_SCORNN_INIT}
    return Network(f"scoRNN {label}", ScoRNN, size, parameters, options, departures)


# characters

_SCRIPT_NETWORK = _nc_gru("435", 435, 1_063_625)
_SCRIPT_NETWORK_AS_RELEASED = released(_SCRIPT_NETWORK, "torch", 7e-4)
_TWO_LAYERS = (
    "the paper calls these three sizes three layers; in the code, which is built on AWD-LSTM's, "
    "they are the widths of the embedding, of one layer and of a last layer tied to the embedding"
)
_SCRIPT = (
    "sizes, learning rate and the lack of dropout are those of the released script; the text has "
    "another network, which is a separate row"
)
_TEXT_UNKNOWN = (
    "100 epochs, as in the script, since the text does not state the number; we read its dropout "
    "as that of symbols and of units before, between and after the layers, not of recurrent "
    "matrices"
)
_NOT_DEFINED = "the released code names this network and does not define it; we take torch's own"

# the network, the width of its embedding and its bits per character
_TEXT_NETWORKS: tuple[tuple[Network, int, float], ...] = (
    (Network("LSTM 350-880-350", TorchLSTM, 880, 6_078_990, {}, (_NOT_DEFINED,)), 350, 1.4),
    (Network("GRU 415-950-415", TorchGRU, 950, 5_618_665, {}, (_NOT_DEFINED,)), 415, 1.455),
    (_scornn("500-2000-500", 2000, 4_151_300), 500, 1.6),
    (_nc_gru("430-1000-430", 1000, 5_567_375), 430, 1.385),
)


def _characters(network: Network, lr: float, reported: Reported, **row_fields: Any) -> Row:
    task = CharPTB.nc_gru()
    defaults: dict[str, Any] = {
        "task": task,
        "model_factory": _language_model,
        "departures": network.departures,
    }
    return Row(
        label=network.label,
        layer=network.layer,
        hidden_size=network.size,
        options=network.options,
        parameters=network.parameters,
        settings=Settings(
            epochs=100,
            batch_size=32,
            optimiser="adam",
            lr=lr,
            lr_recurrent=lr,
            log_every=200,
        ),
        reported=reported,
        quick_task=replace(task, window=20, eval_symbols=500),
        quick_steps=_QUICK_STEPS,
        **defaults | row_fields,
    )


def _script_row(network: Network) -> Row:
    note = (
        "the paper prints 1.385 for the network of its text, 430-1000-430; its code says that the "
        "script comes near that number"
    )
    reported = Reported(None, "beside table 5", "test", "bits", "validation", note)
    departures = (*network.departures, _SCRIPT)
    return _characters(network, 7e-4, reported, departures=departures)


_EQUAL_SIZE = (
    "not in the paper: one layer with as many parameters as NC-GRU(U_c) 435, trained like it"
)
_EQUAL_SIZE_NETWORKS = (
    Network("LSTM 361", TorchLSTM, 361, 1_063_556, {}, (_NOT_DEFINED,)),
    Network("GRU 416", TorchGRU, 416, 1_061_682, {}, (_NOT_DEFINED,)),
)


def _equal_size_row(network: Network) -> Row:
    note = "not in the paper: the claim needs a network of equal size"
    reported = Reported(None, "beside table 5", "test", "bits", "validation", note)
    return _characters(network, 7e-4, reported, departures=(*network.departures, _EQUAL_SIZE))


def _text_row(network: Network, embedding: int, bits: float) -> Row:
    dropouts = Dropouts(embedding=0.15, input=0.15, hidden=0.15, output=0.15)
    return _characters(
        network,
        5e-4,
        Reported(bits, "table 5", "test", "bits", "validation"),
        model_factory=partial(_language_model, embedding=embedding, dropouts=dropouts),
        departures=(*network.departures, _TWO_LAYERS, _TEXT_UNKNOWN),
    )


def _times() -> tuple[Row, ...]:
    """Return the script's network with the exact inverse and with three orders of the series."""
    note = "no number is printed; measured on an NVIDIA V100"
    rows: list[Row] = []
    for name, order in (("inverse", None), *((f"Neumann {order}", order) for order in (1, 2, 3))):
        network = replace(
            _SCRIPT_NETWORK,
            label=f"{_SCRIPT_NETWORK.label} {name}",
            options={**_SCRIPT_NETWORK.options, "order": order},
        )
        row = _characters(
            network,
            7e-4,
            Reported(None, "figure 6", "train", "epoch_seconds", "last", note),
            task=replace(CharPTB.nc_gru(), eval_symbols=10_000),
        )
        rows.append(replace(row, settings=replace(row.settings, epochs=1)))
    return tuple(rows)


_TIMED_INVERSES = ("inverse", "Neumann 2")
_PAIRS = 200
_WARM_UP = 5


@cache
def _step_seconds() -> dict[str, float]:
    """Return the median processor time of an update, by the update of the inverse.

    The two networks take their updates in turn, so that other load falls on both alike.
    """
    from lightning.fabric import Fabric  # takes seconds to import

    rows = {row.label.removeprefix(f"{_SCRIPT_NETWORK.label} "): row for row in _times()}
    batches = next(iter(rows.values())).task.batches("train", 32)
    steps: dict[str, TrainStep] = {}
    for name in _TIMED_INVERSES:
        row = rows[name]
        fabric = Fabric(accelerator="cpu", devices=1)
        steps[name] = TrainStep(fabric, row.build(_SEEDS[0]), row.task, row.settings)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(_WARM_UP + _PAIRS):
        batch = next(batches)
        for name, step in steps.items():
            start = time.process_time()
            _, _, norms = step.backward(number, batch)
            step.update(norms)
            if number >= _WARM_UP:
                seconds[name].append(time.process_time() - start)
    return {name: statistics.median(its) for name, its in seconds.items()}


def _step_row(name: str) -> Computed:
    words = {"inverse": "the inverse", "Neumann 2": "Neumann 2"}[name]
    note = f"no number is printed; median of {_PAIRS} updates in turn with the other network"
    return Computed(
        f"{_SCRIPT_NETWORK.label}, time of a step with {words}",
        lambda: _step_seconds()[name],
        Reported(None, "figure 6", quantity="processor_seconds", note=note),
    )


# words


@dataclass(frozen=True)
class _WordModel:
    """A network of table 6.

    Args:
        network: The wider of its two layers.
        perplexity: The printed perplexity.
        departures: Differences from the paper.
    """

    network: Network
    perplexity: float
    departures: tuple[str, ...] = field(default=())


_SIZES_UNKNOWN = "the paper does not state its sizes; we take those of NC-GRU"
_SIZES = "400-1150-400"
_WORDS = (
    _WordModel(Network(f"GRU {_SIZES}", TorchGRU, 1150, 11_226_800), 80.73, (_SIZES_UNKNOWN,)),
    _WordModel(_scornn(_SIZES, 1150, 5_672_025), 123.90, (_SIZES_UNKNOWN,)),
    _WordModel(_nc_gru(_SIZES, 1150, 10_480_125), 77.00),
)


def _words(model: _WordModel) -> Row:
    network, task = model.network, WordPTB.nc_gru()
    dropouts = Dropouts(input=0.4, hidden=0.4, output=0.25)
    return Row(
        label=network.label,
        task=task,
        layer=network.layer,
        hidden_size=network.size,
        options=network.options,
        model_factory=partial(
            _language_model, embedding=400, dropouts=dropouts, activation=(2.0, 1.0)
        ),
        parameters=network.parameters,
        settings=Settings(
            epochs=500,
            batch_size=20,
            optimiser="adam",
            lr=5e-4,
            lr_recurrent=5e-4,
            weight_decay=1.2e-6,
            clip_norm=0.25,
            log_every=200,
        ),
        reported=Reported(
            model.perplexity,
            "table 6",
            "test",
            "perplexity",
            "validation",
            "measured by the paper's authors",
            decimals=2,
        ),
        quick_task=replace(task, window=20, eval_symbols=500),
        quick_steps=_QUICK_STEPS,
        departures=(*network.departures, *model.departures),
    )


def _quoted(name: str, perplexity: float) -> Quoted:
    reported = Reported(
        perplexity,
        "table 6",
        "test",
        "perplexity",
        "validation",
        "quoted from Bai, Kolter and Koltun, 2018",
        decimals=2,
    )
    return Quoted(f"{name}, quoted", reported)


RECIPES = (
    Recipe(
        name="nc_gru/table5",
        summary="Penn Treebank by characters: bits per character.",
        rows=(
            *(_script_row(network) for network in (_SCRIPT_NETWORK, _SCRIPT_NETWORK_AS_RELEASED)),
            *map(_equal_size_row, _EQUAL_SIZE_NETWORKS),
            *(_text_row(*each) for each in _TEXT_NETWORKS),
        ),
        source=f"{SOURCE}, section 4.5 and table 5",
        seeds=_SEEDS,
        departures=(
            "the paper does not say on which text it measures; here, as in the code, on the test "
            "text with the model that is best on the validation text",
            "the code moves the orthogonal matrix itself before it computes the gradient; here "
            "the matrix moves only with A",
        ),
    ),
    Recipe(
        name="nc_gru/table6",
        summary="Penn Treebank by words: perplexity.",
        rows=(
            _quoted("LSTM", 78.93),
            _quoted("GRU", 92.48),
            *(_words(model) for model in _WORDS),
        ),
        source=f"{SOURCE}, section 4.6 and table 6",
        seeds=_SEEDS,
        departures=(
            _TWO_LAYERS,
            "the code was not released; settings that the text does not state are those of "
            "AWD-LSTM: lengths, batch size, epochs, clipping, weight decay and penalties of the "
            "states; all networks are trained alike",
            "we read the text's dropout of the embedding layer as one mask of its outputs for all "
            "steps, not as dropout of whole words",
        ),
    ),
    Recipe(
        name="nc_gru/fig6",
        summary="Penn Treebank by characters: seconds per epoch by the update of the inverse.",
        rows=(*_times(), *map(_step_row, _TIMED_INVERSES)),
        source=f"{SOURCE}, section 5.1 and figure 6",
        seeds=_SEEDS,
        departures=(
            _SCRIPT,
            "the paper solves for the inverse by least squares",
            "only the first 10,000 characters of the validation and test texts are read, so the "
            "time is that of training",
        ),
    ),
)
"""Two tables and a figure."""
