"""Variance of the values due to the choice of background rows.

The Shapley value of player j is a mean over background rows of the value in each row's game, `phi_j(b)`. Where the
rows are a sample of a larger population, that mean has the variance `var_b phi_j(b) / M`, however well it is computed:
a term of its own, beside the error of sampling coalitions.
"""

from __future__ import annotations

import numpy as np

from controlshap._arrays import Array, at_least, concat, namespace, variance, weighted_sum
from controlshap._types import FloatArray
from controlshap.statistics.terms import Terms
from controlshap.statistics.two_stage import TwoStageDesign


def background_variances(
    terms: Terms, design: TwoStageDesign, draws: Array, of_background: Array, at_x: Array
) -> Array | None:
    """Variances `(..., components, outputs)` due to the choice of the background; the base value comes last.

    `draws` (..., units, n) are the background rows of each unit. Block means scatter by `var_b phi(b) / n_draws` and by
    the noise of their visits, which is subtracted. None where too few rows were visited to tell.
    """
    n_rows, n_draws = len(of_background), draws.shape[-1]
    weights = design.weights
    if len(design.visits) >= 2:
        pseudo = terms.pseudo_values(weights)[..., :1]
        if terms.constrained:
            # all units are solved for the same total, of which a row's own is f(x) - f(b)
            own = of_background[draws].mean(axis=1) - of_background.mean(axis=0)
            players = pseudo[:, :-1, :, 0] - own[:, None] / (pseudo.shape[1] - 1)
            pseudo = concat([players, pseudo[:, -1:, :, 0]], axis=1)[..., None]
        means = design.block_means(pseudo)
        center = weighted_sum(design.block_weights, means, axis=-4)[..., None, :, :, :]
        between = weighted_sum(design.block_weights, (means - center) ** 2, axis=-4)
        between = between * len(design.visits) / (len(design.visits) - 1.0) - design.noise_within(pseudo, means)
        # blocks that overlap (n_draws does not divide the rows) are alike
        alike = (1.0 - n_draws / n_rows) * design.population / (design.population - 1.0)
        variances = at_least(between[..., 0], 0.0) * n_draws / (n_rows * alike)
    elif n_draws == n_rows > 1:
        values = terms.draw_solutions(weights, at_x[:, 0], of_background[draws[0]])
        if values is None:
            return None
        variances = values.var(axis=0, ddof=1) / n_rows
    else:
        return None
    of_base = variance(of_background, axis=0, ddof=1) / n_rows
    of_base = namespace(variances).broadcast_to(of_base, (*variances.shape[:-2], 1, variances.shape[-1]))
    return concat([variances[..., :-1, :], of_base], axis=-2)


def variances_of_draws(of_draws: FloatArray) -> FloatArray:
    """Variances `(players, outputs)` of values `(draws, players, outputs)`; 0 where there is one draw."""
    return np.asarray(of_draws.var(axis=0, ddof=1) if len(of_draws) > 1 else np.zeros(of_draws.shape[1:]))


def variances_of_exact(variances: FloatArray, of_background: FloatArray) -> FloatArray:
    """As `background_variances`, from variances `(players, outputs)` of exact values between draws."""
    n_rows = len(of_background)
    of_base = of_background.var(axis=0, ddof=1)[None] if n_rows > 1 else np.zeros((1, of_background.shape[1]))
    return np.asarray(np.concatenate([variances, of_base]) / n_rows)
