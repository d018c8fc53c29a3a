"""How much a gated network's step can stretch a gradient, by theorem and by measure."""

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.recurrence import only_layer
from eigenrnn.analysis.torch_steps import Weights
from eigenrnn.analysis.trajectory import Trajectory, trajectory
from eigenrnn.layers.gated_direction import GatedDirection
from eigenrnn.layers.gru import GRU
from eigenrnn.layers.norm_zoneout import asked_of
from eigenrnn.nonlinearities import NONLINEARITIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from eigenrnn.linalg import check_finite

__all__ = ["JacobianBound", "jacobian_bound"]


@dataclass(frozen=True)
class JacobianBound(Analysis):
    r"""The bound on a gated network's Jacobians beside their norms.

    Args:
        alpha: :math:`\alpha_t`.
        beta: :math:`\beta_t`.
        candidate_norm: :math:`\|W_c\|_2`.
        norms: :math:`\|\partial h_t / \partial h_{t-1}\|_2`.
        alpha_limit: What :math:`\alpha_t` can never pass, by corollary 1; None where f is not
            tanh, or a first state lies outside of [-1, 1].
        beta_limit: Likewise of :math:`\beta_t`.
    Shape:
        alpha, beta, norms: :math:`(T, B)`.
    """

    alpha: NDArray[np.float64]
    beta: NDArray[np.float64]
    candidate_norm: float
    norms: NDArray[np.float64]
    alpha_limit: float | None
    beta_limit: float | None

    @property
    def bound(self) -> NDArray[np.float64]:  # (T, B)
        r"""The theorem's :math:`\alpha_t + \beta_t \|W_c\|_2`."""
        return self.alpha + self.beta * self.candidate_norm

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        columns = self.table()
        curves = {name: column for name, column in columns.items() if name != "t"}
        plot.lines(axes, columns["t"], curves, log=True, legend_above=True)
        y = r"$\|\partial h_t / \partial h_{t-1}\|_2$ and its bound, mean over the batch"
        plot.label(axes, "step t, as read", y)
        return figure

    def table(self) -> Table:
        means = {"bound": self.bound, "alpha": self.alpha, "beta": self.beta, "norm": self.norms}
        columns = {name: values.mean(axis=1) for name, values in means.items()}
        return {"t": np.arange(1, len(self.norms) + 1), **columns}

    def headline(self) -> dict[str, float]:
        return {
            "largest norm": float(self.norms.max()),
            "largest bound": float(self.bound.max()),
            "mean norm": float(self.norms.mean()),
            "mean bound": float(self.bound.mean()),
        }


@torch.no_grad()
def jacobian_bound(
    layer: nn.Module,
    x: Tensor | ArrayLike,  # (T, B, M)
    *,
    which: str = "l0",
) -> JacobianBound:
    r"""Bound the norm of each step's Jacobian of a GRU, and compute the norm itself.

    .. math:: \left\|\frac{\partial h_t}{\partial h_{t-1}}\right\|_2 \le
        \alpha_t + \beta_t \|W_c\|_2

    With k the share of the state that is kept, u or 1 - u, :math:`\delta_u` and :math:`\delta_r`
    the largest u (1 - u) and r (1 - r), and maxima over the units:

    .. math:: \alpha = \delta_u (\max |h_{t-1}| + \max |c_t|) \|W_u\|_2 + \max k, \qquad
        \beta = \max (1 - k) \, (\delta_r \|W_r\|_2 \max |h_{t-1}| + \max r)

    where the reset comes before :math:`W_c`. Where it comes after, :math:`\alpha` is larger by
    :math:`\max (1 - k)\, \delta_r \|W_r\|_2 \max |W_c h_{t-1} + b|` and
    :math:`\beta = \max (1 - k) \max r`. All our nonlinearities have slopes of at most one, as the
    proof asks.

    Args:
        layer: A `GRU` of ours, such as `NCGRU` or `GORU`, without LayerNorm and zoneout, or
            `torch.nn.GRU`, or a model with one.
        x: The sequences, as the first layer takes them.
        which: The layer and direction; the input of a later one is what the earlier give.
    Shape:
        x: :math:`(T, B, M)`, or :math:`(T, M)`; :math:`(B, T, M)` of a layer with `batch_first`.
    Raises:
        ValueError: If there is no GRU or more than one layer, it has LayerNorm or zoneout, there
            is no such layer or direction, or an input does not fit or is not finite.
    Source:
        Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022, theorem 1 and corollary 1.
        https://arxiv.org/abs/2208.06496 (departures: absolute values, which the printed maxima of
        h and c lack and the proof needs; the forms for a reset after the matrix, its bias inside,
        and for an update gate that keeps the state; there the limits are
        :math:`\alpha \le \frac12 \|W_u\|_2 + 1 + \frac14 \|W_r\|_2 (\|W_c\|_\infty + \max |b|)`
        and :math:`\beta \le 1`).
    Example:
        >>> found = jacobian_bound(eigenrnn.NCGRU(2, 8), torch.ones(5, 3, 2))
        >>> bool((found.norms <= found.bound).all())
        True
    """
    gru = only_layer(layer)
    if not isinstance(gru, GRU | nn.GRU):
        raise ValueError(f"expected a GRU, ours or torch's, got {type(gru).__name__}")
    if isinstance(gru, GRU) and asked_of(gru):
        raise ValueError(
            f"expected a layer without {' and '.join(asked_of(gru))}, of which the theorem does "
            "not speak"
        )
    path = trajectory(layer, x, which)
    gates = _gates_of(gru, which)
    W_r, W_u, W_c = (float(_norm(W, "a recurrent matrix")) for W in gates.W)
    r, u, c, moved = gates(path)
    k = u if gates.update_keeps else 1 - u
    h = _largest(path.states[:-1])
    replaced, turned = _largest(1 - k), _largest(r * (1 - r)) * W_r
    alpha = _largest(u * (1 - u)) * (h + _largest(c)) * W_u + _largest(k)
    if gates.reset_after:
        alpha += replaced * turned * _largest(moved)
        beta = replaced * _largest(r)
    else:
        beta = replaced * (turned * h + _largest(r))
    within = gates.f == "tanh" and bool((path.states[0].abs() <= 1).all())
    limits = gates.limits(W_r, W_u) if within else (None, None)
    norms = torch.stack([_norm(J, "a Jacobian") for J, _ in path.jacobians()])
    return JacobianBound(alpha.numpy(), beta.numpy(), W_c, norms.numpy(), *limits)


def _norm(W: Tensor, name: str) -> Tensor:  # (..., N, N) to (...)
    check_finite(W, name)
    return torch.linalg.matrix_norm(W, 2)


@dataclass(frozen=True)
class _Gates:
    """The weights of a GRU of any convention, and its gates."""

    U: tuple[Tensor, ...]  # (N, M) each; of reset, update, candidate
    W: tuple[Tensor, ...]  # (N, N) each
    b: tuple[Tensor, ...]  # (N,) each
    recurrent_bias: Tensor  # (N,)
    bias: Tensor | None  # (N,), of f
    f: str
    reset_after: bool
    update_keeps: bool

    def __call__(self, path: Trajectory) -> tuple[Tensor, ...]:  # (T, B, N) each
        """Return r, u, c and what the reset multiplies where it comes after the matrix."""
        before = path.states[:-1]
        x_r, x_u, x_c = (path.x @ U.T + b for U, b in zip(self.U, self.b, strict=True))
        W_r, W_u, W_c = self.W
        r, u = torch.sigmoid(x_r + before @ W_r.T), torch.sigmoid(x_u + before @ W_u.T)
        moved = before @ W_c.T + self.recurrent_bias
        q = r * moved if self.reset_after else (r * before) @ W_c.T
        return r, u, NONLINEARITIES[self.f].forward(x_c + q, self.bias), moved

    def limits(self, W_r: float, W_u: float) -> tuple[float, float]:
        """Return what alpha and beta can never pass if no state does one."""
        if not self.reset_after:
            return W_u / 2 + 1, W_r / 4 + 1
        moved = self.W[2].abs().sum(1).max() + self.recurrent_bias.abs().max()
        return W_u / 2 + 1 + W_r / 4 * float(moved), 1.0


def _gates_of(layer: Any, which: str) -> _Gates:
    """Read a layer's weights in double precision."""
    exact = copy.deepcopy(layer).to("cpu", torch.float64).eval()
    N = layer.hidden_size
    if isinstance(exact, nn.GRU):
        weights = Weights.of(exact, which)
        b = [*(weights.b + weights.c)[: 2 * N].split(N), weights.b[2 * N :]]
        return _Gates(
            weights.U.split(N),
            weights.W.split(N),
            tuple(b),
            weights.c[2 * N :],
            None,
            "tanh",
            reset_after=True,
            update_keeps=True,
        )
    turns = 2 if layer.bidirectional else 1
    number = turns * int(which[1:].split("_")[0]) + which.endswith("_reverse")
    one: GatedDirection = exact.all_directions()[number]
    zero = one.weight_ih.new_zeros(N)
    gate_bias = zero.repeat(2) if one.gate_bias is None else one.gate_bias
    return _Gates(
        one.weight_ih.split(N),
        tuple(one.matrices()),
        (*gate_bias.split(N), zero if one.input_bias is None else one.input_bias),
        zero if one.recurrent_bias is None else one.recurrent_bias,
        one.bias,
        one.nonlinearity,
        one.reset_after,
        one.update_keeps,
    )


def _largest(values: Tensor) -> Tensor:  # (T, B)
    return values.abs().amax(dim=2)
