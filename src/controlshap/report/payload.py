"""The data of the page's script: JSON blocks, one common to all outputs and one for each output.

Arrays, not objects, and rounded numbers: 5,000 rows of 20 players are a few megabytes. JSON has no infinity; it is
written as null where the script expects it (an infinite gain).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.data.table import is_missing, is_number
from controlshap.results.axes import label_rows
from controlshap.results.ranking import Ranking
from controlshap.results.wording import round_by_errors, round_digits, without_rounding
from controlshap.statistics.certainty import quantile

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Inside a script element nothing but its end tag is read; these never appear in the block at all.
_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}

#: Interactions of a row.
MOST_PAIRS = 12


def as_json(value: Any) -> str:
    """JSON for a script element: ASCII only, and no character that HTML gives a meaning."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def _encode_texts(texts: Any) -> dict[str, list[Any]]:
    """Repeated strings as levels and codes."""
    levels, codes = np.unique(np.asarray(texts, dtype=object).astype(str), return_inverse=True)
    return {"levels": levels.tolist(), "codes": codes.reshape(-1).tolist()}


def _encode_data(column: Any) -> dict[str, list[Any]]:
    """Data of a player in each row: numbers, or levels and codes; null for a missing value."""
    missing = [is_missing(value) for value in column]
    if all(gone or (is_number(value) and math.isfinite(value)) for value, gone in zip(column, missing, strict=True)):
        numbers = np.array([0.0 if gone else float(value) for value, gone in zip(column, missing, strict=True)])
        whole = numbers == np.round(numbers)
        rounded = np.where(whole, numbers, round_digits(numbers, 6)).tolist()
        # 3.0 as 3: shorter, and how people write it
        plain = [int(v) if w and abs(v) < 2**53 else v for v, w in zip(rounded, whole.tolist(), strict=True)]
        return {"numbers": [None if gone else v for v, gone in zip(plain, missing, strict=True)]}
    coded = _encode_texts(["" if gone else str(value) for value, gone in zip(column, missing, strict=True)])
    coded["codes"] = [None if gone else code for code, gone in zip(coded["codes"], missing, strict=True)]
    return coded


def row_names(explanation: Explanation) -> list[str] | None:
    """Names of the rows as text; None where they are numbered from 0."""
    labels = list(label_rows(explanation))
    return None if labels == list(range(len(labels))) else [str(label) for label in labels]


def common_block(explanation: Explanation, output_labels: Sequence[str], level: float) -> str:
    """The data that do not depend on the output."""
    data = explanation.player_data()
    gain = round_digits(np.where(np.isfinite(explanation.gain), explanation.gain, 0.0), 4)
    known = np.isfinite(explanation.gain)
    return as_json(
        {
            "level": level,
            "players": list(explanation.feature_names),
            "outputs": list(output_labels),
            "rows": len(explanation),
            "names": row_names(explanation),
            "evaluations": explanation.n_evaluations.tolist(),
            "status": _encode_texts(explanation.status),
            "method": _encode_texts(explanation.method),
            "controls": _encode_texts(explanation.controls),
            "gain": [g if k else None for g, k in zip(gain.tolist(), known.tolist(), strict=True)],
            "complete": explanation.complete.astype(int).tolist(),
            "data": [_encode_data(data[:, player]) for player in range(data.shape[1])],
        }
    )


def _critical(dof: FloatArray, level: float) -> list[Any]:
    """Half width of an interval in standard errors: one number for a row where all players have the same."""
    critical = round_digits(quantile(dof, (1.0 - level) / 2.0), 5)
    same = (critical == critical[:, :1]).all(axis=1)
    return [row[0] if alike else row for row, alike in zip(critical.tolist(), same.tolist(), strict=True)]


def _pairs(explanation: Explanation, level: float) -> list[list[list[Any]]]:
    """The largest interactions of each row: two players, index, half a simultaneous interval."""
    interactions = explanation.interactions
    order = interactions.ranking(level).order[:, :MOST_PAIRS]
    first, second = np.triu_indices(len(explanation.feature_names), 1)
    index = interactions.index[:, first, second]
    reach = interactions.confidence_interval(level, simultaneous=True)[1][:, first, second] - index
    return [
        [
            [int(first[pair]), int(second[pair]), float(value), float(half)]
            for pair, value, half in zip(
                pairs, round_by_errors(index[row, pairs], reach[row, pairs]), round_digits(reach[row, pairs], 3),
                strict=True,
            )
        ]
        for row, pairs in enumerate(order)
    ]  # fmt: skip


def output_block(explanation: Explanation, ranking: Ranking, importance: IntArray) -> str:
    """Values of one output, row by row."""
    values, errors = without_rounding(explanation), explanation.standard_errors
    plain, plain_errors = explanation.uncontrolled_values, explanation.uncontrolled_standard_errors
    bases = explanation.base_values
    normal = float(quantile(np.array(np.inf), (1.0 - ranking.level) / 2.0))
    block: dict[str, Any] = {
        "predictions": round_digits(bases + values.sum(axis=1), 6).tolist(),
        "bases": round_digits(bases, 6).tolist(),
        "baseReaches": round_digits(normal * explanation.base_standard_errors, 3).tolist(),
        "values": round_by_errors(values, errors).tolist(),
        "errors": round_digits(errors, 3).tolist() if errors.any() else None,
        "critical": _critical(explanation.degrees_of_freedom, ranking.level),
        "order": ranking.order.tolist(),
        "importance": importance.tolist(),
        "swaps": np.round(ranking.swap_probability, 2).tolist(),
        "cuts": ["".join("1" if cut else "0" for cut in row) for row in ranking.separated.tolist()],
    }
    if not (np.array_equal(values, plain) and np.array_equal(errors, plain_errors)):
        block |= {
            "plainValues": round_by_errors(plain, plain_errors).tolist(),
            "plainErrors": round_digits(plain_errors, 3).tolist(),
            "reductions": np.round(explanation.variance_reduction, 3).tolist(),
        }
    if explanation.interaction_indices is not None:
        block["pairs"] = _pairs(explanation, ranking.level)
    return as_json(block)
