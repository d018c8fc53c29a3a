"""The base class of a single layer in one direction, and how it fuses with a linear head."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, Self, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.nn import Parameter

from eigenrnn.constraints import BlockTriangular, Constraint
from eigenrnn.constraints.base import make_constraint
from eigenrnn.constraints.whole_numbers import WholeNumbers
from eigenrnn.init import Initializer
from eigenrnn.layers.regularisation import NormZoneout
from eigenrnn.linalg import at_least_float32
from eigenrnn.torch_internals import check_own_weights, hooked_weights, hooks_of_call
from eigenrnn.tracing import autocasts, check_weights

__all__ = [
    "AbstractDirection",
    "Blocks",
    "LayerConfig",
    "StackConfig",
    "by_block",
    "head_kwargs",
    "without_autocast",
]

_Result = TypeVar("_Result")

Blocks = Initializer | Sequence[Initializer | None] | None
"""The initialiser of a weight, or of each of its blocks of rows; None for that of the layer."""

# `to_complex` of a dtype cannot be compiled
_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


@dataclass(frozen=True)
class StackConfig:
    """The arguments of torch's layers, apart from their sizes; `Stacked` says what they mean."""

    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    device: torch.device | str | None
    dtype: torch.dtype | None


@dataclass(frozen=True)
class LayerConfig:
    """The sizes, the arguments of torch and the weights of a layer in one direction.

    Args:
        input_size: The number M of input features; above the first layer the output size of the
            layer below.
        hidden_size: The number N of hidden units.
        stack: The arguments of torch.
        constraints: For each recurrent matrix, in the order of `weight_hh`, the attribute of the
            direction and a function of N that returns its constraint.
        initializers: For each other weight, in the order of drawing: the name of its attribute
            and its initialisers, each of which fills an equal block of rows. A bias or an initial
            state without an entry is absent.
        layer_norm: Whether the arguments of the nonlinearities are normalised.
        zoneout: The zoneout probability.
        init: The function that draws the weights instead, as `RNN` describes it.
    """

    input_size: int
    hidden_size: int
    stack: StackConfig
    constraints: Mapping[str, Callable[[int], Constraint]]
    initializers: Mapping[str, Sequence[Initializer]]
    layer_norm: bool = False
    zoneout: float = 0.0
    init: Callable[..., Any] | None = None


class AbstractDirection(nn.Module, ABC):
    """One layer in one direction: an input map, constrained matrices and an initial state.

    A subclass adds its biases after this constructor, and implements `forward`. A state has
    S = N real numbers, or 2N if a recurrent matrix is complex.

    Args:
        config: The sizes, the constraints and the initialisers.
    Shape:
        weight_ih: :math:`(G S, M)` for G initialisers of `weight_ih`, one for each input map.
        weight_hh: :math:`(R N, N)`, the rows of the R recurrent matrices.
        input_bias: the bias added to the input map, or None.
        h0: :math:`(S,)`, or None.
    """

    input_bias: Parameter | None
    outputs_states = True  # whether the outputs are the states, or real parts of them
    rates: ClassVar[tuple[str, ...]] = ()
    """Names of rates and logarithms, which weight decay would pull to an arbitrary value."""

    has_matrix = True  # whether it has square matrices, which `init` and `weight_drop` may change

    gates: ClassVar[tuple[str, ...]] = ("hh",)
    """Names of the recurrent matrices, in the order of `matrices`."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        N = config.hidden_size
        self.hidden_size = N
        self.initializers = config.initializers
        self.matrix_names = tuple(config.constraints)
        for name, factory in config.constraints.items():
            with torch.random.fork_rng(devices=()):  # `reset` draws its parameters
                self.add_module(name, make_constraint(factory, N))
        is_complex = any(constraint.is_complex for constraint in self.constraints())
        self.state_size = 2 * N if is_complex else N
        self.output_size = self.state_size
        gates = len(config.initializers["weight_ih"])
        self.weight_ih = Parameter(torch.empty(gates * self.state_size, config.input_size))
        self.h0 = self._parameter("h0", self.state_size)
        self.norm_zoneout: NormZoneout | None = None
        if config.layer_norm or config.zoneout:
            self.norm_zoneout = NormZoneout(
                N, gates, config.layer_norm, config.zoneout, is_complex
            )
        self.weight_drop = 0.0  # set by the function of this name
        self.frozen: Tensor | None
        # a buffer, which moves with the layer; not saved, because the constraints are
        self.register_buffer("frozen", None, persistent=False)
        self.register_load_state_dict_pre_hook(_round_if_loaded)
        self.register_load_state_dict_post_hook(_unfreeze)

    def reset(
        self, generator: Generator | None = None, others: Mapping[str, Blocks] | None = None
    ) -> None:
        """Draw all weights again: first the input maps, then the recurrent matrices.

        Args:
            generator: The generator that draws them; torch's global one by default.
            others: Initialisers in place of those of the layer, by the name of the weight.
        Raises:
            ValueError: If a weight is computed from others, as by pruning.
        """
        check_own_weights(self)
        self.reset_constants()
        for name, own in self.initializers.items():
            weight = cast("Parameter", getattr(self, name)).detach()
            initializers = by_block((others or {}).get(name), own)
            for block, init in zip(weight.chunk(len(own)), initializers, strict=True):
                init(block, generator=generator)
            # a fixed place in the order of drawing, so equal seeds give equal weights
            if name == "weight_ih":
                for constraint in self.constraints():
                    constraint.reset(generator)

    def reset_constants(self) -> None:
        """Set what no generator draws to its initial value, such as the gain of LayerNorm."""
        self.frozen = None
        if self.norm_zoneout is not None:
            self.norm_zoneout.reset()

    # also in inference mode: its tensors could not take part in a later backward pass
    @torch.inference_mode(False)
    @torch.no_grad()
    def freeze(self) -> None:
        """Store the recurrent matrices as a plain tensor until training mode is set."""
        # a copy: a constraint may return its raw parameter itself
        self.frozen = self._cast(self._compute_matrices().detach().clone())

    def train(self, mode: bool = True) -> Self:
        """Set training mode; this discards the frozen matrices."""
        if mode:
            self.frozen = None
        return super().train(mode)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        is_frozen = self.frozen is not None
        self.frozen = None  # torch would make complex numbers real
        super()._apply(fn, recurse)
        # the checks of an input read them before a hook computes them again
        for name in hooked_weights(self):
            setattr(self, name, fn(getattr(self, name)))
        if is_frozen:
            self.freeze()
        return self

    @property
    def weight_hh(self) -> Tensor:  # (R N, N)
        """The recurrent matrices of a forward pass: the frozen ones, or those of the constraints.

        While training with `weight_drop`, dropout is applied to their entries.

        Raises:
            ValueError: If the storage of a weight was freed. Every forward pass begins here.
        """
        check_weights(self)
        frozen = self.frozen  # read once: another thread may unfreeze the layer
        return self._compute_matrices() if frozen is None else frozen

    def _cast(self, W: Tensor) -> Tensor:
        """Cast the recurrent matrices to the precision of the other weights, in 32 bits or more.

        In 16 bits an orthogonal matrix would not be orthogonal any more.
        """
        dtype = at_least_float32(self.weight_ih.dtype)
        if W.is_complex():
            dtype = _COMPLEX[dtype]
        if W.dtype == dtype:
            return W
        return W.to(dtype)

    def matrices(self) -> list[Tensor]:
        """Return each recurrent matrix, without dropout, in the order of `constraints`."""
        frozen = self.frozen
        W = self._concatenated() if frozen is None else frozen
        if len(W) == self.hidden_size:
            return [W]
        return list(W.split(self.hidden_size))

    def initial_state(self, batch_size: int) -> Tensor:  # (B, S)
        """Return the default initial state: the trained one, or zero."""
        if self.h0 is not None:
            # a copy, since the caller may write to it
            return self.h0.repeat(batch_size, 1).to(self.weight_ih.dtype)
        return self.weight_ih.new_zeros(batch_size, self.state_size)

    def norm_zoneout_kwargs(
        self,
        x: Tensor,  # (T, B, M)
    ) -> dict[str, Any]:
        """Return the arguments `layer_norm` and `zoneout` of the recurrence, if they are set."""
        if self.norm_zoneout is None:
            return {}
        return self.norm_zoneout(x)

    def norm_zoneout_of_step(self) -> dict[str, Any]:
        """Return the arguments `layer_norm` and `zoneout` of a single step in evaluation."""
        if self.norm_zoneout is None:
            return {}
        return self.norm_zoneout.in_evaluation()

    def input_weights(self) -> list[Tensor]:
        """Return the input weights of each gate; complex if its recurrent matrix is."""
        weights = list(self.weight_ih.chunk(len(self.gates)))
        if any(constraint.is_complex for constraint in self.constraints()):
            return [torch.complex(*parts.chunk(2)) for parts in weights]
        return weights

    def state_blocks(self) -> Mapping[str, slice]:
        """Name the parts of a state that have their own part of the recurrent matrix."""
        N = self.hidden_size
        constraints = self.constraints()
        if any(constraint.is_complex for constraint in constraints):
            return {"real": slice(0, N), "imaginary": slice(N, 2 * N)}
        if constraints and isinstance(constraints[0], BlockTriangular):
            long = constraints[0].long.size
            return {"long": slice(0, long), "short": slice(long, N)}
        return {}

    def state_bounds(self) -> Tensor | None:  # (S,)
        """Return the range of each entry of a state, which is never left; None without one."""
        return None

    def constraints(self) -> list[Constraint]:
        """Return the constraints of the recurrent matrices, in the order of weight_hh."""
        return [cast("Constraint", getattr(self, name)) for name in self.matrix_names]

    @abstractmethod
    def forward(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, S)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        backend: str | None = None,
        last_only: bool = False,
        resets: Tensor | None = None,  # (T, B)
    ) -> tuple[Tensor, Tensor]:  # (T, B, output size), (B, S)
        """Run over the whole sequence; return the outputs of all time steps and the last states.

        Both are real numbers, the parts of complex ones; the last states are as h0.

        With `last_only` and no gradient, the states of all time steps are not stored. Resets set
        the state to zero, and come only where `takes_resets` allows it.
        """

    def knows_gaps(self) -> bool:
        """Whether `forward` takes gaps in time, `dt`, (T, B)."""
        return False

    def takes_resets(self) -> bool:
        """Whether `forward` takes resets, which is so if the initial state is zero."""
        return self.h0 is None

    def fuses_head(self) -> bool:
        """Whether `forward` also takes V and d, and then returns outputs instead of all states."""
        return False

    def stepper(self) -> Any:
        """Return one time step with the frozen matrices packed, or None.

        None means that the compiled kernels do not compute it. All weights are on the processor.
        """
        return None

    def output_at(
        self,
        x: Tensor,  # (..., M)  # noqa: ARG002, the output of an LRU depends on it
        state: Tensor,  # (..., S)
    ) -> Tensor:  # (..., output size)
        """Return the output of a time step from its input and the state after it."""
        return state[..., : self.output_size]

    def load_biases(self, bias_ih: Tensor, bias_hh: Tensor) -> None:
        """Copy the two biases of a torch layer."""
        if self.input_bias is not None:
            self.input_bias.copy_(bias_ih + bias_hh)

    def torch_biases(self) -> tuple[Tensor, Tensor] | None:
        """Return the biases in the layout of a torch layer's two, or None if there are none."""
        if self.input_bias is None:
            return None
        return self.input_bias, torch.zeros_like(self.input_bias)

    def _parameter(self, name: str, size: int) -> Parameter | None:
        """Return a new vector, or None if it has no initialiser."""
        if name not in self.initializers:
            return None
        return Parameter(torch.empty(size))

    def _concatenated(self) -> Tensor:
        if len(self.matrix_names) == 1:  # `cat` would copy it
            return getattr(self, self.matrix_names[0])()
        return torch.cat([getattr(self, name)() for name in self.matrix_names])

    def _compute_matrices(self) -> Tensor:
        W = self._concatenated()
        if not (self.weight_drop and self.training):
            return W
        # torch's dropout does not accept complex tensors
        return W * F.dropout(torch.ones_like(W.real), self.weight_drop)


def without_autocast(method: Callable[..., _Result]) -> Callable[..., _Result]:
    """Decorate a method of x and a state: autocast does not change the dtype in it."""

    @wraps(method)
    def decorated(
        direction: AbstractDirection,
        x: Tensor,  # (..., M)
        state: Tensor,  # (..., S)
        *arguments: Any,
        **options: Any,
    ) -> _Result:
        if not autocasts(x.device.type):
            return method(direction, x, state, *arguments, **options)
        dtype = direction.weight_ih.dtype
        with torch.autocast(x.device.type, enabled=False):
            return method(direction, x.to(dtype), state.to(dtype), *arguments, **options)

    return decorated


def by_block(given: Blocks, own: Sequence[Initializer]) -> Sequence[Initializer]:
    """Return the initialiser of each block of a weight: the given one, or else its own.

    Raises:
        ValueError: If there is not one for all blocks, or one for each.
    """
    if given is None:
        return own
    if callable(given):
        return [given] * len(own)
    if not isinstance(given, list | tuple):
        raise ValueError(f"expected an initialiser or a tuple of them, got {given!r}")
    if len(given) != len(own):
        raise ValueError(f"expected one initialiser or {len(own)} of them, got {len(given)}")
    return [each or default for each, default in zip(given, own, strict=True)]


def _round_if_loaded(
    direction: AbstractDirection, state: dict[str, Any], prefix: str, *_arguments: object
) -> None:
    """Take sets of whole numbers for the matrices that are rounded in a state_dict."""
    for name, constraint in zip(direction.matrix_names, direction.constraints(), strict=True):
        if f"{prefix}{name}.integers" in state and not isinstance(constraint, WholeNumbers):
            numbers = WholeNumbers(constraint.size).to(constraint.device, constraint.dtype)
            setattr(direction, name, numbers)


def _unfreeze(direction: AbstractDirection, _keys: object) -> None:
    direction.frozen = None  # the frozen matrices belong to the weights before the load


def head_kwargs(head: nn.Linear, direction: AbstractDirection) -> dict[str, Tensor | None]:
    """Return the arguments with which a direction computes the outputs of a linear head.

    Empty if the direction does not support a head, or if the head does more than a linear map: it
    has hooks, parametrisations or its own `forward`.
    """
    if type(head) is not nn.Linear or not direction.fuses_head():
        return {}
    if "forward" in vars(head) or any(hooks_of_call(head)):
        return {}
    return {"V": head.weight, "d": head.bias}
