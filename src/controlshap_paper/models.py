"""The paper's three models: logistic regression, a tanh network with 50 hidden units, a random forest."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controlshap import InvalidArgumentError
from controlshap._imports import require
from controlshap_paper.data import FloatArray, PaperData

NAMES = ("logistic", "network", "forest")
#: Seed of the forests, and of networks that are fitted here.
SEED = 0


@dataclass(frozen=True)
class TanhNetwork:
    """Two layers and a softmax over two classes: the probability of class 1 for standardised rows.

    A bare callable on purpose: an explainer sees no derivatives, as for any black box, unless it is given them.
    """

    first: FloatArray
    first_bias: FloatArray
    second: FloatArray
    second_bias: FloatArray

    @property
    def _difference(self) -> tuple[FloatArray, float]:
        """A softmax over two is a logistic function of their difference."""
        return self.second[1] - self.second[0], float(self.second_bias[1] - self.second_bias[0])

    def __call__(self, rows: FloatArray) -> FloatArray:
        """The probability of class 1, `(n,)`."""
        weights, bias = self._difference
        hidden = rows @ self.first.T
        hidden += self.first_bias
        score = np.tanh(hidden, out=hidden) @ weights + bias
        probability: FloatArray = 1.0 / (1.0 + np.exp(-score))
        return probability

    def gradient(self, x: FloatArray) -> FloatArray:
        """First derivatives at a row."""
        _, chance, slopes = self._at(x)
        return chance * (1.0 - chance) * slopes

    def hessian(self, x: FloatArray) -> FloatArray:
        """Second derivatives at a row."""
        hidden, chance, slopes = self._at(x)
        bends = self._difference[0] * -2.0 * hidden * (1.0 - hidden**2)
        of_score = np.einsum("h,hc,hd->cd", bends, self.first, self.first)
        slope = chance * (1.0 - chance)
        result: FloatArray = slope * of_score + slope * (1.0 - 2.0 * chance) * np.outer(slopes, slopes)
        return result

    def _at(self, x: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """Hidden units, the probability, and the gradient of the score."""
        weights, bias = self._difference
        hidden = np.tanh(self.first @ x + self.first_bias)
        chance = 1.0 / (1.0 + math.exp(-float(hidden @ weights + bias)))
        return hidden, chance, (weights * (1.0 - hidden**2)) @ self.first


def load_network(name: str, folder: Path) -> TanhNetwork:
    """The network that was published for a data set."""
    file = folder / f"nn_weights_{name}.npz"
    if not file.is_file():
        raise InvalidArgumentError(f"There is no {file.name} in {folder}: the weights of the published network.")
    with np.load(file) as stored:
        parts = ("linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias")
        return TanhNetwork(*(stored[part].astype(np.float64) for part in parts))


def fit_network(data: PaperData, seed: int = SEED) -> TanhNetwork:
    """A network like the published ones, where their weights are not at hand: 50 tanh units, by scikit-learn."""
    network = _sklearn("neural_network").MLPClassifier((50,), activation="tanh", max_iter=100, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a hundred epochs are what is asked for, converged or not
        network.fit(data.X_train, data.y_train)
    second = np.concatenate([np.zeros_like(network.coefs_[1].T), network.coefs_[1].T])
    return TanhNetwork(
        network.coefs_[0].T, network.intercepts_[0], second, np.array([0.0, float(network.intercepts_[1][0])])
    )


def make_model(kind: str, data: PaperData, folder: Path | None) -> Any:
    """A fitted model: scikit-learn's with its default settings, or the published network."""
    if kind == "logistic":
        return _sklearn("linear_model").LogisticRegression().fit(data.X_train, data.y_train)
    if kind == "forest":
        forest = _sklearn("ensemble").RandomForestClassifier(random_state=SEED)
        return forest.fit(data.encoded[data.train], data.y_train)
    if kind == "network":
        published = folder is not None and (folder / f"nn_weights_{data.name}.npz").is_file()
        return load_network(data.name, folder) if published and folder is not None else fit_network(data)
    raise InvalidArgumentError(f"`kind` must be one of {', '.join(NAMES)}; got {kind!r}.")


def _sklearn(module: str) -> Any:
    return require(f"sklearn.{module}", extra="reproduce", feature="A model of the paper")
