"""The map of a layer's states to outputs, by the recurrence itself where it can."""

from torch import Tensor, nn

from eigenrnn.layers.abstract_direction import AbstractDirection

__all__ = ["told_to_read"]

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def told_to_read(head: nn.Linear | None, direction: AbstractDirection) -> dict[str, Tensor | None]:
    """Return what a direction is told so that it gives the outputs of a head, by name.

    Nothing, where it cannot, or where the head does more than its formula: hooks and
    parametrisations, or a `forward` of its own, are for the head's own call to run.
    """
    if head is None or type(head) is not nn.Linear or not direction.reads_out():
        return {}
    if "forward" in vars(head) or any(getattr(head, name) for name in _HOOKS):
        return {}
    return {"V": head.weight, "d": head.bias}
