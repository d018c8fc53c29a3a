"""The delta rule in torch operations, in chunks of steps; README.md has the derivation."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops.arguments import to_float32
from eigenrnn.ops.delta.operands import DeltaOperands, DeltaOptions, in_order
from eigenrnn.ops.dispatch import REAL, Backend

__all__ = ["DeltaChunk", "delta_chunk"]

LENGTH = 64
"""The most reflections in a chunk of whole steps; a step with more is a chunk by itself."""


class _Chunks(NamedTuple):
    """The operands in chunks of C reflections, in the n = C / R steps that they belong to.

    The first axis counts the chunks.
    """

    q: Tensor  # (chunks, B, H, n, K)
    k: Tensor  # (chunks, B, H, C, K)
    v: Tensor  # (chunks, B, H, C, V)
    beta: Tensor  # (chunks, B, H, C)
    log_decay: Tensor | None  # (chunks, B, H, n)


class _Decays(NamedTuple):
    """Products of decays within each chunk, in the symbols of README.md.

    Their shapes broadcast against those of the chunks.
    """

    between: Tensor  # (chunks, B, H, C, C), gamma_ts from reflection to reflection
    to_output: Tensor  # (chunks, B, H, n, C), gamma_ts from reflection to step
    since: Tensor  # (chunks, B, H, C, 1), gamma_t of a reflection
    until: Tensor  # (chunks, B, H, C, 1), gamma_Ct
    whole: Tensor  # (chunks, B, H, 1, 1), gamma_C
    query: Tensor  # (chunks, B, H, n, 1), gamma_t of a step


def delta_chunk(
    operands: DeltaOperands, options: DeltaOptions
) -> tuple[Tensor, Tensor]:  # (T, B, H, V), (B, H, K, V)
    """Evaluate the delta rule with products of matrices, a chunk of steps after the other."""
    T = operands.k.shape[0]
    R = operands.k.shape[3]
    steps = max(1, LENGTH // R)
    parts = _in_chunks(operands, options, steps)
    k = parts.k
    beta = parts.beta.unsqueeze(-1)
    C = k.shape[3]
    if parts.log_decay is None:
        decays = _no_decays(k, steps, R)
    else:
        decays = _decays(parts.log_decay, R, k.dtype)

    # The triangular system of README.md for the changes u of all chunks at once: solved for v and
    # for k separately, as the state S before a chunk, in u = U - W S, is not known yet.
    A = (beta * (k @ k.mT) * decays.between).tril(-1)
    I = torch.eye(C, dtype=k.dtype, device=k.device)
    right = torch.cat([beta * parts.v, beta * decays.since * k], dim=-1)
    solved = torch.linalg.solve_triangular(I + A, right, upper=False, unitriangular=True)
    V = parts.v.shape[-1]
    U = solved[..., :V].unbind()
    W = solved[..., V:].unbind()
    scores = ((parts.q @ k.mT) * decays.to_output).unbind()
    queries = (decays.query * parts.q).unbind()
    keys = (decays.until * k).mT.unbind()
    wholes = decays.whole.unbind()

    # one chunk after another, each from the state that the one before it leaves
    state = operands.S0
    outputs: list[Tensor] = []
    for i in range(len(U)):
        change = U[i] - W[i] @ state
        outputs.append(queries[i] @ state + scores[i] @ change)
        state = wholes[i] * state + keys[i] @ change
    o = torch.stack(outputs)  # (chunks, B, H, n, V)
    o = o.permute(0, 3, 1, 2, 4).flatten(0, 1)[:T]
    if options.reverse:  # `in_order` has turned the inputs round
        o = o.flip(0)
    return o, state


def _in_chunks(operands: DeltaOperands, options: DeltaOptions, steps: int) -> _Chunks:
    """Return the operands in chunks, in the order of the recurrence; the last is filled up."""
    T = operands.beta.shape[0]

    def parted(tensor: Tensor) -> Tensor:
        """Return (T, B, H, ...) as (chunks, B, H, steps, ...)."""
        rows = F.pad(tensor.flatten(2), (0, 0, 0, 0, 0, -T % steps))
        chunks = rows.unflatten(0, (-1, steps)).unflatten(-1, tensor.shape[2:])
        return chunks.movedim(1, 3)

    q, k, v, beta, log_decay, _ = in_order(operands, options)
    return _Chunks(
        parted(q),
        parted(k).flatten(3, 4),
        parted(v).flatten(3, 4),
        parted(beta).flatten(3, 4),
        None if log_decay is None else parted(log_decay),
    )


def _decays(
    log_decay: Tensor,  # (chunks, B, H, n)
    R: int,
    dtype: torch.dtype,
) -> _Decays:
    """Return the products of the decays of every chunk."""
    # Products come from differences of logarithms in double precision: all are <= 0, and large
    # ones do not round off small ones.
    total = log_decay.double().cumsum(-1)  # of each step since the chunk began
    by_reflection = total.repeat_interleave(R, dim=-1)
    return _Decays(
        between=_ratios(by_reflection, by_reflection, 1, dtype),
        to_output=_ratios(total, by_reflection, R, dtype),
        since=by_reflection.exp().to(dtype).unsqueeze(-1),
        until=(by_reflection[..., -1:] - by_reflection).exp().to(dtype).unsqueeze(-1),
        whole=total[..., -1].exp().to(dtype)[..., None, None],
        query=total.exp().to(dtype).unsqueeze(-1),
    )


def _no_decays(
    k: Tensor,  # (chunks, B, H, C, K)
    steps: int,
    R: int,
) -> _Decays:
    """Return products of decays of one, without the work that others take."""
    C = k.shape[3]
    one = k.new_ones(k.shape[0], 1, 1, 1, 1)
    return _Decays(
        between=(~_before(C, C, 1, k.device)).to(k.dtype),
        to_output=(~_before(steps, C, R, k.device)).to(k.dtype),
        since=one,
        until=one,
        whole=one,
        query=one,
    )


def _ratios(
    later: Tensor,  # (chunks, B, H, m), logarithms of products
    earlier: Tensor,  # (chunks, B, H, C)
    R: int,
    dtype: torch.dtype,
) -> Tensor:  # (chunks, B, H, m, C)
    """Return the product of decays from each reflection to each row of R; zero before it."""
    before = _before(later.shape[-1], earlier.shape[-1], R, later.device)
    differences = later.unsqueeze(-1) - earlier.unsqueeze(-2)
    return differences.masked_fill(before, -torch.inf).exp().to(dtype)


def _before(
    rows: int,
    reflections: int,
    R: int,
    device: torch.device,
) -> Tensor:  # (rows, reflections)
    """Return whether each row, which ends after R reflections more than the last, comes first."""
    ends = R * torch.arange(1, rows + 1, device=device)
    return ends.unsqueeze(1) <= torch.arange(reflections, device=device)


class DeltaChunk(Backend):
    """Chunks of steps in products of matrices."""

    name = "chunk"
    description = "batched products of torch and a triangular solve, any device"
    dtypes = REAL

    def run(self, operands: DeltaOperands, options: DeltaOptions) -> tuple[Tensor, Tensor]:
        o, S_n = delta_chunk(to_float32(operands), options)
        return o.to(operands.q.dtype), S_n
