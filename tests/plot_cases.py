"""Explanations of any size to draw, and what can be read off a figure."""

import matplotlib as mpl
import numpy as np

from controlshap.results.explanation import Explanation, History

mpl.use("Agg")
LONG = (
    "Total amount of all outstanding revolving credit lines no {} (USD)",
    "customer_relationship_duration_in_months_since_first_{}_contract",
    "age {}",
    "$income_{}$ of & <b>the</b> \"household\" <script>'alert'</script>",
)
TABLES = ("bar", "waterfall", "beeswarm", "ranking", "variance_reduction")
ALL = (*TABLES, "dependence", "convergence", "interactions")


def make(p=4, rows=6, outputs=0, kind="sampled", seed=0, scale=1.0):
    """An explanation of any size, with categories, truth values and missing data among its players."""
    rng = np.random.default_rng(seed)
    names = tuple(LONG[i % 4].format(i) for i in range(p))
    many = (outputs,) if outputs else ()
    X = rng.normal(size=(rows, p))
    data = X.astype(object)
    if p >= 3:
        data[:, 1] = np.array(["single", "married", "divorced, separated or widowed"], dtype=object)[
            (X[:, 1] > 0).astype(int) + (X[:, 1] > 1)
        ]
        data[:, 2] = X[:, 2] > 0
        data[::3, 0] = np.nan
        data[0, 1] = None
    values = np.tanh(X) * rng.permutation(np.exp(-np.arange(p) / (p / 4 + 1))) * scale
    if outputs:
        values = np.stack([values * (k + 1) * (-1) ** k for k in range(outputs)], axis=2)
    roots = rng.normal(size=(p, p + 4)) * 0.03 / np.sqrt(p + 4) * scale
    one = roots @ roots.T * (kind == "sampled")
    covariance = np.broadcast_to(one, (rows, *many, p, p)).copy()
    errors = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    errors = np.moveaxis(errors, 1, 2) if outputs else errors
    plain = errors * 3.0 + (0.1 * scale if kind == "infinite" else 0.0)
    base = np.full((rows, *many), 0.3 * scale)
    looks = np.array([200, 1000, 8000])
    history = tuple(
        History(
            looks,
            np.stack([values[r] * (1 + 1 / k) for k in looks]),
            np.stack([errors[r] * 3, errors[r] * 2, errors[r]]),
        )
        for r in range(rows)
    )
    n_pairs = p * (p - 1) // 2
    pairs = rng.normal(size=(rows, n_pairs, *many)) * np.exp(-np.arange(n_pairs))[:, *[None] * len(many)] * scale
    pair_errors = np.full(pairs.shape, 0.02 * scale * (kind == "sampled"))
    return Explanation(
        values=values, standard_errors=errors, base_values=base, base_standard_errors=base * 0,
        uncontrolled_values=values, uncontrolled_standard_errors=plain, variance_reduction=values * 0,
        degrees_of_freedom=np.full(values.shape, 40.0 if kind == "sampled" else np.inf), covariance=covariance,
        n_evaluations=np.full(rows, 8000), status=np.array(["exact" if kind == "exact" else "converged"] * rows),
        method=np.array(["walks"] * rows), controls=np.array(["" if kind == "exact" else "Trees 1.00"] * rows),
        data=data, feature_names=names, column_names=names, player_columns=tuple((i,) for i in range(p)),
        output_names=("bad $risk$", "good & cheap", "a very long name of an output")[:outputs] if outputs else None,
        entropy=0, settings={}, look_shares=np.ones(rows), complete=np.ones(rows, dtype=bool), history=history,
        stages=((100, 500, 4000),) * rows, interaction_indices=pairs, interaction_standard_errors=pair_errors,
        interaction_degrees_of_freedom=np.full(pairs.shape, 40.0 if kind == "sampled" else np.inf),
    )  # fmt: skip


def call(explanation, name, **arguments):
    first = (0,) if name == "dependence" else ()
    if name in ("dependence", "interactions"):
        arguments.pop("max_players", None)
    return getattr(explanation.plot, name)(*first, **arguments)


def texts_of(figure):
    """Every text that is drawn, with its box in pixels."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    hidden = set().union(*(hidden_ticks(ax) for ax in figure.axes))
    return [
        (text, mpl.text.Text.get_window_extent(text, renderer))  # without the line that leads to an annotation
        for text in figure.findobj(mpl.text.Text)
        if text.get_visible() and text.get_text().strip() and text not in hidden
    ]


def assert_readable(figure):
    """No text is cut off by the canvas, and no two texts touch."""
    found = texts_of(figure)
    boxes = np.array([box.extents for _, box in found])
    width, height = figure.canvas.get_width_height()
    outside = (boxes < -1).any(axis=1) | (boxes[:, 2] > width + 1) | (boxes[:, 3] > height + 1)
    assert not outside.any(), [(found[i][0].get_text(), boxes[i], (width, height)) for i in np.flatnonzero(outside)]
    across = np.minimum(boxes[:, None, 2], boxes[:, 2]) - np.maximum(boxes[:, None, 0], boxes[:, 0])
    along = np.minimum(boxes[:, None, 3], boxes[:, 3]) - np.maximum(boxes[:, None, 1], boxes[:, 1])
    # a box holds a line's full height, of which letters leave a little free; boxes of slanted labels say nothing
    slanted = np.array([text.get_rotation() % 90 != 0 for text, _ in found])
    touching = (across > 1) & (along > 2) & ~slanted[:, None] & ~slanted & ~np.eye(len(found), dtype=bool)
    assert not touching.any(), [[found[i][0].get_text() for i in pair] for pair in np.argwhere(np.triu(touching))]


def hidden_ticks(ax):
    found = set()
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        slack = 1e-9 * (high - low)
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not low - slack <= tick.get_loc() <= high + slack:
                found |= {tick.label1, tick.label2}
    return found


def labels_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def intervals_of(ax):
    """Ends of the drawn intervals `(n, 2)`, the longer coordinate."""
    found = []
    for lines in (one for one in ax.collections if isinstance(one, mpl.collections.LineCollection)):
        for (x0, y0), (x1, y1) in lines.get_segments():
            found.append((y0, y1) if x0 == x1 else (x0, x1))
    return np.array(found).reshape(-1, 2)
