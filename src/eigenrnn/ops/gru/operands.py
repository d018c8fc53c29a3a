"""The operands and the options of the gated recurrence."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from torch import Tensor

__all__ = [
    "FORMS",
    "GRUOperands",
    "GRUOptions",
    "form_features",
    "gru_saved_parts",
]


class GRUOperands(NamedTuple):
    """The tensors of one call, as `gru` describes them."""

    x: Annotated[Tensor, "T", "B", "M"]  # without U they are mapped: (T, B, 3 N)
    W: Annotated[Tensor, "3N", "N"]
    h0: Annotated[Tensor, "B", "N"]
    bias: Annotated[Tensor | None, "N"] = None
    recurrent_bias: Annotated[Tensor | None, "N"] = None
    U: Annotated[Tensor | None, "3N", "M"] = None
    c: Annotated[Tensor | None, "3N"] = None
    gain: Annotated[Tensor | None, "3N"] = None
    shift: Annotated[Tensor | None, "3N"] = None
    mask: Annotated[Tensor | None, "T", "B", "N"] = None  # bool
    resets: Annotated[Tensor | None, "T", "B"] = None  # bool


class GRUOptions(NamedTuple):
    """The options of one call: those of `gru` and, like all recurrences, those of `Options`."""

    nonlinearity: str = "tanh"
    reset_after: bool = True
    update_keeps: bool = True
    batch_sizes: Sequence[int] | None = None
    reverse: bool = False
    last_only: bool = False
    products: str = "float32"
    rate: float = 0.0


FORMS = frozenset({"reset_after=False", "update_keeps=False"})
"""The forms that differ from `torch.nn.GRU`, as features of a backend."""


def form_features(reset_after: bool, update_keeps: bool) -> list[str]:
    """Return the features among `FORMS` that a call uses."""
    form = {"reset_after": reset_after, "update_keeps": update_keeps}
    return [f"{name}=False" for name, flag in form.items() if not flag]


def gru_saved_parts(operands: GRUOperands, options: GRUOptions) -> list[str]:
    """Return what the kernels save of each unit.

    These are r, u and c; if the reset is after the matrix, the product that it multiplies; and
    with LayerNorm the normalised arguments of the three.
    """
    parts = ["reset", "update", "candidate"]
    if options.reset_after:
        parts.append("product")
    if operands.gain is not None:
        parts += ["normed_reset", "normed_update", "normed_candidate"]
    return parts
