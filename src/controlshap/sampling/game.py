"""The game of one row: values of coalitions for the model and the surrogates, on the same rows.

Rows are built and evaluated in batches under the memory limit; the split changes nothing but rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.controls.base import Context, Control, PreparedControl
from controlshap.estimators.base import Estimator
from controlshap.functions.base import KnownFunction
from controlshap.models.model import Model
from controlshap.problem import Problem
from controlshap.sampling.kept import EvaluationLog, Recording
from controlshap.sampling.known_rows import Keys, KnownRows
from controlshap.statistics import two_stage
from controlshap.statistics.base_sample import BaseSample
from controlshap.statistics.batches import Batches
from controlshap.statistics.control_variate import KnownValues
from controlshap.statistics.visits import UnitIds
from controlshap.values.base import Imputer

#: Copies of a row that exist at once: masks, the row, the model's own copy, a surrogate's products.
COPIES = 6


@dataclass
class RowGame:
    """Evaluates coalitions of the players for one explained row.

    Attributes
    ----------
    x : ndarray of shape (columns,)
    at_x : ndarray of shape (outputs, functions)
        v(all): every function at x.
    log : EvaluationLog
        The evaluations so far.
    """

    x: FloatArray
    imputer: Imputer
    at_x: FloatArray
    memory_limit: int
    log: EvaluationLog = field(default_factory=EvaluationLog, kw_only=True)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of the model."""
        return int(self.at_x.shape[0])

    @property
    def n_functions(self) -> int:
        """Number of functions that are evaluated on the same rows."""
        return int(self.at_x.shape[1])

    def evaluate(self, rows: FloatArray) -> FloatArray:
        """All functions on rows `(..., columns)`, shape `(..., outputs, functions)`."""
        raise NotImplementedError

    def start_values(self, draws: FloatArray) -> FloatArray:
        """v_b(0) `(u, d, outputs, functions)` of draws `(u, d, columns)`, noted where interactions need it."""
        values = self.evaluate(draws)
        if self.log.means is not None:
            self.log.starts.append(values[..., 0].mean(axis=1))
        return values

    def coalition_values(self, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Values `(u, k, d, outputs, functions)` of coalitions `(u, k, players)` with draws `(u, d, columns)`."""
        values = self._evaluate_coalitions(coalitions, draws)
        self.log.note(values[..., 0])
        return values

    def _evaluate_coalitions(self, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        u, k, _ = coalitions.shape
        n_draws, n_columns = draws.shape[1:]
        values = np.empty((u, k, n_draws, self.n_outputs, self.n_functions))
        per_coalition = n_draws * n_columns * COPIES + self.imputer.workspace(walk=False)
        if per_coalition * k * 8 <= self.memory_limit:
            for part in self.slices(u, per_coalition * k):
                values[part] = self._of_coalitions(coalitions[part], draws[part])
            return values
        for unit in range(u):
            for part in self.slices(k, min(per_coalition, self.memory_limit // 8)):
                for some in self.slices(n_draws, n_columns * COPIES * (part.stop - part.start)):
                    one = slice(unit, unit + 1)
                    values[unit, part, some] = self._of_coalitions(coalitions[one, part], draws[one, some])[0]
        return values

    def _of_coalitions(self, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        return self.evaluate(self.imputer.coalition_rows(self.x, coalitions, draws))

    def _of_walks(self, permutations: IntArray, draws: FloatArray) -> FloatArray:
        return self.evaluate(self.imputer.walk_rows(self.x, permutations, draws))

    def walk_values(self, permutations: IntArray, draws: FloatArray, at_draws: FloatArray) -> FloatArray:
        """Values along walks, end points included, averaged over draws.

        Parameters
        ----------
        permutations : ndarray of shape (u, players)
        draws : ndarray of shape (u, d, columns)
        at_draws : ndarray of shape (u, d, outputs, functions)
            v_b(0) of each draw.

        Returns
        -------
        ndarray of shape (u, players + 1, outputs, functions)
        """
        u, p = permutations.shape
        values = np.empty((u, p + 1, self.n_outputs, self.n_functions))
        values[:, 0] = at_draws.mean(axis=1)
        values[:, p] = self.at_x
        n_draws, n_columns = draws.shape[1:]
        per_walk = (p - 1) * n_draws * n_columns * COPIES + self.imputer.workspace(walk=True)
        outputs = []
        for part in self.slices(u, per_walk):
            by_draw = self._of_walks(permutations[part], draws[part])
            values[part, 1:p] = by_draw.mean(axis=2)
            outputs.append(by_draw[..., 0])
        self.log.note(np.concatenate(outputs))
        return values

    def slices(self, n: int, doubles_each: int) -> Iterator[slice]:
        """Batches of `n` things of so many doubles each, under the memory limit."""
        step = max(1, int(self.memory_limit // (8 * max(1, doubles_each))))
        for start in range(0, n, step):
            yield slice(start, min(n, start + step))


@dataclass
class Game(RowGame):
    """The game of the model and, after it, the surrogates; counts model evaluations.

    Attributes
    ----------
    known : KnownRows or None
        Rows that are known and not evaluated; None where coalitions do not mix the columns of two rows.
    """

    model: Model
    surrogates: tuple[PreparedControl, ...]
    label: str
    n_evaluations: int = 0
    known: KnownRows | None = None

    def remember(self, rows: FloatArray, outputs: FloatArray) -> None:
        """Take the outputs of x and of these rows as known, and never ask the model for them again."""
        known = np.concatenate([self.x[None], rows]), np.concatenate([self.at_x[None, :, 0], outputs])
        self.known = KnownRows.of(self.imputer.players, *known)

    def evaluate(self, rows: FloatArray) -> FloatArray:
        """All functions on rows `(..., columns)`, shape `(..., outputs, functions)`."""
        rows = rows[..., : len(self.x)]  # draws may have further columns
        flat = rows.reshape(-1, rows.shape[-1])
        return self._beside_surrogates(rows, self._ask(flat) if len(flat) else np.empty((0, self.n_outputs)))

    def _of_coalitions(self, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        rows = self.imputer.coalition_rows(self.x, coalitions, draws)
        if self.known is None:
            return self.evaluate(rows)
        return self._recall(self.known, rows, self.known.coalition_keys(self.x, coalitions, draws))

    def _of_walks(self, permutations: IntArray, draws: FloatArray) -> FloatArray:
        rows = self.imputer.walk_rows(self.x, permutations, draws)
        if self.known is None:
            return self.evaluate(rows)
        return self._recall(self.known, rows, self.known.walk_keys(self.x, permutations, draws))

    def _recall(self, known: KnownRows, rows: FloatArray, keys: Keys) -> FloatArray:
        flat = rows.reshape(-1, rows.shape[-1])
        return self._beside_surrogates(rows, known.recall(keys, lambda numbers: self._ask(flat[numbers])))

    def _ask(self, rows: FloatArray) -> FloatArray:
        """The model's outputs `(n, outputs)` of rows `(n, columns)`, counted."""
        where = f"{self.label}, evaluations {self.n_evaluations} to {self.n_evaluations + len(rows) - 1}"

        def model(some: FloatArray) -> FloatArray:
            return self.model(self.imputer.to_inputs(some), n_outputs=self.n_outputs, where=where)

        self.n_evaluations += len(rows)
        return self.log.recording.evaluate(rows, model)

    def _beside_surrogates(self, rows: FloatArray, outputs: FloatArray) -> FloatArray:
        """Outputs of the model with those of the surrogates, `(..., outputs, functions)`."""
        flat = rows.reshape(-1, rows.shape[-1])
        values = np.empty((len(flat), self.n_outputs, self.n_functions))
        values[..., 0] = outputs.reshape(len(flat), self.n_outputs)
        for number, surrogate in enumerate(self.surrogates if len(flat) else (), start=1):
            values[..., number] = surrogate.predict(flat)
        return values.reshape(*rows.shape[:-1], self.n_outputs, self.n_functions)

    def evaluate_surrogates(self, rows: FloatArray) -> FloatArray:
        """The surrogates alone on rows `(n, columns)`, shape `(n, outputs, surrogates)`."""
        values = np.empty((len(rows), self.n_outputs, len(self.surrogates)))
        for number, surrogate in enumerate(self.surrogates):
            for part in self.slices(len(rows), rows.shape[-1]):
                values[part, :, number] = surrogate.predict(rows[part])
        return values


@dataclass
class FunctionGame(RowGame):
    """Fitted functions alone, without model evaluations.

    Attributes
    ----------
    functions : tuple of tuples of KnownFunction
        For each output its functions.
    """

    functions: tuple[tuple[KnownFunction, ...], ...]

    @classmethod
    def of(
        cls, functions: tuple[tuple[KnownFunction, ...], ...], x: FloatArray, imputer: Imputer, memory_limit: int
    ) -> FunctionGame:
        """The game of these functions at x."""
        at_x = np.array([[one.predict(x[None])[0] for one in of_output] for of_output in functions])
        return cls(x, imputer, at_x, memory_limit, functions)

    def evaluate(self, rows: FloatArray) -> FloatArray:
        """All functions on rows `(..., columns)`, shape `(..., outputs, functions)`."""
        rows = rows[..., : len(self.x)]  # draws may have further columns
        flat = rows.reshape(-1, rows.shape[-1])
        values = np.empty((len(flat), self.n_outputs, self.n_functions))
        if len(flat):
            for output, of_output in enumerate(self.functions):
                parts = {id(part): part for function in of_output for part in function.summands}
                of_parts = {key: part.predict(flat) for key, part in parts.items()}
                for number, function in enumerate(of_output):
                    values[:, output, number] = sum(of_parts[id(part)] for part in function.summands)
        return values.reshape(*rows.shape[:-1], self.n_outputs, self.n_functions)


def start_game(
    problem: Problem,
    controls: Sequence[Control],
    budget: int,
    x: FloatArray,
    at_x: FloatArray,
    row: int,
    recording: Recording,
    n_evaluations: int,
) -> tuple[Game, KnownValues | None]:
    """The game of a row with controls prepared for it, whose evaluations are counted, and their known values."""
    label = f"row {row}"
    plain = Game(
        x, problem.imputer, at_x[:, None], problem.memory_limit, problem.model, (), label, n_evaluations=n_evaluations,
        log=EvaluationLog(recording),
    )  # fmt: skip
    if not controls:
        return plain, None

    def evaluate(rows: FloatArray) -> FloatArray:
        parts = [plain.evaluate(rows[part])[:, :, 0] for part in plain.slices(len(rows), 6 * rows.shape[1])]
        return np.concatenate(parts)

    context = Context(
        x, at_x, problem.background, evaluate, budget, problem.model, problem.imputer, problem.players,
        problem.feature_names, problem.cache,
    )  # fmt: skip
    surrogates = tuple(control.prepare(context) for control in controls)
    at_x_all = np.stack([at_x, *(surrogate.predict(x[None])[0] for surrogate in surrogates)], axis=1)
    game = Game(
        x, problem.imputer, at_x_all, problem.memory_limit, problem.model, surrogates, label, plain.n_evaluations,
        log=EvaluationLog(recording),
    )  # fmt: skip
    return game, KnownValues.stack([surrogate.known for surrogate in surrogates])


def sample_base(
    problem: Problem, game: Game, estimator: Estimator, n_draws: int, budget: int, rng: np.random.Generator
) -> BaseSample:
    """The sample behind v(0): the background or draws for this row; a placeholder where units draw their own."""
    base = problem.base
    if base.finite:
        if not game.surrogates:
            return base
        values = np.concatenate([base.values, game.evaluate_surrogates(base.rows)], axis=2)
        return BaseSample(base.rows, values, base.population)
    if estimator.evaluates_base(finite=False):
        return BaseSample(base.rows, np.zeros((1, *game.at_x.shape)), base.population)
    left = budget - game.n_evaluations - n_draws
    n_units = left // estimator.unit_cost(problem.players.n_players, finite=False)
    if min(n_draws, n_units) > two_stage.MANY_UNITS:
        return _merge_base(problem, game, n_draws, rng)
    rows = problem.imputer.sample(n_draws, rng)
    return BaseSample(rows, game.evaluate(rows), base.population)


def _merge_base(problem: Problem, game: Game, n_draws: int, rng: np.random.Generator) -> BaseSample:
    """Many draws, in batches as units are, and as many at once as the memory limit allows."""
    batches, some = Batches(1), problem.base.rows[:1]
    for part in game.slices(n_draws, COPIES * len(game.x)):
        some = problem.imputer.sample(part.stop - part.start, rng)
        number = np.arange(part.start, part.stop)
        batches.add(UnitIds(number, np.zeros_like(number), number), game.evaluate(some))
    return BaseSample(some[:1], batches.means(), problem.base.population, batches.design(np.inf).sizes)
