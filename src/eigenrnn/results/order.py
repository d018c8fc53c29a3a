"""In which order the runs of all recipes are made: what says most for its time comes first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from eigenrnn.recipes import Entry, Recipe

__all__ = ["GROUPS", "Part", "in_order"]


@dataclass(frozen=True)
class Part:
    """Some rows of a recipe.

    Args:
        recipe: The name of the recipe.
        rows: Their labels, or parts of them; all rows if there are none.
        points: Those points of their grids alone; all if there are none.
    """

    recipe: str
    rows: tuple[str, ...] = ()
    points: tuple[str, ...] = ()


GROUPS: tuple[tuple[Part, ...], ...] = (
    (
        Part("nnrnn/table6"),
        Part("nnrnn/fig2", ("copying",)),
        Part("nnrnn/fig4", ("copying",)),
        Part("scornn/fig1", ("scoRNN 190", "LSTM 68", "expRNN 190")),
        Part("enrnn/fig2", ("ENRNN 192",)),
        Part("enrnn/fig1", ("ENRNN 96/64",)),
    ),
    (
        Part("scornn/table2", ("scoRNN 170",)),
        Part("scornn/table1", ("scoRNN 170",)),
        Part("scornn/fig2", ("scoRNN 170", "LSTM 60")),
        Part("nc_gru/table3"),
    ),
    (
        Part("nc_gru/table1"),
        Part("nc_gru/table2"),
        Part(
            "nc_gru/table4",
            ("NC-GRU(U_c) 96 T=1000", "NC-GRU(U_c,U_r) 96 T=1000", "GORU 100 T=1000"),
        ),
        Part("scornn/fig1", ("full-capacity uRNN 128 T=1000",)),
    ),
    (
        Part("nnrnn/table1", ("nnRNN 1024 T=150", "LSTM 475 T=150")),
        Part("nc_gru/table5", ("NC-GRU(U_c) 435",)),
        Part("enrnn/table3", ("ENRNN 310/720",)),
    ),
    (
        # of each search the point in its middle
        Part(
            "nonnormal/fig3",
            ("copying",),
            ("lr=5e-05 lambda=1.01", "lr=5e-05 alpha=1.02", "lr=5e-05 beta=0.04"),
        ),
        Part("scornn/fig1", ("restricted-capacity uRNN 470 T=1000",)),
    ),
)
"""What comes first, by groups; all else follows as the recipes are listed."""


def in_order(
    recipes: Mapping[str, Recipe],
) -> Iterator[tuple[int, Recipe, Entry, tuple[str, ...]]]:
    """Yield the rows of all recipes: the number of the group, the recipe, the row and its points.

    What is in several parts comes up again.
    """
    parts = [(number, part) for number, group in enumerate(GROUPS, start=1) for part in group]
    for number, part in parts:
        if part.recipe in recipes:
            recipe = recipes[part.recipe]
            for row in recipe.select(list(part.rows)):
                yield number, recipe, row, part.points
    for recipe in recipes.values():
        for row in recipe.rows:
            yield len(GROUPS), recipe, row, ()
