"""Networks of recipes that are residual stacks."""

from collections.abc import Callable

from torch import Generator, nn

from eigenrnn.experiments.recipes.recipe import Row
from eigenrnn.models import ResidualStack, SequenceModel

__all__ = ["stack_model"]


def stack_model(
    row: Row, generator: Generator, *, width: int, depth: int, dropout: float = 0.0
) -> nn.Module:
    """Build a residual stack of a row's layers, with the head that its task needs.

    Args:
        row: The row, whose `hidden_size` is that of each layer.
        generator: The generator that draws the weights.
        width: The width of the stack.
        depth: The number of blocks.
        dropout: The dropout probability of the blocks.
    """
    make_layer: Callable[..., nn.Module] = row.layer  # pyright: ignore[reportAssignmentType]
    options = {"hidden_size": row.hidden_size, "generator": generator, **row.options}
    stack = ResidualStack(
        lambda inputs: make_layer(inputs, **options),
        width,
        depth,
        input_size=row.task.input_size,
        dropout=dropout,
        generator=generator,
    )
    return SequenceModel(stack, row.task.output_size, row.task.readout, generator=generator)
