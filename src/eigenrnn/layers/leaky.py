"""The recurrent layer of neuroscience: a leak, noise, and rates or currents as its state."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Unpack

import torch
from torch import nn

from eigenrnn.constraints import Constraint, Unconstrained
from eigenrnn.layers.direction import LayerConfig, StackConfig
from eigenrnn.layers.leak import LeakOptions, LeakValues
from eigenrnn.layers.options import LayerOptions
from eigenrnn.layers.rnn import RNNDirection, elman_initializers
from eigenrnn.layers.stacked import Stacked
from eigenrnn.ops.elman import BACKENDS

__all__ = ["LeakyRNN"]


class LeakyRNN(Stacked[RNNDirection]):
    r"""The network that neuroscience trains: an Elman RNN with a leak and noise.

    .. math:: h_t = (1 - \alpha) h_{t-1} + \alpha f\Bigl(U x_t + c + W h_{t-1} +
        \sqrt{2 / \alpha}\, \sigma\, \xi_t\Bigr), \qquad \xi_t \sim \mathcal N(0, I)

    Here :math:`\alpha = \Delta t / \tau`, the time step over the time constant of a unit. With
    ``state="current"`` the state is the argument of f instead of its value:

    .. math:: v_t = (1 - \alpha) v_{t-1} + \alpha \Bigl(U x_t + c + W f(v_{t-1}) +
        \sqrt{2 / \alpha}\, \sigma\, \xi_t\Bigr), \qquad h_t = f(v_t)

    The output is then :math:`h_t`, while h0 and h_n are v. LayerNorm takes the bracket of
    either formula, noise included. With ``constraint=Dale`` each unit excites or inhibits all
    others.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units in each layer and direction.
        num_layers: The number of stacked layers.
        nonlinearity: The name of f, as in `RNN`.
        bias: Whether the layer has a bias, as in `RNN`.
        leak: The leak :math:`\alpha` in (0, 1], one number or one for each unit; by default a time
            step of 20 ms over a time constant of 100 ms.
        trainable_leak: Whether each unit's leak is trained, as the logistic function of a
            parameter that begins at `leak`.
        noise: The standard deviation :math:`\sigma`; noise is drawn while training, from torch's
            global generator, as dropout is.
        noise_in_eval: Whether it is drawn in evaluation too.
        state: Whether the state is the value of f, ``"rate"``, or its argument, ``"current"``.
        constraint: A function of N that returns the constraint of W, a set of real matrices.
        input_bias: Whether there is a bias c; by default only if f has no bias of its own.
        init: A function that draws all weights, as in `RNN`.
        layer_norm: Whether the bracket is normalised, as in `RNN`.
        options: The other arguments of torch, and the options of every layer; see `Stacked`.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        h0: :math:`(L D, B, N)` or :math:`(L D, N)` for L layers of D directions.
        output: :math:`(T, B, D N)`, in the layout of the input.
        h_n: as h0.
    Raises:
        ValueError: If a size, the nonlinearity, a probability, the leak, the noise or a shape is
            invalid, or the constraint is complex.
        TypeError: If `constraint` does not return a `Constraint`, or dtypes differ.
    Source:
        Song, Yang and Wang, PLoS Computational Biology 12, 2016, equations 5 and 6.
        https://doi.org/10.1371/journal.pcbi.1004792 (departures: they use ``state="current"``).
    Example:
        >>> layer = LeakyRNN(2, 8, leak=0.1, noise=0.05, constraint=Dale)
        >>> layer(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    backends = BACKENDS
    torch_kind = nn.RNN

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "relu",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        leak: LeakValues = 0.2,
        trainable_leak: bool = False,
        noise: float = 0.0,
        noise_in_eval: bool = False,
        state: Literal["rate", "current"] = "rate",
        constraint: Callable[[int], Constraint] = Unconstrained,
        input_bias: bool | None = None,
        init: Callable[..., Any] | None = None,
        layer_norm: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        self.nonlinearity = nonlinearity
        # on the processor, whatever the default device is; a copy, because `reset` uses it again,
        # and the user may have changed the tensor by then
        values = torch.as_tensor(leak, dtype=torch.float64, device="cpu").detach().clone()
        if values.shape not in ((), (hidden_size,)):
            raise ValueError(
                f"expected one leak or {hidden_size} of them, got shape {tuple(values.shape)}"
            )
        leaks = LeakOptions(values, trainable_leak, noise, noise_in_eval, state)
        stack = StackConfig(num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        constraints = {"constraint": constraint}
        initializers = elman_initializers(nonlinearity, bias, input_bias)
        config = LayerConfig(
            input_size, hidden_size, stack, constraints, initializers, layer_norm, init=init
        )
        make_direction = partial(RNNDirection, nonlinearity=nonlinearity, leak=leaks)
        super().__init__(make_direction, config, **options)
        for direction in self.all_directions():
            direction.reset_constants()  # again: the leak, in the dtype of the weights

    def _features(self) -> list[str]:
        features = [*super()._features(), "leak"]
        if not self.all_directions()[0].outputs_states:
            features.append("current")
        return features

    def _recurrence_defaults(self) -> dict[str, Any]:
        return {"nonlinearity": None, "bias": True}  # None: the repr always names the nonlinearity
