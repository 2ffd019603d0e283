"""Fits of SMT's multi-fidelity kriging: `<python of the smt peer> benchmarks/peers/smt_train.py`.

One JSON command a line, one JSON answer a line (serving.py): `{"case": "n106", "seed": 0}`. MFK with its own defaults
but for the noise, which it learns, on the aligned inputs: task 2 is the low fidelity, task 1 the high one. Its
likelihood is not our bound, so there is no objective to compare.
"""

from serving import cold_and_warm, limit_threads, serve

limit_threads()

import warnings  # noqa: E402
from importlib.metadata import version  # noqa: E402

import numpy as np  # noqa: E402
from smt.applications import MFK  # noqa: E402

from problems import problem  # noqa: E402

DEFAULTS = {"seed": 0, "seconds": 1e9}


def answer(command):
    """Obey one command; SMT's optimiser knows no limit, so a command that may take long is the parent's to end."""
    settings = {**DEFAULTS, **command}
    unknown = sorted(set(settings) - set(DEFAULTS) - {"case"})
    if unknown:
        raise ValueError(f"There is no setting {unknown}.")
    values = problem(settings["case"], settings["seed"])
    (high, low), (y_high, y_low) = values["aligned"], values["y"]

    def train(_, _clock):
        model = MFK(theta0=[1e-2] * low.shape[1], eval_noise=True, print_global=False, seed=settings["seed"])
        model.set_training_values(low, y_low, name=0)
        model.set_training_values(high, y_high)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.train()
        return 1

    return cold_and_warm(lambda: None, train, settings["seconds"])


if __name__ == "__main__":
    serve(answer, {"smt": version("smt"), "numpy": np.__version__})
