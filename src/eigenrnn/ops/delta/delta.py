"""The public delta rule: checks the arguments and calls a backend."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from eigenrnn.ops.arguments import check_flags
from eigenrnn.ops.delta.chunk import DeltaChunk
from eigenrnn.ops.delta.cpu import DeltaCPU
from eigenrnn.ops.delta.reference import DELTA, DeltaOperands, DeltaOptions, check_values
from eigenrnn.ops.dispatch import REAL, Backend, Reference
from eigenrnn.ops.entry import Entry
from eigenrnn.ops.exporting import export_steps
from eigenrnn.tracing import needs_no_dispatcher

__all__ = ["BACKENDS", "delta"]


BACKENDS: dict[str, Backend] = {
    backend.name: backend for backend in (DeltaCPU(), DeltaChunk(), Reference(DELTA, REAL))
}
"""The backends by name, in order of preference."""


def delta(
    q: Tensor,  # (T, B, H, K)
    k: Tensor,  # (T, B, H, R, K)
    v: Tensor,  # (T, B, H, R, V)
    beta: Tensor,  # (T, B, H, R)
    log_decay: Tensor | None = None,  # (T, B, H)
    S0: Tensor | None = None,  # (B, H, K, V)
    *,
    batch_sizes: Sequence[int] | None = None,
    reverse: bool = False,
    last_only: bool = False,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:  # (T, B, H, V), (B, H, K, V)
    r"""Evaluate the delta rule of H heads over a batch of sequences.

    .. math::
        S_{t,0} = a_t S_{t-1}, \qquad
        S_{t,j} = (I - \beta_{t,j} k_{t,j} k_{t,j}^\top) S_{t,j-1}
        + \beta_{t,j} k_{t,j} v_{t,j}^\top, \quad j = 1, \dots, R, \qquad
        S_t = S_{t,R}, \quad o_t = S_t^\top q_t

    The input chooses the spectrum of the transition at every step. Each factor has the eigenvalue
    :math:`1 - \beta` in the direction of its key, and 1 in all others. At :math:`\beta = 2` it is
    a reflection, and a product of two is a rotation. With unit keys and :math:`\beta` in
    :math:`[0, 2]` no transition expands a state. Queries are not scaled.

    Args:
        q: The queries.
        k: The keys, unit vectors; shorter ones, also zero, are allowed. Keys rounded to 16 bits
            may be longer, and reflections with them then expand the state.
        v: The values.
        beta: The strengths :math:`\beta`, between 0 and 2.
        log_decay: The logarithms of the decays a, at most 0; -inf forgets the state. No decay by
            default.
        S0: The initial state; zero by default.
        batch_sizes: The number of sequences at each step, sorted by descending length, as in
            `torch.nn.utils.rnn.PackedSequence`; the whole batch by default. Outputs past the end
            of a sequence are zero.
        reverse: Whether to run from each sequence's last step to its first. The reflections of a
            step keep their order.
        last_only: Whether only the last states are needed. Without gradients, a backend that
            supports it then computes and returns no outputs.
        backend: The name of the backend; the fastest that supports the call by default.
    Shape:
        q: :math:`(T, B, H, K)`, real.
        k: :math:`(T, B, H, R, K)`, the dtype of q.
        v: :math:`(T, B, H, R, V)`, the dtype of q.
        beta: :math:`(T, B, H, R)`, the dtype of q.
        log_decay: :math:`(T, B, H)`, the dtype of q, or float32 if q has 16 bits.
        S0: :math:`(B, H, K, V)`, the same dtype as log_decay.
    Returns:
        The outputs of all steps, :math:`(T, B, H, V)`, of the dtype of q, float32 under autocast,
        and the last state of each sequence, :math:`(B, H, K, V)`, of the dtype of S0. In reverse
        the last state is that of the first time step.
    Raises:
        ValueError: If a shape, the number of steps or reflections, or the backend is wrong, or if
            a strength, a decay or a key of the first step lies outside its interval. Values are
            checked in calls on the CPU that nothing traces or transforms.
        TypeError: If the dtypes of the tensors do not fit, or no backend supports them.
    Source:
        Schlag, Irie and Schmidhuber, ICML 2021, section 4; the decay of Yang et al., ICLR 2025,
        equation 10, https://arxiv.org/abs/2412.06464; R reflections of Siems et al., NeurIPS 2025,
        https://arxiv.org/abs/2502.10297 (departures: the caller normalises keys and scales
        queries).
    Example:
        >>> k = torch.tensor([1.0, 0.0]).expand(3, 1, 1, 1, 2)
        >>> v = torch.tensor([[1.0], [2.0], [3.0]]).view(3, 1, 1, 1, 1)
        >>> o, S = delta(k[..., 0, :], k, v, torch.full((3, 1, 1, 1), 0.5))
        >>> o.flatten()
        tensor([0.5000, 1.2500, 2.1250])
    """
    check_flags(reverse=reverse, last_only=last_only)
    operands = DeltaOperands(q, k, v, beta, log_decay, cast("Tensor", S0))
    DELTA.check_tensors(operands)
    DELTA.check_shapes(operands)
    return _ENTRY(operands, DeltaOptions(batch_sizes, reverse, last_only), backend)


def _check(operands: DeltaOperands, options: DeltaOptions) -> DeltaOperands:
    # reading values would wait for a GPU, and the tensors of tracers have none
    if operands.q.device.type == "cpu" and needs_no_dispatcher(operands):
        check_values(operands, options.batch_sizes)
    return operands


def _export(
    operands: DeltaOperands, options: DeltaOptions, lengths: Tensor | None
) -> tuple[Tensor, ...]:  # (T, B, H, V), (B, H, K, V)
    """Record the delta rule as a scan of steps.

    Args:
        operands: The tensors of the call.
        options: Its options, without batch sizes.
        lengths: The number of time steps of each sequence, in any order; all by default.

    Raises:
        ValueError: If the number of sequences is free, and that of the example is one.
    """
    # torch's tracer takes a size of one for a constant in a product with a number, as in q and
    # beta; the program would then fail for two sequences
    if isinstance(operands.v.shape[1], torch.SymInt) and operands.beta.shape[1] == 1:
        raise ValueError(
            "expected an example of two sequences or more where their number is free, got one"
        )
    return export_steps(DELTA, operands, options, lengths)


_ENTRY = Entry(DELTA, BACKENDS, check=_check, export=_export)
