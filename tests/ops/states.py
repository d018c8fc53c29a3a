"""The recurrence operators without the final state, for tests that need only the outputs."""

from typing import Any

from torch import Tensor

from eigenrnn import ops


def elman(*arguments: Any, **options: Any) -> Tensor:  # (T, B, N)
    return ops.elman(*arguments, **options)[0]


def gru(*arguments: Any, **options: Any) -> Tensor:  # (T, B, N)
    return ops.gru(*arguments, **options)[0]
