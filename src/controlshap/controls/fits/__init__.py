"""Fitting functions with known Shapley values to evaluated rows; one kind per file. Arrays only."""
