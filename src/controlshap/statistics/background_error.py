"""How much the values owe to which rows happen to be in the background. Arrays only.

The Shapley value of player j is a mean over background rows of the value in each row's game, `phi_j(b)`. Where the
rows are a sample of a larger population, that mean has the variance `var_b phi_j(b) / M`, however well it is computed:
a term of its own, beside the error of sampling coalitions.
"""

from __future__ import annotations

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.statistics.batched_terms import LinearisedTerms
from controlshap.statistics.terms import LeastSquaresTerms, Terms
from controlshap.statistics.two_stage import Strata


def background_variances(
    terms: Terms, strata: Strata, draws: IntArray, of_background: FloatArray, at_x: FloatArray
) -> FloatArray | None:
    """Variances `(components, outputs)` due to the choice of the background; the base value is the last component.

    `draws` (units, n) are the background rows of each unit. Block means scatter by `var_b phi(b) / n_draws` and by the
    noise of their visits, which is subtracted. None where too few rows were visited to tell.
    """
    n_rows, n_draws = len(of_background), draws.shape[1]
    weights = strata.weights
    if len(strata.visits) >= 2:
        pseudo = terms.pseudo_values(weights)[..., 0]
        if isinstance(terms, (LeastSquaresTerms, LinearisedTerms)):
            # all units are solved for the same total, of which a row's own is f(x) - f(b)
            own = of_background[draws].mean(axis=1) - of_background.mean(axis=0)
            pseudo = np.concatenate([pseudo[:, :-1] - own[:, None] / terms.n_players, pseudo[:, -1:]], axis=1)
        means = strata.block_means(pseudo)
        between = means.var(axis=0, ddof=1) - strata.noise_within(pseudo, means)
        # blocks that overlap (n_draws does not divide the rows) are alike
        alike = (1.0 - n_draws / n_rows) * strata.population / (strata.population - 1.0)
        variances = np.maximum(between, 0.0) * n_draws / (n_rows * alike)
    elif isinstance(terms, (LeastSquaresTerms, LinearisedTerms)) and n_draws == n_rows > 1:
        values = terms.draw_solutions(weights, at_x[:, 0], of_background[draws[0]])
        variances = values.var(axis=0, ddof=1) / n_rows
    else:
        return None
    variances[-1] = of_background.var(axis=0, ddof=1) / n_rows
    return np.asarray(variances)


def variances_of_draws(of_draws: FloatArray, of_background: FloatArray) -> FloatArray:
    """The same from exact values `(draws, players, outputs)` of some background rows."""
    n_rows = len(of_background)
    if n_rows < 2:
        return np.zeros((of_draws.shape[1] + 1, of_draws.shape[2]))
    return np.concatenate([of_draws.var(axis=0, ddof=1), of_background.var(axis=0, ddof=1)[None]]) / n_rows
