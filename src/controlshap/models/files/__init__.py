"""Models from files and from references `module:function`, each checked before anything in it is trusted."""

from controlshap.models.files.array_input import with_arrays
from controlshap.models.files.load import load_model
from controlshap.models.files.loaded import LoadedModel

__all__ = ["LoadedModel", "load_model", "with_arrays"]
