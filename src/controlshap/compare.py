"""Which description of the data fits: the error of its predictions when a part of a row is revealed.

The mean over rows x and coalitions S of `(f(x) - v(S))^2` (Olsen, Glad, Jullum and Aas 2024) is least for the
conditional distribution that the rows come from. With r and r' two independent draws of the row of a coalition, the
product `(f(x) - f(r)) (f(x) - f(r'))` has that mean; with more draws all pairs are taken. Descriptions are compared on
the same rows and coalitions, by their paired differences, whose standard error is that of a mean over rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from controlshap._checks import check_level, check_whole, show
from controlshap._errors import BudgetTooSmallError, InvalidArgumentError
from controlshap._random import Purpose, RngLike, resolve_entropy, stream
from controlshap._types import BoolArray, FloatArray
from controlshap.data.players import Groups
from controlshap.explainer import Explainer
from controlshap.problem import Assembly

#: Fewest rows for a standard error.
FEWEST_ROWS = 10
#: Most draws of a coalition, before there are more coalitions of a row. Differences of descriptions vary by their draws
#: more than by rows: 1,000 rows with six draws of one coalition told two of them apart by 3.7 standard errors, with two
#: draws of three coalitions by 2.8, and another model by 1.9 and 1.2 (benchmarks/absent.py has the data).
MOST_DRAWS = 8


@dataclass(frozen=True, eq=False)
class FeatureComparison:
    """Errors of descriptions of the data, least first.

    Attributes
    ----------
    names : tuple of str
        The descriptions.
    errors, standard_errors : ndarray of shape (descriptions,)
        Mean of `(f(x) - v(S))^2` over rows and coalitions. The part of the prediction that the revealed features do not
        determine is an error that no description can avoid.
    differences, difference_standard_errors : ndarray of shape (descriptions,)
        By how much a description's error exceeds that of the first, on the same rows and coalitions.
    level : float
    n_rows, n_coalitions, n_evaluations : int
        Rows, coalitions of all rows together, and model evaluations, f(x) included.
    """

    names: tuple[str, ...]
    errors: FloatArray
    standard_errors: FloatArray
    differences: FloatArray
    difference_standard_errors: FloatArray
    level: float
    n_rows: int
    n_coalitions: int
    n_evaluations: int

    @classmethod
    def of(
        cls, names: Sequence[str], squares: FloatArray, *, each: int, n_draws: int, level: float
    ) -> FeatureComparison:
        """From mean squares `(descriptions, rows)` over `each` coalitions of a row, with `n_draws` for each."""
        order = np.argsort(squares.mean(axis=1), kind="stable")
        squares = squares[order]
        gaps, n_rows = squares - squares[0], squares.shape[1]
        return cls(
            names=tuple(names[number] for number in order),
            errors=squares.mean(axis=1),
            standard_errors=squares.std(axis=1, ddof=1) / np.sqrt(n_rows),
            differences=gaps.mean(axis=1),
            difference_standard_errors=gaps.std(axis=1, ddof=1) / np.sqrt(n_rows),
            level=level,
            n_rows=n_rows,
            n_coalitions=n_rows * each,
            n_evaluations=n_rows * (1 + each * n_draws * len(names)),
        )

    @property
    def best(self) -> str | None:
        """The first, if no other has a smaller error with probability `level`; None if that is not certain."""
        return self.names[0] if len(self.candidates) == 1 else None

    @property
    def candidates(self) -> tuple[str, ...]:
        """Descriptions that may be the best: all whose difference from the first is not certain."""
        return tuple(name for name, far in zip(self.names, self._is_worse(), strict=True) if not far)

    def _is_worse(self) -> BoolArray:
        """Which are certainly worse than the first (Bonferroni over the others)."""
        others = max(1, len(self.names) - 1)
        reach = student.isf((1.0 - self.level) / others, self.n_rows - 1) * self.difference_standard_errors
        return np.asarray((self.differences > reach) & (np.arange(len(self.names)) > 0))

    def __repr__(self) -> str:
        width = max(11, *(len(name) for name in self.names))
        lines = [f"{'features':<{width}}  {'error':>10} {'±':>9}  {'over best':>10} {'±':>9}"]
        lines += [
            f"{name:<{width}}  {error:>10.4g} {noise:>9.2g}  "
            + (f"{difference:>10.3g} {own:>9.2g}" if number else f"{'':>10} {'':>9}").rstrip()
            for number, (name, error, noise, difference, own) in enumerate(
                zip(
                    self.names, self.errors, self.standard_errors, self.differences, self.difference_standard_errors,
                    strict=True,
                )
            )
        ]  # fmt: skip
        if self.best is not None:
            lines.append(f"best: {self.best}, with probability {self.level:.0%}")
        else:
            lines.append(f"cannot tell {' from '.join(self.candidates)}: give a larger `budget`, or more rows")
        lines.append(f"{self.n_rows:,} rows, {self.n_coalitions:,} coalitions, {self.n_evaluations:,} evaluations")
        return "\n".join(line.rstrip() for line in lines)


def compare_features(
    model: Any,
    X_train: Any,
    X_test: Any,
    features: Sequence[Any] = ("independent", "correlated", "copula"),
    *,
    budget: int = 20_000,
    groups: Groups = None,
    level: float = 0.95,
    rng: RngLike = None,
) -> FeatureComparison:
    """Compare descriptions of the data by how well they predict with a part of a row.

    Parameters
    ----------
    model
        As for `Explainer`.
    X_train : ndarray or frame
        Rows that descriptions are fitted to, as an explainer's background.
    X_test : ndarray or frame
        Other rows of the same kind; tested on the rows that it was fitted to, a description looks better than it is.
    features : list of names or value functions
        Two or more of what `Explainer(features=...)` takes.
    budget : int
        Model evaluations in all. Each row and coalition takes two to eight for each description.
    groups : dict or list, optional
        As for `Explainer`.
    level : float
        With this probability the description that is called best has the least error.
    rng : int, Generator, SeedSequence or None

    Returns
    -------
    FeatureComparison
        Prints as a small table.

    Examples
    --------
    >>> import numpy as np
    >>> import controlshap as cs
    >>> rows = np.random.default_rng(0).normal(size=(1000, 3))
    >>> rows[:, 1] += rows[:, 0]
    >>> comparison = cs.compare_features(
    ...     lambda rows: rows.sum(axis=1), rows[:500], rows[500:], ["independent", "correlated"], rng=0
    ... )
    >>> comparison.best
    'correlated'
    """
    level, entropy = check_level(level), resolve_entropy(rng)
    budget = check_whole("budget", budget, 1, "model evaluations")
    names = _names(features)
    assemblies = [Explainer(model, X_train, features=one, groups=groups).assembly for one in features]
    p = assemblies[0].players.n_players
    if p < 2:
        raise InvalidArgumentError("`groups`: with one player there is no coalition to compare descriptions by.")
    tables = [assembly.read_rows(X_test) for assembly in assemblies]
    n_rows, each, n_draws = _share(budget, len(tables[0]), len(names))
    chosen = stream(entropy, Purpose.COMPARISON, 0).permutation(len(tables[0]))[:n_rows]
    coalitions = _sample_coalitions(p, n_rows, each, stream(entropy, Purpose.COMPARISON, 1))
    at_rows = _evaluate_rows(assemblies[0], tables[0][chosen])
    squares = np.stack(
        [
            _squares(assembly, table[chosen], at_rows, coalitions, n_draws, entropy)
            for assembly, table in zip(assemblies, tables, strict=True)
        ]
    )  # (descriptions, rows)
    return FeatureComparison.of(names, squares, each=each, n_draws=n_draws, level=level)


def _names(features: Sequence[Any]) -> list[str]:
    """Labels of descriptions: their short names, or their reprs."""
    if isinstance(features, str) or not isinstance(features, Sequence) or len(features) < 2:
        raise InvalidArgumentError(
            f"`features` must be a list of two or more descriptions, such as ['independent', 'correlated']; got "
            f"{show(features)}."
        )
    names = [one if isinstance(one, str) else repr(one) for one in features]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidArgumentError(f"`features` has {twice[0]!r} twice. Give each once.")
    return names


def _share(budget: int, n_test: int, n_descriptions: int) -> tuple[int, int, int]:
    """Rows, as many as there are or the budget allows, coalitions of each, and draws of each of these."""
    least = 1 + 2 * n_descriptions
    if n_test < FEWEST_ROWS:
        raise InvalidArgumentError(f"`X_test` must have at least {FEWEST_ROWS} rows, for an error; got {n_test}.")
    if budget < FEWEST_ROWS * least:
        raise BudgetTooSmallError(
            f"`budget` must be at least {FEWEST_ROWS * least} evaluations for {n_descriptions} descriptions "
            f"({FEWEST_ROWS} rows of {least}); got {budget}.",
            FEWEST_ROWS * least,
        )
    n_rows = min(n_test, budget // least)
    draws = (budget // n_rows - 1) // n_descriptions  # of a row and description
    n_draws = min(MOST_DRAWS, draws)
    return n_rows, draws // n_draws, n_draws


def _sample_coalitions(n_players: int, n_rows: int, each: int, rng: np.random.Generator) -> BoolArray:
    """Uniform coalitions `(rows, each, players)`, neither empty nor full."""
    found = rng.random((n_rows, each, n_players)) < 0.5
    while (trivial := found.all(axis=2) | ~found.any(axis=2)).any():
        found[trivial] = rng.random((int(trivial.sum()), n_players)) < 0.5
    return found


def _evaluate_rows(assembly: Assembly, rows: FloatArray) -> FloatArray:
    """Predictions of explained rows, `(rows, outputs)`."""
    inputs = [imputer.to_inputs(own[None])[0] for imputer, own in map(assembly.imputer.for_row, rows)]
    return assembly.model(np.stack(inputs), n_outputs=None, where="X_test")


def _squares(
    assembly: Assembly,
    rows: FloatArray,
    at_rows: FloatArray,
    coalitions: BoolArray,
    n_draws: int,
    entropy: int,
) -> FloatArray:
    """Mean over coalitions and outputs of `(f(x) - v(S))^2` for each row, without bias."""
    squares = np.empty(len(rows))
    each, n_outputs = coalitions.shape[1], at_rows.shape[1]
    most = max(1, assembly.memory_limit // (8 * 6 * n_draws * rows.shape[1] * each))
    for start in range(0, len(rows), most):
        part = range(start, min(len(rows), start + most))
        inputs = []
        for number in part:
            imputer, x = assembly.imputer.for_row(rows[number])
            # the same noise for all descriptions that take it alike
            draws = imputer.sample(n_draws * each, stream(entropy, Purpose.COMPARISON, 2, number))
            drawn = imputer.coalition_rows(x, coalitions[number][:, None], draws.reshape(each, n_draws, -1))
            inputs.append(imputer.to_inputs(drawn.reshape(-1, len(x))))
        predictions = assembly.model(np.concatenate(inputs), n_outputs=n_outputs, where="rows drawn for X_test")
        gaps = at_rows[part.start : part.stop, None, None] - predictions.reshape(len(part), each, n_draws, n_outputs)
        pairs = gaps.sum(axis=2) ** 2 - (gaps**2).sum(axis=2)  # ordered pairs of different draws
        squares[part.start : part.stop] = pairs.mean(axis=(1, 2)) / (n_draws * (n_draws - 1))
    return squares
