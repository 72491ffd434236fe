"""Just enough of the protobuf wire format to tell an ONNX file from others, and to read its class labels.

Running a model needs onnxruntime only; the package `onnx` is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

#: Fields of an ONNX `ModelProto`, `GraphProto`, `NodeProto` and `AttributeProto` that are looked at.
_MODEL_GRAPH, _GRAPH_NODE, _NODE_ATTRIBUTE = 7, 1, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_INTS, _ATTRIBUTE_STRINGS = 1, 8, 9
_LAST_MODEL_FIELD = 40
_LABELS = (b"classlabels_strings", b"classlabels_ints", b"classlabels_int64s")


class NotProtobufError(ValueError):
    """The bytes do not follow the wire format."""


def fields(content: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Field numbers and their values, in order: numbers, or bytes."""
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(content, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(content, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise NotProtobufError(f"wire type {wire}")
        if number == 0 or at + size > len(content):
            raise NotProtobufError("a field that does not fit")
        yield number, content[at : at + size]
        at += size


def is_onnx(content: bytes) -> bool:
    """Whether these are the fields of a model with a graph."""
    try:
        found = dict(fields(memoryview(content)))
    except NotProtobufError:
        return False
    graph = found.get(_MODEL_GRAPH)
    return isinstance(found.get(1), int) and isinstance(graph, memoryview) and max(found) <= _LAST_MODEL_FIELD


def class_labels(content: bytes) -> tuple[str, ...] | None:
    """Labels of the classes, from the last node of the graph that has any."""
    graph = dict(fields(memoryview(content)))[_MODEL_GRAPH]
    labels: tuple[str, ...] | None = None
    for node in _parts(graph, _GRAPH_NODE):
        for attribute in _parts(node, _NODE_ATTRIBUTE):
            labels = _labels(attribute) or labels
    return labels


def _labels(attribute: memoryview) -> tuple[str, ...] | None:
    found = list(fields(attribute))
    if not any(bytes(name) in _LABELS for name in _parts(attribute, _ATTRIBUTE_NAME)):
        return None
    labels: list[str] = []
    for number, value in found:
        if number == _ATTRIBUTE_STRINGS and isinstance(value, memoryview):
            labels.append(bytes(value).decode(errors="replace"))
        elif number == _ATTRIBUTE_INTS and isinstance(value, int):
            labels.append(str(_signed(value)))
        elif number == _ATTRIBUTE_INTS and isinstance(value, memoryview):  # packed
            at = 0
            while at < len(value):
                one, at = _varint(value, at)
                labels.append(str(_signed(one)))
    return tuple(labels) or None


def _parts(content: int | memoryview, wanted: int) -> Iterator[memoryview]:
    if isinstance(content, memoryview):
        for number, value in fields(content):
            if number == wanted and isinstance(value, memoryview):
                yield value


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _varint(content: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(content) or shift > 63:
            raise NotProtobufError("a number that does not end")
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
