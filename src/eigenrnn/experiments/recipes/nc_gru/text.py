"""Penn Treebank by characters and by words: tables 5 and 6, and the time of figure 6."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch import Generator, nn

from eigenrnn.experiments.recipes.base import Quoted, Recipe, Reported, Row
from eigenrnn.experiments.recipes.nc_gru.source import SOURCE, Network, neumann, released
from eigenrnn.experiments.tasks import CharPTB, WordPTB
from eigenrnn.experiments.training import Settings
from eigenrnn.init import fan_uniform_, uniform_, zeros_
from eigenrnn.layers import LSTM, NCGRU, ScoRNN, TorchGRU
from eigenrnn.models import Dropouts, LanguageModel

__all__ = ["RECIPES"]

_SEEDS = (1111,)  # that of the code
_QUICK_STEPS = 5

# the starts of the released PyTorch cells
_NC_GRU_START: dict[str, Any] = {
    "input_init": fan_uniform_,
    "candidate_init": uniform_,
    "reset_bias_init": fan_uniform_,
    "update_bias_init": fan_uniform_,
    "bias_init": zeros_,
}
_SCORNN_START = {"input_init": uniform_, "bias_init": zeros_}


def _language_model(
    row: Row,
    generator: Generator,
    *,
    embedding: int | None = None,
    dropouts: Dropouts | None = None,
    activation: tuple[float, float] = (0.0, 0.0),
) -> nn.Module:
    """Build one layer as wide as the embedding, or a wide one and one as wide as the embedding."""
    make: Any = row.layer
    n = row.hidden_size
    pairs = [(n, n)] if embedding is None else [(embedding, n), (n, embedding)]
    layers = [make(*pair, **row.options, generator=generator) for pair in pairs]
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
    chosen = neumann(("candidate",), 50, reset_every=100, **_NC_GRU_START, **options)
    return Network(f"NC-GRU(U_c) {label}", NCGRU, size, parameters, chosen)


def _scornn(label: str, size: int, parameters: int, *departures: str) -> Network:
    options = {"negative": 50, **_SCORNN_START}
    return Network(f"scoRNN {label}", ScoRNN, size, parameters, options, departures)


# characters

_OF_SCRIPT = _nc_gru("435", 435, 1_063_625)
_OF_SCRIPT_RELEASED = released(_OF_SCRIPT, "torch", 7e-4)
_TWO_LAYERS = (
    "the paper calls these three sizes three layers; in the code, and in AWD-LSTM's that it is "
    "built on, they are those of the embedding, of a layer and of a last one that is tied to it"
)
_SCRIPT = (
    "sizes, rate and no dropout are those of the released script, of which its authors say that "
    "it reaches the printed number; the text has another network, which is a row of its own"
)
_TEXT_UNKNOWN = (
    "100 epochs, as in the script: the text does not state how many; its dropout is that of "
    "symbols and of units before, between and after the layers, not that of recurrent matrices"
)
_NOT_DEFINED = "the released code names this network and does not define it: torch's own"

# the network, the width of its embedding and the bits
_OF_TEXT: tuple[tuple[Network, int, float], ...] = (
    (Network("LSTM 350-880-350", LSTM, 880, 6_078_990, {}, (_NOT_DEFINED,)), 350, 1.4),
    (Network("GRU 415-950-415", TorchGRU, 950, 5_618_665, {}, (_NOT_DEFINED,)), 415, 1.455),
    (_scornn("500-2000-500", 2000, 4_151_300), 500, 1.6),
    (_nc_gru("430-1000-430", 1000, 5_567_375), 430, 1.385),
)


def _characters(network: Network, lr: float, reported: Reported, **facts: Any) -> Row:
    task = CharPTB.nc_gru()
    defaults: dict[str, Any] = {
        "task": task,
        "make": _language_model,
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
        **defaults | facts,
    )


def _of_script(network: Network) -> Row:
    reported = Reported(1.385, "table 5", "test", "bits", "validation")
    departures = (*network.departures, _SCRIPT)
    return _characters(network, 7e-4, reported, departures=departures)


def _of_text(network: Network, embedding: int, bits: float) -> Row:
    dropouts = Dropouts(embedding=0.15, input=0.15, hidden=0.15, output=0.15)
    return _characters(
        network,
        5e-4,
        Reported(bits, "table 5", "test", "bits", "validation"),
        make=partial(_language_model, embedding=embedding, dropouts=dropouts),
        departures=(*network.departures, _TWO_LAYERS, _TEXT_UNKNOWN),
    )


def _times() -> tuple[Row, ...]:
    """Time the script's network by how it keeps the inverse."""
    note = "no number is printed; measured on a V100 of NVIDIA"
    rows: list[Row] = []
    for name, order in (("inverse", None), *((f"Neumann {order}", order) for order in (1, 2, 3))):
        network = replace(
            _OF_SCRIPT,
            label=f"{_OF_SCRIPT.label} {name}",
            options={**_OF_SCRIPT.options, "order": order},
        )
        row = _characters(
            network,
            7e-4,
            Reported(None, "figure 6", "train", "epoch_seconds", "last", note),
            task=replace(CharPTB.nc_gru(), eval_symbols=10_000),
        )
        rows.append(replace(row, settings=replace(row.settings, epochs=1)))
    return tuple(rows)


# words


@dataclass(frozen=True)
class _OfWords:
    """A network of table 6.

    Args:
        network: The widest of its layers.
        perplexity: What is printed.
        departures: Where we do otherwise.
    """

    network: Network
    perplexity: float
    departures: tuple[str, ...] = field(default=())


_SIZES_UNKNOWN = "the paper does not state its sizes: those of NC-GRU"
_SIZES = "400-1150-400"
_WORDS = (
    _OfWords(Network(f"GRU {_SIZES}", TorchGRU, 1150, 11_226_800), 80.73, (_SIZES_UNKNOWN,)),
    _OfWords(_scornn(_SIZES, 1150, 5_672_025), 123.90, (_SIZES_UNKNOWN,)),
    _OfWords(_nc_gru(_SIZES, 1150, 10_480_125), 77.00),
)


def _words(of_words: _OfWords) -> Row:
    network, task = of_words.network, WordPTB.nc_gru()
    dropouts = Dropouts(input=0.4, hidden=0.4, output=0.25)
    return Row(
        label=network.label,
        task=task,
        layer=network.layer,
        hidden_size=network.size,
        options=network.options,
        make=partial(_language_model, embedding=400, dropouts=dropouts, activation=(2.0, 1.0)),
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
            of_words.perplexity,
            "table 6",
            "test",
            "perplexity",
            "validation",
            "measured by the paper's authors",
            decimals=2,
        ),
        quick_task=replace(task, window=20, eval_symbols=500),
        quick_steps=_QUICK_STEPS,
        departures=(*network.departures, *of_words.departures),
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
        summary="Penn Treebank by characters: bits a character.",
        rows=(
            *(_of_script(network) for network in (_OF_SCRIPT, _OF_SCRIPT_RELEASED)),
            *(_of_text(*each) for each in _OF_TEXT),
        ),
        source=f"{SOURCE}, section 4.5 and table 5",
        seeds=_SEEDS,
        departures=(
            "the paper does not say of which text; here as in the code, of the test text by the "
            "model that is best on the validation text",
            "the code moves the orthogonal matrix itself before its gradient is taken; here it "
            "moves with A alone",
        ),
    ),
    Recipe(
        name="nc_gru/table6",
        summary="Penn Treebank by words: perplexity.",
        rows=(
            _quoted("LSTM", 78.93),
            _quoted("GRU", 92.48),
            *(_words(of_words) for of_words in _WORDS),
        ),
        source=f"{SOURCE}, section 4.6 and table 6",
        seeds=_SEEDS,
        departures=(
            _TWO_LAYERS,
            "the code was not released: lengths, batch, epochs, clipping, decay and penalties of "
            "the states, which the text does not state, are those of AWD-LSTM, and all networks "
            "are trained alike",
            "the text's dropout of the embedding layer is that of the same numbers at all steps, "
            "not that of whole words",
        ),
    ),
    Recipe(
        name="nc_gru/fig6",
        summary="Penn Treebank by characters: seconds an epoch, by how the inverse is kept.",
        rows=_times(),
        source=f"{SOURCE}, section 5.1 and figure 6",
        seeds=_SEEDS,
        departures=(
            _SCRIPT,
            "the paper solves for the inverse by least squares",
            "of the validation and test texts the first 10,000 characters are read, so that the "
            "time is that of training",
        ),
    ),
)
"""Two tables and a figure."""
