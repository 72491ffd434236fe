"""A fitted model of a known library gives what the bare function of its predictions gives."""

import warnings

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
import xgboost
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import controlshap as cs

NAMES = ["age", "debt", "rate"]
RNG = np.random.default_rng(3)
TRAIN = RNG.normal(size=(120, 3))
SCORE = TRAIN @ [1.0, -0.8, 0.5] + TRAIN[:, 0] * TRAIN[:, 1]
TWO = (SCORE > 0).astype(int)
THREE = np.array(["low", "middle", "high"])[(SCORE > -0.5).astype(int) + (SCORE > 0.7)]
BACKGROUND, X = TRAIN[:8], TRAIN[100:102]
# One tree thread: the test machines have two cores.
FOREST = {"n_estimators": 5, "max_depth": 3, "random_state": 0, "n_jobs": 1}
XGB = {"n_estimators": 5, "max_depth": 2, "n_jobs": 1}
LGBM = {"n_estimators": 5, "num_leaves": 4, "n_jobs": 1, "verbose": -1}


def compare(model, predict, control="none", **settings):
    """Explain a model and the bare function of its predictions, and return the former."""
    settings = {"estimator": "permutation", "control": control, "budget": 120, "rng": 5} | settings
    ours = cs.explain(model, X, BACKGROUND, **settings)
    bare = cs.explain(predict, X, BACKGROUND, **settings)
    np.testing.assert_allclose(ours.values, bare.values, rtol=0, atol=1e-10)
    np.testing.assert_allclose(ours.base_values, bare.base_values, rtol=0, atol=1e-10)
    np.testing.assert_allclose(ours.standard_errors, bare.standard_errors, rtol=0, atol=1e-10)
    return ours


@pytest.mark.parametrize("features", ["independent", "correlated"])
@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(),
        RandomForestClassifier(**FOREST),
        make_pipeline(StandardScaler(), LogisticRegression()),
        xgboost.XGBClassifier(**XGB),
        lightgbm.LGBMClassifier(**LGBM),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_classifier_of_two_classes_gives_the_probability_of_the_second(classifier, features):
    classifier.fit(TRAIN, TWO)
    explanation = compare(classifier, lambda rows: classifier.predict_proba(rows)[:, 1], features=features)
    assert explanation.values.shape == (2, 3)
    assert explanation.output_names == (str(classifier.classes_[1]),)
    assert explanation.output_labels[0].startswith("probability of class ")
    total = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(total, classifier.predict_proba(X)[:, 1], atol=1e-9)


@pytest.mark.parametrize(
    "classifier", [LogisticRegression(), RandomForestClassifier(**FOREST)], ids=lambda model: type(model).__name__
)
def test_a_classifier_of_three_classes_gives_three_named_outputs(classifier):
    classifier.fit(TRAIN, THREE)
    explanation = compare(classifier, classifier.predict_proba)
    assert explanation.values.shape == (2, 3, 3)
    assert explanation.output_names == ("high", "low", "middle")
    np.testing.assert_allclose(explanation.values.sum(axis=2), 0.0, atol=1e-9)  # probabilities sum to 1


@pytest.mark.parametrize("wrapper", [xgboost.XGBClassifier(**XGB), lightgbm.LGBMClassifier(**LGBM)], ids=str)
def test_a_boosted_classifier_of_three_classes_gives_three_named_outputs(wrapper):
    wrapper.fit(TRAIN, np.unique(THREE, return_inverse=True)[1])
    explanation = compare(wrapper, wrapper.predict_proba)
    assert explanation.output_names == ("0", "1", "2")


def test_a_regressor_gives_its_prediction():
    model = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(TRAIN, SCORE)
    assert compare(model, model.predict).values.shape == (2, 3)


def test_a_regressor_of_several_targets_gives_several_outputs():
    model = Ridge().fit(TRAIN, np.column_stack([SCORE, TRAIN[:, 0]]))
    assert compare(model, model.predict).values.shape == (2, 3, 2)


def test_a_classifier_without_probabilities_gives_its_decision_function():
    two = LinearSVC().fit(TRAIN, TWO)
    assert compare(two, two.decision_function).values.shape == (2, 3)
    three = LinearSVC().fit(TRAIN, THREE)
    assert compare(three, three.decision_function).output_names == ("high", "low", "middle")


@pytest.mark.parametrize("target", [TWO, np.unique(THREE, return_inverse=True)[1]], ids=["two", "three"])
def test_an_xgboost_booster_gives_its_prediction(target):
    objective = {"objective": "binary:logistic"} if target is TWO else {"objective": "multi:softprob", "num_class": 3}
    data = xgboost.DMatrix(TRAIN, label=target, feature_names=NAMES)
    booster = xgboost.train({"max_depth": 2, "nthread": 1} | objective, data, num_boost_round=4)
    explanation = compare(booster, lambda rows: booster.predict(xgboost.DMatrix(rows, feature_names=NAMES)))
    assert explanation.values.shape == ((2, 3) if target is TWO else (2, 3, 3))


def test_a_lightgbm_booster_gives_its_prediction():
    data = lightgbm.Dataset(TRAIN, label=TWO)
    settings = {"objective": "binary", "num_leaves": 4, "num_threads": 1, "verbose": -1}
    booster = lightgbm.train(settings, data, num_boost_round=4)
    compare(booster, booster.predict)


def make_module(dtype, n_outputs):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(4, n_outputs)]
    return torch.nn.Sequential(*layers).to(dtype)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_torch_module_is_evaluated_in_its_own_type_without_dropout(dtype, n_outputs):
    module = make_module(dtype, n_outputs)

    def bare(rows):
        with torch.no_grad():
            return module(torch.tensor(rows, dtype=dtype)).double().numpy()

    module.eval()
    expected = bare(X)
    explanation = compare(module, bare)
    assert explanation.values.shape == ((2, 3) if n_outputs == 1 else (2, 3, 2))
    total = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(total, expected.reshape(total.shape), atol=1e-9)


@pytest.mark.parametrize("control", ["none", "taylor"])
def test_every_part_of_a_torch_module_keeps_its_training_mode(control):
    module = make_module(torch.float64, 1)
    module.train()
    module[2].eval()  # frozen inside a module that is being trained
    cs.explain(module, X, BACKGROUND, estimator="permutation", control=control, budget=60, rng=0)
    assert [part.training for part in (module, *module)] == [True, True, True, False, True]
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_torch_module_without_parameters_gets_the_default_type():
    module = torch.nn.Tanh()
    explanation = cs.explain(lambda rows: np.tanh(rows), X, BACKGROUND, budget=100, rng=0)
    ours = cs.explain(module, X, BACKGROUND, budget=100, rng=0)
    np.testing.assert_allclose(ours.values, explanation.values, atol=1e-6)


FRAMES = {
    "pandas": lambda rows: pd.DataFrame(rows, columns=NAMES),
    "polars": lambda rows: pl.DataFrame(rows, schema=NAMES),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
def test_a_model_gets_the_kind_of_frame_that_the_background_was(frame):
    kind = type(frame(X))

    def by_name(rows):
        assert type(rows) is kind
        assert list(rows.columns) == NAMES
        return np.asarray(rows["age"]) * np.asarray(rows["debt"]) + np.asarray(rows["rate"])

    ours = cs.explain(by_name, frame(X), frame(BACKGROUND), budget=120, rng=0)
    bare = cs.explain(lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], X, BACKGROUND, budget=120, rng=0)
    assert ours.feature_names == tuple(NAMES)
    np.testing.assert_allclose(ours.values, bare.values, rtol=0, atol=1e-10)


def test_frames_with_numbers_as_names_keep_them():
    def model(rows):
        assert list(rows.columns) == [0, 1, 2]
        return rows[0].to_numpy() - rows[2].to_numpy()

    explanation = cs.explain(model, pd.DataFrame(X), pd.DataFrame(BACKGROUND), budget=100, rng=0)
    assert explanation.feature_names == ("0", "1", "2")
    np.testing.assert_array_equal(explanation.data, X)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
def test_columns_of_x_may_come_in_another_order(frame):
    explainer = cs.Explainer(lambda rows: np.asarray(rows["age"]) ** 2, frame(BACKGROUND))
    straight = explainer(frame(X), budget=100, rng=0)
    turned = explainer(frame(X)[["rate", "age", "debt"]], budget=100, rng=0)
    np.testing.assert_array_equal(straight.values, turned.values)
    np.testing.assert_array_equal(turned.data, X)


def test_columns_of_x_must_be_those_of_the_background():
    explainer = cs.Explainer(lambda rows: rows["age"].to_numpy(), FRAMES["pandas"](BACKGROUND))
    with pytest.raises(cs.InvalidArgumentError, match=r"must have the same.*lacks \['rate'\].*\['income'\]"):
        explainer(pd.DataFrame(X, columns=["age", "debt", "income"]), budget=100)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            pd.DataFrame({"age": [1.0, 2.0], "since": pd.to_datetime(["2020-01-01", "2021-01-01"])}),
            r"`background`: the columns \[.since \(.*\).\] hold neither numbers nor categories.*days since",
        ),
        (
            pd.DataFrame(BACKGROUND, columns=["a", "a", "b"]),
            r"`background`: column names must be unique.*\['a'\].*Rename",
        ),
    ],
    ids=["dates", "names twice"],
)
def test_a_frame_that_cannot_be_rows_of_numbers_is_refused(frame, message):
    with pytest.raises(cs.InvalidArgumentError, match=message):
        cs.Explainer(len, frame)


FITTED_ON_FRAMES = {
    "sklearn": RandomForestClassifier(**FOREST),
    "xgboost": xgboost.XGBClassifier(**XGB),
    "lightgbm": lightgbm.LGBMClassifier(**LGBM),
}


@pytest.mark.parametrize("classifier", FITTED_ON_FRAMES.values(), ids=FITTED_ON_FRAMES.keys())
def test_a_model_fitted_on_a_frame_sees_its_names_again(classifier):
    classifier.fit(FRAMES["pandas"](TRAIN), TWO)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # scikit-learn warns about rows without names
        ours = cs.explain(classifier, X, FRAMES["pandas"](BACKGROUND), budget=120, rng=0)
    total = ours.values.sum(axis=1) + ours.base_values
    np.testing.assert_allclose(total, classifier.predict_proba(FRAMES["pandas"](X))[:, 1], atol=1e-9)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
def test_a_torch_module_and_boosters_take_frames(frame):
    module = make_module(torch.float64, 1)
    ours = cs.explain(module, frame(X), frame(BACKGROUND), control="taylor", budget=100, rng=0)
    np.testing.assert_array_equal(
        ours.values, cs.explain(module, X, BACKGROUND, control="taylor", budget=100, rng=0).values
    )
    booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(TRAIN, label=SCORE, feature_names=NAMES), 3)
    ours = cs.explain(booster, frame(X), frame(BACKGROUND), budget=100, rng=0)
    np.testing.assert_array_equal(ours.values, cs.explain(booster, X, BACKGROUND, budget=100, rng=0).values)


@pytest.mark.filterwarnings("error::controlshap.ControlShapWarning")
def test_lightgbm_knows_columns_whose_names_have_spaces():
    train = pd.DataFrame(TRAIN, columns=["mean age", "worst debt", "rate"])
    fitted = lightgbm.LGBMClassifier(**LGBM).fit(train, TWO)
    assert "mean_age" in fitted.feature_names_in_
    cs.Explainer(fitted, train[:8])
    with pytest.raises(cs.ControlShapWarning, match=r"not fitted on: \['the target'\]"):
        cs.Explainer(fitted, train[:8].assign(**{"the target": 1.0}))
