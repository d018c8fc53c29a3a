"""Permuted MNIST at two sizes, by deep stacks and by single layers; not from a paper."""

from dataclasses import replace
from functools import partial
from typing import Any

from eigenrnn.constraints import DiagonalDisc
from eigenrnn.experiments.recipes.recipe import Quoted, Recipe, Reported, Row, stack_model
from eigenrnn.experiments.tasks import PixelMNIST
from eigenrnn.experiments.training import Settings
from eigenrnn.init import constant_
from eigenrnn.layers import LRU, NCGRU, AsRNN, ExpRNN, ScoRNN

__all__ = ["RECIPES"]

_NOTE = "a training of our own"
_TASK = PixelMNIST(permuted=True)
_SETTINGS = Settings(
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
)


def _row(label: str, layer: Any, hidden_size: int, parameters: int, **row_fields: Any) -> Row:
    defaults: dict[str, Any] = {"settings": _SETTINGS}
    return Row(
        label=f"{label} {hidden_size}",
        task=_TASK,
        quick_task=replace(_TASK, eval_examples=100),
        quick_steps=10,
        layer=layer,
        hidden_size=hidden_size,
        parameters=parameters,
        reported=Reported(None, "no paper", rule="validation", note=_NOTE),
        **defaults | row_fields,
    )


def _stack(label: str, layer: Any, width: int, parameters: int, **row_fields: Any) -> Row:
    factory = partial(stack_model, width=width, depth=4)
    label = f"{label} stack, 4 blocks of"
    return _row(label, layer, width, parameters, model_factory=factory, **row_fields)


def _quoted(label: str, value: float, source: str) -> Quoted:
    reported = Reported(value, source, rule="validation", note="quoted from its paper", decimals=4)
    return Quoted(label, reported)


_SINGLE = replace(_SETTINGS, epochs=20, lr=1e-3, lr_recurrent=1e-4, weight_decay=0.0)
_SLOW = {"constraint": partial(DiagonalDisc, r_min=0.999, r_max=0.9999)}
"""Options of an LRU whose states keep the first of 784 pixels."""
_BOUNDED = {"nonlinearity": "tanh", "update_bias_init": partial(constant_, value=-4.0)}
"""Options of an NC-GRU without exploding gradients: with modReLU they reach 1e12 in a stack."""
_BLOCK = {
    "model_factory": partial(stack_model, width=16, depth=1, mixer="mlp"),
    "options": _SLOW,
    "settings": replace(_SETTINGS, epochs=25, lr=3e-3, lr_recurrent=3e-4),
}

RECIPES = (
    Recipe(
        name="permuted_mnist/stacks",
        summary="Permuted MNIST at about 135,000 parameters: residual stacks of four layers.",
        rows=(
            _stack("LRU", LRU, 68, 132_610),
            _stack("slow LRU", LRU, 68, 132_610, options=_SLOW),
            _stack("scoRNN", ScoRNN, 96, 132_106),
            _stack("tanh NC-GRU", NCGRU, 66, 133_330, options=_BOUNDED),
            _quoted("UnICORNN", 0.984, "Rusch and Mishra, ICML 2021"),
            _quoted("coRNN", 0.9734, "Rusch and Mishra, ICLR 2021"),
            _quoted("asRNN", 0.9696, "Nguyen-Duy, Pham and Nguyen, ICLR 2023 tiny papers"),
            _quoted("LMU-FFT 165k", 0.9849, "Chilkuri and Eliasmith, ICML 2021"),
        ),
        source="a comparison of our own; the data is that of scornn/table2",
        seeds=(0, 1, 2),
    ),
    Recipe(
        name="permuted_mnist/single",
        summary="Permuted MNIST at about 16,000 parameters: one recurrent layer.",
        rows=(
            _row("LRU in a residual block", LRU, 68, 16_314, **_BLOCK),
            _row("scoRNN", ScoRNN, 170, 16_415, options={"negative": 85}, settings=_SINGLE),
            _row("expRNN", ExpRNN, 170, 16_415, settings=_SINGLE),
            _row("asRNN", AsRNN, 122, 16_358, settings=_SINGLE),
            _quoted(
                "asRNN 122, 16k", 0.9541, "Nguyen-Duy, Pham and Nguyen, ICLR 2023 tiny papers"
            ),
            _quoted("expRNN 170, 16k", 0.949, "Lezcano-Casado and Martinez-Rubio, ICML 2019"),
        ),
        source="a comparison of our own; the data is that of scornn/table2",
        seeds=(0, 1, 2),
    ),
)
"""The stacks, and the single layers."""
