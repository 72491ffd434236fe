"""Fitted trees of every known kind: boxes predict as the model, and give the values of the definition."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import shap
import xgboost
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from controlshap._errors import NotExactWarning
from controlshap.data.players import resolve_players
from controlshap.functions.tree_readers import reading
from controlshap.functions.tree_readers.read import read_trees
from controlshap.testing import marginal_game, shapley_by_definition

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # lightgbm invents names

RNG = np.random.default_rng(11)
LEVEL = RNG.integers(0, 3, 160)
# Four numeric columns, two of them coarse so that rows share values, and a one-hot block.
TRAIN = np.column_stack([RNG.normal(size=(160, 2)), RNG.integers(0, 6, (160, 2)) / 2, np.eye(3)[LEVEL]])
SCORE = TRAIN[:, 0] * TRAIN[:, 1] + np.sin(2 * TRAIN[:, 2]) + (LEVEL == 1) * TRAIN[:, 3] - 0.5 * TRAIN[:, 0]
TWO, THREE = (SCORE > 0).astype(int), np.digitize(SCORE, [-0.5, 0.7])
GAPS = np.where(RNG.random(TRAIN.shape) < 0.15, np.nan, TRAIN)
NAMES = [f"c{i}" for i in range(7)]
GROUPINGS = {"alone": None, "one-hot": {"level": [4, 5, 6]}, "mixed": [[0, 2, 4], [1, 6]]}
ONE, FEW = {"random_state": 0}, {"n_estimators": 6, "random_state": 0}
LGBM = {"n_estimators": 6, "num_leaves": 6, "n_jobs": 1, "verbose": -1}
XGB = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1}


@dataclass(frozen=True)
class Case:
    """A fitted model, the function that its boxes stand for, and how exactly the library computes it."""

    model: Any
    predict: Any
    margin: bool = False
    tolerance: float = 1e-8
    missing: bool = False

    def boxes(self):
        assert read_trees(self.model, margin=not self.margin) is None
        return read_trees(self.model, margin=self.margin)


def value(model, y=SCORE, rows=TRAIN, **settings):
    model.fit(rows, y)
    return Case(model, model.predict, **settings)


def probability(model, y=TWO, rows=TRAIN, **settings):
    model.fit(rows, y)
    wanted = slice(1, 2) if y is TWO else slice(None)
    return Case(model, lambda new: model.predict_proba(new)[:, wanted], **settings)


def decision(model, y=TWO, rows=TRAIN, **settings):
    model.fit(rows, y)
    return Case(model, model.decision_function, margin=True, **settings)


def lightgbm_margin(y=TWO, **settings):
    model = lightgbm.LGBMClassifier(**LGBM).fit(TRAIN, y)
    return Case(model, lambda rows: model.predict_proba(rows, raw_score=True), margin=True, **settings)


def lightgbm_booster(objective, y, rows=TRAIN, **settings):
    parameters = {"objective": objective, "num_leaves": 6, "verbose": -1, "num_threads": 1}
    model = lightgbm.train(parameters, lightgbm.Dataset(rows, y), 6)
    margin = objective == "binary"
    return Case(model, lambda new: model.predict(new, raw_score=margin), margin=margin, missing=True, **settings)


def xgboost_margin(y=TWO, **settings):
    model = xgboost.XGBClassifier(**XGB).fit(TRAIN, y)
    predict = lambda rows: model.predict(rows, output_margin=True)  # noqa: E731
    return Case(model, predict, margin=True, tolerance=1e-5, missing=True, **settings)


def xgboost_booster(objective, y):
    names = [f"named {i}" for i in range(7)]
    matrix = lambda rows, label=None: xgboost.DMatrix(rows, label, feature_names=names)  # noqa: E731
    model = xgboost.train({"objective": objective, "max_depth": 3, "nthread": 1}, matrix(GAPS, y), 6)
    margin = objective == "binary:logistic"
    predict = lambda rows: model.predict(matrix(rows), output_margin=margin)  # noqa: E731
    return Case(model, predict, margin=margin, tolerance=1e-5, missing=True)


def xgboost_early():
    model = xgboost.XGBRegressor(n_estimators=80, max_depth=3, n_jobs=1, early_stopping_rounds=2)
    model.fit(TRAIN[:100], SCORE[:100], eval_set=[(TRAIN[100:], SCORE[100:])], verbose=False)
    assert model.best_iteration < 75
    return Case(model, model.predict, tolerance=1e-5)


def lightgbm_early():
    model = lightgbm.LGBMRegressor(**LGBM | {"n_estimators": 300, "learning_rate": 0.5})
    stop = lightgbm.early_stopping(2, verbose=False)
    model.fit(TRAIN[:100], SCORE[:100], eval_set=[(TRAIN[100:], SCORE[100:])], callbacks=[stop])
    assert 0 < model.best_iteration_ < 290
    return Case(model, model.predict)


def on_a_frame(model):
    frame = pd.DataFrame(TRAIN, columns=NAMES)
    model.fit(frame, SCORE)
    return Case(model, lambda rows: model.predict(pd.DataFrame(rows, columns=NAMES)), tolerance=1e-5)


CASES = {
    "tree": lambda: value(DecisionTreeRegressor(**ONE)),
    "tree, NaN": lambda: value(DecisionTreeRegressor(max_depth=5, **ONE), rows=GAPS, missing=True),
    "tree of two classes": lambda: probability(DecisionTreeClassifier(max_depth=4, **ONE)),
    "tree of three classes": lambda: probability(DecisionTreeClassifier(max_depth=4, **ONE), THREE),
    "stump": lambda: value(DecisionTreeRegressor(max_depth=1, **ONE)),
    "constant tree": lambda: value(DecisionTreeRegressor(**ONE), y=np.full(160, 2.5)),
    "extra tree": lambda: value(ExtraTreeRegressor(max_depth=6, **ONE)),
    "extra tree of two classes": lambda: probability(ExtraTreeClassifier(max_depth=6, **ONE)),
    "forest": lambda: value(RandomForestRegressor(**FEW)),
    "forest, NaN": lambda: value(RandomForestRegressor(**FEW), rows=GAPS, missing=True),
    "forest of two classes": lambda: probability(RandomForestClassifier(**FEW)),
    "forest of three classes": lambda: probability(RandomForestClassifier(class_weight="balanced", **FEW), THREE),
    "extra trees": lambda: value(ExtraTreesRegressor(**FEW)),
    "extra trees of two classes": lambda: probability(ExtraTreesClassifier(max_depth=5, **FEW)),
    "extra trees of three classes": lambda: probability(ExtraTreesClassifier(max_depth=5, **FEW), THREE),
    "boosting": lambda: value(GradientBoostingRegressor(**FEW)),
    "boosting of absolute errors": lambda: value(GradientBoostingRegressor(loss="absolute_error", **FEW)),
    "boosting from zero": lambda: value(GradientBoostingRegressor(init="zero", **FEW)),
    "boosting from a dummy": lambda: value(GradientBoostingRegressor(init=DummyRegressor(strategy="median"), **FEW)),
    "boosting margin": lambda: decision(GradientBoostingClassifier(**FEW)),
    "boosting margins": lambda: decision(GradientBoostingClassifier(**FEW), THREE),
    "histogram boosting": lambda: value(HistGradientBoostingRegressor(max_iter=6), missing=True),
    "histogram boosting, NaN": lambda: value(HistGradientBoostingRegressor(max_iter=6), rows=GAPS, missing=True),
    "histogram boosting of quantiles": lambda: value(
        HistGradientBoostingRegressor(max_iter=6, loss="quantile", quantile=0.7)
    ),
    "histogram boosting margin": lambda: decision(HistGradientBoostingClassifier(max_iter=6), rows=GAPS, missing=True),
    "histogram boosting margins": lambda: decision(HistGradientBoostingClassifier(max_iter=4), THREE),
    "lightgbm": lambda: value(lightgbm.LGBMRegressor(**LGBM), missing=True),
    "lightgbm, NaN": lambda: value(lightgbm.LGBMRegressor(**LGBM), rows=GAPS, missing=True),
    "lightgbm forest": lambda: value(
        lightgbm.LGBMRegressor(boosting_type="rf", subsample=0.6, subsample_freq=1, **LGBM)
    ),
    "lightgbm dart": lambda: value(lightgbm.LGBMRegressor(boosting_type="dart", drop_rate=0.5, **LGBM)),
    "lightgbm, early stopping": lightgbm_early,
    "lightgbm on a frame": lambda: on_a_frame(lightgbm.LGBMRegressor(**LGBM)),
    "lightgbm booster": lambda: lightgbm_booster("regression", SCORE, GAPS),
    "lightgbm booster margin": lambda: lightgbm_booster("binary", TWO),
    "lightgbm margin": lightgbm_margin,
    "lightgbm margins": lambda: lightgbm_margin(THREE),
    "xgboost": lambda: value(xgboost.XGBRegressor(**XGB), tolerance=1e-5, missing=True),
    "xgboost, NaN": lambda: value(xgboost.XGBRegressor(**XGB), rows=GAPS, tolerance=1e-5, missing=True),
    "xgboost, given base": lambda: value(xgboost.XGBRegressor(base_score=40.0, **XGB), tolerance=3e-5),
    "xgboost, pruned": lambda: value(xgboost.XGBRegressor(gamma=2.0, tree_method="exact", **XGB), tolerance=1e-5),
    "xgboost forest": lambda: value(xgboost.XGBRFRegressor(**XGB), tolerance=1e-5),
    "xgboost, early stopping": xgboost_early,
    "xgboost on a frame": lambda: on_a_frame(xgboost.XGBRegressor(**XGB)),
    "xgboost booster": lambda: xgboost_booster("reg:squarederror", SCORE),
    "xgboost booster margin": lambda: xgboost_booster("binary:logistic", TWO),
    "xgboost margin": xgboost_margin,
    "xgboost margins": lambda: xgboost_margin(THREE),
}


def edge_rows(boxes, missing, n_rows=200):
    """Random rows, some values of which are thresholds, or their neighbours in double precision."""
    rng = np.random.default_rng(5)
    rows = rng.permuted(np.concatenate([TRAIN, TRAIN + rng.normal(size=TRAIN.shape)]), axis=0)[:n_rows]
    for column in range(7):
        cuts = np.concatenate([b[(boxes.columns == column) & np.isfinite(b)] for b in (boxes.lowers, boxes.uppers)])
        if len(cuts):
            chosen = rng.choice(cuts, n_rows)
            chosen = np.choose(rng.integers(0, 3, n_rows), [chosen, np.nextafter(chosen, 9e9), chosen + 1e-9])
            rows[:, column] = np.where(rng.random(n_rows) < 0.4, chosen, rows[:, column])
    if missing:
        rows[rng.random(rows.shape) < 0.2] = np.nan
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_boxes_are_the_model(make):
    case = make()
    boxes = case.boxes()
    assert boxes is not None
    rows = edge_rows(boxes, case.missing)
    predict = lambda new: np.asarray(case.predict(new), dtype=float).reshape(len(new), -1)  # noqa: E731
    expected = predict(rows)
    outputs = () if expected.shape[1] == 1 else expected.shape[1:]  # a single output has no axis
    assert boxes.predict(rows).shape == (len(rows), *outputs)
    np.testing.assert_allclose(boxes.predict(rows).reshape(expected.shape), expected, rtol=0, atol=case.tolerance)
    draws, x = rows[:5].copy(), rows[20]
    draws[2] = x
    for groups in GROUPINGS.values():
        players = resolve_players(groups, NAMES)
        exact = shapley_by_definition(marginal_game(predict, x, draws, players.columns), players.n_players)
        mean = boxes.mean_values(x, draws, players)
        np.testing.assert_allclose(mean.reshape(exact.shape), exact, rtol=0, atol=case.tolerance)
        by_draw = boxes.draw_values(x, draws, players).reshape(len(draws), *exact.shape)
        np.testing.assert_allclose(by_draw.mean(axis=0), exact, rtol=0, atol=case.tolerance)
        gap = predict(x[None]) - predict(draws)
        np.testing.assert_allclose(by_draw.sum(axis=1), gap, rtol=0, atol=2 * case.tolerance)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomForestRegressor(20, random_state=0).fit(TRAIN, SCORE),
        lambda: RandomForestClassifier(20, random_state=0).fit(TRAIN, THREE),
        lambda: ExtraTreesRegressor(20, random_state=0).fit(TRAIN, SCORE),
        lambda: GradientBoostingRegressor(random_state=0).fit(TRAIN, SCORE),
        lambda: GradientBoostingClassifier(random_state=0).fit(TRAIN, TWO),
        lambda: HistGradientBoostingRegressor(max_iter=20).fit(TRAIN, SCORE),
        lambda: xgboost.XGBRegressor(**XGB).fit(TRAIN, SCORE),
    ],
    ids=["forest", "forest of classes", "extra trees", "boosting", "boosting margin", "histogram", "xgboost"],
)
def test_values_are_those_of_shap(make):
    model = make()
    boxes = read_trees(model) or read_trees(model, margin=True)
    draws, rows = TRAIN[:40], TRAIN[100:105]
    explainer = shap.TreeExplainer(model, draws, feature_perturbation="interventional")
    theirs = explainer.shap_values(rows, check_additivity=False)
    theirs = np.asarray(theirs).reshape(5, 7, -1)
    players = resolve_players(None, NAMES)
    for row, expected in zip(rows, theirs, strict=True):
        values = boxes.mean_values(row, draws, players).reshape(expected.shape)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)


def test_single_precision_decides_where_scikit_learn_rounds():
    """Rows that single precision moves across a threshold: a box in double precision would be wrong."""
    rows = np.array([[0.0], [np.float32(0.1)]], dtype=float)
    model = DecisionTreeRegressor().fit(rows, [0.0, 1.0])
    model.tree_.threshold[0] = 0.1
    boxes, players = read_trees(model), resolve_players(None, ["c"])
    above = np.array([0.1])  # at the threshold, but above it in single precision
    assert model.predict(above[None]) == boxes.predict(above[None]) == 1
    assert boxes.mean_values(above, np.zeros((1, 1)), players) == 1
    histogram = HistGradientBoostingRegressor(max_iter=1, min_samples_leaf=1, learning_rate=1.0).fit(
        np.repeat([[0.0], [0.2]], 10, axis=0), np.repeat([0.0, 1.0], 10)
    )
    assert np.float32(np.nextafter(0.1, 1)) == np.float32(0.1)
    boxes = read_trees(histogram)
    for row in ([[0.1]], [[np.nextafter(0.1, 1)]]):
        np.testing.assert_allclose(boxes.predict(np.array(row)), histogram.predict(row), atol=1e-12)
    assert boxes.predict(np.array([[0.1]])) != boxes.predict(np.array([[np.nextafter(0.1, 1)]]))


class Clipped(RandomForestRegressor):
    """A subclass that predicts something else."""

    def predict(self, X):
        return np.clip(super().predict(X), -1, 1)


def category_frame():
    return pd.DataFrame({"a": TRAIN[:, 0], "k": pd.Categorical(LEVEL)})


UNKNOWN = {
    "function": lambda: np.sum,
    "linear": lambda: LinearRegression().fit(TRAIN, SCORE),
    "pipeline": lambda: make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=2)).fit(TRAIN, SCORE),
    "subclass": lambda: Clipped(**FEW).fit(TRAIN, SCORE),
    "class": lambda: RandomForestRegressor,
    "not fitted": lambda: RandomForestRegressor(),
    "AdaBoost": lambda: AdaBoostRegressor(**FEW).fit(TRAIN, SCORE),
    "isolation": lambda: IsolationForest(**FEW).fit(TRAIN),
    "two targets, classes": lambda: RandomForestClassifier(**FEW).fit(TRAIN, np.column_stack([TWO, THREE])),
    "two targets, xgboost": lambda: xgboost.XGBRegressor(**XGB).fit(TRAIN, TRAIN[:, :2]),
    "boosting from a model": lambda: GradientBoostingRegressor(init=LinearRegression(), **FEW).fit(TRAIN, SCORE),
    "histogram, log link": lambda: HistGradientBoostingRegressor(loss="poisson", max_iter=3).fit(TRAIN, SCORE**2),
    "histogram, categories": lambda: HistGradientBoostingRegressor(max_iter=3, categorical_features=[2]).fit(
        TRAIN, SCORE
    ),
    "histogram, category column": lambda: HistGradientBoostingRegressor(
        max_iter=3, categorical_features="from_dtype"
    ).fit(category_frame(), SCORE),
    "lightgbm, log link": lambda: lightgbm.LGBMRegressor(objective="poisson", **LGBM).fit(TRAIN, SCORE**2),
    "lightgbm, root": lambda: lightgbm.LGBMRegressor(reg_sqrt=True, **LGBM).fit(TRAIN, SCORE**2),
    "lightgbm, categories": lambda: lightgbm.LGBMRegressor(**LGBM).fit(category_frame(), SCORE),
    "lightgbm, zero is missing": lambda: lightgbm.LGBMRegressor(zero_as_missing=True, **LGBM).fit(TRAIN, SCORE),
    "lightgbm, linear leaves": lambda: lightgbm.LGBMRegressor(linear_tree=True, **LGBM).fit(TRAIN, SCORE),
    "lightgbm, own objective": lambda: lightgbm.LGBMRegressor(
        objective=lambda y, p: (p - y, np.ones_like(y)), **LGBM
    ).fit(TRAIN, SCORE),
    "xgboost, log link": lambda: xgboost.XGBRegressor(objective="count:poisson", **XGB).fit(TRAIN, SCORE**2),
    "xgboost, linear": lambda: xgboost.XGBRegressor(booster="gblinear", n_estimators=2).fit(TRAIN, SCORE),
    "xgboost, dart": lambda: xgboost.XGBRegressor(booster="dart", rate_drop=0.5, **XGB).fit(TRAIN, SCORE),
    "xgboost, zero is missing": lambda: xgboost.XGBRegressor(missing=0.0, **XGB).fit(TRAIN, SCORE),
    "xgboost, categories": lambda: xgboost.XGBRegressor(enable_categorical=True, **XGB).fit(category_frame(), SCORE),
}


@pytest.mark.filterwarnings("ignore")  # of the libraries, about settings that are odd on purpose
@pytest.mark.parametrize("make", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_a_sum_of_boxes_is_not_recognised(make):
    model = make()
    assert read_trees(model) is None
    assert read_trees(model, margin=True) is None


def test_a_reading_that_is_wrong_is_refused(monkeypatch):
    """A library that changed its mind: the same arrays, another rule."""
    model = RandomForestRegressor(**FEW).fit(TRAIN, SCORE)
    assert read_trees(model) is not None
    slower = model.predict
    monkeypatch.setattr(model, "predict", lambda rows: slower(rows) + 1e-3 * (rows[:, 0] > 0))
    with pytest.warns(NotExactWarning, match="do not predict"):
        assert read_trees(model) is None
    tree = DecisionTreeRegressor(max_depth=3).fit(np.round(4 * TRAIN) / 4, SCORE)
    column, threshold = tree.tree_.feature[0], tree.tree_.threshold[0]
    assert np.float32(threshold) == threshold  # so that a row can be there
    tree_predict = tree.predict

    def strict(rows):  # strictly below goes left: differs at the threshold itself only
        moved = rows.astype(np.float32).astype(float)
        moved[moved[:, column] == threshold, column] += 1e-3
        return tree_predict(moved)

    assert read_trees(tree) is not None
    monkeypatch.setattr(tree, "predict", strict)
    with pytest.warns(NotExactWarning, match="do not predict"):
        assert read_trees(tree) is None
    monkeypatch.setattr(tree, "predict", None)
    with pytest.warns(NotExactWarning, match="could not be read"):
        assert read_trees(tree) is None


def test_a_large_forest_is_read_and_explained_quickly_enough():
    """Not a benchmark: only that the work does not grow with leaves x draws x columns."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(800, 20))
    model = RandomForestRegressor(30, random_state=0).fit(rows, rows[:, 0] * rows[:, 1] + rows[:, 2])
    boxes = read_trees(model)
    players = resolve_players([[0, 5, 9], [2, 3]], [str(i) for i in range(20)])
    values = boxes.mean_values(rows[700], rows[:100], players)
    gap = model.predict(rows[700:701]) - model.predict(rows[:100]).mean()
    np.testing.assert_allclose(values.sum(axis=0), gap, rtol=0, atol=1e-10)


def test_no_library_is_imported_for_a_stranger():
    code = (
        "import sys; from controlshap.functions.tree_readers.read import read_trees;"
        "assert read_trees(len) is None and read_trees(len, margin=True) is None;"
        "assert not {'sklearn', 'lightgbm', 'xgboost'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("margin", [False, True])
def test_sets_of_coded_categories_are_read(margin):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(600, 4))
    X[:, [1, 3]] = rng.integers(0, 7, (600, 2))
    effects = rng.normal(size=7)
    y = effects[X[:, 1].astype(int)] * X[:, 0] + effects[X[:, 3].astype(int)]
    settings = {"n_estimators": 10, "min_data_per_group": 5, "cat_smooth": 1.0, "verbose": -1, "n_jobs": 1}
    kind = lightgbm.LGBMClassifier if margin else lightgbm.LGBMRegressor
    model = kind(**settings).fit(X, y > 0 if margin else y, categorical_feature=[1, 3])
    boxes = read_trees(model, margin=margin)
    assert boxes is not None
    assert "cat_threshold" in model.booster_.model_to_string()
    rows = X[:200].copy()
    # unseen, negative and broken codes, and none at all
    rows[:, 1] = rng.choice([-3.0, -1.0, -0.4, 0.0, 0.7, 1.0, 2.999, 3.0, 6.0, 6.5, 7.0, 80.0, np.nan], 200)
    predict = lambda new: model.booster_.predict(new, raw_score=True)  # noqa: E731
    np.testing.assert_allclose(boxes.predict(rows), predict(rows), rtol=0, atol=1e-12)
    players = resolve_players(None, [f"c{i}" for i in range(4)])
    draws, x = rows[:30], rows[40]
    exact = shapley_by_definition(marginal_game(predict, x, draws, players.columns), 4)[:, 0]
    np.testing.assert_allclose(boxes.mean_values(x, draws, players), exact, rtol=0, atol=1e-12)


def test_sets_of_very_many_categories_are_left_to_sampling(monkeypatch):
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.integers(0, 60, 2000), rng.integers(0, 60, 2000)]).astype(float)
    effects = rng.normal(size=60)
    y = effects[X[:, 0].astype(int)] * effects[X[:, 1].astype(int)]
    model = lightgbm.LGBMRegressor(n_estimators=2, min_data_per_group=5, cat_smooth=1.0, verbose=-1, n_jobs=1)
    model.fit(X, y, categorical_feature=[0, 1])
    monkeypatch.setattr(reading, "MOST_COPIES", 200)
    assert read_trees(model) is None
