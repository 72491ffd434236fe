"""How large parts are, and who does them: the loop, with workers that do as they are told."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from dataset_cases import CALL, CountedModel, make_explainer, make_rows

import controlshap as cs
from controlshap.datasets import RunStoppedError, run
from controlshap.datasets.loop import RunTotals, run_parts
from controlshap.datasets.part import PartOutcome, PartTask
from controlshap.datasets.part_file import part_path
from controlshap.datasets.run import choose_part_rows
from controlshap.statistics.base_sample import REPEATED


def test_cheap_rows_get_larger_parts(tmp_path: Path) -> None:
    assert choose_part_rows(seconds=60.0, n_rows=10**6, n_workers=1) == 50
    assert choose_part_rows(seconds=0.1, n_rows=10**6, n_workers=1) == 200
    assert choose_part_rows(seconds=1e-4, n_rows=10**6, n_workers=1) == 10_000
    assert choose_part_rows(seconds=1e-4, n_rows=4000, n_workers=1) == 100
    assert choose_part_rows(seconds=1e-4, n_rows=80_000, n_workers=100) == 100, "every worker gets some"
    result = make_explainer().explain_dataset(make_rows(60), tmp_path / "out", **CALL)
    assert result.n_parts == 2


def test_measuring_is_cheap_where_the_model_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedModel()
    call: dict[str, Any] = {"budget": 20_000, "rng": 0}
    make_explainer(counted).explain_dataset(make_rows(1), tmp_path / "out", **call)
    spent = int(cs.load(tmp_path / "out").n_evaluations.sum())
    assert spent > 15_000
    assert counted.n_rows <= 8 + REPEATED + 2_000 + spent
    monkeypatch.setattr(run, "PROBE_BUDGET", 3)  # less than any row needs
    make_explainer(counted).explain_dataset(make_rows(1), tmp_path / "again", **call)


class ScriptedPool:
    """Answers for parts in order; a killer takes all that is under way with it, as a broken pool does."""

    def __init__(self, folder: Path, killers: set[int], window: int = 4, *, writes: bool = True) -> None:
        self.folder, self.killers, self.window, self.writes = folder, killers, window, writes
        self.deaths_allowed = 2
        self.waiting: deque[PartTask] = deque()
        self.tried: list[int] = []
        self.most = 0

    def submit(self, task: PartTask) -> None:
        self.waiting.append(task)
        self.most = max(self.most, len(self.waiting))

    def wait(self) -> list[PartOutcome]:
        task = self.waiting.popleft()
        self.tried.append(task.part)
        if task.part in self.killers:
            lost = [task, *self.waiting]
            self.waiting.clear()
            return [PartOutcome(one.part, "lost", "its worker died") for one in lost]
        if self.writes:
            part_path(self.folder, task.part).touch()
        return [PartOutcome(task.part, "done", "", 10)]

    def close(self, *, broken: bool) -> None: ...


def scripted(folder: Path, killers: set[int], n_parts: int = 20, **how: Any) -> tuple[ScriptedPool, RunTotals]:
    (folder / "parts").mkdir(parents=True)
    pool, totals = ScriptedPool(folder, killers, **how), RunTotals()
    job: Any = type("Job", (), {"folder": folder, "run": "x"})
    tasks = (PartTask(part, 5 * part, 5 * part + 5) for part in range(n_parts))
    run_parts(pool, job, tasks, lambda *_: None, totals)
    return pool, totals


def test_the_innocent_are_not_blamed(tmp_path: Path) -> None:
    pool, totals = scripted(tmp_path, {3, 4, 17})
    assert sorted(one.part for one in totals.failed) == [3, 4, 17]
    assert totals.n_done == 17
    assert pool.most == 4, "the window is bounded"
    assert all(pool.tried.count(part) == 1 for part in range(20) if part not in (3, 4, 17)), "nothing is done twice"


def test_a_file_that_is_there_counts_whatever_the_pool_says(tmp_path: Path) -> None:
    make_explainer().explain_dataset(make_rows(5), tmp_path / "out", part_rows=5, **CALL)
    run_hash = json.loads((tmp_path / "out" / "manifest.json").read_text())["hash"]
    pool, totals = ScriptedPool(tmp_path / "out", {0}), RunTotals()
    job: Any = type("Job", (), {"folder": tmp_path / "out", "run": run_hash})
    run_parts(pool, job, [PartTask(0, 0, 5)], lambda *_: None, totals)
    assert (totals.n_done, totals.failed) == (1, [])
    assert totals.n_evaluations == cs.load(tmp_path / "out").n_evaluations.sum()


def test_a_folder_that_workers_do_not_share_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlshap.datasets.loop.VISIBLE_AFTER", 0.1)
    with pytest.raises(RunStoppedError, match="folder that all workers and this process share"):
        scripted(tmp_path, set(), writes=False)
