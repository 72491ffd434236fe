"""Plans and carries out explanations."""
