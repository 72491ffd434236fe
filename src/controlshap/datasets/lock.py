"""One run in a folder at a time: two would write what the other measured, and clear away its unfinished parts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlshap._errors import InvalidArgumentError


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the folder and hold it; the system lets go of it when this process ends, however that happens.

    Where the system or the disk knows no such locks, nothing is held.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidArgumentError(
                f"`out`: another process is at work in {str(folder)!r}. Wait for it, or use another folder."
            ) from error
        except OSError:  # a network disk without locks
            pass
        yield
    finally:
        os.close(handle)
