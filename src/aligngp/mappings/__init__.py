"""Mappings: how the inputs of a task become inputs of the common domain.

``prior.py`` holds what a user writes, in raw units; the other modules hold what the model does with it.
"""
