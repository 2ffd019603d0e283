"""Figures (extra ``plot``) of fitted models; matplotlib is imported only when one is drawn.

``gp.plot.observed("fine")`` and ``aligngp.plots.observed(gp, "fine")`` are the same; ``nu_g0`` takes several fits.
"""

from aligngp.plots.accessor import Plots
from aligngp.plots.alignment import aligned, nu_g0, residual
from aligngp.plots.curves import partial_dependence, predictions
from aligngp.plots.diagnostics import calibration, correlation, objective, relevance, terms
from aligngp.plots.diagonal import observed, predicted_against_observed

__all__ = [
    "Plots",
    "aligned",
    "calibration",
    "correlation",
    "nu_g0",
    "objective",
    "observed",
    "partial_dependence",
    "predicted_against_observed",
    "predictions",
    "relevance",
    "residual",
    "terms",
]
