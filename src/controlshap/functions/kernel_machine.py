"""Kernel machines with Gaussian or Laplacian kernels: sums of products of functions of one player each.

    g(r) = constant + sum_m coef_m prod_j h_mj(r_j),    h_mj(r_j) = exp(-sum_{c in j} rate_mc |r_c - centre_mc|^power)

Their Shapley values in the game of one draw are the integral over Owen's multilinear extension at the top of
`functions/logistic.py`, whose integrand is a polynomial in t: Gauss-Legendre quadrature is exact.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.functions.base import KnownFunction
from controlshap.functions.logistic import leave_one_out, unit_nodes

#: Numbers in one batch of draws: a few arrays of this size stay in the processor's cache.
BATCH = 2**17


@final
@dataclass(frozen=True)
class KernelMachine(KnownFunction):
    """A sum of products over players.

    Attributes
    ----------
    constant : ndarray of shape (outputs,)
    coef : ndarray of shape (terms, outputs)
    centres, rates : ndarray of shape (terms, columns)
    power : int
        2 for Gaussian kernels, 1 for Laplacian ones.
    """

    constant: FloatArray
    coef: FloatArray
    centres: FloatArray
    rates: FloatArray
    power: int = 2

    name = "kernel form"
    tolerance = 1e-8  # libraries compute squared distances by a formula that cancels

    @property
    def steps_a_draw(self) -> int:
        """Terms, times players, times nodes, of 5 ns each; groups are fewer players."""
        return int(self.centres.size * len(unit_nodes(self.centres.shape[1])[0]))

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values `(n,)` or `(n, outputs)`."""
        parts = []
        step = max(1, 16 * BATCH // max(1, self.centres.size))
        for start in range(0, len(rows), step):
            distances = self._distances(rows[start : start + step])  # (columns, terms, n)
            parts.append(np.exp(-distances.sum(axis=0)).T @ self.coef)
        values: FloatArray = self.constant + np.concatenate(parts)
        return values[:, 0] if self.coef.shape[1] == 1 else values

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Shapley values `(draws, players, ...)`, products integrated at the nodes."""
        at_x = self._factors(x[None], players)
        values = np.empty((len(draws), players.n_players, self.coef.shape[1]))
        step = max(1, BATCH // max(1, at_x.size))
        for start in range(0, len(draws), step):
            at_draws = self._factors(draws[start : start + step], players)
            of_products = product_values(at_x, at_draws)  # (players, terms, draws)
            values[start : start + step] = np.moveaxis(self.coef.T @ of_products, -1, 0)
        return values[..., 0] if self.coef.shape[1] == 1 else values

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Pairwise interactions `(players, players, ...)` of the mean game: all factors but two, integrated."""
        at_x = self._factors(x[None], players)
        index = np.zeros((self.coef.shape[1], players.n_players, players.n_players))
        step = max(1, BATCH // max(1, at_x.size))
        for start in range(0, len(draws), step):
            index += product_interactions(at_x, self._factors(draws[start : start + step], players), self.coef)
        index /= len(draws)
        return index[0] if len(index) == 1 else np.moveaxis(index, 0, -1)

    def _distances(self, rows: FloatArray) -> FloatArray:
        """Terms' weighted distances `(columns, terms, n)`."""
        gaps = np.abs(rows.T[:, None] - self.centres.T[:, :, None])
        return np.asarray(self.rates.T[:, :, None] * gaps**self.power)

    def _factors(self, rows: FloatArray, players: Players) -> FloatArray:
        """The players' factors of the terms, `(players, terms, n)`."""
        return np.asarray(np.exp(-players.sum_columns(self._distances(rows))))


def product_values(at_x: FloatArray, at_draws: FloatArray) -> FloatArray:
    """Shapley values `(players, terms, draws)` of products, from the factors at x (one draw) and at the draws."""
    gaps = at_x - at_draws
    values, factors, products = np.zeros(gaps.shape), np.empty(gaps.shape), np.empty(gaps.shape)
    for node, weight in zip(*unit_nodes(len(gaps)), strict=True):
        np.multiply(gaps, node, out=factors)
        factors += at_draws
        leave_one_out(factors, out=products)
        products *= weight
        values += products
    values *= gaps
    return values


def product_interactions(at_x: FloatArray, at_draws: FloatArray, coef: FloatArray) -> FloatArray:
    """Interactions `(outputs, players, players)`, summed over draws, of products times `coef` `(terms, outputs)`."""
    gaps = at_x - at_draws
    index = np.zeros((coef.shape[1], len(gaps), len(gaps)))
    for node, weight in zip(*unit_nodes(max(1, len(gaps) - 1)), strict=True):
        factors = node * gaps + at_draws
        # at most 1/t or 1/(1 - t); a factor of 0 has no gap either, and makes the product 0
        ratios = np.divide(gaps, factors, out=np.zeros_like(gaps), where=factors > 0).reshape(len(gaps), -1)
        products = weight * factors.prod(axis=0)
        for output, of_terms in enumerate(coef.T):
            index[output] += (ratios * (of_terms[:, None] * products).reshape(-1)) @ ratios.T
    players_alone = np.arange(len(gaps))
    index[:, players_alone, players_alone] = 0.0
    return index


def read_kernel_machine(model: Any, *, margin: bool) -> KernelMachine | None:
    """The sum of kernels that a fitted model of scikit-learn is, or None; a classifier's is its margin."""
    for package, names, is_margin, reader in _READERS:
        module = sys.modules.get(package)
        if is_margin == margin and any(type(model) is getattr(module, name, None) for name in names):
            return reader(model)
    return None


def _read_support_vectors(model: Any) -> KernelMachine | None:
    if model.kernel != "rbf" or len(np.atleast_1d(model.intercept_)) != 1:
        return None  # of several classes, decision functions are votes between pairs of them
    coef = model.dual_coef_.toarray() if hasattr(model.dual_coef_, "toarray") else np.asarray(model.dual_coef_)
    centres = model.support_vectors_
    centres = np.asarray(centres.toarray() if hasattr(centres, "toarray") else centres, dtype=float)
    rates = np.full(centres.shape, float(model._gamma))  # noqa: SLF001 (gamma="scale" is shown nowhere else)
    return KernelMachine(np.array(model.intercept_, dtype=float), coef.T.astype(float), centres, rates)


def _read_kernel_ridge(model: Any) -> KernelMachine | None:
    powers = {"rbf": 2, "laplacian": 1}
    if model.kernel not in powers or not isinstance(model.X_fit_, np.ndarray):
        return None
    centres, coef = np.asarray(model.X_fit_, dtype=float), np.asarray(model.dual_coef_, dtype=float)
    coef = coef.reshape(len(centres), -1)
    rates = np.full(centres.shape, 1.0 / centres.shape[1] if model.gamma is None else float(model.gamma))
    return KernelMachine(np.zeros(coef.shape[1]), coef, centres, rates, powers[model.kernel])


def _read_gaussian_process(model: Any) -> KernelMachine | None:
    if not hasattr(model, "X_train_"):
        return None  # not fitted: the prior
    centres = np.asarray(model.X_train_, dtype=float)
    kernels = _expand_kernel(model.kernel_, centres.shape[1])
    if kernels is None:
        return None
    alpha = np.asarray(model.alpha_, dtype=float).reshape(len(centres), -1) * model._y_train_std  # noqa: SLF001
    rates = [np.broadcast_to(rate, centres.shape) for _, rate in kernels]
    return KernelMachine(
        constant=np.broadcast_to(np.asarray(model._y_train_mean, dtype=float), alpha.shape[1:]),  # noqa: SLF001
        coef=np.concatenate([weight * alpha for weight, _ in kernels]),
        centres=np.tile(centres, (len(kernels), 1)),
        rates=np.concatenate(rates),
    )


def _expand_kernel(kernel: Any, n_columns: int) -> list[tuple[float, FloatArray]] | None:
    """A kernel between different rows as weights times Gaussians of these rates; None where it is none."""
    known = sys.modules["sklearn.gaussian_process.kernels"]
    if type(kernel) is known.ConstantKernel:
        return [(float(kernel.constant_value), np.zeros(n_columns))]
    if type(kernel) is known.RBF:
        return [(1.0, np.broadcast_to(0.5 / np.asarray(kernel.length_scale, dtype=float) ** 2, (n_columns,)))]
    if type(kernel) is known.WhiteKernel:
        return []
    if type(kernel) not in (known.Sum, known.Product):
        return None
    first, second = (_expand_kernel(part, n_columns) for part in (kernel.k1, kernel.k2))
    if first is None or second is None:
        return None
    if type(kernel) is known.Sum:
        return first + second
    return [(a * b, rates + others) for a, rates in first for b, others in second]


#: Package, types, whether what is read is the margin of a classifier, and the reader.
_READERS: tuple[tuple[str, tuple[str, ...], bool, Callable[[Any], KernelMachine | None]], ...] = (
    ("sklearn.svm", ("SVR", "NuSVR"), False, _read_support_vectors),
    ("sklearn.svm", ("SVC", "NuSVC", "OneClassSVM"), True, _read_support_vectors),
    ("sklearn.kernel_ridge", ("KernelRidge",), False, _read_kernel_ridge),
    ("sklearn.gaussian_process", ("GaussianProcessRegressor",), False, _read_gaussian_process),
)
