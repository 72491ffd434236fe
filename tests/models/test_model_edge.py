"""What a model does to its inputs and outputs stays on its side: both are copied, and outputs are real numbers."""

import datetime
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch

import controlshap as cs
from controlshap.engine import exact
from controlshap.functions.polynomial import Quadratic
from controlshap.models.model import Model, check_outputs
from controlshap.testing.oracles import marginal_game, shapley_by_definition

RNG = np.random.default_rng(0)
BACKGROUND, X = RNG.normal(size=(6, 4)), RNG.normal(size=(3, 4))
WEIGHTS = np.array([1.0, -2.0, 3.0, 0.5])


def honest(rows):
    rows = np.asarray(rows)
    return rows @ WEIGHTS + rows[:, 0] * rows[:, 1]


class SameBuffer:
    """Returns one array at every call, a view of it for smaller batches."""

    def __init__(self):
        self.buffer = np.zeros(100_000)

    def __call__(self, rows):
        self.buffer[: len(rows)] = honest(rows)
        self.buffer[len(rows) :] = np.nan
        return self.buffer[: len(rows)]


def writes_to_input(rows):
    outputs = honest(rows)
    values = rows if isinstance(rows, np.ndarray) else rows.to_numpy()
    values.flags.writeable = True
    values[:] = 1e9
    return outputs


def returns_view(rows):
    rows = np.asarray(rows)
    rows.flags.writeable = True
    rows[:, 0] = honest(rows)
    return rows[:, 0]


ODD_MODELS = {"same buffer": SameBuffer, "writes": lambda: writes_to_input, "view": lambda: returns_view}


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize("name", ODD_MODELS)
def test_odd_models_give_what_honest_ones_give(name, frame):
    background = pd.DataFrame(BACKGROUND, columns=list("abcd")) if frame else BACKGROUND
    rows = pd.DataFrame(X, columns=list("abcd")) if frame else X
    for settings in ({"budget": 2000}, {"budget": 60, "rng": 1}, {"budget": 60, "rng": 1, "control": "taylor"}):
        keys = {key: settings[key] for key in settings if key == "control"}
        call = {key: settings[key] for key in settings if key != "control"}
        ours = cs.Explainer(ODD_MODELS[name](), background, **keys)(rows, **call)
        theirs = cs.Explainer(honest, background, **keys)(rows, **call)
        np.testing.assert_allclose(ours.values, theirs.values, rtol=0, atol=1e-12)
        np.testing.assert_allclose(ours.standard_errors, theirs.standard_errors, rtol=0, atol=1e-12)


def test_same_buffer_is_exact_by_enumeration():
    values = cs.explain(SameBuffer(), X, BACKGROUND, budget=2000).values
    for row, x in enumerate(X):
        oracle = shapley_by_definition(marginal_game(honest, x, BACKGROUND, [[0], [1], [2], [3]]), 4)[:, 0]
        np.testing.assert_allclose(values[row], oracle, rtol=0, atol=1e-12)


def test_same_buffer_when_going_on():
    explainers = [cs.Explainer(model, BACKGROUND) for model in (SameBuffer(), honest)]
    short = [explainer(X, budget=40, rng=3, keep=True) for explainer in explainers]
    ours, theirs = (explainer.refine(one, budget=70) for explainer, one in zip(explainers, short, strict=True))
    np.testing.assert_allclose(ours.values, theirs.values, rtol=0, atol=1e-12)


class InPlace(torch.nn.Module):
    """Writes to its input, and returns one buffer at every call."""

    def __init__(self, odd):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1, dtype=torch.float64)
        torch.nn.init.constant_(self.linear.weight, 0.5)
        torch.nn.init.zeros_(self.linear.bias)
        self.odd, self.buffer = odd, torch.zeros(100_000, 1, dtype=torch.float64)

    def forward(self, rows):
        outputs = torch.sigmoid(self.linear(rows)) + rows[:, :1] * rows[:, 1:2]
        if not self.odd:
            return outputs
        rows.fill_(1e9)
        self.buffer[: len(rows)] = outputs
        return self.buffer[: len(rows)]


@pytest.mark.parametrize("device", [None, "cpu"])
def test_odd_modules(device):
    ours, theirs = (
        cs.Explainer(InPlace(odd), BACKGROUND, estimator="permutation", control="none")(
            X, budget=200, rng=0, device=device
        )
        for odd in (True, False)
    )
    np.testing.assert_allclose(ours.values, theirs.values, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "raw",
    [
        np.array([1 + 2j, 3]),
        np.array([1 + 0j, 3], dtype=object),
        np.array(["1.5", "2.5"]),
        np.array(["1.5", "2.5"], dtype=object),
        np.array([b"1", b"2"]),
        np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"),
        np.array([1, 2], dtype="m8[s]"),
        np.array([np.timedelta64(1, "s"), np.timedelta64(2, "s")], dtype=object),
        np.array([(1.0, 2), (3.0, 4)], dtype=[("a", float), ("b", int)]),
        [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)],
        [None, 1.0],
        np.ma.array([1.0, 2.0], mask=[False, True]),
        np.ma.array([1 + 1j, 2.0], mask=[False, True]),
        [[1.0], [2.0, 3.0]],
        torch.ones(2, requires_grad=True),
        {"a": 1},
        pytest.param(object(), id="an object"),
        [10**400, 1.0],
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("error")
def test_outputs_that_are_no_real_numbers_are_refused(raw):
    with pytest.raises(cs.ModelOutputError, match=r"must return (numbers|finite values|one value per row)"):
        check_outputs(raw, 2, None, "row 0")


@pytest.mark.parametrize("raw", [[1, 2], (True, False), np.array([Decimal("1.5"), 2], dtype=object), pd.Series([1, 2])])
def test_real_numbers_of_any_kind_are_read(raw):
    np.testing.assert_array_equal(check_outputs(raw, 2, None, "row 0")[:, 0], [float(value) for value in raw])


def test_wrong_values_of_a_form_are_not_called_exact(monkeypatch):
    """The form predicts rightly, and its values do not sum to f(x) - v(0): sampled instead."""

    def predict(rows):
        return rows @ WEIGHTS

    form = Quadratic(0.0, WEIGHTS)
    problem = cs.Explainer(predict, BACKGROUND).assembly.problem()
    assert exact.explain_exactly(problem, form, X[0], predict(X[:1])).status == "exact"
    mean_values = Quadratic.mean_values
    monkeypatch.setattr(Quadratic, "mean_values", lambda *args: 1.001 * mean_values(*args))
    with pytest.warns(cs.NotExactWarning, match="do not sum to the prediction"):
        assert exact.explain_exactly(problem, form, X[0], predict(X[:1])) is None


def test_explainers_can_be_pickled():
    explainer = pickle.loads(pickle.dumps(cs.Explainer(honest, BACKGROUND)))
    np.testing.assert_array_equal(explainer(X, rng=0).values, cs.explain(honest, X, BACKGROUND, rng=0).values)
    assert pickle.loads(pickle.dumps(Model(honest, honest))).predict is honest


def test_kernel_explainers_can_be_pickled():
    from controlshap.shap_compat.explainer import KernelExplainer

    for settings in ({}, {"link": "logit"}):
        explainer = KernelExplainer(probability, BACKGROUND, **settings)
        values = pickle.loads(pickle.dumps(explainer)).shap_values(X, nsamples=100)
        np.testing.assert_array_equal(values, explainer.shap_values(X, nsamples=100))


def probability(rows):
    return 1.0 / (1.0 + np.exp(-honest(rows)))


class SharedClasses:
    """A regressor with an empty `classes_`, as CatBoost's has."""

    classes_ = np.array([])

    def predict(self, rows):
        return honest(rows)


def test_empty_classes_are_no_classifier():
    np.testing.assert_array_equal(
        cs.explain(SharedClasses(), X, BACKGROUND, rng=0).values, cs.explain(honest, X, BACKGROUND, rng=0).values
    )
