"""Explanations and explainers on disk."""
