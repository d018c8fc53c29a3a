"""Cells for loops of your own: one time step of `RNN`, `GRU` and `LSTM`."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from eigenrnn.layers import torch_weights
from eigenrnn.layers.gru import GRU
from eigenrnn.layers.lstm import LSTM
from eigenrnn.layers.rnn import RNN
from eigenrnn.layers.stacked import Stacked
from eigenrnn.tracing import check_dense

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]


class AbstractCell(nn.Module):
    """One time step of a layer, whose weights and methods are in `layer`.

    The sizes and methods of torch's cells have the same names here, and the weights are those of
    the layer, such as ``cell.layer.weight_hh_l0``. `load_state_dict` also takes the state of a
    torch cell.
    """

    def __init__(self, layer: Stacked[Any]) -> None:
        super().__init__()
        # a state of torch's cell loads as one of ours does
        self.register_load_state_dict_pre_hook(torch_weights.translate_cell)
        self.layer = layer
        self.input_size = layer.input_size
        self.hidden_size = layer.hidden_size
        self.bias = layer.bias

    def reset_parameters(self) -> None:
        """Initialise all weights again."""
        self.layer.reset()

    def forward(self, input: Tensor, hx: Any = None, resets: Tensor | None = None) -> Any:
        """Return the state after one time step."""
        _, h = self.layer.step(input, _of_one_layer(hx), resets)
        return h.squeeze(0)

    @contextmanager
    def evaluated_once(self) -> Generator[None]:
        """Evaluate the constraints once for all calls inside the block, with gradients.

        The weights must not change inside the block.
        """
        # one layer in one direction, so the matrices of a single direction are all there are
        (direction,) = self.layer.all_directions()
        before = direction.frozen
        direction.frozen = direction.weight_hh  # with its graph, unlike `freeze`
        try:
            yield
        finally:
            direction.frozen = before


class RNNCell(AbstractCell):
    r"""One time step of `RNN`, as `torch.nn.RNNCell`.

    .. math:: h' = f(U x + c + W h), \qquad W \in \mathcal S

    Every call evaluates W. In a loop over a sequence, evaluate it once:
    ``with cell.evaluated_once(): ...``, or ``cell.layer.freeze()`` if no gradient is needed.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        bias: Whether there is a bias, as in `RNN`.
        nonlinearity: The name of f, as in `RNN`.
        device: The device of the weights.
        dtype: The dtype of the weights; constraints stay in float32 or better.
        options: Further keyword arguments of `RNN`, such as `constraint`.
    Shape:
        input: :math:`(B, M)` or :math:`(M,)`.
        hx: :math:`(B, N)` or :math:`(N,)`; zero by default.
        resets: :math:`(B,)` or :math:`()`, bool: the sequences that begin anew, as in `RNN.step`.
        h: as hx.
    Source:
        Elman, Cognitive Science 14, 1990. https://doi.org/10.1207/s15516709cog1402_1
        (departures: see `RNN`).
    Example:
        >>> cell, h = RNNCell(2, 8), torch.zeros(3, 8)
        >>> with cell.evaluated_once():
        ...     for x_t in torch.randn(5, 3, 2):
        ...         h = cell(x_t, h)
        >>> h.shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "modrelu",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        options |= {"bias": bias, "device": device, "dtype": dtype}
        super().__init__(RNN(input_size, hidden_size, nonlinearity=nonlinearity, **options))
        self.nonlinearity = nonlinearity


class GatedCell(AbstractCell):
    """One time step of a gated layer."""

    make_layer: ClassVar[Callable[..., Stacked[Any]]]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        options |= {"bias": bias, "device": device, "dtype": dtype}
        super().__init__(self.make_layer(input_size, hidden_size, **options))


class GRUCell(GatedCell):
    r"""One time step of `GRU`, as `torch.nn.GRUCell`.

    .. math:: h' = u \odot h + (1 - u) \odot f(U_c x + b_c + r \odot (W_c h + b))

    r and u are the gates of `GRU`. Every call evaluates the recurrent matrices. In a loop over a
    sequence, evaluate them once: ``with cell.evaluated_once(): ...``, or ``cell.layer.freeze()``
    if no gradient is needed.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        bias: Whether there are biases, as in `GRU`.
        device: The device of the weights.
        dtype: The dtype of the weights; constraints stay in float32 or better.
        options: Further keyword arguments of `GRU`, such as `constraint` and `candidate`.
    Shape:
        input: :math:`(B, M)` or :math:`(M,)`.
        hx: :math:`(B, N)` or :math:`(N,)`; zero by default.
        resets: :math:`(B,)` or :math:`()`, bool: the sequences that begin anew, as in `RNN.step`.
        h: as hx.
    Source:
        Cho et al., EMNLP 2014. https://arxiv.org/abs/1406.1078 (departures: see `GRU`).
    Example:
        >>> GRUCell(2, 8, candidate=ScaledCayley)(torch.randn(3, 2)).shape
        torch.Size([3, 8])
    """

    make_layer = GRU


class LSTMCell(GatedCell):
    r"""One time step of `LSTM`, as `torch.nn.LSTMCell`.

    .. math:: c' = f \odot c + i \odot g, \qquad h' = o \odot \tanh(c')

    i, f, g and o are the gates of `LSTM`. Every call evaluates the recurrent matrices. In a loop
    over a sequence, evaluate them once: ``with cell.evaluated_once(): ...``, or
    ``cell.layer.freeze()`` if no gradient is needed.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        bias: Whether there is a bias, as in `LSTM`.
        device: The device of the weights.
        dtype: The dtype of the weights; constraints stay in float32 or better.
        options: Further keyword arguments of `LSTM`, such as `constraint` and `forget`.
    Shape:
        input: :math:`(B, M)` or :math:`(M,)`.
        hx: a pair (h, c), each :math:`(B, N)` or :math:`(N,)`; zero by default.
        resets: :math:`(B,)` or :math:`()`, bool: the sequences that begin anew, as in `RNN.step`.
        h, c: as those of hx.
    Source:
        Hochreiter and Schmidhuber, Neural Computation 9, 1997.
        https://doi.org/10.1162/neco.1997.9.8.1735 (departures: see `LSTM`).
    Example:
        >>> h, c = LSTMCell(2, 8, constraint=ScaledCayley)(torch.randn(3, 2))
        >>> h.shape, c.shape
        (torch.Size([3, 8]), torch.Size([3, 8]))
    """

    make_layer = LSTM

    def forward(
        self,
        input: Tensor,
        hx: tuple[Tensor, Tensor] | None = None,
        resets: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the state and the cell after one time step."""
        states: object = hx  # `step` rejects what is no pair
        if isinstance(hx, tuple | list):
            states = tuple(map(_of_one_layer, hx))
        _, (h, c) = self.layer.step(input, cast("Any", states), resets)
        return h.squeeze(0), c.squeeze(0)


def _of_one_layer(state: Any) -> Any:
    """Return a state with an axis of layers; `step` rejects what is no tensor.

    Raises:
        TypeError: If it is not a dense tensor.
        ValueError: If it has no memory.
    """
    if not isinstance(state, Tensor):
        return state
    check_dense({"hx": state})
    return state.unsqueeze(0)
