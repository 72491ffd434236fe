"""Rows keep the names that they have in the user's frame, wherever a result shows or finds them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import controlshap as cs
from controlshap.report import write_report

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(30, 4)), columns=list("abcd"), index=[f"customer {i}" for i in range(30)])
NUMBERED = X.reset_index(drop=True)


def model(rows):
    rows = np.asarray(rows)
    return np.tanh(rows @ [1.0, -1.0, 0.5, 0.2]) + rows[:, 0] * rows[:, 1]


EXPLAINER = cs.Explainer(model, X, estimator="permutation")
FOUND = EXPLAINER(X.tail(4), budget=120, rng=0)


def test_names_are_shown_and_find_rows():
    assert FOUND.row_names == ("customer 26", "customer 27", "customer 28", "customer 29")
    assert "row customer 26: " in repr(FOUND)
    assert "<td>customer 26</td>" in FOUND._repr_html_()
    assert_array_equal(FOUND["customer 28"].values, FOUND[2].values)
    assert_array_equal(FOUND[["customer 28", "customer 26"]].values, FOUND[[2, 0]].values)
    assert_array_equal(FOUND.loc["customer 28"].values, FOUND[2].values)
    assert FOUND[1:3].row_names == ("customer 27", "customer 28")
    with pytest.raises(cs.InvalidArgumentError, match="no row has the name 'customer 3'; the rows are 'customer 26'"):
        FOUND["customer 3"]


def test_names_that_are_numbers_say_how_rows_are_found():
    found = EXPLAINER(X.reset_index(drop=True).tail(4), budget=120, rng=0)
    with pytest.raises(cs.InvalidArgumentError, match=r"found by explanation\.loc\[27\]"):
        found["27"]
    with pytest.raises(cs.InvalidArgumentError, match=r"got 27\. The row of that name is explanation\.loc\[27\]"):
        found[27]
    with pytest.raises(cs.InvalidArgumentError, match=r"got 27\. The row of that name is number 1"):
        found.plot.waterfall(27)


def test_names_in_rankings_tables_plots_and_reports(tmp_path):
    ranking = FOUND.ranking()
    assert ranking.describe("customer 28") == ranking.describe(2)
    assert ranking.names("customer 28") == ranking.names(2)
    assert "row customer 26: " in repr(ranking)
    assert set(ranking.to_frame()["row"]) == set(FOUND.to_frame()["row"]) == set(FOUND.row_names)
    assert FOUND.plot.waterfall("customer 28").get_title(loc="left") == "Row customer 28"
    assert FOUND.plot.bar("customer 28").get_title(loc="left") == "Row customer 28"
    FOUND.save(tmp_path / "values.csv")
    assert "\ncustomer 28,a," in (tmp_path / "values.csv").read_text()
    page = write_report(FOUND, tmp_path / "report.html").read_text()
    assert '"names":["customer 26",' in page
    assert '"names":null' in write_report(FOUND.__class__.concat([EXPLAINER(NUMBERED[:2], budget=120, rng=0)]),
                                          tmp_path / "numbers.html").read_text()  # fmt: skip


def test_names_are_saved_refined_and_joined(tmp_path):
    FOUND.save(tmp_path / "found")
    assert cs.load(tmp_path / "found").row_names == FOUND.row_names
    assert EXPLAINER.refine(FOUND, budget=100).row_names == FOUND.row_names
    numbered = EXPLAINER(NUMBERED[:2], budget=120, rng=1)
    assert cs.Explanation.concat([FOUND[:1], numbered]).row_names == ("customer 26", 0, 1)
    assert cs.KernelExplainer(model, X, link=lambda y: y).shap_values(X.tail(2)).shape == (2, 4)


def test_whole_numbers_are_names_for_loc_alone():
    found = EXPLAINER(NUMBERED.tail(3), budget=120, rng=0)
    assert found.row_names == (27, 28, 29)
    assert "row 27: " in repr(found)
    assert_array_equal(found.loc[28].values, found[1].values)
    assert_array_equal(found.loc[np.array([29, 27])].values, found[[2, 0]].values)
    with pytest.raises(cs.InvalidArgumentError, match="3 rows"):
        found[28]


def test_rows_without_names_are_known_by_their_numbers():
    found = EXPLAINER(NUMBERED[:5], budget=120, rng=0)
    assert found.row_names is None
    assert "row 3: " in repr(found[3:5])  # where it came from
    assert found[3:5].to_frame()["row"].unique().tolist() == [3, 4]
    twice = cs.Explanation.concat([found[:2], EXPLAINER(NUMBERED[:2], budget=120, rng=1)])
    assert twice.to_frame()["row"].unique().tolist() == [0, 1, 2, 3]  # of two runs: the place
    assert EXPLAINER(X.iloc[7], budget=120, rng=0).row_names == ("customer 7",)


def test_a_name_that_several_rows_have():
    found = EXPLAINER(X.iloc[[1, 1, 2]], budget=120, rng=0)
    with pytest.raises(cs.InvalidArgumentError, match=r"2 rows have the name 'customer 1', at \[0, 1\]"):
        found["customer 1"]


def test_the_background_as_a_part_of_rankings_and_summaries():
    more, less = FOUND.ranking(background=True), FOUND.ranking()
    low, high = FOUND.confidence_interval(simultaneous=True, background=True)
    size, reach = np.abs(FOUND.values), (high - low) / 2
    for row in range(len(FOUND)):
        for place in np.flatnonzero(more.separated[row]):
            above, below = np.split(more.order[row], [place + 1])
            assert (size - reach)[row, above].min() > (size + reach)[row, below].max()
    assert (more.n_ordered <= less.n_ordered).all()
    assert (more.swap_probability >= less.swap_probability - 1e-12).all()
    summary = FOUND.summary(background=True).standard_errors
    assert (summary >= FOUND.background_standard_errors.mean(axis=0)).all()
    exact = cs.Explainer(model, X)(X[:2], rng=0)
    assert set(exact.status) == {"exact"}
    assert exact.ranking().n_ordered.min() == 4
    assert set(exact.ranking(background=True).rests_on) == {"if the background is a sample of a population"}
    assert (exact.ranking(background=True).n_ordered < 4).any()
