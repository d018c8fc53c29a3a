"""Torch's own recurrent layers, with the initialisations that papers use for baselines."""

import math
from typing import Literal, TypedDict, Unpack

import torch
from torch import Generator, nn

from eigenrnn.init import uniform_
from eigenrnn.layers import Layer

__all__ = ["TanhRNN", "TorchGRU", "TorchLSTM"]


class TorchOptions(TypedDict, total=False):
    """Options of `torch.nn.LSTM` and its relatives."""

    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int
    device: torch.device | str | None
    dtype: torch.dtype | None


class _FromGenerator(Layer):
    """Constructs one of torch's recurrent layers, and draws its weights from a generator."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        generator: Generator | None = None,
        **options: Unpack[TorchOptions],
    ) -> None:
        # torch's constructor draws from the global generator, which a given one leaves alone
        with torch.random.fork_rng(devices=(), enabled=generator is not None):
            super().__init__(input_size, hidden_size, num_layers, **options)
        if generator is None:  # torch's constructor has drawn from the global one
            return
        # torch's own distribution of all weights and biases
        for weight in self.parameters():
            uniform_(weight, 1 / math.sqrt(hidden_size), generator=generator)


class TorchLSTM(_FromGenerator, nn.LSTM):
    r"""Long short-term memory: `torch.nn.LSTM` with a choice of initialisation.

    .. math:: c_t = f_t \odot c_{t-1} + i_t \odot g_t, \qquad h_t = o_t \odot \tanh(c_t)

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        num_layers: The number of stacked layers.
        forget_bias: Added to the bias of the forget gate at initialisation.
        init: The initialisation. ``"torch"`` draws every weight from
            :math:`U(-1/\sqrt N, 1/\sqrt N)`. ``"glorot"`` draws the matrices of all gates as one
            Glorot uniform kernel and sets the biases to zero, as TensorFlow 1 does.
            ``"glorot_normal"`` draws the matrices of each gate separately from a normal
            distribution and keeps torch's biases, as the authors of nnRNN do.
        generator: The generator that draws the weights; torch's global one by default.
        options: Further keyword arguments of `torch.nn.LSTM`.
    Raises:
        ValueError: If `init` is unknown.
    Source:
        Hochreiter and Schmidhuber, Neural Computation 9, 1997.
        https://doi.org/10.1162/neco.1997.9.8.1735 (departures: a forget gate, as in
        `torch.nn.LSTM`).
    Example:
        >>> TorchLSTM(2, 8, forget_bias=1.0)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        forget_bias: float = 0.0,
        init: Literal["torch", "glorot", "glorot_normal"] = "torch",
        generator: Generator | None = None,
        **options: Unpack[TorchOptions],
    ) -> None:
        if init not in ("torch", "glorot", "glorot_normal"):
            raise ValueError(
                f"expected init to be 'torch', 'glorot' or 'glorot_normal', got {init!r}"
            )
        super().__init__(input_size, hidden_size, num_layers, generator=generator, **options)
        if init == "glorot":
            _glorot_kernel(self, generator)
        if init == "glorot_normal":
            _glorot_gates(self, generator)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                # torch adds bias_hh to bias_ih, so one of them is enough; the order is i, f, g, o
                if name.startswith("bias_ih"):
                    weight[hidden_size : 2 * hidden_size] += forget_bias


class TorchGRU(_FromGenerator, nn.GRU):
    r"""Gated recurrent unit: `torch.nn.GRU` initialised from a generator.

    .. math:: h_t = (1 - z_t) \odot n_t + z_t \odot h_{t-1}

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        num_layers: The number of stacked layers.
        generator: The generator that draws the weights; torch's global one by default.
        options: Further keyword arguments of `torch.nn.GRU`.
    Source:
        Cho et al., EMNLP 2014. https://arxiv.org/abs/1406.1078 (departures: the reset
        after the recurrent matrix, as in `torch.nn.GRU`).
    Example:
        >>> TorchGRU(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """


class TanhRNN(_FromGenerator, nn.RNN):
    r"""Elman RNN with tanh: `torch.nn.RNN` initialised from a generator.

    .. math:: h_t = \tanh(U x_t + b + W h_{t-1} + c)

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        num_layers: The number of stacked layers.
        generator: The generator that draws the weights; torch's global one by default.
        options: Further keyword arguments of `torch.nn.RNN`.
    Source:
        Elman, Cognitive Science 14, 1990. https://doi.org/10.1207/s15516709cog1402_1
        (departures: tanh and two biases, as in `torch.nn.RNN`).
    Example:
        >>> TanhRNN(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """


@torch.no_grad()
def _glorot_kernel(layer: nn.RNNBase, generator: Generator | None) -> None:
    """Draw the matrices of all gates as one kernel on [x, h]; set the biases to zero."""
    for ih, hh, *biases in layer.all_weights:
        fan_in = ih.shape[1] + hh.shape[1]
        # as one kernel has the outputs of all gates, the fan out is G N
        bound = math.sqrt(6 / (fan_in + ih.shape[0]))
        for weight in (ih, hh):
            uniform_(weight, bound, generator=generator)
        for bias in biases:
            nn.init.zeros_(bias)


@torch.no_grad()
def _glorot_gates(layer: nn.RNNBase, generator: Generator | None) -> None:
    """Draw the matrices of each gate on [x, h] separately; keep the biases."""
    for ih, hh, *_ in layer.all_weights:
        fan_in = ih.shape[1] + hh.shape[1]
        # the kernel of one gate has N outputs
        deviation = math.sqrt(2 / (fan_in + layer.hidden_size))
        for weight in (ih, hh):
            weight.normal_(0, deviation, generator=generator)
