"""The gradients of a backend's operator: its own backward pass, or that of the definition.

A loss needs the backward pass of the backend. Second derivatives and `vmap` over gradients need
one in differentiable operations: autograd's backward pass through the reference implementation.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from eigenrnn.ops.arguments import map_tensors
from eigenrnn.tracing import is_batched, under_transform

__all__ = [
    "Gradients",
    "at_needed",
    "differentiable_gradients",
    "empty_gradients",
    "from_operator",
    "outer",
    "register_gradients",
]

Gradients: TypeAlias = Sequence[Tensor | None]
"""One gradient, or None, for each of several tensors."""

_Records: TypeAlias = Callable[[Sequence[Any]], tuple[Any, Any]]
_Backward: TypeAlias = Callable[[Gradients, Sequence[Tensor], Any, Any, Sequence[bool]], Gradients]


def register_gradients(
    operator: Any,
    records: _Records,
    definition: Callable[[Any, Any], Gradients],
    results: int,
    backward: _Backward,
    operands: int | None = None,
) -> None:
    """Register the gradients of an operator.

    Args:
        operator: The operator. It takes the operands, the options and possibly flags. It returns
            its results, all states first, and then the tensors that its backward pass needs.
        records: Returns the operands and the options from the arguments of the operator.
        definition: Computes the results, and possibly more, of operands and options in
            differentiable operations. A result that nobody asked for may be None.
        results: The number of results.
        backward: The backward pass of the backend. It takes the gradients of the results, all
            states followed by the saved tensors, the operands, the options, and for each operand
            whether its gradient is needed. It returns a gradient or None for each operand.
        operands: The number of operands that the operator takes; by default all.
    """

    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], output: Tensor | tuple[Tensor, ...]
    ) -> None:
        output = (output,) if isinstance(output, Tensor) else output
        all_operands, ctx.options = records(inputs)
        taken = all_operands[:operands]
        ctx.others = len(inputs) - len(taken)
        ctx.mark_non_differentiable(*output[results:])
        ctx.set_materialize_grads(False)  # usually the loss uses only one of the results
        ctx.save_for_backward(*taken, output[0], *output[results:])

    def backward_pass(ctx: Any, *grads: Tensor | None) -> Gradients:
        n, grads = len(ctx.needs_input_grad) - ctx.others, grads[:results]
        tensors, needed = ctx.saved_tensors, ctx.needs_input_grad[:n]
        saved_operands, _ = records((*tensors[:n], *ctx.options))
        if all(g is None for g in grads):
            found: Gradients = (None,) * n
        elif torch.is_grad_enabled() or under_transform() or is_batched(*grads):
            found = differentiable_gradients(
                definition, grads, saved_operands, ctx.options, needed
            )
        else:
            found = backward(grads, tensors[n:], saved_operands, ctx.options, list(needed))
        return *found, *(None,) * ctx.others

    operator.register_autograd(backward_pass, setup_context=setup_context)


def differentiable_gradients(
    definition: Callable[[Any, Any], Gradients],
    grads: Gradients,
    operands: Any,
    options: Any,
    needed: Sequence[bool],
) -> Gradients:
    """Return the gradients of the definition, which autograd can record."""
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # views: if x depends on W, the gradient of W must not include the path through x
        operands = map_tensors(lambda tensor: tensor.view_as(tensor), operands)
        results = zip(definition(operands, options), grads, strict=False)
        used = [
            (result, g)
            for result, g in results
            if result is not None and result.requires_grad and g is not None
        ]
        if not used:
            return (None,) * len(needed)
        inputs = [tensor for tensor, is_needed in zip(operands, needed, strict=False) if is_needed]
        found = torch.autograd.grad(
            *([result for result, _ in used], inputs, [g for _, g in used]),
            create_graph=create_graph,
            allow_unused=True,
        )
    return at_needed(found, needed)


def from_operator(
    operator: Any, arguments: Callable[[Any, Any], Sequence[Any]] | None = None
) -> _Backward:
    """Return the backward pass that calls an operator.

    The operator takes the same arguments as the pass, but one by one, and returns only the needed
    gradients. A function may turn operands and options into fewer arguments; by default it takes
    all.
    """

    def backward(
        grads: Gradients,
        saved: Sequence[Tensor],
        operands: Any,
        options: Any,
        needed: Sequence[bool],
    ) -> Gradients:
        taken = (*operands, *options) if arguments is None else arguments(operands, options)
        found = operator(*grads, *saved, *taken, needed)
        return at_needed(found, needed)

    return backward


def empty_gradients(operands: Gradients, needed: Sequence[bool]) -> list[Tensor]:
    """Allocate the needed gradients of operands."""
    pairs = zip(operands, needed, strict=False)
    return [v.new_empty(v.shape) for v, is_needed in pairs if v is not None and is_needed]


def at_needed(gradients: Iterable[Tensor | None], needed: Sequence[bool]) -> Gradients:
    """Return the gradients at the needed places, and None at the others."""
    remaining = iter(gradients)
    return [next(remaining) if is_needed else None for is_needed in needed]


def outer(
    a: Tensor,  # (T, B, K)
    b: Tensor,  # (T, B, M)
) -> Tensor:  # (K, M)
    """Return the sum of the outer products of all steps and sequences."""
    return a.flatten(0, 1).T @ b.flatten(0, 1)
