"""Models from files and from references `module:function`."""

from controlshap.models.files.load import LoadedModel, load_model, with_arrays

__all__ = ["LoadedModel", "load_model", "with_arrays"]
