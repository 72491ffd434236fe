"""Plots on a dark background: the colours of `canvas` exchanged for lighter ones of the same meaning.

A plot is drawn in the colours of a light page. Where matplotlib's style has dark axes (`dark_background`, say), the
finished plot is repainted, so that no plot needs a second set of colours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from controlshap.plots import canvas

#: Each colour of a light page, and what stands for it on a dark one.
ON_DARK = {
    canvas.POSITIVE: "#EE8B56",
    canvas.NEGATIVE: "#63A9E6",
    canvas.PALE_POSITIVE: "#7A4A31",
    canvas.PALE_NEGATIVE: "#35597A",
    canvas.UNSIGNED: "#93A9BC",
    canvas.INK: "#EDEDED",
    canvas.SOFT: "#B4B4B4",
    canvas.LINE: "#7A7A7A",
    canvas.FAINT: "#5E5E5E",
    canvas.GRID: "#3A3A3A",
    canvas.NO_SIZE: "#9B9B9B",
    "#0072B2": "#56A8E8",
    "#6B4C9A": "#A88BD8",
}
#: Properties of artists that hold a colour.
PROPERTIES = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")


def follow_style(ax: Any) -> Any:
    """Repaint a finished plot where its axes are dark; returns the axes."""
    if not canvas.is_dark(ax):
        return ax
    from matplotlib.colors import to_hex

    exchange = {to_hex(light): dark for light, dark in ON_DARK.items()}
    own = [ax, *(other for other in ax.figure.axes if other.get_label() == "<colorbar>")]
    for part in own:
        for artist in part.findobj():
            if artist is not part.patch:
                _repaint(artist, exchange)
                if getattr(artist, "get_markerfacecolor", lambda: None)() == "white":  # a hollow mark
                    artist.set_markerfacecolor(ax.get_facecolor())
        for axis in ("x", "y"):
            # ticks that a later draw makes
            part.tick_params(axis=axis, color=ON_DARK[canvas.LINE], grid_color=ON_DARK[canvas.GRID])
        part.tick_params(axis="x", labelcolor=ON_DARK[canvas.INK])
    return ax


def _repaint(artist: Any, exchange: dict[str, str]) -> None:
    from matplotlib.colors import to_hex, to_rgba, to_rgba_array

    for name in PROPERTIES:
        read, write = getattr(artist, f"get_{name}", None), getattr(artist, f"set_{name}", None)
        if read is None or write is None:
            continue
        found = read()
        if isinstance(found, np.ndarray) and found.ndim == 2:  # a collection has one for each of its parts
            hexes = [to_hex(colour) for colour in found]
            if any(colour in exchange for colour in hexes):
                repainted = to_rgba_array([exchange.get(colour, colour) for colour in hexes])
                repainted[:, 3] = found[:, 3]
                write(repainted)
        elif not isinstance(found, str) or found not in ("none", "auto"):
            colour = to_hex(found)
            if colour in exchange:
                write((*to_rgba(exchange[colour])[:3], to_rgba(found)[3]))
