"""Which columns and rows of the files the command line takes."""

import numpy as np
import pytest
from cli_cases import X, Y, run

import controlshap as cs
from controlshap import InvalidArgumentError
from controlshap.cli.inputs import choose_columns, parse_rows, split_names
from controlshap.models.files import LoadedModel


def loaded(names=None, number=None):
    return LoadedModel(None, "", "function", names, number)


def test_columns_by_the_names_of_the_model_in_its_order():
    chosen = choose_columns(["id", "b", "a"], ["a", "b", "y"], loaded(("b", "a"), 2))
    assert chosen.names == ("b", "a")
    assert chosen.left_out == ("id", "y")
    assert choose_columns(["a", "b"], ["b", "a"], loaded(("a", "b")), columns=("b", "a")).names == ("a", "b")


def test_names_in_which_lightgbm_wrote_underscores_for_spaces(tmp_path, monkeypatch):
    import lightgbm

    frame = X.rename(columns={"age": "age in years", "debt": "all  debt"})
    data = lightgbm.Dataset(frame, Y)
    lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, data, 3).save_model(tmp_path / "m.txt")
    frame[["rate", *frame.columns.drop("rate")]].to_csv(tmp_path / "data.csv", index=False)
    monkeypatch.chdir(tmp_path)
    done = run("explain", "m.txt", "data.csv", "--background", "data.csv", "--out", "out", "--rows", ":2")
    assert done.exit_code == 0, done.output
    found = cs.load("out")
    assert found.feature_names == tuple(frame.columns)
    predicted = lightgbm.Booster(model_file="m.txt").predict(frame[:2])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, predicted)


def test_columns_by_the_files_or_by_the_options():
    assert choose_columns(["a", "b"], ["a", "b"], loaded()).names == ("a", "b")
    assert choose_columns(["a", "y", "b"], ["a", "b"], loaded(), drop=("y",)).names == ("a", "b")
    chosen = choose_columns(["a", "y", "b"], ["b", "a"], loaded(), columns=("b", "a"))
    assert (chosen.names, chosen.left_out) == (("b", "a"), ("y",))
    assert split_names(" a, b ,") == ("a", "b")


@pytest.mark.parametrize(
    ("data", "background", "model", "options", "message"),
    [
        ("ab", "abc", loaded(), {}, "only in --background: 'c'.*--drop"),
        ("abd", "abc", loaded(), {}, "only in DATA: 'd'; only in --background: 'c'"),
        ("ab", "ba", loaded(), {}, "another order"),
        ("ab", "ab", loaded(("a", "c")), {}, "`DATA` lacks columns that the model takes: 'c'.*others: 'b'"),
        ("ac", "ab", loaded(("a", "c")), {}, "`--background` lacks columns that the model takes: 'c'"),
        ("ab", "ab", loaded(("a", "b")), {"columns": ("a",)}, "the model's own names differ: 'b'"),
        ("ab", "ab", loaded(number=3), {}, "takes 3 columns, but there are 2: 'a', 'b'"),
        ("ab", "ab", loaded(), {"columns": ("a",), "drop": ("b",)}, "give one of them"),
        ("ab", "ab", loaded(), {"columns": ("a", "z")}, "lacks columns that --columns names: 'z'"),
        ("abcdefghijk", "z", loaded(), {}, "and 3 more"),
    ],
)
def test_columns_that_do_not_match_are_named(data, background, model, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        choose_columns(list(data), list(background), model, **options)


def test_a_column_named_twice_is_an_error():
    with pytest.raises(InvalidArgumentError, match="'a' came twice"):
        split_names("a,b,a")


@pytest.mark.parametrize(
    ("text", "rows"), [("2:5", (2, 5)), (":5", (0, 5)), ("5:", (5, 9)), ("3", (3, 4)), (":", (0, 9))]
)
def test_rows_are_chosen_by_number(text, rows):
    assert parse_rows(text, 9) == rows


@pytest.mark.parametrize("text", ["", "a", "1:2:3", "-1", "5:5", "5:4", "9", "0:10", "1 2"])
def test_rows_that_are_not_there_are_an_error(text):
    with pytest.raises(InvalidArgumentError, match="`--rows` must"):
        parse_rows(text, 9)
