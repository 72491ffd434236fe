"""Controls of a user's own: subclasses of `Control`, prepared for a row or fitted to what was sampled."""

from dataclasses import dataclass

import numpy as np
import pytest
from calibration_cases import check_nothing_seen
from conftest import make_data

import controlshap as cs
from controlshap.controls import Control, PreparedControl
from controlshap.functions.base import KnownFunction
from controlshap.functions.polynomial import Quadratic
from controlshap.statistics.control_variate import KnownValues
from controlshap.testing import marginal_game, shapley_by_definition

DATA = make_data()
WEIGHTS = np.array([1.0, -2.0, 0.5, 1.5, 0.7, -0.3, 0.2])


def model(rows):
    return rows @ WEIGHTS + 0.3 * rows[:, 0] * rows[:, 1] * rows[:, 2]


@dataclass(frozen=True)
class Cubic(KnownFunction):
    """A multiple of `r_0 r_1 r_2`, by the definition."""

    size: float

    def predict(self, rows):
        return self.size * rows[:, 0] * rows[:, 1] * rows[:, 2]

    def draw_values(self, x, draws, players):
        games = (marginal_game(self.predict, x, draw[None], players.columns) for draw in draws)
        return np.stack([shapley_by_definition(game, players.n_players)[:, 0] for game in games])


@dataclass(frozen=True)
class FittedCubic(Control):
    """The multiple by least squares."""

    is_fitted = True

    def fit(self, data, fold):
        keep = data.others(fold)
        rows, outputs = data.rows[keep], data.outputs[keep]
        part = rows[:, 0] * rows[:, 1] * rows[:, 2]
        design = np.column_stack([part, rows, np.ones(len(rows))])
        return Cubic(float(np.linalg.lstsq(design, outputs, rcond=None)[0][0]))


class Linear(Control):
    """The linear part, known before sampling."""

    def prepare(self, context):
        function = Quadratic(0.0, WEIGHTS)
        values = function.mean_values(context.x, context.background, context.players)
        base = function.predict(context.background).mean()
        known = KnownValues.exact(np.append(values, base)[:, None, None])
        return PreparedControl(lambda rows: function.predict(rows)[:, None], known)


# Walks over a complete pass know the linear part, and it is most of the error of single coalitions.
@pytest.mark.parametrize(
    ("estimator", "control"),
    [
        ("permutation", FittedCubic()),
        ("kernel", Linear()),
        ("permutation", [Linear(), FittedCubic()]),
        ("kernel", [Linear(), FittedCubic()]),
    ],
    ids=["fitted", "prepared", "both, walks", "both, coalitions"],
)
def test_a_control_of_ones_own_lowers_the_error_and_keeps_it_honest(estimator, control):
    explainer = cs.Explainer(model, DATA.background, groups=DATA.groups, estimator=estimator, control=control)
    found = explainer(DATA.x, budget=800, rng=0)
    truth = shapley_by_definition(marginal_game(model, DATA.x, DATA.background, DATA.columns), len(DATA.columns))[:, 0]
    assert found.standard_errors.max() < 0.9 * found.uncontrolled_standard_errors.max()
    varied = found.standard_errors[0] > 1e-9
    z = (found.values[0] - truth)[varied] / found.standard_errors[0][varied]
    assert np.abs(z).max(initial=0.0) < 5.5
    if isinstance(control, list):
        check_nothing_seen(found.standard_errors[0])  # together they are the model
    assert found.n_evaluations[0] <= 800


def test_a_fitted_control_of_ones_own_is_shared():
    explainer = cs.Explainer(model, DATA.background, groups=DATA.groups, estimator="permutation")
    explainer.fit_surrogate(DATA.background, budget=400, learner=FittedCubic(), rng=0)
    assert "SharedSurrogate" in explainer(DATA.x, budget=400, rng=0).method[0]
    with pytest.raises(cs.InvalidArgumentError, match="`learner` must be"):
        explainer.fit_surrogate(DATA.background, learner=Linear())


def test_what_a_control_does_not_do_is_named():
    with pytest.raises(NotImplementedError, match="Linear is not fitted to evaluated rows"):
        Linear().fit(None, None)
    with pytest.raises(NotImplementedError, match="FittedCubic is not prepared"):
        FittedCubic().prepare(None)
    with pytest.raises(cs.InvalidArgumentError, match="`control` must be a name or an object"):
        cs.Explainer(model, DATA.background, control=object())
