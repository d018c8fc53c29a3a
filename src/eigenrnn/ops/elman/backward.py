"""The gradients of the operands from those of the pre-activations."""

from collections.abc import Collection

from torch import Tensor

from eigenrnn.linalg import complex_to_pairs, pairs_to_complex
from eigenrnn.ops.arguments import Options
from eigenrnn.ops.elman.reference import ElmanOperands
from eigenrnn.ops.time_steps import outer, weight_gradient, without_padding

__all__ = ["bias_gradient", "operand_gradients"]


def operand_gradients(
    delta: Tensor,  # (T, B, N), of the pre-activations
    h: Tensor,  # (T, B, N)
    operands: ElmanOperands,
    options: Options,
    needed: Collection[str],
) -> dict[str, Tensor]:
    """Return the gradients of x, W, U and c, if they are needed."""
    x = operands.x
    U = operands.U
    gradients: dict[str, Tensor] = {}
    if "x" in needed and U is None:
        gradients["x"] = delta
    elif "x" in needed and U is not None:
        gradients["x"] = delta @ U.conj_physical()
        if not x.is_complex():  # a real input has a real gradient, also if the states are complex
            gradients["x"] = gradients["x"].real.contiguous()
    if "W" in needed:
        gradients["W"] = weight_gradient(delta, h, operands, options)
    if "U" in needed:
        # delta is zero past the end of a sequence, but zero times NaN is NaN
        inputs = without_padding(x, options.batch_sizes)
        gradients["U"] = outer(delta, inputs.conj_physical().to(delta.dtype))
    if "c" in needed:
        gradients["c"] = delta.sum((0, 1))
    return gradients


def bias_gradient(
    total: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    nonlinearity: str,
) -> Tensor:  # (N,)
    """Sum the state gradients along the phases; on a CPU, in blocks that fit into the cache.

    The gradients of the pre-activations have the same components along the phases. Across the
    phases, complex ones may be so large that rounding destroys these components.
    """
    if h.device.type == "cpu":
        # blocks of half a megabyte in float32: seven times as fast as all steps at once, see
        # README.md
        steps = max(1, 2**17 // max(1, h[0].numel()))
    else:  # where each block would cost several launches
        steps = len(h)
    blocks = zip(total.split(steps), h.split(steps), strict=True)
    parts = ((d * _phases(nonlinearity, s).conj_physical()).sum((0, 1)).real for d, s in blocks)
    return sum(parts)  # type: ignore[return-value]


def _phases(nonlinearity: str, h: Tensor) -> Tensor:  # (T, B, N)
    """Return the signs or phases of the states; the bias of modReLU shifts states along them."""
    if nonlinearity != "modrelu_paired":
        return h.sgn()
    return complex_to_pairs(pairs_to_complex(h).sgn())
