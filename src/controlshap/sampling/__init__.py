"""Games of one row, evaluated unit by unit."""
