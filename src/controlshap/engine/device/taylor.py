"""The paper's control for many rows at once: derivatives through `torch.func`, known values by Theorems 1 and 2.

Modules treat the rows of a batch independently in evaluation mode, so one backward pass gives the gradient at every
row, and one directional derivative of that a column of every Hessian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from controlshap._errors import InvalidArgumentError
from controlshap.controls.d_matrices import DMatrices
from controlshap.data.players import Players
from controlshap.statistics.control_variate import KnownValues
from controlshap.statistics.covariance_root import CovarianceRoot


@dataclass(frozen=True)
class TaylorPolynomials:
    """Taylor polynomials at the explained rows.

    Attributes
    ----------
    at_x : tensor of shape (r, o)
    gradient : tensor of shape (r, o, c)
    hessian : tensor of shape (r, o, c, c) or None
    """

    at_x: Any
    gradient: Any
    hessian: Any

    def __getitem__(self, chosen: Any) -> TaylorPolynomials:
        hessian = None if self.hessian is None else self.hessian[chosen]
        return TaylorPolynomials(self.at_x[chosen], self.gradient[chosen], hessian)

    def values(self, rows: Any, gaps: Any) -> Any:
        """Values `(u, n, o)` for x - point `(u, n, c)`, with the explained row `(u,)` of each unit."""
        values = self.at_x[rows][:, None] - gaps @ self.gradient[rows].transpose(1, 2)
        if self.hessian is not None:
            for output in range(values.shape[2]):
                values[:, :, output] += 0.5 * ((gaps @ self.hessian[rows, output]) * gaps).sum(dim=-1)
        return values


def derivatives(module: Any, rows: Any, n_outputs: int, *, second: bool) -> tuple[Any, Any]:
    """Gradients `(r, o, c)` and, if asked for, Hessians `(r, o, c, c)`, in double precision."""
    from torch.func import jvp, vjp

    # compiled modules have no second derivatives; what they were compiled from has
    module = getattr(module, "_orig_mod", module)
    n, c = rows.shape

    def gradients(points: Any, output: int) -> Any:
        outputs, pull = vjp(lambda inputs: module(inputs.clone()).reshape(n, -1), points)
        chosen = torch.zeros_like(outputs)
        chosen[:, output] = 1.0
        return pull(chosen)[0]

    first, bent = [], []
    for output in range(n_outputs):
        first.append(gradients(rows, output).to(torch.float64))
        if second:
            columns = []
            for column in range(c):
                direction = torch.zeros_like(rows)
                direction[:, column] = 1.0
                columns.append(jvp(lambda points, o=output: gradients(points, o), (rows,), (direction,))[1])
            bent.append(torch.stack(columns, dim=-1).to(torch.float64))
    gradient = torch.stack(first, dim=1)
    hessian = torch.stack(bent, dim=1) if second else None
    for name, array in (("gradient", gradient), ("Hessian", hessian)):
        if array is not None and not bool(torch.isfinite(array).all()):
            raise InvalidArgumentError(
                f"`control='taylor'`: the module's {name} has NaN or infinite entries at an explained row. Use "
                "control='none'."
            )
    return gradient, None if hessian is None else 0.5 * (hessian + hessian.transpose(-1, -2))


def known_correlated(matrices: DMatrices, polynomial: TaylorPolynomials, gaps: Any, scale: Any) -> KnownValues:
    """Theorem 2, for gaps x - mean `(r, c)`; simulated D matrices bring their error along."""
    tensor = torch.as_tensor(matrices.matrices, dtype=torch.float64, device=gaps.device)
    n, p, c, _ = tensor.shape
    gradient, gaps = polynomial.gradient * scale, gaps / scale
    moved = (tensor.reshape(n * p * c, c) @ gaps.T).reshape(n, p, c, -1)
    by_replication = torch.einsum("npcr,roc->rnpo", moved, gradient)
    values = by_replication.mean(dim=1)
    base = polynomial.at_x - torch.einsum("roc,rc->ro", gradient, gaps)
    full = torch.cat([values, base[:, None]], dim=1)[..., None]
    if matrices.is_exact:
        return KnownValues.exact(full)
    factors = full.new_zeros((len(gaps), n, *full.shape[1:]))
    factors[:, :, :-1, :, 0] = (by_replication - values[:, None]) / (n * (n - 1)) ** 0.5
    root = CovarianceRoot(factors, np.zeros(n, dtype=np.int64), np.array([n - 1.0]))
    return KnownValues(full, root, np.zeros((0, 1)), shared=True)


def known_independent(polynomial: TaylorPolynomials, x: Any, background: Any, players: Players) -> KnownValues:
    """Theorem 1, with the covariance (divisor n) of the background rows; columns of a group add up."""
    gaps = x - background.mean(dim=0)
    centred = background - background.mean(dim=0)
    covariance = centred.T @ centred / len(background)
    linear = polynomial.gradient * gaps[:, None]
    bent = (polynomial.hessian @ gaps[:, None, :, None])[..., 0] * gaps[:, None]
    by_column = linear - 0.5 * (bent + (polynomial.hessian * covariance).sum(dim=-1))
    values = torch.zeros((len(x), players.n_players, by_column.shape[1]), dtype=x.dtype, device=x.device)
    for column, player in enumerate(players.owner.tolist()):
        values[:, player] += by_column[:, :, column]
    base = polynomial.at_x - by_column.sum(dim=-1)
    return KnownValues.exact(torch.cat([values, base[:, None]], dim=1)[..., None])
