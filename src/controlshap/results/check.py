"""Whether errors look right: two halves of each row's units against each other, tested over all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtrc, stdtrit

from controlshap._types import FloatArray
from controlshap.results.wording import count_noun, join_words, shorten_in_sentence

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Tolerated share of misses of 95 % intervals: 5 %, and 1 % since half of the units know less about their error.
PUT_UP_WITH = 0.06
#: Chance of a false alarm.
ALARM = 0.05
#: Fewest rows for a test.
FEWEST_ROWS = 5
#: Most players that are named.
N_NAMED = 3


@dataclass(frozen=True)
class Check:
    """How often intervals from one half of a row's units miss the other half.

    Attributes
    ----------
    looks_right : bool or None
        Whether no more are missed than is tolerated, by a test over rows with 5 % false alarms; None where too few rows
        have errors.
    missed : float
        Share of the values with an error that are missed; 0.05 is expected.
    missed_by_player : ndarray of shape (players,)
        The same for each player.
    suspicious : tuple of str
        Players whose intervals miss too often, by a test for all players together.
    n_rows : int
        Rows that were compared.
    """

    looks_right: bool | None
    missed: float
    missed_by_player: FloatArray
    suspicious: tuple[str, ...]
    n_rows: int

    def __str__(self) -> str:
        if self.looks_right is None:
            return (
                f"Errors cannot be checked: {count_noun(self.n_rows, 'row')} with two halves of units, too few to tell."
            )
        share = (
            f"in {count_noun(self.n_rows, 'row')} one half of the units misses the other for {100 * self.missed:.0f} % "
            "of the values (5 % are expected)"
        )
        if self.looks_right:
            return f"Errors look right on this model: {share}."
        of_players = ""
        if self.suspicious:
            named = join_words([shorten_in_sentence(name) for name in self.suspicious[:N_NAMED]])
            more = f" and {len(self.suspicious) - N_NAMED} more" if len(self.suspicious) > N_NAMED else ""
            of_players = f", most of all for {named}{more}"
        return f"Errors look too small on this model: {share}{of_players}. Raise `budget`, or use guarantee='finite'."

    __repr__ = __str__


def check_errors(explanation: Explanation) -> Check:
    """Compare the halves of all rows, each row counting once."""
    p = explanation.values.shape[1]
    nothing = Check(None, 0.0, np.zeros(p), (), 0)
    if explanation.half_ratios is None or not len(explanation):
        return nothing
    rows = len(explanation)
    errors = explanation.standard_errors.reshape(rows, p, -1) > 0
    missed = (explanation.half_ratios.reshape(errors.shape) > 1.0) & errors
    used = errors.any(axis=(1, 2))
    n_rows = int(used.sum())
    if n_rows == 0:
        return nothing
    of_rows = missed.sum(axis=(1, 2))[used] / errors.sum(axis=(1, 2))[used]
    # values of a row miss together, so a row is one observation of a share; of skewed shares Student's bound is too low
    spread = max(float(of_rows.std(ddof=1)), 1.0 / p / n_rows) if n_rows > 1 else 1.0
    least = of_rows.mean() + stdtrit(max(n_rows - 1, 1), ALARM / 2.0) * spread / np.sqrt(n_rows)
    # of one player rows are independent: a count
    by_player, with_error = missed.any(axis=2).sum(axis=0), errors.any(axis=2).sum(axis=0)
    chance = np.where(by_player > 0, bdtrc(np.maximum(by_player - 1.0, 0.0), with_error, PUT_UP_WITH), 1.0)
    several = explanation.values.ndim == 3  # outputs of a player miss together
    found = np.flatnonzero(chance <= ALARM / 2.0 / p) if not several else np.zeros(0, dtype=np.int64)
    suspicious = found[np.argsort(chance[found], kind="stable")]
    right = bool(least <= PUT_UP_WITH) and not len(suspicious)
    return Check(
        right if n_rows >= FEWEST_ROWS else None,
        float(of_rows.mean()),
        by_player / np.maximum(with_error, 1),
        tuple(explanation.feature_names[player] for player in suspicious),
        n_rows,
    )
