"""Gradients and Hessians at the explained row: automatic, in closed form, or by finite differences."""
