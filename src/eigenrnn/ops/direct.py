"""The short way to the kernels: what the checks of one call found is not asked again by the next.

A call of plain tensors on the CPU whose options an earlier call had goes straight to the compiled
kernels, which matters where a call is small. Any other call takes the way of `dispatch`, which
also raises the errors.
"""

from collections.abc import Hashable, Mapping
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.compiled import NUMBERS, STRIDED, kernel_options, kernels
from eigenrnn.ops.dispatch import forced
from eigenrnn.ops.operators import Operator
from eigenrnn.torch_internals import has_dispatch_mode
from eigenrnn.tracing import are_plain, is_eager, is_plain

__all__ = ["DirectCalls"]


class DirectCalls:
    """The calls of an operator of the compiled kernels that need no more checks of their options.

    Args:
        operator: The operator.
        plan: The class of the kernels that reads the tensors of such a call, by name.
    """

    def __init__(self, operator: Operator, plan: str) -> None:
        self.operator = operator
        self._make_plan: Any = getattr(kernels, plan, None)
        self._input_and_states = attrgetter("x", *operator.recurrence.states)
        self._plans: dict[Hashable, Any] = {}  # by options, and by which operands are present

    def add(self, operands: Any, options: Any) -> None:
        """Remember a call that passed all checks and that the kernels compute."""
        if options.batch_sizes is not None or operands.x.dtype not in NUMBERS:
            return
        if not is_eager() or not are_plain(operands):
            return
        axes = dict(self.operator.recurrence.axes or {})
        if operands.U is None:  # already mapped inputs have one number for each row of W
            axes["x"] = ("T", "B", axes["W"][0])
        fields: list[tuple[int, str, tuple[str, ...], bool]] = []
        for place, (name, tensor) in enumerate(zip(operands._fields, operands, strict=True)):
            if tensor is not None:
                fields.append((place, name, axes[name], name in STRIDED))
        constants = kernel_options(options, getattr(operands, "bias", None))
        plan = self._make_plan(constants, fields, tuple(NUMBERS))
        self._plans[(options, *map(type, operands))] = plan

    def run(self, operands: Any, options: Any) -> Mapping[str, Tensor] | None:
        """Return the results by name; None if the call takes the way of all others."""
        if not is_eager() or has_dispatch_mode() or forced() is not None:
            return None
        if type(None) in map(type, self._input_and_states(operands)):
            if not is_plain(operands.x) or not is_plain(operands.W):
                return None
            if operands.x.dim() != 3 or operands.W.dim() != 2:
                return None
            operands = self.operator.recurrence.with_initial_states(operands)
        try:
            plan = self._plans.get((options, *map(type, operands)))
        except TypeError:  # an option of another type has no hash
            return None
        # the kernels get addresses: nothing wrong may pass
        planned = None if plan is None else plan.read(operands)
        if planned is None:
            return None
        if options.last_only and torch.is_grad_enabled():  # a backward pass needs all states
            options = options._replace(last_only=False)
        return self.operator.call_directly(operands, options, plan, planned)
