"""A weighted mixture of a few exact-GP forms of every task: the model behind ``calibration="auto"``.

The tasks with enough rows are *sources*: a linear model of coregionalization on the common domain, whose posterior is
computed once (sources.py). A task is then explained by several *forms*, which differ in what the prior mapping g0 is
taken for (forms.py); hyperparameters of each are marginalised (sampling.py) or at their maximum a posteriori, and the
forms are weighted by leave-one-out predictive density and evidence (members.py, weights.py). Predictions are mixtures
(target.py). Everything is exact and in NumPy: matrices are as small as the target, and nothing is compiled.
"""

from aligngp.ensemble.fit import Fitting, fit_ensemble
from aligngp.ensemble.left_out import left_out_moments
from aligngp.ensemble.model import Ensemble

__all__ = ["Ensemble", "Fitting", "fit_ensemble", "left_out_moments"]
