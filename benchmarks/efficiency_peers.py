"""Other explainers behind one signature: values of one row from a bare callable, at a given number of evaluations.

Each peer is a function `(model, background, x, players, budget, seed) -> values`, where `players` lists the columns of
each player. What all of them may do without charge is what ours does: f on the background, once, and f(x). A peer that
works on coalitions therefore gets `budget // len(background)` of them beside the empty and the full one. `None` says
that the budget is too small for the peer.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

Rows = np.ndarray
Model = Callable[[Rows], np.ndarray]
Players = list[list[int]]
#: Contenders that are not other people's: ours, the same runs without control, and what correlated cells compare with.
OURS, PLAIN, KERNEL = "ours", "no control", "KernelSHAP, 10 draws"
#: Ours with control="thorough", which fits everything however long it takes.
THOROUGH = "thorough"
Peer = Callable[[Model, Rows, np.ndarray, Players, int, int], "np.ndarray | None"]


class Counter:
    """A model that counts the rows it was given."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.n_rows = 0

    def __call__(self, rows: Rows) -> np.ndarray:
        self.n_rows += len(rows)
        return self.model(rows)


class OneColumnPerPlayer:
    """The same game for explainers without groups: a column for each player, which holds a code of its block.

    Equal blocks have equal codes, so an explainer that looks for players who cannot matter finds them.
    """

    def __init__(self, model: Model, background: Rows, x: np.ndarray, players: Players) -> None:
        self.model, self.players, self.n_columns = model, players, background.shape[1]
        table = np.vstack([background, x])
        parts = [np.unique(table[:, columns], axis=0, return_inverse=True) for columns in players]
        self.levels = [levels for levels, _ in parts]
        codes = np.column_stack([code.ravel() for _, code in parts]).astype(float)
        self.background, self.x = codes[:-1], codes[-1]

    def __call__(self, codes: Rows) -> np.ndarray:
        codes = np.asarray(codes).astype(int)
        rows = np.empty((len(codes), self.n_columns))
        for player, columns in enumerate(self.players):
            rows[:, columns] = self.levels[player][codes[:, player]]
        return self.model(rows)


def coalition_game(model: Model, background: Rows, x: np.ndarray, players: Players) -> Callable[[Rows], np.ndarray]:
    """v(S): the mean of the model over the background with the columns of S taken from x."""
    owner = np.empty(background.shape[1], dtype=int)
    for player, columns in enumerate(players):
        owner[columns] = player

    def game(coalitions: Rows) -> np.ndarray:
        shown = np.atleast_2d(coalitions).astype(bool)[:, owner]
        rows = np.where(shown[:, None], x, background[None])
        return model(rows.reshape(-1, len(x))).reshape(len(shown), -1).mean(axis=1)

    return game


def shap_kernel(
    model: Model, background: Rows, x: np.ndarray, players: Players, budget: int, seed: int
) -> np.ndarray | None:
    """`shap.KernelExplainer` without its selection of features."""
    import shap
    from shap.utils._legacy import DenseData

    logging.getLogger("shap").setLevel(logging.ERROR)
    np.random.seed(seed)  # noqa: NPY002 (shap draws from the global stream)
    names = [str(player) for player in range(len(players))]
    explainer = shap.KernelExplainer(model, DenseData(background, names, [np.array(columns) for columns in players]))
    return explainer.shap_values(x[None], nsamples=budget // len(background), l1_reg=False, silent=True)[0]


def shap_permutation(
    model: Model, background: Rows, x: np.ndarray, players: Players, budget: int, seed: int
) -> np.ndarray | None:
    """`shap.PermutationExplainer`: as many walks and reversed walks as the evaluations it really makes allow."""
    import shap

    counter = Counter(model)
    coded = OneColumnPerPlayer(counter, background, x, players)
    walk = 2 * len(players) + 1
    masker = shap.maskers.Independent(coded.background, max_samples=len(background))
    explainer = shap.PermutationExplainer(coded, masker, seed=seed)
    found: list[np.ndarray] = []
    # It leaves out evaluations where x and a background row agree, so what a walk costs is seen afterwards.
    dearest, spent = 0, 0
    while spent + max(dearest, 1) <= budget:
        before = counter.n_rows
        values = explainer(coded.x[None], max_evals=walk, silent=True).values[0]
        cost = counter.n_rows - before - len(background)
        if spent + cost > budget:
            break
        found.append(values)
        dearest, spent = max(dearest, cost), spent + cost
        if cost <= 0:
            break
    return np.mean(found, axis=0) if found else None


def lightshap(
    method: str, model: Model, background: Rows, x: np.ndarray, players: Players, budget: int, seed: int
) -> np.ndarray | None:
    """`lightshap.explain_any`: the most exact of its forms that the budget allows, for all of the budget."""
    from lightshap import explain_any

    p, n_coalitions = len(players), budget // len(background)
    # Coalitions that are evaluated once, and those of an iteration.
    costs = {"exact": (2**p - 2, 0)}
    if method == "kernel":
        costs |= {"h2": (p * (p + 1), 2 * (p - 5)), "h1": (2 * p, 2 * (p - 3)), "sampling": (0, 2 * (p - 1))}
    else:
        costs |= {"sampling": (2 * p, 2 * (p - 3))}
    affordable = [how for how, cost in costs.items() if sum(cost) <= n_coalitions and (how == "exact" or cost[1] > 2)]
    if not affordable:
        return None
    once, each = costs[affordable[0]]
    coded = OneColumnPerPlayer(model, background, x, players)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explanation = explain_any(
            coded, coded.x[None], bg_X=coded.background, method=method, how=affordable[0], tol=0.0,
            max_iter=max(1, (n_coalitions - once) // max(each, 1)), random_state=seed, verbose=False,
        )  # fmt: skip
    return np.asarray(explanation.shap_values)[0].reshape(p)


def shapiq(
    name: str, settings: dict, model: Model, background: Rows, x: np.ndarray, players: Players, budget: int, seed: int
) -> np.ndarray | None:
    """An approximator of shapiq, by its name; `terms_share` is how many terms PolySHAP may fit for each coalition."""
    import shapiq as package

    p, n_coalitions = len(players), min(budget // len(background) + 2, 2 ** len(players))
    settings = dict(settings)
    if (share := settings.pop("terms_share", None)) is not None:
        settings["max_terms"] = max(p + 1, int(share * n_coalitions))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        approximator = getattr(package, name)(n=p, random_state=seed, **settings)
        found = approximator.approximate(n_coalitions, coalition_game(model, background, x, players))
    return np.array([found[(player,)] for player in range(p)])


#: Peer to its settings; the best of them (with hindsight, for each cell) is what the table shows.
PEERS: dict[str, dict[str, Peer]] = {
    "shap kernel": {"": shap_kernel},
    "shap permutation": {"": shap_permutation},
    "lightshap": {"kernel": partial(lightshap, "kernel"), "permutation": partial(lightshap, "permutation")},
    "shapiq KernelSHAP": {"": partial(shapiq, "KernelSHAP", {"pairing_trick": True})},
    "shapiq PolySHAP": {
        "order 2": partial(shapiq, "PolySHAP", {"terms_share": 0.8}),
        "paired": partial(shapiq, "PolySHAP", {"terms_share": 0.8, "max_order": 3, "pairing_trick": True}),
    },
    "shapiq OddSHAP": {"": partial(shapiq, "OddSHAP", {})},
    "shapiq RegressionMSR": {
        "xgboost": partial(shapiq, "RegressionMSR", {"index": "SV"}),
        "linear": partial(shapiq, "RegressionMSR", {"index": "SV", "proxy_model": "linear"}),
    },
    # Without the adjustment it is never better.
    "shapiq ProxySHAP": {"": partial(shapiq, "ProxySHAP", {"index": "SV", "max_order": 1, "adjustment": True})},
}


def splits(budget: int, n_background: int, n_players: int) -> list[int]:
    """Sizes of background to try: all of it where the budget covers it many times, else several parts of it.

    All of it is left out where the budget is less than one pass over it (a walk and its reverse for each row).
    """
    if budget // n_background >= max(100, 5 * n_players):
        return [n_background]
    sizes = [n for n in (5, 10, 20, 50, 100, 200, 500) if n < n_background]
    if budget >= 2 * (n_players - 1) * n_background:
        sizes.append(n_background)
    fewest, most = max(10, n_players // 2), max(200, 10 * n_players)
    return [n for n in sizes if fewest <= budget // n <= most]
