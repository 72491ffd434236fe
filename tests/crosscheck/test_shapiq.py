"""Interactions and main effects are the exact k-SII of shapiq 1.8.0, which runs under newer versions of Python.

Its numbers are kept here. They are printed, in an environment of `benchmarks/requirements-peers.txt` and from this
folder, by

    python -c "import test_shapiq; print(*test_shapiq.ask_shapiq())"
"""

import numpy as np

N_PLAYERS = 6
X = np.array([1.0, -0.5, 2.0, 0.8, -1.5, 0.6])
#: No random numbers, whose streams may change with numpy.
BACKGROUND = np.round(np.sin(np.arange(1.0, 30 * N_PLAYERS + 1.0) ** 1.5).reshape(30, N_PLAYERS), 2)

THEIR_MAIN_EFFECTS = [
    0.958819597928,
    -0.117629118790,
    -0.109966663639,
    0.027486027778,
    -0.065692638889,
    0.134741361111,
]
THEIR_PAIRS = [
    0.147748163004,
    -0.242157968476,
    -0.000000000000,
    -0.000000000000,
    0.278663333333,
    -0.350487815968,
    0.000000000000,
    -0.000000000000,
    0.000000000000,
    -0.000000000000,
    -0.000000000000,
    0.000000000000,
    -0.374754016667,
    -0.107238016667,
    -0.294639350000,
]


def model(rows):
    """Interactions of order two and more."""
    return (
        np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 2]) + rows[:, 3] * rows[:, 4] * rows[:, 5] + rows[:, 0] * rows[:, 5]
    )


def game(coalitions):
    """Values of coalitions `(n, players)`."""
    return np.array([model(np.where(coalition, X, BACKGROUND)).mean() for coalition in coalitions])


def test_exact_interactions_are_those_of_shapiq():
    import controlshap as cs  # the other environment has only shapiq

    explanation = cs.Explainer(model, BACKGROUND)(X[None], budget=10_000, interactions=2, rng=0)
    assert explanation.status[0] == "exact"
    pairs = explanation.interactions
    np.testing.assert_allclose(pairs.index[0][np.triu_indices(N_PLAYERS, 1)], THEIR_PAIRS, atol=1e-9)
    np.testing.assert_allclose(np.diag(pairs.values[0]), THEIR_MAIN_EFFECTS, atol=1e-9)


def ask_shapiq():
    """Main effects and pairs."""
    import shapiq

    found = shapiq.ExactComputer(game, n_players=N_PLAYERS)(index="k-SII", order=2)
    return found.get_n_order_values(1), found.get_n_order_values(2)[np.triu_indices(N_PLAYERS, 1)]
