"""Which coalitions are looked at. Know the number of players only."""
