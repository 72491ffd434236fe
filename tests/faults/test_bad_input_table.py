"""Bad input by the hundred, counted: each call ends in a clear error, or is accepted for a reason that is written here.

"Clear" is an error of the library that names an argument. "Raw" is any other exception, "wrong" a call that returned
and has no reason below.
"""

import contextlib
import datetime
import sys
import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cli_cases import run
from pyarrow import csv, feather, parquet
from scipy.sparse import csr_matrix

import controlshap as cs
from controlshap.datasets import load_dataset
from controlshap.models.files import load_model

RNG = np.random.default_rng(0)
BACKGROUND, ROWS = RNG.normal(size=(6, 3)), RNG.normal(size=(2, 3))
FRAME = pd.DataFrame(BACKGROUND, columns=["a", "b", "c"])


class Counting:
    """A model that says how often it was asked."""

    calls = 0

    def __call__(self, rows):
        self.calls += 1
        rows = np.asarray(rows.toarray() if hasattr(rows, "tocsr") else rows, dtype=float)
        return rows[:, 0] * rows[:, 1] + rows[:, 2]


def objects(value):
    array = np.array(ROWS, dtype=object)
    array[0, 0] = value
    return array


RECORDS = np.array([(1.0, 2, 3.0), (3.0, 4, 5.0)], dtype=[("x", float), ("y", int), ("z", float)])
ARRAYS = {
    "none": None,
    "text": "rows",
    "a number": 3,
    "a dictionary": {"a": [1.0], "b": [2.0], "c": [3.0]},
    "a set": {1.0, 2.0, 3.0},
    "a generator": (row for row in ROWS),
    "no rows": ROWS[:0],
    "no columns": ROWS[:, :0],
    "too many columns": np.ones((2, 4)),
    "three dimensions": ROWS[None, None],
    "ragged": [[1.0, 2.0, 3.0], [1.0]],
    "sparse": csr_matrix(ROWS),
    "complex": ROWS + 0j,
    "complex, masked": np.ma.array(ROWS + 0j, mask=ROWS > 0),
    "complex objects": objects(1j),
    "dates": np.full((2, 3), "2020-01-01", dtype="M8[D]"),
    "dates, masked": np.ma.array(np.full((2, 3), "2020-01-01", dtype="M8[D]"), mask=np.eye(2, 3)),
    "date objects": objects(datetime.date(2020, 1, 1)),
    "timestamps": objects(pd.Timestamp("2020")),
    "time spans": np.ones((2, 3), dtype="m8[s]"),
    "time spans, masked": np.ma.array(np.ones((2, 3), dtype="m8[s]"), mask=np.eye(2, 3)),
    "time span objects": objects(np.timedelta64(1, "s")),
    "python time spans": objects(datetime.timedelta(1)),
    "records": RECORDS,
    "records, two dimensions": np.array([RECORDS]),
    "raw bytes": np.zeros((2, 3), dtype="V8"),
    "infinite": np.where(np.eye(2, 3), np.inf, ROWS),
    "infinite, masked elsewhere": np.ma.array(np.where(np.eye(2, 3), np.inf, ROWS), mask=np.eye(2, 3)[::-1]),
    "huge integers": np.full((2, 3), 2**60),
    "huger integers": objects(10**400),
    "lists within": objects([1.0]),
    "dictionaries within": objects({"a": 1}),
    "a frame of dates": pd.DataFrame({name: pd.date_range("2020", periods=2) for name in "abc"}),
    "a frame of time spans": pd.DataFrame({name: pd.to_timedelta([1, 2], unit="s") for name in "abc"}),
    "a frame of complex numbers": pd.DataFrame(ROWS + 1j, columns=list("abc")),
    "a frame with one name twice": pd.DataFrame(ROWS, columns=["a", "b", "b"]),
    "a lazy frame": pl.DataFrame(ROWS, schema=list("abc")).lazy(),
    "an arrow table of dates": pa.table({name: pa.array([datetime.date(2020, 1, 1)] * 2) for name in "abc"}),
}


def kernel(model, data):
    explainer = cs.KernelExplainer(model, data)
    explainer.shap_values(FRAME[:2] if hasattr(type(data), "columns") else ROWS, nsamples=50)


def refine(model, rows, tmp_path):
    del tmp_path
    explainer = cs.Explainer(model, BACKGROUND)
    explainer.refine(rows, budget=60)


ENTRANCES = {
    "background": lambda model, data, _: cs.Explainer(model, data)(ROWS, rng=0),
    "a call": lambda model, data, _: cs.Explainer(model, BACKGROUND)(data, rng=0),
    "explain": lambda model, data, _: cs.explain(model, data, BACKGROUND, rng=0),
    "plan": lambda model, data, _: cs.Explainer(model, BACKGROUND).plan(data),
    "fit_surrogate": lambda model, data, _: cs.Explainer(model, BACKGROUND).fit_surrogate(data, budget=100),
    "explain_dataset": lambda model, data, out: cs.Explainer(model, BACKGROUND).explain_dataset(data, out / "o"),
    "refine": refine,
    "KernelExplainer": lambda model, data, _: kernel(model, data),
    "shap_values": lambda model, data, _: cs.KernelExplainer(model, BACKGROUND).shap_values(data, nsamples=50),
}
#: What returns, and why it may.
ARRAYS_ACCEPTED = {
    ("background", "too many columns"): "any number of columns will do; the rows are refused, not the background",
    ("plan", "none"): "what a call costs can be told without rows",
    ("KernelExplainer", "too many columns"): "any number of columns will do; the rows are refused, not the background",
    ("KernelExplainer", "sparse"): "shap takes sparse matrices; a warning says that they are converted",
    ("shap_values", "sparse"): "shap takes sparse matrices; a warning says that they are converted",
}

BAD_NUMBERS = {
    "10**400": 10**400, "-1": -1, "text": "much", "complex": 1j, "numpy complex": np.complex128(1),
    "time span": np.timedelta64(5, "s"), "python time span": datetime.timedelta(1), "NaN": np.nan,
    "minus infinity": -np.inf,
    "list": [1, 2], "dictionary": {}, "array": np.array([1.0, 2.0]), "True": True, "date": datetime.date(2020, 1, 1),
    "object": object(),
}  # fmt: skip
OPTIONS = {
    "budget": lambda model, value, _: call(model, budget=value),
    "tolerance": lambda model, value, _: call(model, tolerance=value),
    "absolute_tolerance": lambda model, value, _: call(model, absolute_tolerance=value),
    "time_limit": lambda model, value, _: call(model, time_limit=value),
    "level": lambda model, value, _: call(model, level=value),
    "stop": lambda model, value, _: call(model, stop=value),
    "rng": lambda model, value, _: call(model, rng=value),
    "n_jobs": lambda model, value, _: call(model, n_jobs=value),
    "progress": lambda model, value, _: call(model, progress=value),
    "memory_limit": lambda model, value, _: cs.Explainer(model, BACKGROUND, memory_limit=value),
    "max_background": lambda model, value, _: cs.Explainer(model, BACKGROUND, max_background=value),
    "seconds": lambda model, value, _: cs.Explainer(model, BACKGROUND, seconds_per_evaluation=value),
    "features": lambda model, value, _: cs.Explainer(model, BACKGROUND, features=value),
    "estimator": lambda model, value, _: cs.Explainer(model, BACKGROUND, estimator=value),
    "control": lambda model, value, _: cs.Explainer(model, BACKGROUND, control=value),
    "variance": lambda model, value, _: cs.Explainer(model, BACKGROUND, variance=value),
    "coefficient": lambda model, value, _: cs.Explainer(model, BACKGROUND, coefficient=value),
    "groups": lambda model, value, _: cs.Explainer(model, BACKGROUND, groups=value),
    "model": lambda _, value, __: cs.Explainer(value, BACKGROUND),
    "part_rows": lambda model, value, out: dataset(model, out, part_rows=value),
    "rows": lambda model, value, out: dataset(model, out, rows=value),
    "model_hash": lambda model, value, out: dataset(model, out, model_hash=value),
    "out": lambda model, value, _: cs.Explainer(model, BACKGROUND).explain_dataset(ROWS, value),
    "load": lambda _, value, __: cs.load(value),
    "a number of permutations": lambda _, value, __: cs.Taylor(n_permutations=value),
    "a number of resamples": lambda _, value, __: cs.Bootstrap(n_resamples=value),
    "an eigenvalue": lambda _, value, __: cs.GaussianConditional(min_eigenvalue=value),
    "nsamples": lambda model, value, _: cs.KernelExplainer(model, BACKGROUND).shap_values(ROWS, nsamples=value),
    "l1_reg": lambda model, value, _: cs.KernelExplainer(model, BACKGROUND).shap_values(ROWS, l1_reg=value),
    "confidence level": lambda model, value, _: call(model).confidence_interval(value),
    "ranking level": lambda model, value, _: call(model).ranking(value),
    "output": lambda model, value, _: call(model).output(value),
}
OPTIONS_ACCEPTED = {
    ("rng", "10**400"): "any whole number is a seed",
    ("n_jobs", "-1"): "one process a core, as in scikit-learn",
    ("progress", "True"): "shows a bar",
    ("groups", "dictionary"): "no groups",
    ("l1_reg", "True"): "shap's old switch",
    ("rows", "list"): "a list of two whole numbers is a pair of them",
    ("model_hash", "text"): "any text",
    ("out", "text"): "a folder of that name",
}


def call(model, **settings):
    return cs.Explainer(model, BACKGROUND)(ROWS, **({"rng": 0} | settings))


def dataset(model, out, **settings):
    return cs.Explainer(model, BACKGROUND).explain_dataset(ROWS, out / "o", **({"rng": 0} | settings))


def judge(action, model):
    """How a call ends, and what it said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", ".*parts failed", cs.ControlShapWarning)  # with the error of the first
        try:
            action()
        except (cs.ControlShapError, cs.ControlShapWarning) as error:
            if "`" not in str(error) and "model must return" not in str(error):
                return "raw", f"names no argument: {error}"
            return "clear", "" if model.calls == 0 else "late"
        except Exception as error:  # noqa: BLE001, they are counted
            return "raw", f"{type(error).__name__}: {str(error)[:120]}"
    return "accepted", ""


def count(cases, accepted):
    """Counts of outcomes, and the cases that should not be."""
    counts, odd = Counter(), []
    for name, (action, model) in cases.items():
        outcome, said = judge(action, model)
        if outcome == "accepted" and not accepted.get(name):
            outcome = "wrong"
        counts[outcome] += 1
        if outcome in ("raw", "wrong"):
            odd.append((outcome, name, said))
    return counts, odd


def report(capsys, title, counts):
    with capsys.disabled():
        sys.stdout.write(f" {title}: {dict(counts)}")


def bind(function, value, tmp_path):
    model = Counting()

    def action():
        with contextlib.chdir(tmp_path):
            function(model, value, tmp_path)

    return action, model


@pytest.mark.slow
def test_arrays_and_frames(tmp_path, capsys):
    cases = {}
    for entrance, function in ENTRANCES.items():
        for name, data in ARRAYS.items():
            folder = tmp_path / f"{len(cases)}"
            folder.mkdir()
            cases[entrance, name] = bind(function, data, folder)
    counts, odd = count(cases, ARRAYS_ACCEPTED)
    report(capsys, "arrays and frames", counts)
    assert not odd, "\n".join(map(str, odd))
    assert sum(counts.values()) >= 300


@pytest.mark.slow
def test_options(tmp_path, capsys):
    cases = {}
    for option, function in OPTIONS.items():
        for name, value in BAD_NUMBERS.items():
            folder = tmp_path / f"{len(cases)}"
            folder.mkdir()
            cases[option, name] = bind(function, value, folder)
    counts, odd = count(cases, OPTIONS_ACCEPTED)
    report(capsys, "options", counts)
    assert not odd, "\n".join(map(str, odd))
    assert sum(counts.values()) >= 300


def test_the_count_sees_wrong_and_raw():
    """The negative control."""
    cases = {"wrong": (lambda: None, Counting()), "raw": (lambda: 1 / 0, Counting())}
    counts, odd = count(cases, {})
    assert dict(counts) == {"wrong": 1, "raw": 1}
    assert len(odd) == 2


def test_masked_entries_are_missing_wherever_rows_come_in(tmp_path):
    """NaN in their place, as in a call; a masked array without masked entries is an array."""

    def filled(rows):
        return np.nan_to_num(np.asarray(rows), nan=5.0) @ [1.0, 2.0, 4.0]

    masked = np.ma.array(ROWS, mask=np.eye(2, 3, dtype=bool))
    plain = np.where(np.eye(2, 3), np.nan, ROWS)
    explainer = cs.Explainer(filled, BACKGROUND)
    expected = explainer(plain, rng=0).values
    np.testing.assert_array_equal(explainer(masked, rng=0).values, expected)
    explainer.explain_dataset(masked, tmp_path / "out", rng=0)
    np.testing.assert_array_equal(cs.load(tmp_path / "out").values, expected)
    shap_values = cs.KernelExplainer(filled, BACKGROUND).shap_values
    np.testing.assert_array_equal(shap_values(masked, nsamples=50), shap_values(plain, nsamples=50))
    ints = np.ma.array([[1, 2, 3], [4, 5, 6]], mask=[[0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(explainer(ints, rng=0).data, [[1, np.nan, 3], [4, 5, 6]])


def write_csv(text):
    return lambda path: path.write_bytes(text)


def write_parquet_twice(path):
    parquet.write_table(pa.table([pa.array([1.0]), pa.array([2.0]), pa.array([3.0])], names=["a", "b", "b"]), path)


def write_feather_twice(path):
    table = pa.table([pa.array([1.0]), pa.array([2.0]), pa.array([3.0])], names=["a", "b", "b"])
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def cut(writer, start=None, stop=None, byte=None):
    """A file of which only a part is there, or with one byte changed."""

    def write(path):
        writer(path)
        content = bytearray(path.read_bytes()[start:stop])
        if byte is not None:
            content[byte] ^= 0x40
        path.write_bytes(bytes(content))

    return write


TABLE = pa.table({name: RNG.normal(size=40) for name in "abc"})


def write_parquet(path):
    parquet.write_table(TABLE, path, write_page_checksum=True)


def write_feather(path):
    feather.write_feather(TABLE, str(path))


def write_plain_csv(path):
    csv.write_csv(TABLE, path)


FILES = {
    "empty.csv": write_csv(b""),
    "header.csv": write_csv(b"a,b,c\n"),
    "carriage.csv": write_csv(b"a,b,c\r1,2\r"),
    "short.csv": write_csv(b"a,b,c\n1,2,3\n1,2\n"),
    "long.csv": write_csv(b"a,b,c\n1,2,3,4\n"),
    "text.csv": write_csv(b"a,b,c\n1,2,3\n1,x,3\n4,5,6\n"),
    "twice.csv": write_csv(b"a,b,b\n1,2,3\n"),
    "semicolons.csv": write_csv(b"a;b;c\n1;2;3\n"),
    "latin.csv": write_csv("a,b,c\n1,2,\xe9\n".encode("latin-1")),
    "sixteen.csv": write_csv("a,b,c\n1,2,3\n".encode("utf-16")),
    "nul.csv": write_csv(b"a,b,c\n1,\x00,3\n"),
    "quote.csv": write_csv(b'a,b,c\n1,"2,3\n4,5,6\n'),
    "infinite.csv": write_csv(b"a,b,c\n1,inf,3\n"),
    "other.csv": write_csv(b"x,y,z\n1,2,3\n"),
    "zip.csv": write_csv(b"PK\x03\x04"),
    "twice.parquet": write_parquet_twice,
    "half.parquet": cut(write_parquet, stop=500),
    "tail.parquet": cut(write_parquet, start=200),
    "flipped.parquet": cut(write_parquet, byte=60),
    "text.parquet": write_csv(b"a,b,c\n1,2,3\n"),
    "empty.parquet": write_csv(b""),
    "twice.arrow": write_feather_twice,
    "half.feather": cut(write_feather, stop=400),
    "tail.arrow": cut(write_feather, start=200),
    "text.arrow": write_csv(b"a,b,c\n1,2,3\n"),
    "unknown.xlsx": write_csv(b"PK\x03\x04"),
    "noname": write_csv(b"1,2,3\n"),
    "missing.csv": lambda path: None,
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name, tmp_path):
    FILES[name](tmp_path / name)
    model = Counting()
    folder = tmp_path / "out"
    outcome, said = judge(lambda: cs.Explainer(model, FRAME).explain_dataset(tmp_path / name, folder, rng=0), model)
    assert outcome == "clear", said
    out = run("explain", "math:fsum", tmp_path / name, "--background", tmp_path / name, "--out", tmp_path / "o")
    assert out.exit_code not in (0, None)
    assert "Traceback" not in out.output
    assert "unexpected" not in out.output, out.output


def test_the_bad_cell_is_named_not_a_good_one(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b,c\n" + "1,2,3\n" * 70 + "1,2.5 kg,3\n" + "1,2,3\n" * 70)
    with pytest.raises(cs.InvalidArgumentError, match=r"column 'b' must hold numbers.*row 70 of 'rows.csv'.*'2\.5 kg'"):
        cs.Explainer(Counting(), FRAME).explain_dataset(tmp_path / "rows.csv", tmp_path / "out", rng=0)


COMMANDS = {
    "no model": ["explain", "none.skops", "DATA", "--background", "DATA"],
    "no function": ["explain", "json:nothing", "DATA", "--background", "DATA"],
    "no module": ["explain", "nothing_of_the_kind:f", "DATA", "--background", "DATA"],
    "no data": ["explain", "scoring_of_faults:f", "none.csv", "--background", "DATA"],
    "no background": ["explain", "scoring_of_faults:f", "DATA", "--background", "none.csv"],
    "rows beyond": ["explain", "scoring_of_faults:f", "DATA", "--background", "DATA", "--rows", "5:99"],
    "rows of text": ["explain", "scoring_of_faults:f", "DATA", "--background", "DATA", "--rows", "all"],
    "rows of many digits": ["explain", "scoring_of_faults:f", "DATA", "--background", "DATA", "--rows", "9" * 5000],
    "budget of many digits": ["explain", "scoring_of_faults:f", "DATA", "--background", "DATA", "--budget", "9" * 400],
    "budget of text": ["explain", "scoring_of_faults:f", "DATA", "--background", "DATA", "--budget", "much"],
    "level": ["explain", "scoring_of_faults:f", "DATA", "--background", "DATA", "--level", "nan"],
    "groups missing": ["explain", "scoring_of_faults:f", "DATA", "--background", "DATA", "--groups", "none.json"],
    "groups no JSON": ["explain", "scoring_of_faults:f", "DATA", "--background", "DATA", "--groups", "DATA"],
    "columns unknown": ["explain", "scoring_of_faults:f", "DATA", "--background", "DATA", "--columns", "x,y"],
    "drop unknown": ["explain", "scoring_of_faults:f", "DATA", "--background", "DATA", "--drop", "x"],
    "control unknown": ["explain", "scoring_of_faults:f", "DATA", "--background", "DATA", "--control", "tailor"],
    "jobs": ["explain", "scoring_of_faults:f", "DATA", "--background", "DATA", "--jobs", "0"],
    "report of nothing": ["report", "none"],
    "report of a file": ["report", "DATA"],
}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS.keys())
def test_commands(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("DATA.csv", index=False)
    (tmp_path / "scoring_of_faults.py").write_text("def f(frame):\n    return frame['a']\n")
    arguments = ["DATA.csv" if argument == "DATA" else argument for argument in arguments]
    out = ["--out", "out"] if arguments[0] == "explain" else []
    result = run(*arguments, *out)
    assert result.exit_code not in (0, None)
    assert "Traceback" not in result.output
    assert "unexpected" not in result.output, result.output


def test_groups_are_read_as_utf8_in_any_locale(tmp_path, monkeypatch):
    """With or without the mark that some editors put first."""
    from controlshap.cli.inputs import read_groups

    for mark in (b"", b"\xef\xbb\xbf"):
        (tmp_path / "groups.json").write_bytes(mark + '{"Größe": ["Länge", "Breite"]}'.encode())
        assert read_groups(tmp_path / "groups.json") == {"Größe": ["Länge", "Breite"]}


LOADS = {
    "missing": lambda path: None,
    "a file": lambda path: path.write_text("x"),
    "an empty folder": lambda path: path.mkdir(),
    "a pickle": lambda path: path.write_bytes(b"\x80\x04."),
}


@pytest.mark.parametrize("make", LOADS.values(), ids=LOADS.keys())
def test_loading(make, tmp_path):
    path = tmp_path / "thing"
    make(path)
    for read in (cs.load, load_dataset, lambda p: cs.Explainer.load(p, Counting()), load_model):
        with pytest.raises(cs.ControlShapError, match="`"):
            read(path)


def test_numbers_of_other_libraries_are_numbers():
    """What is accepted stays accepted: numpy's own scalars, and floats that are whole."""
    explainer = cs.Explainer(Counting(), BACKGROUND)
    for budget in (np.int64(60), 60.0, np.float64(60.0), np.uint8(60)):
        assert explainer(ROWS, budget=budget, rng=np.int64(0)).n_evaluations.max() <= 60
    with pytest.raises(cs.InvalidArgumentError):
        explainer(ROWS, budget=Fraction(121, 2))
