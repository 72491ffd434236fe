"""Functions with known Shapley values: one kind per file, and the models that are recognised as such."""
