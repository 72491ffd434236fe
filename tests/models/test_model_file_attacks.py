"""Model files that crash, hang or end whoever reads them: an error for us, and the process goes on."""

import pickle
import sys
import zipfile

import lightgbm
import numpy as np
import pytest
import skops.io
import xgboost
from model_file_cases import ROWS, TWO
from sklearn.tree import DecisionTreeRegressor

from controlshap import InvalidArgumentError
from controlshap.models.files import load as loading
from controlshap.models.files import load_model, trial

pytestmark = pytest.mark.seconds


class Leaver:
    def __reduce__(self):
        return sys.exit, (0,)


def test_a_pickle_that_ends_the_program_is_an_error(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(Leaver()))
    with pytest.raises(InvalidArgumentError, match=r"could not be unpickled .SystemExit"):
        load_model(path, allow_pickle=True)


@pytest.fixture(scope="module")
def lightgbm_text():
    data = lightgbm.Dataset(ROWS, ROWS[:, 0])
    return lightgbm.train({"verbose": -1, "min_data_in_leaf": 5, "num_threads": 1}, data, 3).model_to_string()


def test_files_that_crash_their_library_are_errors(tmp_path, lightgbm_text):
    """xgboost recurses into each list, and lightgbm throws where nobody can catch it."""
    (tmp_path / "m.txt").write_text(lightgbm_text.replace("tree_sizes=", "tree_sizes=1 "))
    (tmp_path / "m.json").write_text('{"learner": ' + "[" * 1_000_000)
    for name in ("m.txt", "m.json"):
        with pytest.raises(InvalidArgumentError, match=r"tried to load it crashed .SIG.*. The file is damaged"):
            load_model(tmp_path / name)


def test_a_file_on_which_the_model_never_returns_is_an_error(tmp_path, lightgbm_text, monkeypatch):
    """A node that is its own child."""
    text, start = lightgbm_text, lightgbm_text.index("left_child=")
    n_splits = len(text[start : text.index("\n", start)].split())
    circle = "left_child=" + " ".join(["0"] * n_splits)
    text = text[:start] + circle + text[text.index("\n", start) :]
    header = text.index("tree_sizes=")
    sizes = [len("Tree=" + tree) for tree in text[: text.index("end of trees")].split("Tree=")[1:]]
    text = text[:header] + "tree_sizes=" + " ".join(map(str, sizes)) + text[text.index("\n", header) :]
    (tmp_path / "m.txt").write_text(text)
    lightgbm.Booster(model_str=text)  # loading alone shows nothing
    monkeypatch.setattr(trial, "SECONDS", 12.0)
    with pytest.raises(InvalidArgumentError, match=r"did not end within 12 s|is damaged: a node"):
        load_model(tmp_path / "m.txt")


def test_a_skops_file_with_children_outside_of_the_tree_is_an_error(tmp_path):
    skops.io.dump(DecisionTreeRegressor(max_depth=2).fit(ROWS, TWO), tmp_path / "whole.skops")
    assert load_model(tmp_path / "whole.skops").n_columns == 3
    with zipfile.ZipFile(tmp_path / "whole.skops") as whole, zipfile.ZipFile(tmp_path / "m.skops", "w") as damaged:
        for name in whole.namelist():
            content = whole.read(name)
            with (tmp_path / "array.npy").open("wb") as file:
                file.write(content)
            nodes = None if name == "schema.json" else np.load(tmp_path / "array.npy", allow_pickle=False)
            if nodes is not None and nodes.dtype.names is not None:
                nodes["left_child"][0] = nodes["right_child"][0] = 10**9
                np.save(tmp_path / "array.npy", nodes)
                content = (tmp_path / "array.npy").read_bytes()
            damaged.writestr(name, content)
    with pytest.raises(InvalidArgumentError, match=r"crashed|is damaged: a node"):
        load_model(tmp_path / "m.skops")


def test_a_file_that_can_crash_costs_one_process(tmp_path, monkeypatch):
    started = []
    popen = trial.subprocess.Popen
    monkeypatch.setattr(trial.subprocess, "Popen", lambda *a, **k: started.append(a) or popen(*a, **k))
    xgboost.train({"nthread": 1}, xgboost.DMatrix(ROWS, TWO), 3).save_model(tmp_path / "m.ubj")
    load_model(tmp_path / "m.ubj")
    assert len(started) == 1


def test_what_raises_in_the_other_process_is_not_tried_in_this_one(tmp_path, monkeypatch):
    """Where the memory has another layout, and the same file may crash."""
    monkeypatch.setitem(loading._LOADERS, "xgboost", loading.load_lightgbm)
    (tmp_path / "m.json").write_text('{"learner": 1}')
    called = []
    monkeypatch.setattr(lightgbm, "Booster", lambda **_: called.append(1))
    with pytest.raises(InvalidArgumentError, match="could not be read by lightgbm"):
        load_model(tmp_path / "m.json")
    assert not called
