"""Models from files of xgboost and lightgbm, whole or cut."""

import lightgbm
import numpy as np
import pytest
import xgboost
from model_file_cases import FRAME, NAMES, ROWS, THREE, TWO, explained

import controlshap as cs
from controlshap.models.files import load_model
from controlshap.models.files.ubjson import is_whole


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


def test_every_cut_of_an_xgboost_file_is_an_error(tmp_path):
    """Without our own look at the file xgboost ends the process on some of these."""
    whole = bytes(xgboost.train({"nthread": 1}, xgboost.DMatrix(FRAME, TWO), 3).save_raw("ubj"))
    assert is_whole(whole)
    assert not any(is_whole(whole[:end]) for end in range(len(whole)))
    assert not is_whole(whole + b"Z")
    assert not is_whole(b"[" * 5000)
    for end in range(60, len(whole), 97):
        (tmp_path / "m.ubj").write_bytes(whole[:end])
        with pytest.raises(cs.InvalidArgumentError, match="cut off"):
            load_model(tmp_path / "m.ubj")
