"""State tracking: word problems of five groups by networks of equal size; not from a paper."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from eigenrnn.constraints import (
    BlockTriangular,
    BoundedSVD,
    ScaledCayley,
    Schur,
    SpectralRadius,
    Unconstrained,
)
from eigenrnn.init import orthogonal_
from eigenrnn.layers import (
    ENRNN,
    GRU,
    LRU,
    LSTM,
    NCGRU,
    RNN,
    DeltaNet,
    ExpRNN,
    MinGRU,
    NnRNN,
    ScoRNN,
)
from eigenrnn.models import SequenceModel
from eigenrnn_experiments.baselines import TanhRNN
from eigenrnn_experiments.recipes.recipe import Recipe
from eigenrnn_experiments.recipes.row import Axis, Reported, Row, stack_model
from eigenrnn_experiments.recipes.setup import Network, Setup
from eigenrnn_experiments.tasks import StateTracking
from eigenrnn_experiments.training import Settings

__all__ = ["RECIPES", "SOURCE", "relu_network", "stacked", "word_problem"]

SOURCE = "a comparison of our own; the task is that of Grazzi et al., ICLR 2025"
_SEEDS = (0, 1, 2)
_SETS = "relu networks whose W is in six different sets"
_DELTA = "the delta rule with different eigenvalues and numbers of reflections"
_REFLECTING = "the delta rule from reflections on, trained on shorter and longer words"
_STRENGTH = 12.0  # the free eigenvalues 1 - 2 sigmoid(12) are -0.99999


def word_problem(group: str, *, steps: int) -> Setup:
    """Return what the networks share on a group: they train on 40 generators."""
    return Setup(
        task=StateTracking(group, "generators"),
        settings=Settings(
            steps=steps,
            batch_size=64,
            optimiser="adam",
            lr=3e-3,
            clip_norm=1.0,
            log_every=100,
            eval_every=500,
            eval_batch_size=100,
        ),
        reported=Reported(
            None,
            "no paper",
            quantity="longest",
            rule="validation",
            note="no paper has this comparison; `longest` is the length up to which accuracy "
            "exceeds 0.9",
        ),
        suffix=group,
        grid=(Axis.of_settings("lr", (3e-3, 1e-2)),),  # a tenth of it for constrained matrices
        quick_task=StateTracking(
            group, "generators", length=10, test_lengths=(10, 20), test_examples=20
        ),
    )


_Z2 = word_problem("Z2", steps=1_500)
_Z3 = word_problem("Z3", steps=1_500)
_S3 = word_problem("S3", steps=1_500)
_A5 = word_problem("A5", steps=3_000)
_S5 = word_problem("S5", steps=3_000)


def stacked(network: Network, depth: int) -> Network:
    """Return a residual stack of a network's layer, which is as wide as the layer."""
    return replace(
        network, model_factory=partial(stack_model, width=network.hidden_size, depth=depth)
    )


def relu_network(label: str, constraint: Any, hidden_size: int, *, parameters: int) -> Network:
    """Return a relu network whose W is in a set."""
    return Network(
        f"{label} {hidden_size}",
        RNN,
        hidden_size,
        parameters=parameters,
        options={"nonlinearity": "relu", "constraint": constraint},
    )


_SIGNED = {"decays": (-1.0, 1.0)}
_DELTA_OPTIONS = {
    "DeltaNet": {"heads": 4, "eigenvalues": (0.0, 1.0)},
    "signed DeltaNet": {"heads": 4},
    "DeltaProduct R=2": {"heads": 4, "reflections": 2},
    "DeltaProduct R=4": {"heads": 4, "reflections": 4},
}
"""The options of `DeltaNet`, without decays, convolution and output gate."""


def _delta(name: str, hidden_size: int, *, parameters: int) -> Network:
    """Return a layer of the delta rule."""
    return Network(
        f"{name} {hidden_size}",
        DeltaNet,
        hidden_size,
        parameters=parameters,
        options=_DELTA_OPTIONS[name],
    )


def _delta_stack(name: str, width: int, *, parameters: int) -> Network:
    """Return two blocks around layers of the delta rule."""
    return replace(
        stacked(_delta(name, width, parameters=parameters), depth=2), label=f"{name} stack {width}"
    )


_ORTHOGONAL = partial(Unconstrained, init=orthogonal_)
_BOUNDED = partial(BoundedSVD, margin=0.1)


def _reflecting_model(row: Row, generator: torch.Generator) -> nn.Module:
    """Build a layer of the delta rule whose factors begin as reflections, whatever the letter.

    Letters are one-hot, so a number added to all input weights of the strengths is a bias.
    """
    layer = DeltaNet(
        row.task.input_size, row.hidden_size, generator=generator, **dict(row.options)
    )
    with torch.no_grad():
        for direction in layer.all_directions():
            direction.weight_ih.split(direction.widths)[1].add_(_STRENGTH)
    return SequenceModel(layer, row.task.output_size, row.task.readout, generator=generator)


def _reflecting(
    setup: Setup, length: int, reflections: int, hidden_size: int, *, parameters: int
) -> Row:
    """Return a row that trains on words of a length and tests on words of 2,000 letters."""
    task: Any = setup.task
    longer = replace(
        setup,
        task=replace(
            task,
            length=length,
            test_lengths=(40, 100, 200, 500, 1_000, 2_000),
            test_examples=200,
            validation_examples=100,
        ),
        settings=replace(setup.settings, steps=1_000, lr_schedule="cosine"),
        grid=(Axis.of_settings("lr", (1e-2,)),),
    )
    network = Network(
        f"DeltaProduct R={reflections} {hidden_size}, words of {length}",
        DeltaNet,
        hidden_size,
        parameters=parameters,
        options={"heads": 4, "reflections": reflections, "trainable_h0": True},
        model_factory=_reflecting_model,
    )
    return longer.row(network)


_LAYERS = {
    "LSTM": (LSTM, (32, 4_546), (32, 4_579), (32, 4_806), (40, 9_500), (46, 14_840)),
    "GRU": (GRU, (38, 4_790), (38, 4_829), (36, 4_578), (46, 9_766), (50, 14_270)),
    "RNN": (TanhRNN, (66, 4_754), (66, 4_821), (64, 4_806), (72, 9_924), (74, 14_846)),
    "scoRNN": (ScoRNN, (94, 4_843), (94, 4_938), (90, 4_911), (90, 9_825), (88, 14_860)),
    "expRNN": (ExpRNN, (94, 4_843), (94, 4_938), (90, 4_911), (90, 9_825), (88, 14_860)),
    "nnRNN": (NnRNN, (68, 4_966), (66, 4_755), (64, 4_742), (72, 9_852), (74, 14_772)),
    "ENRNN": (ENRNN, (84, 4_811), (84, 4_896), (80, 4_786), (84, 9_825), (84, 14_925)),
    "NC-GRU": (NCGRU, (42, 4_853), (42, 4_896), (40, 4_706), (50, 9_885), (54, 14_511)),
    "LRU": (LRU, (46, 4_786), (46, 4_833), (44, 4_714), (54, 9_834), (58, 14_562)),
    "minGRU": (MinGRU, (624, 4_994), (554, 4_989), (356, 4_990), (146, 9_988), (116, 14_968)),
    "signed minGRU": (
        MinGRU,
        (624, 4_994),
        (554, 4_989),
        (356, 4_990),
        (146, 9_988),
        (116, 14_968),
    ),
    "LRU stack": (LRU, (18, 4_952), (18, 4_971), (16, 4_038), (22, 8_640), (26, 13_276)),
    "minGRU stack": (MinGRU, (22, 4_292), (22, 4_315), (22, 4_406), (30, 9_600), (34, 14_060)),
    "signed minGRU stack": (
        MinGRU,
        (22, 4_292),
        (22, 4_315),
        (22, 4_406),
        (30, 9_600),
        (34, 14_060),
    ),
}
"""The layer, and its units and parameters on each group, in the order of `_GROUPS`.

The units are the largest even numbers with at most 5,000 parameters; 10,000 with A5 and 15,000
with S5. Those of the delta rule below are multiples of its four heads.
"""
_GROUPS = {
    "z2": (_Z2, "Parity, the word problem of Z2"),
    "z3": (_Z3, "Counting modulo 3, the word problem of Z3"),
    "s3": (_S3, "Permutations of three things, the word problem of S3"),
    "a5": (_A5, "Even permutations of five things, the word problem of A5"),
    "s5": (_S5, "Permutations of five things, the word problem of S5"),
}


def _layers(group: str) -> Recipe:
    """Return the layers of equal size on a group."""
    setup, summary = _GROUPS[group]
    rows: list[Row] = []
    for label, (layer, *sizes) in _LAYERS.items():
        units, parameters = sizes[list(_GROUPS).index(group)]
        options = _SIGNED if label.startswith("signed") else {}
        network = Network(f"{label} {units}", layer, units, parameters=parameters, options=options)
        if label.endswith("stack"):
            network = stacked(network, depth=2)
        rows.append(setup.row(network))
    return Recipe(
        name=f"state_tracking/{group}",
        summary=f"{summary}: layers of equal size, trained on 40 letters.",
        rows=tuple(rows),
        source=SOURCE,
        seeds=_SEEDS,
    )


RECIPES = (
    *map(_layers, _GROUPS),
    Recipe(
        name="state_tracking/s3-sets",
        summary=f"Permutations of three things, the word problem of S3: {_SETS}.",
        rows=(
            _S3.row(relu_network("Unconstrained", _ORTHOGONAL, 64, parameters=4_742)),
            _S3.row(relu_network("ScaledCayley", ScaledCayley, 90, parameters=4_911)),
            _S3.row(relu_network("BoundedSVD", _BOUNDED, 64, parameters=4_868)),
            _S3.row(relu_network("Schur", Schur, 64, parameters=4_742)),
            _S3.row(relu_network("SpectralRadius", SpectralRadius, 64, parameters=4_742)),
            _S3.row(relu_network("BlockTriangular", BlockTriangular, 80, parameters=4_786)),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
    Recipe(
        name="state_tracking/a5-sets",
        summary=f"Even permutations of five things, the word problem of A5: {_SETS}.",
        rows=(
            _A5.row(relu_network("Unconstrained", _ORTHOGONAL, 72, parameters=9_852)),
            _A5.row(relu_network("ScaledCayley", ScaledCayley, 90, parameters=9_825)),
            _A5.row(relu_network("BoundedSVD", _BOUNDED, 72, parameters=9_994)),
            _A5.row(relu_network("Schur", Schur, 72, parameters=9_852)),
            _A5.row(relu_network("SpectralRadius", SpectralRadius, 72, parameters=9_852)),
            _A5.row(relu_network("BlockTriangular", BlockTriangular, 84, parameters=9_825)),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
    Recipe(
        name="state_tracking/s3-delta",
        summary=f"Permutations of three things, the word problem of S3: {_DELTA}.",
        rows=(
            _S3.row(_delta("DeltaNet", 60, parameters=4_578)),
            _S3.row(_delta("signed DeltaNet", 60, parameters=4_578)),
            _S3.row(_delta("DeltaProduct R=2", 60, parameters=4_950)),
            _S3.row(_delta_stack("DeltaNet", 16, parameters=3_558)),
            _S3.row(_delta_stack("signed DeltaNet", 16, parameters=3_558)),
            _S3.row(_delta_stack("DeltaProduct R=2", 16, parameters=4_710)),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
    Recipe(
        name="state_tracking/a5-delta",
        summary=f"Even permutations of five things, the word problem of A5: {_DELTA}.",
        rows=(
            _A5.row(_delta("DeltaNet", 68, parameters=9_456)),
            _A5.row(_delta("signed DeltaNet", 68, parameters=9_456)),
            _A5.row(_delta("DeltaProduct R=2", 68, parameters=9_876)),
            _A5.row(_delta_stack("DeltaNet", 24, parameters=8_988)),
            _A5.row(_delta_stack("signed DeltaNet", 24, parameters=8_988)),
            _A5.row(_delta_stack("DeltaProduct R=2", 20, parameters=8_300)),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
    Recipe(
        name="state_tracking/s5-delta",
        summary=f"Permutations of five things, the word problem of S5: {_DELTA}.",
        rows=(
            _S5.row(_delta("DeltaNet", 72, parameters=14_676)),
            _S5.row(_delta("signed DeltaNet", 72, parameters=14_676)),
            _S5.row(_delta("DeltaProduct R=2", 68, parameters=14_016)),
            _S5.row(_delta("DeltaProduct R=4", 68, parameters=14_856)),
            _S5.row(_delta_stack("DeltaNet", 28, parameters=13_560)),
            _S5.row(_delta_stack("signed DeltaNet", 28, parameters=13_560)),
            _S5.row(_delta_stack("DeltaProduct R=2", 24, parameters=12_984)),
            _S5.row(_delta_stack("DeltaProduct R=4", 20, parameters=13_080)),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
    Recipe(
        name="state_tracking/s3-reflections",
        summary=f"Permutations of three things, the word problem of S3: {_REFLECTING}.",
        rows=(
            _reflecting(_S3, 40, 2, 52, parameters=4_554),
            _reflecting(_S3, 200, 2, 52, parameters=4_554),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
    Recipe(
        name="state_tracking/a5-reflections",
        summary=f"Even permutations of five things, the word problem of A5: {_REFLECTING}.",
        rows=(
            _reflecting(_A5, 40, 2, 60, parameters=9_144),
            _reflecting(_A5, 200, 2, 60, parameters=9_144),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
    Recipe(
        name="state_tracking/s5-reflections",
        summary=f"Permutations of five things, the word problem of S5: {_REFLECTING}.",
        rows=(
            _reflecting(_S5, 40, 4, 64, parameters=14_760),
            _reflecting(_S5, 200, 4, 64, parameters=14_760),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
)
"""The layers on each group, the sets on two of them, and the delta rule on three."""
