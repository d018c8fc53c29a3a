"""A recurrence as a torch operator, with a backward pass and gradients of its own.

A loss needs the backward pass of the operator. Second derivatives and `vmap` over gradients need
one in differentiable operations: autograd's backward pass through the definition.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from eigenrnn.ops.arguments import map_tensors, needs_gradient, schema, to_float32
from eigenrnn.ops.dispatch import forced
from eigenrnn.ops.recurrence import Recurrence
from eigenrnn.tracing import (
    are_plain,
    is_batched,
    is_eager,
    needs_no_dispatcher,
    under_transform,
)

__all__ = ["Named", "Operator", "PlannedCall", "differentiable_gradients", "empty_gradients"]

Named: TypeAlias = Mapping[str, Tensor | None]
"""Tensors by name: those of operands, results or what is saved, or their gradients."""

_Kept: TypeAlias = Mapping[str, Tensor]  # what a call lacks is missing
_Forward: TypeAlias = Callable[..., Named]
_Backward: TypeAlias = Callable[[Any, Any, Collection[str], Named, _Kept], Named]
_Allocate: TypeAlias = Callable[[Any, Collection[str], Tensor], Named]
_MakePlan: TypeAlias = Callable[[Any, Any], Any]
_Prepare: TypeAlias = Callable[[Any, Collection[str], Named], tuple[Any, Collection[str], Named]]


def _first_fields(record: type[Any], without: Collection[str]) -> tuple[str, ...]:
    """Return the fields of a record but some of the last, which have defaults."""
    fields: tuple[str, ...] = record._fields
    taken = tuple(field for field in fields if field not in without)
    # `_records` fills the fields in order, so only the last ones may be left to their defaults
    assert fields[: len(taken)] == taken  # noqa: S101
    return taken


def empty_gradients(
    operands: Any,
    needed: Collection[str],
    h: Tensor,  # noqa: ARG001, (T, B, N), for layouts that depend on it
) -> dict[str, Tensor]:
    """Allocate the needed gradients of operands."""
    return {
        name: tensor.new_empty(tensor.shape)
        for name, tensor in operands._asdict().items()
        if name in needed
    }


class PlannedCall(NamedTuple):
    """A call of plain tensors that needs no checks, because one of the same options passed them.

    Args:
        plan: The plan of the kernels for these options.
        operands: The operands, with initial states.
        call: Their addresses, strides and sizes, as the plan has read them.
    """

    plan: Any
    operands: Any
    call: Any


class Operator:
    """A torch operator that computes a recurrence, and its gradients.

    The operator takes the operands and the options one by one, as torch demands, in the order of
    the records. All functions below take and return tensors by name.

    Args:
        name: The name of the operator; its backward pass is the operator ``<name>_backward``.
        recurrence: The recurrence.
        forward: Takes the operands, the options and whether a backward pass follows. Returns the
            results and what it saved.
        allocate: Takes and returns the same, but uninitialised tensors.
        backward: Takes the operands, the options, the names of the operands whose gradients are
            needed, the gradients of the results, and all states with what was saved. Returns the
            needed gradients, and possibly others.
        results: The results that the operator returns; by default all of the recurrence.
        saved: The tensors that it saves for the backward pass, or keeps from it.
        without: The operands and options that it does not take, those that are always None.
        allocate_gradients: Takes the operands, the names of the needed gradients and all states.
            Returns the needed gradients, uninitialised.
        prepare: Changes the operands, what is needed and the gradients of the results before a
            backward pass; optional.
        make_plan: Takes the operands and the options of a call. Returns the plan of the compiled
            kernels for these options, or None if they take no such call without checks.
    """

    def __init__(
        self,
        name: str,
        recurrence: Recurrence,
        *,
        forward: _Forward,
        allocate: _Forward,
        backward: _Backward,
        results: Sequence[str] | None = None,
        saved: Sequence[str] = (),
        without: Collection[str] = (),
        allocate_gradients: _Allocate = empty_gradients,
        prepare: _Prepare | None = None,
        make_plan: _MakePlan | None = None,
    ) -> None:
        self.name = name
        self.recurrence = recurrence
        if results is None:
            results = recurrence.results
        self.results = tuple(results)
        self.saved = tuple(saved)
        self._forward = forward
        self._allocate = allocate
        self._backward = backward
        self._allocate_gradients = allocate_gradients
        self._prepare = prepare
        self._make_plan = make_plan
        self._plans: dict[Hashable, Any] = {}  # by options, and by which operands are present

        self.operands = _first_fields(recurrence.operands, without)
        self.options = _first_fields(recurrence.options, without)
        self.returns = (*self.results, *self.saved)
        self._kept = (recurrence.all_states, *self.saved)

        taken = schema(recurrence.operands, recurrence.options, without=without)
        # an operator that saves nothing is the same with and without a backward pass
        flag = ", bool save" if self.saved else ""
        returned = ", ".join(["Tensor"] * len(self.returns))
        self._operator: Any = torch.library.custom_op(
            f"eigenrnn::{name}",
            self.call_forward,
            mutates_args=(),
            schema=f"({taken}{flag}) -> ({returned})",
        )
        # what torch.compile and exports call in place of the kernels, to learn shapes and dtypes
        self._operator.register_fake(self._fake_forward)
        gradients = ", ".join(f"Tensor? d{result}" for result in self.results)
        kept = ", ".join(f"Tensor? {each}" for each in self._kept)
        # an operator, too: torch.compile traces the backward pass, and cannot trace into a kernel
        self._backward_operator: Any = torch.library.custom_op(
            f"eigenrnn::{name}_backward",
            self.call_backward,
            mutates_args=(),
            schema=f"({gradients}, {kept}, {taken}, bool[] needed) -> Tensor[]",
        )
        self._backward_operator.register_fake(self._fake_backward)
        self._operator.register_autograd(self.backward_pass, setup_context=self._setup_context)
        operators = torch.ops.eigenrnn
        register_flop_formula(getattr(operators, name), get_raw=True)(self._forward_flops)
        backward_packet = getattr(operators, f"{name}_backward")
        register_flop_formula(backward_packet, get_raw=True)(self._backward_flops)
        # called in place of the operators, which would only pass the call on to these
        self._overload: Any = getattr(torch.ops.eigenrnn, name).default
        self._backward_overload: Any = getattr(torch.ops.eigenrnn, f"{name}_backward").default

    def __call__(
        self, operands: Any, options: Any, planned: PlannedCall | None = None
    ) -> Mapping[str, Any]:
        """Return the results by name; a recorded call returns all states, also if asked for none.

        Args:
            operands: The operands.
            options: The options.
            planned: The call as `plan` found it, which needs no question to torch.
        """
        if planned is not None:
            is_recorded = planned.call.requires_grad and torch.is_grad_enabled()
            is_plain_call = True
        else:
            is_recorded = needs_gradient(operands)
            is_plain_call = needs_no_dispatcher(operands)
            if is_plain_call:
                self._add_plan(operands, options)
        if is_recorded and options.last_only:
            options = options._replace(last_only=False)
        if not is_plain_call:
            arguments = self.arguments(operands, options, is_recorded)
            return self._by_name(self._overload(*arguments))
        # torch's dispatcher would take a third of a small call
        if not is_recorded:
            return self.compute(operands, options, False, planned)
        taken = operands[: len(self.operands)]
        returned = _Recorded.apply(*taken, operands, options, self, planned)
        return dict(zip(self.results, returned, strict=True))

    def plan(self, operands: Any, options: Any) -> PlannedCall | None:
        """Return a call as the kernels read it; None if it needs all checks, which raise errors.

        A call that passed them leaves a plan for those with the same options, which then need one
        look at each tensor, where its address is taken.
        """
        if not is_eager() or forced() is not None:
            return None
        try:
            plan = self._plans.get((options, *map(type, operands)))
        except TypeError:  # an option of another type has no hash
            return None
        if plan is None:
            operands = self._with_initial_states(operands)
            if operands is None:
                return None
            plan = self._plans.get((options, *map(type, operands)))
            if plan is None:
                return None
        call = plan.read(operands)
        return None if call is None else PlannedCall(plan, operands, call)

    def _with_initial_states(self, operands: Any) -> Any:
        """Return the operands of a plain call with initial states; None if none is to be added."""
        has_states = all(getattr(operands, name) is not None for name in self.recurrence.states)
        if has_states or not self._plans:
            return None
        x: Tensor | None = operands.x
        W: Tensor | None = getattr(operands, "W", None)  # whose shape gives that of the states
        if x is None or W is None:
            return None
        if not are_plain((x, W)) or x.dim() != 3 or W.dim() != 2:
            return None
        return self.recurrence.with_initial_states(operands)

    def _add_plan(self, operands: Any, options: Any) -> None:
        """Make a plan of a call that passed all checks, if there is none yet."""
        if self._make_plan is None or options.batch_sizes is not None:
            return
        key = options, *map(type, operands)
        if key not in self._plans:
            plan = self._make_plan(operands, options)
            if plan is not None:
                self._plans[key] = plan

    def compute(
        self, operands: Any, options: Any, save: bool, planned: PlannedCall | None = None
    ) -> Named:
        """Return the results, and what a backward pass needs, by name."""
        if planned is None:
            return self._forward(operands, options, save)
        tensors = self._allocate(operands, options, save)
        planned.call.run(tensors, torch.get_num_threads())
        return tensors

    def arguments(self, operands: Any, options: Any, save: bool = False) -> list[Any]:
        """Return the arguments of the torch operator."""
        taken = self._flattened(operands, options)
        if self.saved:
            taken.append(save)
        return taken

    def backward_arguments(
        self, operands: Any, options: Any, needed: Collection[str], grads: Named, kept: _Kept
    ) -> list[Any]:
        """Return the arguments of the torch operator of the backward pass."""
        return [
            *(grads[name] for name in self.results),
            *(kept.get(name) for name in self._kept),
            *self._flattened(operands, options),
            [name in needed for name in self.operands],
        ]

    def _by_name(self, returned: Tensor | tuple[Tensor, ...]) -> dict[str, Tensor]:
        if isinstance(returned, Tensor):  # torch returns a single result alone
            returned = (returned,)
        return dict(zip(self.returns, returned, strict=True))

    # The order of the arguments of the torch operators. Names would cost a small call several
    # microseconds here.

    def _flattened(self, operands: Any, options: Any) -> list[Any]:
        return [*operands[: len(self.operands)], *options[: len(self.options)]]

    def _records(self, arguments: Iterator[Any]) -> tuple[Any, Any]:
        """Return the operands and the options, the next of the arguments."""
        operands = self.recurrence.operands(*islice(arguments, len(self.operands)))
        options = self.recurrence.options(*islice(arguments, len(self.options)))
        return operands, options

    def _given_backward(
        self, arguments: Sequence[Any]
    ) -> tuple[Any, Any, list[str], dict[str, Any], dict[str, Any]]:
        """Return what `backward_arguments` takes."""
        remaining = iter(arguments)
        grads = dict(zip(self.results, remaining, strict=False))
        kept = _present(zip(self._kept, remaining, strict=False))
        operands, options = self._records(remaining)
        flags = zip(self.operands, next(remaining), strict=True)
        needed = [name for name, flag in flags if flag]
        return operands, options, needed, grads, kept

    def _returned(self, found: Named) -> Any:
        """Return what the torch operator returns: an empty tensor for each that a call lacks."""
        if len(self.returns) == 1:
            return found[self.returns[0]]
        like = found[self.returns[0]]
        assert like is not None  # noqa: S101, every call has states
        returned: list[Tensor] = []
        for name in self.returns:
            tensor = found.get(name)
            returned.append(like.new_empty(0) if tensor is None else tensor)
        return tuple(returned)

    def call_forward(self, *arguments: Any) -> Any:
        """Compute what the torch operator returns, without recording it."""
        remaining = iter(arguments)
        operands, options = self._records(remaining)
        return self._returned(self._forward(operands, options, next(remaining, False)))

    def _fake_forward(self, *arguments: Any) -> Any:
        remaining = iter(arguments)
        operands, options = self._records(remaining)
        return self._returned(self._allocate(operands, options, next(remaining, False)))

    def call_backward(self, *arguments: Any) -> list[Tensor | None]:
        """Compute what the operator of the backward pass returns, without recording it."""
        operands, options, needed, grads, kept = self._given_backward(arguments)
        found = self._backward(operands, options, needed, grads, kept)
        return [found[name] for name in needed]

    def _fake_backward(self, *arguments: Any) -> list[Tensor | None]:
        operands, _, needed, _, kept = self._given_backward(arguments)
        found = self._allocate_gradients(operands, needed, kept[self.recurrence.all_states])
        return [found[name] for name in needed]

    def _forward_flops(self, *arguments: Any, out_val: Any) -> int:  # noqa: ARG002, torch's name
        """Count two operations for each multiplication of a product, as torch does."""
        operands, options = self._records(iter(arguments))
        steps = _count_steps(operands, options)
        return sum(2 * steps * each.size for each in self.recurrence.products(operands, options))

    def _backward_flops(self, *arguments: Any, out_val: Any) -> int:  # noqa: ARG002
        """Count the gradients of both factors of each product, if they are needed."""
        operands, options, needed, grads, _ = self._given_backward(arguments)
        steps = _count_steps(operands, options)
        reaches_initial = not _INITIAL.isdisjoint(needed)
        flops = 0
        for operand, factor, size, initial in self.recurrence.products(operands, options):
            if factor in grads and grads[factor] is None:
                continue
            flops += 2 * steps * size * (operand in needed)
            flops += 2 * steps * size * (factor != "x" or "x" in needed)
            if not reaches_initial:  # the initial state has no gradient
                flops -= 2 * _batch_size(operands) * initial
        return flops

    def _setup_context(
        self, ctx: Any, inputs: tuple[Any, ...], output: Tensor | tuple[Tensor, ...]
    ) -> None:
        operands, options = self._records(iter(inputs))
        returned = self._by_name(output)
        # autograd takes them for results, and would make gradients for them
        ctx.mark_non_differentiable(*(returned[name] for name in self.saved))
        self.save_for_backward(ctx, operands, options, returned)

    def save_for_backward(self, ctx: Any, operands: Any, options: Any, returned: Named) -> None:
        """Save what the backward pass of a call needs."""
        ctx.options = options
        ctx.set_materialize_grads(False)  # usually the loss uses only one of the results
        taken = operands[: len(self.operands)]
        ctx.save_for_backward(*taken, *map(returned.get, self._kept))

    def backward_pass(self, ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of the operands, and None for each argument after them."""
        # the options and the saved tensors, which follow, have no gradients
        flags = zip(self.operands, ctx.needs_input_grad, strict=False)
        needed: Collection[str] = [name for name, flag in flags if flag]
        grads: Named = dict(zip(self.results, gradients, strict=False))
        tensors = iter(ctx.saved_tensors)
        operands = self.recurrence.operands(*islice(tensors, len(self.operands)))
        kept = _present(zip(self._kept, tensors, strict=True))
        given = [gradient for gradient in grads.values() if gradient is not None]
        found: Named
        if not given:
            found = {}
        elif torch.is_grad_enabled() or under_transform() or is_batched(*given):
            # a second derivative or `vmap`, for which the kernels have no code
            found = differentiable_gradients(self.recurrence, operands, ctx.options, needed, grads)
        else:
            if self._prepare is not None:
                operands, needed, grads = self._prepare(operands, needed, grads)
            if needs_no_dispatcher([*given, *operands]):  # as in a call, it saves time
                plan = getattr(ctx, "plan", None)
                more = () if plan is None else (plan.read(operands),)
                all_found = self._backward(operands, ctx.options, needed, grads, kept, *more)
                found = {name: all_found[name] for name in needed}
            else:
                arguments = self.backward_arguments(operands, ctx.options, needed, grads, kept)
                found = dict(zip(needed, self._backward_overload(*arguments), strict=True))
        without_gradients = (None,) * (len(ctx.needs_input_grad) - len(self.operands))
        return *(found.get(name) for name in self.operands), *without_gradients


class _Recorded(torch.autograd.Function):
    """A call of an operator on plain tensors, which autograd records without the dispatcher."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor | None, ...]:
        *_, operands, options, operator, planned = inputs
        ctx.operator = operator
        if planned is not None:
            ctx.plan = planned.plan
        returned = operator.compute(operands, options, True, planned)
        operator.save_for_backward(ctx, operands, options, returned)
        return tuple(map(returned.get, operator.results))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return ctx.operator.backward_pass(ctx, *gradients)


def _present(tensors: Iterable[tuple[str, Tensor | None]]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors if tensor is not None}


# the operands through which gradients reach the state before the first product
_INITIAL = frozenset({"h0", "v0", "S0", "log_decay"})


def _batch_size(operands: Any) -> int:
    return operands[0].shape[1]


def _count_steps(operands: Any, options: Any) -> int:
    """Return the number of steps of all sequences together."""
    if options.batch_sizes is not None:
        return sum(options.batch_sizes)
    return operands[0].shape[0] * _batch_size(operands)


def differentiable_gradients(
    recurrence: Recurrence,
    operands: Any,
    options: Any,
    needed: Collection[str],
    grads: Named,
) -> dict[str, Tensor | None]:
    """Return the needed gradients of the definition, which autograd can record."""
    # asked before gradients are enabled below: whether the caller differentiates again
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # views: if x depends on W, the gradient of W must not include the path through x
        operands = map_tensors(lambda tensor: tensor.view_as(tensor), operands)
        results = recurrence.define(to_float32(operands), options)
        used: list[Tensor] = []
        used_grads: list[Tensor] = []
        for name, gradient in grads.items():
            result = results[name]
            if gradient is not None and result is not None and result.requires_grad:
                used.append(result.to(gradient.dtype))
                used_grads.append(gradient)
        if not used:
            return {}
        found = torch.autograd.grad(
            outputs=used,
            inputs=[getattr(operands, name) for name in needed],
            grad_outputs=used_grads,
            create_graph=create_graph,
            allow_unused=True,
        )
    return dict(zip(needed, found, strict=True))
