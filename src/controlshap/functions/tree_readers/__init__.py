"""Trees of several libraries as leaf boxes."""
