"""Trees of model files that lead to nowhere, or in circles, are refused before anything follows them."""

import json
import re

import lightgbm
import numpy as np
import pytest
import xgboost
from model_file_cases import FRAME, ROWS, TWO
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import controlshap as cs
from controlshap.models.files import load_model, trial
from controlshap.models.files.structure import StoredTree, lightgbm_trees, refuse_bad_trees, stored_trees

MODELS = {
    "tree": lambda: DecisionTreeClassifier(max_depth=3).fit(ROWS, TWO),
    "leaf": lambda: DecisionTreeClassifier().fit(ROWS, np.zeros(len(ROWS))),
    "forest": lambda: make_pipeline(StandardScaler(), RandomForestClassifier(4, n_jobs=1)).fit(ROWS, TWO),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=4, categorical_features=[0]).fit(
        np.column_stack([TWO, ROWS]), TWO
    ),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=4, n_jobs=1).fit(ROWS, TWO),
    "xgboost, pruned": lambda: xgboost.XGBClassifier(n_estimators=4, n_jobs=1, gamma=3.0, max_depth=6).fit(ROWS, TWO),
    "xgboost, dart": lambda: xgboost.XGBClassifier(n_estimators=4, n_jobs=1, booster="dart").fit(ROWS, TWO),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=4, n_jobs=1, verbose=-1).fit(FRAME, TWO),
}


@pytest.mark.parametrize("name", MODELS)
def test_sound_trees_are_found_and_pass(name):
    model = MODELS[name]()
    assert len(list(stored_trees(model))) == (1 if name in ("tree", "leaf") else 4)
    refuse_bad_trees(model)


def tree(**changes):
    """0 has the children 1 and 2, and 1 has 3 and 4."""
    sound = {
        "left": np.array([1, 3, 0, 0, 0]), "right": np.array([2, 4, 0, 0, 0]),
        "is_leaf": np.array([0, 0, 1, 1, 1], dtype=bool), "features": np.array([0, 1, 0, 0, 0]), "n_features": 2,
    }  # fmt: skip
    return StoredTree(**(sound | changes))


FAULTS = {
    "a circle": ({"left": np.array([1, 0, 0, 0, 0])}, "not there"),
    "a longer circle": ({"left": np.array([1, 1, 0, 0, 0])}, "child of two"),
    "a child beyond the end": ({"right": np.array([2, 5, 0, 0, 0])}, "not there"),
    "a child far below": ({"right": np.array([2, -(2**40), 0, 0, 0])}, "not there"),
    "a column beyond the end": ({"features": np.array([0, 2, 0, 0, 0])}, "column"),
    "other lengths": ({"features": np.array([0, 1])}, "lengths"),
}


@pytest.mark.parametrize(("changes", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_faults_are_found(changes, message):
    assert tree().find_fault() is None
    assert message in tree(**changes).find_fault()


def test_damaged_numbers_of_lightgbm_are_found():
    """Every number of the children and columns of a tree, changed in turn: found, or sound after all."""
    text = lightgbm.train(
        {"verbose": -1, "num_threads": 1, "num_leaves": 5, "min_data_in_leaf": 5}, lightgbm.Dataset(ROWS, ROWS[:, 0]), 2
    ).model_to_string()
    n_found = n = 0
    for field in ("left_child", "right_child", "split_feature"):
        for match in re.finditer(rf"^{field}=(.*)$", text, re.MULTILINE):
            numbers = match[1].split()
            for k in range(len(numbers)):
                changed = " ".join([*numbers[:k], str(int(numbers[k]) + 40), *numbers[k + 1 :]])
                damaged = text[: match.start(1)] + changed + text[match.end(1) :]
                n += 1
                n_found += any(one.find_fault() is not None for one in lightgbm_trees(damaged))
    assert n_found == n >= 24


def edit_xgboost(path):
    content = json.loads(path.read_text())
    children = content["learner"]["gradient_booster"]["model"]["trees"][0]["left_children"]
    children[children.index(3)] = 1  # the node itself
    path.write_text(json.dumps(content))


def edit_lightgbm(path):
    text = path.read_text()
    line = re.search(r"^left_child=(.*)$", text, re.MULTILINE)
    changed = ["0", *line[1].split()[1:]]
    path.write_text(text[: line.start(1)] + " ".join(changed) + text[line.end(1) :])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "skops"])
def test_files_with_circles_are_refused(kind, tmp_path):
    """Predicting with such a tree never ends."""
    if kind == "xgboost":
        path = tmp_path / "m.json"
        xgboost.train({"nthread": 1}, xgboost.DMatrix(ROWS, TWO), 2).save_model(path)
        edit_xgboost(path)
    elif kind == "lightgbm":
        path = tmp_path / "m.txt"
        lightgbm.train({"verbose": -1, "num_threads": 1}, lightgbm.Dataset(ROWS, TWO), 2).save_model(path)
        edit_lightgbm(path)
    else:
        from skops import io

        path = tmp_path / "m.skops"
        model = DecisionTreeClassifier(max_depth=3).fit(ROWS, TWO)
        state = model.tree_.__getstate__()
        state["nodes"]["left_child"][1] = 1
        model.tree_.__setstate__(state)
        io.dump(model, path)
    with pytest.raises(cs.InvalidArgumentError, match=r"is damaged|crashed|could not be read"):
        load_model(path)


def test_probes_reach_models_with_and_without_gaps():
    """One row of gaps among the others would make most models refuse all of them."""
    finite, gaps = trial._probes(3)
    assert np.isfinite(finite).all()
    assert np.isnan(gaps).all()
    assert len(DecisionTreeClassifier(max_depth=3).fit(ROWS, TWO).predict(finite)) == len(finite) > 200
