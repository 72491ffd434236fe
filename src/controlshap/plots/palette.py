"""Colours that stay apart for colour-blind readers and on paper. Few, and the same in every picture."""

from __future__ import annotations

from typing import Any

#: Signs of values, and a paler tone of each where the sign is not certain.
POSITIVE, NEGATIVE = "#C8602B", "#2E6CA4"
PALE_POSITIVE, PALE_NEGATIVE = "#EBC8B5", "#B5CCE1"
#: Text and intervals, second-rank text, lines, crowded intervals, grid.
INK, SOFT, LINE, FAINT, GRID = "#2B2B2B", "#6A6A6A", "#A8A8A8", "#C9C9C9", "#E6E6E6"
#: Data without a size: categories, missing.
NO_SIZE = "#9B9B9B"
#: Okabe and Ito's colours, for lines and categories; the yellow is left out, which is too light for lines.
SEVERAL = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#6B4C9A")


def data_colours() -> Any:
    """Colour map of data, low to high; viridis without its yellow end, which is too light on white."""
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("controlshap", colormaps["viridis"]([i / 255 * 0.87 for i in range(256)]))


def sign_colours(values: Any, uncertain: Any) -> list[str]:
    """One colour for each value."""
    return [
        (PALE_NEGATIVE if pale else NEGATIVE) if value < 0 else (PALE_POSITIVE if pale else POSITIVE)
        for value, pale in zip(values, uncertain, strict=True)
    ]
