"""Models from files and from references `module:function`, each checked before anything in it is trusted."""

from controlshap.model_files.array_input import with_arrays
from controlshap.model_files.loaded import LoadedModel
from controlshap.model_files.loading import load_model

__all__ = ["LoadedModel", "load_model", "with_arrays"]
