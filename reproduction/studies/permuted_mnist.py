"""Permuted MNIST at two sizes, by deep stacks and by single layers; not from a paper."""

from dataclasses import replace
from functools import partial
from typing import Any

from eigenrnn.constraints import DiagonalDisc
from eigenrnn.init import constant_, weights_
from eigenrnn.layers import LRU, NCGRU, ExpRNN, ScoRNN
from eigenrnn_experiments.recipes.recipe import Recipe
from eigenrnn_experiments.recipes.row import Quoted, Reported, stack_model
from eigenrnn_experiments.recipes.setup import Network, Setup
from eigenrnn_experiments.tasks import PixelMNIST
from eigenrnn_experiments.training import Settings
from reproduction.studies.state_tracking import stacked

__all__ = ["RECIPES"]

_STACKS = Setup(
    task=PixelMNIST(permuted=True),
    settings=Settings(
        epochs=5,  # about an hour of one core each
        batch_size=50,
        optimiser="adamw",
        lr=2e-3,
        lr_recurrent=2e-4,
        lr_schedule="cosine",
        warmup_steps=500,
        weight_decay=0.01,
        clip_norm=1.0,
        eval_batch_size=500,
        log_every=100,
    ),
    reported=Reported(None, "no paper", rule="validation", note="a training of our own"),
    quick_task=PixelMNIST(permuted=True, eval_examples=100),
    quick_steps=10,
)
_SINGLE = replace(
    _STACKS,
    settings=replace(_STACKS.settings, epochs=20, lr=1e-3, lr_recurrent=1e-4, weight_decay=0.0),
)
# the block of a stack has more epochs, a larger rate and the weight decay of the stacks
_BLOCK = replace(
    _STACKS, settings=replace(_STACKS.settings, epochs=25, lr=3e-3, lr_recurrent=3e-4)
)


def _stack(label: str, layer: Any, width: int, **fields: Any) -> Network:
    """Return a stack of four blocks, which is as wide as its layers."""
    return stacked(Network(f"{label} stack, 4 blocks of {width}", layer, width, **fields), depth=4)


_SLOW = {"constraint": partial(DiagonalDisc, r_min=0.999, r_max=0.9999)}
"""Options of an LRU whose states keep the first of 784 pixels."""
_BOUNDED = {
    "nonlinearity": "tanh",
    "init": partial(weights_, gate_bias=(None, partial(constant_, value=-4.0))),
}
"""Options of an NC-GRU without exploding gradients: with modReLU they reach 1e12 in a stack."""
_LRU_BLOCK = Network(
    "LRU in a residual block 68",
    LRU,
    68,
    parameters=16_314,
    options=_SLOW,
    model_factory=partial(stack_model, width=16, depth=1, mixer="mlp"),
)


def _quoted(label: str, value: float, source: str) -> Quoted:
    reported = Reported(value, source, rule="validation", note="quoted from its paper", decimals=4)
    return Quoted(label, (reported,))


_NGUYEN_DUY = "Nguyen-Duy, Pham and Nguyen, ICLR 2023 tiny papers"

RECIPES = (
    Recipe(
        name="permuted_mnist/stacks",
        summary="Permuted MNIST at about 135,000 parameters: residual stacks of four layers.",
        rows=(
            _STACKS.row(_stack("LRU", LRU, 68, parameters=132_610)),
            _STACKS.row(_stack("slow LRU", LRU, 68, parameters=132_610, options=_SLOW)),
            _STACKS.row(_stack("scoRNN", ScoRNN, 96, parameters=132_106)),
            _STACKS.row(_stack("tanh NC-GRU", NCGRU, 66, parameters=133_330, options=_BOUNDED)),
            _quoted("UnICORNN", 0.984, "Rusch and Mishra, ICML 2021"),
            _quoted("coRNN", 0.9734, "Rusch and Mishra, ICLR 2021"),
            _quoted("asRNN", 0.9696, _NGUYEN_DUY),
            _quoted("LMU-FFT 165k", 0.9849, "Chilkuri and Eliasmith, ICML 2021"),
        ),
        source="a comparison of our own; the data is that of scornn/table2",
        seeds=(0, 1, 2),
    ),
    Recipe(
        name="permuted_mnist/single",
        summary="Permuted MNIST at about 16,000 parameters: one recurrent layer.",
        rows=(
            _BLOCK.row(_LRU_BLOCK),
            _SINGLE.row(
                Network("scoRNN 170", ScoRNN, 170, parameters=16_415, options={"negative": 85})
            ),
            _SINGLE.row(Network("expRNN 170", ExpRNN, 170, parameters=16_415)),
            _quoted("asRNN 122, 16k", 0.9541, _NGUYEN_DUY),
            _quoted("expRNN 170, 16k", 0.949, "Lezcano-Casado and Martinez-Rubio, ICML 2019"),
        ),
        source="a comparison of our own; the data is that of scornn/table2",
        seeds=(0, 1, 2),
    ),
)
"""The stacks, and the single layers."""
