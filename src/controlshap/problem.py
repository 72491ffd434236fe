"""Everything about an explanation that does not depend on the explained row.

`Assembly` holds the checked arguments of an `Explainer`; `Problem` adds the model's answers on the background.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from controlshap import strategies
from controlshap._arrays import hash_array
from controlshap._checks import check_seconds, check_whole, refuse_missing
from controlshap._errors import NoisyModelWarning
from controlshap._types import FloatArray
from controlshap.controls import Control
from controlshap.data.encoding import Encoding, make_encoding, refuse_categories, refuse_many_levels, refuse_unseen
from controlshap.data.players import Groups, Players, resolve_players
from controlshap.data.table import Table, has_gaps, read_rows, read_table, sample_table
from controlshap.estimators.base import Estimator
from controlshap.functions.base import KnownFunction, warn_not_exact
from controlshap.models.model import Model, as_model, fitted_names, list_versions, warn_of_columns
from controlshap.statistics.base_sample import REPEATED, BaseSample, standard_deviation
from controlshap.values.base import Imputer, ValueFunction
from controlshap.variances.base import Variance

if TYPE_CHECKING:
    from controlshap.controls.shared import Margin, SharedSurrogate
    from controlshap.data.orders import Hierarchy, Order
    from controlshap.values.refits import Refits

#: Most players whose coalitions are enumerated for a known form with correlated features: 2^15 of them take a tenth of
#: a second with 15 columns.
MOST_CONDITIONED = 15


@dataclass(frozen=True)
class Problem:
    """The assembled parts.

    `base` holds the model alone; with draws from a distribution it has one evaluation, which shows the number of
    outputs. `estimator` and `controls` are None if they are chosen by budget ("auto"). `form` is the known form of a
    recognised model, if both are "auto" and it agrees with the model on the background. `shared` is a surrogate that
    was fitted before; `seconds` is the time of an evaluation, if it was stated; `margin` is the known margin of a
    classifier whose probability has no known form; `interactions` is set if a call asks for these, `by_pairs` if they
    may end its runs; `refits` are the fits to parts of the background if the error of the distribution is asked for;
    `noise` (outputs,) is the standard deviation of the answers of a model that answers differently when asked again,
    else None; `output_range` is the range of the outputs if a call asks for a finite guarantee, else None.
    """

    model: Model
    background: FloatArray
    base: BaseSample
    imputer: Imputer
    players: Players
    feature_names: tuple[str, ...]
    estimator: Estimator | None
    controls: tuple[Control, ...] | None
    variance: Variance | None
    coefficient: Literal["auto", "units", "folds"]
    memory_limit: int
    cache: dict[str, Any] = field(default_factory=dict)
    form: KnownFunction | None = None
    shared: SharedSurrogate | None = None
    seconds: float | None = None
    interactions: bool = False
    by_pairs: bool = False
    margin: Margin | None = None
    noise: FloatArray | None = None
    output_range: tuple[float, float] | None = None
    refits: Refits | None = None

    @property
    def correlated(self) -> bool:
        """Whether rows are conditioned rather than mixed."""
        return not self.imputer.mixes_columns

    @property
    def is_plain(self) -> bool:
        """Whether all strategies are "auto", no function is known, and nothing is asked for beside the values."""
        asked = (self.estimator, self.controls, self.variance, self.players.arrangement, self.output_range)
        known = (self.shared, self.margin, self.noise)
        return not self.interactions and all(part is None for part in (*asked, *known))

    def for_row(self, x: FloatArray) -> tuple[Problem, FloatArray]:
        """The problem of one row, and the row in the form that the value function takes."""
        imputer, own = self.imputer.for_row(x)
        return self if imputer is self.imputer else replace(self, imputer=imputer), own


class Assembly:
    """The arguments of an `Explainer`, checked and bound to each other.

    Rows to explain may bring new levels of categories; `read_rows` then extends `encoding` and `model`.

    Attributes
    ----------
    settings : dict
        Arguments of `Explainer` as they were given, without model, background and groups.
    description : dict
        The same as numbers and text, for a result to keep.
    is_frame : bool
        Whether the background was a frame, so that columns go by their names.
    raw_players, players : Players
        Players over the columns of the data, and over those of the encoding.
    libraries : str
        Versions of the libraries in use.
    background : ndarray of shape (n, columns)
        In the columns of the encoding.
    n_background : int
        Rows of the background before any were sampled.
    shared : SharedSurrogate or None
        A surrogate fitted once for all rows.
    cache : dict
        What is computed once for all rows (D matrices).
    """

    def __init__(self, model: Any, background: Any, groups: Groups, settings: Mapping[str, Any]) -> None:
        self.settings = dict(settings)
        # Once, since printing the arrays of a value function may take longer than an explanation.
        self.description = {n: v if isinstance(v, (str, int)) else repr(v) for n, v in self.settings.items()}
        adapted = as_model(
            model, settings.get("output", "auto"), settings.get("of_class")
        )  # older explainers on disk lack it
        self.libraries = list_versions(adapted.source)
        table = read_table(background, "background")
        self.column_names: tuple[str, ...] = table.names or _name_columns(model, table.n_columns)
        self.is_frame = table.names is not None
        if self.is_frame:
            warn_of_columns(model, self.column_names)
        self.raw_players = resolve_players(groups, self.column_names)
        self._arrange(settings.get("order"), settings.get("hierarchy"))
        value_function = strategies.resolve_value_function(settings["features"])
        self.estimator = strategies.resolve_estimator(settings["estimator"])
        self.controls = strategies.resolve_controls(settings["control"])
        self.variance = strategies.resolve_variance(settings["variance"])
        self.coefficient: Literal["auto", "units", "folds"] = settings["coefficient"]
        strategies.check_combination(self.variance, self.estimator, self.coefficient)
        self.memory_limit = check_whole("memory_limit", settings["memory_limit"], 2**20, "bytes; the default is 256 MB")
        most = check_whole("max_background", settings["max_background"], 2, "rows")
        self.seconds = check_seconds(settings["seconds_per_evaluation"])
        if isinstance(settings["control"], str) and settings["control"] == "thorough":
            self.seconds = math.inf  # next to such a model, fitting takes no time
        self.shared: SharedSurrogate | None = None
        self.cache: dict[str, Any] = {}
        self.n_probes = self.n_repeated = 0
        self._form: tuple[KnownFunction | None] | None = None
        self._margin: tuple[KnownFunction | None] | None = None
        self._problem: Problem | None = None
        self.n_background = table.n_rows
        if value_function.draws_background and table.n_rows > most:
            table = sample_table(table, most)
        # missing values are flagged for surrogates, unless the model's own form handles NaN
        flags = has_gaps(table) and value_function.handles_missing
        flags = flags and self._recognise(adapted, value_function, len(table.column(0))) is None
        self.encoding = make_encoding(table, self.column_names, flag_missing=flags)
        self.players: Players = self.encoding.expand(self.raw_players)
        self.background = self.encoding.encode(table, "background")
        if not value_function.handles_missing:
            refuse_missing(self.background, "background", self.encoding.labels)
            refuse_many_levels(self.encoding)
        if not value_function.takes_categories:
            refuse_categories(self.encoding)
        self.imputer = value_function.bind(self.background, self.players, self.encoding.labels)
        self.refits = None
        if settings.get("distribution_errors", False):  # older explainers on disk lack it
            self.refits = self._refit(value_function)
        self.model = put_behind(adapted, self.encoding)

    def _arrange(self, order: Order, hierarchy: Hierarchy) -> None:
        """Give the players their order or hierarchy, if any."""
        if order is not None or hierarchy is not None:
            from controlshap.data.orders import read_arrangement

            arrangement = read_arrangement(order, hierarchy, self.raw_players, self.column_names)
            self.raw_players = replace(self.raw_players, arrangement=arrangement)

    def _refit(self, value_function: ValueFunction) -> Refits:
        from controlshap.values.refits import Refits

        return Refits.of(value_function, self.imputer, self.background, self.players, self.encoding.labels)

    @cached_property
    def background_digest(self) -> str:
        """Digest of the background, to know it again."""
        return hash_array(self.background)

    @property
    def evaluated_once(self) -> dict[str, Any]:
        """Evaluations spent once for all rows, and a digest of the model's answers, as results keep them.

        The answers are those on the background; with random draws, on its center.
        """
        return {
            "n_background_evaluations": self.n_background_evaluations,
            "n_surrogate_evaluations": self.n_surrogate_evaluations,
            "answers_digest": hash_array(self.problem().base.values),
        }

    @property
    def n_background_evaluations(self) -> int:
        """Model evaluations spent once: on the background (one, with random draws), on some again, to read trees."""
        return 0 if self._problem is None else len(self._problem.base.rows) + self.n_probes + self.n_repeated

    @property
    def n_surrogate_evaluations(self) -> int:
        """Model evaluations spent once on a shared surrogate."""
        return 0 if self.shared is None else self.shared.n_evaluations

    def read_rows(self, X: Any) -> FloatArray:
        """Rows to explain as doubles, in the columns of the encoding."""
        table = read_rows(X, self.column_names, named=self.is_frame)
        if not self.imputer.handles_missing:
            refuse_unseen(self.encoding, table)
        self._extend(table)
        rows = self.encoding.encode(table, "X")
        if not self.imputer.handles_missing:
            refuse_missing(rows, "X", self.encoding.labels)
        self.imputer.check(rows, self.encoding.labels)
        return rows

    def _extend(self, table: Table) -> None:
        """Add levels of categories that appear for the first time."""
        encoding = self.encoding.extend(table, "X")
        if encoding is not self.encoding:
            self.encoding = encoding
            self.model = replace(self.model, to_inputs=encoding)
            self._problem = None if self._problem is None else replace(self._problem, model=self.model)

    def draft(self) -> Problem:
        """The problem before any model evaluation: `base` has rows and no values."""
        if self._problem is not None:
            return self._problem
        draws = self.imputer.finite_draws
        # One evaluation shows the outputs when draws are random; v(0) is then estimated with each row.
        rows = self.imputer.center[None] if draws is None else draws
        base = BaseSample(rows, np.empty((len(rows), 0, 1)), math.inf if draws is None else len(rows))
        form = self._recognise(self.model, self.imputer, len(rows)) if self.encoding.is_plain else None
        return Problem(
            self.model, self.background, base, self.imputer, self.players, self.encoding.labels, self.estimator,
            self.controls, self.variance, self.coefficient, self.memory_limit, self.cache, form, self.shared,
            self.seconds, refits=self.refits,
        )  # fmt: skip

    def problem(self) -> Problem:
        """The problem with the model evaluated on the background, which happens once."""
        if self._problem is None:
            draft = self.draft()
            predictions = self.evaluate(draft.base.rows, "background")
            base = replace(draft.base, values=predictions[:, :, None])
            form = None if draft.form is None else _verify(draft.form, base.rows, predictions)
            noise = self._measure_noise(base) if form is None else None
            self._problem = self._with_margin(replace(draft, base=base, form=form, noise=noise))
        return self._problem

    def _measure_noise(self, base: BaseSample) -> FloatArray | None:
        """Ask for some rows again, in another order and batch, and warn if answers differ beyond rounding."""
        places = np.arange(REPEATED) % max(1, len(base.rows))
        rows, answers = base.rows[places], base.values[places, :, 0]
        if not base.finite:  # one row says little of labels
            draws = self.imputer.sample(REPEATED + 1, np.random.default_rng(0))
            imputer, x = self.imputer.for_row(self.background[0])
            rows = imputer.coalition_rows(x, np.zeros((1, 1, self.players.n_players), dtype=bool), draws[None])[0, 0]
            answers, rows = self.evaluate(rows, "background")[1:], rows[1:]
            self.n_repeated += REPEATED + 1
        again = np.roll(self.evaluate(np.roll(rows, 1, axis=0), "background"), -1, axis=0)
        self.n_repeated += REPEATED
        noise = standard_deviation(answers, again)
        if noise is None:
            return None
        warnings.warn(
            "`model` answers differently when it is asked the same row again (standard deviation "
            f"{float(noise.max()):.3g}). Values are those of its mean answer, errors contain the noise, and no row is "
            "exact. Fix the model's random numbers (dropout off, a fixed seed) for values of one function, and let "
            "the answer for a row not depend on the rows beside it.",
            NoisyModelWarning,
            stacklevel=2,
        )
        return noise

    def _with_margin(self, problem: Problem) -> Problem:
        """The problem with the margin as a control, where it is known and the probability is not."""
        wanted = self.encoding.is_plain and self.controls is None and not isinstance(self.model.source, FunctionType)
        wanted = wanted and problem.imputer.known_values == "of draws"
        if problem.form is not None or not wanted or not np.isfinite(problem.base.rows).all():
            return problem
        from controlshap.controls.shared import calibrate_margin
        from controlshap.functions.recognise import evaluations_to_recognise, recognise_margin

        if self._margin is None:
            self._margin = (recognise_margin(self.model.source, len(problem.base.rows)),)
            self.n_probes = evaluations_to_recognise(self.model.source)
        known = self._margin[0]
        if known is None or (self.players.arrangement is not None and not known.takes_arrangements):
            return problem
        return replace(problem, margin=calibrate_margin(known, problem.base.rows, problem.base.values[:, :, 0]))

    def share(self, surrogate: SharedSurrogate) -> None:
        """Use a surrogate for all rows from now on."""
        self.shared = surrogate
        self._problem = None if self._problem is None else replace(self._problem, shared=surrogate)

    def set_background_predictions(self, predictions: FloatArray) -> None:
        """Take f(background) `(n, outputs)` from an earlier run, so that a resumed one has the same bits."""
        problem = self.problem()
        if problem.base.finite:
            base = replace(problem.base, values=predictions[:, :, None])
            self._problem = self._with_margin(replace(problem, base=base))

    def evaluate(self, rows: FloatArray, what: str) -> FloatArray:
        """The model on rows `(n, columns)`, shape (n, outputs), in batches under the memory limit."""
        parts: list[FloatArray] = []
        step = max(1, self.memory_limit // (8 * 6 * rows.shape[1]))
        for start in range(0, len(rows), step):
            inputs = self.imputer.to_inputs(rows[start : start + step])
            n_outputs = parts[0].shape[1] if parts else None
            where = f"{what} rows {start} to {start + len(inputs) - 1}"
            parts.append(self.model(inputs, n_outputs=n_outputs, where=where))
        return np.concatenate(parts)

    def copy(self, cache: dict[str, Any] | None = None) -> Assembly:
        """A copy that extends its own encoding, and keeps what is computed once in `cache` if that is given."""
        copied = copy.copy(self)
        if cache is not None:
            copied.cache = cache
            problem = None if self._problem is None else replace(self._problem, cache=cache)
            copied._problem = problem  # noqa: SLF001 (a copy of this very object)
        return copied

    def _recognise(self, model: Model, value_function: ValueFunction | Imputer, n_rows: int) -> KnownFunction | None:
        """The model's exact form, where "auto" may use it; looked for once, since it may ask the model."""
        if isinstance(model.source, FunctionType):
            return None
        from controlshap.functions.recognise import evaluations_to_recognise, recognise
        from controlshap.models.derivatives.closed_form import closed_form

        # conditioned rows are no mixes of x and a draw: what is known then are means over normal scores
        normal = isinstance(value_function, Imputer) and value_function.has_normal_inputs
        normal = normal and closed_form(model.source) is not None and self.players.n_players <= MOST_CONDITIONED
        if not (value_function.mixes_columns or normal):
            return None
        if self.estimator is not None or self.controls is not None:
            return None
        if self._form is None:
            self._form = (recognise(model.source, n_rows),)
            self.n_probes = evaluations_to_recognise(model.source)
        form = self._form[0]
        if form is not None and self.raw_players.arrangement is not None and not form.takes_arrangements:
            return None
        return None if form is None or (normal and not form.score_functions) else form


def _name_columns(model: Any, n: int) -> tuple[str, ...]:
    """Names of the columns of an array: those that the model was fitted on, or numbers."""
    names = fitted_names(model)
    return names if names is not None and len(names) == n else tuple(f"x{i}" for i in range(n))


def _verify(form: KnownFunction, rows: FloatArray, predictions: FloatArray) -> KnownFunction | None:
    """The form, where it predicts what the model predicted; not where a subclass predicts something else."""
    from controlshap.functions.recognise import agrees

    if agrees(form, rows, predictions, predictions).all():
        return form
    warn_not_exact(form.name, "that form does not predict what the model predicts on the background")
    return None


def put_behind(model: Model, encoding: Encoding) -> Model:
    """The model as a function of doubles: the encoding makes its own inputs of them."""
    if encoding.is_plain and encoding.maker is None:
        return model
    # derivatives and forms are read from a model whose inputs are the columns, not from one behind an encoding
    source = model.source if encoding.is_plain else encoding
    return replace(model, source=source, to_inputs=encoding)
