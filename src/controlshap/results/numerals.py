"""Numbers as people read them: as many digits as the error leaves, and a proper minus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from controlshap._types import FloatArray


def numeral(value: float, digits: int = 4) -> str:
    """A number with some significant digits."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size == 0:
        return "0"
    if 1e-4 <= size < 1e6:
        decimals = max(0, digits - 1 - math.floor(math.log10(size)))
        text = f"{value:.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        text = f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(power)}"
    return text.replace("-", "−")


def percent(share: float) -> str:
    """A level, such as 95 %."""
    return f"{100.0 * share:.6g} %"


def chance(probability: float) -> str:
    """A probability in whole per cent, never rounded to none or certain."""
    if probability < 0.01:
        return "<1 %"
    return f"{100.0 * probability:.0f} %"


def with_reaches(values: FloatArray, reaches: FloatArray, signed: Sequence[bool]) -> list[str]:
    """`+0.123 ± 0.004` for each value, with equal decimals; a reach of 0 is left out.

    The decimals suit the values that are `signed`, if there are any.
    """
    leading = values[np.array(signed)] if any(signed) else values
    largest = float(np.abs(leading).max(initial=0.0)) or float(reaches.max(initial=0.0)) or 1.0
    # three digits of the largest value, or two of a typical reach, and never more than six
    coarse = 2 - math.floor(math.log10(largest))
    seen = reaches[reaches > 0]
    fine = 1 - math.floor(math.log10(float(np.median(seen)))) if len(seen) else coarse
    decimals = max(0, min(max(coarse, fine), coarse + 3)) if 1e-4 <= largest < 1e6 else None
    texts = []
    for value, reach, plus in zip(values.tolist(), reaches.tolist(), signed, strict=True):
        text = ("+" if plus and value > 0 else "") + _rounded(value, decimals)
        texts.append(f"{text} ± {_rounded(reach, decimals, least=True)}" if reach > 0 else text)
    return texts


def _rounded(value: float, decimals: int | None, *, least: bool = False) -> str:
    """With some decimals, or (None) as a power of ten; `least`: never rounded to 0."""
    if decimals is None:
        return numeral(value, 3)
    text = f"{value:.{decimals}f}"
    if float(text) != 0.0:
        return text.replace("-", "−")
    return f"<{10.0**-decimals:.{decimals}f}" if least else f"{0.0:.{decimals}f}"


def is_number(value: Any) -> bool:
    """Whether a value has a size; truth values count as categories."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_))
