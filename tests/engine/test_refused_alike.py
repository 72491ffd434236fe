"""Warnings that come once a call, and arguments that a plan or a refinement refuses as the call does."""

import warnings

import numpy as np
import pytest

import controlshap as cs

B = np.random.default_rng(0).normal(size=(40, 6))


def model(rows):
    return np.tanh(rows.sum(axis=1)) + rows[:, 0] * rows[:, 1]


def test_goals_that_rows_missed_are_told_once_a_call():
    explainer = cs.Explainer(model, B)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = explainer(B[:5], budget=300, rng=0, tolerance=1e-6)
        explainer.refine(found, budget=100, tolerance=1e-6)
    assert [warning.category for warning in caught] == [cs.NotConvergedWarning] * 2
    assert str(caught[0].message).startswith("5 of 5 rows (the first: row 0) did not reach tolerance=1e-06")
    assert caught[0].filename == __file__
    with pytest.warns(cs.NotConvergedWarning, match="^Row 0 did not reach"):
        explainer(B[:1], budget=300, rng=0, tolerance=1e-6)


@pytest.mark.parametrize("X", [None, B[:2]])
def test_a_plan_refuses_a_control_that_a_call_refuses(X):
    explainer = cs.Explainer(model, B, features="empirical", control="taylor")
    with pytest.raises(cs.NoClosedFormError, match="not for EmpiricalImputer"):
        explainer(B[:2], budget=300)
    with pytest.raises(cs.NoClosedFormError, match="not for EmpiricalImputer"):
        explainer.plan(X, budget=300)


def test_refine_refuses_another_level_than_that_of_the_guarantee():
    explainer = cs.Explainer(lambda rows: (model(rows) > 0) * 1.0, B)
    found = explainer(B[:2], budget=300, rng=0, guarantee="finite", output_range=(0, 1), level=0.9)
    assert explainer.refine(found, budget=100).settings["level"] == 0.9
    assert explainer.refine(found, budget=100, level=0.9).settings["level"] == 0.9
    with pytest.raises(cs.InvalidArgumentError, match=r"made for level=0.9"):
        explainer.refine(found, budget=100, level=0.95)


def test_plans_say_how_long_the_model_takes_where_its_time_is_told():
    plan = cs.Explainer(model, B, seconds_per_evaluation=0.01).plan(B[:30], budget=1000)
    assert "time        at most about 5 min of the model for 30 rows, at 0.01 s an evaluation" in str(plan)
    assert "time        not known: " in str(cs.Explainer(model, B).plan(B[:30], budget=1000))


def test_tables_are_no_folders(tmp_path):
    found = cs.Explainer(model, B)(B[:2], budget=300, rng=0)
    found.save(tmp_path / "values.csv")
    with pytest.raises(cs.InvalidArgumentError, match=r"is a table: read it with pandas.read_csv\(path\)"):
        cs.load(tmp_path / "values.csv")
    with pytest.raises(cs.InvalidArgumentError, match=r"pandas.read_parquet\(path\)"):
        cs.load(tmp_path / "nothing.parquet")


def test_when_all_parts_fail_nothing_is_said_to_be_done(tmp_path):
    background = B.copy()

    def fails(rows):
        if (rows > 10).any():
            raise ValueError("no database")
        return model(rows)

    with pytest.warns(cs.ControlShapWarning, match=r"2 of 2 parts failed; .*no database.*\. No row is explained\."):
        cs.Explainer(fails, background).explain_dataset(B + 100, tmp_path / "out", budget=300, part_rows=20)
