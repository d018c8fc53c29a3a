"""Penn Treebank by words and characters, and enwik8: figure 4, tables 1 and 4."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from torch import Generator, nn

from eigenrnn.experiments.recipes.base import Entry, Quoted, Recipe, Reported, Row
from eigenrnn.experiments.recipes.nonnormal.source import (
    FINE_BETAS,
    FINE_GAINS,
    GAINS,
    SOURCE,
    PlainRNN,
    StartedLSTM,
    vary,
)
from eigenrnn.experiments.tasks import CharPTB, Enwik8, WordPTB
from eigenrnn.experiments.training import Settings
from eigenrnn.init import Kind
from eigenrnn.models import Dropouts, LanguageModel

__all__ = ["RECIPES"]


@dataclass(frozen=True)
class _Benchmark:
    """A text with the networks that read it, those of AWD-LSTM but for their layers.

    Args:
        label: Its name.
        task: As it is trained on.
        embedding: The width of the embedding, and so of the last layer.
        hidden_size: The number N of units of the first two layers.
        parameters: How many are trained with plain layers, and with LSTMs.
        dropouts: What is silenced with plain layers, and with LSTMs.
        activation: The penalties on the states.
        settings: How it is trained.
        departures: Where we do otherwise.
    """

    label: str
    task: CharPTB | Enwik8 | WordPTB
    embedding: int
    hidden_size: int
    parameters: tuple[int, int]
    dropouts: tuple[Dropouts, Dropouts]
    activation: tuple[float, float]
    settings: Settings
    departures: tuple[str, ...] = ()

    def build(self, row: Row, generator: Generator) -> nn.Module:
        """Stack three layers between an embedding and the same one again."""
        make: Any = row.layer
        widths = (self.embedding, row.hidden_size, row.hidden_size, self.embedding)
        layers = [make(*sizes, generator=generator, **row.options) for sizes in pairwise(widths)]
        return LanguageModel(
            row.task.output_size,
            self.embedding,
            layers,
            tied=True,
            dropouts=self.dropouts[make is StartedLSTM],
            activation=self.activation,
            generator=generator,
        )

    def row(self, label: str, layer: Any, reported: Reported, **facts: Any) -> Row:
        """Make a row of a table; `facts` are its options, its grid and its departures."""
        departures = (*self.departures, *facts.pop("departures", ()))
        if layer is PlainRNN:
            ours = self.parameters[0]
            theirs = ours + 2 * self.hidden_size + self.embedding  # one more in each of three
            departures += (
                f"each layer has one bias, where those of torch have two that add up: {ours:,} "
                f"parameters in {self.label}, {theirs:,} in the released code; Adam moves the sum "
                "of two biases about twice as far as one",
            )
        return Row(
            label=f"{label} {self.label}",
            task=self.task,
            quick_task=replace(self.task, window=20, eval_symbols=210),
            quick_steps=2,
            layer=layer,
            hidden_size=self.hidden_size,
            make=self.build,
            parameters=self.parameters[layer is StartedLSTM],
            settings=self.settings,
            reported=reported,
            departures=departures,
            **facts,
        )


_ADAM: dict[str, Any] = {
    "optimiser": "adam",
    "weight_decay": 1.2e-6,
    "clip_norm": 0.25,
    "log_every": 100,
}
_IN_TEN = {"test_streams": 10}  # a test in every epoch, in one stream, would outlast the training
_LIGHT = Dropouts.all(0.1)

_WORDS = _Benchmark(
    label="words",
    task=replace(WordPTB.orhan(), **_IN_TEN),
    embedding=400,
    hidden_size=1150,
    parameters=(9_060_200, 24_221_600),
    dropouts=(_LIGHT, Dropouts(0.1, 0.4, 0.25, 0.4, 0.5)),
    activation=(2.0, 1.0),
    settings=Settings(epochs=60, batch_size=20, lr=1e-3, **_ADAM),
    departures=("the rate of Adam is not stated: 0.001, as for enwik8",),
)
_CHARACTERS = _Benchmark(
    label="characters",
    task=replace(CharPTB.orhan(), **_IN_TEN),
    embedding=200,
    hidden_size=1000,
    parameters=(3_452_250, 13_787_650),
    dropouts=(replace(_LIGHT, embedding=0.0), Dropouts(0.0, 0.1, 0.25, 0.1, 0.5)),
    activation=(0.0, 0.0),
    settings=Settings(
        epochs=500, batch_size=128, lr=2e-3, lr_decay=0.1, lr_decay_at=(300, 400), **_ADAM
    ),
)
_ENWIK8 = _Benchmark(
    label="enwik8",
    task=replace(Enwik8.orhan(), **_IN_TEN),
    embedding=400,
    hidden_size=1840,
    parameters=(11_875_085, 47_270_045),
    dropouts=(Dropouts(), Dropouts(0.0, 0.1, 0.1, 0.4, 0.2)),
    activation=(0.0, 0.0),
    settings=Settings(
        epochs=35, batch_size=128, lr=1e-3, lr_decay=0.1, lr_decay_at=(25, 35), **_ADAM
    ),
)
_BENCHMARKS = (_WORDS, _CHARACTERS, _ENWIK8)

# the test loss in bits and its standard error, of words, of characters and on enwik8
_RNNS: dict[Kind, tuple[tuple[float, float], ...]] = {
    "identity": ((6.550, 0.002), (1.312, 0.000), (1.783, 0.003)),
    "ortho": ((6.557, 0.002), (1.312, 0.001), (1.843, 0.046)),
    "chain": ((6.514, 0.001), (1.308, 0.000), (1.803, 0.017)),
    "feedback_chain": ((6.510, 0.001), (1.307, 0.000), (1.774, 0.002)),
}
_LSTMS: dict[Kind, tuple[tuple[float, float], ...]] = {
    "ortho": ((5.937, 0.002), (1.230, 0.001), (1.583, 0.001)),
    "chain": ((5.935, 0.001), (1.230, 0.001), (1.586, 0.000)),
    "plain": ((5.949, 0.007), (1.245, 0.001), (1.584, 0.002)),
    "mixed": ((5.944, 0.004), (1.227, 0.000), (1.577, 0.001)),
}
_MERITY = (5.878, 1.175, 1.232)

_GAIN = "the best of 21 values is reported, and not said which it is: 1 here, see nonnormal/fig4"
_UNKNOWN: dict[Kind, tuple[str, ...]] = {
    "identity": (f"lambda: {_GAIN}",),
    "ortho": (f"lambda: {_GAIN}",),
    "chain": (f"alpha: {_GAIN}",),
    "feedback_chain": (
        "alpha: the best of the chain is taken in the paper, and not said which it is: 0.99 here",
        "beta: the best of 21 values is reported, and not said which it is: 0.01 here",
    ),
}
_RELEASED = (
    "the direction of the code that was released for torch, in which a signal leaves the chain "
    "at once; which one the printed numbers are from is not known"
)


def _last(value: float, error: float, place: str, note: str = "") -> Reported:
    return Reported(value, place, "test", "bits", "last", note, error=error)


def _name(kind: Kind) -> str:
    return kind.replace("_", " ")


def _table1() -> tuple[Entry, ...]:
    entries: list[Entry] = []
    for number, benchmark in enumerate(_BENCHMARKS):
        for kind, printed in _RNNS.items():
            reported = _last(*printed[number], "table 1")
            facts = {"options": {"kind": kind}, "departures": _UNKNOWN[kind]}
            entries.append(benchmark.row(_name(kind), PlainRNN, reported, **facts))
        for kind in ("chain", "feedback_chain"):
            reported = _last(*_RNNS[kind][number], "table 1", "printed without the direction")
            label, options = f"{_name(kind)} as released", {"kind": kind, "direction": "backward"}
            facts = {"options": options, "departures": (*_UNKNOWN[kind], _RELEASED)}
            entries.append(benchmark.row(label, PlainRNN, reported, **facts))
        note = "quoted from Merity, Keskar and Socher, 2018"
        quoted = Reported(_MERITY[number], "table 1", quantity="bits", note=note)
        entries.append(Quoted(f"3-layer LSTM {benchmark.label}", quoted))
    return tuple(entries)


def _figure4() -> tuple[Row, ...]:
    note = "the curves of the best of the 21 values, without a number"
    return tuple(
        benchmark.row(
            _name(kind),
            PlainRNN,
            Reported(None, "figure 4", "validation", "bits", "best", note),
            options={"kind": kind},
            grid=(vary(kind, FINE_BETAS if kind == "feedback_chain" else FINE_GAINS),),
            departures=_UNKNOWN[kind][:1] if kind == "feedback_chain" else (),
        )
        for benchmark in _BENCHMARKS
        for kind in GAINS
    )


def _table4() -> tuple[Row, ...]:
    return tuple(
        benchmark.row(
            _name(kind), StartedLSTM, _last(*printed[number], "table 4"), options={"kind": kind}
        )
        for number, benchmark in enumerate(_BENCHMARKS)
        for kind, printed in _LSTMS.items()
    )


_COMMON = (
    "the test text is read in 10 streams, as the validation text is, and not in one: it is "
    "evaluated in every epoch",
    "biases start at zero, but for the plain start; the paper does not say",
)
_SEEDS = (1, 2, 3)

RECIPES = (
    Recipe(
        name="nonnormal/fig4",
        summary="Language models of three plain layers, searched over the gain of their start: "
        "validation loss.",
        rows=_figure4(),
        source=f"{SOURCE}, figure 4",
        seeds=_SEEDS,
        departures=_COMMON,
    ),
    Recipe(
        name="nonnormal/table1",
        summary="Language models of three plain layers: test loss at the end of training.",
        rows=_table1(),
        source=f"{SOURCE}, table 1",
        seeds=_SEEDS,
        departures=_COMMON,
    ),
    Recipe(
        name="nonnormal/table4",
        summary="Language models of three LSTMs: test loss at the end of training.",
        rows=_table4(),
        source=f"{SOURCE}, table 4",
        seeds=_SEEDS,
        departures=(
            *_COMMON,
            "gains and dropouts of the LSTMs are not stated: a gain of 1, that of the released "
            "code for the mixed start, and the dropouts of AWD-LSTM",
        ),
    ),
)
"""One search, and two tables of its kind."""
