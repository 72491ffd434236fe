"""A torch module explained on its device, against the bare forward passes and against Captum.

    PYTHONPATH=src python benchmarks/torch_device.py            on a GPU: 1,000 rows x 10,000 evaluations
    PYTHONPATH=src python benchmarks/torch_device.py --small    the same on the CPU, in some minutes

Needs torch, numpy, scipy, and for the comparison captum (installed, or from `--captum FOLDER_OR_WHEEL`). Prints a
table; where the environment variable OUT is set, writes torch_device.json and torch_device.md there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
from torch_device_captum import compare

import controlshap as cs

COLUMNS, BACKGROUND = 20, 100

TABLES = {
    "overheads": ("Explanation over bare forward passes", {
        "name": "case", "method": "method", "seconds": "explanation, s", "bare": "forward passes, s", "ratio": "ratio",
        "bare_chunk": "best chunk of the bare passes", "evaluations_per_second": "evaluations/s",
        "mean_standard_error": "mean standard error"}),
    "surrogates": ("A shared surrogate", {
        "name": "network", "method": "method", "fitting": "fitting it, s", "seconds": "explanation, s",
        "bare": "forward passes, s", "ratio": "ratio", "mean_variance": "mean squared standard error",
        "observed": "squared error over squared standard error", "times_less": "times less error at equal time",
        "times_less_with_fit": "with the time of the fit"}),
    "peers": ("Captum at equal evaluations", {
        "name": "", "seconds_per_row": "seconds a row", "times_slower": "times ours",
        "mean_squared_error": "mean squared error", "times_error": "times ours"}),
    "memory": ("A device with little memory", {
        "rows_in_all": "rows in all", "chunk_rows": "rows at once", "chunk_rows_tight": "with little memory",
        "largest_difference": "largest difference"}),
    "devices": ("CPU against GPU", {
        "name": "", "devices": "devices", "largest_difference": "values",
        "largest_difference_of_errors": "standard errors"}),
}  # fmt: skip


@dataclass(frozen=True)
class Size:
    """How much is done."""

    hidden: int
    rows: int
    budget: int
    compared: int
    long_budget: int
    chunks: tuple[int, ...]
    learned: int
    trained: int
    repeats: int = 9


FULL = Size(512, 1000, 10_000, 5, 1_000_000, tuple(2**k for k in range(13, 22)), 200_000, 2000)
SMALL = Size(64, 20, 2_000, 2, 40_000, (2**11, 2**12, 2**14), 5_000, 20, repeats=3)


def network(hidden: int, device: str, dtype: Any = torch.float32, seed: int = 0, columns: int = COLUMNS) -> Any:
    torch.manual_seed(seed)
    layers = [
        torch.nn.Linear(columns, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden), torch.nn.ReLU(),
        torch.nn.Linear(hidden, 1),
    ]  # fmt: skip
    return torch.nn.Sequential(*layers).to(device=device, dtype=dtype).eval()


def trained(size: Size, device: str) -> Any:
    """A network fitted to noisy labels: a wave, a step, and kinks of several columns."""
    module, rows = network(size.hidden, device), torch.as_tensor(data(20_000, 5), dtype=torch.float32, device=device)
    labels = torch.tanh(rows[:, :8].sum(dim=1)) + 0.7 * (rows[:, 8] > 0) * rows[:, 9]
    labels += 0.5 * torch.relu(rows[:, 10] + rows[:, 11] - rows[:, 12]) + 0.3 * torch.randn(len(rows), device=device)
    steps = torch.optim.Adam(module.parameters(), 1e-3)
    for _ in range(size.trained):
        chosen = torch.randint(len(rows), (256,), device=device)
        steps.zero_grad()
        ((module(rows[chosen])[:, 0] - labels[chosen]) ** 2).mean().backward()
        steps.step()
    return module.requires_grad_(requires_grad=False)


def data(n_rows: int, seed: int, columns: int = COLUMNS) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows: np.ndarray = rng.normal(size=(n_rows, columns)) + 0.7 * rng.normal(size=(n_rows, 1))
    return rows


def finish(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def timed(work: Callable[[], Any], repeats: int, device: str) -> tuple[float, Any]:
    """Median of the seconds, after one run to warm up."""
    result = work()
    seconds = []
    for _ in range(repeats):
        finish(device)
        began = time.perf_counter()
        result = work()
        finish(device)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds), result


def bare_seconds(module: Any, n_rows: int, size: Size, device: str) -> tuple[float, int]:
    """Forward passes on as many rows, in the best chunks."""
    dtype, columns = next(module.parameters()).dtype, module[0].in_features
    best = (float("inf"), 0)
    for chunk in size.chunks:
        rows = torch.randn(min(chunk, n_rows), columns, device=device).to(dtype)

        def passes(rows: Any = rows, chunk: int = chunk) -> None:
            with torch.no_grad():
                for start in range(0, n_rows, chunk):
                    module(rows[: n_rows - start])

        seconds, _ = timed(passes, size.repeats, device)
        best = min(best, (seconds, chunk))
    return best


def overheads(size: Size, device: str) -> list[dict[str, Any]]:
    """Explanation over bare forward passes, for types and value functions."""
    found, wide, narrow = [], size.hidden, size.hidden // 8
    correlated, ridge = {"features": "correlated"}, {"control": "ridge"}
    cases: list[tuple[str, int, int, Any, dict[str, Any], dict[str, Any]]] = [
        ("float32, independent", wide, COLUMNS, torch.float32, {}, {}),
        ("bfloat16, independent", wide, COLUMNS, torch.bfloat16, {}, {}),
        ("float32, correlated, no control", wide, COLUMNS, torch.float32, correlated | {"control": "none"}, {}),
        ("float32, correlated, Taylor", wide, COLUMNS, torch.float32, correlated, {}),
        ("float32, independent, a ridge for each row", wide, COLUMNS, torch.float32, ridge, {}),
        ("float32, independent, KernelSHAP", wide, COLUMNS, torch.float32, ridge | {"estimator": "kernel"}, {}),
        ("float32, independent, three largest", wide, COLUMNS, torch.float32, {}, {"stop": "top 3"}),
        (f"2 x {narrow}, independent", narrow, COLUMNS, torch.float32, {}, {}),
        (f"2 x {narrow}, correlated, no control", narrow, COLUMNS, torch.float32, correlated | {"control": "none"}, {}),
        ("200 columns, independent", wide, 200, torch.float32, {}, {}),
    ]
    for name, hidden, columns, dtype, settings, goals in cases:
        module, rows = network(hidden, device, dtype, columns=columns), data(size.rows, 2, columns)
        explainer = cs.Explainer(module, data(BACKGROUND, 1, columns), **settings)

        def explain(explainer: Any = explainer, rows: Any = rows, goals: dict[str, Any] = goals) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cs.NotConvergedWarning)
                return explainer(rows, budget=size.budget, rng=0, device=device, **goals)

        seconds, result = timed(explain, size.repeats, device)
        n_evaluations = int(result.n_evaluations.sum())
        bare, chunk = bare_seconds(module, n_evaluations, size, device)
        found.append(
            {"name": name, "method": str(result.method[0]), "n_evaluations": n_evaluations, "seconds": seconds,
             "bare": bare, "bare_chunk": chunk, "ratio": seconds / bare,
             "evaluations_per_second": n_evaluations / seconds,
             "mean_standard_error": float(result.standard_errors.mean()),
             "chunk_rows": result.settings["device_chunk"]}
        )  # fmt: skip
    return found


def surrogates(size: Size, device: str) -> list[dict[str, Any]]:
    """What a function saves that is fitted on the device, once for all rows or online; over the same without it."""
    found, background, rows = [], data(BACKGROUND, 1), data(size.rows, 2)
    modules = {"random weights": network(size.hidden, device), "trained": trained(size, device)}
    for name, module in modules.items():
        bare, _ = bare_seconds(module, size.rows * size.budget, size, device)
        for features in ("independent", "correlated"):
            plain, fitted = (cs.Explainer(module, background, features) for _ in range(2))
            learn = partial(fitted.fit_surrogate, rows, budget=size.learned, rng=0, device=device)
            fitting, _ = timed(learn, 1, device)
            some = slice(10 * size.compared)
            long_run = fitted(rows[some], budget=size.long_budget, rng=99, device=device)
            compared = []
            for explainer, call in ((plain, {}), (fitted, {}), (plain, {"surrogate": "online"})):
                explain = partial(explainer, rows, budget=size.budget, rng=0, device=device, **call)
                seconds, result = timed(explain, size.repeats, device)
                variances = result.standard_errors**2
                errors = (result.values[some] - long_run.values) ** 2
                claimed = variances[some] + long_run.standard_errors**2
                compared.append(
                    {"name": ", ".join([name, features, *call.values()]), "method": str(result.method[-1]),
                     "seconds": seconds, "bare": bare, "ratio": seconds / bare,
                     "mean_variance": float(variances.mean()), "observed": float(errors.mean() / claimed.mean())}
                )  # fmt: skip
            before = compared[0]["mean_variance"] * compared[0]["seconds"]
            compared[1]["fitting"] = fitting
            compared[1]["times_less"] = before / (compared[1]["mean_variance"] * compared[1]["seconds"])
            for one, apart in zip(compared[1:], (fitting, 0.0), strict=True):  # fits are part of what "online" does
                one["times_less_with_fit"] = before / (one["mean_variance"] * (one["seconds"] + apart))
            found += compared
    return found


def peers(size: Size, device: str) -> list[dict[str, Any]]:
    """Captum and ours at equal evaluations, against a long run of ours."""
    module, background, rows = network(size.hidden, device), data(BACKGROUND, 1), data(size.rows, 2)
    explainer, some = cs.Explainer(module, background), rows[: size.compared]
    long_run = explainer(some, budget=size.long_budget, rng=99, device=device)
    seconds, result = timed(lambda: explainer(rows, budget=size.budget, rng=0, device=device), size.repeats, device)
    alone, single = timed(lambda: explainer(some, budget=size.budget, rng=0, device=device), size.repeats, device)
    truth = long_run.values
    error = float(((result.values[: size.compared] - truth) ** 2).mean())
    found = [
        {"name": f"controlshap, {size.rows} rows at once", "seconds_per_row": seconds / size.rows,
         "mean_squared_error": error},
        {"name": f"controlshap, {size.compared} rows at once", "seconds_per_row": alone / size.compared,
         "mean_squared_error": float(((single.values - truth) ** 2).mean())},
    ]  # fmt: skip
    try:
        import captum
    except ImportError:
        print("captum is not installed: no comparison (give its wheel by --captum)")
        return found
    print("captum", captum.__version__)
    tensors = [torch.as_tensor(part, dtype=torch.float32, device=device) for part in (rows, background)]
    found += compare(module, *tensors, size.budget, truth, lambda: finish(device))
    for one in found:
        one["times_slower"] = one["seconds_per_row"] / found[0]["seconds_per_row"]
        one["times_error"] = one["mean_squared_error"] / found[0]["mean_squared_error"]
    noise = float((long_run.standard_errors**2).mean())
    print(f"mean squared error of the long run itself: about {noise:.2g}")
    return found


def memory(size: Size, device: str) -> dict[str, Any]:
    """A device that has little memory left: fewer rows go through at once, with the same results."""
    module, background, rows = network(size.hidden, device), data(BACKGROUND, 1), data(min(size.rows, 100), 2)
    explainer = cs.Explainer(module, background)
    plain = explainer(rows, budget=size.budget, rng=0, device=device)
    if device == "cuda":
        torch.cuda.empty_cache()
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, 0.3 * 2**30 / whole))
    try:
        tight = explainer(rows, budget=size.budget, rng=0, device=device)
    finally:
        if device == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0)
    return {
        "rows_in_all": int(plain.n_evaluations.sum()),
        "chunk_rows": plain.settings["device_chunk"],
        "chunk_rows_tight": tight.settings["device_chunk"],
        "largest_difference": float(abs(plain.values - tight.values).max()),
    }


def devices() -> list[dict[str, Any]]:
    """The same explanation on the CPU and on the GPU, without a surrogate and with the same one."""
    background, rows, found = data(BACKGROUND, 1), data(5, 2), []
    places = ("cpu", "cuda" if torch.cuda.is_available() else "cpu")
    for dtype in (torch.float64, torch.float32):
        for features in ("independent", "correlated"):
            modules = [network(64, device, dtype) for device in places]
            plain = [cs.Explainer(module, background, features) for module in modules]
            fitted = cs.Explainer(modules[1], background, features)
            fitted.fit_surrogate(data(100, 3), budget=5000, rng=0, device=places[1])
            with tempfile.TemporaryDirectory() as folder:
                path = fitted.save(Path(folder) / "explainer")
                same = [cs.Explainer.load(path, model=module) for module in modules]
            for name, explainers in (("", plain), (", shared surrogate", same)):
                both = [
                    one(rows, budget=2000, rng=0, device=device) for one, device in zip(explainers, places, strict=True)
                ]
                values, errors = ([getattr(one, what) for one in both] for what in ("values", "standard_errors"))
                found.append(
                    {"name": f"{both[0].settings['device_dtype']}, {features}{name}",
                     "devices": [one.settings["device"] for one in both],
                     "largest_difference": float(abs(values[0] - values[1]).max()),
                     "largest_difference_of_errors": float(abs(errors[0] - errors[1]).max())}
                )  # fmt: skip
    return found


def table(rows: list[dict[str, Any]], columns: dict[str, str]) -> str:
    """Markdown."""
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [row.get(name, "") for name in columns]
        lines.append("| " + " | ".join(f"{c:.4g}" if isinstance(c, float) else str(c) for c in cells) + " |")
    return "\n".join(lines)


def report(found: dict[str, Any]) -> str:
    parts = [f"# Torch on the device\n\n{found['device']}, torch {found['torch']}, {found['date']}; {found['what']}"]
    for name, (title, columns) in TABLES.items():
        if name in found:
            rows = found[name] if isinstance(found[name], list) else [found[name]]
            parts.append(f"## {title}\n\n" + table(rows, columns))
    parts.append(f"Total: {found['seconds']:.0f} s")
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--small", action="store_true", help="on the CPU, in some minutes")
    parser.add_argument("--captum", help="folder or wheel to import captum from")
    options = parser.parse_args(arguments)
    if options.captum:
        sys.path.append(options.captum)
    size, device = (SMALL, "cpu") if options.small else (FULL, "cuda")
    began = time.perf_counter()
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(0) if device == "cuda" else platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "what": f"hidden layers 2 x {size.hidden}, {COLUMNS} columns, {BACKGROUND} background rows, {size.rows} rows x "
        f"{size.budget} evaluations",
    }
    for name, work in (
        ("overheads", lambda: overheads(size, device)),
        ("surrogates", lambda: surrogates(size, device)),
        ("memory", lambda: memory(size, device)),
        ("devices", devices),
        ("peers", lambda: peers(size, device)),
    ):
        found[name] = work()
        found["seconds"] = time.perf_counter() - began
        print(f"{name}: {found['seconds']:.1f} s", flush=True)
        write(found)  # what was measured is kept if a later part fails
    print(report(found))
    return found


def write(found: dict[str, Any]) -> None:
    if os.environ.get("OUT"):
        folder = Path(os.environ["OUT"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "torch_device.json").write_text(json.dumps(found, indent=1))
        (folder / "torch_device.md").write_text(report(found))


if __name__ == "__main__":
    main()
