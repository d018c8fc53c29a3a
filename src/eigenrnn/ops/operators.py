"""A recurrence as a torch operator, with a backward pass and gradients of its own.

A loss needs the backward pass of the operator. Second derivatives and `vmap` over gradients need
one in differentiable operations: autograd's backward pass through the definition.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from eigenrnn.ops.arguments import map_tensors, schema
from eigenrnn.ops.recurrence import Recurrence
from eigenrnn.tracing import is_batched, under_transform

__all__ = ["Named", "Operator", "differentiable_gradients", "empty_gradients"]

Named: TypeAlias = Mapping[str, Tensor | None]
"""Tensors by name: those of operands, results or what is saved, or their gradients."""

_Kept: TypeAlias = Mapping[str, Tensor]
_Forward: TypeAlias = Callable[[Any, Any, bool], Named]
_Backward: TypeAlias = Callable[[Any, Any, Collection[str], Named, _Kept], Named]
_Allocate: TypeAlias = Callable[[Any, Collection[str], Tensor], Named]
_Prepare: TypeAlias = Callable[[Any, Collection[str], Named], tuple[Any, Collection[str], Named]]


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
    ) -> None:
        self.name = name
        self.recurrence = recurrence
        self.results = recurrence.results if results is None else tuple(results)
        self.saved = tuple(saved)
        self._forward = forward
        self._allocate = allocate
        self._backward = backward
        self._allocate_gradients = allocate_gradients
        self._prepare = prepare

        fields = recurrence.operands._fields
        self.operands: tuple[str, ...] = tuple(field for field in fields if field not in without)
        fields = recurrence.options._fields
        self.options: tuple[str, ...] = tuple(field for field in fields if field not in without)
        # an operator that saves nothing is the same with and without a backward pass
        flags = ("save",) if self.saved else ()
        self._arguments = (*self.operands, *self.options, *flags)
        self._kept = (recurrence.all_states, *self.saved)
        self._backward_arguments = (
            *(f"d{result}" for result in self.results),
            *self._kept,
            *self.operands,
            *self.options,
            "needed",
        )

        taken = schema(recurrence.operands, recurrence.options, without=without)
        flag = ", bool save" if self.saved else ""
        returned = ", ".join(["Tensor"] * len((*self.results, *self.saved)))
        self._operator: Any = torch.library.custom_op(
            f"eigenrnn::{name}",
            self.call_forward,
            mutates_args=(),
            schema=f"({taken}{flag}) -> ({returned})",
        )
        self._operator.register_fake(self._fake_forward)
        gradients = ", ".join(f"Tensor? d{result}" for result in self.results)
        kept = ", ".join(f"Tensor {each}" for each in self._kept)
        self._backward_operator: Any = torch.library.custom_op(
            f"eigenrnn::{name}_backward",
            self.call_backward,
            mutates_args=(),
            schema=f"({gradients}, {kept}, {taken}, bool[] needed) -> Tensor[]",
        )
        self._backward_operator.register_fake(self._fake_backward)
        self._operator.register_autograd(self._backward_pass, setup_context=self._setup_context)

    def __call__(self, operands: Any, options: Any, save: bool = False) -> dict[str, Tensor]:
        """Return the results and what was saved, by name."""
        returned = self._operator(*self.arguments(operands, options, save))
        return self._by_name(returned)

    def arguments(self, operands: Any, options: Any, save: bool = False) -> list[Any]:
        """Return the arguments of the torch operator."""
        taken = [getattr(operands, name) for name in self.operands]
        taken += [getattr(options, name) for name in self.options]
        return [*taken, save] if self.saved else taken

    def backward_arguments(
        self, operands: Any, options: Any, needed: Collection[str], grads: Named, kept: _Kept
    ) -> list[Any]:
        """Return the arguments of the torch operator of the backward pass."""
        return [
            *(grads[name] for name in self.results),
            *(kept[name] for name in self._kept),
            *(getattr(operands, name) for name in self.operands),
            *(getattr(options, name) for name in self.options),
            [name in needed for name in self.operands],
        ]

    def _by_name(self, returned: Tensor | tuple[Tensor, ...]) -> dict[str, Tensor]:
        tensors = (returned,) if isinstance(returned, Tensor) else returned
        return dict(zip((*self.results, *self.saved), tensors, strict=True))

    def _records(self, given: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the operands and the options among arguments by name."""
        operands = self.recurrence.operands(**{name: given[name] for name in self.operands})
        options = self.recurrence.options(**{name: given[name] for name in self.options})
        return operands, options

    def _needed(self, flags: Sequence[bool]) -> list[str]:
        return [name for name, flag in zip(self.operands, flags, strict=True) if flag]

    def _returned(self, found: Named) -> Any:
        if not self.saved and len(self.results) == 1:
            return found[self.results[0]]
        return tuple(found[name] for name in (*self.results, *self.saved))

    def call_forward(self, *arguments: Any) -> Any:
        """Compute what the torch operator returns, without recording it."""
        given = dict(zip(self._arguments, arguments, strict=True))
        return self._returned(self._forward(*self._records(given), given.get("save", False)))

    def _fake_forward(self, *arguments: Any) -> Any:
        given = dict(zip(self._arguments, arguments, strict=True))
        return self._returned(self._allocate(*self._records(given), given.get("save", False)))

    def call_backward(self, *arguments: Any) -> list[Tensor | None]:
        """Compute what the operator of the backward pass returns, without recording it."""
        given = dict(zip(self._backward_arguments, arguments, strict=True))
        operands, options = self._records(given)
        needed = self._needed(given["needed"])
        grads = {name: given[f"d{name}"] for name in self.results}
        kept = {name: given[name] for name in self._kept}
        found = self._backward(operands, options, needed, grads, kept)
        return [found[name] for name in needed]

    def _fake_backward(self, *arguments: Any) -> list[Tensor | None]:
        given = dict(zip(self._backward_arguments, arguments, strict=True))
        operands, _ = self._records(given)
        needed = self._needed(given["needed"])
        found = self._allocate_gradients(operands, needed, given[self.recurrence.all_states])
        return [found[name] for name in needed]

    def _setup_context(
        self, ctx: Any, inputs: tuple[Any, ...], output: Tensor | tuple[Tensor, ...]
    ) -> None:
        given = dict(zip(self._arguments, inputs, strict=True))
        returned = self._by_name(output)
        _, ctx.options = self._records(given)
        ctx.mark_non_differentiable(*(returned[name] for name in self.saved))
        ctx.set_materialize_grads(False)  # usually the loss uses only one of the results
        ctx.save_for_backward(
            *(given[name] for name in self.operands), *(returned[name] for name in self._kept)
        )

    def _backward_pass(self, ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        flags = dict(zip(self._arguments, ctx.needs_input_grad, strict=True))
        needed: Collection[str] = [name for name in self.operands if flags[name]]
        returned = dict(zip((*self.results, *self.saved), gradients, strict=True))
        grads: Named = {name: returned[name] for name in self.results}
        tensors = dict(zip((*self.operands, *self._kept), ctx.saved_tensors, strict=True))
        operands = self.recurrence.operands(**{name: tensors[name] for name in self.operands})
        given = [gradient for gradient in grads.values() if gradient is not None]
        found: Named
        if not given:
            found = {}
        elif torch.is_grad_enabled() or under_transform() or is_batched(*given):
            found = differentiable_gradients(self.recurrence, operands, ctx.options, needed, grads)
        else:
            if self._prepare is not None:
                operands, needed, grads = self._prepare(operands, needed, grads)
            arguments = self.backward_arguments(operands, ctx.options, needed, grads, tensors)
            found = dict(zip(needed, self._backward_operator(*arguments), strict=True))
        return tuple(found.get(name) for name in self._arguments)


def differentiable_gradients(
    recurrence: Recurrence,
    operands: Any,
    options: Any,
    needed: Collection[str],
    grads: Named,
) -> dict[str, Tensor | None]:
    """Return the needed gradients of the definition, which autograd can record."""
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # views: if x depends on W, the gradient of W must not include the path through x
        operands = map_tensors(lambda tensor: tensor.view_as(tensor), operands)
        results = recurrence.define(operands, options)
        used: list[Tensor] = []
        used_grads: list[Tensor] = []
        for name, gradient in grads.items():
            result = results[name]
            if gradient is not None and result is not None and result.requires_grad:
                used.append(result)
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
