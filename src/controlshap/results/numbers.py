"""Numbers as the report shows and stores them: no more digits than their errors justify."""

from __future__ import annotations

import math

import numpy as np

from controlshap._types import FloatArray, IntArray

#: Digits of an error that are shown; values are shown to the same place.
ERROR_DIGITS = 2
#: Decimal places beyond which numbers are written with a power of ten.
MOST_PLACES = 7
#: Characters of a name in a sentence.
LONGEST_NAME = 60
MINUS = "\N{MINUS SIGN}"
#: A line may break before the sign, not after it.
PLUS_MINUS = " ±\N{NO-BREAK SPACE}"


def _exponents(array: FloatArray) -> IntArray:
    """Power of ten of the first digit; 0 for 0."""
    size = np.abs(array)
    found: IntArray = np.floor(np.log10(np.where(size > 0, size, 1.0))).astype(np.int64)
    return found


def to_places(array: FloatArray, places: IntArray) -> FloatArray:
    """Rounded to decimal places, negative ones before the point; the result prints short."""
    # powers of ten above 1e22 are no doubles, and dividing by them would leave a tail of digits
    up = 10.0 ** np.clip(places, 0, 300).astype(float)
    down = 10.0 ** np.clip(-places, 0, 300).astype(float)
    rounded: FloatArray = np.round(array / down * up) / up * down
    return np.where(places < 300, rounded, array) + 0.0


def significant(array: FloatArray, digits: int) -> FloatArray:
    """Rounded to significant digits."""
    return to_places(array, digits - 1 - _exponents(array))


def justified(values: FloatArray, errors: FloatArray) -> FloatArray:
    """Values to one place more than shown, six digits where there is no error, never more than twelve."""
    by_error = ERROR_DIGITS - _exponents(errors)
    first = _exponents(values)
    places = np.where(errors > 0, np.minimum(by_error, 11 - first), 5 - first)
    return to_places(values, places)


def _fixed(value: float, places: int) -> str:
    text = f"{value:,.{max(places, 0)}f}"
    return text if float(text.replace(",", "")) != 0.0 else text.lstrip("-")


def _power(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def number(value: float, digits: int = 4) -> str:
    """A number alone, to some significant digits."""
    if not math.isfinite(value):
        return "infinite" if value == math.inf else "not known"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if exponent < -5 or exponent > 8:
        return _power(value, digits - 1).replace("-", MINUS)
    places = digits - 1 - exponent
    text = _fixed(round(value, places), places)
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.replace("-", MINUS)


def with_error(value: float, error: float) -> str:
    """`0.1234 ± 0.0021`; a value without error stands alone."""
    if error <= 0:
        return number(value, 5)
    places = ERROR_DIGITS - 1 - math.floor(math.log10(error))
    if places > MOST_PLACES:
        first = max(0, places + math.floor(math.log10(max(abs(value), error))))
        return f"{_power(value, first)}{PLUS_MINUS}{_power(error, ERROR_DIGITS - 1)}".replace("-", MINUS)
    shown, spread = _fixed(round(value, places), places), _fixed(round(error, places), places)
    return f"{shown}{PLUS_MINUS}{spread}".replace("-", MINUS)


def factor(value: float) -> str:
    """How many times: `12.3`, `1,250`."""
    return number(value, 3 if value < 1000 else 4)


def share(part: int, whole: int) -> str:
    """A percentage that is 0 or 100 only where it is so."""
    if part in (0, whole):
        return "0 %" if part == 0 else "100 %"
    return f"{min(99.9, max(0.1, 100.0 * part / whole)):.{0 if 1 <= 100 * part / whole <= 99 else 1}f} %"


def count(n: int, noun: str) -> str:
    """`1 row`, `5,000 rows`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def short(name: str) -> str:
    """A name for a sentence; the tables have it whole."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 3] + "..."


def listed(parts: list[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
