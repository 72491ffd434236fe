"""A shared surrogate of cosines on the device: its values, and its Shapley values for many rows and draws at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch

from controlshap.controls.shared import SharedSurrogate
from controlshap.engine.device.evaluation import free_bytes
from controlshap.functions.waves import Waves, wave_values

#: Doubles of scores that are held at once: a gigabyte on a GPU, where few large steps are fastest, if that is a
#: sixteenth of its memory; on a processor what stays in its cache.
MOST_AT_ONCE = {"cuda": 2**27, "cpu": 2**18}
SIXTEENTH = 16


def at_once(device: Any) -> int:
    """Doubles to hold at once."""
    return min(MOST_AT_ONCE[device.type], free_bytes(device) // (8 * SIXTEENTH))


@contextmanager
def full_precision() -> Iterator[None]:
    """Products of matrices in all digits of their type, whatever the module takes."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@dataclass(frozen=True)
class DeviceWaves:
    """Sums of cosines, one for each output, in the columns of the data.

    Attributes
    ----------
    weights : tensor of shape (units, c)
        Of the units of all outputs.
    intercepts : tensor of shape (units,)
    scales : tensor of shape (units, o)
        0 for units of other outputs.
    linear : tensor of shape (c, o)
    constant : tensor of shape (o,)
    units : tuple of slice
        The units of each output.
    dtype : torch.dtype
        In which it is evaluated: that of the module, single precision at least.
    """

    weights: Any
    intercepts: Any
    scales: Any
    linear: Any
    constant: Any
    units: tuple[slice, ...]
    dtype: Any

    @classmethod
    def of(cls, surrogate: SharedSurrogate, device: Any, dtype: Any) -> DeviceWaves:
        """The functions of a surrogate that have a form for devices."""
        functions = cast("tuple[Waves, ...]", surrogate.functions)
        parts = (
            np.concatenate([one.weights for one in functions]),
            np.concatenate([one.intercepts for one in functions]),
            torch.block_diag(*(torch.as_tensor(one.scales[:, None]) for one in functions)),
            np.stack([one.linear for one in functions], axis=1),
            np.array([one.constant for one in functions]),
        )
        weights, intercepts, scales, linear, constant = (
            torch.as_tensor(part, dtype=torch.float64, device=device) for part in parts
        )
        ends = np.cumsum([len(one.weights) for one in functions]).tolist()
        units = tuple(slice(start, end) for start, end in pairwise([0, *ends]))
        wide = torch.promote_types(dtype, torch.float32)
        return cls(weights, intercepts, scales, linear, constant, units, wide)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return int(self.scales.shape[1])

    def values(self, rows: Any) -> Any:
        """Values `(n, o)`, doubles, on rows `(n, c)`."""
        n, step = len(rows), max(1, at_once(rows.device) // len(self.weights))
        weights, intercepts, scales, linear = (
            part.to(self.dtype) for part in (self.weights.T, self.intercepts, self.scales, self.linear)
        )
        values = rows.new_empty((n, self.n_outputs), dtype=torch.float64)
        with full_precision():
            for start in range(0, n, step):
                some = rows[start : start + step].to(self.dtype)
                values[start : start + step] = torch.addmm(intercepts, some, weights).cos_() @ scales + some @ linear
        return values.add_(self.constant)

    def draw_values(self, x: Any, draws: Any, owner: Any, n_players: int) -> Any:
        """Shapley values `(r, M, players, o)` of the game of each row `(r, c)` and draw `(M, c)`."""
        member = torch.nn.functional.one_hot(owner, n_players).to(x.dtype)  # (c, players)
        gaps = x[:, None] - draws
        values = torch.einsum("rmc,co,cp->rmpo", gaps, self.linear, member)
        parts = torch.einsum("cp,hc->pch", member, self.weights)
        of_draws = torch.einsum("mc,pch->phm", draws, parts)[:, :, None].to(self.dtype)
        step = max(1, at_once(x.device) // (4 * of_draws.numel()))
        for start in range(0, len(x), step):
            some = slice(start, start + step)
            at_x = torch.einsum("rc,pch->phr", x[some], parts)[..., None].to(self.dtype)
            for output, own in enumerate(self.units):
                intercepts, scales = (
                    part[own, None, None].to(self.dtype) for part in (self.intercepts, self.scales[:, output])
                )
                of_output = wave_values(at_x[:, own], of_draws[:, own], intercepts, scales)
                values[some, :, :, output] += of_output.permute(1, 2, 0)
        return values
