"""The norm of the Jacobians of a GRU, and a theorem's upper bound on it."""

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.recurrence import TorchWeights, single_layer
from eigenrnn.analysis.trajectory import Trajectory, trajectory
from eigenrnn.layers.gru import GRU, GatedDirection
from eigenrnn.layers.regularisation import non_default_options
from eigenrnn.linalg import check_finite
from eigenrnn.nonlinearities import NONLINEARITIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["JacobianBound", "jacobian_bound"]


@dataclass(frozen=True)
class JacobianBound(Analysis):
    r"""An upper bound on the norms of the Jacobians of a GRU, and the norms.

    Args:
        alpha: :math:`\alpha_t`.
        beta: :math:`\beta_t`.
        candidate_norm: :math:`\|W_c\|_2`.
        norms: :math:`\|\partial h_t / \partial h_{t-1}\|_2`.
        alpha_limit: The upper limit of :math:`\alpha_t`, by corollary 1; None if f is not tanh,
            or an initial state lies outside [-1, 1].
        beta_limit: The upper limit of :math:`\beta_t`, likewise.
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
        plot.label(axes, "step t, in processing order", y)
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
    r"""Bound the norm of the Jacobian of every step of a GRU, and compute the norm itself.

    .. math:: \left\|\frac{\partial h_t}{\partial h_{t-1}}\right\|_2 \le
        \alpha_t + \beta_t \|W_c\|_2

    Let k be the share of the state that is kept, u or 1 - u. Let :math:`\delta_u` and
    :math:`\delta_r` be the largest u (1 - u) and r (1 - r). All maxima run over the units:

    .. math:: \alpha = \delta_u (\max |h_{t-1}| + \max |c_t|) \|W_u\|_2 + \max k, \qquad
        \beta = \max (1 - k) \, (\delta_r \|W_r\|_2 \max |h_{t-1}| + \max r)

    if the reset acts before :math:`W_c`. If it acts after, :math:`\alpha` is larger by
    :math:`\max (1 - k)\, \delta_r \|W_r\|_2 \max |W_c h_{t-1} + b|` and
    :math:`\beta = \max (1 - k) \max r`. The proof requires slopes of at most one,
    which all our nonlinearities have.

    Args:
        layer: A `GRU` of ours, such as `NCGRU` or `GORU`, without LayerNorm and zoneout, or
            `torch.nn.GRU`, or a model with one.
        x: The sequences, in the layout that the first layer takes.
        which: The layer and direction. A later layer reads the outputs of the earlier ones.
    Shape:
        x: :math:`(T, B, M)`, or :math:`(T, M)`; :math:`(B, T, M)` of a layer with `batch_first`.
    Raises:
        ValueError: If the model has no GRU or several recurrent layers, the GRU has LayerNorm or
            zoneout, the layer or direction does not exist, or an input does not fit or is not
            finite.
    Source:
        Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022, theorem 1 and corollary 1.
        https://arxiv.org/abs/2208.06496 (departures: the maxima of h and c are over absolute
        values, which the proof needs but the paper omits. Two variants are added: an update gate
        that keeps the state, and a reset gate after the matrix and its bias. For the second,
        :math:`\alpha \le \frac12 \|W_u\|_2 + 1 + \frac14 \|W_r\|_2 (\|W_c\|_\infty + \max |b|)`
        and :math:`\beta \le 1`).
    Example:
        >>> result = jacobian_bound(eigenrnn.NCGRU(2, 8), torch.ones(5, 3, 2))
        >>> bool((result.norms <= result.bound).all())
        True
    """
    gru = single_layer(layer)
    if not isinstance(gru, GRU | nn.GRU):
        raise ValueError(f"expected a GRU, ours or torch's, got {type(gru).__name__}")
    if isinstance(gru, GRU) and non_default_options(gru):
        raise ValueError(
            f"expected a layer without {' and '.join(non_default_options(gru))}, "
            "which the theorem does not cover"
        )
    path = trajectory(layer, x, which)
    gates = _read_gates(gru, which)
    W_r, W_u, W_c = (float(_norm(W, "a recurrent matrix")) for W in gates.W)
    r, u, c, candidate_term = gates(path)
    k = u if gates.update_keeps else 1 - u
    h = _largest(path.states[:-1])
    replaced, reset_slope = _largest(1 - k), _largest(r * (1 - r)) * W_r
    alpha = _largest(u * (1 - u)) * (h + _largest(c)) * W_u + _largest(k)
    if gates.reset_after:
        alpha += replaced * reset_slope * _largest(candidate_term)
        beta = replaced * _largest(r)
    else:
        beta = replaced * (reset_slope * h + _largest(r))
    has_limits = gates.f == "tanh" and bool((path.states[0].abs() <= 1).all())
    limits = gates.limits(W_r, W_u) if has_limits else (None, None)
    norms = torch.stack([_norm(J, "a Jacobian") for J, _ in path.jacobians()])
    return JacobianBound(alpha.numpy(), beta.numpy(), W_c, norms.numpy(), *limits)


def _norm(W: Tensor, name: str) -> Tensor:  # (..., N, N) to (...)
    check_finite(W, name)
    return torch.linalg.matrix_norm(W, 2)


@dataclass(frozen=True)
class _Gates:
    """The weights of a GRU, ours or torch's, and the activations of its gates."""

    U: tuple[Tensor, ...]  # (N, M) each: reset, update, candidate
    W: tuple[Tensor, ...]  # (N, N) each
    b: tuple[Tensor, ...]  # (N,) each
    recurrent_bias: Tensor  # (N,)
    bias: Tensor | None  # (N,), of f
    f: str
    reset_after: bool
    update_keeps: bool

    def __call__(self, path: Trajectory) -> tuple[Tensor, ...]:  # (T, B, N) each
        """Return r, u, c and the candidate term that a reset after the matrix multiplies."""
        before = path.states[:-1]
        x_r, x_u, x_c = (path.x @ U.T + b for U, b in zip(self.U, self.b, strict=True))
        W_r, W_u, W_c = self.W
        r, u = torch.sigmoid(x_r + before @ W_r.T), torch.sigmoid(x_u + before @ W_u.T)
        candidate_term = before @ W_c.T + self.recurrent_bias
        q = r * candidate_term if self.reset_after else (r * before) @ W_c.T
        return r, u, NONLINEARITIES[self.f].forward(x_c + q, self.bias), candidate_term

    def limits(self, W_r: float, W_u: float) -> tuple[float, float]:
        """Return the limits of alpha and beta for states within [-1, 1]."""
        if not self.reset_after:
            return W_u / 2 + 1, W_r / 4 + 1
        candidate_term = self.W[2].abs().sum(1).max() + self.recurrent_bias.abs().max()
        return W_u / 2 + 1 + W_r / 4 * float(candidate_term), 1.0


def _read_gates(layer: Any, which: str) -> _Gates:
    """Read the weights of a layer in double precision."""
    double = copy.deepcopy(layer).to("cpu", torch.float64).eval()
    N = layer.hidden_size
    if isinstance(double, nn.GRU):
        weights = TorchWeights.of(double, which)
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
    directions = 2 if layer.bidirectional else 1
    index = directions * int(which[1:].split("_")[0]) + which.endswith("_reverse")
    direction: GatedDirection = double.all_directions()[index]
    zero = direction.weight_ih.new_zeros(N)
    gate_bias = zero.repeat(2) if direction.gate_bias is None else direction.gate_bias
    return _Gates(
        direction.weight_ih.split(N),
        tuple(direction.matrices()),
        (*gate_bias.split(N), zero if direction.input_bias is None else direction.input_bias),
        zero if direction.recurrent_bias is None else direction.recurrent_bias,
        direction.bias,
        direction.nonlinearity,
        direction.reset_after,
        direction.update_keeps,
    )


def _largest(values: Tensor) -> Tensor:  # (T, B)
    return values.abs().amax(dim=2)
