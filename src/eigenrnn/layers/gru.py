"""The gated recurrent layer: torch.nn.GRU with a constraint on the matrix of each gate."""

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import torch
from torch import Generator, Tensor, nn

from eigenrnn.constraints import Constraint, Unconstrained
from eigenrnn.init import Initializer
from eigenrnn.layers.gated_direction import GatedDirection
from eigenrnn.layers.stacked import Stacked
from eigenrnn.layers.torch_weights import check_same_shape, copy_weights
from eigenrnn.ops.gru import BACKENDS

__all__ = ["GRU"]


class GRU(Stacked[GatedDirection]):
    r"""Gated recurrent network whose recurrent matrices lie in sets of your choice, gate by gate.

    .. math::
        r_t &= \sigma(U_r x_t + b_r + W_r h_{t-1}), \qquad
        u_t = \sigma(U_u x_t + b_u + W_u h_{t-1}) \\
        c_t &= f(U_c x_t + b_c + r_t \odot (W_c h_{t-1} + b)) \quad\text{or}\quad
        c_t = f(U_c x_t + b_c + W_c (r_t \odot h_{t-1})) \\
        h_t &= u_t \odot h_{t-1} + (1 - u_t) \odot c_t \quad\text{or}\quad
        h_t = (1 - u_t) \odot h_{t-1} + u_t \odot c_t

    Takes and gives what `torch.nn.GRU` does, which it is by default (its gates r, z and n are r,
    u and c): stacked and bidirectional layers, packed and unbatched input, dropout between layers.
    `recurrent_matrices` gives :math:`W_r, W_u, W_c` layer by layer; `spectrum`, of shape
    (L D, G, N), and `orthogonality_error` tell of the G `confined` gates, or of all if none is.

    With LayerNorm the arguments of the three nonlinearities are normalised as in `RNN`, each over
    its own units: that of f as a whole, and so after the reset, on the left and on the right. With
    zoneout some units keep :math:`h_{t-1}` whatever the gates say.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units of each layer and direction.
        num_layers: How many layers are stacked.
        bias: Whether there are biases; modReLU owns one in place of :math:`b_c` and b, and without
            it is the identity.
        batch_first: Whether input and output are (B, T, .) in place of (T, B, .).
        dropout: The share of units that dropout silences between two layers while training.
        bidirectional: Whether a second network reads each layer's input from its end.
        device: Where the weights are made.
        dtype: The type of the weights; constraints stay in float32 or better.
        reset: A function of N that makes the constraint of :math:`W_r` of each layer and
            direction, such as `Exponential`.
        update: Likewise of :math:`W_u`.
        candidate: Likewise of :math:`W_c`.
        nonlinearity: The name of f: modrelu, tanh, relu, elu, leaky_relu or identity.
        reset_after: Whether the reset comes after :math:`W_c`, on the left above, or before it.
        update_keeps: Whether an update gate of one keeps the state, on the left above, or replaces
            it by the candidate.
        trainable_h0: Whether the states before the first step are trained.
        input_init: The start of each :math:`U_r` and :math:`U_u`, in place; every start is that of
            `torch.nn.GRU` by default.
        candidate_init: The start of each :math:`U_c`; `input_init` by default.
        reset_bias_init: The start of each :math:`b_r`.
        update_bias_init: The start of each :math:`b_u`.
        bias_init: The start of the bias inside f; zero by default.
        h0_init: The start of each trained state, in place; zero by default.
        layer_norm: Whether the arguments of the nonlinearities are normalised.
        zoneout: The rate at which a unit keeps its state for a step while training; in evaluation
            every unit keeps that share of it. `torch` draws the units from its global stream.
        locked_dropout: Whether dropout silences the same units at all steps of a sequence,
            instead of drawing them anew at each.
        backend: Which implementation of the recurrence to use; the fastest possible by default.
        generator: The source of the starting values; torch's global stream by default.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        h0: :math:`(L D, B, N)` or :math:`(L D, N)` for L layers of D directions.
        output: :math:`(T, B, D N)`, as the input is laid out.
        h_n: as h0.
    Raises:
        ValueError: If a size, the nonlinearity, a rate or a shape is wrong, or a constraint gives
            complex matrices.
        TypeError: If a function does not make a `Constraint`, or types differ.
    Source:
        Cho et al., EMNLP 2014. https://arxiv.org/abs/1406.1078 (departures: the reset after
        :math:`W_c`, as in `torch.nn.GRU`, by default; one bias where `torch.nn.GRU` adds two).
        LayerNorm: Ba, Kiros and Hinton, 2016, equation 4. https://arxiv.org/abs/1607.06450
        (departures: one norm of each sum, where their GRU has one for each of its two terms, the
        second before the reset). Zoneout: Krueger et al., ICLR 2017.
        https://arxiv.org/abs/1606.01305 (departures: none).
        Locked dropout: Gal and Ghahramani, NeurIPS 2016. https://arxiv.org/abs/1512.05287
        (departures: between layers alone, as in AWD-LSTM).
    Example:
        >>> layer = GRU(2, 8, candidate=Exponential, nonlinearity="modrelu")
        >>> layer(torch.randn(5, 3, 2))[0].shape, layer.orthogonality_error() < 1e-5
        (torch.Size([5, 3, 8]), tensor([[True]]))
    """

    backends = BACKENDS

    def __init__(  # noqa: PLR0913, torch.nn.GRU's own signature and a few more
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
        reset: Callable[[int], Constraint] = Unconstrained,
        update: Callable[[int], Constraint] = Unconstrained,
        candidate: Callable[[int], Constraint] = Unconstrained,
        nonlinearity: str = "tanh",
        reset_after: bool = True,
        update_keeps: bool = True,
        trainable_h0: bool = False,
        input_init: Initializer | None = None,
        candidate_init: Initializer | None = None,
        reset_bias_init: Initializer | None = None,
        update_bias_init: Initializer | None = None,
        bias_init: Initializer | None = None,
        h0_init: Initializer | None = None,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        locked_dropout: bool = False,
        backend: str | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            backend=backend,
            layer_norm=layer_norm,
            zoneout=zoneout,
            locked_dropout=locked_dropout,
        )
        self.nonlinearity = nonlinearity
        self.bias = bias
        self.reset_after = reset_after
        self.update_keeps = update_keeps
        make = partial(
            GatedDirection,
            hidden_size=self.hidden_size,
            reset=reset,
            update=update,
            candidate=candidate,
            nonlinearity=nonlinearity,
            bias=bias,
            reset_after=reset_after,
            update_keeps=update_keeps,
            trainable_h0=trainable_h0,
            input_init=input_init,
            candidate_init=candidate_init,
            reset_bias_init=reset_bias_init,
            update_bias_init=update_bias_init,
            bias_init=bias_init,
            h0_init=h0_init,
        )
        self._stack(make, generator, device, dtype)

    @property
    def confined(self) -> list[str]:
        """The names of those of reset, update and candidate whose matrix is confined to a set."""
        constraints = self.all_directions()[0].constraints()
        gates = zip(("reset", "update", "candidate"), constraints, strict=True)
        return [name for name, constraint in gates if constraint.constrained]

    def load_torch(self, torch_rnn: nn.GRU) -> Self:
        """Copy the weights of a `torch.nn.GRU`; of its two biases the gates get the sum.

        Raises:
            ValueError: If sizes, layers, directions, biases or the recurrence differ, or this
                layer has LayerNorm or zoneout.
            NotInSetError: If a recurrent matrix is not in the set of its constraint.
            TypeError: If the layer is of another kind.
        """
        check_same_shape(self, torch_rnn, nn.GRU)
        for name, expected in self._own_defaults().items():
            if getattr(self, name) != expected:
                raise ValueError(
                    f"expected a layer with {name}={expected!r}, as torch.nn.GRU is, "
                    f"got {getattr(self, name)!r}"
                )
        copy_weights(self.all_directions(), torch_rnn)
        return self

    def _own_defaults(self) -> dict[str, Any]:
        return {"nonlinearity": "tanh", "reset_after": True, "update_keeps": True}

    def _measured(self) -> Tensor:  # (L D, G, N, N)
        matrices = torch.stack(self.recurrent_matrices()).unflatten(0, (-1, 3))
        constraints = self.all_directions()[0].constraints()
        confined = [i for i, constraint in enumerate(constraints) if constraint.constrained]
        return matrices[:, confined or slice(None)]
