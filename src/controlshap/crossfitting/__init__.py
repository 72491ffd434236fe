"""Controls fitted to the sampled evaluations, fold by fold."""
