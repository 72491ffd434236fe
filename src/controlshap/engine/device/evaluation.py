"""The module on rows that are on its device already: types, shapes, memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from controlshap._checks import is_whole
from controlshap._errors import InvalidArgumentError, ModelOutputError
from controlshap._types import AnyArray, IntArray

#: Raised where a device has no memory left; older versions of torch know it by its first name.
OutOfMemory: Any = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
#: Rows that go through the module at once, where memory does not say otherwise; four times as many are no faster.
MOST_ROWS = {"cuda": 2**21, "cpu": 2**12}
#: Share of the memory that rows under construction may take, and terms with what the analysis makes of them.
ROWS_SHARE, TERMS_SHARE = 0.125, 0.5
#: Copies of the terms that the analysis makes.
TERM_COPIES = 16
#: Numbers that are copied to the host at once: 32 MB of doubles.
BUFFER = 2**22
#: Bytes to plan with where the device does not say how much is free.
CPU_BYTES = 2**30


@dataclass(frozen=True)
class DeviceEvaluator:
    """A module, where its inputs go, and how many outputs it has (None before the first call)."""

    module: Any
    device: Any
    dtype: Any
    n_outputs: int | None = None

    @classmethod
    def of(cls, module: Any, device: Any) -> DeviceEvaluator:
        """Inputs follow the module's first floating-point parameter, as everywhere in the library."""
        wanted = None if device is None else torch.device(device)
        if wanted is not None and wanted.type == "cpu":
            wanted = torch.device("cpu")  # there is one, whatever its number
        for parameter in module.parameters():
            if parameter.is_floating_point():
                home = parameter.device
                if wanted is not None and (wanted.type != home.type or wanted.index not in (None, home.index)):
                    raise InvalidArgumentError(
                        f"`device={str(device)!r}`: the module is on {str(home)!r}, and is never moved for you. Use "
                        f"module.to({str(device)!r}), or device={home.type!r}."
                    )
                return cls(module, home, parameter.dtype)
        return cls(module, wanted or torch.device("cpu"), torch.get_default_dtype())

    def __call__(self, inputs: Any, where: str, *, once: bool = False) -> Any:
        """Outputs `(n, outputs)` in double precision; whether they are finite is checked later, all at once.

        `once` says that nobody needs the inputs after.
        """
        try:
            # copies, on both sides: a module may write to its input, and to what it returned
            raw = self.module(inputs.to(self.dtype, copy=not once))
        except OutOfMemory:
            raise
        except Exception as error:
            error.add_note(f"controlshap: the module raised this on {where} ({len(inputs)} rows).")
            raise
        n = len(inputs)
        if not isinstance(raw, torch.Tensor) or raw.ndim not in (1, 2) or len(raw) != n or raw.numel() == 0:
            got = f"shape {tuple(raw.shape)}" if isinstance(raw, torch.Tensor) else type(raw).__name__
            raise ModelOutputError(
                f"The model must return one value per row, shape ({n},) or ({n}, outputs); on {where} it returned "
                f"{got}. Make it work on a batch of rows."
            )
        if raw.is_complex():
            raise ModelOutputError(f"The model must return real numbers; on {where} it returned {raw.dtype}.")
        outputs = raw.detach().reshape(n, -1).to(torch.float64, copy=True)
        if self.n_outputs is not None and outputs.shape[1] != self.n_outputs:
            raise ModelOutputError(
                f"The model returned {self.n_outputs} outputs a row before and {outputs.shape[1]} on {where}. "
                "It must return the same shape at every call."
            )
        return outputs


def refuse_not_finite(values: Any, numbers: Sequence[int] | IntArray, where: str) -> None:
    """Check all values `(r, ...)` at once; the error names the first row with one that is not finite."""
    bad = ~torch.isfinite(values.reshape(len(values), -1)).all(dim=1)
    places = torch.nonzero(bad)
    if len(places):
        raise ModelOutputError(
            f"The model must return finite values; on {where} {numbers[int(places[0])]} it returned NaN or infinite "
            "values. Explained and background rows are mixed column by column: can the model handle such rows?"
        )


def evaluate_rows(evaluator: DeviceEvaluator, conditioner: Any, rows: Any, where: str, first_row: int) -> Any:
    """The module on plain rows `(n, c)`, in chunks; a `Conditioner` makes inputs of latent columns."""
    parts: dict[int, Any] = {}

    def work(start: int, stop: int) -> None:
        some = rows[start:stop]
        inputs = some if conditioner is None else conditioner.to_inputs(some)
        parts[start] = evaluator(inputs, f"{where}s {first_row + start} to {first_row + stop - 1}")

    in_chunks(len(rows), MOST_ROWS["cpu"], work, "row")
    outputs = torch.cat([parts[start] for start in sorted(parts)])
    refuse_not_finite(outputs, range(first_row, first_row + len(rows)), where)
    return outputs


def in_chunks(n: int, chunk: int, work: Callable[[int, int], None], what: str) -> int:
    """Do `work(start, stop)` for all of `n`, in halves where memory runs out; returns the chunk that was used last."""
    start = 0
    while start < n:
        stop = min(n, start + chunk)
        error = _attempt(work, start, stop)
        if error is None:
            start = stop
            continue
        if stop - start == 1:
            raise InvalidArgumentError(
                f"The device ran out of memory with a single {what} at once. Free memory on it, use a smaller type "
                "(module.to(torch.bfloat16)), or explain on another device."
            ) from error
        del error  # holds the frames, and with them the tensors, of what failed
        chunk = (stop - start) // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return chunk


def _attempt(work: Callable[[int, int], None], start: int, stop: int) -> BaseException | None:
    try:
        work(start, stop)
    except OutOfMemory as error:
        return error.with_traceback(None)  # type: ignore[no-any-return]
    return None


def most_rows(asked: int | None, device: Any, doubles_each: int) -> int:
    """Rows to put through the module at once: as asked, or as many as are worth it and fit into memory."""
    if asked is None:
        fits = int(ROWS_SHARE * free_bytes(device) // (8 * doubles_each))
        return max(1, min(MOST_ROWS["cuda" if device.type == "cuda" else "cpu"], fits))
    if not is_whole(asked) or asked < 1:
        raise InvalidArgumentError(f"`chunk_rows` must be a whole number of at least 1; got {asked!r}.")
    return int(asked)


def to_host(tensor: Any) -> AnyArray:
    """A tensor as an array; from a GPU through a small page-locked buffer, which is several times faster."""
    if tensor.device.type != "cuda":
        return np.asarray(tensor.cpu().numpy())
    flat = tensor.reshape(-1)
    array = np.empty(flat.shape, dtype=torch.empty(0, dtype=tensor.dtype).numpy().dtype)  # in large pages
    buffer = torch.empty(min(len(flat), BUFFER), dtype=tensor.dtype, pin_memory=True)
    for start in range(0, len(flat), BUFFER):
        part = flat[start : start + BUFFER]
        torch.from_numpy(array[start : start + BUFFER]).copy_(buffer[: len(part)].copy_(part))
    return array.reshape(tensor.shape)


def all_to_host(tensors: dict[str, Any]) -> dict[str, AnyArray]:
    """Tensors of doubles as arrays, in one copy: each would wait for the GPU."""
    flat = to_host(torch.cat([tensor.reshape(-1) for tensor in tensors.values()]))
    ends = np.cumsum([tensor.numel() for tensor in tensors.values()])
    parts = np.split(flat, ends[:-1])
    return {name: part.reshape(tensor.shape) for (name, tensor), part in zip(tensors.items(), parts, strict=True)}


def free_bytes(device: Any) -> int:
    """Memory to plan with."""
    if device.type != "cuda":
        return CPU_BYTES
    free, _ = torch.cuda.mem_get_info(device)
    # what torch holds in reserve and does not use is free as well
    held = torch.cuda.memory_stats(device)  # takes a while: asked once
    idle = held.get("reserved_bytes.all.current", 0) - held.get("allocated_bytes.all.current", 0)
    return int(free) + int(idle)
