"""What the page's script reads: JSON blocks, one common to all outputs and one for each output.

Arrays, not objects, and rounded numbers: 5,000 rows of 20 players are a few megabytes. JSON has no infinity; it is
written as null where the script expects it (an infinite gain).
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._types import AnyArray, FloatArray
from controlshap.results.numbers import justified, significant
from controlshap.results.ranking import Ranking
from controlshap.statistics.certainty import quantile

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Inside a script element nothing but its end tag is read; these never appear in the block at all.
_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def as_json(value: Any) -> str:
    """JSON for a script element: ASCII only, and no character that HTML gives a meaning."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def _coded(texts: Any) -> dict[str, list[Any]]:
    """Strings that repeat, as levels and codes."""
    levels, codes = np.unique(np.asarray(texts, dtype=object).astype(str), return_inverse=True)
    return {"levels": levels.tolist(), "codes": codes.reshape(-1).tolist()}


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _shown(column: Any) -> dict[str, list[Any]]:
    """What a player shows in each row: numbers, or levels and codes; null for a missing value."""
    missing = [_is_missing(value) for value in column]
    if all(gone or (_is_number(value) and math.isfinite(value)) for value, gone in zip(column, missing, strict=True)):
        numbers = np.array([0.0 if gone else float(value) for value, gone in zip(column, missing, strict=True)])
        whole = numbers == np.round(numbers)
        rounded = np.where(whole, numbers, significant(numbers, 6)).tolist()
        # 3.0 as 3: shorter, and how one writes it
        plain = [int(v) if w and abs(v) < 2**53 else v for v, w in zip(rounded, whole.tolist(), strict=True)]
        return {"numbers": [None if gone else v for v, gone in zip(plain, missing, strict=True)]}
    coded = _coded(["" if gone else str(value) for value, gone in zip(column, missing, strict=True)])
    coded["codes"] = [None if gone else code for code, gone in zip(coded["codes"], missing, strict=True)]
    return coded


def common_block(explanation: Explanation, output_names: list[str], level: float) -> str:
    """What does not depend on the output."""
    data = explanation.player_data()
    gain = significant(np.where(np.isfinite(explanation.gain), explanation.gain, 0.0), 4)
    known = np.isfinite(explanation.gain)
    return as_json(
        {
            "level": level,
            "players": list(explanation.feature_names),
            "outputs": output_names,
            "rows": len(explanation),
            "evaluations": explanation.n_evaluations.tolist(),
            "status": _coded(explanation.status),
            "method": _coded(explanation.method),
            "controls": _coded(explanation.controls),
            "gain": [g if k else None for g, k in zip(gain.tolist(), known.tolist(), strict=True)],
            "complete": explanation.complete.astype(int).tolist(),
            "data": [_shown(data[:, player]) for player in range(data.shape[1])],
        }
    )


def _critical(dof: FloatArray, level: float) -> list[Any]:
    """Half width of an interval in standard errors: one number for a row where all players have the same."""
    found = significant(quantile(dof, (1.0 - level) / 2.0), 5)
    same = (found == found[:, :1]).all(axis=1)
    return [row[0] if one else row for row, one in zip(found.tolist(), same.tolist(), strict=True)]


def output_block(explanation: Explanation, ranking: Ranking, output: int) -> str:
    """Values of one output, row by row."""

    def of(array: AnyArray) -> AnyArray:
        return array[..., output] if explanation.values.ndim == 3 else array

    values, errors = of(explanation.values), of(explanation.standard_errors)
    plain, plain_errors = of(explanation.uncontrolled_values), of(explanation.uncontrolled_standard_errors)
    controlled = not (np.array_equal(values, plain) and np.array_equal(errors, plain_errors))
    bases = of(explanation.base_values)
    block: dict[str, Any] = {
        "predictions": significant(bases + values.sum(axis=1), 6).tolist(),
        "bases": significant(bases, 6).tolist(),
        "baseErrors": significant(of(explanation.base_standard_errors), 3).tolist(),
        "values": justified(values, errors).tolist(),
        "errors": significant(errors, 3).tolist() if errors.any() else None,
        "critical": _critical(of(explanation.degrees_of_freedom), ranking.level),
        "order": of(ranking.order).tolist(),
        "cuts": ["".join("1" if cut else "0" for cut in row) for row in of(ranking.separated).tolist()],
    }
    if controlled:
        block |= {
            "plainValues": justified(plain, plain_errors).tolist(),
            "plainErrors": significant(plain_errors, 3).tolist(),
            "reductions": np.round(of(explanation.variance_reduction), 3).tolist(),
        }
    return as_json(block)
