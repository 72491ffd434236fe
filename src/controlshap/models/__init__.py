"""Any model as one float function."""
