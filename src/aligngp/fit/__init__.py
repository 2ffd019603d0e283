"""Fitting: initial values, optimisers, the order of things."""
