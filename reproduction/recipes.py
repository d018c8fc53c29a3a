"""All recipes by name: the published ones, and our own, which compare layers and have no paper."""

from collections.abc import Mapping

from eigenrnn_experiments import registry
from eigenrnn_experiments.recipes import Recipe
from reproduction.studies import baselines, permuted_mnist, state_tracking, state_tracking_radius

__all__ = ["RECIPES", "STUDIES"]

STUDIES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for study in (baselines, permuted_mnist, state_tracking, state_tracking_radius)
    for recipe in study.RECIPES
}
"""Our own recipes, by name."""

RECIPES: Mapping[str, Recipe] = {**registry.RECIPES, **STUDIES}
"""All recipes, by name: the published ones and our own."""
