"""What an implementation of a recurrence tells about itself."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import forward_ad

from eigenrnn.tracing import under_transform

__all__ = ["COMPLEX", "REAL", "Backend", "Call"]

REAL = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
"""The real types for which torch's own operations compute a recurrence."""

COMPLEX = frozenset({torch.complex64, torch.complex128})
"""The complex types, likewise."""


@dataclass(frozen=True)
class Call:
    """The facts about one call that decide which backend can serve it.

    Args:
        device: The device type of all tensors, such as ``"cpu"``.
        dtype: The type of all tensors, or that of inputs that U maps to complex states.
        nonlinearity: The name of the nonlinearity.
        transformed: Whether a `torch.func` transform or forward-mode differentiation is at work.
        state_size: How many real numbers make a state.
        options: What is asked beyond the formula: ``"layer_norm"``, ``"zoneout"``, both or none.
    """

    device: str
    dtype: torch.dtype
    nonlinearity: str
    transformed: bool
    state_size: int
    options: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        x: Tensor,
        nonlinearity: str,
        *others: Tensor | None,
        state_size: int,
        options: Iterable[str] = (),
    ) -> "Call":
        """Read the facts off the tensors of a call."""
        transformed = under_transform() or any(
            _is_dual(tensor) for tensor in (x, *others) if tensor is not None
        )
        return cls(x.device.type, x.dtype, nonlinearity, transformed, state_size, tuple(options))


@dataclass(frozen=True, repr=False)
class Backend:
    r"""One implementation of a recurrence.

    Args:
        name: What users pass as `backend=`.
        run: The implementation, which gives all states (or what it reads out of them) and the last
            ones; all backends of a
            recurrence share one signature, and map the inputs if they are given the map. What a
            call asks beyond the formula comes by name, and only to a backend that serves it.
        about: What it is, in a few words.
        dtypes: The types that it has kernels for; it serves no others.
        missing: Says why the backend cannot be used on this machine, or None.
        refuses: Says why it cannot serve a call, or None.
        forgets: Whether `run` takes ``last_only=True``, and then keeps no other states.
        reluctant: Says why it serves a call only if it is told to, or None.
        serves: Which of the options beyond the formula it computes.
        reads: Whether `run` takes a given ``V``, and with it ``d``, and then returns the outputs
            :math:`h_t V^\top + d` in place of the states.
    """

    name: str
    run: Callable[..., tuple[Tensor, Tensor]]
    about: str
    dtypes: frozenset[torch.dtype]
    missing: Callable[[], str | None]
    refuses: Callable[[Call], str | None]
    reluctant: Callable[[Call], str | None] = lambda _: None
    serves: frozenset[str] = frozenset()
    forgets: bool = False
    reads: Callable[[Tensor], bool] = lambda _: False

    def __repr__(self) -> str:
        return f"<backend {self.name!r}>"

    def objection(self, call: Call) -> str | None:
        """Say why the backend cannot serve the call, or None."""
        return self.missing() or self._lacks_type(call) or self._lacks(call) or self.refuses(call)

    def _lacks_type(self, call: Call) -> str | None:
        return None if call.dtype in self.dtypes else f"it has no kernels for {call.dtype}"

    def _lacks(self, call: Call) -> str | None:
        lacking = [option for option in call.options if option not in self.serves]
        return f"it does not compute {' and '.join(lacking)}" if lacking else None


def _is_dual(tensor: Tensor) -> bool:
    # outside `dual_level` there is no tangent
    return not torch.compiler.is_compiling() and forward_ad.unpack_dual(tensor).tangent is not None
