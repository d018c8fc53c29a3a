"""The way of the calls of a recurrence to its backends, the same behind each public function."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops.arguments import (
    SIXTEEN_BITS,
    check_batch_sizes,
    dtype_of,
    features_of,
    is_mixed,
    lengths_of,
    steps_in,
    to_float32,
)
from eigenrnn.ops.compiled import warn_if_unavailable
from eigenrnn.ops.dispatch import Backend, Call, choose, exports_scan
from eigenrnn.ops.exporting import export_steps, exported_operands
from eigenrnn.ops.operators import Operator, PlannedCall
from eigenrnn.ops.recurrence import Recurrence
from eigenrnn.tracing import autocasts

__all__ = ["BACKENDS", "Entry"]

_Results: TypeAlias = tuple[Tensor, ...]


BACKENDS: dict[str, Mapping[str, Backend]] = {}
"""The backends of each recurrence, by their names."""


class Entry:
    """The one way of a recurrence's calls to its backends, past the checks of their arguments.

    Args:
        recurrence: The recurrence.
        backends: Its backends by name, in order of preference.
        check: Takes the operands with initial states, whose dtypes are checked, and the options.
            Checks what else there is, and returns the operands.
        export: Takes the operands, the options and the lengths. Returns what a backend does, as
            exporters record it; by default a scan of the steps.
        operator: The operator that has plans of calls, if there is one.
        nonlinearity: The function f of a recurrence that has no choice.
        features: Returns the optional features that operands and options need.
        fit: Takes the chosen backend, the operands and the options. Returns the operands as this
            backend computes them.
    """

    def __init__(
        self,
        recurrence: Recurrence,
        backends: Mapping[str, Backend],
        *,
        check: Callable[[Any, Any], Any] | None = None,
        export: Callable[[Any, Any, Tensor | None], _Results] | None = None,
        operator: Operator | None = None,
        nonlinearity: str = "identity",
        features: Callable[[Any, Any], list[str]] = features_of,
        fit: Callable[[Backend, Any, Any], Any] | None = None,
    ) -> None:
        BACKENDS[recurrence.name] = backends
        if export is None:
            export = partial(export_steps, recurrence)
        self.recurrence = recurrence
        self.backends = backends
        self.operator = operator
        dtypes = [backend.dtypes for backend in backends.values()]
        self._dtypes = SIXTEEN_BITS.union(*dtypes)
        self._check = check
        self._export = export
        self._nonlinearity = nonlinearity
        self._features = features
        self._fit = fit

    def __call__(
        self,
        operands: Any,
        options: Any,
        backend: str | None = None,
        planned: PlannedCall | None = None,
    ) -> Any:
        """Return all states, or the outputs of the head, and the last of each state.

        Args:
            operands: The operands, whose shapes are checked.
            options: The options.
            backend: The name of a forced backend.
            planned: The call as `Operator.plan` found it; then nothing else is asked.
        """
        if planned is not None and self.operator is not None:
            results = self.operator(planned.operands, options, planned)
            return self.recurrence.returned(operands, results)
        warn_if_unavailable(operands[0])
        device = operands[0].device.type
        autocast = autocasts(device)
        V: Tensor | None = getattr(operands, "V", None)
        # autocast may compute the head in 16 bits, and exporters know its operation
        if V is not None and (autocast or exports_scan(backend)):
            return self._with_separate_head(self, operands, options, backend)
        if autocast:
            operands = steps_in(torch.get_autocast_dtype(device), operands)
        self.recurrence.check_dtypes(self._dtypes, operands, allows_mixed=autocast)
        operands = self.recurrence.with_initial_states(operands)
        if autocast:
            with torch.autocast(device, enabled=False):
                return self._run(operands, options, backend)
        if operands[0].dtype in SIXTEEN_BITS:
            return self._run_in_float32(operands, options, backend)
        return self._run(operands, options, backend)

    def _run_in_float32(self, operands: Any, options: Any, backend: str | None) -> _Results:
        """Return results of 16 bits. W and the states that go on have 32, as under autocast."""
        dtype: torch.dtype = operands[0].dtype
        of_states = [getattr(operands, name).dtype for name in self.recurrence.states]
        results: Any = self._run(steps_in(dtype, operands), options, backend)
        pairs = zip(results, (dtype, *of_states), strict=True)
        # an LRU with `last_only` returns None for its outputs
        narrow: Any = (each if each is None else each.to(dtype) for each, dtype in pairs)
        return tuple(narrow)

    def _run(self, operands: Any, options: Any, backend: str | None) -> _Results:
        exports = exports_scan(backend)
        if options.batch_sizes is not None and not exports:
            check_batch_sizes(options.batch_sizes, *operands[0].shape[:2])
        if self._check is not None:
            operands = self._check(operands, options)
        if exports:
            lengths, options = lengths_of(options)
            return self._export(exported_operands(operands), options, lengths)
        call = Call.of(
            operands[0],
            getattr(options, "nonlinearity", self._nonlinearity),
            *operands,
            state_size=self.recurrence.state_size(operands),
            features=self._features(operands, options),
            dtype=dtype_of(operands),
        )
        chosen = choose(self.backends, call, backend)
        fitted = operands
        if self._fit is not None:
            fitted = self._fit(chosen, operands, options)
        V: Tensor | None = getattr(operands, "V", None)
        if V is not None and not chosen.fuses_head(V):
            return self._with_separate_head(chosen.run, to_float32(fitted), options)
        results = chosen.run_mixed(fitted, options)
        if fitted is operands or not is_mixed(operands):
            return results
        h, *last = results
        return h.to(operands.x.dtype), *last

    def _with_separate_head(
        self, run: Callable[..., _Results], operands: Any, options: Any, *arguments: Any
    ) -> _Results:
        """Return the outputs of a linear head after the states of all steps."""
        without = operands._replace(V=None, d=None)
        h, *last = run(without, options._replace(last_only=False), *arguments)
        return F.linear(h, operands.V, operands.d), *last
