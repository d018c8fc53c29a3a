"""What a call gives for each step of each sequence beside the inputs: resets and gaps in time."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from eigenrnn.ops.arguments import check_resets, check_tensor
from eigenrnn.ops.time_steps import without_padding
from eigenrnn.tracing import is_traced

__all__ = ["check_dt", "checked_gaps", "given", "step_values"]


def step_values(
    input: Tensor | PackedSequence,  # (T, B, M), (B, T, M) or (T, M)
    resets: Any = None,
    dt: Any = None,
    batch_first: bool = False,
) -> dict[str, Tensor]:  # each (T, B), of a packed input the longest sequence first
    """Return the resets and the gaps that are given, by name.

    They have the layout of the input, or one number for each step of all sequences.

    Raises the errors of `check_resets` and `check_dt`.

    Raises:
        TypeError: If they are not packed like the input.
        ValueError: If they have other batch sizes.
    """
    values: dict[str, Tensor] = {}
    checks = {"resets": check_resets, "dt": check_dt}
    for name, value in given(resets=resets, dt=dt).items():
        check = checks[name]
        if isinstance(input, PackedSequence):
            values[name] = _padded(name, value, input, check)
            continue
        steps = input.shape[1 if batch_first and input.dim() == 3 else 0]
        for_all = isinstance(value, Tensor) and value.dim() == 1 and input.dim() == 3
        check(value, (steps,) if for_all else input.shape[:-1], input.device)
        if value.dim() == 1:
            value = value.unsqueeze(1)  # noqa: PLW2901, the same value with an axis of sequences
        elif batch_first:
            value = value.T  # noqa: PLW2901
        batch = 1 if input.dim() == 2 else input.shape[0 if batch_first else 1]
        values[name] = value.expand(steps, batch)
    return values


def given(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def check_dt(dt: object, shape: tuple[int, ...], device: torch.device) -> None:
    """Check gaps in time, but for their values.

    Raises:
        TypeError: If they are not a dense tensor of floating-point numbers.
        ValueError: If their shape or device is wrong.
    """
    dt = check_tensor("dt", dt, shape, device, beside="the inputs are")
    if not dt.is_floating_point():
        raise TypeError(f"expected dt of floating-point numbers, got {dt.dtype}")


def checked_gaps(
    dt: Tensor,  # (T, B)
    sizes: Sequence[int] | Tensor | None,
) -> Tensor:  # (T, B)
    """Return the gaps, with one past the end of each sequence, whatever lies there.

    Raises:
        ValueError: If one is negative or not finite, on the CPU and unless something traces it.
    """
    dt = without_padding(dt.unsqueeze(2), sizes, 1.0).squeeze(2)
    if dt.device.type == "cpu" and not is_traced():
        wrong = ~((dt >= 0) & dt.isfinite())
        if wrong.any():
            # not where: lengths and resets have sorted and cut the sequences
            raise ValueError(f"expected finite gaps dt >= 0, got {dt[wrong][0].item()}")
    return dt


def _padded(
    name: str, value: object, packed: PackedSequence, check: Callable[..., None]
) -> Tensor:  # (T, B), the longest sequence first
    if not isinstance(value, PackedSequence):
        raise TypeError(f"expected {name} packed like the input, got {type(value).__name__}")
    if not torch.equal(value.batch_sizes, packed.batch_sizes):
        raise ValueError(
            f"expected {name} with the batch sizes {packed.batch_sizes.tolist()} of the input, "
            f"got {value.batch_sizes.tolist()}"
        )
    check(value.data, packed.data.shape[:1], packed.data.device)
    padded, _ = pad_packed_sequence(PackedSequence(value.data, value.batch_sizes))
    return padded
