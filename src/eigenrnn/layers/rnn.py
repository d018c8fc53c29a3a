"""The recurrent layer: torch.nn.RNN with a constraint on its recurrent matrices."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Self

import torch
from torch import Generator, nn

from eigenrnn.constraints import Constraint, ScaledCayley
from eigenrnn.init import Initializer
from eigenrnn.layers.direction import Direction
from eigenrnn.layers.stacked import Stacked
from eigenrnn.layers.torch_weights import check_same_shape, copy_weights
from eigenrnn.ops.elman import BACKENDS

__all__ = ["RNN"]


class RNN(Stacked[Direction]):
    r"""Elman recurrent network whose recurrent matrices lie in sets of your choice.

    .. math:: h_t = f(U x_t + c + W h_{t-1}), \qquad W \in \mathcal S

    Takes and gives what `torch.nn.RNN` does: stacked and bidirectional layers, packed and
    unbatched input, dropout between layers. By default it is scoRNN: W is orthogonal by the scaled
    Cayley transform and f is modReLU, whose bias is then the only one.

    With LayerNorm the argument z of f is replaced by :math:`g \odot (z - \mu) / \sqrt{\sigma^2 +
    10^{-5}} + s`, where mean and variance are over the N units, and the gain g and the shift s are
    trained, from one and from zero. With zoneout some units keep :math:`h_{t-1}`.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units of each layer and direction.
        num_layers: How many layers are stacked.
        nonlinearity: The name of f: modrelu, tanh, relu, elu, leaky_relu, leaky_relu_0.1 or
            identity.
        bias: Whether there is a bias: inside modReLU, which owns one, else c. Without one modReLU
            is the identity.
        batch_first: Whether input and output are (B, T, .) in place of (T, B, .).
        dropout: The share of units that dropout silences between two layers while training.
        bidirectional: Whether a second network reads each layer's input from its end.
        device: Where the weights are made.
        dtype: The type of the weights; constraints stay in float32 or better.
        constraint: A function of N that makes the constraint of each layer and direction, such as
            ``partial(ScaledCayley, negative=85)``.
        input_bias: Whether there is a bias c; by default only if f owns none.
        trainable_h0: Whether the states before the first step are trained.
        input_init: The start of each U, in place: U(-0.01, 0.01) for modReLU, as in scoRNN, and
            that of `torch.nn.RNN` for all others by default.
        bias_init: The start of the biases, in place: zero inside f, and that of `torch.nn.RNN`
            for c, by default.
        input_bias_init: The start of c, in place, where it is not that of the bias inside f.
        h0_init: The start of the trained states, in place; zero by default.
        output: What a complex constraint gives: ``"real_imag"`` the real parts of the states, then
            the imaginary parts, 2N numbers; ``"real"`` the real parts, N numbers.
        layer_norm: Whether the argument of f is normalised; real states only. The norm of W then
            no longer bounds the gradient through a step, see the guide.
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
        ValueError: If a size, the nonlinearity, a rate or a shape is wrong, or complex states are
            to be normalised.
        TypeError: If `constraint` does not make a `Constraint`, or types differ.
    Source:
        Elman, Cognitive Science 14, 1990. https://doi.org/10.1207/s15516709cog1402_1
        (departures: one bias where `torch.nn.RNN` adds two). LayerNorm: Ba, Kiros and Hinton,
        2016, equation 4. https://arxiv.org/abs/1607.06450 (departures: none). Zoneout: Krueger et
        al., ICLR 2017. https://arxiv.org/abs/1606.01305 (departures: none).
        Locked dropout: Gal and Ghahramani, NeurIPS 2016. https://arxiv.org/abs/1512.05287
        (departures: between layers alone, as in AWD-LSTM).
    Example:
        >>> output, h_n = RNN(2, 8, num_layers=2)(torch.randn(5, 3, 2))
        >>> output.shape, h_n.shape
        (torch.Size([5, 3, 8]), torch.Size([2, 3, 8]))
    """

    backends = BACKENDS

    def __init__(  # noqa: PLR0913, torch.nn.RNN's own signature and a few more
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "modrelu",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        constraint: Callable[[int], Constraint] = ScaledCayley,
        input_bias: bool | None = None,
        trainable_h0: bool = False,
        input_init: Initializer | None = None,
        bias_init: Initializer | None = None,
        input_bias_init: Initializer | None = None,
        h0_init: Initializer | None = None,
        output: Literal["real_imag", "real"] = "real_imag",
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
        make = partial(
            Direction,
            hidden_size=self.hidden_size,
            constraint=constraint,
            nonlinearity=nonlinearity,
            bias=bias,
            input_bias=input_bias,
            trainable_h0=trainable_h0,
            input_init=input_init,
            bias_init=bias_init,
            input_bias_init=input_bias_init,
            h0_init=h0_init,
            output=output,
        )
        self._stack(make, generator, device, dtype)

    def load_torch(self, torch_rnn: nn.RNN) -> Self:
        """Copy the weights of a `torch.nn.RNN`, whose two biases become their sum.

        Raises:
            ValueError: If sizes, layers, directions, nonlinearity or biases differ, or this layer
                has LayerNorm or zoneout.
            NotInSetError: If a recurrent matrix is not in the set of its constraint.
            TypeError: If the layer is of another kind.
        """
        check_same_shape(self, torch_rnn, nn.RNN, ("nonlinearity",))
        copy_weights(self.all_directions(), torch_rnn)
        return self

    def _own_defaults(self) -> dict[str, Any]:
        return {"nonlinearity": None, "bias": True}  # the nonlinearity is always said
