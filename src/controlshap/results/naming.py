"""Users' strings as labels: short, still different from each other, and never read as mathematics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from unicodedata import combining, east_asian_width

ELLIPSIS = "…"
#: Most characters of a player's name, and of a category or an output.
NAME_WIDTH, CATEGORY_WIDTH = 36, 18


def escaped(text: str) -> str:
    """Text that matplotlib shows as it is; a pair of dollars would make it a formula."""
    return text.replace("$", r"\$")


def cleaned(text: str) -> str:
    """On one line, without characters that have no picture or turn the direction of reading."""
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


def shortened(text: str, width: int) -> str:
    """The text with its middle left out where it is wider than `width` characters."""
    if sum(map(_width, text)) <= width:
        return text
    kept = width - 1
    return _head(text, kept - kept // 2).rstrip() + ELLIPSIS + _tail(text, kept // 2).lstrip()


def _common_head(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    same = (place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(same, min(len(first), len(last)))]


def _telling(names: Sequence[str], width: int) -> list[str]:
    """Names that look alike when their middle is left out: what differs is kept, with a little around it."""
    before = _common_head(names)
    rests = [name[len(before) :] for name in names]
    after = _common_head([rest[::-1] for rest in rests])[::-1]
    longest = max(len(rest) - len(after) for rest in rests)
    around = (width - 2 - min(longest, width // 2)) // 2
    start = before if len(before) <= around else _head(before, around) + ELLIPSIS
    end = after if len(after) <= around else ELLIPSIS + _tail(after, around)
    room = width - len(start) - len(end)
    return [start + shortened(rest[: len(rest) - len(after)], room) + end for rest in rests]


def short_names(names: Sequence[str], width: int = NAME_WIDTH) -> list[str]:
    """Names of at most about `width` characters, all different; not yet escaped."""
    clean = [cleaned(name) for name in names]
    short = [shortened(name, width) for name in clean]
    alike: dict[str, list[int]] = {}
    for number, name in enumerate(short):
        alike.setdefault(name, []).append(number)
    for numbers in alike.values():
        if len(numbers) > 1:
            for number, name in zip(numbers, _telling([clean[n] for n in numbers], width), strict=True):
                short[number] = name
    counts = Counter(short)
    # the last resort: the player's number
    return [f"{name} [{number}]" if counts[name] > 1 else name for number, name in enumerate(short)]
