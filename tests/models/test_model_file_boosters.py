"""Models from files of xgboost and lightgbm, whole or cut."""

import lightgbm
import numpy as np
import pytest
import xgboost
from model_file_cases import FRAME, NAMES, ROWS, THREE, TWO, explained

import controlshap as cs
from controlshap.models.files import load_model, trial

pytestmark = pytest.mark.seconds


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_xgboost_files(suffix, tmp_path):
    file = tmp_path / f"m.{suffix}"
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(FRAME, TWO), 3)
    booster.save_model(file)
    loaded = load_model(file)
    assert (loaded.kind, loaded.feature_names) == ("xgboost", tuple(NAMES))
    explained(loaded, lambda rows: booster.predict(xgboost.DMatrix(rows)))
    wrapper = xgboost.XGBClassifier(n_estimators=20, early_stopping_rounds=1, n_jobs=1)
    wrapper.fit(FRAME, TWO, eval_set=[(FRAME, 1 - TWO)], verbose=False)
    assert wrapper.best_iteration == 0
    wrapper.save_model(file)
    explained(load_model(file), lambda rows: wrapper.predict_proba(rows)[:, 1])


def test_an_xgboost_file_is_read_by_its_content_under_a_suffix_that_says_nothing(tmp_path):
    booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(FRAME, TWO), 3)
    for form in ("json", "ubj"):
        (tmp_path / "m.model").write_bytes(booster.save_raw(form))
        np.testing.assert_array_equal(load_model(tmp_path / "m.model").model.predict(xgboost.DMatrix(FRAME)),
                                      booster.predict(xgboost.DMatrix(FRAME)))  # fmt: skip


def test_an_xgboost_classifier_that_gives_labels_gives_probabilities(tmp_path):
    for objective in ("multi:softprob", "multi:softmax"):
        settings = {"objective": objective, "num_class": 3, "nthread": 1, "seed": 0}
        xgboost.train(settings, xgboost.DMatrix(ROWS, THREE), 3).save_model(tmp_path / f"{objective[6:]}.json")
    soft, hard = (load_model(tmp_path / f"{name}.json") for name in ("softprob", "softmax"))
    assert (soft.feature_names, soft.n_columns) == (None, 3)
    assert explained(hard, lambda rows: soft.model.predict(xgboost.DMatrix(np.asarray(rows)))).values.shape == (1, 3, 3)


def test_lightgbm_files(tmp_path):
    booster = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, lightgbm.Dataset(FRAME, TWO), 3)
    booster.save_model(tmp_path / "m.txt")
    loaded = load_model(tmp_path / "m.txt")
    assert (loaded.kind, loaded.feature_names) == ("lightgbm", tuple(NAMES))
    explained(loaded, booster.predict)
    bare = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, lightgbm.Dataset(ROWS, TWO), 3)
    bare.save_model(tmp_path / "m.txt")
    loaded = load_model(tmp_path / "m.txt")
    assert (loaded.feature_names, loaded.n_columns) == (None, 3)
    explained(loaded, lambda rows: bare.predict(np.asarray(rows)))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_cut_xgboost_file_is_an_error(share, tmp_path, monkeypatch):
    """Some cuts raise, on others xgboost crashes or does not return."""
    monkeypatch.setattr(trial, "SECONDS", 15.0)
    whole = bytes(xgboost.train({"nthread": 1}, xgboost.DMatrix(FRAME, TWO), 3).save_raw("ubj"))
    (tmp_path / "m.ubj").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(cs.InvalidArgumentError, match=r"could not be read.*damaged"):
        load_model(tmp_path / "m.ubj")
