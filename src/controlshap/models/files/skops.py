"""skops files: estimators as data. Only types in a list of harmless ones are built."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

from controlshap._errors import InvalidArgumentError, MissingExtraError
from controlshap._imports import require

#: Types that are built beside those that skops trusts itself (public estimators of scikit-learn, arrays, plain Python
#: data): parts of fitted estimators that hold numbers, and the boosters. Modules are named one by one, because a whole
#: package would hold functions that do more than compute.
VETTED = re.compile(
    "|".join(
        (
            r"numpy\.dtype",
            r"collections\.OrderedDict",
            r"scipy\.interpolate\._bsplines\.BSpline",
            r"scipy\._lib\.array_api_compat\.numpy\._aliases\.asarray",
            r"sklearn\._loss\.(loss|link|_loss)\.(Half|Absolute|Pinball|Huber|Exponential|Identity|Log|Multinomial|Cy)\w+",
            r"sklearn\.calibration\._(CalibratedClassifier|SigmoidCalibration|TemperatureScaling)",
            r"sklearn\.compose\._column_transformer\._RemainderColsList",
            r"sklearn\.ensemble\._hist_gradient_boosting\.(predictor\.TreePredictor|binning\._BinMapper)",
            r"sklearn\.gaussian_process\._gpc\._BinaryGaussianProcessClassifierLaplace",
            r"sklearn\.gaussian_process\.kernels\.(ConstantKernel|DotProduct|Exponentiation|ExpSineSquared|Matern"
            r"|Product|RBF|RationalQuadratic|Sum|WhiteKernel|CompoundKernel|PairwiseKernel)",
            r"sklearn\.impute\._iterative\.(IterativeImputer|_ImputerTriplet)",
            r"sklearn\.metrics\._dist_metrics\.\w+Distance(32|64)?",
            r"sklearn\.neighbors\._(kd|ball)_tree\.(KD|Ball)Tree(32|64)?",
            r"sklearn\.neural_network\._stochastic_optimizers\.(Adam|SGD)Optimizer",
            r"sklearn\.tree\._tree\.Tree",
            r"sklearn\.utils\._bunch\.Bunch",
            r"xgboost\.core\.Booster",
            r"xgboost\.sklearn\.XGB(RF)?(Classifier|Regressor|Ranker)",
            r"lightgbm\.basic\.Booster",
            r"lightgbm\.sklearn\.LGBM(Classifier|Regressor|Ranker)",
        )
    )
)
#: Modules whose compiled code trusts what a file says about trees and vectors.
_COMPILED = re.compile(rb'"(sklearn\.(tree|ensemble|neighbors|svm|metrics)|xgboost|lightgbm)\.')


def has_compiled_parts(path: Path) -> bool:
    """Return whether damaged numbers in a file could crash the process."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _COMPILED.search(archive.read("schema.json")) is not None
    except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError, RuntimeError, OSError, EOFError):
        return False  # skops cannot read it either, and says so


def load_skops(path: Path) -> Any:
    """Build the estimator, or name the types that are not in the list."""
    io = require("skops.io", extra="skops", feature=f"`{path.name}`")
    content = path.read_bytes()
    try:
        untrusted = list(io.get_untrusted_types(data=content))
        refused = sorted(name for name in untrusted if VETTED.fullmatch(name) is None)
        if not refused:
            return io.loads(content, trusted=untrusted)
    except ImportError as error:
        raise MissingExtraError(
            f"`{path.name}` holds parts of a package that is not installed here ({error}); install it."
        ) from error
    except Exception as error:  # skops raises errors of many kinds on a file that is not what it says
        raise InvalidArgumentError(
            f"`model`: {str(path)!r} could not be read by skops ({type(error).__name__}: {error}); it is damaged, or "
            "another version wrote it."
        ) from error
    raise InvalidArgumentError(
        f"`model`: {str(path)!r} holds types that are not in the list of those known to be harmless: "
        f"{', '.join(refused)}. Nothing was loaded. If you trust the file, load it in a module of your own and give "
        "module:function."
    )
