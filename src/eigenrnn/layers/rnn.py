"""The recurrent layer: torch.nn.RNN with a constraint on its recurrent matrices."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, Unpack, cast

import torch
from torch import Tensor, nn

from eigenrnn.constraints import Constraint, ScaledCayley
from eigenrnn.init import Initializer, fan_uniform_, uniform_, zeros_
from eigenrnn.layers.direction import AbstractDirection, LayerConfig, StackConfig
from eigenrnn.layers.leak import Leak, LeakOptions
from eigenrnn.layers.options import LayerOptions
from eigenrnn.layers.stacked import LikeTorch
from eigenrnn.linalg import at_least_float32, complex_to_halves
from eigenrnn.nonlinearities import nonlinearity as look_up
from eigenrnn.ops import elman
from eigenrnn.ops.arguments import Options, to_float32
from eigenrnn.ops.compiled import activation, make_stepper
from eigenrnn.ops.dispatch import exports_scan
from eigenrnn.ops.elman import BACKENDS, ElmanOperands
from eigenrnn.ops.elman.elman import export_complex_elman
from eigenrnn.ops.precision import products_of_float32

__all__ = ["RNN", "RNNDirection", "elman_initializers"]


class RNNDirection(AbstractDirection):
    r"""One layer in one direction: an input map, a recurrent matrix and their biases.

    .. math:: h_t = f(U x_t + c + W h_{t-1}), \qquad W = \text{constraint}()

    If W is complex, so are U, c and the states. They are stored as real numbers: the real parts
    first, then the imaginary parts.

    Args:
        config: The sizes, the constraint of W and the initialisers of U, c, the bias inside f and
            the initial state.
        nonlinearity: The name of f.
        output: The output for complex states: ``"real_imag"`` for both parts, ``"real"`` for the
            real part.
        leak: The leak and the noise of a `LeakyRNN`.
    Shape:
        weight_ih: :math:`(N, M)`, U; :math:`(2N, M)` if W is complex.
        bias: :math:`(N,)`, the bias inside f, or None.
        input_bias: :math:`(N,)`, c, or :math:`(2N,)`, or None.
        h0: :math:`(N,)`, or :math:`(2N,)`, or None.
    Raises:
        ValueError: If the nonlinearity or the leak is not defined on complex states, or `output`
            is unknown.
        TypeError: If `constraint` does not return a `Constraint`.
    """

    constraint: Constraint

    def __init__(
        self,
        config: LayerConfig,
        nonlinearity: str,
        output: Literal["real_imag", "real"] = "real_imag",
        leak: LeakOptions | None = None,
    ) -> None:
        super().__init__(config)
        if self.constraint.is_complex and not look_up(nonlinearity).supports_complex:
            raise ValueError(
                f"expected modrelu or identity, as {type(self.constraint).__name__} is complex, "
                f"got {nonlinearity!r}"
            )
        if output not in ("real_imag", "real"):
            raise ValueError(f"expected output to be 'real_imag' or 'real', got {output!r}")
        if output == "real":
            self.output_size = self.hidden_size
        self.nonlinearity = nonlinearity
        self.bias = self._parameter("bias", self.hidden_size)
        self.input_bias = self._parameter("input_bias", self.state_size)
        self.leak: Leak | None = None
        if leak is not None:
            if self.constraint.is_complex:
                raise ValueError(
                    "expected a set of real matrices, because a leak needs real states, got "
                    f"complex {self.constraint}"
                )
            self.leak = Leak(self.hidden_size, leak)
            self.outputs_states = leak.state == "rate"

    def reset_constants(self) -> None:
        super().reset_constants()
        if self.leak is not None:
            self.leak.reset()

    def forward(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, S)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        backend: str | None = None,
        last_only: bool = False,
        resets: Tensor | None = None,  # (T, B)
        dt: Tensor | None = None,  # (T, B)
        V: Tensor | None = None,  # (K, N)
        d: Tensor | None = None,  # (K,)
    ) -> tuple[Tensor, Tensor]:  # (T, B, N) or (T, B, K), (B, N)
        W = self._cast(self.weight_hh)  # the constraint is evaluated here and nowhere else
        bias = self.bias
        weight: Tensor | None = self.weight_ih
        c = self.input_bias
        if W.is_complex():
            if exports_scan(backend):
                # nothing else can be set: LayerNorm is not defined on complex states
                zoneout = self.norm_zoneout_kwargs(x).get("zoneout")
                operands = ElmanOperands(x=x, W=W, h0=h0, bias=bias, U=weight, c=c)
                options = Options(self.nonlinearity, reverse=reverse)
                if isinstance(zoneout, Tensor):
                    operands = operands._replace(mask=zoneout)
                elif zoneout is not None:
                    options = options._replace(rate=zoneout)
                lengths = cast("Tensor | None", batch_sizes)
                h, last = export_complex_elman(to_float32(operands), options, lengths)
                return h[..., : self.output_size].to(weight.dtype), last.to(weight.dtype)
            # the states are in complex64 or better, see `_cast`
            x = x.to(at_least_float32(x.dtype))
            h0 = _as_complex(h0)
            # stored as real parts above imaginary ones, so each column of U is a complex vector
            weight = _as_complex(self.weight_ih.T).T
            if bias is not None:
                bias = bias.to(at_least_float32(bias.dtype))
            if c is not None:
                c = _as_complex(c)
        extras: dict[str, Any] = {}
        if self.norm_zoneout is not None:
            extras = self.norm_zoneout(x)
        leak = self.leak
        if leak is not None:
            extras |= leak.kwargs(dt)
            if leak.is_noisy:
                # the noise is added to mapped inputs, so the recurrence gets no map
                x = leak.noisy_inputs(x, self.weight_ih, c, extras.get("leak"))
                weight = None
                c = None
        h, last = elman(
            x,
            W,
            h0,
            bias,
            U=weight,
            c=c,
            V=V,
            d=d,
            nonlinearity=self.nonlinearity,
            batch_sizes=batch_sizes,
            reverse=reverse,
            backend=backend,
            last_only=last_only,
            resets=resets,
            **extras,
        )
        if not W.is_complex():
            return h, last
        if self.output_size == self.hidden_size:
            return h.real.to(self.weight_ih.dtype), self._as_real(last)
        return self._as_real(h), self._as_real(last)

    def knows_gaps(self) -> bool:
        return self.leak is not None

    def takes_resets(self) -> bool:
        # the value of f at an argument of zero may differ from zero
        return self.outputs_states and super().takes_resets()

    def fuses_head(self) -> bool:
        return not self.constraint.is_complex

    def stepper(self) -> Any:
        # the compiled steps have real states, without noise
        if self.constraint.is_complex:
            return None
        leak = self.leak
        if leak is not None and leak.is_noisy:
            return None
        extras = self.norm_zoneout_of_step()
        if leak is not None:
            extras |= leak.kwargs()
        W = self.weight_hh
        gain, shift = extras.get("layer_norm", (None, None))
        weights = {
            "W": W,
            "bias": self.bias,
            "U": self.weight_ih,
            "c": self.input_bias,
            "leak": extras.get("leak"),
            "gain": gain,
            "shift": shift,
        }
        options = {
            "N": self.hidden_size,
            "M": self.weight_ih.shape[1],
            "rate": extras.get("zoneout", 0.0),
            "products": products_of_float32(W),
        }
        kind = "elman" if self.outputs_states else "current"
        return make_stepper(kind, weights, options | activation(self.nonlinearity, self.bias))

    def state_bounds(self) -> Tensor | None:  # (N,)
        # of a current, only its tanh has a range
        if self.nonlinearity != "tanh" or not self.outputs_states:
            return None
        return torch.ones(self.hidden_size)

    def output_at(self, x: Tensor, state: Tensor) -> Tensor:
        if self.outputs_states:
            return super().output_at(x, state)
        return look_up(self.nonlinearity).forward(state, self.bias)

    def _as_real(
        self,
        h: Tensor,  # (..., N), complex
    ) -> Tensor:  # (..., 2 N)
        return complex_to_halves(h).to(self.weight_ih.dtype)


def _as_complex(
    parts: Tensor,  # (..., 2N)
) -> Tensor:  # (..., N)
    real, imaginary = parts.to(at_least_float32(parts.dtype)).chunk(2, dim=-1)
    return torch.complex(real, imaginary)


class RNN(LikeTorch[RNNDirection]):
    r"""Elman RNN whose recurrent matrix W is constrained to a set S of your choice.

    .. math:: h_t = f(U x_t + c + W h_{t-1}), \qquad W \in \mathcal S

    Inputs, outputs and options are those of `torch.nn.RNN`: stacked and bidirectional layers,
    packed and unbatched input, dropout between layers. The default is scoRNN: W is orthogonal
    through the scaled Cayley transform, and f is modReLU, whose bias is then the only one.

    LayerNorm replaces the argument z of f by :math:`g \odot (z - \mu) / \sqrt{\sigma^2 +
    10^{-5}} + s`, with mean and variance over the N units. The gain g is initialised to one and
    the shift s to zero; both are trained. With zoneout some units keep :math:`h_{t-1}`.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units in each layer and direction.
        num_layers: The number of stacked layers.
        nonlinearity: The name of f: modrelu, tanh, relu, elu, leaky_relu, leaky_relu_0.1,
            softplus, retanh (the tanh of the positive part) or identity.
        bias: Whether the layer has a bias: inside f if f is modReLU, and c otherwise. modReLU
            without a bias is the identity. Under torch's names c is ``bias_ih_l0``, and
            ``bias_hh_l0`` is zero.
        constraint: A function of N that returns the constraint of W, such as
            ``partial(ScaledCayley, negative=85)``; called once for each layer and direction.
        input_bias: Whether there is a bias c; by default only if f has no bias of its own.
        init: A function that draws all weights, ``init(layer, generator=generator)``, such as
            ``partial(weights_, weight_ih=kaiming_normal_)``. By default U is drawn from
            U(-0.01, 0.01) for modReLU, as in scoRNN, and otherwise as in `torch.nn.RNN`, like c.
            The bias inside f and trained initial states are zero.
        output: The output if W is complex: ``"real_imag"`` for 2N numbers, the real parts of the
            states and then the imaginary parts; ``"real"`` for the N real parts.
        layer_norm: Whether the argument of f is normalised; only for real states. The norm of W
            then no longer bounds the gradient through a time step.
        zoneout: The probability that a unit keeps its state for a time step while training; in
            evaluation the new state is the expected one. The masks come from torch's global
            generator.
        options: The other arguments of torch, and the options of every layer; see `Stacked`.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        h0: :math:`(L D, B, N)` or :math:`(L D, N)` for L layers of D directions.
        output: :math:`(T, B, D N)`, in the layout of the input.
        h_n: as h0.
    Raises:
        ValueError: If a size, the nonlinearity, a probability or a shape is invalid, or
            `layer_norm` is set with a complex constraint.
        TypeError: If `constraint` does not return a `Constraint`, or dtypes differ.
    Source:
        Elman, Cognitive Science 14, 1990. https://doi.org/10.1207/s15516709cog1402_1
        (departures: one bias instead of the two of `torch.nn.RNN`). LayerNorm: Ba, Kiros and
        Hinton, 2016, equation 4. https://arxiv.org/abs/1607.06450 (departures: none). Zoneout:
        Krueger et al., ICLR 2017. https://arxiv.org/abs/1606.01305 (departures: none).
        Locked dropout: Gal and Ghahramani, NeurIPS 2016. https://arxiv.org/abs/1512.05287
        (departures: only between layers, as in AWD-LSTM).
    Example:
        >>> output, h_n = RNN(2, 8, num_layers=2)(torch.randn(5, 3, 2))
        >>> output.shape, h_n.shape
        (torch.Size([5, 3, 8]), torch.Size([2, 3, 8]))
    """

    backends = BACKENDS
    torch_kind = nn.RNN
    torch_options = ("nonlinearity",)

    def __init__(
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
        output: Literal["real_imag", "real"] = "real_imag",
        init: Callable[..., Any] | None = None,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        **options: Unpack[LayerOptions],
    ) -> None:
        self.nonlinearity = nonlinearity
        stack = StackConfig(num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        constraints = {"constraint": constraint}
        initializers = elman_initializers(nonlinearity, bias, input_bias)
        config = LayerConfig(
            input_size, hidden_size, stack, constraints, initializers, layer_norm, zoneout, init
        )
        make_direction = partial(RNNDirection, nonlinearity=nonlinearity, output=output)
        super().__init__(make_direction, config, **options)

    def check_torch_form(self) -> None:
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                "expected nonlinearity 'tanh' or 'relu', the only ones of torch.nn.RNN, got "
                f"{self.nonlinearity!r}"
            )

    def _recurrence_defaults(self) -> dict[str, Any]:
        return {"nonlinearity": None, "bias": True}  # None: the repr always names the nonlinearity


def elman_initializers(
    nonlinearity: str, bias: bool, input_bias: bool | None
) -> dict[str, Sequence[Initializer]]:
    """Return the initialisers of U and the biases, in the order of drawing."""
    f = look_up(nonlinearity)
    if input_bias is None:
        input_bias = bias and not f.has_bias
    # the order of the entries is that of drawing: equal seeds give equal weights
    initializers: dict[str, Sequence[Initializer]] = {"weight_ih": [fan_uniform_]}
    if f.has_bias:
        initializers["weight_ih"] = [uniform_]
    if input_bias:
        initializers["input_bias"] = [fan_uniform_]
    if bias and f.has_bias:
        initializers["bias"] = [zeros_]
    return initializers
