"""Names and numbers as people read them, once for texts, plots and the report.

Names become short labels that stay different from each other; numbers get no more digits than their errors justify.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.data.table import is_missing, is_number

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

ELLIPSIS = "…"
MINUS = "\N{MINUS SIGN}"
#: A line may break before the sign, not after it.
PLUS_MINUS = " ±\N{NO-BREAK SPACE}"
#: Most characters of a player's name, of a category or an output, and of a name in a sentence.
NAME_WIDTH, CATEGORY_WIDTH, SENTENCE_WIDTH = 36, 18, 60
#: Digits of an error that are shown; values are shown to the same place.
ERROR_DIGITS = 2
#: Decimal places beyond which numbers are written with a power of ten.
MOST_PLACES = 7


def escape(text: str) -> str:
    """Text that matplotlib shows as it is; a pair of dollars would make it a formula."""
    return text.replace("$", r"\$")


def clean(text: str) -> str:
    """Text on one line, without characters that have no picture or turn the direction of reading."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in " ".join(text.split()))


def _width(letter: str) -> int:
    return 0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1


def _head(text: str, width: int) -> str:
    used, end = 0, 0
    for letter in text:
        used += _width(letter)
        if used > width:
            break
        end += 1
    return text[:end]


def _tail(text: str, width: int) -> str:
    return _head(text[::-1], width)[::-1]


def shorten(text: str, width: int) -> str:
    """The text with its middle left out where it is wider than `width` characters."""
    if sum(map(_width, text)) <= width:
        return text
    kept = width - 1
    return _head(text, kept - kept // 2).rstrip() + ELLIPSIS + _tail(text, kept // 2).lstrip()


def _common_head(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    differing = (place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(differing, min(len(first), len(last)))]


def _shorten_apart(names: Sequence[str], width: int) -> list[str]:
    """Shorten names that would look alike without their middle: keep where they differ, with a little around it."""
    before = _common_head(names)
    rests = [name[len(before) :] for name in names]
    after = _common_head([rest[::-1] for rest in rests])[::-1]
    longest = max(len(rest) - len(after) for rest in rests)
    around = (width - 2 - min(longest, width // 2)) // 2
    start = before if len(before) <= around else _head(before, around) + ELLIPSIS
    end = after if len(after) <= around else ELLIPSIS + _tail(after, around)
    room = width - len(start) - len(end)
    return [start + shorten(rest[: len(rest) - len(after)], room) + end for rest in rests]


def shorten_names(names: Sequence[str], width: int = NAME_WIDTH) -> list[str]:
    """Names of at most about `width` characters, all different; not escaped."""
    whole = [clean(name) for name in names]
    short = [shorten(name, width) for name in whole]
    alike: dict[str, list[int]] = {}
    for number, name in enumerate(short):
        alike.setdefault(name, []).append(number)
    for numbers in alike.values():
        if len(numbers) > 1:
            for number, name in zip(numbers, _shorten_apart([whole[n] for n in numbers], width), strict=True):
                short[number] = name
    counts = Counter(short)
    # the last resort: the player's number
    return [f"{name} [{number}]" if counts[name] > 1 else name for number, name in enumerate(short)]


def shorten_in_sentence(name: str) -> str:
    """A name for a sentence; the tables have it whole."""
    return name if len(name) <= SENTENCE_WIDTH else name[: SENTENCE_WIDTH - 3] + "..."


def join_words(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def count_noun(n: int, noun: str) -> str:
    """`1 row`, `5,000 rows`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _exponents(array: FloatArray) -> IntArray:
    """Power of ten of the first digit; 0 for 0."""
    size = np.abs(array)
    exponents: IntArray = np.floor(np.log10(np.where(size > 0, size, 1.0))).astype(np.int64)
    return exponents


def _round_places(array: FloatArray, places: IntArray) -> FloatArray:
    """Round to decimal places, negative ones before the point; the result prints short."""
    # powers of ten above 1e22 are no doubles, and dividing by them would leave a tail of digits
    up = 10.0 ** np.clip(places, 0, 300).astype(float)
    down = 10.0 ** np.clip(-places, 0, 300).astype(float)
    rounded: FloatArray = np.round(array / down * up) / up * down
    return np.where(places < 300, rounded, array) + 0.0


def round_digits(array: FloatArray, digits: int) -> FloatArray:
    """Round to significant digits."""
    return _round_places(array, digits - 1 - _exponents(array))


#: Values this small beside all of their row are sums that rounded.
ROUNDED = 1e-12


def without_rounding(explanation: Explanation) -> FloatArray:
    """Values to show: 0 where a value without error is nothing but rounding."""
    values = explanation.values
    size = np.abs(explanation.base_values)[:, None] + np.abs(values).sum(axis=1, keepdims=True)
    rounded = (explanation.standard_errors == 0) & (np.abs(values) <= ROUNDED * size)
    return np.where(rounded, 0.0, values)


def round_by_errors(values: FloatArray, errors: FloatArray) -> FloatArray:
    """Round values to one place more than is shown: six digits where there is no error, never more than twelve."""
    by_error = ERROR_DIGITS - _exponents(errors)
    first = _exponents(values)
    places = np.where(errors > 0, np.minimum(by_error, 11 - first), 5 - first)
    return _round_places(values, places)


def _strip_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _format_fixed(value: float, places: int) -> str:
    text = f"{value:,.{max(places, 0)}f}"
    return text if float(text.replace(",", "")) != 0.0 else text.lstrip("-")


def _power(value: float, digits: int) -> tuple[str, str]:
    """Mantissa with so many decimals, and the power of ten."""
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return mantissa, f"e{int(exponent)}"


def format_number(value: float, digits: int = 4) -> str:
    """A number in a text, to some significant digits, with commas: `1,235,000`."""
    if not math.isfinite(value):
        return "infinite" if value == math.inf else "not known"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if exponent < -5 or exponent > 8:
        return "".join(_power(value, digits - 1)).replace("-", MINUS)
    places = digits - 1 - exponent
    return _strip_zeros(_format_fixed(round(value, places), places)).replace("-", MINUS)


def format_label(value: float, digits: int = 4) -> str:
    """A number in a plot, to some significant digits, as short as can be: `1.235e6`."""
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    size = abs(value)
    if size == 0:
        return "0"
    if 1e-4 <= size < 1e6:
        text = _strip_zeros(f"{value:.{max(0, digits - 1 - math.floor(math.log10(size)))}f}")
    else:
        mantissa, power = _power(value, digits - 1)
        text = _strip_zeros(mantissa) + power
    return text.replace("-", MINUS)


def format_with_error(value: float, error: float) -> str:
    """`0.1234 ± 0.0021`; a value without error stands alone."""
    if error <= 0:
        return format_number(value, 5)
    places = ERROR_DIGITS - 1 - math.floor(math.log10(error))
    if places > MOST_PLACES and abs(value) >= 1e-3:
        shown, spread = _format_fixed(round(value, MOST_PLACES), MOST_PLACES), "".join(_power(error, ERROR_DIGITS - 1))
    elif places > MOST_PLACES:
        first = max(0, places + math.floor(math.log10(max(abs(value), error))))
        shown, spread = ("".join(_power(*pair)) for pair in ((value, first), (error, ERROR_DIGITS - 1)))
    else:
        shown, spread = (_format_fixed(round(number, places), places) for number in (value, error))
    return f"{shown}{PLUS_MINUS}{spread}".replace("-", MINUS)


def format_signed(value: float, error: float) -> str:
    """A value with its error, and always with its sign."""
    text = format_with_error(value, error)
    rounded = text.partition("\N{PLUS-MINUS SIGN}")[0].strip(" 0.,")  # a value that rounds to 0 has no sign
    return text if text.startswith(MINUS) or not rounded else "+" + text


def format_column(values: FloatArray, reaches: FloatArray, signed: Sequence[bool]) -> list[str]:
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
        text = _format_decimals(value, decimals)
        text = f"+{text}" if plus and value > 0 and text.strip("0.") else text  # what rounds to 0 has no sign
        texts.append(f"{text} ± {_format_decimals(reach, decimals, never_zero=True)}" if reach > 0 else text)
    return texts


def _format_decimals(value: float, decimals: int | None, *, never_zero: bool = False) -> str:
    """A number with some decimals, or (None) with a power of ten."""
    if decimals is None:
        return format_label(value, 3)
    text = f"{value:.{decimals}f}"
    if float(text) != 0.0:
        return text.replace("-", MINUS)
    return f"<{10.0**-decimals:.{decimals}f}" if never_zero else f"{0.0:.{decimals}f}"


#: Digits of the largest of a column of exact values.
EXACT_DIGITS = 4


def format_exact(values: FloatArray) -> list[str]:
    """Values without error with equal decimals, four digits of the largest; what would be 0 keeps two digits."""
    largest = float(np.abs(values).max(initial=0.0))
    places = EXACT_DIGITS - 1 - math.floor(math.log10(largest)) if largest > 0 else 0
    if not 0 <= places <= MOST_PLACES:
        return [format_number(value, EXACT_DIGITS) for value in values.tolist()]
    texts = [_format_fixed(value, places).replace("-", MINUS) for value in values.tolist()]
    rounded = [value != 0 and not text.strip("0.,") for value, text in zip(values.tolist(), texts, strict=True)]
    return [
        format_number(value, 2) if tiny else "0" if value == 0 else text
        for value, text, tiny in zip(values.tolist(), texts, rounded, strict=True)
    ]


def format_factor(value: float) -> str:
    """How many times: `12.3`, `1,250`."""
    return format_number(value, 3 if value < 1000 else 4)


def format_level(level: float) -> str:
    """A confidence level: `95 %`."""
    return f"{100.0 * level:.6g} %"


def format_chance(probability: float) -> str:
    """A probability in whole per cent, never rounded to none."""
    return "<1 %" if probability < 0.01 else f"{100.0 * probability:.0f} %"


def format_share(part: int, whole: int) -> str:
    """A percentage that is 0 or 100 only where it is so."""
    if part in (0, whole):
        return "0 %" if part == 0 else "100 %"
    return f"{min(99.9, max(0.1, 100.0 * part / whole)):.{0 if 1 <= 100 * part / whole <= 99 else 1}f} %"


def format_entry(value: Any) -> str:
    """An entry of the data for a label; not escaped."""
    if is_missing(value):
        return "missing"
    return format_label(float(value)) if is_number(value) else shorten(clean(str(value)), CATEGORY_WIDTH)


def describe_outputs(explanation: Explanation) -> list[str]:
    """Each output in words: `probability of class 'malignant'`, `prediction`, `output 2`."""
    n_outputs = explanation.values.shape[2] if explanation.values.ndim == 3 else 1
    quantity, names = explanation.settings.get("quantity", ""), explanation.output_names
    if names is None or len(names) != n_outputs:
        several = f"{quantity}, output" if quantity else "output"
        return [quantity or "model output"] if n_outputs == 1 else [f"{several} {i}" for i in range(n_outputs)]
    if not quantity or quantity == "prediction":
        return list(names)
    return [f"{quantity} of class {name if name.lstrip('-').isdigit() else repr(name)}" for name in names]


#: Units with which an interval of 95 % is 1.07 times as wide as with a known error (Student's t with 19 degrees).
ENOUGH_UNITS = 20


def describe_unreliable(explanation: Explanation) -> str:
    """Whether errors rest on few units, and the budget that gives enough of them; empty where they do not."""
    weak, n = int((~explanation.reliable).sum()), explanation.values.size
    units = np.array([sum(stages[-1:]) for stages in explanation.stages], dtype=np.int64)
    sampled = (units > 0) & (explanation.status != "exact")
    fewest = int(units[sampled].min()) if sampled.any() else ENOUGH_UNITS
    if weak == 0 and fewest >= ENOUGH_UNITS:
        return ""
    way_out = "raise `budget`"
    if fewest < ENOUGH_UNITS:
        each = float(np.max(explanation.n_evaluations[sampled] / units[sampled]))
        way_out = f"budget={_round_up(each * ENOUGH_UNITS)} gives {ENOUGH_UNITS} units a row"
    if weak:
        of_all = f"{weak:,} of {count_noun(n, 'value')} {'rests' if weak == 1 else 'rest'}"
        cause = "on too few units, and so do" if fewest < ENOUGH_UNITS else "on draws too rare to be met, and so may"
        return f"Not reliable: {of_all} {cause} their errors; {way_out}"
    return f"Rough errors: {count_noun(fewest, 'unit')} a row; {way_out}"


def _round_up(value: float) -> int:
    """The next number of one or two digits and zeros."""
    step: int = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return math.ceil(value / step) * step


def describe_zero_errors(explanation: Explanation) -> str:
    """The meaning of errors of 0: they prove little until every background row was used."""
    if bool((explanation.status == "exact").all()):
        return "exact"
    return "no sampling error" if bool(explanation.complete.all()) else "no error seen yet"
