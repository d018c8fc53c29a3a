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
    log_decay: Tensor  # (chunks, B, H, n)


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

    # between[t, s] is the product of the decays after reflection s up to reflection t. It comes
    # from differences of logarithms in double precision: all are <= 0, and large ones do not
    # round off small ones.
    total = parts.log_decay.double().cumsum(-1)  # of each step since the chunk began
    by_reflection = total.repeat_interleave(R, dim=-1)
    # In the symbols of README.md: gamma_ts (between, to_output), gamma_t (since, query_decay),
    # gamma_Ct (until) and gamma_C (whole).
    dtype = k.dtype
    between = _ratios(by_reflection, by_reflection, 1, dtype)
    to_output = _ratios(total, by_reflection, R, dtype)
    since = by_reflection.exp().to(dtype).unsqueeze(-1)
    until = (by_reflection[..., -1:] - by_reflection).exp().to(dtype).unsqueeze(-1)
    whole = total[..., -1].exp().to(dtype)[..., None, None]
    query_decay = total.exp().to(dtype).unsqueeze(-1)

    # The triangular system of README.md for the changes u of all chunks at once: solved for v and
    # for k separately, as the state S before a chunk, in u = U - W S, is not known yet.
    A = (beta * (k @ k.mT) * between).tril(-1)
    I = torch.eye(C, dtype=dtype, device=k.device)
    right = torch.cat([beta * parts.v, beta * since * k], dim=-1)
    solved = torch.linalg.solve_triangular(I + A, right, upper=False, unitriangular=True)
    V = parts.v.shape[-1]
    U = solved[..., :V].unbind()
    W = solved[..., V:].unbind()
    scores = ((parts.q @ k.mT) * to_output).unbind()
    queries = (query_decay * parts.q).unbind()
    keys = (until * k).mT.unbind()
    wholes = whole.unbind()

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
    T, B, H = operands.beta.shape[:3]
    q, k, v, beta, log_decay, _ = in_order(operands, options)
    if log_decay is None:
        log_decay = beta.new_zeros(T, B, H)
    chunks: list[Tensor] = []
    for tensor in (q, k, v, beta, log_decay):
        rows = F.pad(tensor.flatten(2), (0, 0, 0, 0, 0, -T % steps))
        parted = rows.unflatten(0, (-1, steps)).unflatten(-1, tensor.shape[2:])
        # (chunks, steps, B, H, ...) to (chunks, B, H, steps, ...)
        chunks.append(parted.movedim(1, 3))
    q, k, v, beta, log_decay = chunks
    return _Chunks(q, k.flatten(3, 4), v.flatten(3, 4), beta.flatten(3, 4), log_decay)


def _ratios(
    later: Tensor,  # (chunks, B, H, m), logarithms of products
    earlier: Tensor,  # (chunks, B, H, C)
    R: int,
    dtype: torch.dtype,
) -> Tensor:  # (chunks, B, H, m, C)
    """Return the product of decays from each reflection to each row of R; zero before it."""
    rows = torch.arange(later.shape[-1], device=later.device)
    columns = torch.arange(earlier.shape[-1], device=earlier.device)
    before = columns >= R * (rows.unsqueeze(1) + 1)
    differences = later.unsqueeze(-1) - earlier.unsqueeze(-2)
    return differences.masked_fill(before, -torch.inf).exp().to(dtype)


class DeltaChunk(Backend):
    """Chunks of steps in products of matrices."""

    name = "chunk"
    description = "batched products of torch and a triangular solve, any device"
    dtypes = REAL

    def run(self, operands: DeltaOperands, options: DeltaOptions) -> tuple[Tensor, Tensor]:
        o, S_n = delta_chunk(to_float32(operands), options)
        return o.to(operands.q.dtype), S_n
