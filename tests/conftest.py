"""Shared problems. A statistical test promises to pass for every seed 0 to 99; CI runs one."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from report_cases import browser, sampled, several, visit  # noqa: F401 - fixtures of the report's tests

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("explore", deadline=None, max_examples=400)
settings.load_profile(os.environ.get("CONTROLSHAP_HYPOTHESIS", "ci"))


@pytest.fixture(params=["numpy", "torch"])
def as_array(request):
    """The statistics are written once for two libraries: what turns a numpy array into one of either."""
    if request.param == "numpy":
        return np.asarray
    return pytest.importorskip("torch").as_tensor


def pytest_generate_tests(metafunc):
    """`CONTROLSHAP_SEEDS=all` or `3` or `0-9` widens what CI runs with one seed."""
    if "global_seed" in metafunc.fixturenames:
        wanted = os.environ.get("CONTROLSHAP_SEEDS", "7")
        if wanted == "all":
            seeds = range(100)
        elif "-" in wanted:
            low, high = wanted.split("-")
            seeds = range(int(low), int(high) + 1)
        else:
            seeds = [int(wanted)]
        metafunc.parametrize("global_seed", list(seeds))


#: What makes a test slow: replications of a random experiment, a browser, the site, a benchmark that is run.
SLOW_FIXTURES = {"global_seed", "browser", "site", "small_run"}


def pytest_collection_modifyitems(items):
    for item in items:
        if SLOW_FIXTURES & set(item.fixturenames):
            item.add_marker(pytest.mark.slow)


@dataclass(frozen=True)
class Data:
    """A small correlated data set with a one-hot block, and a smooth model of all its columns."""

    background: Any
    x: Any
    groups: dict[str, list[int]]
    columns: list[list[int]]
    model: Any
    model2: Any


def make_data(n_rows=24, seed=0, grouped=True):
    """Seven columns: four correlated numeric ones and a one-hot block of three levels."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(4, 4)) * 0.6 + np.eye(4)
    numeric = rng.normal(size=(n_rows, 4)) @ mixing
    level = (numeric[:, 0] + rng.normal(size=n_rows) > 0).astype(int) + (rng.random(n_rows) < 0.3)
    background = np.column_stack([numeric, np.eye(3)[level]])
    x = np.concatenate([rng.normal(size=4) @ mixing + 0.5, np.eye(3)[1]])
    weights = rng.normal(size=7)

    def model(rows):
        score = rows @ weights + 0.7 * rows[:, 0] * rows[:, 1] - 0.4 * rows[:, 2] * rows[:, 5] * rows[:, 3]
        return np.tanh(0.6 * score)

    def model2(rows):
        return np.column_stack(
            [model(rows), np.sin(rows[:, 0] + rows[:, 2]) * rows[:, 3] ** 2 - rows[:, 4] * rows[:, 1] * rows[:, 2]]
        )

    groups = {"pair": [1, 3], "level": [4, 5, 6]} if grouped else None
    columns = [[0], [1, 3], [2], [4, 5, 6]] if grouped else [[c] for c in range(7)]
    return Data(background, x, groups, columns, model, model2)


@pytest.fixture
def data():
    return make_data()


@pytest.fixture
def plain_data():
    return make_data(grouped=False)
