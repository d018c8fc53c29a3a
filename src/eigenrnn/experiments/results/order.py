"""In which order the runs of all recipes are made: what says most for its time comes first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from eigenrnn.experiments.recipes import Entry, Recipe

__all__ = ["GROUPS", "Part", "in_order"]


@dataclass(frozen=True)
class Part:
    """Some rows of a recipe.

    Args:
        recipe: The name of the recipe.
        rows: Their labels, or parts of them; all rows if there are none.
        points: Those points of their grids alone; all if there are none.
        seeds: Those seeds alone; all if there are none.
        minutes: How long each run trains at this turn; the rest of it comes with all else.
    """

    recipe: str
    rows: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    minutes: float | None = None

    def takes(self, point: str, seed: int) -> bool:
        """Whether a run of its rows is in it."""
        return (not self.points or point in self.points) and (not self.seeds or seed in self.seeds)


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
        # as many epochs as are done in an hour and a half
        *(
            Part(recipe, (row,), seeds=(0,), minutes=90)
            for recipe, row in (
                ("nnrnn/table1", "nnRNN 1024 T=150"),
                ("nnrnn/table1", "LSTM 475 T=150"),
                ("nc_gru/table5", "NC-GRU(U_c) 435"),
                ("enrnn/table3", "ENRNN 310/720"),
            )
        ),
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
) -> Iterator[tuple[int, Recipe, Entry, Part]]:
    """Yield the rows of all recipes: the number of the group, the recipe, the row and its part.

    What is in several parts comes up again.
    """
    parts = [(number, part) for number, group in enumerate(GROUPS, start=1) for part in group]
    for number, part in parts:
        if part.recipe in recipes:
            recipe = recipes[part.recipe]
            for row in recipe.select(list(part.rows)):
                yield number, recipe, row, part
    for recipe in recipes.values():
        for row in recipe.rows:
            yield len(GROUPS), recipe, row, Part(recipe.name)
