"""Model files that change while they are read, or are made to break whoever reads them."""

import pickle
import sys

import lightgbm
import numpy as np
import pytest

from controlshap import InvalidArgumentError
from controlshap.models.files import load as loading
from controlshap.models.files import load_model
from controlshap.models.files.boosters import json_depth


class Leaver:
    def __reduce__(self):
        return sys.exit, (0,)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(abs))

    def load_and_change(path, kind):
        path.write_bytes(pickle.dumps(max))
        return abs

    monkeypatch.setattr(loading, "load_pickle", load_and_change)
    with pytest.raises(InvalidArgumentError, match="changed while it was read"):
        load_model(path, allow_pickle=True)


def test_a_pickle_that_ends_the_program_is_an_error(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(Leaver()))
    with pytest.raises(InvalidArgumentError, match=r"could not be unpickled .SystemExit"):
        load_model(path, allow_pickle=True)


def test_the_depth_of_json_does_not_count_what_stands_in_names():
    assert json_depth(b"") == 0
    assert json_depth(b'{"a": [1, [2]], "b": {}}') == 3
    assert json_depth(rb'{"[0, 10)": "[[[[", "\"[": [1]}') == 2
    assert json_depth(b"[" * 1000) == 1000


def test_a_lightgbm_file_whose_trees_are_not_where_it_says_is_an_error(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    booster = lightgbm.train({"verbose": -1, "min_data_in_leaf": 5}, lightgbm.Dataset(rows, rows[:, 0]), 3)
    path = tmp_path / "model.txt"
    booster.save_model(path)
    content = path.read_bytes()
    assert load_model(path).n_columns == 3
    for damaged in (content.replace(b"Tree=1", b"Tr\xffe=1"), content.replace(b"tree_sizes=", b"tree_sizes=1 ")):
        path.write_bytes(damaged)
        with pytest.raises(InvalidArgumentError, match="cut off or damaged"):
            load_model(path)
