"""`explanation.check()`: quiet where errors are right, and not where they come from what was seen alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import controlshap as cs
from controlshap._types import FloatArray
from controlshap.statistics import one_more_jump
from controlshap.statistics.one_more_jump import halves_apart, helmert_contrasts

RNG = np.random.default_rng(0)
BACKGROUND, ROWS, WEIGHTS = RNG.normal(size=(60, 12)), RNG.normal(size=(120, 12)), RNG.normal(size=12)


def labels(rows: FloatArray) -> FloatArray:
    return np.asarray((rows @ WEIGHTS + rows[:, 0] * rows[:, 1] > 0.3).astype(float))


def steps_of_trees(rows: FloatArray) -> FloatArray:
    """Products of indicators, as boosting makes them: most walks see nothing of a leaf."""
    leaves = [(rows[:, k] > 0.5) & (rows[:, k + 1] > 0.0) & (rows[:, (k + 5) % 12] < 0.0) for k in range(0, 10, 2)]
    return np.asarray(sum((k - 4.0) * leaf for k, leaf in enumerate(leaves)))


def without_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors as they were: every unit is a degree of freedom, and no jump is allowed for."""

    def plain(variances, _fourth, _speaking, _fallback, n_factors, _live, _new=None):  # type: ignore[no-untyped-def]
        return np.zeros_like(variances), np.full(variances.shape, n_factors)

    monkeypatch.setattr(one_more_jump, "spread_of_jumps", plain)


def test_contrasts_have_the_squares_of_deviations() -> None:
    units, part = np.random.default_rng(0).normal(size=(9, 2, 1)), np.array([0, 1, 0, 0, 1, 1, 0, 2, 2])
    for k in range(3):
        units[part == k] -= units[part == k].mean(axis=0)
    contrasts = helmert_contrasts(units, part)
    assert contrasts.shape == (6, 2, 1)
    assert np.allclose((contrasts**2).sum(axis=0), (units**2).sum(axis=0))
    assert np.allclose(helmert_contrasts(units + part[:, None, None], part), contrasts)  # means are no part of them


def test_normal_halves_miss_each_other_as_often_as_they_say(global_seed: int) -> None:
    contrasts = np.random.default_rng(global_seed).normal(size=(60, 4001, 1))
    missed = (halves_apart(contrasts[::2], contrasts[1::2], None, None) > 1.0).mean()
    assert abs(missed - 0.04) < 0.02  # a little less than 0.05, for the jump


@pytest.mark.slow
@pytest.mark.parametrize(("model", "budget"), [(labels, 300), (steps_of_trees, 1000)])
def test_old_errors_are_flagged_and_new_ones_are_not(
    model, budget, monkeypatch: pytest.MonkeyPatch, global_seed: int
) -> None:
    explainer = cs.Explainer(model, BACKGROUND, estimator="permutation", control="none")
    found = explainer(ROWS, budget=budget, rng=global_seed, keep=False).check()
    assert found.looks_right
    assert found.missed < 0.06
    without_jumps(monkeypatch)
    old = explainer(ROWS, budget=budget, rng=global_seed, keep=False).check()
    assert old.looks_right is False
    assert "too small" in str(old)


def test_halves_go_where_rows_go(tmp_path: Path) -> None:
    explainer = cs.Explainer(labels, BACKGROUND)
    found = explainer(ROWS[:6], budget=400, rng=0)
    assert found.half_ratios is not None
    assert found.half_ratios.shape == (6, 12)
    assert found.check().n_rows == 6
    assert found[:3].check().looks_right is None  # three rows do not tell
    together = cs.Explanation.concat([found[3:], found[:3]]).check()
    assert together.missed == pytest.approx(found.check().missed)
    found.save(tmp_path / "saved")
    assert str(cs.load(tmp_path / "saved").check()) == str(found.check())
    assert "cannot be checked" in str(explainer(ROWS[:1], budget=50_000, rng=0).check())


def test_parts_keep_halves(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    explainer = cs.Explainer(labels, BACKGROUND)
    explainer.explain_dataset(ROWS[:6], tmp_path, budget=400, rng=0, part_rows=4, progress=False)
    assert str(cs.load(tmp_path).check()) == str(explainer(ROWS[:6], budget=400, rng=0).check())


def test_several_outputs_and_no_halves() -> None:
    both = cs.Explainer(lambda rows: np.stack([labels(rows), rows[:, 0] * rows[:, 1]], axis=1), BACKGROUND)
    found = both(ROWS[:5], budget=400, rng=0)
    assert found.check().looks_right is not None
    assert found.output(0).half_ratios is not None
    resampled = cs.Explainer(labels, BACKGROUND, variance="bootstrap")(ROWS[:5], budget=400, rng=0)
    assert resampled.check().looks_right is None
