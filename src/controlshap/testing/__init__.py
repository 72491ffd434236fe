"""Exact answers to test against: written as plain loops, from the definitions, sharing no code with the estimators."""

from controlshap.testing.oracles import (
    conditional_map,
    game_from_values,
    gaussian_quadratic_game,
    marginal_game,
    pathwise_game,
    shapley_by_definition,
)

__all__ = [
    "conditional_map",
    "game_from_values",
    "gaussian_quadratic_game",
    "marginal_game",
    "pathwise_game",
    "shapley_by_definition",
]
