"""Exact answers to test against: written as plain loops, from the definitions, sharing no code with the estimators."""

from controlshap.testing.causal import causal_quadratic_game, moments_after
from controlshap.testing.mixtures import mixture_quadratic_game, mixture_score_game
from controlshap.testing.oracles import (
    conditional_map,
    copula_game,
    copula_sum_game,
    empirical_game,
    game_from_values,
    gaussian_quadratic_game,
    interactions_by_definition,
    marginal_game,
    normal_score,
    pathwise_game,
    shapley_by_definition,
    value_of_score,
)
from controlshap.testing.orders import allowed_orders, values_over

__all__ = [
    "allowed_orders",
    "causal_quadratic_game",
    "conditional_map",
    "copula_game",
    "copula_sum_game",
    "empirical_game",
    "game_from_values",
    "gaussian_quadratic_game",
    "interactions_by_definition",
    "marginal_game",
    "mixture_quadratic_game",
    "mixture_score_game",
    "moments_after",
    "normal_score",
    "pathwise_game",
    "shapley_by_definition",
    "value_of_score",
    "values_over",
]
