"""What eigenrnn takes from torch without a public name for it; nothing private is used elsewhere.

`tests/test_torch_internals.py` has a test for each function below. It fails if a new release of
torch gives a name another meaning.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import TorchDispatchMode

# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false

__all__ = [
    "DrawFrom",
    "autocast_is_active",
    "check_own_weights",
    "constant_while_compiling",
    "contents",
    "first_tensor",
    "forward_mode_is_active",
    "fp32_precision",
    "graph_is_kept",
    "has_dispatch_mode",
    "has_own_forward",
    "hooked_weights",
    "hooks_of_call",
    "is_eager",
    "is_exporting",
    "is_legacy_batched",
    "listed_parts",
    "original_of",
    "record_scan",
    "stands_for_another",
    "transform_is_active",
    "weight_names",
    "write_count",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

# The first ones are asked in every call of a layer, so they are torch's own functions.

is_legacy_batched: Callable[[Tensor], bool] = torch._C._functorch.is_legacy_batchedtensor
"""Whether ``is_grads_batched`` or a vectorised Jacobian of `torch.autograd` made the tensor.

`torch.func` has a public `vmap`, but these two use an older one without any query.
"""

transform_is_active: Callable[[], bool] = torch._C._are_functorch_transforms_active
"""Whether a transform of `torch.func` is active; all its queries are private."""

autocast_is_active: Callable[[], bool] = torch._C._is_any_autocast_enabled
"""Whether autocast is enabled for any device; the public query asks for one."""

fp32_precision: Callable[[str, str], str] = torch._C._get_fp32_precision_getter
"""Return the attribute `fp32_precision` of a part of `torch.backends`, such as ("mkldnn", "rnn").

To read the attribute itself takes nearly a microsecond, which small calls notice.
"""

stands_for_another: Callable[[Tensor], bool] = torch._is_functional_tensor  # pyright: ignore[reportPrivateImportUsage]
"""Whether a tensor is one of `torch.func.functionalize`, whose numbers are those of another."""

graph_is_kept: Callable[[], bool] = torch._C._autograd._get_current_graph_task_keep_graph
"""Whether the running backward pass was called with ``retain_graph=True``.

A backward pass that runs another one inside must pass this on, and torch tells it in no other way.
"""


has_dispatch_mode: Callable[[], int] = torch._C._len_torch_dispatch_stack
"""How many `TorchDispatchMode` are active, such as torch's counter of operations; zero for none.

They see every operator, so nothing may bypass the dispatcher inside one.
"""


class DrawFrom(TorchDispatchMode):
    """Gives a generator to every draw on the CPU that has none, in the calling thread alone.

    `torch.random.fork_rng` changes the global generator, which belongs to all threads. Torch
    documents modes under this private name only ("Extending PyTorch").
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator
        self.has_drawn = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        options = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded in func.tags and options.get("generator") is None:
            self.has_drawn = True
            options["generator"] = self.generator
            return func.overloadpacket(*args, **options)  # only some overloads take a generator
        return func(*args, **options)


def constant_while_compiling(function: _Function) -> _Function:
    """Let `torch.compile` keep the result of a function with which it traces.

    This is all that `torch.compiler.assume_constant_result` does, but that imports the compiler,
    in nearly a second.
    """
    function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return function


def forward_mode_is_active() -> bool:
    """Whether the call is inside a `torch.autograd.forward_ad.dual_level`.

    The public `unpack_dual` asks this of one tensor at a time.
    """
    return forward_ad._current_level >= 0


def is_eager() -> bool:
    """Whether no part of torch but autograd watches or changes the operations of this thread.

    Those parts are `torch.compile`, exports, `torch.func`, forward mode, autocast on the CPU, and
    dispatch modes, such as torch's counter of operations. It is asked once in each small call.
    """
    return not (
        torch.compiler.is_compiling()
        or transform_is_active()
        or torch.is_autocast_enabled("cpu")
        or torch._C._is_tracing()
        or forward_ad._current_level >= 0
        or has_dispatch_mode()
    )


def write_count(tensor: Tensor) -> int:
    """Return the number of writes to a tensor, by which autograd notices a changed operand.

    The attribute has no other name. Inference tensors do not count.
    """
    if tensor.is_inference():
        return 0
    return tensor._version


# A module's public iterators walk over all its parts and check for duplicates, which costs more
# than the rest of a small call. The dictionaries below are the module's own, with no copy.


def contents(
    module: nn.Module,
) -> tuple[dict[str, nn.Parameter | None], dict[str, Tensor | None], dict[str, nn.Module | None]]:
    """Return the dictionaries of a module's own parameters, buffers and parts."""
    return module._parameters, module._buffers, module._modules


def listed_parts(module: nn.Module, name: str) -> list[Any]:
    """Return the modules in the `ModuleList` that is a part of a module."""
    parts: Any = module._modules[name]
    return list(parts._modules.values())


def first_tensor(module: nn.Module) -> Tensor:
    """Return the first parameter of a module and its parts, or the first other tensor of numbers.

    A copy that `torch.nn.DataParallel` makes has no parameters, but tensors as attributes.

    Raises:
        StopIteration: If there is none.
    """
    for parameter in module._parameters.values():
        if parameter is not None:
            return parameter
    for parameter in module.parameters():
        return parameter
    for part in module.modules():
        # a copy shares these tensors with the original, on whose device they are
        shared = getattr(part, "tensor_attributes", ())
        for name, value in vars(part).items():
            if isinstance(value, Tensor) and value.is_floating_point() and name not in shared:
                return value
    return next(buffer for buffer in module.buffers() if buffer.is_floating_point())


def hooked_weights(module: nn.Module) -> list[str]:
    """Return the names of weights that a hook computes from others before each call.

    Pruning and the older norms of `torch.nn.utils` leave a plain tensor in the place of a weight,
    and rename its parameter. Between calls the tensor holds the value of the last one.
    """
    found: list[str] = []
    for parameter in module._parameters:
        for end in ("_orig", "_v"):  # of pruning and `spectral_norm`, and of `weight_norm`
            name = parameter.removesuffix(end)
            if name != parameter and isinstance(vars(module).get(name), Tensor):
                found.append(name)
    return found


def check_own_weights(module: nn.Module, *, written: bool = True) -> None:
    """Check that the weights of a module and of its parts are parameters of their own.

    Args:
        module: The module.
        written: Whether they are written, and not only read: a parametrisation computes a weight
            when it is read.
    Raises:
        ValueError: If one of them is computed from others.
    """
    for part in module.modules():
        names = hooked_weights(part)
        if written and parametrize.is_parametrized(part):
            names += list(cast("nn.ModuleDict", part.parametrizations))
        if names:
            raise ValueError(
                f"expected weights of their own, got {names[0]} that torch.nn.utils computes from "
                "others: first call prune.remove, remove_weight_norm, remove_spectral_norm or "
                "parametrize.remove_parametrizations"
            )


def has_own_forward(module: nn.Module) -> bool:
    """Whether a class of neither torch nor eigenrnn defines the `forward` of a module."""
    package, *_ = type(module).forward.__module__.split(".")
    return package not in ("torch", "eigenrnn")


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


def is_exporting() -> bool:
    """Whether `torch.export` traces the current call.

    Before torch 2.13, `torch.compile` takes the public `torch.compiler.is_exporting()` for True.
    """
    return torch.compiler._is_exporting_flag


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
