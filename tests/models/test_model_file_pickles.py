"""Model files whose loading runs code: nothing runs that was not allowed."""

import hashlib
import os
import pickle

import joblib
import numpy as np
import pytest
import torch
from model_file_cases import FRAME, NAMES, TWO, explained, here
from sklearn.linear_model import LogisticRegression

import controlshap as cs
from controlshap.models.files import load_model

pytestmark = pytest.mark.seconds

FIXTURES = (here,)  # pytest finds them by their names


class Bomb:
    """Unpickling it makes a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


WRITERS = {
    "model.pkl": lambda path: path.write_bytes(pickle.dumps(LogisticRegression().fit(FRAME, TWO))),
    "old.pickle": lambda path: path.write_bytes(pickle.dumps(LogisticRegression().fit(FRAME, TWO), protocol=0)),
    "model.joblib": lambda path: joblib.dump(LogisticRegression().fit(FRAME, TWO), path),
    "joblib.pkl": lambda path: joblib.dump(LogisticRegression().fit(FRAME, TWO), path),
    "zlib.joblib": lambda path: joblib.dump(LogisticRegression().fit(FRAME, TWO), path, compress=3),
    "gzip.joblib": lambda path: joblib.dump(LogisticRegression().fit(FRAME, TWO), path, compress=("gzip", 3)),
    "xz.joblib": lambda path: joblib.dump(LogisticRegression().fit(FRAME, TWO), path, compress=("xz", 3)),
    "net.pt": lambda path: torch.save(net(), path),
    "legacy.pth": lambda path: torch.save(net(), path, _use_new_zipfile_serialization=False),
    "script.pt": lambda path: torch.jit.script(net()).save(str(path)),
    "suffix.bin": lambda path: path.write_bytes(pickle.dumps(LogisticRegression().fit(FRAME, TWO))),
}


@pytest.mark.parametrize("name", WRITERS)
def test_files_that_run_code_are_loaded_on_request_only(name, tmp_path):
    file = tmp_path / name
    WRITERS[name](file)
    with pytest.raises(cs.InvalidArgumentError, match=r"loading one runs code.*--allow-pickle"):
        load_model(file)
    loaded = load_model(file, allow_pickle=True)
    assert loaded.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    if loaded.kind == "torch":
        module = net()
        explained(loaded, lambda rows: module(torch.tensor(np.asarray(rows), dtype=torch.float32)).detach().numpy())
        other = pickle.loads(pickle.dumps(loaded.model))
        assert torch.equal(other(torch.ones(2, 3)), loaded.model(torch.ones(2, 3)))
    else:
        assert (loaded.kind, loaded.feature_names) == ("pickle", tuple(NAMES))
        explained(loaded, lambda rows: LogisticRegression().fit(FRAME, TWO).predict_proba(rows)[:, 1])


@pytest.mark.parametrize(
    "name", ["m.pkl", "m.joblib", "m.onnx", "m.skops", "m.json", "m.txt", "m.ubj", "m.pt", "m", "m.model"]
)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_under_any_name_never_runs_unasked(name, protocol, tmp_path):
    made, file = tmp_path / "made", tmp_path / name
    file.write_bytes(pickle.dumps([Bomb(made), 1], protocol=protocol))
    with pytest.raises(cs.InvalidArgumentError, match=r"runs code|holds a pickle|could not be read|not a model file"):
        load_model(file)
    if protocol > 0 and file.suffix in (".onnx", ".skops", ".json", ".txt", ".ubj"):
        with pytest.raises(cs.InvalidArgumentError, match=r"but holds a pickle.*rename it"):
            load_model(file, allow_pickle=True)
    assert not made.exists()


def test_a_torch_file_with_weights_only_or_classes_that_are_gone(tmp_path):
    torch.save(net().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(cs.InvalidArgumentError, match=r"weights .* without the module"):
        load_model(tmp_path / "weights.pt", allow_pickle=True)
    (tmp_path / "gone.pkl").write_bytes(b"cno_such_module\nThing\n(tR.")
    with pytest.raises(cs.MissingExtraError, match="module 'no_such_module'"):
        load_model(tmp_path / "gone.pkl", allow_pickle=True)
    (tmp_path / "gone.pkl").write_bytes(pickle.dumps({"a": 1})[:-4])
    with pytest.raises(cs.InvalidArgumentError, match="could not be unpickled"):
        load_model(tmp_path / "gone.pkl", allow_pickle=True)
    (tmp_path / "dict.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(cs.InvalidArgumentError, match="this holds a dict"):
        load_model(tmp_path / "dict.pkl", allow_pickle=True)


def test_classes_of_a_pickle_are_found_in_the_current_directory(here):
    (here / "own_classes.py").write_text("class Own:\n    def predict(self, rows):\n        return rows['age']\n")
    (here / "m.pkl").write_bytes(b"cown_classes\nOwn\n(tR.")
    assert type(load_model("m.pkl", allow_pickle=True).model).__name__ == "Own"
