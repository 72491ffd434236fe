"""Array operations that numpy and torch spell differently, and small ones that several rooms share.

The statistics are written once for both. `namespace(array)` is the module whose functions work on an array; most of
them have the same name in both, and the others are here. What all explained rows have in common (labels, counts,
weights, folds) is a numpy array on the host in either case, and `to_like` brings it to the data.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import sys
from typing import Any, TypeAlias

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray

Array: TypeAlias = Any
"""A numpy array or a torch tensor of doubles; shapes may have leading axes, for explained rows."""

#: Largest eigenvalue that counts as 0 in a pseudo-inverse, next to the largest of all.
SINGULAR = 1e-8
#: The smallest normal double, which stands in for a scale of 0.
TINY = float(np.finfo(float).tiny)


def ranks(permutations: IntArray) -> IntArray:
    """Position of each player in each permutation, shape of `permutations`."""
    return np.argsort(permutations, axis=-1)


def prefix_masks(places: Array, n_players: int) -> Array:
    """Players or columns `(u, players - 1, c)` that the prefixes 1 to players - 1 of permutations reveal.

    `places` (u, c) are those of the players, or of each column's player.
    """
    lengths = namespace(places).arange(1, n_players, device=places.device)
    return places[:, None, :] < lengths[None, :, None]


def is_tensor(array: Array) -> bool:
    """Whether an array is a torch tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def namespace(array: Array) -> Any:
    """`torch` for a tensor, else `numpy`."""
    return sys.modules["torch"] if is_tensor(array) else np


def to_like(host: Any, array: Array) -> Array:
    """A numpy array where `array` is: itself, or a tensor on the same device."""
    if not is_tensor(array):
        return host
    tensor = sys.modules["torch"].as_tensor(host)
    if array.device.type == "cuda":  # a copy from other than pinned memory waits for all that the GPU has to do
        return tensor.pin_memory().to(array.device, non_blocking=True)
    return tensor.to(array.device)


def zeros(shape: tuple[int, ...], array: Array) -> Array:
    """Zeros of the kind, and on the device, of `array`."""
    return array.new_zeros(shape) if is_tensor(array) else np.zeros(shape)


def empty(shape: tuple[int, ...], array: Array) -> Array:
    """Space of the kind, and on the device, of `array`, to be written to."""
    return array.new_empty(shape) if is_tensor(array) else np.empty(shape)


def concat(arrays: list[Array], axis: int) -> Array:
    """Arrays joined along an axis; not a copy where only one of them has anything along it."""
    filled = [array for array in arrays if array.shape[axis]] or arrays[:1]
    return filled[0] if len(filled) == 1 else namespace(filled[0]).concatenate(filled, axis=axis)


def take(array: Array, index: IntArray, axis: int) -> Array:
    """Slices of an axis, by numbers that all explained rows share."""
    if is_tensor(array):
        return array.index_select(axis, to_like(index, array))
    return np.take(array, index, axis=axis)


def at_least(array: Array, bound: float) -> Array:
    """The larger of each entry and a bound."""
    return array.clamp(min=bound) if is_tensor(array) else np.maximum(array, bound)


def weighted_sum(weights: FloatArray, array: Array, axis: int) -> Array:
    """Sum over an axis with weights `(n,)`; for weights `(batch, n)` the batch is the first axis of the result."""
    axes = ([weights.ndim - 1], [axis % array.ndim])
    return namespace(array).tensordot(to_like(weights, array), array, axes)


def sum_products(first: Array, second: Array, axis: int) -> Array:
    """Sum of products along an axis; other axes broadcast. Nothing of the size of the products is kept by numpy."""
    if not is_tensor(first):
        rest = "abcdef"[: -1 - axis]
        return np.einsum(f"...k{rest},...k{rest}->...{rest}", first, second)
    if axis == -1 and first.shape[-1]:  # functions, of which there are few
        products = (first[..., k] * second[..., k] for k in range(first.shape[-1]))
        return functools.reduce(operator.add, products)
    return (first * second).sum(dim=axis)


def gram(factors: Array) -> Array:
    """Products of functions summed over factors, `(..., c, o, f, f)` for `factors` (..., n, c, o, f)."""
    n = factors.shape[-1]
    # numpy's loops would be over so few functions that each step costs more than its product
    functions = factors.unbind(-1) if is_tensor(factors) else np.ascontiguousarray(np.moveaxis(factors, -1, 0))
    products = {(f, g): sum_products(functions[f], functions[g], axis=-3) for f in range(n) for g in range(f, n)}
    both = [products[min(f, g), max(f, g)] for f in range(n) for g in range(n)]
    if not is_tensor(factors):
        return np.stack(both, axis=-1).reshape(*both[0].shape, n, n)
    return namespace(factors).stack(both, dim=-1).unflatten(-1, (n, n))


def quadratic_form(vectors: Array, matrices: Array) -> Array:
    """`v' M v` for `vectors` (..., g) and symmetric `matrices` (..., g, g)."""
    if is_tensor(vectors) or not vectors.shape[-1]:
        return sum_products(sum_products(matrices, vectors[..., None, :], axis=-1), vectors, axis=-1)
    parts, total = np.ascontiguousarray(np.moveaxis(vectors, -1, 0)), 0.0
    for g, part in enumerate(parts):  # of which there are few, as in `gram`
        row = matrices[..., g, g] * part
        for h in range(g):
            row += 2.0 * matrices[..., g, h] * parts[h]
        row *= part
        total = total + row
    return total


def diagonal(matrices: Array) -> Array:
    """Diagonals `(..., g)` of matrices `(..., g, g)`: a view, to be written to."""
    return matrices.diagonal(dim1=-2, dim2=-1) if is_tensor(matrices) else np.einsum("...gg->...g", matrices)


def subtract_where(mask: BoolArray, array: Array, center: Array) -> Array:
    """`array - center` where a mask holds that all explained rows share, else 0; a tensor `center` is overwritten."""
    if is_tensor(array):
        return center.sub_(array).mul_(to_like(-mask.astype(float), array))  # no new memory, and no choice
    return np.where(mask, array - center, 0.0)


def variance(array: Array, axis: int, ddof: int) -> Array:
    """Variance along an axis with divisor n - ddof."""
    return array.var(dim=axis, correction=ddof) if is_tensor(array) else array.var(axis=axis, ddof=ddof)


def descending(array: Array, axis: int) -> Array:
    """The numbers along an axis, largest first."""
    return array.sort(dim=axis, descending=True).values if is_tensor(array) else -np.sort(-array, axis=axis)


def median(array: Array, axis: int) -> Array:
    """Medians along an axis, which is kept."""
    n = array.shape[axis]
    ordered = array.sort(dim=axis).values if is_tensor(array) else np.sort(array, axis=axis)
    middle = take(ordered, np.array([(n - 1) // 2, n // 2]), axis=axis)
    return middle.mean(axis=axis, keepdims=True)


def pseudo_inverse(matrices: Array) -> Array:
    """Pseudo-inverses of symmetric matrices without negative eigenvalues, singular values below 1e-8 taken as 0.

    1e-8 is the square root of the rounding of doubles: eigenvalues of a covariance are known to rounding of the largest
    one, so that standard deviations of combinations below that are noise.
    """
    xp = namespace(matrices)
    if matrices.shape[-1] == 1:
        positive = matrices > 0
        return xp.where(positive, 1.0 / xp.where(positive, matrices, 1.0), 0.0)
    if xp is np:
        return np.linalg.pinv(matrices, rcond=SINGULAR, hermitian=True)
    if matrices.shape[-1] == 2:
        return _pseudo_inverse_of_pairs(matrices)
    return xp.linalg.pinv(matrices, rtol=SINGULAR, hermitian=True)


def _pseudo_inverse_of_pairs(matrices: Array) -> Array:
    """The same of tensors `(..., 2, 2)` in closed form: libraries of GPUs refuse hundreds of thousands at once."""
    xp = namespace(matrices)
    first, cross, second = matrices[..., 0, 0], matrices[..., 0, 1], matrices[..., 1, 1]
    largest = (0.5 * (first + second) + xp.hypot(0.5 * (first - second), cross))[..., None, None]
    some = largest > 0
    largest = xp.where(some, largest, 1.0)
    unit = matrices / largest  # its eigenvalues are 1 and its determinant
    first, cross, second = unit[..., 0, 0], unit[..., 0, 1], unit[..., 1, 1]
    smallest = (first * second - cross**2)[..., None, None]
    whole = smallest > SINGULAR
    adjugate = xp.stack([second, -cross, -cross, first], dim=-1).unflatten(-1, (2, 2))
    projection = (unit - smallest * to_like(np.eye(2), unit)) / xp.where(whole, 1.0, 1.0 - smallest)
    inverse = xp.where(whole, adjugate / xp.where(whole, smallest, 1.0), projection)
    return xp.where(some, inverse / largest, 0.0)


def sum_by(labels: IntArray, array: Array, n_labels: int, axis: int = 0) -> Array:
    """Sum along an axis over equal labels 0 to n_labels - 1, each of which occurs."""
    if not is_tensor(array):
        order = np.argsort(labels, kind="stable")
        starts = np.searchsorted(labels[order], np.arange(n_labels))
        return np.add.reduceat(np.take(array, order, axis=axis), starts, axis=axis)
    axis = axis % array.ndim
    if (labels == np.arange(len(labels)) % n_labels).all():
        # the labels in turn: whole lines of them, and the beginning of another
        n_lines, n_more = divmod(len(labels), n_labels)
        lines, more = array.split([n_lines * n_labels, n_more], dim=axis)
        sums = lines.unflatten(axis, (n_lines, n_labels)).sum(dim=axis)
        sums.narrow(axis, 0, n_more).add_(more)
        return sums
    # a product with 0 and 1 adds in the same order every time, which scattered additions on a GPU do not
    member = to_like((labels == np.arange(n_labels)[:, None]).astype(float), array)
    return namespace(array).tensordot(member, array, ([1], [axis])).movedim(0, axis)


def batches(n: int, array: Array) -> list[slice]:
    """Parts of an axis of n to work on in turn: one by one where tensors of many rows would leave a processor's cache.

    All at once otherwise: numpy holds one explained row, and a GPU prefers few large operations.
    """
    in_turn = is_tensor(array) and array.device.type == "cpu"
    return [slice(k, k + 1) for k in range(n)] if in_turn else [slice(0, n)]


def sum_by_fold(labels: IntArray, array: Array, n_labels: int, kept: BoolArray) -> Array:
    """Sums `(..., folds, n_labels, c, o, f)` over labels, of what each fold keeps of `array` (..., n, c, o, f)."""
    if is_tensor(array):
        member = to_like(kept[:, None] * (labels == np.arange(n_labels)[:, None]).astype(float), array)
        return namespace(array).tensordot(member, array, ([2], [array.ndim - 4])).movedim((0, 1), (-5, -4))
    masked = np.where(kept[..., None, None, None], array[..., None, :, :, :, :], 0.0)
    return sum_by(labels, masked, n_labels, axis=-4)


def hash_array(array: FloatArray) -> str:
    """Sixteen digits of a digest of shape and bits: two of 10^9 arrays share one with a probability of 3 %."""
    found = hashlib.sha256(repr(array.shape).encode())
    found.update(np.ascontiguousarray(array, dtype=float).tobytes())
    return found.hexdigest()[:16]
