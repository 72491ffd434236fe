"""The mean of a logistic function of a normal variable.

    sigmoid(z) = sum_k share_k Phi(slope_k z)      to 1.4e-8 everywhere

(a scale mixture of normals, after Monahan and Stefanski; the constants are our own minimax fit), and a normal variable
inside a Phi only widens it: `E Phi(a (m + s Z)) = Phi(a m / sqrt(1 + a^2 s^2))`.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from controlshap._types import FloatArray
from controlshap.functions.network import Network

SHARES = (
    0.003573508584,
    0.055318569299,
    0.209362033476,
    0.345324152969,
    0.282413821443,
    0.096246004285,
    0.007761909944,
)
SLOPES = (
    0.252096727575,
    0.333908644941,
    0.438327406756,
    0.575077144641,
    0.752282197877,
    0.981363997335,
    1.290953666966,
)


def smoothed_logistic(means: FloatArray, variances: FloatArray) -> FloatArray:
    """`E sigmoid(mean + sqrt(variance) Z)`."""
    total = np.zeros(np.broadcast_shapes(means.shape, variances.shape))
    for share, slope in zip(SHARES, SLOPES, strict=True):
        total += share * ndtr(slope * means / np.sqrt(1.0 + slope**2 * variances))
    return total


def smoothed_network(network: Network, means: FloatArray, variances: FloatArray) -> FloatArray:
    """The mean of a network whose scores are normal.

    Parameters
    ----------
    means, variances : ndarray of shape (..., units + 1)
        Of `weights . r`, and last of `linear . r` (whose variance does not matter).
    """
    hidden = smoothed_logistic(means[..., :-1] + network.intercepts, variances[..., :-1])
    values: FloatArray = network.constant + means[..., -1] + hidden @ network.scales
    return values
