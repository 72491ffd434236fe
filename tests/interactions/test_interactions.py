"""`interactions=2`: exact where it should be, no further evaluation, honest errors, tables, storage, errors."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import controlshap as cs
from controlshap.interactions import estimate
from controlshap.statistics.certainty import top_ratio
from controlshap.testing import interactions_by_definition, marginal_game

RNG = np.random.default_rng(11)
X = RNG.normal(size=(300, 7)).round(1)
Y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) * X[:, 3] + X[:, 4]
BACKGROUND, ROWS = X[:30], X[200:202]
WEIGHTS = RNG.normal(size=(7, 5)) / 2


def network(rows):
    return np.tanh(rows @ WEIGHTS) @ np.array([1.0, -2.0, 1.5, 1.0, -1.0])


def two_outputs(rows):
    return np.stack([network(rows), rows[:, 0] * rows[:, 1] * rows[:, 2]], axis=1)


def exact_index(model, row, columns=None, background=BACKGROUND):
    columns = columns or [[i] for i in range(background.shape[1])]
    index = interactions_by_definition(marginal_game(model, row, background, columns), len(columns))
    return index[..., 0] if index.shape[2] == 1 else index


TRUTH = exact_index(network, ROWS[0])
GROUPED = [[0, 1], [2, 3], [4], [5, 6]]
EXACT = {
    "all coalitions": (network, network, None, 10_000),
    "two outputs": (two_outputs, two_outputs, None, 10_000),
    "groups": (network, network, GROUPED, 10_000),
    "linear": (LinearRegression().fit(X, Y), None, None, 50),
    "logistic": (LogisticRegression().fit(X, Y > 0), None, None, 50),
    "forest": (RandomForestRegressor(10, random_state=0).fit(X, Y), None, None, 50),
    "forest, groups": (RandomForestRegressor(10, random_state=0).fit(X, Y), None, GROUPED, 50),
    "classes": (RandomForestClassifier(5, random_state=0).fit(X, np.digitize(Y, [-1, 1])), None, None, 50),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_interactions_are_those_of_the_definition(name):
    model, function, groups, budget = EXACT[name]
    explanation = cs.Explainer(model, BACKGROUND, groups=groups)(ROWS, budget=budget, interactions=2, rng=0)
    found = explanation.interactions
    if function is None:
        function = getattr(model, "predict_proba", model.predict)
    for row in range(2):
        expected = exact_index(function, ROWS[row], groups)
        if name == "logistic":
            expected = expected[..., 1]
        assert_allclose(found.index[row], expected, atol=1e-9)
    assert_array_equal(found.standard_errors, 0.0)
    assert_allclose(found.values.sum(axis=2), explanation.values, atol=1e-9)
    prediction = found.values.sum(axis=(1, 2)) + explanation.base_values
    assert_allclose(prediction, explanation.values.sum(axis=1) + explanation.base_values, atol=1e-9)


SAMPLED = {
    "walks": ({"estimator": "permutation"}, 600),
    "single walks": ({"estimator": cs.Permutation(paired=False), "control": "none"}, 600),
    "kernel": ({"estimator": "kernel"}, 600),
    "whole background": ({"estimator": cs.Kernel(n_draws=30, reuse=True)}, 1500),
    "no control": ({"estimator": "permutation", "control": "none"}, 600),
    "several controls": ({"estimator": "permutation", "control": ["ridge", "polynomial"]}, 600),
    "taylor": ({"estimator": "permutation", "control": "taylor"}, 900),
    "random rows": ({"features": cs.Marginal(replace=True), "estimator": "permutation"}, 600),
    "groups": ({"estimator": "permutation", "groups": [[0, 1], [2, 3], [4], [5, 6]]}, 600),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_interactions_cost_nothing_and_change_nothing(name):
    settings, budget = SAMPLED[name]
    count = [0]

    def counted(rows):
        count[0] += len(rows)
        return network(rows)

    explainer = cs.Explainer(counted, BACKGROUND, **settings)
    plain = explainer(ROWS, budget=budget, rng=1)
    before = count[0]
    explanation = explainer(ROWS, budget=budget, interactions=2, rng=1)
    assert count[0] - before == plain.n_evaluations.sum() == explanation.n_evaluations.sum()
    assert_array_equal(explanation.values, plain.values)
    assert_array_equal(explanation.standard_errors, plain.standard_errors)
    found = explanation.interactions
    assert_allclose(found.values.sum(axis=2), explanation.values, atol=1e-9)
    assert_array_equal(found.index, found.index.swapaxes(1, 2))
    off = ~np.eye(found.index.shape[1], dtype=bool)
    assert (found.standard_errors[:, off] > 0).all()
    assert np.isfinite(found.index).all()


def test_auto_takes_whole_backgrounds_earlier_and_goes_on_with_them():
    explainer = cs.Explainer(network, X[:5])
    plain, asked = explainer.plan(budget=120 - 1 + 200), explainer.plan(budget=120 - 1 + 200, interactions=2)
    assert type(plain.estimator).__name__ == "Permutation"
    assert asked.estimator == cs.Kernel(n_draws=5, reuse=True)
    short = explainer(ROWS, budget=319, interactions=2, rng=0, keep=True)
    longer = explainer.refine(short, budget=100)
    assert (longer.n_evaluations > short.n_evaluations).all()
    assert (longer.method == short.method).all()


@pytest.mark.seconds
def test_other_processes_find_the_same():
    explainer = cs.Explainer(network, BACKGROUND, estimator="permutation")
    here, there = (explainer(ROWS, budget=400, interactions=2, rng=1, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert_array_equal(here.interactions.index, there.interactions.index)


def coverage(settings, budget, n_runs, seed, shrink=1.0):
    explainer = cs.Explainer(network, BACKGROUND, **settings)
    first, second = np.triu_indices(7, 1)
    covered, biases, errors = [], [], []
    for run in range(n_runs):
        found = explainer(ROWS[:1], budget=budget, interactions=2, rng=1000 * seed + run).interactions
        low, high = found.confidence_interval(0.95)
        middle, reach = 0.5 * (low + high), 0.5 * shrink * (high - low)
        covered.append((np.abs(middle - TRUTH) <= reach)[0, first, second])
        biases.append((found.index[0] - TRUTH)[first, second])
        errors.append(found.standard_errors[0, first, second])
    return np.array(covered), np.array(biases), np.array(errors)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["walks", "kernel", "whole background", "no control"])
def test_intervals_cover(name, global_seed):
    settings, budget = SAMPLED[name]
    covered, differences, errors = coverage(settings, budget, n_runs=40, seed=global_seed)
    # Pairs of one run hang together; runs do not. At worst all 21 pairs are as one: a share of 40 runs.
    least = binom.ppf(1e-4, 40, 0.93) / 40
    assert covered.mean() >= least
    spread = np.sqrt((differences**2).mean())
    reported = np.sqrt((errors**2).mean())
    # the allowance for one more jump doubles a variance that rests on one; 40 runs know a spread to a few tenths
    assert 0.7 < reported / spread < 1.4 * np.sqrt(2.0)
    # no bias: means over runs within 5 standard errors of 0, for all 21 pairs
    z = differences.mean(axis=0) / (differences.std(axis=0, ddof=1) / np.sqrt(40))
    assert np.abs(z).max() < 5.5
    # negative control: intervals of a third of the width do not
    third, _, _ = coverage(settings, budget, n_runs=10, seed=global_seed, shrink=1.0 / 3.0)
    assert third.mean() < least


def test_a_control_that_knows_the_model_leaves_no_error():
    def logistic(rows):
        return 1.0 / (1.0 + np.exp(-(0.3 + rows @ WEIGHTS[:, 0])))

    expected = exact_index(logistic, ROWS[0])
    explainer = cs.Explainer(logistic, BACKGROUND, estimator="permutation", control="ridge")
    found = explainer(ROWS[:1], budget=1200, interactions=2, rng=0).interactions
    plain = cs.Explainer(logistic, BACKGROUND, estimator="permutation", control="none")
    without = plain(ROWS[:1], budget=1200, interactions=2, rng=0).interactions
    assert_allclose(found.index[0], expected, atol=6 * found.standard_errors.max())
    assert found.standard_errors.max() < 0.05 * without.standard_errors.max()


EXPLAINED = cs.Explainer(two_outputs, BACKGROUND, estimator="permutation")(ROWS, budget=600, interactions=2, rng=3)


def test_rows_outputs_and_storage_keep_interactions(tmp_path):
    index = EXPLAINED.interactions.index
    assert index.shape == (2, 7, 7, 2)
    assert_array_equal(EXPLAINED[1].interactions.index, index[1:])
    assert_array_equal(EXPLAINED.output(1).interactions.index, index[..., 1])
    joined = cs.Explanation.concat([EXPLAINED[0], EXPLAINED[1]])
    assert_array_equal(joined.interactions.index, index)
    loaded = cs.load(EXPLAINED.save(tmp_path / "result"))
    assert_array_equal(loaded.interactions.standard_errors, EXPLAINED.interactions.standard_errors)


def test_results_without_interactions_are_read_as_before(tmp_path):
    plain = cs.Explainer(network, BACKGROUND)(ROWS, budget=600, rng=0)
    loaded = cs.load(plain.save(tmp_path / "result"))
    with pytest.raises(cs.InvalidArgumentError, match="interactions=2"):
        loaded.interactions  # noqa: B018


def test_refinements_keep_interactions():
    explainer = cs.Explainer(network, BACKGROUND, estimator="permutation")
    short = explainer(ROWS, budget=400, interactions=2, rng=0)
    longer = explainer.refine(short, budget=400)
    whole = explainer(ROWS, budget=int(longer.n_evaluations[0]), interactions=2, rng=0)
    # other folds at another length aside, the same units
    assert longer.interactions.standard_errors.max() < 1.05 * short.interactions.standard_errors.max()
    assert_allclose(
        longer.interactions.index, whole.interactions.index, atol=4 * whole.interactions.standard_errors.max()
    )
    plain = explainer(ROWS, budget=400, rng=0)
    with pytest.raises(cs.InvalidArgumentError, match="made without"):
        explainer.refine(plain, budget=400, interactions=2)


def test_data_sets_keep_interactions(tmp_path):
    explainer = cs.Explainer(network, BACKGROUND, estimator="permutation")
    explainer.explain_dataset(X[200:205], tmp_path / "out", budget=400, interactions=2, rng=2, part_rows=2)
    loaded = cs.load(tmp_path / "out")
    whole = explainer(X[200:205], budget=400, interactions=2, rng=2)
    assert_array_equal(loaded.interactions.index, whole.interactions.index)
    explainer.explain_dataset(X[200:203], tmp_path / "plain", budget=400, rng=2)
    assert cs.load(tmp_path / "plain").interaction_indices is None


def test_tables_and_rankings():
    found = EXPLAINED.interactions
    frame = found.to_frame()
    assert list(frame.columns) == [
        "row",
        "feature",
        "partner",
        "output",
        "interaction",
        "standard_error",
        "low",
        "high",
    ]
    assert len(frame) == 2 * 21 * 2
    line = frame[(frame.row == 1) & (frame.feature == "x0") & (frame.partner == "x2") & (frame.output == "1")]
    assert line.interaction.item() == found.index[1, 0, 2, 1]
    top = found.top(4, row=1, output=1)
    assert len(top) == 4
    assert (np.diff(np.abs(top.interaction)) <= 0).all()
    low, high = found.confidence_interval(simultaneous=True)
    one_low, one_high = found.confidence_interval()
    off = ~np.eye(7, dtype=bool)
    assert (high - low)[:, off].min() > 0
    assert ((high - low) >= (one_high - one_low)).all()
    assert "21 pairs" in repr(found)
    assert len(found) == 2


def test_certificates_are_read_off_simultaneous_intervals():
    values = np.array([[5.0, -3.0, 0.1]])
    made = cs.Explainer(lambda rows: rows[:, 0] * rows[:, 1], np.zeros((2, 3)))(np.ones((1, 3)), interactions=2)

    def ranking(errors):
        fields = {"interaction_indices": values, "interaction_standard_errors": np.array([errors])}
        fields["interaction_degrees_of_freedom"] = np.full((1, 3), np.inf)
        return dataclasses.replace(made, **fields).interactions.ranking(0.95)

    sure = ranking([0.1, 0.1, 0.1])
    assert sure.order.tolist() == [[0, 1, 2]]
    assert sure.separated.tolist() == [[True, True]]
    assert sure.signs.tolist() == [[True, True, False]]
    assert sure.top(2) == (("x0", "x1"), ("x0", "x2"))
    unsure = ranking([0.6, 0.6, 0.6])
    assert unsure.separated.tolist() == [[False, True]]
    assert unsure.top(1) is None
    assert made.interactions.top(1).feature.item() == "x0"
    with pytest.raises(cs.InvalidArgumentError, match="`k` must be"):
        sure.top(4)


def test_an_error_of_zero_certifies_nothing_before_all_rows_were_seen():
    values = np.array([[5.0, -3.0, 0.0]])
    made = cs.Explainer(lambda rows: rows[:, 0] * rows[:, 1], np.zeros((2, 3)))(np.ones((1, 3)), interactions=2)
    fields = {"interaction_indices": values, "interaction_standard_errors": np.zeros((1, 3))}
    unseen = dataclasses.replace(made, complete=np.array([False]), **fields).interactions.ranking()
    assert not unseen.separated.any()
    assert not unseen.signs.any()


def test_many_pairs_are_analysed_in_parts(monkeypatch):
    """What pairs have in common are a control's first coefficient and how many units speak of some pair."""
    whole, controlled = (
        cs.Explainer(network, BACKGROUND, estimator="permutation", control=control)(
            ROWS[:1], budget=600, interactions=2, rng=0
        ).interactions
        for control in ("none", "ridge")
    )
    monkeypatch.setattr(estimate, "MOST_TOGETHER", 8)
    for control, expected in (("none", whole), ("ridge", controlled)):
        explainer = cs.Explainer(network, BACKGROUND, estimator="permutation", control=control)
        found = explainer(ROWS[:1], budget=600, interactions=2, rng=0).interactions
        gaps = np.abs(found.index - expected.index)
        assert (gaps <= (1e-12 if control == "none" else expected.standard_errors + 1e-12)).all()
        assert_allclose(found.standard_errors, expected.standard_errors, rtol=0.5)


def test_rows_that_no_unit_drew_are_in_the_error():
    # x differs from the background in the first player in one row of 200 only: a few units never meet it
    rng = np.random.default_rng(0)
    background = rng.normal(size=(200, 6))
    background[:, 0] = 1.0
    background[0, 0] = -50.0
    row = np.ones((1, 6))
    explainer = cs.Explainer(lambda rows: rows[:, 0] * rows[:, 1], background, estimator="permutation", control="none")
    found = [explainer(row, budget=200, interactions=2, rng=seed).interactions for seed in range(5)]
    assert all((one.standard_errors[0, 0, 1:] > 0).all() for one in found)


def test_missing_values_are_explained():
    background = BACKGROUND.copy()
    background[3, 2] = np.nan
    explainer = cs.Explainer(lambda rows: network(np.nan_to_num(rows)), background, estimator="permutation")
    found = explainer(ROWS, budget=600, interactions=2, rng=0).interactions
    assert np.isfinite(found.index).all()


def test_shap_gets_its_arrays():
    shap = pytest.importorskip("shap")
    exported = EXPLAINED.output(0).interactions.to_shap()
    assert isinstance(exported, shap.Explanation)
    assert exported.values.shape == (2, 7, 7)
    assert_allclose(exported.values.sum(axis=2), EXPLAINED.output(0).values, atol=1e-9)


def plain_explainer(**settings):
    return cs.Explainer(network, BACKGROUND, **settings)


@pytest.mark.parametrize(
    ("explain", "words"),
    [
        (lambda: plain_explainer()(ROWS, interactions=3), "must be 2, for pairs of players, or None"),
        (lambda: plain_explainer()(ROWS, interactions=True), "must be 2, for pairs of players, or None"),
        (lambda: plain_explainer(groups=[list(range(7))])(ROWS, interactions=2), "one player only"),
        (lambda: plain_explainer(estimator="per_feature")(ROWS, interactions=2), "walks, KernelSHAP or all"),
        (lambda: plain_explainer()(ROWS, interactions=2, budget=3), "budget"),
        (lambda: EXPLAINED.interactions.top(0), "`k` must be"),
        (lambda: EXPLAINED.interactions.top(3, row=7, output=0), "`row` must be"),
        (lambda: EXPLAINED.interactions.top(3), "`output` is needed"),
        (lambda: EXPLAINED.interactions.ranking(1.5), "level"),
    ],
)
def test_bad_input_is_refused(explain, words):
    with pytest.raises(cs.InvalidArgumentError, match=words):
        explain()


def test_a_run_stops_when_its_largest_pairs_are_certain():
    """With walks, and with the whole background, which is taken for such a rule although the run may end early."""
    first, second = np.triu_indices(7, 1)
    sizes = np.abs(TRUTH[first, second])
    order = np.argsort(-sizes)
    k = 1 + int(np.argmax(-np.diff(sizes[order])))  # where the next one is far below
    largest = {frozenset((f"x{first[pair]}", f"x{second[pair]}")) for pair in order[:k]}
    for settings, budget in (({"estimator": "permutation"}, 400_000), ({}, 3000)):
        explainer = cs.Explainer(network, BACKGROUND, **settings)
        explanation = explainer(ROWS[:1], stop=f"top {k} interactions", budget=budget, rng=0, keep=True)
        assert explanation.status[0] == "converged"
        assert explanation.n_evaluations[0] < budget
        certified = explanation.interactions.ranking(0.95).top(k)
        assert certified is not None
        assert {frozenset(pair) for pair in certified} == largest
        assert explanation.settings["interactions"] == 2
        longer = explainer.refine(explanation, budget=1000)
        assert longer.method == explanation.method
        assert longer.n_evaluations[0] > explanation.n_evaluations[0]


@pytest.mark.parametrize(
    ("rule", "message"),
    [("top 0 interactions", "a number from 1 to 20: there are 7 players, 21 pairs"), ("top 21 interactions", "1 to 20"),
     ("signs interactions", "'top 3 interactions'"), ("top interactions", "'top 3 interactions'")],
)  # fmt: skip
def test_rules_that_no_pairs_can_meet_are_refused(rule, message):
    with pytest.raises(cs.InvalidArgumentError, match=message):
        cs.Explainer(network, BACKGROUND)(ROWS, stop=rule)


def test_the_ratio_of_top_pairs_is_that_of_their_intervals():
    values, reach = np.array([5.0, -4.0, 1.0, 0.5]), np.array([0.5, 1.0, 0.5, 0.0])
    assert_allclose(top_ratio(values, reach, 2), 1.5 / 3.0, rtol=1e-9)
    assert_allclose(top_ratio(values, reach, 1), 1.5, rtol=1e-9)
    assert top_ratio(np.array([1.0, -1.0, 0.5]), np.zeros(3), 1) == np.inf
