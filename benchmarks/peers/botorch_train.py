"""Fits of BoTorch's exact multi-task GPs: `<python of the torch peer> benchmarks/peers/botorch_train.py`.

One JSON command a line, one JSON answer a line (serving.py):

    {"case": "n106", "seed": 0, "model": "multitask"}

`multitask` is MultiTaskGP on the aligned inputs, `heterogeneous` HeterogeneousMTGP on each task's own inputs (the
first columns of task 1 are task 2's), both fitted by `fit_gpytorch_mll` as BoTorch's documentation does; `seconds` is
its timeout. Their marginal likelihoods have priors and another kernel, so there is no objective to compare.
"""

from serving import cold_and_warm, limit_threads, serve

limit_threads()

import warnings  # noqa: E402

import botorch  # noqa: E402
import gpytorch  # noqa: E402
import torch  # noqa: E402
from botorch.fit import fit_gpytorch_mll  # noqa: E402
from botorch.models import MultiTaskGP  # noqa: E402
from botorch.models.heterogeneous_mtgp import HeterogeneousMTGP  # noqa: E402
from botorch.models.transforms.input import Normalize  # noqa: E402
from gpytorch.mlls import ExactMarginalLogLikelihood  # noqa: E402

from problems import problem  # noqa: E402

torch.set_num_threads(1)
torch.set_num_interop_threads(1)
torch.set_default_dtype(torch.float64)

DEFAULTS = {"seed": 0, "seconds": 1e9}


def multitask(values):
    """MultiTaskGP on the aligned inputs; the task's number is the last column."""
    rows = [torch.tensor(x) for x in values["aligned"]]
    tasks = [torch.full((len(x), 1), float(t)) for t, x in enumerate(rows)]
    x = torch.cat([torch.cat(rows), torch.cat(tasks)], 1)
    dims = x.shape[1] - 1
    y = torch.cat([torch.tensor(y) for y in values["y"]])[:, None]
    return MultiTaskGP(x, y, task_feature=-1, input_transform=Normalize(d=dims + 1, indices=list(range(dims))))


def heterogeneous(values):
    """HeterogeneousMTGP on each task's own inputs."""
    columns = [x.shape[1] for x in values["X"]]
    full = max(columns)
    return HeterogeneousMTGP(
        [torch.tensor(x) for x in values["X"]],
        [torch.tensor(y)[:, None] for y in values["y"]],
        train_Yvars=None,
        feature_indices=[list(range(count)) for count in columns],
        full_feature_dim=full,
        input_transform=Normalize(d=full + 1, indices=list(range(full))),
    )


MODELS = {"multitask": multitask, "heterogeneous": heterogeneous}


def answer(command):
    """Obey one command."""
    settings = {**DEFAULTS, **command}
    unknown = sorted(set(settings) - set(DEFAULTS) - {"case", "model"})
    if unknown or settings.get("model") not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, and there is no setting {unknown}.")
    values = problem(settings["case"], settings["seed"])

    def train(_, clock):
        torch.manual_seed(settings["seed"])
        model = MODELS[settings["model"]](values)
        steps = 0

        def count(_parameters, _result):
            nonlocal steps
            steps += 1

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an end by the timeout is a warning, and stands in the answer as a time
            fit_gpytorch_mll(
                ExactMarginalLogLikelihood(model.likelihood, model),
                optimizer_kwargs={"timeout_sec": clock.limit, "callback": count},
            )
        return steps

    return cold_and_warm(lambda: None, train, settings["seconds"])


if __name__ == "__main__":
    serve(answer, {"botorch": botorch.__version__, "gpytorch": gpytorch.__version__, "torch": torch.__version__})
