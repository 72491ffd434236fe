"""Pairwise Shapley interactions with errors, from the evaluations of an ordinary explanation."""

from controlshap.interactions.estimate import estimate_interactions, known_interactions

__all__ = ["estimate_interactions", "known_interactions"]
