"""Suggest the next evaluation with BoTorch: a worker for the optimisation benchmark.

Run inside the peer's environment. A command has the target's rows `X` (n, D) in the unit cube and outputs `y` (n,),
to be maximised, and for `"model": "heterogeneous"` the source's rows `Xs`, outputs `ys` and the `features` of both in
the target's columns; the answer has the next `x` (D,). `"model": "target"` is a SingleTaskGP. Priors, kernels and
training are BoTorch's defaults, the acquisition is LogExpectedImprovement, optimised by optimize_acqf.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import serving

serving.limit_threads()

import warnings  # noqa: E402

import botorch  # noqa: E402
import gpytorch  # noqa: E402
import torch  # noqa: E402
from botorch.acquisition import LogExpectedImprovement  # noqa: E402
from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction  # noqa: E402
from botorch.fit import fit_gpytorch_mll  # noqa: E402
from botorch.models import SingleTaskGP  # noqa: E402
from botorch.models.heterogeneous_mtgp import HeterogeneousMTGP  # noqa: E402
from botorch.optim import optimize_acqf  # noqa: E402
from gpytorch.mlls import ExactMarginalLogLikelihood  # noqa: E402

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
warnings.simplefilter("ignore")
RESTARTS, SCREENED = 8, 256


def standardised(values):
    """Outputs (n, 1) of zero mean and unit variance."""
    y = torch.as_tensor(values)[:, None]
    return (y - y.mean()) / y.std().clamp_min(1e-12)


def answer(command):
    """Return the next row."""
    torch.manual_seed(command["seed"])
    X, y = torch.as_tensor(command["X"]), standardised(command["y"])
    dimensions = X.shape[1]
    if command["model"] == "target":
        model = SingleTaskGP(X, y, outcome_transform=None)
    else:
        model = HeterogeneousMTGP(
            train_Xs=[X, torch.as_tensor(command["Xs"])],
            train_Ys=[y, standardised(command["ys"])],
            train_Yvars=None,
            feature_indices=command["features"],
            full_feature_dim=dimensions,
        )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acquisition = LogExpectedImprovement(model, best_f=y.max())
    if command["model"] != "target":
        acquisition = FixedFeatureAcquisitionFunction(acquisition, d=dimensions + 1, columns=[dimensions], values=[0.0])
    bounds = torch.stack([torch.zeros(dimensions), torch.ones(dimensions)])
    found, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=RESTARTS, raw_samples=SCREENED)
    return {"x": found[0].tolist()}


if __name__ == "__main__":
    serving.serve(
        answer, {"botorch": botorch.__version__, "gpytorch": gpytorch.__version__, "torch": torch.__version__}
    )
