"""Many rows of a torch module at once, on the module's device: built, evaluated and reduced there.

The statistics are those of the rest of the library: paired walks, the background in shuffled cycles, two-stage
variances, a closed sum, the Taylor control. What differs is that all explained rows go through together and that random
numbers come from a counter. Importing this package does not import torch; `controlshap.engine.device.explain` does.
"""
