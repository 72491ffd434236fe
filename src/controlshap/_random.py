"""Random streams: made at the point of use from (entropy, purpose, row, chunk), never stored.

Every consumer has a purpose of its own, so that turning one feature on does not change the draws
of another, and every chunk of every row has a stream of its own, so that any worker can produce
it and a run can go on where it stopped.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

import numpy as np

from controlshap._checks import is_whole
from controlshap._errors import InvalidArgumentError

RngLike: TypeAlias = "int | np.random.Generator | np.random.SeedSequence | None"
"""What `rng=` accepts."""

#: Seed of everything that belongs to the explainer and not to one call (D matrices, shared draws).
EXPLAINER_ENTROPY = 20231011


class Purpose(IntEnum):
    """First part of a stream's key."""

    COALITIONS = 0
    DRAWS = 1
    VISITS = 2
    RESAMPLING = 3
    FOLDS = 4
    D_MATRICES = 5
    BASE = 6
    BACKGROUND = 7
    KNOWN_VALUES = 8
    SURROGATE = 9
    INTERACTIONS = 10
    LEARNING = 11
    MIXTURE = 12
    AFTER_PILOT = 13
    COMPARISON = 14
    DISTRIBUTION = 15


def resolve_entropy(rng: RngLike) -> int:
    """The integer that reproduces the run; fresh entropy is drawn (and later recorded) for None."""
    if rng is None:
        return int(np.random.SeedSequence().generate_state(2, np.uint64)[0])
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(0, 2**63))
    if isinstance(rng, np.random.SeedSequence):
        return int(rng.generate_state(1, np.uint64)[0])
    if not is_whole(rng):
        raise InvalidArgumentError(
            "`rng` must be an integer, a numpy Generator, a SeedSequence or None; "
            f"got {type(rng).__name__}. Pass for example `rng=0`."
        )
    if rng < 0:
        raise InvalidArgumentError(f"`rng` must not be negative; got {rng}. Pass for example `rng=0`.")
    return int(rng)


def stream(entropy: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """The generator for one purpose, row and chunk; equal keys give equal streams."""
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(int(purpose), *key)))
