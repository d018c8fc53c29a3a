"""The short way to the kernels: what the checks of one call found is not asked again by the next.

A call of plain tensors on the CPU whose options an earlier call had goes straight to the compiled
kernels, which matters where a call is small. Any other call takes the way of `dispatch`, which
also raises the errors.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.compiled import STRIDED, call_sizes, kernel_options, pointer
from eigenrnn.ops.dispatch import forced
from eigenrnn.ops.operators import Operator
from eigenrnn.torch_internals import has_dispatch_mode
from eigenrnn.tracing import is_eager, is_plain

__all__ = ["DirectCalls"]

_DTYPES = frozenset({torch.float32, torch.float64})


class DirectCalls:
    """The calls of an operator of the compiled kernels that need no more checks of their options.

    Args:
        operator: The operator.
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        # what the kernels are told whatever the tensors are
        self._constants: dict[Hashable, dict[str, Any]] = {}

    def add(self, operands: Any, options: Any) -> None:
        """Remember a call that passed all checks and that the kernels compute."""
        if options.batch_sizes is None and operands.x.dtype in _DTYPES:
            key = _key(operands, options)
            self._constants[key] = kernel_options(options, getattr(operands, "bias", None))

    def run(self, operands: Any, options: Any) -> Mapping[str, Tensor] | None:
        """Return the results by name; None if the call takes the way of all others."""
        if not is_eager() or has_dispatch_mode() or forced() is not None:
            return None
        for tensor in operands:
            # anything may be passed, and most of it is None
            if tensor is not None and not is_plain(tensor):
                return None
        x: Tensor | None = operands.x
        if x is None or x.dim() != 3:
            return None
        recurrence = self.operator.recurrence
        operands = recurrence.with_initial_states(operands)
        try:
            constants = self._constants.get(_key(operands, options))
        except TypeError:  # an option of another type has no hash
            return None
        if constants is None:
            return None
        call = dict(constants)
        for name, shape in recurrence.shapes(operands).items():
            tensor = getattr(operands, name)
            if tensor is None:
                continue
            # the kernels get its address: nothing wrong may pass
            if tensor.shape != shape or tensor.dtype is not x.dtype or not tensor.is_cpu:
                return None
            if tensor.is_neg() or (tensor.stride(-1) != 1 and name not in STRIDED):
                return None
            call[name] = pointer(tensor)
        call |= call_sizes(operands)
        if torch.is_grad_enabled():  # a backward pass needs all states
            options = options._replace(last_only=False)
        return self.operator.call_directly(operands, options, call)


def _key(operands: Any, options: Any) -> Hashable:
    present = tuple([tensor is not None for tensor in operands])
    # whether all states are stored is no question of the checks
    return operands.x.dtype, present, options._replace(last_only=False)
