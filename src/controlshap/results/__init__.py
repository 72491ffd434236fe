"""What an explanation holds and how it reads."""
