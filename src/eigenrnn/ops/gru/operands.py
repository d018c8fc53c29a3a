"""The operands and the options of the gated recurrence."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from eigenrnn.ops.recurrence import Axes

__all__ = [
    "FORMS",
    "GRU_AXES",
    "GRUOperands",
    "GRUOptions",
    "form_features",
    "gru_saved_parts",
]


class GRUOperands(NamedTuple):
    """The tensors of one call, as `gru` describes them."""

    x: Tensor  # (T, B, 3 N) or (T, B, M)
    W: Tensor  # (3 N, N)
    h0: Tensor  # (B, N)
    bias: Tensor | None = None  # (N,)
    recurrent_bias: Tensor | None = None  # (N,)
    U: Tensor | None = None  # (3 N, M)
    c: Tensor | None = None  # (3 N,)
    gain: Tensor | None = None  # (3 N,)
    shift: Tensor | None = None  # (3 N,)
    mask: Tensor | None = None  # (T, B, N), bool
    resets: Tensor | None = None  # (T, B), bool


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


GRU_AXES: Axes = {
    "x": ("T", "B", "M"),
    "W": ("3N", "N"),
    "h0": ("B", "N"),
    "bias": ("N",),
    "recurrent_bias": ("N",),
    "U": ("3N", "M"),
    "c": ("3N",),
    "gain": ("3N",),
    "shift": ("3N",),
    "mask": ("T", "B", "N"),
    "resets": ("T", "B"),
}


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
