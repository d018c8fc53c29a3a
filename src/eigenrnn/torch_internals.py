"""What eigenrnn takes from torch without a public name for it; nothing private is used elsewhere.

`tests/test_torch_internals.py` has a test for each function below. It fails if a new release of
torch gives a name another meaning.
"""

import inspect
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.optim import Optimizer

# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false

__all__ = [
    "direct_buffers",
    "direct_children",
    "direct_parameters",
    "first_parameter",
    "forward_mode_is_active",
    "forward_pre_hooks",
    "graph_is_kept",
    "has_dispatch_mode",
    "has_step_hooks",
    "hooks_of_call",
    "is_legacy_batched",
    "original_of",
    "outer_optimisers",
    "record_scan",
    "refuse_names",
    "transform_is_active",
    "weight_names",
    "write_count",
]

# The first ones are asked in every call of a layer, so they are torch's own functions.

is_legacy_batched: Callable[[Tensor], bool] = torch._C._functorch.is_legacy_batchedtensor
"""Whether ``is_grads_batched`` or a vectorised Jacobian of `torch.autograd` made the tensor.

`torch.func` has a public `vmap`, but these two use an older one without any query.
"""

transform_is_active: Callable[[], bool] = torch._C._are_functorch_transforms_active
"""Whether a transform of `torch.func` is active; all its queries are private."""

graph_is_kept: Callable[[], bool] = torch._C._autograd._get_current_graph_task_keep_graph
"""Whether the running backward pass was called with ``retain_graph=True``.

A backward pass that runs another one inside must pass this on, and torch tells it in no other way.
"""


has_dispatch_mode: Callable[[], int] = torch._C._len_torch_dispatch_stack
"""How many `TorchDispatchMode` are active, such as torch's counter of operations; zero for none.

They see every operator, so nothing may bypass the dispatcher inside one.
"""


def forward_mode_is_active() -> bool:
    """Whether the call is inside a `torch.autograd.forward_ad.dual_level`.

    The public `unpack_dual` asks this of one tensor at a time.
    """
    return forward_ad._current_level >= 0


def write_count(tensor: Tensor) -> int:
    """Return the number of writes to a tensor, by which autograd notices a changed operand.

    The attribute has no other name. Inference tensors do not count.
    """
    if tensor.is_inference():
        return 0
    return tensor._version


# A module's public iterators walk over all its parts and check for duplicates, which costs more
# than the rest of a small call. The dictionaries below are the module's own, with no copy.


def direct_parameters(module: nn.Module) -> dict[str, nn.Parameter | None]:
    """Return the dictionary of a module's own parameters, without those of its parts."""
    return module._parameters


def direct_buffers(module: nn.Module) -> dict[str, Tensor | None]:
    """Return the dictionary of a module's own buffers, without those of its parts."""
    return module._buffers


def direct_children(module: nn.Module) -> dict[str, nn.Module | None]:
    """Return the dictionary of a module's parts, which changes when one is replaced."""
    return module._modules


def first_parameter(module: nn.Module) -> nn.Parameter:
    """Return the first of the parameters of a module and its parts, as its iterator does.

    Raises:
        StopIteration: If there is none.
    """
    for parameter in module._parameters.values():
        if parameter is not None:
            return parameter
    return next(module.parameters())


def forward_pre_hooks(module: nn.Module) -> list[Callable[..., Any]]:
    """Return the hooks that a call of a module runs first; torch lists them nowhere."""
    return list(module._forward_pre_hooks.values())


def hooks_of_call(module: nn.Module) -> list[dict[Any, Any]]:
    """Return all hooks that a call of a module and its backward pass run, by kind."""
    return [
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    ]


def weight_names(layer: nn.RNNBase) -> list[str]:
    """Return the names of all weights of one of torch's recurrent layers, in torch's order.

    The public `all_weights` has the tensors without their names.
    """
    return layer._flat_weights_names


def record_scan(
    step: Callable[..., list[Tensor]],
    states: list[Tensor],
    inputs: list[Tensor],
    others: tuple[Any, ...],
) -> list[Tensor]:
    """Record a loop over time steps in the graph that `torch.export` traces.

    torch has no public operator that carries a state from step to step. This one is also what
    `torch.onnx.export` turns into ONNX's Scan.
    """
    from torch._higher_order_ops.scan import scan_op  # slow to import, and only exports need it

    return scan_op(step, states, inputs, others)


def original_of(tensor: Tensor) -> Tensor | None:
    """Return the tensor for which `torch.export` put a fake one; None if another tracer did.

    There is no public way back to the tensor that a fake one was made of.
    """
    if not isinstance(tensor, FakeTensor):
        return tensor
    converter = tensor.fake_mode.fake_tensor_converter.meta_converter
    for original, identifier in converter.describer.lookup_tensor.items():
        if converter.tensor_memo.get(identifier) is tensor:
            return original
    return None


# torch wraps the `step` of each optimiser class in this function, which calls the hooks.
_STEP_WRAPPER = Optimizer.profile_hook_step(lambda: None).__code__


def has_step_hooks(optimiser: Optimizer) -> bool:
    """Whether torch calls step hooks: not for a class that never called the base constructor."""
    return getattr(type(optimiser).step, "hooked", False)


def outer_optimisers(optimiser: Optimizer) -> list[Optimizer]:
    """Return the optimisers whose `step` is still running and called that of `optimiser`.

    The Python frames tell. The public hooks before and after a step do not: an optimiser that
    never called the base constructor has none, and a step that raises an error never calls the
    second one, so a list kept by them would name optimisers that have stopped.
    """
    if torch.compiler.is_compiling():
        return []  # compiled code has no Python frames
    found: list[Optimizer] = []
    frame = inspect.currentframe()
    while frame is not None:
        owner = None
        if frame.f_code.co_name in ("step", "wrapper"):
            owner = frame.f_locals.get("self")
        if isinstance(owner, Optimizer):
            # a step with hooks has two frames; its wrapper counts
            in_wrapper = frame.f_code is _STEP_WRAPPER
            if in_wrapper == has_step_hooks(owner):
                found.append(owner)
        frame = frame.f_back
    if found and found[0] is optimiser:
        return found[1:]
    return found  # a compiled optimiser has no frame of its own


class _ReadOnlyNames(dict[str, Any]):
    """The parameters of a module that computes weights of certain names.

    `torch.nn.utils.parametrize` and `weight_norm` look into the dictionary of the parameters, and
    their own errors do not say what to do.
    """

    def __init__(
        self, is_refused: Callable[[str], bool], remedy: Callable[[str], str], **items: Any
    ) -> None:
        super().__init__(**items)
        self.is_refused = is_refused
        self.remedy = remedy

    def __contains__(self, name: object) -> bool:
        self._check(name)
        return super().__contains__(name)

    def __delitem__(self, name: str) -> None:
        self._check(name)
        super().__delitem__(name)

    def __missing__(self, name: str) -> Any:
        self._check(name)
        raise KeyError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_names, (self.is_refused, self.remedy, dict(self))

    def _check(self, name: object) -> None:
        """Raise the error of a name that is computed.

        Raises:
            ValueError: If it is one.
        """
        # the first test is fast, and all attributes of a module pass here
        is_weight = isinstance(name, str) and name.startswith(("weight_", "bias_"))
        # torch.nn.utils.prune registers `weight_hh_l0_orig` in place of `weight_hh_l0`
        if is_weight and self.is_refused(cast("str", name).removesuffix("_orig")):
            raise ValueError(self.remedy(cast("str", name)))


def _restore_names(
    is_refused: Callable[[str], bool], remedy: Callable[[str], str], items: dict[str, Any]
) -> _ReadOnlyNames:
    return _ReadOnlyNames(is_refused, remedy, **items)


def refuse_names(
    module: nn.Module, is_refused: Callable[[str], bool], remedy: Callable[[str], str]
) -> None:
    """Raise an error where code wants to replace or parametrise a weight that is computed.

    Args:
        module: A new module, without parameters of its own.
        is_refused: Whether a name is that of a computed weight.
        remedy: Returns the message for a name.
    """
    vars(module)["_parameters"] = _ReadOnlyNames(is_refused, remedy)
