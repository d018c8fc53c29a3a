"""AsRNN: a tanh network that contains the orthogonal linear network as a special case."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints import Constraint, Exponential
from eigenrnn.init import Initializer, orthogonal_, zeros_
from eigenrnn.layers.direction import AbstractDirection, DirectionConfig, without_autocast
from eigenrnn.layers.stacked import Stacked
from eigenrnn.ops import elman
from eigenrnn.ops.elman import BACKENDS

__all__ = ["AsRNN"]


class AsDirection(AbstractDirection):
    r"""One layer of `AsRNN` in one direction.

    Args:
        config: The sizes, the constraints of W and of :math:`U_f`, and the initialisers.
        epsilon: Added to :math:`|s|`.
    Shape:
        s: :math:`(N,)`, signed; the layer uses :math:`|s|`.
        input_bias: :math:`(N,)`, b, or None.
    """

    constraint: Constraint
    mixing: Constraint
    s: Parameter

    def __init__(self, config: DirectionConfig, epsilon: float) -> None:
        super().__init__(config)
        self.epsilon = epsilon
        self.s = Parameter(torch.empty(self.hidden_size))
        self.input_bias = self._parameter("input_bias", self.hidden_size)

    @without_autocast
    def forward(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, N)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        backend: str | None = None,
        last_only: bool = False,
        resets: Tensor | None = None,  # (T, B)
    ) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
        W, U_f = self._cast(self.weight_hh).split(self.hidden_size)
        d = self.s.abs() + self.epsilon
        W_f = U_f * d
        W_f_inverse = U_f.T / d.unsqueeze(1)  # U_f is orthogonal, and d is not zero
        b = None
        if self.input_bias is not None:
            b = W_f @ self.input_bias
        # g = W_f h follows a plain tanh recurrence, which the backends of `elman` compute
        g, last = elman(
            x,
            W_f @ W @ W_f_inverse,
            h0 @ W_f.T,
            U=W_f @ self.weight_ih,
            c=b,
            nonlinearity="tanh",
            batch_sizes=batch_sizes,
            reverse=reverse,
            backend=backend,
            last_only=last_only,
            resets=resets,
            **self.norm_zoneout_kwargs(x),
        )
        return g @ W_f_inverse.T, last @ W_f_inverse.T

    @torch.no_grad()
    def _reset_matrices(self, generator: Generator | None) -> None:
        self.constraint.reset(generator)
        if self.mixing.device.type == "meta":  # no values to assign
            return
        I = torch.eye(self.hidden_size, dtype=self.mixing.dtype, device=self.mixing.device)
        self.mixing.assign(I)


class AsRNN(Stacked[AsDirection]):
    r"""Adaptive-saturated RNN: it learns how much each direction of the state saturates.

    .. math:: h_t = W_f^{-1} \tanh\bigl(W_f (U x_t + b + W h_{t-1})\bigr), \qquad
        W_f = U_f D_f, \quad D_f = \operatorname{diag}(|s| + \epsilon)

    W and :math:`U_f` are orthogonal. Where an entry of :math:`D_f` is small, the layer is nearly
    linear and keeps its state; where it is large, tanh saturates and the layer can forget. Use it
    when a task needs both.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units in each layer and direction.
        num_layers: The number of stacked layers.
        bias: Whether there is a bias b.
        batch_first: Whether input and output are (B, T, .) instead of (T, B, .).
        dropout: The dropout probability between two layers while training.
        bidirectional: Whether each layer also reads its input backwards, with weights of its own.
        device: The device of the weights.
        dtype: The dtype of the weights; constraints stay in float32 or better.
        init: The initialisation of W: ``"cayley"``, ``"henaff"`` or ``"haar"``, see
            `Exponential`. :math:`U_f` is initialised to the identity.
        scale: The bounds of the uniform distribution that initialises s.
        epsilon: The number :math:`\epsilon`.
        trainable_h0: Whether the initial states are trained; initialised to zero.
        layer_norm: Whether the argument of tanh is normalised, see `RNN`.
        zoneout: The probability that a unit of :math:`W_f h_t` keeps its state for a time step
            while training; in evaluation the new state is the expected one.
        locked_dropout: Whether dropout uses one mask for all time steps of a sequence.
        backend: The name of the implementation of the recurrence; the fastest available by
            default.
        generator: The generator that draws the weights; torch's global one by default.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        output: :math:`(T, B, D N)`, in the layout of the input.
    Raises:
        ValueError: If a size, a probability, a bound or a shape is invalid.
    Source:
        Nguyen-Duy, Pham and Nguyen, ICLR 2023 tiny papers (departures: none).
    Example:
        >>> AsRNN(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    backends = BACKENDS
    nonlinearity = "tanh"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        init: Literal["cayley", "henaff", "haar"] = "cayley",
        scale: tuple[float, float] = (0.02, 0.02),
        epsilon: float = 0.01,
        trainable_h0: bool = False,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        locked_dropout: bool = False,
        backend: str | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not (0 <= scale[0] <= scale[1] < math.inf and 0 < epsilon < math.inf):
            raise ValueError(
                "expected finite 0 <= scale[0] <= scale[1] and epsilon > 0, "
                f"got {scale} and {epsilon}"
            )
        initializers: dict[str, Sequence[Initializer]] = {
            "weight_ih": [orthogonal_],
            "s": [partial(_uniform_between_, bounds=scale)],
        }
        if bias:
            initializers["input_bias"] = [zeros_]
        if trainable_h0:
            initializers["h0"] = [zeros_]
        constraints = {"constraint": partial(Exponential, init=init), "mixing": Exponential}
        super().__init__(
            partial(AsDirection, epsilon=epsilon),
            DirectionConfig(
                input_size, hidden_size, constraints, initializers, layer_norm, zoneout
            ),
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            locked_dropout=locked_dropout,
            backend=backend,
            generator=generator,
        )

    def _spectrum_matrices(self) -> Tensor:  # (L D, N, N)
        # of the two matrices W and U_f only W is meant
        return torch.stack([d.matrices()[0] for d in self.all_directions()])

    def _recurrence_defaults(self) -> dict[str, Any]:
        return {"bias": True}


@torch.no_grad()
def _uniform_between_(
    weight: Tensor, bounds: tuple[float, float], *, generator: Generator | None = None
) -> Tensor:
    return weight.uniform_(*bounds, generator=generator)
