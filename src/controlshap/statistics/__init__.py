"""Estimates, errors and certainty from arrays; knows no model."""
