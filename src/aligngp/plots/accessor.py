"""``gp.plot``: every figure of one fitted model as a method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aligngp.findings.view import View
from aligngp.plots import alignment, curves, diagnostics, diagonal


class Plots:
    """Figures of a fitted model; each returns its matplotlib Axes and draws into ``ax`` where that is passed."""

    def __init__(self, gp: View):
        self._gp = gp

    def predictions(
        self,
        task: str,
        inputs: str | Sequence[str] | None = None,
        *,
        at: Mapping[str, Any] | None = None,
        span: Mapping[str, Any] | None = None,
        level: float = 0.95,
        latent: bool = False,
        ax: Any = None,
    ) -> Any:
        """Predictions with their band over one or two inputs, the others held at ``at``."""
        return curves.predictions(self._gp, task, inputs, at=at, span=span, level=level, latent=latent, ax=ax)

    def observed(self, task: str, data: Any = None, *, ax: Any = None) -> Any:
        """Predicted against observed with 95% bars: training rows each left out, or ``data`` with outputs."""
        return diagonal.observed(self._gp, task, data, ax=ax)

    def aligned(self, task: str, data: Any = None, *, columns: Sequence[str] | None = None, ax: Any = None) -> Any:
        """Prior and posterior aligned inputs in the common domain."""
        return alignment.aligned(self._gp, task, data, columns=columns, ax=ax)

    def residual(self, task: str, data: Any = None, *, against: str | None = None, ax: Any = None) -> Any:
        """What calibration adds to the prior mapping."""
        return alignment.residual(self._gp, task, data, against=against, ax=ax)

    def nu_g0(self, *others: View, task: str | None = None, ax: Any = None) -> Any:
        """The prior variance nu_g0 of the mapping, here and in other fits."""
        return alignment.nu_g0([self._gp, *others], task, ax=ax)

    def objective(self, *, ax: Any = None) -> Any:
        """The objective while training, and its terms at the end."""
        return diagnostics.objective(self._gp, ax=ax)

    def terms(self, *, ax: Any = None) -> Any:
        """The terms of the objective at the fitted parameters."""
        return diagnostics.terms(self._gp, ax=ax)

    def calibration(self, task: str, data: Any = None, *, ax: Any = None) -> Any:
        """Coverage of intervals of every level, and PIT values."""
        return diagnostics.calibration(self._gp, task, data, ax=ax)

    def correlation(self, *, ax: Any = None) -> Any:
        """The correlation of the tasks' functions."""
        return diagnostics.correlation(self._gp, ax=ax)

    def relevance(self, task: str, *, ax: Any = None) -> Any:
        """How much each input can move a task's function, by the fitted lengthscales."""
        return diagnostics.relevance(self._gp, task, ax=ax)

    def partial_dependence(self, task: str, column: str, data: Any = None, *, span: Any = None, ax: Any = None) -> Any:
        """What an input does to the mean, averaged over rows."""
        return curves.partial_dependence(self._gp, task, column, data, span=span, ax=ax)
