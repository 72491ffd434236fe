"""Derivatives: closed forms, automatic ones, the user's own, and differences at rows that the model could see."""

import numpy as np
import pytest
import torch
from calibration_cases import check_nothing_seen
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

import controlshap as cs
from controlshap.controls.taylor import choose_derivatives
from controlshap.data.players import resolve_players
from controlshap.models.derivatives.base import Point, UserDerivatives
from controlshap.models.derivatives.finite_differences import FiniteDifferences

RNG = np.random.default_rng(11)
TRAIN = RNG.normal(size=(80, 3))
LABEL = (TRAIN @ [1.0, -1.0, 0.5] + RNG.normal(size=80) > 0).astype(int) + (TRAIN[:, 2] > 0.8)


def make_point(model, x, background, groups=None, budget=10_000):
    """A point, and the list of the rows that are evaluated there."""
    seen = []

    def evaluate(rows):
        seen.append(rows.copy())
        return np.asarray(model(rows), dtype=float).reshape(len(rows), -1)

    players = resolve_players(groups, [f"x{i}" for i in range(len(x))])
    at_x = np.asarray(model(x[None]), dtype=float).reshape(-1)
    return Point(x, at_x, background, players, evaluate, budget), seen


def numerical(function, x, h=1e-5):
    """Central differences of `x -> (outputs, ...)`, the new axis last."""
    steps = np.eye(len(x)) * h
    return np.stack([(function(x + step) - function(x - step)) / (2 * h) for step in steps], axis=-1)


CLOSED = {
    "logistic": (LogisticRegression().fit(TRAIN, LABEL > 0), lambda m, rows: m.predict_proba(rows)[:, 1:]),
    "softmax": (LogisticRegression().fit(TRAIN, LABEL), lambda m, rows: m.predict_proba(rows)),
    "linear": (LinearRegression().fit(TRAIN, TRAIN[:, :2]), lambda m, rows: m.predict(rows)),
    "ridge": (Ridge().fit(TRAIN, TRAIN[:, 0]), lambda m, rows: m.predict(rows)[:, None]),
}


@pytest.mark.parametrize(("model", "predict"), CLOSED.values(), ids=CLOSED.keys())
def test_closed_forms_agree_with_small_differences_and_cost_nothing(model, predict):
    x = np.array([0.3, -0.7, 0.4])
    point, seen = make_point(lambda rows: predict(model, rows), x, TRAIN)
    source = choose_derivatives(model)
    found = source.at(point, second=True)
    gradient = numerical(lambda row: predict(model, row[None])[0], x)
    np.testing.assert_allclose(found.gradient, gradient, atol=1e-6)

    def closed_gradient(row):
        return source.at(make_point(lambda rows: predict(model, rows), row, TRAIN)[0], second=False).gradient

    # The gradient has just been checked: its own differences are sharper than second ones of the model.
    np.testing.assert_allclose(found.hessian, numerical(closed_gradient, x), atol=1e-6)
    assert source.at(point, second=False).hessian is None
    assert source.cost(TRAIN, point.players, 100, second=True) == 0
    assert seen == []


def test_models_without_a_closed_form_get_differences():
    several_against_the_rest = LogisticRegression(solver="liblinear").fit(TRAIN, LABEL > 0)
    assert not isinstance(choose_derivatives(several_against_the_rest), FiniteDifferences)
    # Its probabilities with several classes would be no softmax.
    several_against_the_rest.coef_ = np.ones((3, 3))
    several_against_the_rest.intercept_ = np.zeros(3)
    assert isinstance(choose_derivatives(several_against_the_rest), FiniteDifferences)
    assert isinstance(choose_derivatives(lambda rows: rows[:, 0]), FiniteDifferences)
    assert isinstance(choose_derivatives(LogisticRegression()), FiniteDifferences)  # not fitted


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_automatic_derivatives_agree_with_the_formula_of_a_tanh_net(n_outputs):
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, n_outputs)).double()
    first, second = (layer.weight.detach().numpy() for layer in (module[0], module[2]))
    x = np.array([0.3, -0.7, 0.4])
    hidden = np.tanh(first @ x + module[0].bias.detach().numpy())
    slope = 1.0 - hidden**2
    point, seen = make_point(lambda rows: module(torch.tensor(rows)).detach().numpy(), x, TRAIN)
    found = choose_derivatives(module).at(point, second=True)
    np.testing.assert_allclose(found.gradient, (second * slope) @ first, atol=1e-5)
    bend = np.einsum("oh,hc,hd->ocd", second * (-2.0 * hidden * slope), first, first)
    np.testing.assert_allclose(found.hessian, bend, atol=1e-5)
    assert seen == []


LINEAR = RNG.normal(size=(2, 4))
BENDS = RNG.normal(size=(2, 4, 4))
BENDS = BENDS + BENDS.transpose(0, 2, 1)
NUMERIC = RNG.normal(size=(30, 4)) * [1.0, 3.0, 0.2, 10.0]


def quadratic(rows):
    return rows @ LINEAR.T + 0.5 * np.einsum("nc,ocd,nd->no", rows, BENDS, rows) + 1.0


@pytest.mark.parametrize("step", [0.5, 1.0, 2.0])
def test_differences_are_exact_on_quadratics_whatever_the_step(step):
    x = np.array([0.4, -1.0, 0.1, 5.0])
    point, seen = make_point(quadratic, x, NUMERIC)
    source = FiniteDifferences(step=step)
    found = source.at(point, second=True)
    np.testing.assert_allclose(found.gradient, LINEAR + BENDS @ x, atol=1e-9)
    np.testing.assert_allclose(found.hessian, BENDS, atol=1e-9)
    (rows,) = seen
    assert len(rows) == source.cost(NUMERIC, point.players, 10_000, second=True) == 8 + 2 * 6
    moved = np.unique(np.round(np.abs(rows - x) / NUMERIC.std(axis=0), 9))
    np.testing.assert_allclose(moved, [0.0, step])
    only_first = source.at(make_point(quadratic, x, NUMERIC)[0], second=False)
    np.testing.assert_allclose(only_first.gradient, found.gradient, atol=1e-12)
    assert only_first.hessian is None


# Columns: a block of three levels, a column of the two values 2 and 5, a numeric one, a constant.
MIXED = np.column_stack(
    [
        np.eye(3)[np.arange(24) % 3],
        np.where(np.arange(24) % 4 == 0, 2.0, 5.0),
        RNG.normal(size=24) * 2.0,
        np.full(24, 7.0),
    ]
)
BLOCK = [[0, 1, 2]]
WEIGHTS = RNG.normal(size=(2, 6))
PRODUCTS = RNG.normal(size=(2, 3, 2))  # levels times the binary and the numeric column
TOGETHER = np.array([0.7, -1.3])


def bilinear_in_blocks(rows):
    """Linear in each of block, binary and numeric column; all products between them."""
    cross = np.einsum("nl,olk,nk->no", rows[:, :3], PRODUCTS, rows[:, 3:5])
    return rows @ WEIGHTS.T + cross + rows[:, 3:4] * rows[:, 4:5] * TOGETHER


def test_a_block_moves_as_a_whole_and_a_binary_column_to_its_other_value():
    x = np.array([0.0, 1.0, 0.0, 5.0, 0.3, 7.0])
    point, _ = make_point(bilinear_in_blocks, x, MIXED, BLOCK)
    found = FiniteDifferences().at(point, second=True)
    at_x = bilinear_in_blocks(x[None])[0]
    for level in (0, 2):
        other = x.copy()
        other[[1, level]] = 0.0, 1.0
        np.testing.assert_allclose(found.gradient[:, level], bilinear_in_blocks(other[None])[0] - at_x, atol=1e-12)
    np.testing.assert_array_equal(found.gradient[:, 1], 0.0)
    swapped = np.where(np.arange(6) == 3, 2.0, x)
    np.testing.assert_allclose(found.gradient[:, 3], (bilinear_in_blocks(swapped[None])[0] - at_x) / (2.0 - 5.0))
    np.testing.assert_array_equal(found.gradient[:, 5], 0.0)  # x has the constant's value


def test_second_differences_are_taken_across_blocks_only_and_are_exact_there():
    x = np.array([0.0, 1.0, 0.0, 5.0, 0.3, 7.0])
    found = FiniteDifferences().at(make_point(bilinear_in_blocks, x, MIXED, BLOCK)[0], second=True)
    np.testing.assert_array_equal(found.hessian[:, :3, :3], 0.0)
    np.testing.assert_allclose(found.hessian, found.hessian.transpose(0, 2, 1))
    for level in (0, 2):
        # What a level adds to the slope of another column, compared with the present level.
        np.testing.assert_allclose(found.hessian[:, level, 3:5], PRODUCTS[:, level] - PRODUCTS[:, 1], atol=1e-10)
    np.testing.assert_array_equal(found.hessian[:, 1], 0.0)
    np.testing.assert_allclose(found.hessian[:, 3, 4], TOGETHER, atol=1e-10)
    np.testing.assert_allclose(np.einsum("occ->oc", found.hessian), 0.0, atol=1e-10)


UNUSUAL = {
    "ordinary": [0.0, 0.0, 1.0, 2.0, 0.3, 7.0],
    "constant differs": [1.0, 0.0, 0.0, 5.0, 0.3, 9.0],
    "unknown level": [0.0, 0.0, 0.0, 5.0, 0.3, 9.0],
    "binary between": [1.0, 0.0, 0.0, 2.5, 0.3, 7.0],
}


@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("x", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_every_evaluated_row_is_one_that_the_model_could_see_and_none_is_uncounted(x, second):
    point, seen = make_point(bilinear_in_blocks, np.array(x), MIXED, BLOCK)
    source = FiniteDifferences()
    source.at(point, second=second)
    (rows,) = seen
    assert len(np.unique(rows, axis=0)) == len(rows) <= source.cost(MIXED, point.players, 10_000, second=second)
    assert np.isin(rows[:, :3], (0.0, 1.0)).all()
    assert (rows[:, :3].sum(axis=1) == sum(x[:3])).all()
    assert np.isin(rows[:, 3], (2.0, 5.0, x[3])).all()
    assert np.isin(rows[:, 5], (7.0, x[5])).all()


@pytest.mark.parametrize("features", ["independent", "correlated"])
@pytest.mark.filterwarnings("ignore::controlshap.SingularCovarianceWarning")  # the block is singular, on purpose
def test_the_evaluations_of_differences_are_charged_to_the_row(features):
    counted = []

    def model(rows):
        counted.append(len(rows))
        return bilinear_in_blocks(rows)

    x = np.array([0.0, 1.0, 0.0, 5.0, 0.3, 7.0])
    settings = {"features": features, "groups": {"level": [0, 1, 2]}, "estimator": "permutation"}
    explainer = cs.Explainer(model, MIXED, control="taylor", **settings)
    explanation = explainer(x, budget=300, rng=0)
    assert explanation.n_evaluations[0] == sum(counted) - explainer.n_background_evaluations <= 300
    assert explanation.method.tolist() == ["Permutation + Taylor"]


def test_second_differences_above_a_fifth_of_the_budget_are_left_out_with_a_warning():
    x = np.array([0.4, -1.0, 0.1, 5.0])
    source = FiniteDifferences()
    point, seen = make_point(quadratic, x, NUMERIC, budget=59)  # 12 of 59 is more than a fifth
    with pytest.warns(cs.WeakControlWarning, match=r"cost 12 of 59 evaluations.*diagonal alone.*Raise `budget`"):
        found = source.at(point, second=True)
    np.testing.assert_allclose(found.hessian, np.einsum("occ->oc", BENDS), atol=1e-9)
    assert len(seen[0]) == source.cost(NUMERIC, point.players, 59, second=True) == 8
    # At exactly a fifth they are taken; and asked for by name they always are, or never, without a warning.
    assert source.at(make_point(quadratic, x, NUMERIC, budget=60)[0], second=True).hessian.ndim == 3
    small, _ = make_point(quadratic, x, NUMERIC, budget=1)
    assert FiniteDifferences(cross=True).at(small, second=True).hessian.ndim == 3
    assert FiniteDifferences(cross=False).at(small, second=True).hessian.ndim == 2


def test_a_diagonal_control_says_so_to_the_user():
    background = np.random.default_rng(0).normal(size=(40, 8))
    with pytest.warns(cs.WeakControlWarning, match="diagonal alone"):
        cs.explain(
            lambda rows: np.tanh(rows.sum(axis=1)), background[0], background, control="taylor", budget=200, rng=0
        )


def test_the_users_own_derivatives_are_used_and_cost_nothing():
    taylor = cs.Taylor(gradient=lambda x: LINEAR + BENDS @ x, hessian=lambda x: BENDS)
    settings = {"estimator": "kernel", "budget": 400, "rng": 0}
    explanation = cs.explain(quadratic, NUMERIC[:2], NUMERIC, control=taylor, **settings)
    plain = cs.explain(quadratic, NUMERIC[:2], NUMERIC, control="none", **settings)
    # A quadratic model is its own Taylor polynomial.
    check_nothing_seen(explanation.standard_errors[0])
    assert np.ptp(plain.standard_errors[0]) > 1e-3
    np.testing.assert_array_equal(explanation.n_evaluations, plain.n_evaluations)


SHAPES = {
    "gradient": (lambda x: np.ones(3), lambda x: BENDS, r"`gradient` must return shape \(2, 4\); got \(3,\)"),
    "hessian": (lambda x: LINEAR, lambda x: np.eye(4), r"`hessian` must return shape \(2, 4, 4\); got \(4, 4\)"),
    "NaN": (lambda x: LINEAR * np.nan, lambda x: BENDS, r"`gradient` returned NaN or infinite.*must be finite"),
    "none": (lambda x: LINEAR, None, r"needs `hessian` too for independent features.*Pass hessian="),
}


@pytest.mark.parametrize(("gradient", "hessian", "message"), SHAPES.values(), ids=SHAPES.keys())
def test_the_users_own_derivatives_are_checked(gradient, hessian, message):
    explainer = cs.Explainer(
        quadratic, NUMERIC, estimator="kernel", control=cs.Taylor(gradient=gradient, hessian=hessian)
    )
    with pytest.raises(cs.InvalidArgumentError, match=message):
        explainer(NUMERIC[:1], budget=200, rng=0)


def test_a_single_output_may_leave_its_axis_out_and_correlated_features_need_no_hessian():
    point, _ = make_point(lambda rows: quadratic(rows)[:, 0], NUMERIC[0], NUMERIC)
    found = UserDerivatives(lambda x: LINEAR[0], lambda x: BENDS[0]).at(point, second=True)
    assert (found.gradient.shape, found.hessian.shape) == ((1, 4), (1, 4, 4))
    assert UserDerivatives(lambda x: LINEAR[0]).at(point, second=False).hessian is None


def test_only_the_symmetric_part_of_a_hessian_counts():
    upper = np.triu(np.random.default_rng(1).normal(size=(4, 4)))
    controls = [
        cs.Taylor(gradient=lambda row: LINEAR[0], hessian=lambda row, h=h: h) for h in (upper, 0.5 * (upper + upper.T))
    ]
    given, symmetric = (
        cs.explain(
            lambda rows: np.tanh(quadratic(rows)[:, 0]), NUMERIC[:2], NUMERIC, estimator="kernel", control=control,
            budget=300, rng=0,
        )
        for control in controls
    )  # fmt: skip
    np.testing.assert_allclose(given.values, symmetric.values, atol=1e-12)
