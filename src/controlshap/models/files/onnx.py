"""ONNX models, run by onnxruntime on one thread of the CPU and pickled as bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._imports import require
from controlshap._types import FloatArray
from controlshap.models.files.columns import ModelColumns
from controlshap.models.model import Model, score_names

_TYPES: dict[str, Any] = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int16)": np.int16, "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_, "tensor(string)": np.str_,
}  # fmt: skip
_LABELS = ("classlabels_strings", "classlabels_ints", "classlabels_int64s")
_FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")


def load_onnx(path: Path) -> Model:
    """Return the model as a function of rows."""
    model = OnnxModel(path.read_bytes(), path.name)
    labels = _class_labels(model.content, path.name) if model.is_classifier else ()
    quantity = "probability" if model.is_classifier else "prediction"
    return Model(model, model, output_names=score_names(labels), quantity=quantity, name=path.name)


class OnnxModel:
    """A function of rows: takes frames or arrays and returns predictions, for classifiers probabilities.

    The graph takes one tensor (rows, columns), or one tensor for each column, which is then found by its name. Of two
    classes only the probability of the second is returned.
    """

    def __init__(self, content: bytes, name: str) -> None:
        self.content = content
        self.name = name
        self._session: Any = None
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        self.inputs: tuple[tuple[str, str], ...] = tuple((tensor.name, tensor.type) for tensor in inputs)
        self.shapes = tuple(tuple(tensor.shape) for tensor in inputs)
        self._check_inputs()
        self.output, self.is_classifier = self._choose_output([(tensor.name, tensor.type) for tensor in outputs])

    @property
    def session(self) -> Any:
        """The session of this process, opened when it is first used."""
        if self._session is None:
            self._session = _open_session(self.content, self.name)
        return self._session

    @property
    def by_column(self) -> bool:
        """Whether there is one input for each column."""
        return len(self.inputs) > 1 or len(self.shapes[0]) == 1 or self.shapes[0][1] == 1

    @property
    def columns(self) -> ModelColumns:
        """Names of the columns, which one tensor for all of them does not have, and their number if it is fixed."""
        if self.by_column:
            names = tuple(name for name, _ in self.inputs) if len(self.inputs) > 1 else None
            return ModelColumns(names, len(self.inputs))
        width = self.shapes[0][1]
        return ModelColumns(None, width if isinstance(width, int) else None)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_session": None}

    def __call__(self, rows: Any) -> FloatArray:
        """Predict rows `(n, columns)`."""
        feeds = self._make_feeds(rows)
        n = len(rows)
        size = self.shapes[0][0]
        if not isinstance(size, int):
            return self._run(feeds)
        parts = []
        for start in range(0, n, size):  # the graph takes exactly this many rows
            chosen = np.minimum(np.arange(start, start + size), n - 1)
            parts.append(self._run({name: array[chosen] for name, array in feeds.items()})[: n - start])
        return np.concatenate(parts)

    def _run(self, feeds: dict[str, Any]) -> FloatArray:
        (raw,) = self.session.run([self.output], feeds)
        if isinstance(raw, list):  # a ZipMap: one dictionary a row, label to probability
            labels = sorted(raw[0])
            raw = [[row[label] for label in labels] for row in raw]
        outputs = np.asarray(raw, dtype=float)
        if outputs.ndim < 2:
            return outputs
        outputs = outputs.reshape(len(outputs), -1)
        if outputs.shape[1] == 1:
            return outputs[:, 0]
        return outputs[:, 1] if self.is_classifier and outputs.shape[1] == 2 else outputs

    def _make_feeds(self, rows: Any) -> dict[str, Any]:
        if not self.by_column:
            (name, kind), array = self.inputs[0], np.asarray(rows)
            return {name: _convert(array, kind, name)}
        by_name = hasattr(rows, "columns") and self.columns.names is not None
        feeds = {}
        for place, (name, kind) in enumerate(self.inputs):
            column = np.asarray(rows[name]) if by_name else np.asarray(rows)[:, place]
            feeds[name] = _convert(column, kind, name).reshape((-1, 1)[: len(self.shapes[place])])
        return feeds

    def _check_inputs(self) -> None:
        for (name, kind), shape in zip(self.inputs, self.shapes, strict=True):
            if kind not in _TYPES:
                raise self._refuse(f"its input {name!r} is of type {kind}")
            wide = len(shape) == 2 and shape[1] != 1
            if len(shape) not in (1, 2) or (wide and len(self.inputs) > 1):
                raise self._refuse(
                    f"its input {name!r} has the shape {list(shape)}; one input (rows, columns) is needed, or one "
                    "input for each column"
                )
        if not self.inputs:
            raise self._refuse("it has no inputs")

    def _choose_output(self, outputs: list[tuple[str, str]]) -> tuple[str, bool]:
        """Return the output to explain, and whether it holds probabilities of classes."""
        maps = [name for name, kind in outputs if kind.startswith("seq(map(")]
        floats = [name for name, kind in outputs if kind in _FLOATS]
        labels = [name for name, kind in outputs if kind in _TYPES and kind not in _FLOATS]
        likely = [name for name in floats if "prob" in name.lower()]
        if len(maps) == 1:
            return maps[0], True
        if len(floats) == 1:
            return floats[0], bool(labels or likely)
        if len(likely) == 1:
            return likely[0], True
        listed = ", ".join(f"{name} {kind}" for name, kind in outputs)
        if not floats and labels:
            raise self._refuse(f"it gives class labels only ({listed}), which have no Shapley values")
        raise self._refuse(f"which of its outputs to explain is not clear ({listed})")

    def _refuse(self, why: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"`model`: {self.name!r} cannot be explained as it is: {why}. Export it again, or give module:function."
        )


def _open_session(content: bytes, name: str) -> Any:
    onnxruntime = require("onnxruntime", extra="onnx", feature=f"`{name}`")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has its own errors, without a common base
        first = str(error).strip().splitlines()[0]
        hint = " Save it as one file, weights included." if "external" in first.lower() else ""
        raise InvalidArgumentError(f"`model`: {name!r} could not be read by onnxruntime ({first}).{hint}") from error


def _class_labels(content: bytes, name: str) -> tuple[str, ...]:
    """Return the labels of the classes, from the last node of the graph that has any."""
    onnx = require("onnx", extra="onnx", feature=f"`{name}`")
    nodes = onnx.load_model_from_string(content).graph.node
    attributes = [attribute for node in nodes for attribute in node.attribute if attribute.name in _LABELS]
    labels = [onnx.helper.get_attribute_value(attribute) for attribute in attributes]
    last = next((values for values in reversed(labels) if len(values)), ())
    return tuple(value.decode(errors="replace") if isinstance(value, bytes) else str(value) for value in last)


def _convert(array: Any, kind: str, name: str) -> Any:
    """Convert a column to the type of an input; a value that the type cannot hold is an error."""
    wanted = _TYPES[kind]
    if wanted is np.str_:
        others = [value for value in array.reshape(-1) if not isinstance(value, str)]
        if others:
            raise InvalidArgumentError(f"The model's input {name!r} takes text; got {others[0]!r}.")
        return np.ascontiguousarray(array, dtype=object)
    try:
        converted = np.ascontiguousarray(array, dtype=wanted)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"The model's input {name!r} takes numbers ({kind}): {error}.") from error
    if converted.dtype.kind in "iub" and not np.array_equal(converted, np.asarray(array, dtype=float)):
        raise InvalidArgumentError(f"The model's input {name!r} takes {kind}; got values that it cannot hold.")
    return converted
