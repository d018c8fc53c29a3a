"""Initialisers of whole recurrent layers: torch's, and ours with an unconstrained matrix."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import torch
from torch import Generator, nn
from torch.nn.utils import parametrize

from eigenrnn.init.matrices import (
    ChainDirection,
    Initializer,
    chain_,
    fan_normal_,
    fan_uniform_,
    feedback_chain_,
    identity_,
    orthogonal_,
    ramp_,
    source_,
    zeros_,
)

__all__ = ["Kind", "recurrent_", "weights_"]

Kind = Literal["chain", "feedback_chain", "identity", "ortho", "plain", "mixed"]

_Module = TypeVar("_Module", bound=nn.Module)

# the index of the tanh gate by the number of gates: g of i, f, g, o in an LSTM, n of r, z, n in a
# GRU
_TANH_GATE = {1: 0, 3: 2, 4: 2}


@dataclass(frozen=True)
class _Initializers:
    """The initialiser of each kind of weight."""

    tanh: Initializer  # W of the tanh gate, or of a network without gates
    sigmoid: Initializer  # W of the other gates
    input: Initializer
    bias: Initializer = zeros_


@torch.no_grad()
def recurrent_(
    module: _Module,
    kind: Kind = "chain",
    *,
    gain: float | None = None,
    beta: float = 0.01,
    direction: ChainDirection = "forward",
    generator: Generator | None = None,
) -> _Module:
    r"""Initialise the weights of every layer, direction and gate of a recurrent module.

    With a chain the input matrices become 0.9 I, which feeds the source of the chain. With
    identity and orthogonal matrices they are drawn with standard deviation
    :math:`0.9 / \sqrt N`. Biases become zero. The kind ``"plain"`` is torch's initialisation,
    biases included.

    Args:
        module: A `torch.nn.RNN`, `LSTM` or `GRU`, one of their cells, or a layer of
            `eigenrnn.layers` whose constraint contains the matrix, such as `Unconstrained`;
            changed in place.
        kind: ``"chain"``, ``"feedback_chain"``, ``"identity"``, ``"ortho"`` or ``"plain"`` for all
            gates alike; ``"mixed"`` for a ramp in the sigmoid gates of an LSTM or GRU and a chain
            in its tanh gate.
        gain: :math:`\alpha` of the chain or :math:`\lambda` of the others: by default 0.99 with
            feedback, 1.02 if mixed, else 1.
        beta: The weight of a feedback chain from each unit to the previous one.
        direction: ``"forward"``, in which unit i drives unit i + 1, as in the paper, or
            ``"backward"`` as in the released code for torch; see `chain_`.
        generator: The random generator; torch's global one by default.
    Returns:
        The module.
    Raises:
        ValueError: If the kind is unknown or does not fit the module, the module holds no such
            weights, or its recurrent matrices are complex or not square (``proj_size``).
        NotInSetError: If a constraint does not contain the matrix.
    Source:
        Orhan and Pitkow, ICLR 2020. https://arxiv.org/abs/1905.13715 (departures: the paper does
        not state the initial biases of its torch models, nor the input matrix of the mixed LSTM,
        and has no mixed GRU).
    Example:
        >>> lstm = recurrent_(torch.nn.LSTM(2, 4), "mixed")
        >>> lstm.weight_hh_l0[8:12].diagonal(-1)
        tensor([1.0200, 1.0200, 1.0200], grad_fn=<DiagonalBackward0>)
    """
    initializers = _initializers(kind, gain, beta, direction)
    ours: Any = module
    if hasattr(module, "all_directions"):
        directions = ours.all_directions()
        if not directions[0].has_matrix or any(c.is_complex for c in directions[0].constraints()):
            raise ValueError(
                f"expected a layer with real recurrent matrices, got {type(module).__name__}"
            )
        for each in directions:
            _fill_ours(each, kind, initializers, generator)
    elif isinstance(module, nn.RNNBase | nn.RNNCellBase):
        _fill_torch(module, kind, initializers, generator)
    else:
        raise ValueError(f"expected a recurrent layer, got {type(module).__name__}")
    return module


@torch.no_grad()
def weights_(layer: Any, *, generator: Generator | None = None, **initializers: Any) -> Any:
    """Draw all weights of a layer of ours again, some of them with other initialisers.

    The order of the draws is that of the layer: in each direction the input maps, the recurrent
    matrices, the biases and the initial state. With ``init=partial(weights_, ...)`` a layer is
    drawn in this way when it is made.

    Args:
        layer: The layer; changed in place.
        generator: The random generator; torch's global one by default.
        initializers: The initialiser of a weight, by its name in ``layer.all_directions()``, such
            as `weight_ih`, `input_bias` or `h0`; a weight that the layer lacks is left out. A
            tuple has one for each block of rows, such as the gates of a `GRU`, and None for that
            of the layer.
    Returns:
        The layer.
    Raises:
        ValueError: If no layer has a weight of such a name, or a tuple has another length.
    Source:
        Not a published method.
    Example:
        >>> layer = GRU(2, 8, init=partial(weights_, gate_bias=(zeros_, None)))
        >>> layer.all_directions()[0].gate_bias[:8].any()
        tensor(False)
    """
    for direction in layer.all_directions():
        for name in initializers:
            if not isinstance(getattr(direction, name, 0), nn.Parameter | None):
                known = ", ".join(direction.initializers)
                raise ValueError(f"expected weights of the layer ({known}), got {name!r}")
        direction.reset(generator, initializers)
    return layer


def _initializers(
    kind: str, gain: float | None, beta: float, direction: ChainDirection
) -> _Initializers:
    """Return the initialisers of a kind.

    Raises:
        ValueError: If there is no such kind.
    """
    alpha: dict[str, float] = {}
    scale: dict[str, float] = {}
    if gain is not None:
        alpha = {"alpha": gain}
        scale = {"scale": gain}
    chain = partial(chain_, direction=direction, **alpha)
    feedback_chain = partial(feedback_chain_, beta=beta, direction=direction, **alpha)
    # 1.02 is that of the paper's mixed LSTM
    mixed_chain = partial(chain_, direction=direction, **{"alpha": 1.02, **alpha})
    ramp = partial(ramp_, direction=direction)
    identity = partial(identity_, **scale)
    ortho = partial(orthogonal_, **scale)
    kinds = {
        "chain": _Initializers(tanh=chain, sigmoid=chain, input=source_),
        "feedback_chain": _Initializers(
            tanh=feedback_chain, sigmoid=feedback_chain, input=source_
        ),
        "identity": _Initializers(tanh=identity, sigmoid=identity, input=fan_normal_),
        "ortho": _Initializers(tanh=ortho, sigmoid=ortho, input=fan_normal_),
        "plain": _Initializers(
            tanh=fan_uniform_, sigmoid=fan_uniform_, input=fan_uniform_, bias=fan_uniform_
        ),
        "mixed": _Initializers(tanh=mixed_chain, sigmoid=ramp, input=source_),
    }
    if kind not in kinds:
        raise ValueError(f"expected kind to be one of {list(kinds)}, got {kind!r}")
    return kinds[kind]


def _fill_torch(
    module: nn.RNNBase | nn.RNNCellBase,
    kind: str,
    initializers: _Initializers,
    generator: Generator | None,
) -> None:
    """Fill each gate's block of each weight.

    Raises:
        ValueError: If the module has no square recurrent matrices of its own, or too few gates.
    """
    n = module.hidden_size
    if parametrize.is_parametrized(module) or getattr(module, "proj_size", 0):
        raise ValueError(f"expected plain and square recurrent matrices, got {module}")
    # torch stacks the gates: a matrix of 4 n rows has four of them
    gates = next(len(w) for name, w in module.named_parameters() if "weight_hh" in name) // n
    _check_gates(kind, gates)
    for name, weight in module.named_parameters():
        for gate, block in enumerate(weight.split(n)):
            if name.startswith("weight_ih"):
                fill = initializers.input
            elif not name.startswith("weight_hh"):
                fill = initializers.bias
            elif gate == _TANH_GATE[gates]:
                fill = initializers.tanh
            else:
                fill = initializers.sigmoid
            fill(block, generator=generator)


def _fill_ours(
    direction: Any, kind: str, initializers: _Initializers, generator: Generator | None
) -> None:
    """Fill one layer and direction of ours, each W through its constraint.

    Raises:
        ValueError: If there are too few gates.
    """
    n = direction.hidden_size
    direction.frozen = None
    constraints = direction.constraints()
    _check_gates(kind, len(constraints))
    for gate, constraint in enumerate(constraints):
        W = torch.empty(n, n, dtype=constraint.dtype, device=constraint.device)
        fill = initializers.sigmoid
        if gate == _TANH_GATE[len(constraints)]:
            fill = initializers.tanh
        constraint.assign(fill(W, generator=generator))
    for name, weight in direction.named_parameters(recurse=False):
        for block in weight.split(n):
            if name == "weight_ih":
                initializers.input(block, generator=generator)
            elif name == "bias":  # that of modReLU
                zeros_(block)
            elif "bias" in name:
                initializers.bias(block, generator=generator)


def _check_gates(kind: str, gates: int) -> None:
    if kind == "mixed" and gates == 1:
        raise ValueError("expected an LSTM or a GRU for kind='mixed', got a network without gates")
