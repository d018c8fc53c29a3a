"""The delta rule in torch operations, in chunks of steps; README.md has the derivation."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops.delta.reference import DeltaOperands, DeltaOptions, in_order
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

    between: Tensor  # (chunks, B, H, C, C), gamma_ts from an earlier reflection to a later one
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
        one = k.new_ones(k.shape[0], 1, 1, 1, 1)
        to_output = k.new_ones(steps, steps).tril().repeat_interleave(R, dim=-1)
        decays = _Decays(one, to_output, since=one, until=one, whole=one, query=one)
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
    # The logarithm of a product is a sum over the steps between, in double precision. A difference
    # of two sums since the chunk began would lose the decays after a huge one, and -inf.
    n = log_decay.shape[-1]
    wide = log_decay.double()
    later = torch.ones(n, n, dtype=torch.bool, device=log_decay.device).tril(-1)
    # (step, earlier step): the terms after the earlier step
    terms = wide.unsqueeze(-1).where(later, 0)
    products = terms.cumsum(-2).exp().tril().to(dtype)
    to_output = products.repeat_interleave(R, dim=-1)
    between = to_output.repeat_interleave(R, dim=-2)
    query = wide.cumsum(-1).exp().to(dtype).unsqueeze(-1)
    return _Decays(
        between=between,
        to_output=to_output,
        since=query.repeat_interleave(R, dim=-2),
        until=between[..., -1, :].unsqueeze(-1),
        whole=query[..., -1:, :],
        query=query,
    )


class DeltaChunk(Backend):
    """Chunks of steps in products of matrices."""

    name = "chunk"
    description = "batched products of torch and a triangular solve, any device"
    dtypes = REAL
    is_transformable = True
    features = frozenset({"resets"})  # a layer writes them as decays of zero

    def run(self, operands: DeltaOperands, options: DeltaOptions) -> tuple[Tensor, Tensor]:
        return delta_chunk(operands, options)
