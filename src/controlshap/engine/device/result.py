"""The result of the device: arrays for all rows, and where they were computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controlshap.results.collect import RowArrays


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceResult(RowArrays):
    """Results of rows that were computed on a device.

    Attributes
    ----------
    device : str
        Where they were computed.
    dtype : str
        Type of the module's inputs.
    chunk_rows : int
        Rows that went through the module at once, in the end.
    """

    device: str
    dtype: str
    chunk_rows: int

    @property
    def where(self) -> dict[str, Any]:
        """Settings of an explanation that say where it was computed."""
        return {"device": self.device, "device_dtype": self.dtype, "device_chunk": self.chunk_rows}
