"""Random numbers from counters: the same bits on every device, whatever is computed together.

A number belongs to (entropy, purpose, explained row, unit, player) and is the splitmix64 mix of these, nested. Integer
arithmetic wraps and is exact, so that permutations and visits agree to the bit between devices; normal numbers agree to
rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from controlshap._arrays import to_like
from controlshap._random import Purpose
from controlshap._types import FloatArray

#: Steps of the counter on each level, odd; the first is splitmix64's own.
GOLDEN, SECOND, THIRD = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0xABC98388FB8FAC03
#: Low bits of a sorting key that hold the index, so that no two keys are equal.
INDEX_BITS = 20


def to_signed(number: int) -> int:
    """The 64 bits of a number as torch's signed integer."""
    number &= 2**64 - 1
    return number - 2**64 if number >= 2**63 else number


def mix(bits: Any) -> Any:
    """The finalizer of splitmix64: a bijection of 64 bits in which every input bit reaches every output bit."""
    bits = (bits ^ shift_right(bits, 30)) * to_signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ shift_right(bits, 27)) * to_signed(0x94D049BB133111EB)
    return bits ^ shift_right(bits, 31)


def shift_right(bits: Any, by: int) -> Any:
    """A shift to the right that fills with zeros; torch's own repeats the sign."""
    return (bits >> by) & (2 ** (64 - by) - 1)


def row_keys(entropy: int, purpose: Purpose, rows: Any) -> Any:
    """A key for each explained row, by its number (int64 tensor)."""
    seeds = np.random.SeedSequence(entropy, spawn_key=(int(purpose),)).generate_state(2, np.uint64)
    return mix(mix(rows * to_signed(GOLDEN) + to_signed(int(seeds[0]))) ^ to_signed(int(seeds[1])))


def unit_keys(keys: Any, units: Any) -> Any:
    """A key for each unit of a row; both tensors have the same shape, or broadcast."""
    return mix(keys + (units + 1) * to_signed(SECOND))


def random_words(keys: Any, n: int) -> Any:
    """`n` random words for each key, shape (..., n)."""
    counter = (torch.arange(n, device=keys.device) + 1) * to_signed(THIRD)
    return mix(keys[..., None] + counter)


def random_keys(keys: Any, n: int) -> Any:
    """`n` keys, all different, whose order is uniform."""
    high = (random_words(keys, n) >> INDEX_BITS) << INDEX_BITS
    return high | torch.arange(n, device=keys.device)


def random_ranks(keys: Any, n: int) -> Any:
    """Place of each of `n` players in a uniform permutation, shape (..., n): counted, which needs no sort."""
    sort = random_keys(keys, n)
    return (sort[..., None, :] < sort[..., :, None]).sum(dim=-1)


def random_orders(keys: Any, n: int) -> Any:
    """Uniform permutations of 0 to n - 1, shape (..., n)."""
    return random_keys(keys, n).argsort(dim=-1)


def random_sizes(keys: Any, probabilities: FloatArray) -> Any:
    """A number from 1 on for each key, with these probabilities; independent of the key's ranks."""
    n = len(probabilities) + 1  # players, whose ranks take as many words
    uniform = to_uniform(mix(keys + to_signed((n + 1) * THIRD)))
    limits = to_like(np.cumsum(probabilities)[:-1], keys)
    return 1 + torch.bucketize(uniform, limits)


def to_uniform(words: Any) -> Any:
    """Doubles between 0 and 1."""
    return (shift_right(words, 12).to(torch.float64) + 0.5) * 2.0**-52


def standard_normals(keys: Any, n: int) -> Any:
    """`n` independent standard normal numbers for each key, doubles."""
    return torch.special.ndtri(to_uniform(random_words(keys, n)))


def random_integers(keys: Any, n: int) -> Any:
    """One of 0 to n - 1 for each key; `n` is far below 2^32, so that the remainder is even enough."""
    return shift_right(mix(keys), 1) % n
