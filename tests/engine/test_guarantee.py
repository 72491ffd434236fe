"""`guarantee="finite"`: intervals that hold for any number of units, from the call to files and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import controlshap as cs
from controlshap.testing import marginal_game, shapley_by_definition

FINITE: dict[str, Any] = {"guarantee": "finite", "output_range": (0, 1)}
RNG = np.random.default_rng(0)
BACKGROUND, ROWS = RNG.normal(size=(40, 7)), RNG.normal(size=(3, 7))
COLUMNS, WEIGHTS = [(j,) for j in range(7)], RNG.normal(size=7)


def labels(rows: Any) -> Any:
    return (rows @ WEIGHTS + rows[:, 0] * rows[:, 1] > 0.3).astype(float)


@pytest.fixture(scope="module")
def explainer() -> cs.Explainer:
    return cs.Explainer(labels, BACKGROUND)


@pytest.fixture(scope="module")
def explanation(explainer: cs.Explainer) -> cs.Explanation:
    return explainer(ROWS, budget=700, rng=0, **FINITE)


def test_intervals_hold_the_definition(explanation: cs.Explanation) -> None:
    low, high = explanation.confidence_interval(guarantee="finite", output_range=(0, 1))
    low_all, high_all = explanation.confidence_interval(guarantee="finite", simultaneous=True)
    assert (low_all <= low).all()
    assert (high <= high_all).all()
    for row, x in enumerate(ROWS):
        truth = shapley_by_definition(marginal_game(labels, x, BACKGROUND, COLUMNS), 7)[:, 0]
        assert ((low_all[row] <= truth) & (truth <= high_all[row])).all()


def test_bounds_go_where_rows_go(explanation: cs.Explanation, tmp_path: Path) -> None:
    low, _ = explanation.confidence_interval(guarantee="finite")
    both = cs.Explanation.concat([explanation[2], explanation[:2]])
    assert np.array_equal(both.confidence_interval(guarantee="finite")[0], low[[2, 0, 1]])
    explanation.save(tmp_path / "saved")
    assert np.array_equal(cs.load(tmp_path / "saved").confidence_interval(guarantee="finite")[0], low)


def test_groups_have_no_bounds_of_their_own(explanation: cs.Explanation) -> None:
    together = explanation.by_group({"first": ["x0", "x1"], "rest": [f"x{k}" for k in range(2, 7)]})
    with pytest.raises(cs.InvalidArgumentError, match="not independent"):
        together.confidence_interval(guarantee="finite")
    assert together.check().looks_right is None


def test_no_pilot_leaves_the_walks(explainer: cs.Explainer) -> None:
    assert "pilot" not in str(explainer.plan(budget=1500, **FINITE))
    assert set(explainer(ROWS, budget=3000, rng=0, **FINITE).method) == {"Permutation"}


def test_parts_keep_bounds(explainer: cs.Explainer, explanation: cs.Explanation, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    explainer.explain_dataset(ROWS, tmp_path, budget=700, rng=0, part_rows=2, progress=False, **FINITE)
    found = cs.load(tmp_path).confidence_interval(guarantee="finite", output_range=(0, 1))
    assert np.array_equal(found, explanation.confidence_interval(guarantee="finite"))


def test_refinements_narrow(explainer: cs.Explainer, explanation: cs.Explanation) -> None:
    longer = explainer.refine(explanation, budget=3000)
    (low, high), (least, most) = (one.confidence_interval(guarantee="finite") for one in (explanation, longer))
    assert (most - least).mean() < 0.7 * (high - low).mean()


def test_refinements_are_refused_a_guarantee_of_another_kind(
    explainer: cs.Explainer, explanation: cs.Explanation
) -> None:
    assert explainer.refine(explanation, budget=100, **FINITE).settings["guarantee"] == "finite"
    with pytest.raises(cs.InvalidArgumentError, match=r"was made with output_range=\(0.*, 1.*\)"):
        explainer.refine(explanation, budget=100, guarantee="finite", output_range=(0, 2))
    with pytest.raises(cs.InvalidArgumentError, match="was made without a guarantee"):
        explainer.refine(explainer(ROWS[:1], budget=200, rng=0, keep=True), budget=100, **FINITE)


def test_stop_rests_on_bounds() -> None:
    model = lambda rows: 0.9 * (rows[:, 0] > 0) + 0.1 * labels(rows)  # noqa: E731
    x = np.where(np.arange(7) == 0, 3.0, ROWS)
    found = cs.Explainer(model, BACKGROUND)(x, stop="top 1", rng=0, budget=4_900, **FINITE)
    low, high = found.confidence_interval(guarantee="finite", simultaneous=True)
    for row in np.flatnonzero(found.status == "converged"):
        first = np.abs(found.values[row]).argmax()
        others = np.delete(np.maximum(-low[row], high[row]), first)
        assert max(low[row, first], -high[row, first]) >= others.max()
    assert (found.status == "converged").any()
    assert set(found.ranking().rests_on) == {"by range"}
    assert found.ranking(0.9).rests_on[0].startswith("if no unseen jump")


def test_several_outputs_and_exact_rows(explainer: cs.Explainer) -> None:
    def two(rows: Any) -> Any:
        return np.stack([labels(rows), 1.0 - labels(rows)], axis=1)

    found = cs.Explainer(two, BACKGROUND)(ROWS[0], budget=700, rng=0, **FINITE)
    low, high = found.confidence_interval(guarantee="finite")
    assert np.allclose(low[..., 0], -high[..., 1])
    assert found.output(1).confidence_interval(guarantee="finite")[0].shape == (1, 7)
    exact = explainer(ROWS, budget=20_000, **FINITE)
    assert (exact.status == "exact").all()
    assert exact.ranking().rests_on[0] == "by enumeration"
    assert np.array_equal(exact.confidence_interval(guarantee="finite")[0], exact.values)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"guarantee": "finite"}, "needs `output_range"),
        ({"output_range": (0, 1)}, "is for guarantee='finite'"),
        ({"guarantee": "always", "output_range": (0, 1)}, "must be 'finite' or None"),
        ({"guarantee": "finite", "output_range": (1, 0)}, "two finite numbers"),
        ({"guarantee": "finite", "output_range": 1}, "two finite numbers"),
        ({"guarantee": "finite", "output_range": (0, 1), "interactions": 2}, "about values"),
    ],
)
def test_calls_that_are_refused(explainer: cs.Explainer, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(cs.InvalidArgumentError, match=words):
        explainer(ROWS, budget=700, **arguments)


@pytest.mark.parametrize("settings", [{"estimator": "kernel"}, {"control": "ridge"}, {"variance": "bootstrap"}])
def test_settings_that_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(cs.InvalidArgumentError, match=f"at 'auto'.*|{next(iter(settings))}"):
        cs.Explainer(labels, BACKGROUND, **settings)(ROWS, budget=700, **FINITE)


def test_outputs_beyond_the_range_are_errors(explainer: cs.Explainer) -> None:
    with pytest.raises(cs.ModelOutputError, match="output_range"):
        explainer(ROWS, budget=700, guarantee="finite", output_range=(0, 0.5))

    def rare(rows: Any) -> Any:  # beyond the range on mixed rows alone
        return labels(rows) + 5.0 * ((rows[:, 0] == ROWS[0, 0]) & (rows[:, 1] != ROWS[0, 1]))

    with pytest.raises(cs.ModelOutputError, match="row 0, evaluations"):
        cs.Explainer(rare, BACKGROUND)(ROWS[0], budget=700, **FINITE)


def test_intervals_that_are_refused(explainer: cs.Explainer, explanation: cs.Explanation) -> None:
    with pytest.raises(cs.InvalidArgumentError, match="not independent"):
        explainer(ROWS, budget=700, rng=0).confidence_interval(**FINITE)
    for arguments, words in (
        ({"level": 0.9}, "the bounds are those of level"),
        ({"output_range": (0, 2)}, "were explained with"),
        ({"background": True}, "as given"),
    ):
        with pytest.raises(cs.InvalidArgumentError, match=words):
            explanation.confidence_interval(guarantee="finite", **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [100, 700])
def test_coverage(explainer: cs.Explainer, budget: int, global_seed: int) -> None:
    """200 rows and 7 players: 95 % and more; a share of 95 % from 200 rows has a standard error of 1.5 points."""
    runs = explainer(np.tile(ROWS[:1], (200, 1)), budget=budget, rng=global_seed, keep=False, **FINITE)
    truth = shapley_by_definition(marginal_game(labels, ROWS[0], BACKGROUND, COLUMNS), 7)[:, 0]
    for together in (False, True):
        low, high = runs.confidence_interval(guarantee="finite", simultaneous=together)
        held = (low <= truth) & (truth <= high)
        assert (held.all(axis=1) if together else held).mean() >= 0.95 - 4 * 0.0154
