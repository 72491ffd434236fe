"""Whether a UBJSON file is whole. xgboost writes such files, and ends the process where one is cut off."""

from __future__ import annotations

_SIZES = {b"Z": 0, b"N": 0, b"T": 0, b"F": 0, b"i": 1, b"U": 1, b"C": 1, b"I": 2, b"l": 4, b"d": 4, b"L": 8, b"D": 8}
_INTEGERS = (b"i", b"U", b"I", b"l", b"L")
#: Deeper than any model: an attack, or chance.
DEEPEST = 200


class _BrokenError(ValueError):
    pass


def is_whole(content: bytes) -> bool:
    """Whether the bytes are one value, from the first to the last."""
    try:
        return _value(content, 0, 0) == len(content)
    except _BrokenError:
        return False


def _value(content: bytes, at: int, depth: int) -> int:
    """Where the value at `at` ends."""
    kind = content[at : at + 1]
    if kind == b"{" or kind == b"[":
        return _container(content, at + 1, depth, has_keys=kind == b"{")
    return _plain(content, at + 1, kind)


def _plain(content: bytes, at: int, kind: bytes) -> int:
    if kind in _SIZES:
        end = at + _SIZES[kind]
    elif kind in (b"S", b"H"):
        size, start = _length(content, at)
        end = start + size
    else:
        raise _BrokenError
    if end > len(content):
        raise _BrokenError
    return end


def _container(content: bytes, at: int, depth: int, *, has_keys: bool) -> int:
    if depth > DEEPEST:
        raise _BrokenError
    kind = b""
    if content[at : at + 1] == b"$":
        kind, at = content[at + 1 : at + 2], at + 2
    count = None
    if content[at : at + 1] == b"#":
        count, at = _length(content, at + 1)
    if kind and count is None:
        raise _BrokenError
    if kind in _SIZES and count is not None and not has_keys:
        end = at + _SIZES[kind] * count
        if end > len(content):
            raise _BrokenError
        return end
    close, done = (b"}" if has_keys else b"]"), 0
    while count is None or done < count:
        if count is None and content[at : at + 1] == close:
            return at + 1
        if has_keys:
            size, start = _length(content, at)
            at = start + size
        at = _plain(content, at, kind) if kind else _value(content, at, depth + 1)
        done += 1
    return at


def _length(content: bytes, at: int) -> tuple[int, int]:
    kind = content[at : at + 1]
    if kind not in _INTEGERS:
        raise _BrokenError
    end = at + 1 + _SIZES[kind]
    if end > len(content):
        raise _BrokenError
    size = int.from_bytes(content[at + 1 : end], "big", signed=kind != b"U")
    if size < 0:
        raise _BrokenError
    return size, end
