"""Sums of values over groups of players, with their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import show
from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.results.axes import field_names, with_outputs

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


def sum_by_group(explanation: Explanation, groups: Mapping[str, Sequence[str]] | None) -> Explanation:
    """The explanation of groups in place of players; `groups` are those of its hierarchy, by default."""
    members = _members(explanation, groups)
    sums = np.zeros((len(members), len(explanation.feature_names)))
    for number, players in enumerate(members.values()):
        sums[number, players] = 1.0
    columns, outputs = explanation.player_columns, explanation.values.shape[2:]
    shape = (len(explanation), len(members), *outputs)
    covariance = np.einsum("gp,ropq,hq->rogh", sums, with_outputs(explanation, "covariance"), sums)
    variances = np.moveaxis(np.diagonal(covariance, axis1=2, axis2=3), 1, 2)
    errors = np.sqrt(np.maximum(variances, 0.0)).reshape(shape)
    plain = _plain_errors(explanation, sums).reshape(shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        reduction = np.where(plain > 0, np.clip(1.0 - (errors / plain) ** 2, 0.0, 1.0), 0.0)
    dof = np.stack([explanation.degrees_of_freedom[:, players].min(axis=1) for players in members.values()], axis=1)
    changed: dict[str, Any] = {
        "values": _add(sums, explanation.values),
        "standard_errors": errors,
        "uncontrolled_values": _add(sums, explanation.uncontrolled_values),
        "uncontrolled_standard_errors": plain,
        "variance_reduction": reduction,
        "degrees_of_freedom": dof,
        "covariance": covariance.reshape(len(covariance), *outputs, *covariance.shape[2:]),
        "feature_names": tuple(members),
        "player_columns": tuple(tuple(c for p in players for c in columns[p]) for players in members.values()),
        "evaluations": None,
        "history": None,
    }
    # whatever else is known of players or of their pairs is not known of groups
    others = {name for axis in ("players", "pairs") for name in field_names(explanation, axis=axis)} - set(changed)
    changed.update(dict.fromkeys(others))
    return replace(explanation, **changed)


def _add(sums: FloatArray, values: FloatArray) -> FloatArray:
    """Sums `(rows, groups, ...)` of values `(rows, players, ...)`."""
    return np.asarray(np.einsum("gp,rp...->rg...", sums, values))


def _plain_errors(explanation: Explanation, sums: FloatArray) -> FloatArray:
    """Errors `(rows, groups, outputs)` of sums without control.

    Their covariance is not kept: players are taken to correlate as with control.
    """
    errors, plain = (
        np.moveaxis(with_outputs(explanation, name), 1, 2)
        for name in ("standard_errors", "uncontrolled_standard_errors")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = with_outputs(explanation, "covariance") / (errors[..., :, None] * errors[..., None, :])
    correlation = np.where(np.isfinite(correlation), correlation, np.eye(errors.shape[-1]))
    variances = np.einsum("gp,rop,ropq,roq,gq->rog", sums, plain, correlation, plain, sums)
    return np.moveaxis(np.sqrt(np.maximum(variances, 0.0)), 1, 2)


def _members(explanation: Explanation, groups: Mapping[str, Sequence[str]] | None) -> dict[str, list[int]]:
    """Numbers of the players of each group."""
    if groups is None:
        groups = explanation.settings.get("player_groups")
        if not groups:
            raise InvalidArgumentError(
                "`groups`: the explanation was made without `hierarchy`. Name the groups: "
                "explanation.by_group({'person': ['age', 'sex'], ...})."
            )
    if not isinstance(groups, Mapping) or not groups:
        raise InvalidArgumentError(f"`groups` must be a dict of lists of players; got {show(groups)}.")
    names, members, seen = explanation.feature_names, dict[str, list[int]](), set[str]()
    for name, players in groups.items():
        if isinstance(players, str) or not isinstance(players, Sequence) or len(players) == 0:
            raise InvalidArgumentError(f"`groups`: {name!r} must be a non-empty list of players; got {show(players)}.")
        for player in players:
            if player not in names:
                raise InvalidArgumentError(
                    f"`groups`: {name!r} names {show(player)}, which is no player. The players are {list(names)[:8]}."
                )
            if player in seen:
                raise InvalidArgumentError(f"`groups`: {player!r} is named twice. Keep it in one group.")
            seen.add(player)
        members[str(name)] = [names.index(player) for player in players]
    alone = {player: [number] for number, player in enumerate(names) if player not in seen}
    return members | alone
