"""Fit BoTorch's multi-task models for heterogeneous inputs: a worker for the accuracy benchmark.

Run inside the peer's environment. It prints `{"ready": true, ...}`, then reads one JSON command a line from standard
input and answers each with one JSON line, an error as `{"error": ...}`:

    {"model": "heterogeneous", "file": "instance.npz", "features": [[0, 1, 2, 3], [2, 3]], "seed": 0}

`model` is heterogeneous (HeterogeneousMTGP) or imputation (MultiTaskGP with LearnedFeatureImputation). The file has the
training rows `X0`, `y0` (the target), `X1`, `y1`, ... and the target's new rows `X_test`; `features` says for every
task which columns of the joint feature space its own columns are: equal names are the same column. `iterations` (may be
left out) limits L-BFGS. The answer has

    mean, variance         of the observations at the new rows, in the units of y0
    seconds, cpu_seconds   of making and fitting the model

Inputs are scaled to the unit cube by the training rows of all tasks that have the column, outputs to zero mean and unit
variance task by task, as BoTorch's documentation asks for; all else is BoTorch's default: its priors, its kernels, its
L-BFGS with restarts on failure. `ALIGNGP_PEER_THREADS` (default 1) is the number of threads.
"""

import json
import os
import sys
import time
import warnings

THREADS = int(os.environ.get("ALIGNGP_PEER_THREADS", "1"))
for library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[library] = str(THREADS)

import botorch  # noqa: E402  (its libraries read the environment when they are loaded)
import gpytorch  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from botorch.fit import fit_gpytorch_mll  # noqa: E402
from botorch.models import MultiTaskGP  # noqa: E402
from botorch.models.heterogeneous_mtgp import HeterogeneousMTGP  # noqa: E402
from botorch.models.transforms.input import LearnedFeatureImputation  # noqa: E402
from gpytorch.mlls import ExactMarginalLogLikelihood  # noqa: E402

torch.set_num_threads(THREADS)
torch.set_default_dtype(torch.float64)
warnings.simplefilter("ignore")

MODELS = ("heterogeneous", "imputation")
VERSIONS = {"botorch": botorch.__version__, "gpytorch": gpytorch.__version__, "torch": torch.__version__}


def unit_cube(inputs, features):
    """Lower ends and widths (d,) of the joint features over all tasks' rows; a constant column has width 1."""
    dimensions = 1 + max(max(columns) for columns in features)
    lower, upper = np.full(dimensions, np.inf), np.full(dimensions, -np.inf)
    for X, columns in zip(inputs, features, strict=True):
        lower[columns] = np.minimum(lower[columns], X.min(axis=0))
        upper[columns] = np.maximum(upper[columns], X.max(axis=0))
    width = upper - lower
    return lower, np.where(width > 0, width, 1.0)


def standardised(y):
    """Outputs (n, 1) with zero mean and unit variance, and the two numbers."""
    mean, scale = y.mean(), y.std(ddof=1) if y.size > 1 else 1.0
    scale = scale if scale > 0 else 1.0
    return torch.as_tensor((y - mean) / scale)[:, None], mean, scale


def padded(X, columns, dimensions, task):
    """Rows in the joint feature space, zeros where a task has no such column, and the task's number as the last."""
    full = torch.zeros(X.shape[0], dimensions + 1)
    full[:, columns] = torch.as_tensor(X)
    full[:, -1] = task
    return full


def fitted(model, inputs, outputs, features, dimensions, iterations):
    """The model of that name, trained by the marginal likelihood."""
    if model == "heterogeneous":
        gp = HeterogeneousMTGP(
            train_Xs=[torch.as_tensor(X) for X in inputs],
            train_Ys=outputs,
            train_Yvars=None,
            feature_indices=features,
            full_feature_dim=dimensions,
        )
    else:
        tables = zip(inputs, features, strict=True)
        rows = [padded(X, columns, dimensions, task) for task, (X, columns) in enumerate(tables)]
        gp = MultiTaskGP(
            train_X=torch.cat(rows),
            train_Y=torch.cat(outputs),
            task_feature=-1,
            output_tasks=[0],
            outcome_transform=None,  # done above, task by task
            input_transform=LearnedFeatureImputation(
                feature_indices=dict(enumerate(features)),
                d=dimensions,
                bounds=torch.stack([torch.zeros(dimensions), torch.ones(dimensions)]),
            ),
        )
    options = {} if iterations is None else {"optimizer_kwargs": {"options": {"maxiter": iterations}}}
    fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp), **options)
    return gp


def answer(line):
    """Obey one command."""
    command = json.loads(line)
    model, features = command["model"], command["features"]
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}; it is {model!r}.")
    with np.load(command["file"]) as file:
        data = {name: file[name] for name in file.files}
    torch.manual_seed(command["seed"])
    raw = [data[f"X{task}"] for task in range(len(features))]
    lower, width = unit_cube(raw, features)
    inputs = [(X - lower[columns]) / width[columns] for X, columns in zip(raw, features, strict=True)]
    scaled = [standardised(data[f"y{task}"]) for task in range(len(features))]
    _, centre, spread = scaled[0]
    start, cpu = time.perf_counter(), time.process_time()
    gp = fitted(model, inputs, [y for y, _, _ in scaled], features, len(lower), command.get("iterations"))
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    new = (data["X_test"] - lower[features[0]]) / width[features[0]]
    # the heterogeneous model takes the target's own columns and fills in the others itself
    own = model == "heterogeneous"
    rows = padded(new, list(range(new.shape[1])) if own else features[0], new.shape[1] if own else len(lower), 0)
    with torch.no_grad():
        posterior = gp.posterior(rows, observation_noise=True)
        mean, variance = posterior.mean.squeeze(-1).numpy(), posterior.variance.squeeze(-1).numpy()
    return {
        "mean": (centre + spread * mean).tolist(),
        "variance": (spread**2 * variance).tolist(),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        **VERSIONS,
    }


def main():
    """Answer commands until standard input ends."""
    print(json.dumps({"ready": True, "threads": THREADS, **VERSIONS}), flush=True)
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            reply = answer(line)
        except Exception as error:  # the parent decides what a failed command means
            message = str(error).partition("\n")[0]
            reply = {"error": f"{type(error).__name__}: {message}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
