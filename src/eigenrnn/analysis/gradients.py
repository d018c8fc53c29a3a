"""Gradients through time: norms, maps over pairs of time steps, and bounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Figure, Table
from eigenrnn.analysis.forward_pass import (
    bare_initial_states,
    is_bare,
    model_inputs,
    unroll,
)
from eigenrnn.analysis.state_map import Network, as_ours, single_layer
from eigenrnn.analysis.trajectory import InitialState, trajectory
from eigenrnn.layers.cells import AbstractCell
from eigenrnn.layers.gru import GRU, GatedDirection
from eigenrnn.layers.regularisation import non_default_options
from eigenrnn.layers.torch_weights import direction_names
from eigenrnn.linalg import check_finite, default_dtype, on_cpu
from eigenrnn.nonlinearities import NONLINEARITIES

__all__ = [
    "GradientMap",
    "GradientNorms",
    "JacobianBound",
    "gradient_map",
    "gradient_norms",
    "jacobian_bound",
    "spectral_norms",
]


@dataclass(frozen=True)
class GradientNorms(Analysis):
    r"""The norms of the gradients of a loss with respect to the states.

    Args:
        curves: :math:`\|\partial L / \partial h_t\|` for every t, by layer and direction, in
            processing order.
    Shape:
        curves: :math:`(T,)` each.
    """

    curves: dict[str, NDArray[np.float64]]

    def plot(self) -> Figure:
        figure, (axes,) = plot.canvas()
        curves = self._padded()
        nonzero = {name: np.where(curve > 0, curve, np.nan) for name, curve in curves.items()}
        T = len(next(iter(nonzero.values())))
        plot.lines(axes, np.arange(1, T + 1), nonzero, log=True)
        plot.label(axes, "step t, in processing order", "norm of the gradient at $h_t$")
        return figure

    def table(self) -> Table:
        curves = self._padded()
        T = len(next(iter(curves.values())))
        return {"t": np.arange(1, T + 1), **curves}

    def _padded(self) -> dict[str, NDArray[np.float64]]:
        """Return curves of one length, NaN where a layer takes fewer steps, as a decoder may."""
        T = max(len(curve) for curve in self.curves.values())
        return {
            name: np.pad(curve, (0, T - len(curve)), constant_values=np.nan)
            for name, curve in self.curves.items()
        }

    def headline(self) -> dict[str, float]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return {
                f"{name}: first step over last": float(curve[0] / curve[-1])
                for name, curve in self.curves.items()
            }


@on_cpu
@torch.inference_mode(False)
def gradient_norms(
    model: Network,
    inputs: Any,
    loss: Callable[[Tensor], Tensor],
    *,
    h0: InitialState = None,
    lengths: Any = None,
) -> GradientNorms:
    r"""Measure the norm of the gradient of a loss with respect to every state.

    .. math:: \left\|\frac{\partial L}{\partial h_t}\right\| =
        \Bigl(\sum_{b} \bigl\|\partial L / \partial h_t^{(b)}\bigr\|_2^2\Bigr)^{1/2}

    This is the total gradient: through the output of step t and through all later steps. The loss
    is differentiated as given; the mean over B sequences scales the norm by :math:`1 / \sqrt B`.
    The state of an LSTM is (h, c).

    Args:
        model: A recurrent layer or cell, a model with at least one, or a `StateMap`. It is copied
            into double precision and evaluation mode.
        inputs: The inputs of the model; the sequences for a cell or a state map.
        loss: A function from the output of the model, which may be a tuple, to a scalar. For a
            bare layer, cell or state map the output is the sequence of its outputs.
        h0: The initial states of a bare layer, cell or state map, as it takes them, or
            :math:`(S,)`; by default its own.
        lengths: Passed to the model as the argument `lengths`, unless None.
    Returns:
        A curve for each layer and direction.
    Raises:
        ValueError: If the model has no recurrent layer or does not call it, the inputs or the loss
            are not finite, or `h0` does not fit or comes with a model around a layer.
    Source:
        Kerg et al., NeurIPS 2019, figure 6. https://arxiv.org/abs/1905.12080 (departures: the
        norm runs over the batch; the paper does not specify this).
    Example:
        >>> layer = torch.nn.RNN(2, 3)
        >>> result = gradient_norms(layer, torch.zeros(5, 1, 2), lambda h: h[-1].sum())
        >>> result.curves["l0"].shape
        (5,)
    """
    inputs = model_inputs(inputs)
    unrolled = unroll(model)
    options = {} if lengths is None else {"lengths": lengths}
    if h0 is not None:
        options["hx"] = bare_initial_states(model, inputs, h0)
    with torch.enable_grad(), default_dtype(torch.float64):
        output = unrolled.model(inputs, **options)
        if is_bare(model):  # a layer or a cell returns its states too
            output = output[0] if isinstance(output, tuple) else output
        value = loss(output)
        check_finite(value, "the loss")
        states = list(chain.from_iterable(unrolled.states.values()))
        if not states:
            raise ValueError("expected a model that calls its recurrent layers, got no such call")
        value.backward(inputs=states)  # a module inside the loss keeps its gradients
    return GradientNorms({name: _norms(states) for name, states in unrolled.states.items()})


def _norms(states: list[Tensor]) -> NDArray[np.float64]:  # (T,)
    # a state that the loss does not depend on has no gradient
    return np.array([0.0 if h.grad is None else float(h.grad.norm()) for h in states])


@dataclass(frozen=True)
class GradientMap(Analysis):
    r"""The norms of the derivatives of each state with respect to earlier states and inputs.

    Args:
        by_input: :math:`\|\partial h_\tau / \partial x_t\|_2` at :math:`[\tau, t]`, for each named
            block of the state and for the ``"whole"``; NaN where :math:`t > \tau`; empty if not
            requested. Steps count from 1 in the figure and the table, and from 0 in arrays.
        by_state: :math:`\|\partial h_\tau / \partial h_t\|_2`, likewise; one where
            :math:`t = \tau`.
    Shape:
        by_input, by_state: :math:`(T, T)` each.
    """

    by_input: dict[str, NDArray[np.float64]]
    by_state: dict[str, NDArray[np.float64]]

    def plot(self) -> Figure:
        maps = self._maps()
        rows = bool(self.by_input) + bool(self.by_state)
        figure, axes = plot.canvas(len(maps) // rows, rows)
        for panel, (kind, block) in zip(axes, maps, strict=True):
            plot.heat_map(panel, maps[kind, block], "gradient norm", log=True, first=1)
            title = "state" if block == "whole" else f"{block} part of the state"
            plot.label(panel, f"step t of the {kind}", "step τ of the state", f"{title} by {kind}")
        return figure

    def table(self) -> Table:
        maps = self._maps()
        T = len(next(iter(maps.values())))
        tau, t = np.tril_indices(T)
        columns = {f"{block}_by_{kind}": values[tau, t] for (kind, block), values in maps.items()}
        return {"tau": tau + 1, "t": t + 1, **columns}

    def headline(self) -> dict[str, float]:
        maps = self._maps().items()
        return {f"last {block} by first {kind}": float(A[-1, 0]) for (kind, block), A in maps}

    def _maps(self) -> dict[tuple[str, str], NDArray[np.float64]]:
        """Return the maps by ``"input"`` or ``"state"``, and by block."""
        maps: dict[tuple[str, str], NDArray[np.float64]] = {}
        for block, norms in self.by_input.items():
            maps["input", block] = norms
        for block, norms in self.by_state.items():
            maps["state", block] = norms
        return maps


@on_cpu
@torch.no_grad()
def gradient_map(
    network: Network,
    x: Tensor | ArrayLike,  # (T, B, M)
    *,
    h0: InitialState = None,
    of: Sequence[str] = ("input", "state"),
    which: str = "l0",
) -> GradientMap:
    r"""Measure how strongly every state depends on every input and on every earlier state.

    .. math:: \left\|\frac{\partial h_\tau}{\partial x_t}\right\|_2, \qquad
        \left\|\frac{\partial h_\tau}{\partial h_t}\right\|_2 =
        \Bigl\|\prod_{s=t+1}^{\tau} \frac{\partial h_s}{\partial h_{s-1}}\Bigr\|_2

    The spectral norms are averaged over the batch. If a state has named parts, such as the long
    and the short memory of an ENRNN or h and c of an LSTM, each part has its own maps. It needs
    memory for :math:`T B S (S + M)` numbers.

    Args:
        network: A recurrent layer or cell, a model with one, or a `StateMap`.
        x: The sequences, in the layout that the first layer takes.
        h0: The initial states, as the network takes them, or :math:`(S,)`; by default its own.
        of: What to differentiate by: ``"input"``, ``"state"`` or both.
        which: The layer and direction. A later layer reads the outputs of the earlier ones. Steps
            of a reverse direction count in its processing order, from the last time step.
    Shape:
        x: :math:`(T, B, M)`, or :math:`(T, M)`; :math:`(B, T, M)` of a layer with `batch_first`.
    Returns:
        The maps.
    Raises:
        ValueError: If the layer or direction does not exist, an input does not fit or is not
            finite, a product overflows, or `of` names something else.
    Source:
        Helfrich and Ye, AAAI 2020, figures 4 and 5. https://arxiv.org/abs/1911.07964 (departures:
        norms are computed for each sequence and averaged; the paper only mentions a batch).
    Example:
        >>> maps = gradient_map(torch.nn.RNN(2, 3), torch.zeros(5, 1, 2))
        >>> maps.by_state["whole"].shape, float(maps.by_state["whole"][4, 4])
        ((5, 5), 1.0)
    """
    kinds = (of,) if isinstance(of, str) else tuple(of)
    if not kinds or not set(kinds) <= {"input", "state"}:
        raise ValueError(f"expected of to contain 'input', 'state' or both, got {of!r}")
    path = trajectory(network, x, which, h0)
    T, B, M = path.x.shape
    S = path.states.shape[2]
    blocks = {"whole": slice(0, S), **path.state_map.blocks}
    sizes = {"input": M, "state": S}
    maps: dict[str, dict[str, NDArray[np.float64]]] = {}
    # the transposed derivatives of the newest state by everything before it
    products: dict[str, Tensor] = {}
    for kind in kinds:
        maps[kind] = {block: np.full((T, T), np.nan) for block in blocks}
        products[kind] = torch.zeros(B, T, sizes[kind], S, dtype=torch.float64)
    for tau, (by_state, by_input) in enumerate(path.jacobians()):
        newest = {"input": by_input.mT, "state": torch.eye(S, dtype=torch.float64)}
        for kind, product in products.items():
            # the derivatives by all earlier steps are the rows of one product for each sequence
            before = product[:, :tau].flatten(1, 2)
            product[:, :tau] = (before @ by_state.mT).unflatten(1, (tau, sizes[kind]))
            product[:, tau] = newest[kind]
            for block, part in blocks.items():
                norms = spectral_norms(product[:, : tau + 1, :, part])
                maps[kind][block][tau, : tau + 1] = norms.mean(0).numpy()
    return GradientMap(maps.get("input", {}), maps.get("state", {}))


def spectral_norms(
    A: Tensor,  # (..., K, S)
) -> Tensor:  # (...)
    """Return the 2-norms of matrices, from the smaller of their Gram matrices."""
    # the largest entry becomes one, so that squares stay in range
    size = A.abs().amax((-2, -1)).clamp(min=torch.finfo(A.dtype).tiny)
    check_finite(size, "the largest entry of a product of Jacobians")
    scaled = A / size[..., None, None]
    narrow = scaled.mT if A.shape[-2] < A.shape[-1] else scaled
    # rounding can make an eigenvalue of zero negative
    return torch.linalg.eigvalsh(narrow.mT @ narrow)[..., -1].clamp(min=0).sqrt() * size


@dataclass(frozen=True)
class JacobianBound(Analysis):
    r"""An upper bound on the norms of the Jacobians of a GRU, and the norms.

    Args:
        alpha: :math:`\alpha_t`.
        beta: :math:`\beta_t`.
        candidate_norm: :math:`\|W_c\|_2`.
        norms: :math:`\|\partial h_t / \partial h_{t-1}\|_2`.
    Shape:
        alpha, beta, norms: :math:`(T, B)`.
    """

    alpha: NDArray[np.float64]
    beta: NDArray[np.float64]
    candidate_norm: float
    norms: NDArray[np.float64]

    @property
    def bound(self) -> NDArray[np.float64]:  # (T, B)
        r"""The theorem's :math:`\alpha_t + \beta_t \|W_c\|_2`."""
        return self.alpha + self.beta * self.candidate_norm

    def plot(self) -> Figure:
        figure, (axes,) = plot.canvas()
        columns = self.table()
        curves = {name: column for name, column in columns.items() if name != "t"}
        plot.lines(axes, columns["t"], curves, log=True)
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


@on_cpu
@torch.no_grad()
def jacobian_bound(
    network: Network,
    x: Tensor | ArrayLike,  # (T, B, M)
    *,
    h0: InitialState = None,
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
        network: A `GRU` of ours, such as `NCGRU` or `GORU`, without LayerNorm and zoneout, or
            `torch.nn.GRU`, or a cell of these, or a model with one.
        x: The sequences, in the layout that the first layer takes.
        h0: The initial states, as the network takes them, or :math:`(S,)`; by default its own.
        which: The layer and direction. A later layer reads the outputs of the earlier ones.
    Shape:
        x: :math:`(T, B, M)`, or :math:`(T, M)`; :math:`(B, T, M)` of a layer with `batch_first`.
    Raises:
        ValueError: If the model has no GRU or several recurrent layers, the GRU has LayerNorm or
            zoneout, the layer or direction does not exist, or an input does not fit or is not
            finite.
    Source:
        Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022, theorem 1.
        https://arxiv.org/abs/2208.06496 (departures: the maxima of h and c are over absolute
        values, which the proof needs but the paper omits. Two variants are added: an update gate
        that keeps the state, and a reset gate after the matrix and its bias).
    Example:
        >>> result = jacobian_bound(eigenrnn.NCGRU(2, 8), torch.ones(5, 3, 2))
        >>> bool((result.norms <= result.bound).all())
        True
    """
    gru = single_layer(network)
    if isinstance(gru, AbstractCell):
        gru = gru.layer
    if not isinstance(gru, GRU | nn.GRU | nn.GRUCell):
        raise ValueError(f"expected a GRU, ours or torch's, got {type(gru).__name__}")
    if isinstance(gru, GRU) and non_default_options(gru):
        raise ValueError(
            f"expected a layer without {' and '.join(non_default_options(gru))}, "
            "which the theorem does not cover"
        )
    path = trajectory(network, x, which, h0)
    # first, because it raises for weights that are not finite
    norms = torch.stack([spectral_norms(J) for J, _ in path.jacobians()])
    directions = as_ours(gru)
    names = direction_names(directions)
    direction: GatedDirection = directions.all_directions()[names.index(which)]
    W_r, W_u, W_c = direction.matrices()
    before = path.states[:-1]
    x_r, x_u, x_c = (path.x @ direction.weight_ih.T).chunk(3, dim=2)
    if direction.gate_bias is not None:
        b_r, b_u = direction.gate_bias.chunk(2)
        x_r = x_r + b_r
        x_u = x_u + b_u
    if direction.input_bias is not None:
        x_c = x_c + direction.input_bias
    r = torch.sigmoid(x_r + before @ W_r.T)
    u = torch.sigmoid(x_u + before @ W_u.T)
    moved = before @ W_c.T
    if direction.recurrent_bias is not None:
        moved = moved + direction.recurrent_bias
    read = r * moved if direction.reset_after else (r * before) @ W_c.T
    c = NONLINEARITIES[direction.nonlinearity].forward(x_c + read, direction.bias)
    # the formulas of the docstring; s (1 - s) is the slope of a sigmoid at its value s
    norm_r, norm_u, norm_c = (torch.linalg.matrix_norm(W, 2) for W in (W_r, W_u, W_c))
    k = u if direction.update_keeps else 1 - u
    h = _largest(before)
    replaced = _largest(1 - k)
    reset_slope = _largest(r * (1 - r)) * norm_r
    alpha = _largest(u * (1 - u)) * (h + _largest(c)) * norm_u + _largest(k)
    if direction.reset_after:
        alpha += replaced * reset_slope * _largest(moved)
        beta = replaced * _largest(r)
    else:
        beta = replaced * (reset_slope * h + _largest(r))
    return JacobianBound(
        alpha=alpha.numpy(),
        beta=beta.numpy(),
        candidate_norm=float(norm_c),
        norms=norms.numpy(),
    )


def _largest(values: Tensor) -> Tensor:  # (T, B)
    return values.abs().amax(dim=2)
