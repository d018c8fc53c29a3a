"""Puts a constraint on a matrix of any torch module."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from eigenrnn.constraints.base import Constraint, make_constraint
from eigenrnn.torch_internals import weight_names

__all__ = ["constrain", "rebuild_each_pass"]

_Module = TypeVar("_Module", bound=nn.Module)

# in the order of their rows
_GATES = {nn.GRU: "rzn", nn.GRUCell: "rzn", nn.LSTM: "ifgo", nn.LSTMCell: "ifgo"}


class ConstrainedRows(nn.Module):
    """A matrix in which constraints give square blocks of rows; the other rows are free.

    Args:
        blocks: The first row of each block and its constraint.
    Shape:
        free: :math:`(F, N)`, the unconstrained rows, in order.
    """

    def __init__(self, blocks: list[tuple[int, Constraint]]) -> None:
        super().__init__()
        blocks = sorted(blocks, key=lambda block: block[0])
        self.rows = [row for row, _ in blocks]
        self.constraints = nn.ModuleList([constraint for _, constraint in blocks])

    def blocks(self) -> list[tuple[int, Constraint]]:
        """Return the first row of each block and its constraint, from the top."""
        return list(zip(self.rows, cast("list[Constraint]", list(self.constraints)), strict=True))

    def forward(
        self,
        free: Tensor,  # (F, N)
    ) -> Tensor:  # (R, N)
        if torch.compiler.is_compiling() or not _local.passes:
            return self._assemble(free)
        # a torch layer reads its weights several times in one pass: the constraint runs once
        matrices = _local.passes[-1]
        if id(self) not in matrices:
            matrices[id(self)] = self._assemble(free)
        return matrices[id(self)]

    def _assemble(self, free: Tensor) -> Tensor:
        pieces: list[Tensor] = []
        taken = 0  # free rows in the pieces
        filled = 0  # all rows in the pieces
        for row, constraint in self.blocks():
            gap = row - filled
            pieces.append(free[taken : taken + gap])
            pieces.append(constraint().to(free))
            taken += gap
            filled = row + constraint.size
        pieces.append(free[taken:])
        return torch.cat(pieces)

    def right_inverse(
        self,
        weight: Tensor,  # (R, N)
    ) -> Tensor:  # (F, N)
        pieces: list[Tensor] = []
        filled = 0
        for row, constraint in self.blocks():
            pieces.append(weight[filled:row])
            filled = row + constraint.size
            block = weight[row:filled]
            # many raw parameters may give one matrix: an unchanged block keeps its own
            if not (block.is_meta or torch.equal(block, constraint().to(block))):
                constraint.assign(block)
        pieces.append(weight[filled:])
        return torch.cat(pieces)


def constrain(
    module: _Module,
    name: str,
    constraint: Callable[[int], Constraint],
    rows: str | slice | None = None,
) -> _Module:
    """Constrain a matrix of a module and initialise it by the constraint.

    The parameter `name` becomes a function of the constraint's raw parameters, so build the
    optimiser afterwards. The raw parameters are trained even if the parameter was frozen.
    Unconstrained rows stay free parameters, trained or frozen as before. A second call with other
    rows of the same matrix adds a second constraint. Assigning to the attribute sets the raw
    parameters. Under autocast a torch layer rounds the matrix to 16 bits, so it leaves its set:
    switch autocast off around the layer.

    Args:
        module: Any module, such as a `torch.nn.Linear` or `torch.nn.LSTM`; changed in place.
        name: The name of one of its parameters, such as ``"weight_hh_l0"``.
        constraint: A function of the size N, such as `ScaledCayley` or a `partial` of it.
        rows: The N rows to constrain: a gate's letter (``"r", "z", "n"`` of a GRU,
            ``"i", "f", "g", "o"`` of an LSTM), a slice, or None for all rows of a square matrix.
    Returns:
        The module.
    Raises:
        TypeError: If `constraint` does not return a `Constraint`.
        ValueError: If the module has no such matrix of real numbers, it is no parameter or has a
            parametrisation that `constrain` did not add, the constraint is complex, the rows do
            not form a square block, or some of them are already constrained.
    Source:
        The design is that of `torch.nn.utils.parametrize`.
    Example:
        >>> lstm = constrain(torch.nn.LSTM(3, 4), "weight_hh_l0", ScaledCayley, rows="g")
        >>> g = lstm.weight_hh_l0[8:12]
        >>> torch.allclose(g @ g.T, torch.eye(4), atol=1e-6)
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        names = [key for key, parameter in module.named_parameters() if parameter.dim() == 2]
        raise ValueError(f"expected the name of a matrix, one of {names}, got {name!r}")
    if not weight.is_floating_point():
        raise ValueError(f"expected a matrix of real numbers, got {name} of {weight.dtype}")
    earlier = _constrained_rows(module, name)
    if earlier is None:
        own = module.named_parameters(recurse=False, remove_duplicate=False)
        stored: Any = dict(own).get(name)
    else:
        stored = cast("Any", module.parametrizations)[name].original
    if stored is None:
        raise ValueError(
            f"expected {name} to be a parameter, got a plain tensor or a buffer. Where "
            "weight_norm, spectral_norm or pruning computes it, remove that first"
        )
    blocks = earlier.blocks() if earlier else []
    size = weight.shape[1]
    first = _first_row(module, name, weight.shape[0], size, rows)
    for other, _ in blocks:
        if abs(other - first) < size:
            raise ValueError(
                f"expected rows that are free, got {first}:{first + size}, "
                f"but rows {other}:{other + size} of {name} are constrained already"
            )
    new = make_constraint(constraint, size)
    if new.is_complex:
        raise ValueError(
            f"expected a set of real matrices for {name}, got complex {new}; "
            "use eigenrnn.RNN for complex states"
        )
    new.to(weight.device, weight.dtype)
    blocks.append((first, new))
    weight = weight.detach().clone()
    for row, each in blocks:
        weight[row : row + each.size] = each()
    if parametrize.is_parametrized(module):
        give_own_class(module)
    # a second constraint replaces the parametrisation of the first by one that has both
    if earlier:
        parametrize.remove_parametrizations(module, name)
    setattr(module, name, nn.Parameter(weight, requires_grad=stored.requires_grad))
    parametrize.register_parametrization(module, name, ConstrainedRows(blocks), unsafe=True)
    if isinstance(module, nn.RNNBase):
        rebuild_each_pass(module)
    return module


def _constrained_rows(module: nn.Module, name: str) -> ConstrainedRows | None:
    """Return the parametrisation from an earlier call, if any.

    Raises:
        ValueError: If the matrix has another parametrisation.
    """
    if not parametrize.is_parametrized(module, name):
        return None
    only = list(module.parametrizations[name])  # type: ignore[index]
    if len(only) != 1 or not isinstance(only[0], ConstrainedRows):
        found = [type(parametrization).__name__ for parametrization in only]
        raise ValueError(f"expected {name} to be a plain matrix, got one parametrised by {found}")
    return only[0]


def give_own_class(module: nn.Module) -> None:
    """Replace the class that torch made for a module, which copies of the module share."""
    shared = type(module)
    own: Any = type(shared.__name__, shared.__bases__, dict(vars(shared)))
    module.__class__ = own


def _first_row(
    module: nn.Module, name: str, height: int, size: int, rows: str | slice | None
) -> int:
    """Return the first row of the square block that `rows` selects.

    Raises:
        ValueError: If there is no such gate or the block is not square.
    """
    if isinstance(rows, str):
        gates = next((letters for kind, letters in _GATES.items() if isinstance(module, kind)), "")
        if len(rows) != 1 or rows not in gates:
            kind = type(module).__name__
            raise ValueError(f"expected a gate of {kind}, one of {list(gates)}, got {rows!r}")
        each = height // len(gates)
        rows = slice(gates.index(rows) * each, (gates.index(rows) + 1) * each)
    start, stop, step = (rows or slice(None)).indices(height)
    if step != 1 or stop - start != size:
        raise ValueError(
            f"expected {size} adjacent rows, as {name} has {size} columns, "
            f"got {stop - start} of {height} (select them with rows=)"
        )
    return start


def rebuild_each_pass(module: nn.RNNBase) -> None:
    """Make a torch layer evaluate its parametrised weights in each forward pass."""
    # parametrisation has already given the module a class of its own
    kind: Any = type(module)
    setattr(kind, _WEIGHT_LIST, property(_get_weights, _ignore_assignment))
    kind.forward = _forward_as_one_pass(kind.__base__.forward)


def _forward_as_one_pass(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `forward` of a torch layer in which each constraint runs once."""

    @wraps(forward)
    def forward_as_one_pass(*args: Any, **kwargs: Any) -> Any:
        # not by hooks: torch skips the one that would end the pass after a KeyboardInterrupt
        _local.passes.append({})
        try:
            return forward(*args, **kwargs)
        finally:
            _local.passes.pop()

    return forward_as_one_pass


# torch's recurrent layers read each weight several times in one forward pass and store a list of
# them; other threads would see that list, and deepcopy fails on tensors with a graph

_WEIGHT_LIST = "_flat_weights"


def _get_weights(module: nn.RNNBase) -> list[Tensor | None]:
    return [getattr(module, name, None) for name in weight_names(module)]


def _ignore_assignment(_module: nn.Module, _weights: object) -> None: ...


class _ThreadLocal(threading.local):
    """The matrices built so far in each forward pass that this thread is running."""

    def __init__(self) -> None:
        self.passes: list[dict[int, Tensor]] = []


_local = _ThreadLocal()
