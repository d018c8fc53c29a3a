"""State tracking: word problems of five groups by networks of equal size; not from a paper."""

from collections.abc import Mapping
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
from eigenrnn.experiments.recipes.experiment import Experiment, Network
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
    DeltaNet,
    ExpRNN,
    MinGRU,
    NnRNN,
    ScoRNN,
    TanhRNN,
)
from eigenrnn.models import SequenceModel

__all__ = ["RECIPES", "SOURCE", "relu_network", "word_problem"]

SOURCE = "a comparison of our own; the task is that of Grazzi et al., ICLR 2025"
_SEEDS = (0, 1, 2)
_LAYERS = "layers of equal size, trained on 40 letters"
_SETS = "relu networks whose W is in six different sets"
_DELTA = "the delta rule with different eigenvalues and numbers of reflections"
_REFLECTING = "the delta rule from reflections on, trained on shorter and longer words"
_STRENGTH = 12.0  # the free eigenvalues 1 - 2 sigmoid(12) are -0.99999


def word_problem(group: str, *, steps: int) -> Experiment:
    """Return what the networks share on a group: they train on 40 generators."""
    return Experiment(
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


def _stack(
    label: str,
    layer: Any,
    width: int,
    *,
    parameters: int,
    options: Mapping[str, Any] | None = None,
) -> Network:
    """Return a stack of two blocks, which is as wide as its layers."""
    return Network(
        f"{label} stack {width}",
        layer,
        width,
        parameters=parameters,
        options=options or {},
        model_factory=partial(stack_model, width=width, depth=2),
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
    return _stack(name, DeltaNet, width, parameters=parameters, options=_DELTA_OPTIONS[name])


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
    experiment: Experiment, length: int, reflections: int, hidden_size: int, *, parameters: int
) -> Row:
    """Return a row that trains on words of a length and tests on words of 2,000 letters."""
    task: Any = experiment.task
    longer = replace(
        experiment,
        task=replace(
            task,
            length=length,
            test_lengths=(40, 100, 200, 500, 1_000, 2_000),
            test_examples=200,
            validation_examples=100,
        ),
        settings=replace(experiment.settings, steps=1_000, lr_schedule="cosine"),
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


# The numbers of units are the largest even ones with at most 5,000 parameters; 10,000 with A5 and
# 15,000 with S5. Those of the delta rule are multiples of its four heads.
RECIPES = (
    Recipe(
        name="state_tracking/z2",
        summary=f"Parity, the word problem of Z2: {_LAYERS}.",
        rows=(
            _Z2.row(Network("LSTM 32", LSTM, 32, parameters=4_546)),
            _Z2.row(Network("GRU 38", GRU, 38, parameters=4_790)),
            _Z2.row(Network("RNN 66", TanhRNN, 66, parameters=4_754)),
            _Z2.row(Network("scoRNN 94", ScoRNN, 94, parameters=4_843)),
            _Z2.row(Network("expRNN 94", ExpRNN, 94, parameters=4_843)),
            _Z2.row(Network("nnRNN 68", NnRNN, 68, parameters=4_966)),
            _Z2.row(Network("ENRNN 84", ENRNN, 84, parameters=4_811)),
            _Z2.row(Network("NC-GRU 42", NCGRU, 42, parameters=4_853)),
            _Z2.row(Network("LRU 46", LRU, 46, parameters=4_786)),
            _Z2.row(Network("minGRU 624", MinGRU, 624, parameters=4_994)),
            _Z2.row(Network("signed minGRU 624", MinGRU, 624, parameters=4_994, options=_SIGNED)),
            _Z2.row(_stack("LRU", LRU, 18, parameters=4_952)),
            _Z2.row(_stack("minGRU", MinGRU, 22, parameters=4_292)),
            _Z2.row(_stack("signed minGRU", MinGRU, 22, parameters=4_292, options=_SIGNED)),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
    Recipe(
        name="state_tracking/z3",
        summary=f"Counting modulo 3, the word problem of Z3: {_LAYERS}.",
        rows=(
            _Z3.row(Network("LSTM 32", LSTM, 32, parameters=4_579)),
            _Z3.row(Network("GRU 38", GRU, 38, parameters=4_829)),
            _Z3.row(Network("RNN 66", TanhRNN, 66, parameters=4_821)),
            _Z3.row(Network("scoRNN 94", ScoRNN, 94, parameters=4_938)),
            _Z3.row(Network("expRNN 94", ExpRNN, 94, parameters=4_938)),
            _Z3.row(Network("nnRNN 66", NnRNN, 66, parameters=4_755)),
            _Z3.row(Network("ENRNN 84", ENRNN, 84, parameters=4_896)),
            _Z3.row(Network("NC-GRU 42", NCGRU, 42, parameters=4_896)),
            _Z3.row(Network("LRU 46", LRU, 46, parameters=4_833)),
            _Z3.row(Network("minGRU 554", MinGRU, 554, parameters=4_989)),
            _Z3.row(Network("signed minGRU 554", MinGRU, 554, parameters=4_989, options=_SIGNED)),
            _Z3.row(_stack("LRU", LRU, 18, parameters=4_971)),
            _Z3.row(_stack("minGRU", MinGRU, 22, parameters=4_315)),
            _Z3.row(_stack("signed minGRU", MinGRU, 22, parameters=4_315, options=_SIGNED)),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
    Recipe(
        name="state_tracking/s3",
        summary=f"Permutations of three things, the word problem of S3: {_LAYERS}.",
        rows=(
            _S3.row(Network("LSTM 32", LSTM, 32, parameters=4_806)),
            _S3.row(Network("GRU 36", GRU, 36, parameters=4_578)),
            _S3.row(Network("RNN 64", TanhRNN, 64, parameters=4_806)),
            _S3.row(Network("scoRNN 90", ScoRNN, 90, parameters=4_911)),
            _S3.row(Network("expRNN 90", ExpRNN, 90, parameters=4_911)),
            _S3.row(Network("nnRNN 64", NnRNN, 64, parameters=4_742)),
            _S3.row(Network("ENRNN 80", ENRNN, 80, parameters=4_786)),
            _S3.row(Network("NC-GRU 40", NCGRU, 40, parameters=4_706)),
            _S3.row(Network("LRU 44", LRU, 44, parameters=4_714)),
            _S3.row(Network("minGRU 356", MinGRU, 356, parameters=4_990)),
            _S3.row(Network("signed minGRU 356", MinGRU, 356, parameters=4_990, options=_SIGNED)),
            _S3.row(_stack("LRU", LRU, 16, parameters=4_038)),
            _S3.row(_stack("minGRU", MinGRU, 22, parameters=4_406)),
            _S3.row(_stack("signed minGRU", MinGRU, 22, parameters=4_406, options=_SIGNED)),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
    Recipe(
        name="state_tracking/a5",
        summary=f"Even permutations of five things, the word problem of A5: {_LAYERS}.",
        rows=(
            _A5.row(Network("LSTM 40", LSTM, 40, parameters=9_500)),
            _A5.row(Network("GRU 46", GRU, 46, parameters=9_766)),
            _A5.row(Network("RNN 72", TanhRNN, 72, parameters=9_924)),
            _A5.row(Network("scoRNN 90", ScoRNN, 90, parameters=9_825)),
            _A5.row(Network("expRNN 90", ExpRNN, 90, parameters=9_825)),
            _A5.row(Network("nnRNN 72", NnRNN, 72, parameters=9_852)),
            _A5.row(Network("ENRNN 84", ENRNN, 84, parameters=9_825)),
            _A5.row(Network("NC-GRU 50", NCGRU, 50, parameters=9_885)),
            _A5.row(Network("LRU 54", LRU, 54, parameters=9_834)),
            _A5.row(Network("minGRU 146", MinGRU, 146, parameters=9_988)),
            _A5.row(Network("signed minGRU 146", MinGRU, 146, parameters=9_988, options=_SIGNED)),
            _A5.row(_stack("LRU", LRU, 22, parameters=8_640)),
            _A5.row(_stack("minGRU", MinGRU, 30, parameters=9_600)),
            _A5.row(_stack("signed minGRU", MinGRU, 30, parameters=9_600, options=_SIGNED)),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
    Recipe(
        name="state_tracking/s5",
        summary=f"Permutations of five things, the word problem of S5: {_LAYERS}.",
        rows=(
            _S5.row(Network("LSTM 46", LSTM, 46, parameters=14_840)),
            _S5.row(Network("GRU 50", GRU, 50, parameters=14_270)),
            _S5.row(Network("RNN 74", TanhRNN, 74, parameters=14_846)),
            _S5.row(Network("scoRNN 88", ScoRNN, 88, parameters=14_860)),
            _S5.row(Network("expRNN 88", ExpRNN, 88, parameters=14_860)),
            _S5.row(Network("nnRNN 74", NnRNN, 74, parameters=14_772)),
            _S5.row(Network("ENRNN 84", ENRNN, 84, parameters=14_925)),
            _S5.row(Network("NC-GRU 54", NCGRU, 54, parameters=14_511)),
            _S5.row(Network("LRU 58", LRU, 58, parameters=14_562)),
            _S5.row(Network("minGRU 116", MinGRU, 116, parameters=14_968)),
            _S5.row(Network("signed minGRU 116", MinGRU, 116, parameters=14_968, options=_SIGNED)),
            _S5.row(_stack("LRU", LRU, 26, parameters=13_276)),
            _S5.row(_stack("minGRU", MinGRU, 34, parameters=14_060)),
            _S5.row(_stack("signed minGRU", MinGRU, 34, parameters=14_060, options=_SIGNED)),
        ),
        source=SOURCE,
        seeds=_SEEDS,
    ),
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
