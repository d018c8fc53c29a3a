"""The public LSTM: checks the arguments and calls a backend."""

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from eigenrnn.ops.arguments import (
    check_flags,
    with_resets,
)
from eigenrnn.ops.dispatch import REAL, Backend, Reference
from eigenrnn.ops.entry import Entry
from eigenrnn.ops.lstm.cpu import LSTMCPU, lstm_cpu
from eigenrnn.ops.lstm.reference import LSTM, LSTMOperands, LSTMOptions
from eigenrnn.ops.operators import PlannedCall
from eigenrnn.ops.precision import products_of_float32
from eigenrnn.ops.torch_rnn import TorchBackend

__all__ = ["BACKENDS", "lstm"]

BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        LSTMCPU(),
        TorchBackend(LSTM),
        Reference(LSTM, REAL),
    )
}
"""The backends by name, in order of preference."""


def lstm(
    x: Tensor,  # (T, B, 4 N) or (T, B, M)
    W: Tensor,  # (4 N, N)
    h0: Tensor | None = None,  # (B, N)
    c0: Tensor | None = None,  # (B, N)
    *,
    U: Tensor | None = None,  # (4 N, M)
    c: Tensor | None = None,  # (4 N,)
    resets: Tensor | None = None,  # (T, B)
    batch_sizes: Sequence[int] | None = None,
    reverse: bool = False,
    last_only: bool = False,
    backend: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (B, N)
    r"""Evaluate a long short-term memory over a batch of sequences.

    .. math::
        i_t &= \sigma(x^i_t + h_{t-1} W_i^\top), \qquad
        f_t = \sigma(x^f_t + h_{t-1} W_f^\top), \qquad
        o_t = \sigma(x^o_t + h_{t-1} W_o^\top) \\
        g_t &= \tanh(x^g_t + h_{t-1} W_g^\top), \qquad
        c_t = f_t \odot c_{t-1} + i_t \odot g_t, \qquad h_t = o_t \odot \tanh(c_t)

    These are the equations of `torch.nn.LSTM`, with its order i, f, g, o of the gates. Under
    autocast W and the state that goes on stay in float32, because rounding errors would accumulate
    over T: x is rounded to the dtype of autocast, all states are returned and saved in it, and the
    last ones stay in float32. On CPUs with AMX, what is multiplied is rounded, see the page on
    precision.

    Args:
        x: The inputs. Without U they are already mapped to the four gates; with U the mapped
            inputs need not be stored.
        W: The recurrent matrices of the input gate, the forget gate, the cell and the output
            gate, stacked.
        h0: The initial state; zero by default.
        c0: The initial cell; zero by default.
        U: The input maps of the four gates, stacked like W.
        c: The bias of the input map.
        resets: Before which steps state and cell of a sequence become zero; none by default.
        batch_sizes: The number of sequences at each step, sorted by descending length, as in
            `torch.nn.utils.rnn.PackedSequence`; the whole batch by default. States past the end
            of a sequence are zero.
        reverse: Whether to run from each sequence's last step to its first.
        last_only: Whether only the last states are needed. Without gradients, a backend that
            supports it then stores and returns no others.
        backend: The name of the backend; the fastest that supports the call by default.
    Shape:
        x: :math:`(T, B, 4 N)`, or :math:`(T, B, M)` with U; real, any strides.
        W: :math:`(4 N, N)`, the dtype of x.
        h0: :math:`(B, N)`, the dtype of x.
        c0: :math:`(B, N)`, the dtype of x.
        U: :math:`(4 N, M)`, c: :math:`(4 N,)`, the dtype of x.
        resets: :math:`(T, B)`, bool.
    Returns:
        The states of all steps, :math:`(T, B, N)`, and the last state and the last cell of each
        sequence, both :math:`(B, N)`. In reverse these are those of the first time step.
    Raises:
        ValueError: If a shape, the number of steps or the backend is wrong.
        TypeError: If a tensor is complex, or the dtypes of the tensors differ.
    Source:
        Hochreiter and Schmidhuber, Neural Computation 9, 1997.
        https://doi.org/10.1162/neco.1997.9.8.1735 (departures: the forget gate of Gers,
        Schmidhuber and Cummins, Neural Computation 12, 2000,
        https://doi.org/10.1162/089976600300015015, and gradients through all steps).
    Example:
        >>> h, last, cell = lstm(torch.zeros(3, 2, 4), torch.zeros(4, 1), c0=torch.ones(2, 1))
        >>> cell
        tensor([[0.1250],
                [0.1250]])
    """
    operands = LSTMOperands(x=x, W=W, h0=cast("Tensor", h0), c0=cast("Tensor", c0), U=U, c=c)
    options = LSTMOptions(
        batch_sizes=batch_sizes,
        reverse=reverse,
        last_only=last_only,
        products=products_of_float32(W),
    )
    planned: PlannedCall | None = None
    if resets is None and backend is None:
        planned = lstm_cpu.plan(operands, options)
    if planned is None:
        check_flags(reverse=reverse, last_only=last_only)
        LSTM.check_tensors(operands)
        LSTM.check_shapes(operands)
        operands = with_resets(operands, resets)
    return _ENTRY(operands, options, backend, planned)


_ENTRY = Entry(LSTM, BACKENDS, operator=lstm_cpu, nonlinearity="tanh")
