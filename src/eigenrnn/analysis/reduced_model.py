"""The low-rank part of a recurrent matrix, and the network that keeps only this part."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn import init
from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import as_real_tensor
from eigenrnn.analysis.base import Analysis, Figure, Table
from eigenrnn.analysis.state_map import as_ours, single_layer, state_maps
from eigenrnn.analysis.trajectory import InitialState, trajectory
from eigenrnn.constraints import Unconstrained
from eigenrnn.errors import check_positive_integer
from eigenrnn.layers.leaky import LeakyRNN
from eigenrnn.layers.rnn import RNN
from eigenrnn.linalg import check_finite, on_cpu

__all__ = ["ReducedModel", "reduced_model"]


@dataclass(frozen=True)
class ReducedModel(Analysis):
    r"""A network whose recurrent matrix is its part of low rank, beside the whole one.

    Args:
        m: The left vectors: the directions of the states that the recurrence drives.
        n: The right vectors: what of the states it reads.
        singular_values: All singular values of :math:`W - P`.
        states: The states of the whole network, the initial ones included.
        reduced_states: The states of the reduced one.
        latents: The variables :math:`\kappa_t = n^\top h_t / N` of the reduced network, where h
            is the rate, that is f of the state if the layer has ``state="current"``. The next step
            gets :math:`m \kappa_t` from the recurrence.
        error: The norm of the difference of the states over that of the states.
    Shape:
        m, n: :math:`(N, R)`; singular_values: :math:`(N,)`; states, reduced_states:
        :math:`(T + 1, B, N)`; latents: :math:`(T + 1, B, R)`.
    """

    m: NDArray[np.float64]
    n: NDArray[np.float64]
    singular_values: NDArray[np.float64]
    states: NDArray[np.float64]
    reduced_states: NDArray[np.float64]
    latents: NDArray[np.float64]
    error: float

    def plot(self) -> Figure:
        figure, (left, right) = plot.canvas(2)
        rank = np.arange(1, len(self.singular_values) + 1)
        plot.lines(left, rank, {"singular value": self.singular_values}, marker="o")
        plot.label(left, "rank", "singular value", f"rank {self.m.shape[1]} is kept")
        steps = np.arange(len(self.latents))
        curves = {f"latent {k + 1}": self.latents[:, 0, k] for k in range(self.latents.shape[2])}
        plot.lines(right, steps, curves)
        title = f"first sequence; relative error {self.error:.2g}"
        plot.label(right, "step", "latent variable", title)
        return figure

    def table(self) -> Table:
        steps, B, R = self.latents.shape
        N = len(self.singular_values)
        none = np.full(N, -1)  # a singular value has neither a step nor a sequence
        sequences = np.tile(np.repeat(np.arange(B), R), steps)
        kinds = ["latent"] * (steps * B * R) + ["singular value"] * N
        return {
            "kind": np.array(kinds, dtype=str),
            "t": np.concatenate([np.repeat(np.arange(steps), B * R), none]),
            "sequence": np.concatenate([sequences, none]),
            "number": np.concatenate([np.tile(np.arange(R), steps * B), np.arange(N)]),
            "value": np.concatenate([self.latents.ravel(), self.singular_values]),
        }


@on_cpu
@torch.no_grad()
def reduced_model(
    network: nn.Module,
    x: Tensor | ArrayLike,  # (T, B, M)
    rank: int,
    *,
    plus: Tensor | ArrayLike | None = None,  # (N, N)
    h0: InitialState = None,
) -> ReducedModel:
    r"""Keep the low-rank part of a trained recurrent matrix, and run the reduced network.

    .. math:: W - P \approx \frac1N m n^\top, \qquad W_R = P + \frac1N m n^\top

    The approximation is the best one in the Frobenius norm, a truncated singular value
    decomposition. With P the matrix before training, :math:`W - P` is what training has added,
    which often has a low rank. A small error says that R variables explain the dynamics.

    Args:
        network: An `RNN`, `LeakyRNN` or `torch.nn.RNN`, or a model with one: one layer of one
            direction with real states.
        x: The sequences, in the layout that the layer takes.
        rank: The rank R.
        plus: The matrix P, such as W before training; zero by default.
        h0: The initial states, as the network takes them; by default its own.
    Shape:
        x: :math:`(T, B, M)`; plus: :math:`(N, N)`.
    Raises:
        ValueError: If the layer has several layers, directions or complex states, a shape is
            wrong, or the rank exceeds N.
        TypeError: If the network is no `RNN`, `LeakyRNN` or `torch.nn.RNN`.
    Source:
        Schuessler et al., NeurIPS 2020. https://arxiv.org/abs/2006.11036; Mastrogiuseppe and
        Ostojic, Neuron 99, 2018. https://doi.org/10.1016/j.neuron.2018.07.003 (departures: none).
    Example:
        >>> layer = RNN(2, 8, constraint=eigenrnn.constraints.LowRank, nonlinearity="tanh")
        >>> reduced_model(layer, torch.randn(9, 3, 2), rank=1).error < 1e-6
        True
    """
    layer: Any = single_layer(network)
    if not isinstance(layer, RNN | LeakyRNN | nn.RNN):
        raise TypeError(
            "expected an RNN or LeakyRNN of eigenrnn, a torch.nn.RNN or a model with one, got "
            f"{type(layer).__name__}"
        )
    reduced: Any = as_ours(layer)
    directions = reduced.all_directions()
    if len(directions) > 1 or directions[0].constraint.is_complex:
        raise ValueError("expected one layer of one direction with real states")
    check_positive_integer("rank", rank)
    N = layer.hidden_size
    if rank > N:
        raise ValueError(f"expected rank <= {N}, the number of units, got {rank}")
    P = torch.zeros(N, N, dtype=torch.float64) if plus is None else as_real_tensor(plus, "plus")
    if P.shape != (N, N):
        raise ValueError(f"expected plus of shape ({N}, {N}), got {tuple(P.shape)}")
    check_finite(P, "plus")
    (whole,) = state_maps(layer)
    left, sigma, right = torch.linalg.svd(whole.matrices["hh"] - P)
    # m n^T / N = left sigma right: both vectors get the root of sigma N
    roots = (sigma[:rank] * N).sqrt()
    m = left[:, :rank] * roots
    n = right[:rank].T * roots
    # W_R need not be in the set of the layer's constraint
    directions[0].constraint = Unconstrained(N, init=init.identity_).double()  # draws nothing
    directions[0].constraint.assign(P + m @ n.T / N)
    path = trajectory(layer, x, "l0", h0)
    states = path.states
    (small,) = state_maps(reduced)
    changed = trajectory(small, path.x, "l0", states[0]).states
    # any tensor in place of x: the outputs of an RNN depend on the states alone
    rates = small.output(changed, changed)
    return ReducedModel(
        m=m.numpy(),
        n=n.numpy(),
        singular_values=sigma.numpy(),
        states=states.numpy(),
        reduced_states=changed.numpy(),
        latents=(rates @ n / N).numpy(),
        error=float((changed - states).norm() / states.norm().clamp(min=1e-300)),
    )
