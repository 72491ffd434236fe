"""What a file really holds, told from its content; the suffix must agree with it."""

from __future__ import annotations

import io
import json
import pickletools
import zipfile
from pathlib import Path

from controlshap._errors import InvalidArgumentError
from controlshap.models.files.protobuf import is_onnx

#: Which kinds a suffix may stand for; other suffixes say nothing, and the content decides.
SUFFIXES = {
    ".skops": ("skops",),
    ".onnx": ("onnx",),
    ".json": ("xgboost",),
    ".ubj": ("xgboost",),
    ".txt": ("lightgbm",),
    ".joblib": ("pickle", "compressed"),
    ".pkl": ("pickle", "compressed"),
    ".pickle": ("pickle", "compressed"),
    ".pt": ("torch", "torchscript"),
    ".pth": ("torch", "torchscript"),
}
#: Kinds that are loaded, in words, with a suffix that suits them.
MODELS = {
    "skops": ("a skops file", ".skops"),
    "onnx": ("an ONNX model", ".onnx"),
    "xgboost": ("an xgboost model", ".json or .ubj"),
    "lightgbm": ("a lightgbm model", ".txt"),
    "pickle": ("a pickle", ".pkl or .joblib"),
    "compressed": ("compressed data, as joblib writes it", ".joblib"),
    "torch": ("a torch file", ".pt"),
    "torchscript": ("a TorchScript model", ".pt"),
}
#: Kinds whose loading runs code that the file brings along.
RUNS_CODE = ("pickle", "compressed", "torch", "torchscript")
KNOWN = ".skops, .onnx, .json and .ubj (xgboost), .txt (lightgbm), .joblib, .pkl and .pt"

_TORCH_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x5d\x00\x00", b"\x04\x22\x4d\x18", b"\x78\x01", b"\x78\x5e",
               b"\x78\x9c", b"\x78\xda")  # fmt: skip
_STRANGERS = (
    (b"\x89HDF", "an HDF5 file (Keras writes such; export it to ONNX)"),
    (b"CBM1", "a CatBoost model (save it with format='onnx')"),
    (b"PAR1", "a Parquet table, not a model"),
    (b"ARROW1", "an Arrow table, not a model"),
    (b"binf", "an xgboost model in the old binary format (save it again as .json or .ubj)"),
    (b"<?xml", "an XML file (PMML perhaps; export to ONNX instead)"),
)


def kind_of(path: Path) -> str:
    """The kind of model in a file, or an error that says what the file holds instead."""
    if path.is_dir():
        raise InvalidArgumentError(f"`model`: {str(path)!r} is a folder; give one file.")
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        raise InvalidArgumentError(f"`model`: {str(path)!r} is empty.")
    kind, stranger = _content_kind(path, head)
    suffix = path.suffix.lower()
    allowed = SUFFIXES.get(suffix)
    if kind is None:
        what = f"; it holds {stranger}" if stranger else ""
        if allowed is None:
            raise InvalidArgumentError(f"`model`: {str(path)!r} is not a model file that can be read{what}. "
                                       f"Known are {KNOWN}, or a function as module:function.")  # fmt: skip
        expected = MODELS[allowed[0]][0]
        raise InvalidArgumentError(f"`model`: {str(path)!r} ends in {suffix} but is not {expected}, or it is damaged"
                                   f"{what}.")  # fmt: skip
    if allowed is not None and kind not in allowed:
        name, better = MODELS[kind]
        raise InvalidArgumentError(
            f"`model`: {str(path)!r} ends in {suffix} but holds {name}. If that is what it should be, rename it to "
            f"{better}" + ("; loading it then runs code that it brings along." if kind in RUNS_CODE else ".")
        )
    return kind


def _content_kind(path: Path, head: bytes) -> tuple[str | None, str]:
    """The kind, or None and a guess in words."""
    if head.startswith(b"PK\x03\x04"):
        return _archive_kind(path)
    if head.startswith(_TORCH_LEGACY):
        return "torch", ""
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "pickle", ""
    if head.startswith(b"tree") and b"version=" in head[:40]:
        return "lightgbm", ""
    if head.startswith((b"{L", b"{i", b"{U")) and b"learner" in head[:40]:
        return "xgboost", ""
    for magic, words in _STRANGERS:
        if head.startswith(magic):
            return None, words
    if head.lstrip()[:1] == b"{":
        # xgboost writes this first; other JSON is read whole
        return ("xgboost", "") if b'"learner"' in head[:64] else _json_kind(path)
    if head[:1] == b"\x08" and is_onnx(path.read_bytes()):
        return "onnx", ""
    if head.startswith(_COMPRESSED):
        return "compressed", ""
    if _is_old_pickle(path):
        return "pickle", ""
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**27:
        return None, "weights only (safetensors), not a model"
    try:
        head[:4000].decode()
    except UnicodeDecodeError:
        return None, ""
    return None, "plain text"


def _archive_kind(path: Path) -> tuple[str | None, str]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return None, "a zip archive that is cut off or damaged"
    if "schema.json" in names:
        return "skops", ""
    if any(name.endswith("/constants.pkl") or "/code/" in name for name in names):
        return "torchscript", ""
    if any(name.endswith("/data.pkl") or name == "data.pkl" for name in names):
        return "torch", ""
    if any(name.endswith(".npy") for name in names):
        return None, "arrays (npz), not a model"
    return None, "some other zip archive"


def _json_kind(path: Path) -> tuple[str | None, str]:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None, "JSON that is cut off or damaged"
    if isinstance(content, dict) and "learner" in content:
        return "xgboost", ""
    if isinstance(content, dict) and "tree_info" in content:
        return None, "a dump of a lightgbm model, which cannot be loaded (use save_model)"
    return None, "JSON that is not an xgboost model"


def _is_old_pickle(path: Path) -> bool:
    """Protocols 0 and 1 have no magic bytes: a pickle is what reads as operations up to a stop at the end."""
    content = path.read_bytes()
    if not content.rstrip().endswith(b"."):
        return False
    try:
        operations = list(pickletools.genops(io.BytesIO(content)))
    except ValueError:
        return False
    return len(operations) > 2 and operations[-1][2] is not None and operations[-1][2] >= len(content.rstrip()) - 1
