"""State tracking: word problems of five groups by networks of equal size; not from a paper."""

from dataclasses import replace
from functools import partial
from typing import Any

from eigenrnn.constraints import (
    BlockTriangular,
    BoundedSVD,
    ScaledCayley,
    Schur,
    SpectralRadius,
    Unconstrained,
)
from eigenrnn.experiments.recipes.recipe import Axis, Recipe, Reported, Row, stack_model
from eigenrnn.experiments.tasks import StateTracking
from eigenrnn.experiments.training import Settings
from eigenrnn.init import orthogonal_
from eigenrnn.layers import (
    ENRNN,
    GRU,
    LRU,
    LSTM,
    NCGRU,
    RNN,
    ExpRNN,
    MinGRU,
    NnRNN,
    ScoRNN,
    TanhRNN,
)

__all__ = ["RECIPES"]

_SOURCE = "a comparison of our own; the task is that of Grazzi et al., ICLR 2025"
_NOTE = "no paper has this comparison; `longest` is the length up to which accuracy exceeds 0.9"
_SETTINGS = Settings(
    steps=1_500,
    batch_size=64,
    optimiser="adam",
    lr=3e-3,
    clip_norm=1.0,
    log_every=100,
    eval_every=500,
    eval_batch_size=100,
)
_RATES = Axis.of_settings("lr", (3e-3, 1e-2))  # a tenth of it for constrained matrices

_LAYERS: dict[str, Any] = {
    "LSTM": LSTM,
    "GRU": GRU,
    "RNN": TanhRNN,
    "scoRNN": ScoRNN,
    "expRNN": ExpRNN,
    "nnRNN": NnRNN,
    "ENRNN": ENRNN,
    "NC-GRU": NCGRU,
    "LRU": LRU,
    "minGRU": MinGRU,
    "signed minGRU": MinGRU,
}
_SIGNED = "signed minGRU"  # its decays may be negative
_OPTIONS: dict[str, dict[str, Any]] = {_SIGNED: {"decays": (-1.0, 1.0)}}
_STACKED = {f"{label} stack": label for label in ("LRU", "minGRU", _SIGNED)}
_BLOCKS = 2
# units and parameters: the largest even number of units with at most 5,000 parameters; 10,000
# with A5 and 15,000 with S5. A stack is as wide as its layers.
_SIZES: dict[str, dict[str, tuple[int, int]]] = {
    "Z2": {
        "LSTM": (32, 4_546),
        "GRU": (38, 4_790),
        "RNN": (66, 4_754),
        "scoRNN": (94, 4_843),
        "expRNN": (94, 4_843),
        "nnRNN": (68, 4_966),
        "ENRNN": (84, 4_811),
        "NC-GRU": (42, 4_853),
        "LRU": (46, 4_786),
        "minGRU": (624, 4_994),
        "signed minGRU": (624, 4_994),
        "LRU stack": (18, 4_952),
        "minGRU stack": (22, 4_292),
        "signed minGRU stack": (22, 4_292),
    },
    "Z3": {
        "LSTM": (32, 4_579),
        "GRU": (38, 4_829),
        "RNN": (66, 4_821),
        "scoRNN": (94, 4_938),
        "expRNN": (94, 4_938),
        "nnRNN": (66, 4_755),
        "ENRNN": (84, 4_896),
        "NC-GRU": (42, 4_896),
        "LRU": (46, 4_833),
        "minGRU": (554, 4_989),
        "signed minGRU": (554, 4_989),
        "LRU stack": (18, 4_971),
        "minGRU stack": (22, 4_315),
        "signed minGRU stack": (22, 4_315),
    },
    "S3": {
        "LSTM": (32, 4_806),
        "GRU": (36, 4_578),
        "RNN": (64, 4_806),
        "scoRNN": (90, 4_911),
        "expRNN": (90, 4_911),
        "nnRNN": (64, 4_742),
        "ENRNN": (80, 4_786),
        "NC-GRU": (40, 4_706),
        "LRU": (44, 4_714),
        "minGRU": (356, 4_990),
        "signed minGRU": (356, 4_990),
        "LRU stack": (16, 4_038),
        "minGRU stack": (22, 4_406),
        "signed minGRU stack": (22, 4_406),
    },
    "A5": {
        "LSTM": (40, 9_500),
        "GRU": (46, 9_766),
        "RNN": (72, 9_924),
        "scoRNN": (90, 9_825),
        "expRNN": (90, 9_825),
        "nnRNN": (72, 9_852),
        "ENRNN": (84, 9_825),
        "NC-GRU": (50, 9_885),
        "LRU": (54, 9_834),
        "minGRU": (146, 9_988),
        "signed minGRU": (146, 9_988),
        "LRU stack": (22, 8_640),
        "minGRU stack": (30, 9_600),
        "signed minGRU stack": (30, 9_600),
    },
    "S5": {
        "LSTM": (46, 14_840),
        "GRU": (50, 14_270),
        "RNN": (74, 14_846),
        "scoRNN": (88, 14_860),
        "expRNN": (88, 14_860),
        "nnRNN": (74, 14_772),
        "ENRNN": (84, 14_925),
        "NC-GRU": (54, 14_511),
        "LRU": (58, 14_562),
        "minGRU": (116, 14_968),
        "signed minGRU": (116, 14_968),
        "LRU stack": (26, 13_276),
        "minGRU stack": (34, 14_060),
        "signed minGRU stack": (34, 14_060),
    },
}
# relu networks that differ in the set of W only: the set, and units and parameters by group
_SETS: dict[str, tuple[Any, dict[str, tuple[int, int]]]] = {
    "Unconstrained": (
        partial(Unconstrained, init=orthogonal_),
        {"S3": (64, 4_742), "A5": (72, 9_852)},
    ),
    "ScaledCayley": (ScaledCayley, {"S3": (90, 4_911), "A5": (90, 9_825)}),
    "BoundedSVD": (partial(BoundedSVD, margin=0.1), {"S3": (64, 4_868), "A5": (72, 9_994)}),
    "Schur": (Schur, {"S3": (64, 4_742), "A5": (72, 9_852)}),
    "SpectralRadius": (SpectralRadius, {"S3": (64, 4_742), "A5": (72, 9_852)}),
    "BlockTriangular": (BlockTriangular, {"S3": (80, 4_786), "A5": (84, 9_825)}),
}
_SUMMARIES = {
    "Z2": "Parity, the word problem of Z2",
    "Z3": "Counting modulo 3, the word problem of Z3",
    "S3": "Permutations of three things, the word problem of S3",
    "A5": "Even permutations of five things, the word problem of A5",
    "S5": "Permutations of five things, the word problem of S5",
}


def _row(label: str, group: str, layer: Any, size: tuple[int, int], **row_fields: Any) -> Row:
    task = StateTracking(group, "generators")
    hidden_size, parameters = size
    steps = 3_000 if group in ("A5", "S5") else 1_500
    return Row(
        label=f"{label} {hidden_size} {group}",
        task=task,
        quick_task=replace(task, length=10, test_lengths=(10, 20), test_examples=20),
        layer=layer,
        hidden_size=hidden_size,
        parameters=parameters,
        settings=replace(_SETTINGS, steps=steps),
        grid=(_RATES,),
        reported=Reported(None, "no paper", quantity="longest", rule="validation", note=_NOTE),
        **row_fields,
    )


def _layer_row(label: str, group: str, size: tuple[int, int]) -> Row:
    name = _STACKED.get(label, label)
    options: dict[str, Any] = {"options": _OPTIONS.get(name, {})}
    if label in _STACKED:
        options["model_factory"] = partial(stack_model, width=size[0], depth=_BLOCKS)
    return _row(label, group, _LAYERS[name], size, **options)


def _layers(group: str) -> Recipe:
    return Recipe(
        name=f"state_tracking/{group.lower()}",
        summary=f"{_SUMMARIES[group]}: layers of equal size, trained on 40 letters.",
        rows=tuple(_layer_row(label, group, size) for label, size in _SIZES[group].items()),
        source=_SOURCE,
        seeds=(0, 1, 2),
    )


def _sets(group: str) -> Recipe:
    return Recipe(
        name=f"state_tracking/{group.lower()}-sets",
        summary=f"{_SUMMARIES[group]}: relu networks whose W is in six different sets.",
        rows=tuple(
            _row(
                label,
                group,
                RNN,
                sizes[group],
                options={"nonlinearity": "relu", "constraint": constraint},
            )
            for label, (constraint, sizes) in _SETS.items()
        ),
        source=_SOURCE,
        seeds=(0, 1, 2),
    )


RECIPES = (*map(_layers, _SIZES), *map(_sets, ("S3", "A5")))
"""The layers on each group, and the sets on two of them."""
