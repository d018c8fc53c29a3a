"""Penn Treebank by characters: tables 1, 4 and 7."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch import Generator, nn

from eigenrnn.constraints import Unconstrained
from eigenrnn.experiments.recipes.nnrnn.paper import (
    EURNN_UNSTATED,
    LSTM_BIASES,
    LSTM_INIT,
    SOURCE,
    cayley_,
    nnrnn_options,
)
from eigenrnn.experiments.recipes.recipe import Recipe, Reported, Row
from eigenrnn.experiments.tasks import CharPTB
from eigenrnn.experiments.training import Settings
from eigenrnn.init import (
    fan_uniform_,
    kaiming_normal_,
    orthogonal_,
    uniform_,
    zeros_,
)
from eigenrnn.layers import EURNN, RNN, ExpRNN, NnRNN, RNNGlorot, TorchLSTM
from eigenrnn.models import LanguageModel

__all__ = ["RECIPES"]

_EMBEDDING = 200
_KAIMING = {"input_init": kaiming_normal_}
_Rates = dict[int, tuple[float, float | None, float]]


@dataclass(frozen=True)
class _Network:
    """One network of table 5, at both sequence lengths.

    Args:
        label: The name and size of the network.
        layer: The class of the layer.
        size: The number N of units.
        parameters: The number of trained parameters.
        rates: At each length: the learning rate, that of the orthogonal matrix, and alpha.
        options: Further arguments of the layer.
        penalty: The weight of nnRNN's penalty of the moduli, at each length.
        options_at: Further arguments of the layer that depend on the length.
        departures: Differences from the paper.
    """

    label: str
    layer: Any
    size: int
    parameters: int
    rates: _Rates
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    penalty: dict[int, float] | None = None
    options_at: dict[int, dict[str, Any]] | None = None
    departures: tuple[str, ...] = ()

    def row(
        self,
        length: int,
        place: str,
        quantity: str,
        printed: tuple[float, float] | None,
        note: str,
    ) -> Row:
        value, error = printed or (None, None)
        lr, lr_recurrent, alpha = self.rates[length]
        options = {**self.options, **(self.options_at or {}).get(length, {})}
        if self.penalty is not None:
            options = nnrnn_options("cayley", self.penalty[length], **options)
        decay: dict[str, Any] = (
            {"weight_decay": 1e-4, "weight_decay_of": ("triangle",)} if self.penalty else {}
        )
        return Row(
            label=f"{self.label} T={length}",
            task=CharPTB.nnrnn(length),
            layer=self.layer,
            hidden_size=self.size,
            options=options,
            model_factory=_nnrnn_language_model,
            parameters=self.parameters,
            settings=Settings(
                epochs=100,
                batch_size=128,
                lr=lr,
                lr_recurrent=lr_recurrent,
                alpha=alpha,
                lr_decay=0.5,
                lr_decay_at="plateau",
                log_every=50,
                **decay,
            ),
            reported=Reported(value, place, "test", quantity, "validation", note, error=error),
            quick_task=replace(CharPTB.nnrnn(length), window=20, eval_symbols=2_000),
            quick_steps=5,
            quick_options={"capacity": 4} if self.layer is EURNN else {},
            departures=self.departures,
        )


def _nnrnn_language_model(row: Row, generator: Generator) -> nn.Module:
    make_layer: Any = row.layer
    layer = make_layer(_EMBEDDING, row.hidden_size, generator=generator, **row.options)
    vocabulary = row.task.output_size
    return LanguageModel(
        vocabulary, _EMBEDDING, [layer], head_bias_init=zeros_, generator=generator
    )


def _nnrnn(label: str, parameters: int, **clamped: Any) -> _Network:
    penalty = {150: 1.0, 300: 1e-4}
    rates: _Rates = {150: (8e-4, 8e-5, 0.9), 300: (8e-4, 6e-5, 0.9)}
    return _Network(label, NnRNN, 1024, parameters, rates, {**_KAIMING, **clamped}, penalty)


def _both(lr: float, lr_recurrent: float | None, alpha: float) -> _Rates:
    return dict.fromkeys((150, 300), (lr, lr_recurrent, alpha))


def _exprnn(size: int, parameters: int) -> _Network:
    options = {"init": "cayley", **_KAIMING}
    return _Network(f"expRNN {size}", ExpRNN, size, parameters, _both(5e-3, 1e-4, 0.9), options)


def _eurnn(size: int, parameters: int) -> _Network:
    rates, options = _both(1e-3, 1e-3, 0.9), {"capacity": 188}
    return _Network(
        f"EURNN {size}", EURNN, size, parameters, rates, options, departures=(EURNN_UNSTATED,)
    )


def _lstm(size: int, parameters: int, rates: _Rates) -> _Network:
    return _Network(
        f"LSTM {size}", TorchLSTM, size, parameters, rates, LSTM_INIT, departures=(LSTM_BIASES,)
    )


_RNN = _Network("RNN 1024", RNNGlorot, 1024, 1_316_674, _both(1e-5, None, 0.9), _KAIMING)
_RNN_ORTH = _Network(
    "RNN-orth 1024",
    RNN,
    1024,
    1_316_674,
    _both(1e-4, None, 0.9),
    {
        **_KAIMING,
        "input_bias": True,
        "bias_init": uniform_,
        "input_bias_init": fan_uniform_,
    },
    # table 5: "random orth", then "Cayley"
    options_at={
        150: {"constraint": partial(Unconstrained, init=orthogonal_)},
        300: {"constraint": partial(Unconstrained, init=cayley_)},
    },
)
_NNRNN = _nnrnn("nnRNN 1024", 1_315_650)

_LSTM_475 = _lstm(475, 1_320_100, {150: (1e-3, None, 0.99), 300: (3e-3, None, 0.9)})

# at 150 and at 300 steps, in bits per character and as accuracies, with their standard errors
_Printed = tuple[tuple[float, float] | None, tuple[float, float] | None]
_BITS: tuple[tuple[_Network, _Printed], ...] = (
    (_RNN, ((2.89, 0.002), (2.90, 0.0016))),
    (_RNN_ORTH, ((1.62, 0.004), (1.66, 0.006))),
    (_eurnn(2048, 1_320_582), ((1.61, 0.001), (1.62, 0.001))),
    (_eurnn(1024, 665_222), ((1.69, 0.001), (1.68, 0.001))),
    (_exprnn(1386, 1_317_741), ((1.49, 0.008), (1.52, 0.001))),
    (_exprnn(1024, 790_850), ((1.51, 0.005), (1.55, 0.001))),
    (_NNRNN, ((1.47, 0.003), (1.49, 0.002))),
    (_lstm(1024, 5_082_946, _both(8e-3, None, 0.9)), ((1.37, 0.003), None)),
    (_LSTM_475, (None, None)),
)
_ACCURACIES = (
    ((0.4001, 0.00026), (0.3997, 0.00025)),
    ((0.6629, 0.0007), (0.6553, 0.0009)),
    ((0.6568, 0.00002), (0.6555, 0.00002)),
    ((0.6401, 0.00002), (0.6420, 0.00003)),
    ((0.6807, 0.0015), (0.6758, 0.0004)),
    ((0.6751, 0.0011), (0.6689, 0.00024)),
    ((0.6878, 0.000006), (0.6852, 0.000004)),
)
_CLAMPED: tuple[tuple[_Network, _Printed, tuple[str, str]], ...] = (
    (_NNRNN, ((1.47, 0.003), (1.49, 0.002)), ("", "")),
    (
        _nnrnn("nnRNN 1024 gamma=1", 1_315_138, gamma="clamped"),
        ((1.46, 0.005), (1.49, 0.022)),
        ("one run of five failed", "two runs of five failed"),
    ),
    (
        _nnrnn("nnRNN 1024 gamma=0.958", 1_315_138, gamma="clamped", gamma_value=0.958),
        ((1.47, 0.005), (1.49, 0.008)),
        ("", ""),
    ),
)

_LENGTHS = (150, 300)


def _bits() -> tuple[Row, ...]:
    rows: list[Row] = []
    for network, values in _BITS:
        for length, value in zip(_LENGTHS, values, strict=True):
            place, note = "table 1", ""
            if value is None:
                place, note = "table 5", "only its settings are printed"
            elif network.layer is TorchLSTM:
                place, note = "section 5.2", "the text does not state the length"
            rows.append(network.row(length, place, "bits", value, note))
    return tuple(rows)


def _accuracies() -> tuple[Row, ...]:
    return tuple(
        network.row(length, "table 4", "accuracy", value, "")
        for (network, _), values in zip(_BITS, _ACCURACIES, strict=False)
        for length, value in zip(_LENGTHS, values, strict=True)
    )


def _clamped() -> tuple[Row, ...]:
    return tuple(
        network.row(length, "table 7", "bits", value, note)
        for network, values, notes in _CLAMPED
        for length, value, note in zip(_LENGTHS, values, notes, strict=True)
    )


_PLACE = f"{SOURCE}, section 5.2, appendix A.3, table 5"
_SEEDS = (0, 1, 2, 3, 4)
_LR_DECAY = (
    "both learning rates are halved after an epoch that does not improve the validation loss"
)

RECIPES = (
    Recipe(
        name="nnrnn/table1",
        summary="Penn Treebank by characters, 150 and 300 steps: bits per character.",
        rows=_bits(),
        source=f"{_PLACE} and table 1",
        departures=(_LR_DECAY,),
        seeds=_SEEDS,
    ),
    Recipe(
        name="nnrnn/table4",
        summary="Penn Treebank by characters, 150 and 300 steps: accuracy of the same models.",
        rows=_accuracies(),
        source=f"{_PLACE} and table 4",
        departures=(_LR_DECAY,),
        seeds=_SEEDS,
    ),
    Recipe(
        name="nnrnn/table7",
        summary="Penn Treebank by characters: nnRNN with moduli that are free or clamped.",
        rows=_clamped(),
        source=f"{_PLACE}, appendix F and table 7",
        departures=(_LR_DECAY,),
        seeds=_SEEDS,
    ),
)
"""Three tables of the same networks."""
