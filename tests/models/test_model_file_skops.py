"""Fitted estimators from skops files, and what models say about the columns that they take."""

import os

import lightgbm
import numpy as np
import pytest
import skops.io
import xgboost
from model_file_cases import FRAME, NAMES, ROWS, TWO
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, SplineTransformer, StandardScaler
from sklearn.svm import SVC

import controlshap as cs
from controlshap.models.files import load_model, with_arrays
from controlshap.models.files.columns import model_columns

pytestmark = pytest.mark.seconds


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), SVC(C=2.0)),
        RandomForestRegressor(3, random_state=0),
        GradientBoostingClassifier(n_estimators=3),
        HistGradientBoostingClassifier(max_iter=3),
        MLPClassifier((3,), max_iter=30, random_state=0),
        CalibratedClassifierCV(LogisticRegression()),
        GaussianProcessClassifier(),
        KNeighborsClassifier(),
        make_pipeline(SplineTransformer(), LogisticRegression()),
        xgboost.XGBClassifier(n_estimators=3, n_jobs=1),
        lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_fitted_estimators_come_back_from_skops(estimator, tmp_path):
    estimator.fit(FRAME, TWO)
    skops.io.dump(estimator, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert loaded.kind == "skops"
    assert loaded.feature_names == tuple(NAMES)
    assert not loaded.takes_arrays
    method = "predict_proba" if hasattr(estimator, "predict_proba") else "predict"
    np.testing.assert_allclose(getattr(loaded.model, method)(FRAME), getattr(estimator, method)(FRAME))


def test_other_types_in_a_skops_file_are_refused_by_name_and_nothing_runs(tmp_path):
    estimator = make_pipeline(FunctionTransformer(os.system), LogisticRegression())
    skops.io.dump(estimator, tmp_path / "model.skops")
    with pytest.raises(cs.InvalidArgumentError, match=r"types that are not in the list.*posix\.system"):
        load_model(tmp_path / "model.skops")
    # functions of packages that hold estimators are not harmless for that
    estimator = make_pipeline(FunctionTransformer(np.testing.assert_raises), LogisticRegression())
    skops.io.dump(estimator, tmp_path / "model.skops")
    with pytest.raises(cs.InvalidArgumentError, match="assert_raises"):
        load_model(tmp_path / "model.skops", allow_pickle=True)


def test_an_estimator_fitted_on_arrays_is_given_arrays(tmp_path):
    estimator = LogisticRegression().fit(ROWS, TWO)
    skops.io.dump(estimator, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert loaded.feature_names is None
    assert (loaded.n_columns, loaded.takes_arrays) == (3, True)
    model = with_arrays(loaded.model)
    assert model.source is loaded.model  # its exact form is still recognised
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explanation = cs.explain(model, FRAME.iloc[:1], FRAME.iloc[5:10], rng=0)
    assert explanation.status.tolist() == ["exact"]
    assert explanation.feature_names == tuple(NAMES)


def test_what_models_say_about_their_columns():
    assert model_columns(lambda rows: rows).number is None
    frame = FRAME.assign(job=np.where(TWO, "cook", "clerk"))
    encode = ColumnTransformer([("job", OneHotEncoder(), ["job"])], remainder="passthrough")
    pipeline = make_pipeline(encode, LogisticRegression()).fit(frame, TWO)
    assert model_columns(pipeline).names == (*NAMES, "job")
    assert model_columns(pipeline.predict_proba).names == (*NAMES, "job")
    wrapper = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1, n_jobs=1).fit(ROWS, TWO)
    assert (model_columns(wrapper).names, model_columns(wrapper).takes_arrays) == (None, True)
