"""The experiments of Kerg et al., NeurIPS 2019 (nnRNN): their rows of expRNN and the LSTM."""

from dataclasses import replace
from typing import Any

from eigenrnn.initializers import glorot_normal_, kaiming_normal_, zeros_
from eigenrnn.layers import LSTM, ExpRNN
from eigenrnn.recipes.base import Recipe, Reported, Row
from eigenrnn.tasks import Copying, PixelMNIST
from eigenrnn.train import Settings

__all__ = ["RECIPES"]

_SOURCE = "Kerg et al., NeurIPS 2019. https://arxiv.org/abs/1905.12080"
_LSTM_START = {"start": "glorot_normal"}
_LSTM_BIASES = "torch's LSTM has two bias vectors a gate where the released code has one"


def _copying(place: str, exprnn: tuple[int, int], lstm: tuple[int, int, float]) -> tuple[Row, ...]:
    def row(label: str, layer: Any, hidden_size: int, lr: float, note: str, **facts: Any) -> Row:
        return Row(
            label=f"{label} {hidden_size} copying",
            task=Copying.nnrnn(200),
            layer=layer,
            hidden_size=hidden_size,
            settings=Settings(steps=1_500, batch_size=10, lr=lr, lr_recurrent=1e-4, alpha=0.99),
            head_init=glorot_normal_,
            head_bias_init=zeros_,
            quick_task=Copying(delay=30, test_examples=100),
            reported=Reported(
                None if layer is ExpRNN else 0.095, place, "train", "loss", "last", note
            ),
            **facts,
        )

    options = {"start": "henaff", "input_init": glorot_normal_}
    below = "the curve is below 0.02 after 300 to 400 updates, with spikes; no number is printed"
    settled = "read off the figure: it settles at the baseline"
    n, parameters = exprnn
    width, lstm_parameters, lstm_rate = lstm
    return (
        row("expRNN", ExpRNN, n, 1e-3, below, options=options, parameters=parameters),
        row(
            "LSTM",
            LSTM,
            width,
            lstm_rate,
            settled,
            options=_LSTM_START,
            parameters=lstm_parameters,
            departures=(_LSTM_BIASES,),
        ),
    )


def _pixels(
    place: str, exprnn: tuple[int, int, float], lstm: tuple[int, int, float]
) -> tuple[Row, ...]:
    task = PixelMNIST(permuted=True, split="nnrnn", shuffle=False)

    def row(label: str, layer: Any, size: int, alpha: float, value: float, **facts: Any) -> Row:
        return Row(
            label=f"{label} {size} psMNIST",
            task=task,
            quick_task=replace(task, eval_examples=500),
            layer=layer,
            hidden_size=size,
            settings=Settings(
                epochs=70, batch_size=128, lr=5e-4, lr_recurrent=5e-5, alpha=alpha, log_every=100
            ),
            reported=Reported(
                value, place, "validation", "accuracy", "last", "read off the figure at epoch 70"
            ),
            **facts,
        )

    options = {"start": "cayley", "input_init": kaiming_normal_}
    n, parameters, value = exprnn
    width, lstm_parameters, lstm_value = lstm
    return (
        row("expRNN", ExpRNN, n, 0.99, value, options=options, parameters=parameters),
        row(
            "LSTM",
            LSTM,
            width,
            0.9,
            lstm_value,
            options=_LSTM_START,
            parameters=lstm_parameters,
            departures=(_LSTM_BIASES,),
        ),
    )


RECIPES = (
    Recipe(
        name="nnrnn/fig2",
        summary="Copying (T=200) and permuted MNIST with as many units: expRNN and LSTM.",
        rows=(
            *_copying("figure 2, left", (128, 10_697), (128, 72_841, 5e-4)),
            *_pixels("figure 2, right", (512, 136_970, 0.96), (512, 1_059_850, 0.905)),
        ),
        source=f"{_SOURCE}, section 4.2, tables 2 and 3 and figure 2",
        seeds=(0, 1, 2),
        departures=("six seeds for copying in the paper, here as many as for MNIST, three",),
    ),
    Recipe(
        name="nnrnn/fig4",
        summary="Copying (T=200) and permuted MNIST with as many parameters: expRNN and LSTM.",
        rows=(
            *_copying("figure 4, left", (176, 18_929), (63, 19_476, 1e-3)),
            *_pixels("figure 4, right", (722, 268_955, 0.965), (257, 269_860, 0.89)),
        ),
        source=f"{_SOURCE}, appendix A, tables 2 and 3 and figure 4",
        seeds=(0, 1, 2),
        departures=("six seeds for copying in the paper, here as many as for MNIST, three",),
    ),
)
"""The rows of expRNN and the LSTM in both figures of copying and permuted MNIST."""
