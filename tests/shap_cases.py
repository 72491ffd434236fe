"""Models, rows and frames that are shown to shap and to us."""

import logging

import numpy as np
import pandas as pd
import pytest

logging.getLogger("shap").setLevel(logging.ERROR)
#: What shap and matplotlib say on their own account.
MARKS = [
    pytest.mark.filterwarnings("ignore:.*NumPy global RNG:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The figure layout has changed to tight:UserWarning"),
]

RNG = np.random.default_rng(5)
BACKGROUND = RNG.normal(size=(20, 5))
X = RNG.normal(size=(30, 5))
NAMES = ["age", "income <script>", "a & b", "d'e\"f", "a rather long name of a feature that no axis has room for"]
FRAME = pd.DataFrame(BACKGROUND, columns=NAMES)


def probability(rows):
    score = rows[:, 0] * rows[:, 1] + rows[:, 2] - rows[:, 3] * rows[:, 4] * rows[:, 0]
    return 1.0 / (1.0 + np.exp(-score))


def column(rows):
    return probability(rows)[:, None]


def both(rows):
    return np.column_stack([probability(rows), 1.0 - probability(rows)])


def three(rows):
    return np.column_stack([probability(rows), rows[:, 0] * rows[:, 2], rows[:, 1] - rows[:, 4]])


def categorical_frame(n_rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=n_rows),
            "job": pd.Categorical(rng.choice(["clerk", "cook <b>", "nurse & co"], n_rows)),
            "owner": rng.random(n_rows) > 0.5,
            "score": rng.normal(size=n_rows),
            "town": rng.choice(["Ulm", "Bonn"], n_rows),
        }
    )
    frame.loc[3, "score"] = np.nan
    return frame


def of_categories(frame):
    score = np.nan_to_num(frame["score"].to_numpy(dtype=float))
    nurse = (frame["job"] == "nurse & co").to_numpy(dtype=float)
    return (
        frame["age"].to_numpy() * nurse
        + score * (frame["town"] == "Ulm").to_numpy()
        + frame["owner"].to_numpy() * nurse
    )


def wide(rows):
    return np.tanh(rows[:, 0] * rows[:, 1] + rows[:, 2:].sum(axis=1) * rows[:, 3])


def names_of(theirs):
    return list(theirs.feature_names)
