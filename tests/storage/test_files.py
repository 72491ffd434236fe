"""Files are whole or absent, and a package that is missing is named with the extra that brings it."""

import hashlib
import json
import sys

import pytest

import controlshap as cs
from controlshap._files import hash_file, replacing, write_json
from controlshap._imports import require


def test_a_file_takes_its_name_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "file.txt"
    with replacing(path) as temporary:
        temporary.write_text("first")
        assert not path.exists()
    with pytest.raises(UnicodeEncodeError), replacing(path) as temporary:
        temporary.write_text("half of it, then \ud800", encoding="utf-8")
    assert path.read_text() == "first"
    assert list(path.parent.iterdir()) == [path]


def test_json_and_hashes(tmp_path):
    write_json(tmp_path / "one.json", {"name": "é", "value": 1.5})
    assert json.loads((tmp_path / "one.json").read_text()) == {"name": "é", "value": 1.5}
    assert hash_file(tmp_path / "one.json") == hashlib.sha256((tmp_path / "one.json").read_bytes()).hexdigest()


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    assert require("json", extra="none", feature="This test") is json
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    message = r"^`fit` needs scikit-learn: pip install 'controlshap\[sklearn\]', or leave it out\.$"
    with pytest.raises(cs.MissingExtraError, match=message):
        require("sklearn.linear_model", extra="sklearn", feature="`fit`", otherwise="or leave it out")
