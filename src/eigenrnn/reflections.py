"""Products of Householder reflections, of which each leaves one coordinate more alone."""

import torch
from torch import Tensor

from eigenrnn.linalg import check_finite, tol

__all__ = ["normalise_", "reflection_count", "reflection_product", "reflectors", "upper_rows"]


def reflection_count(
    m: int,
    n: int,
) -> int:
    r"""Return the number :math:`m n - m (m - 1) / 2` of free entries of m vectors."""
    return m * n - m * (m - 1) // 2


def upper_rows(
    raw: Tensor,  # (m N - m (m - 1) / 2,)
    m: int,
    n: int,
) -> Tensor:  # (m, N)
    """Matrix whose row k holds the next numbers of `raw` from the diagonal on, after zeros."""
    rows, columns = torch.triu_indices(m, n, device=raw.device)
    return raw.new_zeros(m * n).index_put((rows * n + columns,), raw).view(m, n)


@torch.no_grad()
def normalise_(
    raw: Tensor,  # (m N - m (m - 1) / 2,)
    m: int,
    n: int,
) -> Tensor:  # (m N - m (m - 1) / 2,)
    """Scale the rows of `upper_rows` to length one, in place; a vector of zeros stays."""
    rows, _ = torch.triu_indices(m, n, device=raw.device)
    length = torch.linalg.vector_norm(upper_rows(raw, m, n), dim=1)
    return raw.div_(torch.where(length > 0, length, 1)[rows])


def reflection_product(
    V: Tensor,  # (m, N)
    projected: bool = True,
) -> Tensor:  # (N, N)
    r"""Product of the reflections in the rows of V, the first leftmost.

    .. math:: H_1 \cdots H_m = I - V^\top S^{-1} V, \qquad H_k = I - 2 v_k v_k^\top / v_k^\top v_k,
        \qquad S_{kk} = v_k^\top v_k / 2, \quad S_{kl} = v_k^\top v_l \text{ for } k < l

    The compact WY form: one triangular solve and two products in place of m steps. Where the
    gradient is not `projected`, it takes the lengths :math:`v_k^\top v_k` for constants.

    Source:
        Schreiber and Van Loan, SIAM J. Sci. Stat. Comput. 10, 1989.
        https://doi.org/10.1137/0910005; S by Joffrain et al., ACM Trans. Math. Softw. 32, 2006.
        https://doi.org/10.1145/1141885.1141886 (departures: none).
    """
    # lengths do not matter, so powers of two bring them where no square over- or underflows
    largest = V.detach().abs().amax(1, keepdim=True).clamp(min=torch.finfo(V.dtype).tiny)
    scaled = V / torch.exp2(torch.log2(largest).floor())
    gram = scaled @ scaled.T
    squares = gram.diagonal() if projected else gram.diagonal().detach()
    S = gram.triu(1) + torch.diag(squares / 2)
    I = torch.eye(V.shape[1], dtype=V.dtype, device=V.device)
    return I - scaled.T @ torch.linalg.solve_triangular(S, scaled, upper=True)


def reflectors(
    Q: Tensor,  # (N, N)
    m: int,
) -> tuple[Tensor, float]:  # (m, N)
    r"""Unit vectors of m < N reflections whose product is Q but for the sign of its last column.

    .. math:: Q = H_1 \cdots H_m \operatorname{diag}(1, \dots, 1, \pm 1)

    The k-th vector is zero before coordinate k. For m = N - 1 there are such vectors for every
    orthogonal Q; for fewer they exist, with the sign 1, if and only if
    :math:`\operatorname{rank}(I - Q) \le m` and :math:`\det Q = (-1)^m`, and the product of what
    is returned is another matrix otherwise. All work is done in double precision on the CPU.

    Returns:
        The vectors and the sign.
    """
    n = Q.shape[0]
    exact = Q.detach().cpu().double()
    check_finite(exact, "Q")
    if m == n - 1:
        V, rest = _eliminate(exact, m)
        return V, 1.0 if rest[-1, -1] >= 0 else -1.0
    # all happens in the range of I - Q; in a basis whose upper rows are lower triangular, a
    # vector that is zero before coordinate k of the range is zero before coordinate k of all
    basis = torch.linalg.svd(torch.eye(n).to(exact) - exact)[0][:, :m]
    basis = basis @ torch.linalg.qr(basis[:m].T)[0]
    inner, _ = _eliminate(basis.T @ exact @ basis, m)
    return (inner @ basis.T).triu(), 1.0


def _eliminate(
    Q: Tensor,  # (N, N)
    m: int,
) -> tuple[Tensor, Tensor]:  # (m, N), (N, N)
    """Turn one column after the other of Q into that of the identity, and return what is left."""
    left, _, right = torch.linalg.svd(Q)
    rest = left @ right  # free of the rounding of Q
    V = rest.new_zeros(m, len(Q))
    for k in range(m):
        V[k] = _next_reflector(rest, k)
        rest -= 2 * torch.outer(V[k], V[k] @ rest)
    return V, rest


def _next_reflector(
    Q: Tensor,  # (N, N)
    k: int,
) -> Tensor:  # (N,)
    """Return the unit vector that mends the first column which is not that of the identity."""
    block = Q[k:, k:]
    length = torch.linalg.vector_norm(block - torch.eye(len(block)).to(Q), dim=0)
    wrong = length > tol(Q.dtype, len(Q))
    v = Q.new_zeros(len(Q))
    if wrong.any():
        j = int(wrong.int().argmax())
        x_j = float(block[j, j])
        v[k:] = block[:, j]
        v[k + j] = 0
        # x_j - 1, without the cancellation where x is nearly e_j
        v[k + j] = x_j - 1 if x_j < 0 else -v.square().sum() / (1 + x_j)
        v /= v.norm()
    else:  # nothing is left to do: such reflections undo one another by pairs
        v[-1] = 1
    return v
