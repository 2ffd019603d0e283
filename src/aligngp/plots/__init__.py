"""Figures (extra ``plot``); matplotlib is imported only when one is drawn."""

from aligngp.plots.observed import predicted_against_observed

__all__ = ["predicted_against_observed"]
