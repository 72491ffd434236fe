"""A frame with everything in it, a pipeline fitted to it, and the oracle that mixes frames themselves."""

import itertools
import math

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

JOBS = ("clerk", "nurse", "pilot", "smith & sons", "<b>cook</b>")


def make_frame(n=200, seed=0, gaps=True):
    """Numbers, whole numbers, an ordered category, text with gaps, truth values."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    income = np.exp(rng.normal(size=n)) * age / 40
    if gaps:
        income = np.where(rng.random(n) < 0.15, np.nan, income)
    job = rng.choice(JOBS, n, p=[0.4, 0.3, 0.2, 0.07, 0.03]).astype(object)
    if gaps:
        job[rng.random(n) < 0.1] = None
    size = pd.Categorical(rng.choice(["S", "M", "L"], n), categories=["S", "M", "L", "XL"], ordered=True)
    member = rng.random(n) < np.where(age > 50, 0.7, 0.2)
    return pd.DataFrame({"age": age, "income": income, "job": job, "size": size, "member": member})


def make_target(frame):
    income = frame["income"].fillna(0.5).to_numpy()
    job = frame["job"].map({"clerk": 0.2, "nurse": -0.5, "pilot": 1.0}).fillna(-0.2).to_numpy(dtype=float)
    member = frame["member"].to_numpy(dtype=float)
    return np.tanh(frame["age"].to_numpy() / 50 - income + job * (1 + member)) + 0.3 * (frame["size"] == "L").to_numpy()


def make_pipeline_model(frame, model):
    encoder = ColumnTransformer(
        [
            ("number", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"]),
            ("level", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["job", "size"]),
            ("rest", "passthrough", ["member"]),
        ]
    )
    return make_pipeline(encoder, model).fit(frame, make_target(frame) > 0.3)


def enumerated(predict, x, background, groups):
    """Shapley values by mixing the columns of frames themselves: no encoding has a part in it."""
    p = len(groups)

    def value(coalition):
        mixed = background.copy()
        for player in coalition:
            for name in groups[player]:
                mixed[name] = pd.Series([x[name].iloc[0]] * len(mixed), index=mixed.index).astype(
                    background[name].dtype
                )
        return predict(mixed).mean(axis=0)

    table = {s: value(s) for size in range(p + 1) for s in itertools.combinations(range(p), size)}
    values = np.zeros((p, *np.shape(table[()])))
    for player in range(p):
        for coalition, of_coalition in table.items():
            if player not in coalition:
                weight = math.factorial(len(coalition)) * math.factorial(p - len(coalition) - 1) / math.factorial(p)
                values[player] += weight * (table[tuple(sorted((*coalition, player)))] - of_coalition)
    return values


def cell(value):
    value = value.item() if isinstance(value, np.generic) else value
    return f"{type(value).__name__} {value!r}"


def repeated(*values):
    return [values[i % len(values)] for i in range(10)]


def with_column(values, dtype=None):
    return pd.DataFrame({"number": np.linspace(-1, 1, 10), "other": pd.Series(values, dtype=dtype)})
