"""Results show themselves: texts at a prompt, tables and pictures in notebooks, names of what is explained."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import controlshap as cs

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
X, KIND = X.iloc[:, :12], Y.map({0: "malignant", 1: "benign"})
SCORES = make_pipeline(StandardScaler(), SVC(kernel="poly")).fit(X, KIND)


def explained(model, rows=None, **settings):
    rows = X if rows is None else rows
    return cs.Explainer(model, rows[:30], **settings)(rows[:4], budget=400, rng=0)


def test_what_is_explained_has_a_name():
    logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, KIND)
    assert explained(logistic).output_names == ("malignant",)
    assert explained(logistic).output_labels == ("probability of class 'malignant'",)
    assert explained(SCORES).output_labels == ("decision function of class 'malignant'",)
    assert explained(LinearRegression().fit(X, Y)).output_labels == ("prediction",)
    assert explained(lambda rows: rows.to_numpy()[:, 0]).output_labels == ("model output",)
    both = explained(logistic.predict_proba)
    assert both.output_labels == ("probability of class 'benign'", "probability of class 'malignant'")
    assert both.output("malignant").output_labels == ("probability of class 'malignant'",)
    iris, kinds = load_iris(return_X_y=True)
    three = explained(LogisticRegression(max_iter=500).fit(iris, kinds), iris)
    assert three.output_labels == ("probability of class 0", "probability of class 1", "probability of class 2")


def test_names_reach_the_frame_the_plot_and_a_file(tmp_path):
    found = explained(SCORES)
    assert set(found.to_frame()["output"]) == {"malignant"}
    ax = found.plot.waterfall(0)
    assert ax.get_title(loc="left") == "Row 0, decision function of class 'malignant'"
    assert "lines and ±: 95 % interval of each step" in ax.get_xlabel()
    assert cs.load(found.save(tmp_path / "result")).output_labels == found.output_labels
    assert found.output("malignant") is found.output() is found
    with pytest.raises(cs.InvalidArgumentError, match="must be left out"):
        found.output("benign")


def test_a_linked_explanation_says_so():
    explainer = cs.KernelExplainer(
        make_pipeline(StandardScaler(), LogisticRegression()).fit(X, KIND).predict_proba, X[:5], link="logit"
    )
    explainer.shap_values(X[:1], nsamples=60)
    assert explainer.explanation.output_labels[1] == "log-odds of the mean probability of class 'malignant'"
    assert explainer.explanation.settings["model"] == "Pipeline ending in LogisticRegression.predict_proba"


def test_a_value_and_its_error_stay_on_one_line_of_a_notebook():
    X = np.random.default_rng(0).normal(size=(30, 6))
    table = cs.Explainer(lambda rows: np.tanh(rows.sum(axis=1)), X)(X[:2], budget=300, rng=0)._repr_html_()
    assert table.count("\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}") == 12


def test_exact_rows_have_no_rough_errors():
    X = np.random.default_rng(0).normal(size=(3, 6))
    found = cs.Explainer(lambda rows: rows[:, 0] * rows[:, 1], X[:1])(X[1:], rng=0)  # one background row
    assert (found.status == "exact").all()
    assert "Rough" not in repr(found)


def test_texts_hold_values_and_errors():
    found = explained(SCORES)
    first, *rows, last, doubts = repr(found).splitlines()
    assert doubts == "Rough errors: 18 units a row; budget=450 gives 20 units a row"
    assert first == (
        "Explanation of 4 rows by 12 players: decision function of class 'malignant' (Pipeline ending in SVC)"
    )
    assert len(rows) == 4
    assert rows[-1] == "  and 1 row more"
    assert all(row.count("±") == 5 for row in rows[:-1])
    assert "± is half a 95 % interval" in last
    low, high = found.confidence_interval(0.95)
    player = int(np.abs(found.values[0]).argmax())
    reach = float(rows[0].split("±")[1].split(",")[0])
    assert reach == pytest.approx((high - low)[0, player] / 2, rel=0.06)
    assert repr(found.ranking()).splitlines()[1].startswith("  row 0: ")
    assert "standard error" in repr(found.summary())


def test_an_explainer_says_what_it_explains_and_how():
    told = repr(cs.Explainer(SCORES, X[:30], control="none", features="correlated"))
    assert "Explainer of Pipeline ending in SVC: decision function of class 'malignant'" in told
    assert "30 rows, 12 columns, 12 players" in told
    assert "correlated: absent features are conditioned on the revealed ones" in told
    assert "settings    control='none'" in told
    assert "settings    defaults" in repr(cs.Explainer(SCORES, X[:30]))


def test_notebooks_get_a_waterfall_of_one_row_and_tables_of_several(monkeypatch):
    found = explained(SCORES)
    assert "<svg" in found[0]._repr_html_()
    assert "<table" in found._repr_html_()
    assert found._repr_html_().count("<tr>") == 5
    for shown in (found.summary(), found.ranking(), cs.Explainer(SCORES, X[:30])):
        assert shown._repr_html_().startswith("<")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert "<table" in found[0]._repr_html_()


def test_names_are_text_in_a_notebook():
    rows = X.rename(columns={X.columns[0]: "<script>alert(1)</script>"})
    found = explained(lambda inputs: inputs.to_numpy()[:, 0] * inputs.to_numpy()[:, 1], rows)
    assert "<script" not in found._repr_html_()
    assert "<script" not in found.ranking()._repr_html_()


def test_rankings_tell_all_outputs_by_name():
    background = np.random.default_rng(0).normal(size=(20, 4))
    found = cs.Explainer(lambda rows: rows[:, :3] ** 2 * rows[:, 1:], background)(background[:4], budget=400, rng=0)
    found = replace(found, output_names=("setosa", "versicolor", "virginica"))
    ranking = found.ranking()
    first, *rows, last = repr(ranking).splitlines()
    assert first.endswith("of rows and outputs)")
    assert last == "  and 1 row more"
    names = [(row, name) for row in range(3) for name in found.output_names]
    assert rows == [f"  row {row}, {name}: {ranking.describe(row, name)}" for row, name in names]
    assert "<td>3, virginica</td>" in ranking._repr_html_()
    assert ranking.describe(1, "versicolor") == ranking.describe(1, 1) != ranking.describe(1, 0)
    assert ranking.top(4, output="virginica") == ranking.names(output=2)
    with pytest.raises(cs.InvalidArgumentError, match=r"one of \['setosa', 'versicolor', 'virginica'\].*got 'rose'"):
        ranking.describe(0, output="rose")


def test_rankings_of_many_outputs_stay_short():
    background = np.random.default_rng(0).normal(size=(20, 3))
    found = cs.Explainer(lambda rows: rows[:, [0] * 13], background)(background[:1], budget=400, rng=0)
    lines = repr(found.ranking()).splitlines()
    assert (len(lines), lines[-1]) == (12, "  row 0: 3 outputs more")


def test_rankings_of_pairs_take_outputs_by_name():
    background = np.random.default_rng(0).normal(size=(20, 4))
    explainer = cs.Explainer(lambda rows: rows[:, :2] * rows[:, 1:3], background)
    found = explainer(background[:1], budget=400, rng=0, interactions=2)
    pairs = replace(found, output_names=("first", "second")).interactions.ranking()
    assert pairs.top(1, output="second") == pairs.top(1, output=1) != pairs.top(1, output="first")


def test_no_rows_are_no_mistake():
    nothing = explained(SCORES)[:0]
    assert repr(nothing).startswith("Explanation of 0 rows")
    assert "<table" in nothing._repr_html_()
    assert nothing.check().looks_right is None
    for refused in (
        nothing.summary,
        nothing.plot.beeswarm,
        lambda: nothing.plot.dependence(0),
        nothing.ranking().names,
    ):
        with pytest.raises(cs.InvalidArgumentError, match="no rows"):
            refused()


@pytest.mark.parametrize("call", [{"interactions": 2}, {"guarantee": "finite", "output_range": (-1, 1)}], ids=str)
def test_no_rows_have_rankings(call):
    background = np.random.default_rng(0).normal(size=(20, 6))
    explainer = cs.Explainer(lambda rows: np.tanh(rows[:, 0] * rows[:, 1]), background)
    nothing = explainer(background[:2], budget=200, rng=0, **call)[:0]
    assert nothing.ranking().order.shape == (0, 6)
    if "interactions" in call:
        assert nothing.interactions.ranking().order.shape == (0, 15)


def test_a_classifier_of_several_targets_gets_the_way_out():
    several = MultiOutputClassifier(LogisticRegression(max_iter=5000)).fit(X, np.column_stack([Y, 1 - Y]))
    with pytest.raises(cs.InvalidArgumentError, match=r"2 targets at once.*predict_proba\(rows\)\[0\]"):
        cs.Explainer(several, X[:30])


def test_a_plan_a_surrogate_and_pairs_are_shown():
    def model(rows):
        return np.tanh(rows[:, 0] * rows[:, 1] + rows.sum(axis=1))

    background = np.random.default_rng(0).normal(size=(40, 8))
    explainer = cs.Explainer(model, background)
    assert "surrogate" not in repr(explainer)
    explainer.fit_surrogate(background, budget=300, rng=0)
    assert "fitted to 300 evaluations" in repr(explainer)
    evaluations, time = str(explainer.plan(background, budget=400)).splitlines()[-2:]
    assert evaluations.endswith("; 16,000 for 40 rows")
    assert time.startswith("time        not known: Explainer(..., seconds_per_evaluation=...)")
    found = explainer(background[:4], budget=400, rng=0, interactions=2).interactions
    frame = found.to_frame().query("row == 0")
    first = frame.loc[frame["interaction"].abs().idxmax()]
    lines = repr(found).splitlines()
    assert lines[0] == "Interactions of 28 pairs of players in 4 rows: model output"
    assert lines[1].startswith(f"  row 0: {first['feature']} × {first['partner']} ")
    assert lines[-2:] == ["  and 1 row more", "± is half a 95 % interval"]
    assert repr(cs.KernelExplainer(model, background)) == ("KernelExplainer of model: 40 background rows, 8 players")


def test_few_units_are_said_aloud():
    explainer = cs.Explainer(
        lambda rows: 1000 * np.tanh(rows.sum(axis=1)), np.random.default_rng(0).normal(size=(30, 8))
    )
    row = np.ones((1, 8))
    assert repr(explainer(row, budget=40, rng=0)).splitlines()[-1] == (
        "Rough errors: 5 units a row; budget=150 gives 20 units a row"
    )
    told = repr(explainer(row, budget=20, rng=0)).splitlines()[-1]
    assert told.startswith("Not reliable: 8 of 8 values rest on too few units, and so do their errors; budget=")
    assert "units a row" not in repr(explainer(row, budget=300, rng=0))  # negative control


def test_the_least_certain_rows():
    rows = np.random.default_rng(0).normal(size=(6, 8))
    found = cs.Explainer(lambda rows: np.tanh(rows.sum(axis=1) * rows[:, 0]), rows)(rows, budget=300, rng=0)
    largest = found.standard_errors.max(axis=1)
    chosen = found.least_certain(2)
    assert chosen.row_numbers.tolist() == np.argsort(-largest)[:2].tolist()
    assert len(found.least_certain()) == 6
    with pytest.raises(cs.InvalidArgumentError, match="`n` must be"):
        found.least_certain(0)
