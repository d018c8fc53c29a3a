"""Orthonormal bases in which a matrix takes its lower Schur form, by way of its eigenvectors."""

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from eigenrnn.linalg import check_finite

__all__ = ["complex_schur_basis", "level", "real_schur_basis"]

_Defect: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


def complex_schur_basis(
    W: Tensor,  # (N, N), complex
    modulus: float | None = None,
) -> Tensor:  # (N, N)
    """Return a unitary P for which P* W P is lower triangular; blurred by close eigenvectors.

    With a `modulus`, that of the matrix next to W whose eigenvalues all have it: rounding moves
    eigenvalues much further than W, and their basis with them.
    """
    check_finite(W)
    near = W
    for _ in range(0 if modulus is None else 3):
        eigenvalues, X = torch.linalg.eig(near)
        # G_j = V_j X_j* is the gradient of the modulus of eigenvalue j; the least step for all
        V = torch.linalg.inv_ex(X)[0].mH * eigenvalues.sgn()
        if not bool(torch.isfinite(V).all()):
            break
        products = ((V.mH @ V) * (X.mH @ X).T).real
        excess = (eigenvalues.abs() - modulus).unsqueeze(1)
        steps = torch.linalg.lstsq(products, excess).solution
        near = near - (V * steps.T) @ X.mH  # Newton's method
        check_finite(near, "a matrix near W")
    Q, _ = torch.linalg.qr(torch.linalg.eig(near)[1])
    return Q.flip(1)  # the first eigenvector spans an invariant space, which is last of a lower W


def real_schur_basis(
    W: Tensor,  # (N, N), real, N even
    defect: _Defect | None = None,
) -> Tensor:  # (N, N)
    r"""Return an orthogonal P for which P^T W P is lower triangular in blocks of 2 x 2.

    A pair of eigenvalues leaves, up to a rotation or a reflection of its plane, the block

    .. math:: a I + \begin{bmatrix} 0 & h - k \\ h + k & 0 \end{bmatrix}, \qquad h, k \ge 0

    of which the eigenvalues fix :math:`a` and :math:`h^2 - k^2`. How far it is from normal, which
    is h, depends on the pairs in the blocks after it, so that the order of the pairs matters.

    Args:
        W: The matrix.
        defect: How far a block is from an allowed one, as a function of a, k and h: from the last
            block to the first, the pair is taken for which it is least. By default any order will
            do.
    """
    check_finite(W)
    eigenvalues, X = torch.linalg.eig(W)
    upper, single = eigenvalues.imag > 0, eigenvalues.imag == 0
    z, r = X[:, upper], X[:, single].real
    if defect is None:
        planes = torch.cat([torch.view_as_real(z).flatten(1), r], dim=1)
    else:
        found = _by_defect(eigenvalues[upper], z, eigenvalues[single].real, r, defect)
        planes = torch.cat(found, dim=1)
    Q, _ = torch.linalg.qr(planes)
    return Q.unflatten(1, (-1, 2)).flip(1).flatten(1)


def _by_defect(
    pairs: Tensor,  # (K,)
    z: Tensor,  # (N, K)
    reals: Tensor,  # (N - 2 K,)
    r: Tensor,  # (N, N - 2 K)
    defect: _Defect,
) -> list[Tensor]:  # (N, 2) each
    """Return the invariant planes in the order of the least defect of what is left."""
    planes: list[Tensor] = []
    while len(planes) < len(z) // 2:
        # two eigenvalues 2 s apart, or 2 s i, make h or k of s times the cotangent of an angle
        t = pairs.imag * _cotangent((z * z).sum(0).abs() / (z.abs() ** 2).sum(0))
        of_pairs = defect(pairs.real, torch.hypot(t, pairs.imag), t)
        i, j = torch.triu_indices(len(reals), len(reals), offset=1, device=r.device)
        s = (reals[i] - reals[j]).abs() / 2
        unit = r / torch.linalg.vector_norm(r, dim=0)
        t = s * _cotangent((unit.T @ unit)[i, j].abs())
        of_reals = defect((reals[i] + reals[j]) / 2, t, torch.hypot(t, s))
        best = int(torch.cat([of_pairs, of_reals]).nan_to_num(math.inf).argmin())
        if best < len(pairs):
            plane = torch.view_as_real(z[:, best])
            pairs, z = _without(pairs, best), _without(z, best)
        else:
            low, high = int(i[best - len(pairs)]), int(j[best - len(pairs)])
            plane = r[:, [low, high]]
            reals, r = (_without(_without(each, high), low) for each in (reals, r))
        Q, _ = torch.linalg.qr(plane)
        planes.append(Q)
        z, r = z - Q.to(z) @ (Q.T.to(z) @ z), r - Q @ (Q.T @ r)
    return planes


def _without(each: Tensor, k: int) -> Tensor:
    return torch.cat([each[..., :k], each[..., k + 1 :]], dim=-1)


def _cotangent(cosine: Tensor) -> Tensor:
    return cosine / (1 - cosine**2).clamp(min=0).sqrt()


def level(
    P: Tensor,  # (N, N)
    W: Tensor,  # (N, N)
    gamma: Tensor | None = None,  # (N / 2,)
) -> Tensor:  # (N, N)
    """Turn the pairs of columns of P so that the blocks' diagonals have two equal entries.

    Of the two ways to do so, `gamma` chooses that whose first row has a length closer to it.
    """
    first, second = P.unflatten(1, (-1, 2)).unbind(2)
    B = [[(u * (W @ v)).sum(0) for v in (first, second)] for u in (first, second)]
    a, d = (B[0][0] + B[1][1]) / 2, (B[0][0] - B[1][1]) / 2
    e, k = (B[1][0] + B[0][1]) / 2, (B[1][0] - B[0][1]) / 2
    h = torch.hypot(d, e)
    up = torch.ones_like(h)
    if gamma is not None:
        errors = [(torch.hypot(a, sign * h - k) - gamma).abs() for sign in (1, -1)]
        up = torch.where(errors[0] <= errors[1], 1.0, -1.0).to(h)
    angle = (torch.atan2(e, d) - up * math.pi / 2) / 2
    c, s = torch.cos(angle), torch.sin(angle)
    return torch.stack([c * first + s * second, c * second - s * first], dim=2).flatten(1)
